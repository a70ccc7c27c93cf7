//! The request for a command.

use super::{Input, KillPolicy, SureSink};
use crate::process::Process;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// The command itself.
#[derive(Clone, Debug)]
pub enum Command {
    /// Shell text.
    Text(Vec<u8>),
    /// A program or builtin and its arguments; no shell parses them.
    Argv(Vec<Vec<u8>>),
}

/// One foreground command.
pub struct ExecRequest {
    /// Chosen by the caller; identifies the request in [`crate::session::Handle::interrupt`].
    pub id: u64,
    /// The command.
    pub command: Command,
    /// Working directory for this command only.
    pub cwd: Option<PathBuf>,
    /// Variables for this command only; `None` unsets.
    pub env: Vec<(String, Option<String>)>,
    /// Time limit of the run, without the wait in the queue.
    pub timeout: Option<Duration>,
    /// The signals for timeouts, cancels and the end of the session.
    pub kill: KillPolicy,
    /// Maximum bytes kept of each stream.
    pub max_buffer: usize,
    /// Maximum bytes of both streams together. A command that prints more is killed.
    pub output_limit: Option<u64>,
    /// Standard input.
    pub input: Input,
    /// Uses the pipe of standard output for standard error too.
    pub merge_output: bool,
    /// Permits for live output, which is also sent as it arrives. Each chunk takes a permit, and the consumer returns
    /// it. Without permits, the pipe is not read, and finally the command blocks. A command that is being killed blocks
    /// only briefly.
    pub live: Option<Arc<Semaphore>>,
    /// The process that it can become.
    pub process: Option<Arc<Process>>,
    /// Receives the result.
    pub sink: SureSink,
}
