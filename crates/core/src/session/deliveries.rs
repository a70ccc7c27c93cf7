//! The order in which callers get the results of their commands.
//!
//! Some results need work that may block, and must not keep the session from its other tasks. Later results wait for them.

use crate::error::Error;
use crate::exec::{Outcome, SureSink};
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

type Ended = Result<Outcome, Error>;

/// See the module.
#[derive(Default)]
pub(super) struct Deliveries {
    /// Closed when the last result that needed work, or had to wait, has been delivered.
    last: Option<oneshot::Receiver<()>>,
}

impl Deliveries {
    /// Whether a result is still to be delivered.
    pub(super) fn are_pending(&mut self) -> bool {
        // One that has ended must not be asked again.
        self.last.take_if(|last| last.try_recv() != Err(TryRecvError::Empty));
        self.last.is_some()
    }

    /// Delivers a result after the earlier ones.
    pub(super) fn deliver(&mut self, sink: SureSink, result: Ended) {
        if !self.are_pending() {
            return sink.finished(result);
        }
        let (before, delivered) = self.next();
        tokio::spawn(async move {
            before.await;
            sink.finished(result);
            drop(delivered);
        });
    }

    /// The same, for a result that needs work. If that fails, the caller gets an error.
    pub(super) fn deliver_after(&mut self, sink: SureSink, work: impl FnOnce() -> Ended + Send + 'static) {
        let (before, delivered) = self.next();
        tokio::spawn(async move {
            before.await;
            if let Ok(result) = tokio::task::spawn_blocking(work).await {
                sink.finished(result);
            }
            drop(delivered);
        });
    }

    /// The end of what is before, and what reports the end of the next.
    fn next(&mut self) -> (impl Future<Output = ()> + Send + use<>, oneshot::Sender<()>) {
        let (delivered, last) = oneshot::channel();
        let before = if self.are_pending() { self.last.take() } else { None };
        self.last = Some(last);
        let before = async move {
            if let Some(before) = before {
                let _ = before.await;
            }
        };
        (before, delivered)
    }
}
