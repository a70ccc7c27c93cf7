//! Pending commands, and the calls that JavaScript can still make on them.

use crate::emitter::{self, Emitter};
use crate::piece::Piece;
use crate::types::NativeEvent;
use nacre_containment::lock::Lock;
use nacre_core::error::Error;
use nacre_core::exec::{InputWriter, Outcome, OutputStream, Sink};
use nacre_core::process::Process;
use std::collections::HashMap;
use std::sync::{Arc, MutexGuard};
use tokio::sync::Semaphore;
use tokio::sync::oneshot;

/// Maximum unconsumed output events. Each has at most 256 KiB (`output/live.rs`), and small output is collected, so a
/// larger window would only use more memory.
pub const WINDOW: usize = 16;

/// The controls of a pending command.
pub struct Call {
    /// The id of its session.
    pub session: String,
    /// Permits for output events.
    pub credit: Option<Arc<Semaphore>>,
    /// Its streamed input, if it has one.
    pub input: Option<InputWriter>,
    /// The process that it can become.
    pub process: Option<Arc<Process>>,
}

/// All pending commands of a sandbox, by request id.
#[derive(Default)]
pub struct Calls(Lock<HashMap<u32, Call>>);

impl Calls {
    /// Locks the table.
    pub fn lock(&self) -> MutexGuard<'_, HashMap<u32, Call>> {
        self.0.lock()
    }
}

/// Calls that only wait and can be abandoned.
#[derive(Default)]
pub struct Waits(Lock<HashMap<u32, oneshot::Sender<()>>>);

impl Waits {
    /// Registers a call before it returns: from then on it can be abandoned.
    pub fn open(self: &Arc<Self>, id: u32) -> Wait {
        let (give_up, given_up) = oneshot::channel();
        self.0.lock().insert(id, give_up);
        Wait { waits: Arc::clone(self), id, given_up }
    }

    /// Abandons a call.
    pub fn abandon(&self, id: u32) {
        self.0.lock().remove(&id);
    }
}

/// A registered call.
pub struct Wait {
    waits: Arc<Waits>,
    id: u32,
    given_up: oneshot::Receiver<()>,
}

impl Wait {
    /// Awaits a future, unless the call is abandoned first.
    pub async fn run<T>(self, future: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            result = future => Some(result),
            () = self.given_up() => None,
        }
    }

    /// Resolves when the call is abandoned.
    pub async fn given_up(mut self) {
        let _ = (&mut self.given_up).await;
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        self.waits.abandon(self.id);
    }
}

/// Turns the core's reports about a command into events.
pub struct CallSink {
    /// The id of the call.
    pub id: u32,
    /// Sends the events.
    pub emitter: Arc<Emitter>,
    /// The table that the command leaves when it ends.
    pub calls: Arc<Calls>,
    /// Whether to deliver the result as text.
    pub as_text: bool,
    /// Whether to send `start`.
    pub announces: bool,
    /// The process that the command can become.
    pub process: Option<Arc<Process>>,
}

impl Sink for CallSink {
    fn started(&mut self, pid: i32) {
        if self.announces {
            self.emitter.emit(NativeEvent::Start { id: self.id, pid });
        }
    }

    fn output(&mut self, stream: OutputStream, bytes: Vec<u8>) {
        let stream = if stream == OutputStream::Stdout { 1 } else { 2 };
        self.emitter.emit(NativeEvent::Output { id: self.id, stream, data: Piece(bytes) });
    }

    fn finished(self: Box<Self>, result: Result<Outcome, Error>) {
        self.calls.lock().remove(&self.id);
        if let Some(process) = &self.process {
            process.command_ended(&result);
        }
        self.emitter.emit(match result {
            Ok(outcome) => emitter::ended(self.id, outcome, self.as_text),
            Err(error) => emitter::failed(self.id, error, self.as_text),
        });
    }
}
