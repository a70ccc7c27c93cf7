//! The numbers of a session's requests, and the secrets that keep a program from forging their answers.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// See the module.
#[derive(Default)]
pub(super) struct Numbers {
    series: Arc<Series>,
    /// The number of the last command.
    command: u64,
}

/// The numbers that follow one another. Shared with the callers that send commands themselves.
#[derive(Default)]
pub(super) struct Series {
    last: AtomicU64,
    /// Hash keys, random in each session.
    secret: RandomState,
}

impl Series {
    fn next(&self) -> u64 {
        self.last.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// An unguessable number for a command. With a guessable number, a command that finds the shell's socket could
    /// report its own end, or that of the next command.
    pub(super) fn next_command(&self) -> u64 {
        self.secret.hash_one(self.next()).max(1)
    }
}

impl Numbers {
    /// The numbers that follow.
    pub(super) fn series(&self) -> &Arc<Series> {
        &self.series
    }

    /// The number of the next fork.
    pub(super) fn next(&mut self) -> u64 {
        self.series.next()
    }

    /// The key of the session's forks; see [`nacre_isolation::filter::program`].
    pub(super) fn fork_key(&self) -> u64 {
        self.series.secret.hash_one("fork")
    }

    /// Records the number of a command that was sent.
    pub(super) fn sent(&mut self, command: u64) {
        self.command = command;
    }

    /// The number of the last command.
    pub(super) fn command(&self) -> u64 {
        self.command
    }
}
