//! Detects whether a process tree listens on a TCP port, from the kernel's socket table and the processes' sockets.

use crate::blocking::blocking;
use crate::error::Error;
use nacre_containment::pid::Pid;
use nacre_containment::tree::Tree;
use std::collections::HashSet;
use std::fs;
use std::io;

/// The state column of a listening socket in `/proc/net/tcp` (proc(5)).
const LISTEN: &str = "0A";

/// Checks the current state, in the network namespace of each process. Callers ask again until it listens, so what cannot
/// be looked at does not listen yet.
///
/// # Errors
/// `ENGINE_ERROR` if the check itself fails.
pub async fn listens(tree: Tree, port: u16) -> Result<Listening, Error> {
    blocking(move || Ok(look(&tree, port).unwrap_or(Listening::No))).await
}

/// Where a process tree listens on a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listening {
    /// Nowhere.
    No,
    /// In the network namespace of this process.
    Here,
    /// In another network namespace, to which this process cannot connect.
    Inside,
}

impl Listening {
    /// The value that crosses the boundary.
    pub const fn name(self) -> &'static str {
        match self {
            Self::No => "no",
            Self::Here => "here",
            Self::Inside => "inside",
        }
    }
}

fn look(tree: &Tree, port: u16) -> io::Result<Listening> {
    let found = tree.members()?.into_iter().map(|stat| stat.identity.pid).find(|pid| {
        let wanted = listening_sockets(*pid, port);
        !wanted.is_empty() && holds_one(*pid, &wanted)
    });
    let network = |process: &str| fs::read_link(format!("/proc/{process}/ns/net")).ok();
    Ok(match found {
        None => Listening::No,
        Some(pid) if network(&pid.to_string()) == network("self") => Listening::Here,
        Some(_) => Listening::Inside,
    })
}

/// The inodes of all sockets that listen on the port.
fn listening_sockets(pid: Pid, port: u16) -> HashSet<u64> {
    let tables =
        ["tcp", "tcp6"].map(|table| fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default());
    tables.iter().flat_map(|table| table.lines()).filter_map(|line| inode_of(line, port)).collect()
}

/// The inode of one line: `sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode ...`. The port
/// follows the last colon of the address, in hexadecimal.
fn inode_of(line: &str, port: u16) -> Option<u64> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let (_, local) = fields.get(1)?.rsplit_once(':')?;
    let here = u16::from_str_radix(local, 16).ok()? == port && *fields.get(3)? == LISTEN;
    here.then(|| fields.get(9)?.parse().ok())?
}

fn holds_one(pid: Pid, wanted: &HashSet<u64>) -> bool {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    entries.flatten().filter_map(|entry| fs::read_link(entry.path()).ok()).any(|target| {
        let inode = target.to_str().and_then(|name| name.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok());
        inode.is_some_and(|inode| wanted.contains(&inode))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_listener_of_a_port() {
        let line =
            "   3: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000  0 40077 1 0 100 0";
        assert_eq!(inode_of(line, 8080), Some(40077));
        assert_eq!(inode_of(line, 80), None);
        assert_eq!(inode_of(&line.replace(" 0A ", " 01 "), 8080), None);
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let (own, port) = (Pid::new(std::process::id() as i32).unwrap(), listener.local_addr().unwrap().port());
        assert!(holds_one(own, &listening_sockets(own, port)));
        drop(listener);
        assert!(listening_sockets(own, port).is_empty());
    }
}
