//! A process that is asked for.

use super::{Process, terminal};
use crate::error::Error;
use crate::exec::{Chunk, Command, Input, KillPolicy};
use crate::limits::{Enforcement, Limits};
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::mpsc;

/// A process to be started.
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
    /// The other end of a streamed input.
    pub writer: Option<mpsc::UnboundedSender<Chunk>>,
    /// One pipe for both streams: all output is standard output, in the exact order.
    pub merge_output: bool,
    /// Size of a terminal that replaces the three streams.
    pub terminal: Option<terminal::Size>,
    /// Bytes of log kept.
    pub log_limit: u64,
    /// The limits that were asked for.
    pub wanted_limits: Limits,
    /// The enforcement of the limits. Filled in by the sandbox.
    pub limits: Enforcement,
    /// Forgotten some time after its end.
    pub auto_cleanup: bool,
}

/// A request on its way through the session.
pub struct StartRequest {
    /// The process to start.
    pub new: NewProcess,
    /// The process that records its progress.
    pub process: std::sync::Arc<Process>,
    /// Receives the outcome of the start.
    pub starter: Starter,
}

impl StartRequest {
    /// Reports that the process cannot be started.
    pub fn refuse(self, error: Error) {
        self.starter.tell(Err(error));
    }
}

/// Receives the outcome of a start exactly once, on the thread that determines it.
///
/// Dropping it reports that the session has ended.
pub struct Starter {
    session: String,
    tell: Option<Tell>,
}

type Tell = Box<dyn FnOnce(Result<(), Error>) + Send>;

impl Starter {
    /// `tell` must not block.
    pub fn new(session: &str, tell: impl FnOnce(Result<(), Error>) + Send + 'static) -> Self {
        Self { session: session.into(), tell: Some(Box::new(tell)) }
    }

    /// Reports the outcome.
    pub fn tell(mut self, result: Result<(), Error>) {
        if let Some(tell) = self.tell.take() {
            tell(result);
        }
    }
}

impl Drop for Starter {
    fn drop(&mut self) {
        if let Some(tell) = self.tell.take() {
            tell(Err(Error::session_destroyed(&self.session)));
        }
    }
}
