//! The fork that is there before anybody asks for it.
//!
//! Forking bash twice takes a millisecond or more, and being adopted by the supervisor takes another fraction. None of it
//! depends on what is to be started, so in a session that starts processes it is done ahead of time: a fork of the standby
//! waits, adopted and in its own control group, for a text and for streams.
//!
//! The race: a fork that is not wanted any more (its standby is being replaced) waits for a byte on the same pipe as the
//! next one, and a process that has been sent SIGKILL can still take it, as long as it has not died. So nothing is
//! started before the end of every discarded fork has been told.
//!
//! Another: a standby that is replaced while it has been asked for a fork would leave the request to the next one, which
//! would fork before it is in place, outside of the group that the fork is then looked for in. So nothing is asked of a
//! standby that is about to be replaced ([`super::Processes::hold`]), and one that has been asked is waited for, or ended
//! and the request taken back.

use super::Midwives;
use crate::driver::Driver;
use nacre_containment::cgroup::Group;
use nacre_containment::pid::{Identity, Pid};
use nacre_containment::tree::Tree;
use nacre_containment::wire::Order;
use std::collections::HashSet;
use std::time::{Duration, Instant};

/// After a start the next fork is made at once, and after each snapshot, for this long.
const IN_USE: Duration = Duration::from_secs(10);

/// A fork that waits.
pub(super) struct Fork {
    pub(super) key: u64,
    pub(super) tree: Tree,
}

#[derive(Default)]
enum State {
    #[default]
    None,
    /// The standby has been asked for it.
    Asked {
        key: u64,
    },
    /// It has told its pid, and the supervisor has been asked to adopt it.
    Told {
        key: u64,
    },
    Waits(Fork),
}

/// See the module.
#[derive(Default)]
pub(super) struct Ahead {
    state: State,
    /// Killed; their end has not been told.
    discarded: HashSet<u64>,
    used_at: Option<Instant>,
}

impl Ahead {
    /// The standby is at work on one.
    pub(super) fn is_under_way(&self) -> bool {
        matches!(self.state, State::Asked { .. })
    }

    /// There is none, and none is under way.
    pub(super) fn is_missing(&self) -> bool {
        matches!(self.state, State::None)
    }

    /// Whether one should be there although nobody has asked for a process.
    pub(super) fn is_expected(&self) -> bool {
        self.used_at.is_some_and(|at| at.elapsed() < IN_USE)
    }

    /// The fork that waits, if it may be used.
    pub(super) fn take(&mut self) -> Option<Fork> {
        if !self.discarded.is_empty() {
            return None;
        }
        match std::mem::take(&mut self.state) {
            State::Waits(fork) => {
                self.used_at = Some(Instant::now());
                Some(fork)
            }
            other => {
                self.state = other;
                None
            }
        }
    }

    /// The standby has been asked.
    pub(super) fn asked(&mut self, key: u64) {
        self.state = State::Asked { key };
    }

    /// It is there. False when it is not the one that was asked for.
    pub(super) fn told(&mut self, key: u64, pid: Pid, with: &Midwives<'_>) -> bool {
        let awaited = matches!(self.state, State::Asked { key: asked } if asked == key);
        if awaited {
            self.state = State::Told { key };
            with.supervisor.order(&Order::Adopt { key, pid, mark: super::mark(key, with.supervisor) });
        }
        awaited
    }

    /// The supervisor has answered. False when it is not about this one.
    pub(super) fn adopted(
        &mut self,
        key: u64,
        identity: Option<Identity>,
        group: Option<&String>,
        with: &Midwives<'_>,
    ) -> bool {
        if self.discarded.contains(&key) {
            if identity.is_none() {
                // Nobody's end will be told.
                self.discarded.remove(&key);
            }
            return true;
        }
        let awaited = matches!(self.state, State::Told { key: told } if told == key);
        if awaited {
            self.state =
                identity.map_or(State::None, |root| State::Waits(Fork { key, tree: tree(key, root, group, with) }));
        }
        awaited
    }

    /// A process has ended: perhaps one of these.
    pub(super) fn ended(&mut self, key: u64) {
        self.discarded.remove(&key);
        if matches!(&self.state, State::Waits(fork) if fork.key == key) {
            self.state = State::None;
        }
    }

    /// The one that waits, or is about to, is not wanted any more.
    pub(super) fn discard(&mut self, with: &Midwives<'_>) {
        let key = match &self.state {
            State::Waits(fork) => fork.key,
            // The supervisor obeys in turn: it has adopted it by then.
            State::Told { key } => *key,
            State::None | State::Asked { .. } => return,
        };
        with.supervisor.order(&Order::KillProcess { id: 0, key, signal: libc::SIGKILL, grace_ms: 0 });
        self.discarded.insert(key);
        self.state = State::None;
    }

    /// The standby can not fork, or is gone: what it has not told of will never come, and is not asked for again before
    /// somebody needs it. True when there was such a one.
    pub(super) fn give_up(&mut self, driver: &mut dyn Driver) -> bool {
        let asked = matches!(self.state, State::Asked { .. });
        if asked {
            (self.state, self.used_at) = (State::None, None);
            driver.unbear();
        }
        asked
    }

    /// The root of the one that waits, for whoever has to do without the supervisor.
    pub(super) fn waiting(&self) -> Option<Identity> {
        match &self.state {
            State::Waits(fork) => Some(fork.tree.root),
            _ => None,
        }
    }
}

/// Who belongs to an adopted process.
pub(super) fn tree(key: u64, root: Identity, group: Option<&String>, with: &Midwives<'_>) -> Tree {
    Tree { root, group: group.map(Group::at), mark: super::mark(key, with.supervisor), guardian: with.supervisor.pid() }
}
