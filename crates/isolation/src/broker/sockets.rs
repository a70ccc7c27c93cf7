//! System calls on a program's socket.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// connect(2) with an encoded address.
pub fn connect(socket: &OwnedFd, address: &[u8]) -> io::Result<()> {
    // SAFETY: the address outlives the call, and the length is its own.
    let done = unsafe { libc::connect(socket.as_raw_fd(), address.as_ptr().cast(), address.len() as libc::socklen_t) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A number among the options of a socket (socket(7)).
pub fn option(socket: &OwnedFd, name: i32) -> io::Result<i32> {
    let mut number = 0;
    let mut length = size_of::<i32>() as libc::socklen_t;
    // SAFETY: the kernel writes one number through the pointer.
    let done = unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, name, (&raw mut number).cast(), &raw mut length)
    };
    if done == 0 { Ok(number) } else { Err(io::Error::last_os_error()) }
}
