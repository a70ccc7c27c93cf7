//! The receiver of a command's events.

use super::Outcome;
use crate::error::Error;

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

    /// Drops the sink: its caller has the end.
    pub fn release(&mut self) {
        self.0 = None;
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

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
