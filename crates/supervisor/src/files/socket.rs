//! Sockets in the session's network namespace. The host connects them: a socket stays in the namespace it was made in.

use super::connection::Connection;
use super::failure::{Stop, failure};
use nacre_protocol::files::{Reason, Reply};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use std::os::fd::AsFd;

/// Makes a TCP socket and passes it to the host.
pub fn make(connection: &Connection, is_ipv6: bool) -> Result<(), Stop> {
    let family = if is_ipv6 { AddressFamily::Inet6 } else { AddressFamily::Inet };
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let made = socket(family, SockType::Stream, flags, None).map_err(|errno| failure(Reason::System(errno as i32), b""))?;
    connection.send_with(&Reply::Socket, &[made.as_fd()])
}
