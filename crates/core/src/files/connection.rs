//! The host's end of the connection of one call. Dropping it cancels the call.

use super::failure::error_of;
use super::helper::Helper;
use crate::error::{Code, Error};
use nacre_protocol::files::{self, Failure, Finish, Reply};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use tokio::io::unix::AsyncFd;

/// See the module.
pub struct Connection {
    socket: AsyncFd<OwnedFd>,
    helper: Arc<Helper>,
}

impl Connection {
    pub(super) fn new(socket: OwnedFd, helper: Arc<Helper>) -> io::Result<Self> {
        crate::sys::set_nonblocking(&socket)?;
        Ok(Self { socket: crate::sys::watch(socket)?, helper })
    }

    /// Receives the next message and its descriptor; a failure is an error. Cancel-safe.
    pub(super) async fn reply(&self) -> Result<(Reply, Option<OwnedFd>), Error> {
        loop {
            let mut guard = self.socket.readable().await.map_err(|_| self.helper.lost())?;
            match guard.try_io(|socket| files::receive::<Reply>(socket.get_ref().as_fd())) {
                Ok(Ok(Some((Reply::Failed(failure), _)))) => return Err(self.error(&failure)),
                Ok(Ok(Some((reply, descriptors)))) => return Ok((reply, descriptors.into_iter().next())),
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(Ok(None) | Err(_)) => return Err(self.helper.lost()),
                Err(_would_block) => {}
            }
        }
    }

    /// The error for a reply of the wrong kind.
    pub(super) fn confused(&self) -> Error {
        Error::new(Code::EngineError, "the files helper sent a reply that does not match the call")
    }

    /// Commits or reverts a write.
    pub(super) fn finish(&self, finish: Finish) -> Result<(), Error> {
        files::send(self.socket.get_ref().as_fd(), &finish, &[]).map_err(|_| self.helper.lost())
    }

    fn error(&self, failure: &Failure) -> Error {
        error_of(failure)
    }
}
