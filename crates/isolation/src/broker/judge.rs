//! Decides which addresses a confined program may connect to.

use super::Policy;
use crate::view::SHARED_MEMORY;
use nacre_protocol::confinement::{Confinement, Mount, Network};
use nacre_protocol::redirect::FIRST_ADDRESS;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

/// An address, as far as the rules distinguish it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A Unix socket by path.
    Path(PathBuf),
    /// A Unix socket in the abstract namespace, without the leading NUL.
    Abstract(Vec<u8>),
    /// IPv4.
    V4(Ipv4Addr, u16),
    /// IPv6.
    V6(Ipv6Addr, u16),
    /// Anything else: routes, or an address that disconnects a socket.
    Other,
}

/// The decision about a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Connect the socket.
    Connect,
    /// Connect a stream to the session's proxy, and name the destination to it.
    Redirect,
    /// Look the path up in the view; it must lie in a directory of the session.
    LookUp(PathBuf),
    /// A shell reopens its channel.
    Channel,
    /// A program calls a command of the host.
    Command,
    /// Refuse with EPERM.
    Refuse,
}

impl Address {
    /// Reads a `sockaddr`.
    pub fn read(bytes: &[u8]) -> Self {
        let family = bytes.first_chunk().map(|family| i32::from(u16::from_ne_bytes(*family)));
        let rest = bytes.get(2..).unwrap_or_default();
        match (family, rest) {
            (Some(libc::AF_UNIX), [0, name @ ..]) if !name.is_empty() => Self::Abstract(name.to_vec()),
            (Some(libc::AF_UNIX), [first, ..]) if *first != 0 => {
                use std::os::unix::ffi::OsStrExt;
                let path = rest.split(|byte| *byte == 0).next().unwrap_or_default();
                Self::Path(PathBuf::from(std::ffi::OsStr::from_bytes(path)))
            }
            (Some(libc::AF_INET), [high, low, a, b, c, d, ..]) => {
                Self::V4(Ipv4Addr::new(*a, *b, *c, *d), u16::from_be_bytes([*high, *low]))
            }
            (Some(libc::AF_INET6), [high, low, _, _, _, _, rest @ ..]) => match rest.first_chunk::<16>() {
                Some(address) => Self::V6(Ipv6Addr::from(*address), u16::from_be_bytes([*high, *low])),
                None => Self::Other,
            },
            _ => Self::Other,
        }
    }

    /// The internet address, if it is one of a socket's family.
    pub fn internet(&self, domain: i32) -> Option<SocketAddr> {
        match (domain, self) {
            (libc::AF_INET, Self::V4(address, port)) => Some(SocketAddr::new(IpAddr::V4(*address), *port)),
            (libc::AF_INET6, Self::V6(address, port)) => {
                Some(SocketAddr::new(IpAddr::V6(*address).to_canonical(), *port))
            }
            _ => None,
        }
    }
}

/// True for the addresses of the loopback interface in a network namespace, which has one more.
fn is_inside(address: IpAddr) -> bool {
    address.is_loopback() || address.is_unspecified() || address == FIRST_ADDRESS
}

/// Judges an address. `domain` is the socket's own: an address of another family has no effect on it.
pub fn judge(address: Address, domain: i32, confinement: &Confinement, policy: &Policy) -> Verdict {
    let has_own_network = confinement.namespaces.is_some_and(|namespaces| namespaces.network);
    match (domain, address) {
        (libc::AF_UNIX, Address::Path(path)) => Verdict::LookUp(path),
        (libc::AF_UNIX, Address::Abstract(name)) if name == policy.channel_name => Verdict::Channel,
        (libc::AF_UNIX, Address::Abstract(name)) if Some(&name) == policy.command_name.as_ref() => Verdict::Command,
        // Abstract names belong to the network namespace.
        (libc::AF_UNIX, Address::Abstract(_)) if has_own_network => Verdict::Connect,
        (libc::AF_UNIX, _) => Verdict::Refuse,
        // Landlock would refuse the program, but cannot refuse the broker.
        (_, address) if confinement.network == Network::Proxy && !has_own_network => {
            let proxy = confinement.proxy_port.map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
            let target = address.internet(domain);
            if target.is_some() && target == proxy { Verdict::Connect } else { Verdict::Refuse }
        }
        // Only the loopback interface is there, and the rest of the network is behind the proxy.
        (_, address) => match address.internet(domain) {
            Some(target) if confinement.redirects && !is_inside(target.ip()) => Verdict::Redirect,
            // The proxy takes what arrives there as what these programs want.
            Some(target) if confinement.programs.as_ref().is_some_and(|known| known.have(target.port())) => {
                Verdict::Refuse
            }
            _ => Verdict::Connect,
        },
    }
}

/// True if a socket at this place is the session's own: no other program listens where only the session can write.
pub fn is_own(place: &Path, confinement: &Confinement) -> bool {
    let is_below = |root: &Path| place.starts_with(root);
    if confinement.namespaces.is_some() && is_below(Path::new(SHARED_MEMORY)) {
        return true;
    }
    let Some(rules) = confinement.judged() else { return is_below(&confinement.temporary) };
    let shown =
        rules.mounts.iter().find_map(|Mount { source, target }| Some(source.join(place.strip_prefix(target).ok()?)));
    if let Some(shown) = shown {
        return !rules.protect.iter().any(|root| shown.starts_with(root));
    }
    if rules.hide.iter().chain(&rules.protect).any(|root| *root != confinement.temporary && is_below(root)) {
        return false;
    }
    // Trees of the machine that are bound read-only into the private directory.
    let bound = rules.read.iter().flatten().chain([&confinement.cwd]);
    let is_bound = bound.filter(|root| **root != confinement.temporary).any(|root| is_below(root));
    rules.write.iter().any(|root| is_below(root)) || is_below(&confinement.temporary) && !is_bound
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
