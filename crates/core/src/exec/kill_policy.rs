//! How a command is killed.

use std::time::Duration;

/// The signals that kill a command, and their timing.
#[derive(Clone, Copy, Debug)]
pub struct KillPolicy {
    /// First signal to the command's processes.
    pub signal: i32,
    /// Time until SIGKILL.
    pub grace: Duration,
}
