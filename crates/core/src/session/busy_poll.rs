//! Busy polling for messages that arrive soon.
//!
//! A builtin such as `true` or `cd` takes about 0.1 ms, and half of that is spent on waking threads, especially in
//! virtual machines. The engine's thread therefore polls briefly instead of sleeping: the channel while a command runs,
//! if the previous command was quick, and the mailbox after a result, if the previous command arrived promptly. It polls only while nothing else in this process needs the thread, and only if another
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

/// Tracks how quick a session's commands are, and how soon its caller sends the next one after a result.
#[derive(Debug, Default)]
pub(super) struct Pace {
    answered_at: Option<Instant>,
    is_brisk: bool,
    /// Whether the last command took a fraction of a millisecond.
    is_quick: bool,
    /// Whether the reply to the running command may arrive soon.
    reply_is_near: bool,
}

impl Pace {
    /// Records that a command was sent, and that nothing else is done for it until its reply.
    pub(super) fn command_sent(&mut self) {
        self.reply_is_near = true;
    }

    /// Records that a command has ended after this time.
    pub(super) fn command_ended(&mut self, duration: Duration) {
        self.is_quick = duration < LONGEST * 2;
    }

    /// Busy-polls the shell for the reply to a command that was just sent, if the previous command was quick.
    pub(super) fn look_for_reply(&mut self, shell: Option<&Channel>) -> Option<Received> {
        let is_near = std::mem::take(&mut self.reply_is_near) && self.is_quick && is_alone(1);
        let shell = shell.filter(|_| is_near)?;
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

fn has_other_processor() -> bool {
    static MORE: OnceLock<bool> = OnceLock::new();
    *MORE.get_or_init(|| std::thread::available_parallelism().is_ok_and(|count| count.get() > 1))
}
