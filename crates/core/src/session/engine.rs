//! How commands are run, and what the next shell begins with.

use super::recovery::Recovery;
use super::saved::SavedShell;
use crate::capabilities::Engine;
use crate::error::Error;
use crate::shell::plain_state::{Scope, Snapshot};
use crate::sys;
use nacre_protocol::shell::restorable;
use std::os::fd::OwnedFd;

/// See the module.
pub(super) struct SessionEngine {
    kind: Engine,
    pub plain: Plain,
    pub recovery: Recovery,
    /// `$BASH_VERSION`; empty until the shell has started once.
    pub version: String,
    /// Why there is no shell.
    pub failure: Option<Error>,
}

impl SessionEngine {
    pub(super) fn new(uses_builtin: bool) -> Self {
        let kind = if uses_builtin { Engine::Builtin } else { Engine::Plain };
        Self { kind, plain: Plain::default(), recovery: Recovery::default(), version: String::new(), failure: None }
    }

    /// What runs the session's commands.
    pub(super) fn kind(&self) -> Engine {
        self.kind
    }

    /// Changes over to the plain engine, because the session's bash cannot load the builtin.
    pub(super) fn become_plain(&mut self) {
        self.kind = Engine::Plain;
    }

    /// What the supervisor calls this command: the number that the shell has for it, and none without a persistent shell.
    pub(super) fn number_in_shell(&self, number: u64) -> Option<u64> {
        match self.kind {
            Engine::Builtin => Some(number),
            Engine::Plain => None,
        }
    }

    /// Begins with a saved state and `$?`.
    pub(super) fn begin_with(&mut self, shell: SavedShell, status: i32) {
        match shell {
            SavedShell::Items(items) => self.recovery.keep_checkpoint(Some(items)),
            SavedShell::Plain(state) => (self.plain.state, self.plain.status) = (Some(state), status),
        }
    }

    /// The state that the next shell begins with. It will not have the jobs of the former one.
    pub(super) fn next_state(&self) -> Option<SavedShell> {
        match &self.plain.state {
            Some(state) => Some(SavedShell::Plain(state.clone())),
            None => self.recovery.checkpoint().map(|items| SavedShell::Items(restorable(items))),
        }
    }

    /// Whether a shell starts with a saved state, and so in a directory that it had. Otherwise it starts in the session's.
    pub(super) fn has_state(&self) -> bool {
        self.plain.state.is_some() || self.recovery.has_checkpoint()
    }
}

/// The plain engine: each command runs in a new bash.
#[derive(Default)]
pub(super) struct Plain {
    /// The state that the next shell begins with.
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
    /// Forgets the running shell: its supervisor is gone, or it belongs to a process now.
    pub(super) fn leave(&mut self) {
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
