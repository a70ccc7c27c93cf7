//! Reports of the session's own tasks.

use super::config::SessionIsolation;
use crate::error::Error;
use crate::shell::channel::Received;
use nacre_containment::pid::Pid;

/// See the module.
pub(super) enum Internal {
    /// From the channel of a background process that is starting.
    Process(u64, Received),
    /// The processes of a dead supervisor have been killed.
    Salvaged {
        /// The supervisor.
        of: Option<Pid>,
        /// The saved state, if it could be saved.
        checkpoint: Option<Vec<u8>>,
        /// There was a standby, but it has not saved the state.
        has_lost: bool,
    },
    /// How the session is to be confined.
    IsolationDecided { decision: u64, isolation: Box<Result<SessionIsolation, Error>> },
}
