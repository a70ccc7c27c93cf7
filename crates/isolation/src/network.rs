//! The content of a network namespace: its loopback interface, and the listener of the session's proxy.

use nix::sys::socket::{AddressFamily, Backlog, SockFlag, SockType, SockaddrIn, bind, getsockname, listen, socket};
use std::io;
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
    let any = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
    // SAFETY: all zeroes is a valid `ifreq`; the name is shorter than its field, and the flags are the active member.
    unsafe {
        let mut request: libc::ifreq = std::mem::zeroed();
        request.ifr_name[0] = b'l' as libc::c_char;
        request.ifr_name[1] = b'o' as libc::c_char;
        request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
        if libc::ioctl(any.as_raw_fd(), libc::SIOCSIFFLAGS as _, &raw const request) < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
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

/// The port of a listener.
pub fn port_of(listener: &OwnedFd) -> io::Result<u16> {
    Ok(getsockname::<SockaddrIn>(listener.as_raw_fd())?.port())
}
