//! What kills a command or a process, and why.

use serde::{Deserialize, Serialize};

/// What has killed a command or a process before its end. The first kill counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KilledBy {
    /// What did.
    pub by: By,
    /// Why, in the caller's words.
    pub reason: Option<String>,
}

/// Who or what kills.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum By {
    /// The timeout.
    Timeout,
    /// The AbortSignal of the call, or the loss of the caller.
    Abort,
    /// A call that kills.
    Caller,
    /// The memory limit.
    OutOfMemory,
    /// The limit of the output.
    OutputLimit,
    /// The end of the session.
    Session,
    /// The budget of the command, its session or its sandbox.
    Budget,
}

impl By {
    /// Its name for callers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Abort => "abort",
            Self::Caller => "caller",
            Self::OutOfMemory => "oom",
            Self::OutputLimit => "outputLimit",
            Self::Session => "session",
            Self::Budget => "budget",
        }
    }
}

impl From<By> for KilledBy {
    fn from(by: By) -> Self {
        Self { by, reason: None }
    }
}
