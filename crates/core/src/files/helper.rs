//! The host's side of a session's files helper.

use super::places::Places;
use crate::error::{Code, Error};
use crate::outbox::Outbox;
use nacre_protocol::socket;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};

/// The host's end of the helper's socket. The helper exits when the last owner drops it.
pub struct Helper {
    session: String,
    pub(super) outbox: Outbox,
    pub(super) places: Places,
    is_closing: AtomicBool,
    is_gone: AtomicBool,
}

impl Helper {
    /// Creates the socket for a new helper. Returns the helper's end as well.
    pub fn open(session: &str) -> io::Result<(Self, OwnedFd)> {
        let (ours, theirs) = socket::pair()?;
        let outbox = Outbox::new(ours)?;
        let (is_closing, is_gone) = (AtomicBool::new(false), AtomicBool::new(false));
        let places = Places::default();
        Ok((Self { session: session.into(), outbox, places, is_closing, is_gone }, theirs))
    }

    /// Records that the session ends: calls that this interrupts fail with `SESSION_DESTROYED`.
    pub fn close(&self) {
        self.is_closing.store(true, Ordering::Relaxed);
    }

    /// Whether the helper is known to have ended.
    pub fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::Relaxed) || self.outbox.has_lost()
    }

    /// The error for a call whose connection was closed.
    pub(super) fn lost(&self) -> Error {
        self.is_gone.store(true, Ordering::Relaxed);
        if self.is_closing.load(Ordering::Relaxed) {
            return Error::session_destroyed(&self.session);
        }
        let message = format!("the files helper of session '{}' ended during the call", self.session);
        Error::new(Code::EngineError, message)
    }
}
