//! The commands of a session that run or wait.

use nacre_containment::pid::Pid;
use std::time::SystemTime;

/// A command that has not ended.
#[derive(Clone, Debug)]
pub struct RunningCommand {
    /// The id of the request.
    pub id: u64,
    /// The command as displayed, perhaps cut.
    pub command: String,
    /// Its run, unless it waits for its turn.
    pub run: Option<Progress>,
}

/// The progress of a command that has begun.
#[derive(Clone, Debug)]
pub struct Progress {
    /// Wall clock.
    pub started_at: SystemTime,
    /// The shell that runs it; `None` if that has just ended.
    pub pid: Option<Pid>,
    /// Bytes that both streams have printed.
    pub output_bytes: [u64; 2],
    /// When the last output was read (wall clock).
    pub last_output_at: Option<SystemTime>,
}
