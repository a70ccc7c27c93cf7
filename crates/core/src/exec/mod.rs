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

/// A piece of streamed standard input.
pub struct Chunk {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Called once, when the pipe took the bytes or can no longer take them.
    pub taken: Box<dyn FnOnce() + Send>,
}

/// Standard input of a command.
pub enum Input {
    /// Immediate end of file.
    None,
    /// These bytes, then end of file.
    Bytes(Arc<Vec<u8>>),
    /// Pieces as they arrive; end of file when the sender is dropped.
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
    /// The command has started, in the shell with this pid.
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
    /// Time limit, counted from the start of the run, not from queuing.
    pub timeout: Option<Duration>,
    /// Applies to timeouts, cancels and the end of the session.
    pub kill: KillPolicy,
    /// Bytes kept of each stream.
    pub max_buffer: usize,
    /// Standard input.
    pub input: Input,
    /// Standard output and standard error share one pipe, the first.
    pub merge_output: bool,
    /// Permits for live output, which is sent as it arrives. Each piece takes a permit, which the consumer returns.
    /// Without permits the pipe is not read, and finally the command blocks. A command that is being killed does not
    /// wait for long.
    pub live: Option<Arc<Semaphore>>,
    /// Receives the result.
    pub sink: Box<dyn Sink>,
}
