//! Pipes of an ended command that wait for the next command.
//!
//! They take four descriptors, so an idle session keeps none. A few sessions of the process keep theirs for longer,
//! which saves opening new pipes after each pause.

use super::streams::OutputPipes;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// How long most sessions keep their pipes.
const SHORT: Duration = Duration::from_millis(20);
/// How long a few sessions keep their pipes.
const LONG: Duration = Duration::from_secs(1);
/// How many sessions of the process keep their pipes for longer.
const FEW: usize = 16;

static KEEPING: AtomicUsize = AtomicUsize::new(0);

/// See the module.
#[derive(Default)]
pub(super) struct SparePipes {
    pipes: Option<OutputPipes>,
    keeper: Option<Keeper>,
}

impl SparePipes {
    /// The pipes for the next command, if there are any.
    pub(super) fn take(&mut self) -> Option<OutputPipes> {
        self.pipes.take()
    }

    /// Keeps the pipes of an ended command, or those that none has used. Returns for how long.
    pub(super) fn keep(&mut self, pipes: OutputPipes) -> Duration {
        self.pipes = Some(pipes);
        self.keeper = self.keeper.take().or_else(Keeper::new);
        if self.keeper.is_some() { LONG } else { SHORT }
    }

    /// Closes the pipes, and lets another session keep its own for longer.
    pub(super) fn close(&mut self) {
        *self = Self::default();
    }
}

/// The right of a session to keep its pipes for longer.
struct Keeper(());

impl Keeper {
    /// Counts one more session, if there is room.
    fn new() -> Option<Self> {
        let one_more = |count| (count < FEW).then_some(count + 1);
        KEEPING.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).ok().map(|_| Self(()))
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        KEEPING.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_few_sessions_keep_their_pipes_for_longer() {
        let keepers: Vec<_> = std::iter::from_fn(Keeper::new).take(FEW + 1).collect();
        assert_eq!(keepers.len(), FEW);
        drop(keepers);
        assert!(Keeper::new().is_some());
    }
}
