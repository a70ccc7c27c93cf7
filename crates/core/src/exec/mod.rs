//! A foreground command: the request and its result.

pub mod outcome;

pub use nacre_protocol::shell::Lost;
pub use outcome::Outcome;

use crate::error::Error;
use crate::process::Process;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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

/// The sending end of a streamed input. Copies share it: a command and the process that it becomes have the same input.
#[derive(Clone)]
pub struct InputWriter(Arc<Mutex<Option<mpsc::UnboundedSender<Chunk>>>>);

impl InputWriter {
    /// Opens a streamed input. Returns both ends.
    pub fn open() -> (Self, Input) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Self(Arc::new(Mutex::new(Some(sender)))), Input::Stream(receiver))
    }

    /// True while nothing has closed it, and its command or process has not ended.
    pub fn is_open(&self) -> bool {
        self.sender().as_ref().is_some_and(|sender| !sender.is_closed())
    }

    /// Sends a chunk. A chunk that cannot be delivered is dropped.
    pub fn send(&self, chunk: Chunk) {
        if let Some(sender) = self.sender().as_ref() {
            let _ = sender.send(chunk);
        }
    }

    /// Sends end of file. Has no effect if it is already closed.
    pub fn close(&self) {
        self.sender().take();
    }

    fn sender(&self) -> MutexGuard<'_, Option<mpsc::UnboundedSender<Chunk>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
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

/// The sink of a command, which always receives the end: if the engine fails and drops the request, an error.
pub struct SureSink(Option<Box<dyn Sink>>);

impl SureSink {
    /// Guards a sink.
    pub fn new(sink: impl Sink + 'static) -> Self {
        Self(Some(Box::new(sink)))
    }

    /// Takes the sink out: nothing receives later events.
    pub fn take(&mut self) -> Self {
        Self(self.0.take())
    }

    /// See [`Sink::finished`].
    pub fn finished(mut self, result: Result<Outcome, Error>) {
        if let Some(sink) = self.0.take() {
            sink.finished(result);
        }
    }
}

impl Sink for SureSink {
    fn started(&mut self, pid: i32) {
        if let Some(sink) = &mut self.0 {
            sink.started(pid);
        }
    }

    fn output(&mut self, stream: OutputStream, bytes: Vec<u8>) {
        if let Some(sink) = &mut self.0 {
            sink.output(stream, bytes);
        }
    }

    fn finished(self: Box<Self>, result: Result<Outcome, Error>) {
        Self::finished(*self, result);
    }
}

impl Drop for SureSink {
    fn drop(&mut self) {
        if let Some(sink) = self.0.take() {
            sink.finished(Err(Error::engine_failed()));
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    struct Ends(Arc<Mutex<Vec<bool>>>);

    impl Sink for Ends {
        fn started(&mut self, _: i32) {}
        fn output(&mut self, _: OutputStream, _: Vec<u8>) {}
        fn finished(self: Box<Self>, result: Result<Outcome, Error>) {
            self.0.lock().unwrap().push(result.is_ok());
        }
    }

    #[test]
    fn a_sink_receives_one_end_also_if_it_is_dropped() {
        let ends = Arc::new(Mutex::new(Vec::new()));
        SureSink::new(Ends(Arc::clone(&ends))).finished(Ok(Outcome::default()));
        drop(SureSink::new(Ends(Arc::clone(&ends))));
        assert_eq!(*ends.lock().unwrap(), [true, false]);
    }
}
