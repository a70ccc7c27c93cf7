//! How commands are run, and what the next shell begins with.

mod plain;

pub(super) use plain::first_letter;

use super::saved::{SavedShell, Without};
use crate::capabilities::Engine;
use crate::error::Error;
use crate::shell::plain_state::{Scope, Snapshot};
use nacre_protocol::shell::portable::{Variables, with_inherited};
use nacre_protocol::shell::{Lost, restorable};
use std::os::fd::OwnedFd;

/// After so many shells that died while they restored a state, the next one starts without it.
const MOST_RESTORES: u32 = 2;

/// See the module.
pub(super) struct SessionEngine {
    mode: EngineMode,
    /// `$BASH_VERSION`; empty until the shell has started once.
    version: String,
    /// Why there is no shell.
    failure: Option<Error>,
    /// What could not be restored, until the next result reports it.
    lost: Vec<Lost>,
    /// Of the state that the next shell begins with.
    without: Without,
}

enum EngineMode {
    /// The builtin drives a shell that lives on.
    Builtin(Checkpoint),
    /// Each command runs in a new bash.
    Plain(Box<Plain>),
}

/// The state of a shell that died with its supervisor, as its standby saved it, or that a session begins with.
#[derive(Default)]
struct Checkpoint {
    items: Option<Vec<u8>>,
    /// How often it has been sent to a new shell without a reply.
    restores: u32,
}

impl Checkpoint {
    fn inherit(&mut self, env: &Variables, own: &[Vec<u8>]) {
        self.items = self.items.take().map(|items| with_inherited(&items, env, own));
    }
}

/// The plain engine.
#[derive(Default)]
pub(super) struct Plain {
    /// The state that the next shell begins with.
    state: Option<Snapshot>,
    /// `$?`.
    status: i32,
    /// The running shell.
    shell: Option<PlainShell>,
    /// What the builtin would begin with, until bash is proven to work without it.
    untried: Option<Checkpoint>,
}

/// A running shell of the plain engine.
struct PlainShell {
    script: OwnedFd,
    dump: OwnedFd,
    purpose: Purpose,
}

/// What a shell is started for.
enum Purpose {
    /// It writes its version instead of a dump.
    Version,
    /// It runs no command: its dump is the session's first state.
    FirstState,
    /// It runs a command, which has this scope.
    Command(Scope),
}

impl SessionEngine {
    pub(super) fn new(uses_builtin: bool) -> Self {
        let mode =
            if uses_builtin { EngineMode::Builtin(Checkpoint::default()) } else { EngineMode::Plain(Box::default()) };
        Self { mode, version: String::new(), failure: None, lost: Vec::new(), without: None }
    }

    /// What runs the session's commands.
    pub(super) fn kind(&self) -> Engine {
        match self.mode {
            EngineMode::Builtin(_) => Engine::Builtin,
            EngineMode::Plain(_) => Engine::Plain,
        }
    }

    /// The plain engine, if it runs the commands.
    pub(super) fn plain(&mut self) -> Option<&mut Plain> {
        match &mut self.mode {
            EngineMode::Builtin(_) => None,
            EngineMode::Plain(plain) => Some(plain),
        }
    }

    /// What the builtin's next shell restores.
    fn checkpoint(&mut self) -> Option<&mut Checkpoint> {
        match &mut self.mode {
            EngineMode::Builtin(checkpoint) => Some(checkpoint),
            EngineMode::Plain(_) => None,
        }
    }

    /// Changes over to the plain engine, because the session's bash has not loaded the builtin. Until [`Self::confirm_plain`],
    /// the end of the supervisor undoes that.
    pub(super) fn try_plain(&mut self) {
        if let Some(checkpoint) = self.checkpoint().map(std::mem::take) {
            self.mode = EngineMode::Plain(Box::new(Plain { untried: Some(checkpoint), ..Plain::default() }));
        }
    }

    /// Keeps the plain engine. True if it was being tried.
    pub(super) fn confirm_plain(&mut self) -> bool {
        let Some(checkpoint) = self.plain().and_then(|plain| plain.untried.take()) else { return false };
        if checkpoint.items.is_some() {
            self.lose_state("a bash that cannot load the builtin does not restore it");
        }
        true
    }

    /// Handles the loss of the supervisor.
    pub(super) fn disconnect(&mut self) {
        let Some(plain) = self.plain() else { return };
        plain.leave();
        if let Some(checkpoint) = plain.untried.take() {
            self.mode = EngineMode::Builtin(checkpoint);
        }
    }

    /// What the supervisor calls this command: the number that the shell has for it, and none without a persistent shell.
    pub(super) fn number_in_shell(&self, number: u64) -> Option<u64> {
        match self.mode {
            EngineMode::Builtin(_) => Some(number),
            EngineMode::Plain(_) => None,
        }
    }

    /// Begins with a saved state and `$?`. What the plain engine has saved is text that only it restores, so the session
    /// goes on with it, also where bash could load the builtin.
    pub(super) fn begin_with(&mut self, shell: SavedShell, without: Without, status: i32) {
        self.without = without;
        match (shell, &mut self.mode) {
            (SavedShell::Items(items), EngineMode::Builtin(checkpoint)) => checkpoint.items = Some(items),
            (SavedShell::Items(_), EngineMode::Plain(_)) => self.lose_state("the plain engine does not restore it"),
            (SavedShell::Plain(state), mode) => {
                *mode = EngineMode::Plain(Box::new(Plain { state: Some(state), status, ..Plain::default() }));
            }
        }
    }

    /// Completes a state that began elsewhere with the environment of this session.
    pub(super) fn inherit(&mut self, env: &Variables) {
        let Some(own) = self.without.take() else { return };
        match &mut self.mode {
            EngineMode::Builtin(checkpoint) => checkpoint.inherit(env, &own),
            EngineMode::Plain(plain) => plain.inherit(env, &own),
        }
    }

    /// The state that the next shell begins with. It will not have the jobs of the former one.
    pub(super) fn next_state(&self) -> (Option<SavedShell>, Without) {
        let state = match &self.mode {
            EngineMode::Builtin(checkpoint) => checkpoint.items.as_deref().map(restorable).map(SavedShell::Items),
            EngineMode::Plain(plain) => plain.state.clone().map(SavedShell::Plain),
        };
        (state, self.without.clone())
    }

    /// Whether a shell starts with a saved state, and so in a directory that it had. Otherwise it starts in the session's.
    pub(super) fn has_state(&self) -> bool {
        match &self.mode {
            EngineMode::Builtin(checkpoint) => checkpoint.items.is_some(),
            EngineMode::Plain(plain) => plain.has_state(),
        }
    }

    /// Keeps the state that the standby of the dead shell has saved. `None`: an earlier checkpoint stays.
    pub(super) fn keep_checkpoint(&mut self, items: Option<Vec<u8>>) {
        if let (Some(checkpoint), Some(items)) = (self.checkpoint(), items) {
            checkpoint.items = Some(items);
        }
    }

    /// The checkpoint that a new shell is to restore, if there is one. It is given up if shells have died while they restored it.
    pub(super) fn next_checkpoint(&mut self) -> Option<&[u8]> {
        let checkpoint = self.checkpoint()?;
        if checkpoint.restores == MOST_RESTORES {
            *checkpoint = Checkpoint::default();
            self.lose_state("shells died while it was restored");
        }
        self.checkpoint()?.items.as_deref()
    }

    /// Records that the checkpoint, if there is one, was sent to a shell.
    pub(super) fn attempted(&mut self) {
        if let Some(checkpoint) = self.checkpoint() {
            checkpoint.restores += u32::from(checkpoint.items.is_some());
        }
    }

    /// Records that a shell has restored the checkpoint, without these items.
    pub(super) fn restored(&mut self, without: Vec<Lost>) {
        if let Some(checkpoint) = self.checkpoint() {
            checkpoint.restores = 0;
        }
        self.lose(without);
    }

    /// Notes lost items for the result of the next command.
    pub(super) fn lose(&mut self, items: impl IntoIterator<Item = Lost>) {
        for item in items {
            if !self.lost.contains(&item) {
                self.lost.push(item);
            }
        }
    }

    /// Notes that the whole state is lost.
    pub(super) fn lose_state(&mut self, reason: &str) {
        self.lose([Lost { kind: "state".into(), name: String::new(), reason: reason.into() }]);
    }

    /// Whether a result is to report a loss.
    pub(super) fn has_lost(&self) -> bool {
        !self.lost.is_empty()
    }

    /// Everything lost since the last call.
    pub(super) fn take_lost(&mut self) -> Vec<Lost> {
        std::mem::take(&mut self.lost)
    }

    /// `$BASH_VERSION`; empty until the shell has started once.
    pub(super) fn version(&self) -> &str {
        &self.version
    }

    /// Records the `$BASH_VERSION` of the shell.
    pub(super) fn has_version(&mut self, version: String) {
        self.version = version;
    }

    /// Why there is no shell.
    pub(super) fn failure(&self) -> Option<&Error> {
        self.failure.as_ref()
    }

    /// Records why there is no shell; `None` before another start.
    pub(super) fn fail(&mut self, failure: Option<Error>) {
        self.failure = failure;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn engine_with_checkpoint() -> SessionEngine {
        let mut engine = SessionEngine::new(true);
        engine.keep_checkpoint(Some(b"state".to_vec()));
        engine
    }

    #[test]
    fn a_state_that_kills_its_shells_is_given_up_and_reported_once() {
        let mut engine = engine_with_checkpoint();
        for _ in 0..MOST_RESTORES {
            assert_eq!(engine.next_checkpoint(), Some(&b"state"[..]));
            engine.attempted();
        }
        assert_eq!(engine.next_checkpoint(), None);
        assert_eq!(engine.take_lost().len(), 1);
        assert_eq!(engine.take_lost(), []);
    }

    #[test]
    fn a_shell_that_restored_its_state_counts_again_from_zero() {
        let mut engine = engine_with_checkpoint();
        for _ in 0..MOST_RESTORES * 2 {
            assert!(engine.next_checkpoint().is_some());
            engine.attempted();
            engine.restored(Vec::new());
        }
        // The next salvage found no standby.
        engine.keep_checkpoint(None);
        assert!(engine.has_state());
    }

    #[test]
    fn a_state_that_the_plain_engine_cannot_restore_is_reported_once_that_engine_runs() {
        let mut engine = engine_with_checkpoint();
        engine.try_plain();
        // The supervisor has died before bash was proven to work.
        engine.disconnect();
        assert!(engine.kind() == Engine::Builtin && engine.has_state() && !engine.has_lost());
        engine.try_plain();
        assert!(engine.has_state() && engine.confirm_plain());
        engine.disconnect();
        assert!(engine.kind() == Engine::Plain && !engine.has_state() && engine.has_lost());
        let mut engine = SessionEngine::new(false);
        engine.begin_with(SavedShell::Items(b"state".to_vec()), None, 0);
        assert_eq!(engine.take_lost().len(), 1);
    }
}
