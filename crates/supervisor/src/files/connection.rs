//! The connection of one call.

use super::failure::Stop;
use nacre_protocol::files::{FilesReply, Finish};
use nacre_protocol::message;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// See the module.
pub struct Connection(OwnedFd);

impl Connection {
    /// Takes the helper's end of the connection.
    pub fn new(socket: OwnedFd) -> Self {
        Self(socket)
    }

    /// Sends a reply. Waits while the host does not read.
    pub fn send(&self, reply: &FilesReply) -> Result<(), Stop> {
        self.send_with(reply, &[])
    }

    /// Sends a reply with descriptors.
    pub fn send_with(&self, reply: &FilesReply, descriptors: &[BorrowedFd<'_>]) -> Result<(), Stop> {
        message::send(self.0.as_fd(), reply, descriptors).map_err(|_| Stop::Cancelled)
    }

    /// Waits for the host's decision about a write.
    pub fn finish(&self) -> Result<Finish, Stop> {
        match message::receive::<Finish>(self.0.as_fd()) {
            Ok(Some((finish, _))) => Ok(finish),
            Ok(None) | Err(_) => Err(Stop::Cancelled),
        }
    }

    /// Stops the call once the host has closed the connection.
    pub fn check(&self) -> Result<(), Stop> {
        let mut fds = [PollFd::new(self.0.as_fd(), PollFlags::empty())];
        match poll(&mut fds, PollTimeout::ZERO) {
            Ok(0) => Ok(()),
            _ => Err(Stop::Cancelled),
        }
    }

    /// Does the same for a walk: see [`stopped`](super::failure::stopped).
    pub fn check_errno(&self) -> Result<(), Errno> {
        self.check().map_err(|_| Errno::CANCELED)
    }

    /// The socket, for polling: the host sends nothing during a watch.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
