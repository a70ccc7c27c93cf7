//! Connects a socket of a program to the session's proxy, whatever destination the program gave.

use nacre_protocol::redirect::Redirect;
use nacre_protocol::socket;
use nix::errno::Errno;
use nix::poll::PollFlags;
use nix::sys::socket::{MsgFlags, getsockopt, recv, send, setsockopt, sockopt};
use rustix::fs::{OFlags, fcntl_getfl};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// How long a program that does not wait for its connection is held up. The proxy answers it within a millisecond, unless
/// the session has all of its connections already.
const PATIENCE: Duration = Duration::from_secs(5);
/// The same for a program that waits: the longest time limit of a question, and that of the proxy for connecting.
const PATIENCE_OF_WAITING: Duration = Duration::from_secs(600 + 35);

/// Connects a TCP socket to the proxy on 127.0.0.1, and names the destination to it. `connects` is called in between.
///
/// # Errors
/// What connect(2) reports to the program. It can try again with the same socket.
pub fn connect(
    socket: &OwnedFd,
    domain: i32,
    destination: SocketAddr,
    port: u16,
    connects: impl FnOnce(),
) -> io::Result<()> {
    let waits = !fcntl_getfl(socket)?.contains(OFlags::NONBLOCK);
    let end = Instant::now() + if waits { PATIENCE_OF_WAITING } else { PATIENCE };
    // The proxy listens on IPv4. Fails if the socket is bound (ipv6(7)).
    let _ = setsockopt(socket, sockopt::Ipv6V6Only, &false);
    match super::connect(socket, &proxy_address(domain, port)) {
        // Interrupted by the timer that looks after the caller, it goes on.
        Err(error) if !matches!(error.raw_os_error(), Some(libc::EINPROGRESS | libc::EINTR)) => return Err(error),
        _ => {}
    }
    connects();
    ask(socket, &Redirect { destination, waits }, end).inspect_err(|_| {
        // Disconnects it (connect(2)).
        let nowhere = (libc::AF_UNSPEC as u16).to_ne_bytes();
        let _ = super::connect(socket, &[&nowhere[..], &[0; 14]].concat());
    })
}

/// Sends the request once the socket is connected, and takes the answer from it. Its flags and options are the program's.
fn ask(socket: &OwnedFd, redirect: &Redirect, end: Instant) -> io::Result<()> {
    await_events(socket, PollFlags::POLLOUT, end)?;
    let failure = |errno: i32| Err(io::Error::from_raw_os_error(errno));
    match getsockopt(socket, sockopt::SocketError)? {
        0 => {}
        errno => return failure(errno),
    }
    let request = redirect.encode();
    if send(socket.as_raw_fd(), &request, MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT)? != request.len() {
        return failure(libc::ECONNREFUSED);
    }
    loop {
        let mut answer = [0];
        match recv(socket.as_raw_fd(), &mut answer, MsgFlags::MSG_DONTWAIT) {
            Err(Errno::EAGAIN) => await_events(socket, PollFlags::POLLIN, end)?,
            Ok(1) if answer[0] == 0 => return Ok(()),
            Ok(1) => return failure(answer[0].into()),
            _ => return failure(libc::ECONNREFUSED),
        }
    }
}

/// Waits until something happens on the socket.
fn await_events(program: &OwnedFd, events: PollFlags, end: Instant) -> io::Result<()> {
    // The timer that looks after the caller interrupts it.
    match socket::await_events(program.as_fd(), events, end)? {
        true => Ok(()),
        false => Err(io::Error::from_raw_os_error(libc::ETIMEDOUT)),
    }
}

/// 127.0.0.1 as an address of the socket's family (ip(7), ipv6(7)).
pub fn proxy_address(domain: i32, port: u16) -> Vec<u8> {
    let family = (domain as u16).to_ne_bytes();
    let (port, address) = (port.to_be_bytes(), Ipv4Addr::LOCALHOST);
    if domain == libc::AF_INET {
        [&family[..], &port, &address.octets(), &[0; 8]].concat()
    } else {
        [&family[..], &port, &[0; 4], &address.to_ipv6_mapped().octets(), &[0; 4]].concat()
    }
}
