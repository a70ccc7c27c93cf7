//! The request to start a process.

use super::{Process, terminal};
use crate::error::Error;
use crate::exec::{Command, Input, InputWriter, KillPolicy};
use crate::limits::{Enforcement, Limits};
use std::path::PathBuf;
use std::time::Duration;

/// A process to start.
pub struct NewProcess {
    /// Unique in the sandbox.
    pub id: String,
    /// As displayed.
    pub shown: String,
    /// The command itself.
    pub command: Command,
    /// Replaces the session's directory; may be relative to it.
    pub cwd: Option<PathBuf>,
    /// Changes to the session's variables; `None` unsets.
    pub env: Vec<(String, Option<String>)>,
    /// Time limit, from the start.
    pub timeout: Option<Duration>,
    /// The signals of its timeout.
    pub kill: KillPolicy,
    /// Standard input.
    pub input: Input,
    /// The sending end of a streamed input.
    pub writer: Option<InputWriter>,
    /// A channel of messages.
    pub ipc: bool,
    /// One pipe for both streams: all output is standard output, in the exact order.
    pub merge_output: bool,
    /// Size of a terminal that replaces the three streams.
    pub terminal: Option<terminal::Size>,
    /// Bytes of log kept.
    pub log_limit: u64,
    /// Bytes of output that may wait for the reader before the process blocks. `None`: no limit.
    pub window: Option<u64>,
    /// The requested limits.
    pub wanted_limits: Limits,
    /// The enforcement of the limits, filled in by the sandbox.
    pub limits: Enforcement,
    /// Forgotten some time after its end.
    pub auto_cleanup: bool,
    /// It is no event of the feed.
    pub is_hidden: bool,
    /// What the next sandbox of the same name gets with the process.
    pub definition: Option<String>,
}

/// A start request within the session.
pub struct StartRequest {
    /// The process to start.
    pub new: NewProcess,
    /// The process that records its progress.
    pub process: std::sync::Arc<Process>,
    /// Receives the outcome of the start.
    pub starter: Starter,
    /// How often it was started in vain: its shell or its supervisor died before its command began.
    pub attempts: u32,
}

/// The process that a command can become.
pub struct DetachedProcess {
    /// Unique in the sandbox when the command becomes a process.
    pub id: String,
    /// The command as displayed.
    pub shown: String,
    /// The sending end of the command's streamed input.
    pub writer: Option<InputWriter>,
    /// Bytes of log kept.
    pub log_limit: u64,
    /// The log begins with the command, and not when it becomes a process.
    pub keeps_log: bool,
    /// Forgotten some time after its end.
    pub auto_cleanup: bool,
    /// The id of the request for the command.
    pub request: u64,
}

/// A request within the session to make a running command a process.
pub struct DetachRequest {
    /// The [`id`](crate::exec::ExecRequest::id) of the command.
    pub command: u64,
    /// The process that records its progress.
    pub process: std::sync::Arc<Process>,
    /// Whether the command is answered now, with its result so far. Its timeout then goes on for the process. Otherwise the
    /// command is answered when the process has ended, and has no timeout any more.
    pub ends_call: bool,
    /// Receives the outcome.
    pub starter: Starter,
}

impl StartRequest {
    /// Reports that the process cannot be started.
    pub fn refuse(self, error: Error) {
        self.starter.answer(Err(error));
    }
}

/// Receives the outcome of a start exactly once, on the thread that determines the outcome.
///
/// Dropping it reports that the session has ended.
pub struct Starter {
    session: String,
    answer: Option<Answer>,
}

type Answer = Box<dyn FnOnce(Result<(), Error>) + Send>;

impl Starter {
    /// Creates a starter. `answer` must not block.
    pub fn new(session: &str, answer: impl FnOnce(Result<(), Error>) + Send + 'static) -> Self {
        Self { session: session.into(), answer: Some(Box::new(answer)) }
    }

    /// Reports the outcome.
    pub fn answer(mut self, result: Result<(), Error>) {
        if let Some(answer) = self.answer.take() {
            answer(result);
        }
    }
}

impl Drop for Starter {
    fn drop(&mut self) {
        if let Some(answer) = self.answer.take() {
            answer(Err(Error::session_destroyed(&self.session)));
        }
    }
}
