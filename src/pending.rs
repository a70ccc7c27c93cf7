//! Commands that have not ended: what JavaScript can still do to them.

use crate::emitter::{self, Emitter};
use crate::types::NativeEvent;
use nacre_core::error::Error;
use nacre_core::exec::{Chunk, Outcome, OutputStream, Sink};
use napi::bindgen_prelude::Buffer;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Semaphore;
use tokio::sync::mpsc::UnboundedSender;

/// Output events that may be under way without having been consumed.
pub const WINDOW: usize = 64;

/// The ways to a command while it lasts.
pub struct Call {
    /// Where it runs.
    pub session: String,
    /// Permits for output events.
    pub credit: Option<Arc<Semaphore>>,
    /// Streamed standard input, until it is closed.
    pub input: Option<UnboundedSender<Chunk>>,
}

/// All commands of a sandbox that have not ended, by request id.
#[derive(Default)]
pub struct Calls(Mutex<HashMap<u32, Call>>);

impl Calls {
    /// The table.
    pub fn lock(&self) -> MutexGuard<'_, HashMap<u32, Call>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Turns what the core tells about a command into events.
pub struct CallSink {
    /// Of the call.
    pub id: u32,
    /// Where the events go.
    pub emitter: Arc<Emitter>,
    /// The table to leave at the end.
    pub calls: Arc<Calls>,
    /// The result is wanted as text.
    pub as_text: bool,
    /// `start` and `output` are wanted.
    pub events: bool,
}

impl Sink for CallSink {
    fn started(&mut self, pid: i32) {
        if self.events {
            self.emitter.emit(NativeEvent {
                id: self.id,
                kind: "start".into(),
                pid: Some(pid),
                ..NativeEvent::default()
            });
        }
    }

    fn output(&mut self, stream: OutputStream, bytes: &[u8]) {
        self.emitter.emit(NativeEvent {
            id: self.id,
            kind: "output".into(),
            stream: Some(if stream == OutputStream::Stdout { 1 } else { 2 }),
            data: Some(Buffer::from(bytes.to_vec())),
            ..NativeEvent::default()
        });
    }

    fn finished(self: Box<Self>, result: Result<Outcome, Error>) {
        self.calls.lock().remove(&self.id);
        self.emitter.emit(match result {
            Ok(outcome) => NativeEvent {
                id: self.id,
                kind: "result".into(),
                result: Some(emitter::result(outcome, self.as_text)),
                ..NativeEvent::default()
            },
            Err(error) => emitter::failed(self.id, error, self.as_text),
        });
    }
}
