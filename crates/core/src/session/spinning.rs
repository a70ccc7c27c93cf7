//! Waiting for a quick command without going to sleep.
//!
//! A builtin such as `true` or `cd` is answered in about 0.1 ms, and half of that is spent on waking threads up, above all
//! in virtual machines. So for a short while the engine's thread looks at the control pipe instead of sleeping: only when
//! the command before was that quick, only when no other command runs in this process (the thread is needed for all of
//! them), and only where there is another processor for the shell to run on.

use crate::driver::Driver;
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

/// Looks until the shell has told something or the time is over. `quick` says that the last command was quick.
pub fn look(driver: &dyn Driver, quick: bool) {
    if !quick || RUNNING.load(Ordering::Relaxed) != 1 || !has_other_processor() {
        return;
    }
    let until = Instant::now() + LONGEST;
    while !driver.has_told() && Instant::now() < until {
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
