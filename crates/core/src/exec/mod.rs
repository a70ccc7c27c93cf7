//! A foreground command: the request and its result.

pub mod outcome;

pub use outcome::Outcome;

use crate::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc};

/// The command itself.
#[derive(Clone, Debug)]
pub enum Command {
    /// Shell text.
    Text(Vec<u8>),
    /// A program or builtin and its arguments; no shell parses them.
    Argv(Vec<Vec<u8>>),
}

/// A chunk of streamed standard input.
pub struct Chunk {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Called once, when the pipe has accepted the bytes or can no longer accept them.
    pub taken: Box<dyn FnOnce() + Send>,
}

/// Standard input of a command.
pub enum Input {
    /// Immediate end of file.
    None,
    /// These bytes, then end of file.
    Bytes(Arc<Vec<u8>>),
    /// Chunks as they arrive, then end of file when the sender is dropped.
    Stream(mpsc::UnboundedReceiver<Chunk>),
}

/// The signals that kill a command, and their timing.
#[derive(Clone, Copy, Debug)]
pub struct KillPolicy {
    /// First signal to the command's processes.
    pub signal: i32,
    /// Time until SIGKILL.
    pub grace: Duration,
}

/// One of the two output streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Receives the events of a command. All calls come from the engine's thread and must not block.
pub trait Sink: Send + Sync {
    /// The command has started in the shell with this pid.
    fn started(&mut self, pid: i32);

    /// Output as it arrives; only for live requests.
    fn output(&mut self, stream: OutputStream, bytes: Vec<u8>);

    /// The end; called exactly once.
    fn finished(self: Box<Self>, result: Result<Outcome, Error>);
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
    /// Standard input.
    pub input: Input,
    /// Uses the pipe of standard output for standard error too.
    pub merge_output: bool,
    /// Permits for live output, which is also sent as it arrives. Each chunk takes a permit, and the consumer returns
    /// it. Without permits, the pipe is not read, and finally the command blocks. A command that is being killed blocks
    /// only briefly.
    pub live: Option<Arc<Semaphore>>,
    /// Receives the result.
    pub sink: Box<dyn Sink>,
}
