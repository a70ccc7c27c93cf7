//! The resolver of a session: DNS (RFC 1035) for programs that ignore the proxy.
//!
//! It asks no other resolver, so no program can send data out in names. Each name has an IPv4 address that stands for
//! it. Whether the name is allowed is decided when a program connects, since only then the port is known.

use super::PAUSE;
use super::hosts::Target;
use super::names::{Names, TIME_TO_LIVE};
use std::net::{Ipv4Addr, UdpSocket as StdSocket};
use std::os::fd::OwnedFd;
use tokio::net::UdpSocket;

/// Maximum bytes of a query. A name has at most 255, and options follow it.
const MAX_BYTES: usize = 4096;

/// `A`, the type of IPv4 addresses.
const ADDRESS: u16 = 1;
/// `IN`, the class of the internet.
const INTERNET: u16 = 1;

/// Response codes (RFC 1035, section 4.1.1).
#[derive(Clone, Copy)]
enum ResponseCode {
    NoError = 0,
    FormatError = 1,
    ServerFailure = 2,
    NameError = 3,
    NotImplemented = 4,
}

/// Answers datagrams. All answers are short, so that no program asks by TCP.
pub async fn serve(socket: OwnedFd, names: &Names) {
    let socket = StdSocket::from(socket);
    let Ok(socket) = socket.set_nonblocking(true).and_then(|()| UdpSocket::from_std(socket)) else { return };
    let mut query = [0; MAX_BYTES];
    loop {
        let Ok((length, client)) = socket.recv_from(&mut query).await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        if let Some(reply) = reply(&query[..length], names) {
            let _ = socket.send_to(&reply, client).await;
        }
    }
}

/// The reply to a query; `None` for what is none.
fn reply(query: &[u8], names: &Names) -> Option<Vec<u8>> {
    const IS_REPLY: u8 = 0x80;
    let (header, rest) = query.split_first_chunk::<12>()?;
    let [_, _, flags, _, count @ ..] = header;
    if flags & IS_REPLY != 0 {
        return None;
    }
    let is_standard = flags & 0x78 == 0;
    let question = DnsQuestion::read(rest).filter(|_| is_standard && count.starts_with(&[0, 1]));
    let (code, address) = match &question {
        None if is_standard => (ResponseCode::FormatError, None),
        None => (ResponseCode::NotImplemented, None),
        Some(question) => question.answer(names),
    };
    // The id, the opcode and the wish for recursion are those of the query; recursion is available.
    let counts: [u8; 8] = [0, question.is_some().into(), 0, address.is_some().into(), 0, 0, 0, 0];
    let mut reply = [&query[..2], &[IS_REPLY | flags & 0x79, 0x80 | code as u8], &counts].concat();
    reply.extend(question.iter().flat_map(|question| question.bytes));
    if let Some(address) = address {
        // A pointer to the name of the question, which follows the header.
        reply.extend([0xC0, 12]);
        reply.extend([ADDRESS, INTERNET].iter().flat_map(|number| number.to_be_bytes()));
        reply.extend(TIME_TO_LIVE.to_be_bytes());
        reply.extend([0, 4]);
        reply.extend(address.octets());
    }
    Some(reply)
}

/// The first question of a query.
struct DnsQuestion<'a> {
    name: String,
    kind: u16,
    class: u16,
    /// All of it, to repeat it in the reply.
    bytes: &'a [u8],
}

impl<'a> DnsQuestion<'a> {
    fn read(bytes: &'a [u8]) -> Option<Self> {
        const LONGEST_LABEL: u8 = 63;
        const LONGEST_NAME: usize = 255;
        let mut labels = Vec::new();
        let mut rest = bytes;
        loop {
            let (length, after) = rest.split_first().filter(|(length, _)| **length <= LONGEST_LABEL)?;
            if *length == 0 {
                rest = after;
                break;
            }
            labels.push(String::from_utf8_lossy(after.get(..usize::from(*length))?));
            rest = &after[usize::from(*length)..];
        }
        let (end, after) = rest.split_first_chunk::<4>()?;
        let [kind, class] = [[end[0], end[1]], [end[2], end[3]]].map(u16::from_be_bytes);
        let bytes = &bytes[..bytes.len() - after.len()];
        (bytes.len() <= LONGEST_NAME + 4).then(|| Self { name: labels.join("."), kind, class, bytes })
    }

    /// Names have no records but their address.
    fn answer(&self, names: &Names) -> (ResponseCode, Option<Ipv4Addr>) {
        let named = Target::new(&self.name, 1).filter(|target| target.address().is_none());
        let Some(Target { host, .. }) = named else { return (ResponseCode::NameError, None) };
        if (self.kind, self.class) != (ADDRESS, INTERNET) {
            return (ResponseCode::NoError, None);
        }
        // These names are those of the session itself (RFC 6761, section 6.3).
        if host == "localhost" || host.ends_with(".localhost") {
            return (ResponseCode::NoError, Some(Ipv4Addr::LOCALHOST));
        }
        match names.address_of(&host) {
            None => (ResponseCode::ServerFailure, None),
            address => (ResponseCode::NoError, address),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(name: &str, kind: u16) -> Vec<u8> {
        let labels = name.split('.').flat_map(|label| [&[label.len() as u8], label.as_bytes()].concat());
        let header = [0xAB, 0xCD, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1];
        let end = [kind.to_be_bytes(), INTERNET.to_be_bytes()].concat();
        // With options, as resolvers send them (RFC 6891).
        let options = [0, 0, 41, 16, 0, 0, 0, 0, 0, 0, 0];
        header.into_iter().chain(labels).chain([0]).chain(end).chain(options).collect()
    }

    #[test]
    fn a_name_has_one_address_and_no_other_record() {
        let names = Names::default();
        let question = b"\x07eXample\x03org\0\0\x01\0\x01";
        let header = b"\xAB\xCD\x81\x80\0\x01\0\x01\0\0\0\0";
        let record = b"\xC0\x0C\0\x01\0\x01\0\0\0\x3C\0\x04\xC6\x12\0\x01";
        let expected = [&header[..], question, record].concat();
        assert_eq!(reply(&query("eXample.org", ADDRESS), &names), Some(expected));
        assert_eq!(names.name_of(Ipv4Addr::new(198, 18, 0, 1)).as_deref(), Some("example.org"));
        let six = reply(&query("example.org", 28), &names).unwrap();
        assert_eq!((&six[2..12], six.len()), (&b"\x81\x80\0\x01\0\0\0\0\0\0"[..], 12 + question.len()));
    }

    #[test]
    fn the_names_of_the_session_itself_lead_inside() {
        for own in ["localhost", "a.LOCALHOST"] {
            let reply = reply(&query(own, ADDRESS), &Names::default()).unwrap();
            assert!(reply.ends_with(&[127, 0, 0, 1]), "{own}");
        }
    }

    #[test]
    fn numbers_and_odd_names_are_no_names() {
        for odd in ["127.0.0.1", "2130706433", "0x7f.1", "a b.org", "a@b"] {
            let reply = reply(&query(odd, ADDRESS), &Names::default()).unwrap();
            assert_eq!((reply[3], reply[7]), (0x83, 0), "{odd}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_get_a_short_reply_or_none(mut bytes: Vec<u8>, is_query: bool) {
            if is_query && bytes.len() >= 6 {
                (bytes[2], bytes[4], bytes[5]) = (1, 0, 1);
            }
            let reply = reply(&bytes, &Names::default());
            proptest::prop_assert!(reply.is_none_or(|reply| reply.len() <= bytes.len() + 16));
        }
    }

    #[test]
    fn what_is_no_query_gets_an_error_or_nothing() {
        let names = Names::default();
        let good = query("example.org", ADDRESS);
        let code = |bytes: &[u8]| reply(bytes, &names).map(|reply| (reply[3] & 0xF, reply.len()));
        for length in 0..12 {
            assert_eq!(code(&good[..length]), None);
        }
        for length in 12..12 + 17 {
            assert_eq!(code(&good[..length]), Some((1, 12)), "{length}");
        }
        let change = |at: usize, value: u8| {
            let mut bytes = good.clone();
            bytes[at] = value;
            bytes
        };
        assert_eq!(code(&change(2, 0x81)), None, "a reply");
        assert_eq!(code(&change(2, 0x28)), Some((4, 12)), "an update");
        assert_eq!(code(&change(5, 2)), Some((1, 12)), "two questions");
        assert_eq!(code(&change(12, 0xC0)), Some((1, 12)), "a pointer");
        let long = vec!["a".repeat(63); 5].join(".");
        assert_eq!(code(&query(&long, ADDRESS)), Some((1, 12)), "a name that is too long");
    }
}
