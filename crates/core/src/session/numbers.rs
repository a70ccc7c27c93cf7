//! The numbers of a session's requests, and the secrets that keep a program from forging their answers.

use std::hash::{BuildHasher, RandomState};

/// See the module.
#[derive(Default)]
pub(super) struct Numbers {
    last: u64,
    /// The number of the last command.
    command: u64,
    /// Hash keys, random in each session.
    secret: RandomState,
}

impl Numbers {
    /// The number of the next fork.
    pub(super) fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// The key of the session's forks; see [`nacre_isolation::filter::program`].
    pub(super) fn fork_key(&self) -> u64 {
        self.secret.hash_one("fork")
    }

    /// An unguessable number for a command. With a guessable number, a command that finds the shell's socket could
    /// report its own end, or that of the next command.
    pub(super) fn next_command(&mut self) -> u64 {
        let number = self.next();
        self.command = self.secret.hash_one(number).max(1);
        self.command
    }

    /// The number of the last command.
    pub(super) fn command(&self) -> u64 {
        self.command
    }
}
