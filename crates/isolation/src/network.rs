//! The content of a network namespace: its loopback interface, and the listener of the session's proxy.

use nacre_protocol::redirect::FIRST_ADDRESS;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockProtocol, SockType, SockaddrIn, bind, getsockname, listen, socket,
};
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, OwnedFd};

/// The proxy's port in a network namespace, where nothing else listens yet.
pub const PROXY_PORT: u16 = 3128;

/// The port of DNS.
const RESOLVER_PORT: u16 = 53;

/// The file that names the session's resolver to programs, in place of the machine's `/etc/resolv.conf`. No domain is added to
/// names.
pub const RESOLVER_FILE: &str = "# The resolver of this session\nnameserver 127.0.0.1\noptions ndots:0\n";

/// Enables the loopback interface.
pub fn start_loopback() -> io::Result<()> {
    let ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    configure(b"lo", libc::SIOCSIFFLAGS, libc::__c_anonymous_ifr_ifru { ifru_flags })
}

/// Gives the loopback interface the first of the addresses for names, which no name has: many programs ask for IPv4 addresses
/// only if the machine has one besides loopback addresses (getaddrinfo(3), AI_ADDRCONFIG).
pub fn add_address() -> io::Result<()> {
    for (order, address) in [(libc::SIOCSIFADDR, FIRST_ADDRESS), (libc::SIOCSIFNETMASK, Ipv4Addr::BROADCAST)] {
        let [a, b, c, d] = address.octets().map(|byte| byte as libc::c_char);
        let sa_data = [0, 0, a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0];
        let ifru_addr = libc::sockaddr { sa_family: libc::AF_INET as libc::sa_family_t, sa_data };
        configure(b"lo:0", order, libc::__c_anonymous_ifr_ifru { ifru_addr })?;
    }
    Ok(())
}

/// Changes an interface (netdevice(7)).
fn configure(name: &[u8], order: libc::c_ulong, value: libc::__c_anonymous_ifr_ifru) -> io::Result<()> {
    let any = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
    let mut request = libc::ifreq { ifr_name: [0; libc::IFNAMSIZ], ifr_ifru: value };
    for (place, byte) in request.ifr_name.iter_mut().zip(name) {
        *place = *byte as libc::c_char;
    }
    // SAFETY: the structure outlives the call; the name is shorter than its field.
    let done = unsafe { libc::ioctl(any.as_raw_fd(), order as _, &raw const request) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Creates a TCP listener on 127.0.0.1 in the current network namespace.
pub fn listen_on_loopback(port: u16) -> io::Result<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let listener = socket(AddressFamily::Inet, SockType::Stream, flags, None)?;
    bind(listener.as_raw_fd(), &SockaddrIn::new(127, 0, 0, 1, port))?;
    listen(&listener, Backlog::new(128)?)?;
    Ok(listener)
}

/// Creates the socket of the session's resolver, which programs expect at port 53. Without a configuration, too, programs look
/// for a resolver at this address.
pub fn listen_for_names() -> io::Result<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let datagrams = socket(AddressFamily::Inet, SockType::Datagram, flags, None)?;
    bind(datagrams.as_raw_fd(), &SockaddrIn::new(127, 0, 0, 1, RESOLVER_PORT))?;
    Ok(datagrams)
}

/// Creates a socket on which the kernel tells which sockets the current network namespace has (sock_diag(7)).
///
/// # Errors
/// The kernel has no diagnosis.
pub fn open_diagnosis() -> io::Result<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    Ok(socket(AddressFamily::Netlink, SockType::Datagram, flags, SockProtocol::NetlinkSockDiag)?)
}

/// The port of a listener.
pub fn port_of(listener: &OwnedFd) -> io::Result<u16> {
    Ok(getsockname::<SockaddrIn>(listener.as_raw_fd())?.port())
}
