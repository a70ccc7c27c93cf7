//! Why a session has ended, for the errors of its calls.

use crate::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// See the module. Shared by the session and its handles.
#[derive(Clone, Debug, Default)]
pub(super) struct EndReason(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    is_rolled_back: AtomicBool,
    /// The exit code of a shell whose exit its session does not survive; `None` if it was killed.
    exit: OnceLock<Option<i32>>,
}

impl EndReason {
    /// Records that a rollback ends the session, and that another one takes its place.
    pub(super) fn roll_back(&self) {
        self.0.is_rolled_back.store(true, Ordering::Relaxed);
    }

    /// Whether it is that of the same session.
    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Whether a rollback ends it.
    pub(super) fn is_rolled_back(&self) -> bool {
        self.0.is_rolled_back.load(Ordering::Relaxed)
    }

    /// Records that the shell has exited for ever.
    pub(super) fn exit(&self, code: Option<i32>) {
        let _ = self.0.exit.set(code);
    }

    /// How the shell has exited, if it has.
    pub(super) fn exited(&self) -> Option<Option<i32>> {
        self.0.exit.get().copied()
    }

    /// The error of a call that its end has cut off.
    pub(super) fn error(&self, session: &str) -> Error {
        if self.is_rolled_back() {
            return Error::rolled_back();
        }
        Error::session_destroyed(session)
    }
}
