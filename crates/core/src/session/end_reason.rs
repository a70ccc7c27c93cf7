//! Why a session has ended, for the errors of its calls.

use crate::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// See the module. Shared by the session and its handles.
#[derive(Clone, Debug, Default)]
pub(super) struct EndReason {
    is_rolled_back: Arc<AtomicBool>,
}

impl EndReason {
    /// Records that a rollback ends the session, and that another one takes its place.
    pub(super) fn roll_back(&self) {
        self.is_rolled_back.store(true, Ordering::Relaxed);
    }

    /// Whether it is that of the same session.
    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.is_rolled_back, &other.is_rolled_back)
    }

    /// Whether a rollback ends it.
    pub(super) fn is_rolled_back(&self) -> bool {
        self.is_rolled_back.load(Ordering::Relaxed)
    }

    /// The error of a call that its end has cut off.
    pub(super) fn error(&self, session: &str) -> Error {
        if self.is_rolled_back() {
            return Error::rolled_back();
        }
        Error::session_destroyed(session)
    }
}
