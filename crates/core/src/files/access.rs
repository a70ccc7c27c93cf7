//! Access to the files of a session: the helper, and the directory at which relative paths start.

use super::connection::Connection;
use super::helper::Helper;
use crate::error::{Code, Error};
use crate::outbox::Message;
use nacre_protocol::files::{Call, Request};
use nacre_protocol::{message, socket};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// A session's helper, and the directory where relative paths start.
#[derive(Clone)]
pub struct Access {
    /// See [`Helper`].
    pub helper: Arc<Helper>,
    /// Where relative paths start.
    pub cwd: PathBuf,
    /// Whether paths must stay below `cwd`.
    pub is_rooted: bool,
}

impl Access {
    /// The same access, with paths that start at a root and cannot leave it.
    #[must_use]
    pub fn below(self, root: PathBuf) -> Self {
        Self { cwd: root, is_rooted: true, ..self }
    }

    /// Sends a call. Returns `None` if the helper had already ended.
    pub(super) async fn send(&self, call: Call) -> Result<Option<Connection>, Error> {
        let place = match call {
            Call::Watch { .. } | Call::Write { .. } => Some(self.helper.places.take().await?),
            _ => None,
        };
        let failed =
            |error: io::Error| Error::new(Code::EngineError, format!("cannot reach the files helper: {error}"));
        let (ours, theirs) = socket::pair().map_err(failed)?;
        let cwd = self.cwd.as_os_str().as_encoded_bytes().to_vec();
        let bytes = message::encode(&Request { cwd, call, is_rooted: self.is_rooted }).map_err(failed)?;
        let outbox = &self.helper.outbox;
        outbox.send(Message { bytes, descriptors: vec![theirs.into()] });
        while outbox.is_blocked() {
            outbox.flush().await;
        }
        if outbox.has_lost() {
            return Ok(None);
        }
        Connection::new(ours, Arc::clone(&self.helper), place).map(Some).map_err(failed)
    }
}
