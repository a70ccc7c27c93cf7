//! A session's files helper, and access to it.

use super::connection::Connection;
use crate::error::{Code, Error};
use crate::outbox::{Message, Outbox};
use nacre_protocol::files::{Call, Request, encode};
use nacre_protocol::socket;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The host's end of the helper's socket. The helper ends when the last owner drops it.
pub struct Helper {
    session: String,
    outbox: Outbox,
    is_closing: AtomicBool,
    is_gone: AtomicBool,
}

impl Helper {
    /// A socket for a helper that is to be started, and the helper's end of it.
    pub fn open(session: &str) -> io::Result<(Self, OwnedFd)> {
        let (ours, theirs) = socket::pair()?;
        let outbox = Outbox::new(ours)?;
        let (is_closing, is_gone) = (AtomicBool::new(false), AtomicBool::new(false));
        Ok((Self { session: session.into(), outbox, is_closing, is_gone }, theirs))
    }

    /// The session ends: calls that are cut off by that fail with `SESSION_DESTROYED`.
    pub fn close(&self) {
        self.is_closing.store(true, Ordering::Relaxed);
    }

    /// The helper is known to have ended.
    pub fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::Relaxed) || self.outbox.has_lost()
    }

    /// The error of a call whose connection was closed.
    pub(super) fn lost(&self) -> Error {
        self.is_gone.store(true, Ordering::Relaxed);
        if self.is_closing.load(Ordering::Relaxed) {
            return Error::session_destroyed(&self.session);
        }
        let message = format!("the files helper of session '{}' ended during the call", self.session);
        Error::new(Code::EngineError, message)
    }
}

/// The helper of a session, and the directory at which relative paths start.
#[derive(Clone)]
pub struct Access {
    /// See [`Helper`].
    pub helper: Arc<Helper>,
    /// See the module.
    pub cwd: PathBuf,
}

impl Access {
    /// Sends a call. Returns nothing when the helper had ended before.
    pub(super) async fn send(&self, call: Call) -> Result<Option<Connection>, Error> {
        let failed =
            |error: io::Error| Error::new(Code::EngineError, format!("cannot reach the files helper: {error}"));
        let (ours, theirs) = socket::pair().map_err(failed)?;
        let cwd = self.cwd.as_os_str().as_encoded_bytes().to_vec();
        let bytes = encode(&Request { cwd, call }).map_err(failed)?;
        let outbox = &self.helper.outbox;
        outbox.send(Message { bytes, descriptors: vec![theirs.into()] });
        while outbox.is_blocked() {
            outbox.flush().await;
        }
        if outbox.has_lost() {
            return Ok(None);
        }
        Connection::new(ours, Arc::clone(&self.helper)).map(Some).map_err(failed)
    }
}
