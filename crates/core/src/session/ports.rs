//! The ports of a session: where its programs listen, and connections to them.
//!
//! A connection must reach a program of the session, never another program of the machine. A session with a network
//! namespace has its own loopback interface, but the host listens there too, with the session's proxy. Otherwise the session
//! shares the ports of the machine. So both are checked in the same way: by the inode of the socket that listens, which one of
//! the session's processes must have open.
//!
//! The check and the connection are two steps, and another program could listen in between. The connection is made to one
//! address, all of whose listeners are the session's, and they are looked up again before a byte is sent: an inode is not
//! used twice, so a socket that was there before and after was there all the time, and the kernel gave it the connection.
//! One case remains: a program of the same user opens a second socket at this address (`SO_REUSEPORT`) and closes it again
//! between the two looks. It can then read what the caller sends, as it could read the memory of a program of its user.

use crate::blocking::Turns;
use crate::error::{Code, Error};
use crate::process::listeners::{Kernel, Listener, listeners, listeners_here};
use crate::process::ports::{network_of, owned};
use crate::supervisor::PidHold;
use nacre_containment::lock::Lock;
use nacre_containment::proc_table::{self, Stat};
use nacre_protocol::files::Socket;
use std::collections::HashSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpSocket;

/// Time in which one of the listeners must take a connection.
const CONNECT: Duration = Duration::from_secs(5);
/// Maximum addresses that are tried. Programs can have any number.
const MAX_TARGETS: usize = 8;
/// Lookups of a session at a time. Each reads much of /proc, also what programs can delay, and callers decide how many there are.
const MAX_LOOKUPS: usize = 2;
/// Maximum bytes of the command line of a program.
const COMMAND_BYTES: usize = 1000;

/// A port on which a program of a session listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Where it listens.
    pub address: SocketAddr,
    /// The oldest process that has the socket.
    pub process: Stat,
    /// The beginning of its command line.
    pub command: String,
}

/// The processes of a session, and where they listen. Cheap to clone.
#[derive(Clone)]
pub struct Network {
    /// Holds its pid.
    supervisor: PidHold,
    /// Whether the session has a network namespace.
    is_own: bool,
    lookup: Arc<PortLookup>,
}

/// How the ports of a session are looked up.
pub(super) struct PortLookup {
    turns: Turns,
    /// In the session's network namespace.
    kernel: Option<Lock<Kernel>>,
}

impl Default for PortLookup {
    fn default() -> Self {
        Self::new(None)
    }
}

impl PortLookup {
    pub(super) fn new(kernel: Option<Kernel>) -> Self {
        Self { turns: Turns::new(MAX_LOOKUPS), kernel: kernel.map(Lock::new) }
    }
}

/// Where to connect.
struct PortTarget {
    address: SocketAddr,
    /// All sockets that could take the connection.
    sockets: HashSet<Listener>,
}

impl Network {
    /// That of the processes below this supervisor. `is_own`: they have a network namespace.
    pub(super) fn new(supervisor: PidHold, is_own: bool, lookup: Arc<PortLookup>) -> Self {
        Self { supervisor, is_own, lookup }
    }

    /// Whether the session has a network namespace, so that only a socket made there reaches it.
    pub fn is_own(&self) -> bool {
        self.is_own
    }

    /// Lists the ports of the session.
    ///
    /// # Errors
    /// `ENGINE_ERROR` if the processes cannot be looked up.
    pub async fn ports(&self) -> Result<Vec<Port>, Error> {
        let network = self.clone();
        let look = move || {
            let members = network.members().map_err(|error| unseen(&error))?;
            let listeners = network.listeners().map_err(|error| unseen(&error))?;
            let open = owned(&listeners, &members);
            let port = |(listener, process): (Listener, Stat)| Port {
                address: listener.address,
                process,
                command: proc_table::command_line(&process, COMMAND_BYTES),
            };
            Ok(open.into_iter().map(port).collect())
        };
        self.lookup.turns.run(look).await
    }

    /// Connects to a program of the session. `socket` makes a socket in the session's network namespace.
    ///
    /// # Errors
    /// `PORT_CLOSED` if no program of the session takes the connection, or another program could; the errors of `socket`.
    pub async fn connect<R>(&self, port: u16, socket: impl Fn(Socket) -> R) -> Result<OwnedFd, Error>
    where
        R: Future<Output = Result<OwnedFd, Error>>,
    {
        let network = self.clone();
        let targets = self.lookup.turns.run(move || network.targets(port).map_err(|error| unseen(&error))).await?;
        let attempts = async {
            for target in targets {
                match self.connect_to(target, &socket).await {
                    Err(error) if error.code == Code::PortClosed => {}
                    connected => return connected,
                }
            }
            Err(Error::port_closed(port))
        };
        tokio::time::timeout(CONNECT, attempts).await.unwrap_or_else(|_| Err(Error::port_closed(port)))
    }

    async fn connect_to<R>(&self, target: PortTarget, socket: impl Fn(Socket) -> R) -> Result<OwnedFd, Error>
    where
        R: Future<Output = Result<OwnedFd, Error>>,
    {
        let PortTarget { address, sockets } = target;
        let closed = || Error::port_closed(address.port());
        let own = std::net::TcpStream::from(socket(if address.is_ipv6() { Socket::Ipv6 } else { Socket::Ipv4 }).await?);
        let stream = TcpSocket::from_std_stream(own).connect(address).await.map_err(|_| closed())?;
        let _ = stream.set_nodelay(true);
        let network = self.clone();
        let again = self.lookup.turns.run(move || network.listeners().map_err(|error| unseen(&error)));
        if rivals(&again.await?, address) != sockets {
            return Err(closed());
        }
        stream.into_std().map(OwnedFd::from).map_err(|error| unseen(&error))
    }

    /// The running processes of the session in its network namespace. A confined program can create no other, and others of
    /// a program that is not confined are not the session's.
    fn members(&self) -> io::Result<Vec<Stat>> {
        let here = network_of("self");
        let mut members = proc_table::descendants(&[self.supervisor.pid()], &HashSet::new())?;
        members.retain(|stat| stat.is_running() && (network_of(stat.identity.pid) == here) != self.is_own);
        Ok(members)
    }

    /// Everything that listens in the network namespace of the session.
    fn listeners(&self) -> io::Result<Vec<Listener>> {
        if !self.is_own {
            return Ok(listeners_here());
        }
        if let Some(kernel) = &self.lookup.kernel
            && let Ok(found) = kernel.lock().listeners()
        {
            return Ok(found);
        }
        // A process that has just ended shows none.
        let members = self.members()?;
        let tables = members.iter().map(|stat| listeners(stat.identity.pid));
        Ok(tables.into_iter().find(|found| !found.is_empty()).unwrap_or_default())
    }

    /// Where the programs of the session that listen on a port can be reached, the best first.
    fn targets(&self, port: u16) -> io::Result<Vec<PortTarget>> {
        let members = self.members()?;
        let mut all = self.listeners()?;
        all.retain(|listener| listener.address.port() == port);
        let open = owned(&all, &members);
        let own: HashSet<Listener> = open.into_iter().map(|(listener, _)| listener).collect();
        let mut found: Vec<SocketAddr> = own.iter().flat_map(|listener| reachable(listener.address)).collect();
        found.sort_by_key(|address| (!address.ip().is_loopback(), *address));
        // Any number of sockets can have the same one.
        found.dedup();
        found.truncate(MAX_TARGETS);
        let target = |address| {
            let sockets = rivals(&all, address);
            sockets.is_subset(&own).then_some(PortTarget { address, sockets })
        };
        Ok(found.into_iter().filter_map(target).collect())
    }
}

/// The addresses to connect to: loopback for a socket that listens on all addresses. One on all of IPv6 is usually reached by
/// IPv4 too, and only so where IPv6 is turned off.
fn reachable(address: SocketAddr) -> Vec<SocketAddr> {
    let ips: Vec<IpAddr> = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => vec![Ipv4Addr::LOCALHOST.into()],
        IpAddr::V6(ip) if ip.is_unspecified() => vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()],
        ip => vec![ip],
    };
    ips.into_iter().map(|ip| SocketAddr::new(ip, address.port())).collect()
}

/// The sockets that could take a connection to an address. One on all addresses of IPv6 may also take those of IPv4.
fn rivals(listeners: &[Listener], address: SocketAddr) -> HashSet<Listener> {
    let takes = |ip: IpAddr| ip == address.ip() || ip.is_unspecified() && (ip.is_ipv6() || address.is_ipv4());
    let takes = |listener: &&Listener| listener.address.port() == address.port() && takes(listener.address.ip());
    listeners.iter().filter(takes).copied().collect()
}

fn unseen(error: &io::Error) -> Error {
    Error::new(Code::EngineError, format!("the ports of the session cannot be looked up: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(addresses: &[&str]) -> Vec<Listener> {
        let listener = |(at, address): (usize, &&str)| Listener { address: address.parse().unwrap(), inode: at as u64 };
        addresses.iter().enumerate().map(listener).collect()
    }

    #[test]
    fn every_socket_that_could_take_a_connection_is_a_rival() {
        let listeners = all(&["127.0.0.1:80", "0.0.0.0:80", "[::]:80", "[::1]:80", "127.0.0.2:80", "127.0.0.1:81"]);
        let inodes = |address: &str| {
            let mut inodes: Vec<u64> =
                rivals(&listeners, address.parse().unwrap()).iter().map(|listener| listener.inode).collect();
            inodes.sort_unstable();
            inodes
        };
        assert_eq!(inodes("127.0.0.1:80"), [0, 1, 2]);
        assert_eq!(inodes("[::1]:80"), [2, 3]);
        assert_eq!(inodes("127.0.0.1:81"), [5]);
        assert!(inodes("127.0.0.1:82").is_empty());
    }

    #[test]
    fn a_socket_on_all_addresses_is_reached_by_loopback() {
        for (address, reached) in [
            ("0.0.0.0:80", &["127.0.0.1:80"][..]),
            ("[::]:80", &["127.0.0.1:80", "[::1]:80"]),
            ("127.0.0.2:1", &["127.0.0.2:1"]),
        ] {
            let reached: Vec<SocketAddr> = reached.iter().map(|address| address.parse().unwrap()).collect();
            assert_eq!(reachable(address.parse().unwrap()), reached);
        }
    }
}
