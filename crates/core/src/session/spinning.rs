//! Waiting for what comes in a moment without going to sleep.
//!
//! A builtin such as `true` or `cd` is answered in about 0.1 ms, and half of that is spent on waking threads up, above all
//! in virtual machines. So for a short while the engine's thread looks instead of sleeping: at the control pipe while a
//! command runs ([`look`]), when the command before was quick; and at the mailbox after a result ([`Pace`]), when the
//! command before came at once. Only while nothing else runs in this process (the thread is needed for all of it), and
//! only where there is another processor for those it waits for to run on.

use super::shell::Shell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Longest time to look.
const LONGEST: Duration = Duration::from_micros(250);

static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// Counts a command as running, as long as it lives.
pub struct Running(());

impl Running {
    /// One more.
    pub fn begin() -> Self {
        RUNNING.fetch_add(1, Ordering::Relaxed);
        Self(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        RUNNING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whether a thread may spin: nothing else of this process runs, and there is a processor left for whom it waits for.
fn is_alone(running: usize) -> bool {
    RUNNING.load(Ordering::Relaxed) == running && has_other_processor()
}

/// How soon the caller sends the next command after a result.
#[derive(Debug, Default)]
pub struct Pace {
    told_at: Option<Instant>,
    is_brisk: bool,
}

impl Pace {
    /// A result has been told.
    pub fn told(&mut self) {
        self.told_at = Some(Instant::now());
    }

    /// The next command is there.
    pub fn answered(&mut self) {
        self.is_brisk = self.told_at.take().is_some_and(|at| at.elapsed() < LONGEST);
    }

    /// Waits for the next message without going to sleep, when the one before came at once.
    pub fn look<T>(&mut self, mut poll: impl FnMut() -> Option<T>) -> Option<T> {
        let until = self.told_at.filter(|_| self.is_brisk && is_alone(0))? + LONGEST;
        while Instant::now() < until {
            if let Some(found) = poll() {
                return Some(found);
            }
            std::hint::spin_loop();
        }
        // Whoever pauses once is not waited for again before he has been quick again.
        self.is_brisk = false;
        None
    }
}

/// Looks until the shell has told something whole or the time is over. `quick` says that the last command was quick.
pub fn look(shell: &mut Shell, quick: bool) {
    if !quick || !is_alone(1) {
        return;
    }
    let until = Instant::now() + LONGEST;
    while !shell.poll() && Instant::now() < until {
        std::hint::spin_loop();
    }
}

/// Whether a command that took this long was quick enough to look for the next one.
pub fn is_quick(duration: Duration) -> bool {
    duration < LONGEST * 2
}

fn has_other_processor() -> bool {
    static MORE: OnceLock<bool> = OnceLock::new();
    *MORE.get_or_init(|| std::thread::available_parallelism().is_ok_and(|count| count.get() > 1))
}
