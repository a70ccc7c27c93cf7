//! The TCP ports on which processes listen, from the kernel's socket tables and the processes' sockets.

use crate::blocking::blocking;
use crate::error::Error;
use nacre_containment::pid::Pid;
use nacre_containment::proc_table::Stat;
use nacre_containment::tree::Tree;
use std::collections::HashMap;
use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

/// The state column of a listening socket in `/proc/net/tcp` (proc(5)).
const LISTEN: &str = "0A";

/// A socket that listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Listener {
    /// Where.
    pub address: SocketAddr,
    /// No other socket has this number while it is open.
    pub inode: u64,
}

/// The sockets that listen in the network namespace of a process, this process's own for `self`. None if the process has
/// ended.
pub fn listeners(process: impl Display) -> Vec<Listener> {
    let lines = ["tcp", "tcp6"].into_iter().filter_map(|table| File::open(format!("/proc/{process}/net/{table}")).ok());
    lines.flat_map(|table| BufReader::new(table).lines().map_while(Result::ok)).filter_map(|line| parse(&line)).collect()
}

/// One line: `sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode ...`.
fn parse(line: &str) -> Option<Listener> {
    let mut fields = line.split_ascii_whitespace().skip(1);
    let (local, _) = (fields.next()?, fields.next()?);
    if fields.next()? != LISTEN {
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

/// The numbers of the sockets that a process has open, as far as this process may look.
pub fn sockets_of(pid: Pid) -> impl Iterator<Item = u64> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let target = fs::read_link(entry.path()).ok()?;
        target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    })
}

/// The network namespace of a process, as far as this process may look.
pub fn network_of(process: impl Display) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{process}/ns/net")).ok()
}

/// Those of the listeners that these processes have open, each with the oldest process that has it.
pub fn owned(listeners: &[Listener], members: &[Stat]) -> Vec<(Listener, Stat)> {
    let mut open: HashMap<u64, &Listener> = listeners.iter().map(|listener| (listener.inode, listener)).collect();
    let mut members: Vec<&Stat> = members.iter().collect();
    members.sort_by_key(|stat| stat.identity.start_ticks);
    let mut found = Vec::new();
    for member in members {
        for inode in sockets_of(member.identity.pid) {
            // What is left need not be looked at: a process can have many sockets.
            if open.is_empty() {
                return found;
            }
            found.extend(open.remove(&inode).map(|listener| (*listener, *member)));
        }
    }
    found
}

/// Checks the current state, in the network namespace of each process. Callers ask again until it listens, so what cannot
/// be looked at does not listen yet.
///
/// # Errors
/// `ENGINE_ERROR` if the check itself fails.
pub async fn listens(tree: Tree, port: u16) -> Result<bool, Error> {
    blocking(move || Ok(look(&tree, port).unwrap_or(false))).await
}

fn look(tree: &Tree, port: u16) -> io::Result<bool> {
    Ok(tree.members()?.into_iter().any(|stat| {
        let mut wanted = listeners(stat.identity.pid);
        wanted.retain(|listener| listener.address.port() == port);
        !owned(&wanted, &[stat]).is_empty()
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn finds_the_listeners_of_a_process() {
        let own = Stat::read(Pid::new(std::process::id() as i32).unwrap()).unwrap();
        let sockets = ["127.0.0.1:0", "[::1]:0"].map(|address| std::net::TcpListener::bind(address).unwrap());
        let addresses = sockets.each_ref().map(|socket| socket.local_addr().unwrap());
        let found = || -> Vec<SocketAddr> {
            owned(&listeners("self"), &[own]).iter().map(|(listener, _)| listener.address).collect()
        };
        assert!(addresses.iter().all(|address| found().contains(address)));
        assert!(owned(&listeners("self"), &[]).is_empty());
        drop(sockets);
        assert!(!addresses.iter().any(|address| found().contains(address)));
    }
}
