//! Standard input of a command.

use nacre_containment::lock::Lock;
use std::sync::Arc;
use tokio::sync::mpsc;

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
pub struct InputWriter(Arc<Lock<Option<mpsc::UnboundedSender<Chunk>>>>);

impl InputWriter {
    /// Opens a streamed input. Returns both ends.
    pub fn open() -> (Self, Input) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Self(Arc::new(Lock::new(Some(sender)))), Input::Stream(receiver))
    }

    /// True while nothing has closed it, and its command or process has not ended.
    pub fn is_open(&self) -> bool {
        self.0.lock().as_ref().is_some_and(|sender| !sender.is_closed())
    }

    /// Sends a chunk. A chunk that cannot be delivered is dropped.
    pub fn send(&self, chunk: Chunk) {
        if let Some(sender) = self.0.lock().as_ref() {
            let _ = sender.send(chunk);
        }
    }

    /// Sends end of file. Has no effect if it is already closed.
    pub fn close(&self) {
        self.0.lock().take();
    }
}
