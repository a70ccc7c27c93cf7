//! The host's end of the connection of one call. Dropping it cancels the call.

use super::failure::error_of;
use super::helper::Helper;
use super::places::Place;
use crate::error::{Code, Error};
use crate::outbox::Outbox;
use nacre_protocol::files::{Finish, Reply};
use nacre_protocol::message;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// See the module.
pub struct Connection {
    outbox: Outbox,
    helper: Arc<Helper>,
    /// The place of a watch or write in the helper.
    _place: Option<Place>,
}

impl Connection {
    pub(super) fn new(socket: OwnedFd, helper: Arc<Helper>, place: Option<Place>) -> io::Result<Self> {
        Ok(Self { outbox: Outbox::new(socket)?, helper, _place: place })
    }

    /// Receives the next message and its descriptor; a failure is an error. Cancel-safe.
    pub(super) async fn reply(&self) -> Result<(Reply, Option<OwnedFd>), Error> {
        match self.outbox.receive(message::receive::<Reply>).await {
            Ok(Some((Reply::Failed(failure), _))) => Err(error_of(&failure)),
            Ok(Some((reply, descriptors))) => Ok((reply, descriptors.into_iter().next())),
            Ok(None) | Err(_) => Err(self.helper.lost()),
        }
    }

    /// The error for a reply of the wrong kind.
    pub(super) fn confused(&self) -> Error {
        Error::new(Code::EngineError, "the files helper sent a reply that does not match the call")
    }

    /// Commits or reverts a write.
    pub(super) fn finish(&self, finish: Finish) -> Result<(), Error> {
        message::send(self.outbox.socket().get_ref().as_fd(), &finish, &[]).map_err(|_| self.helper.lost())
    }
}
