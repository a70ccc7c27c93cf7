//! The numbers of a session's requests, and the secrets that keep a program from forging their answers.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

/// See the module. Shared with the callers that send commands themselves.
#[derive(Default)]
pub(super) struct Numbers {
    last: AtomicU64,
    /// Hash keys, random in each session.
    secret: RandomState,
}

impl Numbers {
    /// The number of the next fork, process or order.
    pub(super) fn next(&self) -> u64 {
        self.last.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// An unguessable number for a command. With a guessable number, a command that finds the shell's socket could
    /// report its own end, or that of the next command.
    pub(super) fn next_command(&self) -> u64 {
        self.secret.hash_one(self.next()).max(1)
    }

    /// The key of the session's forks; see [`nacre_isolation::filter::program`].
    pub(super) fn fork_key(&self) -> u64 {
        self.secret.hash_one("fork")
    }
}
