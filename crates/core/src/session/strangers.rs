//! Separates a command's processes from those that earlier commands have left running.

use super::Session;
use super::timers::Timer;
use crate::shell::event::Event;
use nacre_containment::pid::Pid;
use nacre_containment::proc_table;
use nacre_protocol::supervisor::{MAX_SPARED, Order};
use std::io;
use std::time::Duration;
use tokio::time::Instant;

/// How long to wait for a command's last processes to end, before the shell is moved to another group.
pub(super) const LEAVING: Duration = Duration::from_millis(1);

impl Session {
    pub(super) fn isolate(&mut self) {
        // A failure is kept, and the next command looks again.
        let _ = self.spare_older_roots();
        if self.may_have_strangers() {
            // Moving the shell can take the kernel milliseconds, and these processes may be about to exit.
            self.timers.set(Timer::Leaving, Instant::now() + LEAVING);
        } else {
            self.events.push_back(Event::Isolated);
        }
    }

    pub(super) fn isolate_again(&mut self) {
        if self.may_have_strangers() {
            self.ask(&Order::Rotate);
        } else {
            self.events.push_back(Event::Isolated);
        }
    }

    /// Whether processes of earlier commands are in the foreground group. True if that cannot be looked up: a kill of the
    /// next command would reach them.
    ///
    /// The race: a promoted standby can run a command before the report of the promotion arrives. Then its group is still
    /// unknown, and the supervisor, which knows it, leaves what the command has started there.
    pub(super) fn may_have_strangers(&mut self) -> bool {
        if self.supervision.is_group_unknown() {
            return true;
        }
        let Some(group) = self.supervision.foreground_group() else { return false };
        let members = match group.members_below() {
            Ok(members) => members,
            Err(_) => return true,
        };
        self.standbys.forget_retired_except(&members);
        members.iter().any(|pid| Some(*pid) != self.shell.pid() && !self.standbys.contains(*pid))
    }

    /// Spares the roots of processes that earlier commands left behind: children of the shell, and orphans. With control
    /// groups, they matter only if they have left theirs.
    ///
    /// # Errors
    /// They cannot be looked up. A kill of the next command would reach them, so it must not begin.
    pub(super) fn spare_older_roots(&mut self) -> io::Result<()> {
        let (roots, outcome) = match self.older_roots() {
            Ok(roots) => (Some(roots), Ok(())),
            Err(error) => (None, Err(error)),
        };
        self.foreground.spare(roots);
        outcome
    }

    /// Looks again if the last look has failed.
    pub(super) fn spare_unknown_roots(&mut self) -> io::Result<()> {
        if self.foreground.knows_spared() { Ok(()) } else { self.spare_older_roots() }
    }

    fn older_roots(&self) -> io::Result<Vec<Pid>> {
        let init = self.enclosure.init();
        let own = [self.shell.pid(), self.standbys.pid(), init];
        let mut roots = Vec::new();
        for parent in self.shell.pid().into_iter().chain(self.supervision.pid()).chain(init) {
            roots.extend(proc_table::children(parent)?);
        }
        roots.retain(|pid| !own.contains(&Some(*pid)));
        roots.truncate(MAX_SPARED);
        Ok(roots)
    }
}
