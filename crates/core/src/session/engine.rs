//! How commands are run, and what the next shell begins with.

use super::recovery::Recovery;
use crate::error::Error;
use crate::shell::plain_state::{Scope, Snapshot};
use crate::sys;
use std::os::fd::OwnedFd;

/// See the module.
pub(super) struct SessionEngine {
    pub plain: Plain,
    pub recovery: Recovery,
    /// `$BASH_VERSION`; empty until the shell has started once.
    pub version: String,
    /// Why there is no shell.
    pub failure: Option<Error>,
}

impl SessionEngine {
    pub(super) fn new(uses_builtin: bool) -> Self {
        let (plain, recovery) = (Plain::new(!uses_builtin), Recovery::default());
        Self { plain, recovery, version: String::new(), failure: None }
    }

    /// Whether a shell starts with a saved state, and so in a directory that it had. Otherwise it starts in the session's.
    pub(super) fn has_state(&self) -> bool {
        self.plain.snapshot().is_some() || self.recovery.has_checkpoint()
    }
}

/// The plain engine: each command runs in a new bash.
pub(super) struct Plain {
    /// Whether it runs the session's commands, and not the builtin.
    pub is_engine: bool,
    pub state: Option<Snapshot>,
    /// `$?`.
    pub status: i32,
    /// The running shell.
    pub shell: Option<PlainShell>,
}

/// A running shell of the plain engine.
pub(super) struct PlainShell {
    pub script: OwnedFd,
    pub dump: OwnedFd,
    pub purpose: Purpose,
}

/// What a shell is started for.
pub(super) enum Purpose {
    /// It writes its version instead of a dump.
    Version,
    /// It runs no command: its dump is the session's first state.
    FirstState,
    /// It runs a command, which has this scope.
    Command(Scope),
}

impl Plain {
    pub(super) fn new(is_engine: bool) -> Self {
        Self { is_engine, state: None, status: 0, shell: None }
    }

    /// The state that the next shell begins with.
    pub(super) fn snapshot(&self) -> Option<&Snapshot> {
        self.state.as_ref()
    }

    /// Begins with a state and `$?`.
    pub(super) fn begin_with(&mut self, state: Snapshot, status: i32) {
        (self.state, self.status) = (Some(state), status);
    }

    /// Whether it runs the session's commands.
    pub(super) fn is_engine(&self) -> bool {
        self.is_engine
    }

    /// Takes over from the builtin, which the session's bash cannot load.
    pub(super) fn become_engine(&mut self) {
        self.is_engine = true;
    }

    /// Whether the supervisor's reports about a shell are for it. A shell that is asked for its version is started as in
    /// plain mode.
    pub(super) fn takes_reports(&self) -> bool {
        self.is_engine || self.shell.is_some()
    }

    /// Forgets the shell of a command that is a process now: what it changes does not reach the session.
    pub(super) fn leave(&mut self) {
        self.shell = None;
    }

    /// Forgets the shell of a supervisor that is being disconnected.
    pub(super) fn disconnect(&mut self) {
        self.shell = None;
    }

    /// Called when the supervisor is dead. True if the shell had read nothing of its script, so that the command has
    /// not run. Leaves nothing to read, so the command never will.
    pub(super) fn leave_unread(&mut self) -> bool {
        self.shell.take().is_some_and(|shell| {
            sys::replace_contents(&shell.script, b"").is_ok() && sys::position(&shell.script).is_ok_and(|at| at == 0)
        })
    }
}
