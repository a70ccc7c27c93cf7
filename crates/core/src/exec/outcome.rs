//! The result of a foreground command.

use super::KilledBy;
use crate::wanted::{Denial, Denied, PassedBytes};
use nacre_protocol::shell::{Lost, Usage};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// The command that has kept another one waiting.
#[derive(Clone, Debug)]
pub struct Blocker {
    /// The command as displayed, perhaps cut.
    pub command: String,
    /// Whether its caller holds it up by not reading its output.
    pub is_unread: bool,
    /// Wall clock.
    pub started_at: SystemTime,
}

/// The result of a command.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// `$?`; `None` if the command was killed or its status was lost.
    pub exit_code: Option<i32>,
    /// The signal that ended the command, if the engine sent it or the shell died of it.
    pub signal: Option<i32>,
    /// Kept bytes of standard output.
    pub stdout: Vec<u8>,
    /// Kept bytes of standard error.
    pub stderr: Vec<u8>,
    /// Lengths of the alternating runs of kept bytes (stdout first) in order of arrival, if both streams have output.
    pub order: Option<Vec<u32>>,
    /// Bytes not kept of each stream.
    pub dropped: (u64, u64),
    /// The session's directory after the command.
    pub cwd: PathBuf,
    /// By a monotonic clock.
    pub duration: Duration,
    /// Wall clock.
    pub started_at: Option<SystemTime>,
    /// What it has used, if its shell has said so.
    pub usage: Option<Usage>,
    /// The bytes that programs of its session have sent and received meanwhile, if the network goes through a proxy.
    pub traffic: Option<PassedBytes>,
    /// The timeout killed it.
    pub timed_out: bool,
    /// The caller cancelled it, before or while it ran.
    pub cancelled: bool,
    /// It printed more than its limit.
    pub output_limited: bool,
    /// What has killed it.
    pub killed_by: Option<KilledBy>,
    /// What ran when it timed out before its turn.
    pub waited_for: Option<Blocker>,
    /// The shell died and was replaced.
    pub restarted: bool,
    /// Items of the session's state that were lost before the command.
    pub lost_state: Vec<Lost>,
    /// What was refused while the command ran. Files: all of them if they are observed, else those that it names, if it has
    /// failed.
    pub denials: Vec<Denial>,
    /// Keys of git's config that the machine's file did not get.
    pub withheld: Vec<String>,
}

impl Outcome {
    /// Adds what was refused and sent while it ran.
    pub fn deny(&mut self, denied: Denied) {
        (self.denials, self.traffic) = (denied.denials, denied.traffic);
    }
}
