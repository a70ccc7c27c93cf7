//! Whether a caller waits for the answer to its command.
//!
//! A builtin such as `true` or `cd` takes about 20 us, and waking the threads between the shell and the caller takes
//! longer. After a quick command, a caller therefore waits for the answer itself, with its own event loop blocked. It does
//! so only briefly, and only while nothing else in this process runs a command.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::time::Duration;

/// How long a caller waits. The kernel may add 50 us (prctl(2), `PR_SET_TIMERSLACK`).
const LONGEST: Duration = Duration::from_micros(50);

/// A wait for a command that takes less is not useless, even if other threads are woken for it.
const SOON: Duration = Duration::from_micros(100);

/// A command that has taken less was quick, with the threads that were woken for it.
const QUICK: Duration = Duration::from_micros(500);

/// After so many useless waits in a row, only a command that takes less than [`SOON`] leads to another.
const MOST_MISSES: u8 = 3;

static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// Counts a command as running until dropped.
pub(super) struct RunningCount(());

impl RunningCount {
    /// Adds a running command.
    pub(super) fn begin() -> Self {
        RUNNING.fetch_add(1, Ordering::Relaxed);
        Self(())
    }
}

impl Drop for RunningCount {
    fn drop(&mut self) {
        RUNNING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How quick the commands of a session are. Shared with its callers.
#[derive(Debug, Default)]
pub(in crate::session) struct Pace {
    is_quick: AtomicBool,
    misses: AtomicU8,
}

impl Pace {
    /// How long to wait for the answer to a command; `None`: not at all.
    pub fn patience(&self) -> Option<Duration> {
        let misses = self.misses.load(Ordering::Relaxed);
        let waits = self.is_quick.load(Ordering::Relaxed) && misses < MOST_MISSES;
        (waits && RUNNING.load(Ordering::Relaxed) == 0).then(|| LONGEST / (1 << misses))
    }

    /// Records that a command has ended after this time.
    pub fn ended(&self, duration: Duration) {
        self.is_quick.store(duration < QUICK, Ordering::Relaxed);
        if duration < SOON {
            self.misses.store(0, Ordering::Relaxed);
        }
    }

    /// Records that a caller has waited for an answer that did not come.
    pub fn missed(&self) {
        let misses = self.misses.load(Ordering::Relaxed);
        self.misses.store(misses.saturating_add(1).min(MOST_MISSES), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_waits_after_a_quick_command_and_ever_shorter_in_vain() {
        let pace = Pace::default();
        assert_eq!(pace.patience(), None);
        pace.ended(QUICK / 2);
        let waits = std::iter::from_fn(|| pace.patience().inspect(|_| pace.missed()));
        assert_eq!(waits.collect::<Vec<_>>(), [LONGEST, LONGEST / 2, LONGEST / 4]);
        pace.ended(QUICK / 2);
        assert_eq!(pace.patience(), None);
        pace.ended(SOON / 2);
        assert_eq!(pace.patience(), Some(LONGEST));
        pace.ended(QUICK);
        assert_eq!(pace.patience(), None);
    }
}
