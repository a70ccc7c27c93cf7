//! Busy polling for messages that arrive soon.
//!
//! A builtin such as `true` or `cd` takes about 0.1 ms, and half of that is spent on waking threads, especially in
//! virtual machines. The engine's thread therefore polls briefly instead of sleeping: the channel while a command runs,
//! if the previous command was quick ([`look`]), and the mailbox after a result, if the previous command arrived
//! promptly ([`Pace`]). It polls only while nothing else in this process needs the thread, and only if another
//! processor is available for the awaited process.

use crate::shell::channel::{Channel, Received};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Maximum time to poll.
const LONGEST: Duration = Duration::from_micros(250);

static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// Counts a command as running until dropped.
pub(super) struct Running(());

impl Running {
    /// Adds a running command.
    pub(super) fn begin() -> Self {
        RUNNING.fetch_add(1, Ordering::Relaxed);
        Self(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        RUNNING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whether the thread may poll: nothing else runs in this process, and another processor is available.
fn is_alone(running: usize) -> bool {
    RUNNING.load(Ordering::Relaxed) == running && has_other_processor()
}

/// Tracks how soon the caller sends the next command after a result.
#[derive(Debug, Default)]
pub(super) struct Pace {
    answered_at: Option<Instant>,
    is_brisk: bool,
}

impl Pace {
    /// Records that a result was delivered.
    pub(super) fn result_given(&mut self) {
        self.answered_at = Some(Instant::now());
    }

    /// Records that the next command has arrived.
    pub(super) fn command_arrived(&mut self) {
        self.is_brisk = self.answered_at.take().is_some_and(|at| at.elapsed() < LONGEST);
    }

    /// Busy-polls for the next message if the previous one came promptly.
    pub(super) fn look<T>(&mut self, mut poll: impl FnMut() -> Option<T>) -> Option<T> {
        let until = self.answered_at.filter(|_| self.is_brisk && is_alone(0))? + LONGEST;
        while Instant::now() < until {
            if let Some(found) = poll() {
                return Some(found);
            }
            std::hint::spin_loop();
        }
        // After one miss, stop polling until a command arrives promptly.
        self.is_brisk = false;
        None
    }
}

/// Polls for the shell's reply until the time is over.
pub(super) fn look(shell: &Channel) -> Option<Received> {
    if !is_alone(1) {
        return None;
    }
    let until = Instant::now() + LONGEST;
    loop {
        if let Some(received) = shell.poll() {
            return Some(received);
        }
        if Instant::now() >= until {
            return None;
        }
        std::hint::spin_loop();
    }
}

/// Whether a command was quick enough to poll for the reply of the next command.
pub(super) fn is_quick(duration: Duration) -> bool {
    duration < LONGEST * 2
}

fn has_other_processor() -> bool {
    static MORE: OnceLock<bool> = OnceLock::new();
    *MORE.get_or_init(|| std::thread::available_parallelism().is_ok_and(|count| count.get() > 1))
}
