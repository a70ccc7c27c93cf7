//! Pipes of an ended command that wait for the next command.
//!
//! They take four descriptors, so an idle session keeps none. A few sessions of the process keep theirs for longer,
//! which saves opening new pipes after each pause.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// How long most sessions keep their pipes.
const SHORT: Duration = Duration::from_millis(20);
/// How long a few sessions keep their pipes.
const LONG: Duration = Duration::from_secs(1);
/// How many sessions of the process keep their pipes for longer.
const FEW: usize = 16;

static KEEPING: AtomicUsize = AtomicUsize::new(0);

/// The right of a session to keep its pipes for longer.
pub(super) struct Keeper(());

impl Keeper {
    /// Counts one more session, if there is room.
    pub(super) fn new() -> Option<Self> {
        let one_more = |count| (count < FEW).then_some(count + 1);
        KEEPING.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).ok().map(|_| Self(()))
    }
}

/// How long a session keeps its pipes.
pub(super) fn limit(keeper: Option<&Keeper>) -> Duration {
    if keeper.is_some() { LONG } else { SHORT }
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
