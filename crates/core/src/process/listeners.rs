//! The TCP sockets that listen in a network namespace.
//!
//! The kernel answers on a socket for diagnosis with just these (sock_diag(7)). Its tables in /proc have all connections of the
//! machine, so they take up to 100 times as long; they are for kernels that have no diagnosis, and for namespaces in which
//! this process has no such socket.

use nacre_isolation::network;
use nix::sys::socket::{MsgFlags, NetlinkAddr, recvmsg, send};
use std::fmt::Display;
use std::fs::File;
use std::io::{self, BufRead, BufReader, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};

/// The state column of a listening socket in `/proc/net/tcp` (proc(5)).
const LISTEN_COLUMN: &str = "0A";

/// `SOCK_DIAG_BY_FAMILY` of `linux/sock_diag.h`.
const BY_FAMILY: u16 = 20;
/// The state of a listening socket (`net/tcp_states.h`).
const LISTEN: u32 = 10;
const TCP: u8 = libc::IPPROTO_TCP as u8;

/// Bytes of `struct nlmsghdr` and of `struct inet_diag_msg`.
const HEADER: usize = 16;
const MESSAGE: usize = 72;
/// Of `struct inet_diag_req_v2`: the family, the protocol, and the states; then an address that is not asked for.
const QUESTION: usize = HEADER + 56;
/// The kernel fills at most so many bytes at a time.
const ANSWER: usize = 32 * 1024;

/// A socket that listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Listener {
    /// Where.
    pub address: SocketAddr,
    /// No other socket has this number while it is open.
    pub inode: u64,
}

/// Everything that listens in the network namespace of this process.
pub fn listeners_here() -> Vec<Listener> {
    let found = network::open_diagnosis().and_then(|socket| Kernel::new(socket).listeners());
    found.unwrap_or_else(|_| listeners("self"))
}

/// A socket for diagnosis.
#[derive(Debug)]
pub struct Kernel {
    socket: OwnedFd,
    /// Of the last question.
    number: u32,
}

impl Kernel {
    /// Takes a socket of [`network::open_diagnosis`].
    pub fn new(socket: OwnedFd) -> Self {
        Self { socket, number: 0 }
    }

    /// Everything that listens in the network namespace in which the socket was made.
    ///
    /// # Errors
    /// The kernel has no diagnosis for TCP.
    pub fn listeners(&mut self) -> io::Result<Vec<Listener>> {
        let mut found = Vec::new();
        let mut answer = vec![0; ANSWER];
        for family in [libc::AF_INET, libc::AF_INET6] {
            self.number = self.number.wrapping_add(1);
            send(self.socket.as_raw_fd(), &question(family as u8, self.number), MsgFlags::MSG_DONTWAIT)?;
            loop {
                let mut buffer = [IoSliceMut::new(&mut answer)];
                let received =
                    recvmsg::<NetlinkAddr>(self.socket.as_raw_fd(), &mut buffer, None, MsgFlags::MSG_DONTWAIT)?;
                // Processes can write to such a socket, too.
                let (length, is_kernel) = (received.bytes, received.address.is_some_and(|sender| sender.pid() == 0));
                if is_kernel
                    && read_answer(&answer[..length], self.number, &mut found).ok_or(io::ErrorKind::InvalidData)?
                {
                    break;
                }
            }
        }
        Ok(found)
    }
}

fn question(family: u8, number: u32) -> [u8; QUESTION] {
    let mut question = [0; QUESTION];
    question[..4].copy_from_slice(&(QUESTION as u32).to_ne_bytes());
    question[4..6].copy_from_slice(&BY_FAMILY.to_ne_bytes());
    let flags = (libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16;
    question[6..8].copy_from_slice(&flags.to_ne_bytes());
    question[8..12].copy_from_slice(&number.to_ne_bytes());
    question[HEADER] = family;
    question[HEADER + 1] = TCP;
    question[HEADER + 4..HEADER + 8].copy_from_slice(&(1_u32 << LISTEN).to_ne_bytes());
    question
}

/// Reads some messages, of which those of earlier questions do not count. True after the last one of the answer; none for an
/// error, or what is no answer.
fn read_answer(mut messages: &[u8], number: u32, found: &mut Vec<Listener>) -> Option<bool> {
    while !messages.is_empty() {
        let length = usize::try_from(u32::from_ne_bytes(array(messages, 0)?)).ok()?;
        let content = messages.get(HEADER..length)?;
        if u32::from_ne_bytes(array(messages, 8)?) == number {
            match i32::from(u16::from_ne_bytes(array(messages, 4)?)) {
                // With a negative errno, the answer is not whole.
                libc::NLMSG_DONE => return (i32::from_ne_bytes(array(content, 0)?) >= 0).then_some(true),
                kind if kind == i32::from(BY_FAMILY) => found.push(listener_of(content)?),
                _ => return None,
            }
        }
        messages = messages.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Some(false)
}

/// One `struct inet_diag_msg`.
fn listener_of(message: &[u8]) -> Option<Listener> {
    let port = u16::from_be_bytes(array(message, 4)?);
    let ip = match i32::from(*message.first()?) {
        libc::AF_INET => Ipv4Addr::from(array::<4>(message, 8)?).into(),
        _ => Ipv6Addr::from(array::<16>(message, 8)?).to_canonical(),
    };
    let inode = u32::from_ne_bytes(array(message, MESSAGE - 4)?).into();
    Some(Listener { address: SocketAddr::new(ip, port), inode })
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

/// The sockets that listen in the network namespace of a process, this process's own for `self`. None if the process has
/// ended.
pub fn listeners(process: impl Display) -> Vec<Listener> {
    let lines = ["tcp", "tcp6"].into_iter().filter_map(|table| File::open(format!("/proc/{process}/net/{table}")).ok());
    lines
        .flat_map(|table| BufReader::new(table).lines().map_while(Result::ok))
        .filter_map(|line| parse(&line))
        .collect()
}

/// One line: `sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode ...`.
fn parse(line: &str) -> Option<Listener> {
    let mut fields = line.split_ascii_whitespace().skip(1);
    let (local, _) = (fields.next()?, fields.next()?);
    if fields.next()? != LISTEN_COLUMN {
        return None;
    }
    let (ip, port) = local.rsplit_once(':')?;
    let address = SocketAddr::new(ip_of(ip)?, u16::from_str_radix(port, 16).ok()?);
    Some(Listener { address, inode: fields.nth(5)?.parse().ok()? })
}

/// An address in hexadecimal: words of 32 bits, each as a number of this machine.
fn ip_of(hex: &str) -> Option<IpAddr> {
    let word = |at: usize| Some(u32::from_str_radix(hex.get(at * 8..at * 8 + 8)?, 16).ok()?.to_ne_bytes());
    if hex.len() == 8 {
        return Some(Ipv4Addr::from(word(0)?).into());
    }
    let words = [word(0)?, word(1)?, word(2)?, word(3)?].concat();
    Some(Ipv6Addr::from(<[u8; 16]>::try_from(words).ok()?).to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message with the header of an answer to question 7.
    fn message(kind: i32, number: u32, content: &[u8]) -> Vec<u8> {
        let length = (HEADER + content.len()) as u32;
        let header = [length.to_ne_bytes(), (kind as u32).to_ne_bytes(), number.to_ne_bytes(), [0; 4]].concat();
        [&header, content].concat()
    }

    #[test]
    fn an_answer_has_the_listeners_and_an_end_without_an_error() {
        let mut content = [0; MESSAGE];
        content[0] = libc::AF_INET as u8;
        content[4..6].copy_from_slice(&8080_u16.to_be_bytes());
        content[8..12].copy_from_slice(&[127, 0, 0, 1]);
        content[MESSAGE - 4..].copy_from_slice(&40077_u32.to_ne_bytes());
        let one = message(BY_FAMILY.into(), 7, &content);
        let end = |errno: i32| message(libc::NLMSG_DONE, 7, &errno.to_ne_bytes());
        let read = |bytes: &[u8]| {
            let mut found = Vec::new();
            read_answer(bytes, 7, &mut found).map(|is_last| (is_last, found.len()))
        };
        let earlier = message(libc::NLMSG_DONE, 6, &0_i32.to_ne_bytes());
        assert_eq!(read(&[earlier, one.clone(), one.clone()].concat()), Some((false, 2)));
        assert_eq!(read(&[one.clone(), end(0)].concat()), Some((true, 1)));
        assert_eq!(read(&[one.clone(), end(-libc::ENOENT)].concat()), None);
        for wrong in [&[0; 3][..], &[0; HEADER], &one[..one.len() - 1], &message(libc::NLMSG_ERROR, 7, &[0; 20])] {
            assert_eq!(read(wrong), None);
        }
        let mut found = Vec::new();
        read_answer(&one, 7, &mut found);
        assert_eq!(found, [Listener { address: "127.0.0.1:8080".parse().unwrap(), inode: 40077 }]);
    }

    #[test]
    fn a_line_of_the_table_is_a_listener() {
        let line =
            "   3: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000  0 40077 1 0 100 0";
        let listener = |address: &str| Some(Listener { address: address.parse().unwrap(), inode: 40077 });
        if cfg!(target_endian = "little") {
            assert_eq!(parse(line), listener("127.0.0.1:8080"));
            let six = line.replace("0100007F", "00000000000000000000000001000000");
            assert_eq!(parse(&six), listener("[::1]:8080"));
        }
        assert_eq!(parse(&line.replace(" 0A ", " 01 ")), None);
        assert_eq!(parse("  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt"), None);
        assert_eq!(parse("   3: 0100:1F90 00000000:0000 0A"), None);
    }
}
