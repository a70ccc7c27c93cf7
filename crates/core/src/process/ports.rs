//! The TCP ports on which processes listen: those of the sockets that they have open.

use super::listeners::{Listener, listeners, listeners_here};
use crate::blocking::blocking;
use crate::error::Error;
use nacre_containment::pid::Pid;
use nacre_containment::proc_table::Stat;
use nacre_containment::tree::Tree;
use std::collections::HashMap;
use std::fmt::Display;
use std::fs;
use std::io;
use std::path::PathBuf;

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
    let here = network_of("self");
    let mut networks = HashMap::new();
    Ok(tree.members()?.into_iter().any(|stat| {
        let network = network_of(stat.identity.pid);
        let is_here = network == here;
        let wanted = networks.entry(network).or_insert_with(|| {
            let mut all = if is_here { listeners_here() } else { listeners(stat.identity.pid) };
            all.retain(|listener| listener.address.port() == port);
            all
        });
        !owned(wanted, &[stat]).is_empty()
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    #[test]
    fn finds_the_listeners_of_a_process() {
        let own = Stat::read(Pid::new(std::process::id() as i32).unwrap()).unwrap();
        let sockets = ["127.0.0.1:0", "[::1]:0"].map(|address| std::net::TcpListener::bind(address).unwrap());
        let addresses = sockets.each_ref().map(|socket| socket.local_addr().unwrap());
        let found = || -> Vec<SocketAddr> {
            let found = listeners_here();
            assert!(
                listeners("self")
                    .iter()
                    .all(|listener| !addresses.contains(&listener.address) || found.contains(listener))
            );
            owned(&found, &[own]).iter().map(|(listener, _)| listener.address).collect()
        };
        assert!(addresses.iter().all(|address| found().contains(address)));
        assert!(owned(&listeners("self"), &[]).is_empty());
        drop(sockets);
        assert!(!addresses.iter().any(|address| found().contains(address)));
    }
}
