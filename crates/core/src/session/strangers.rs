//! Separates a command's processes from those that earlier commands have left running.

use super::Session;
use super::timers::Timer;
use crate::shell::event::Event;
use nacre_containment::proc_table;
use nacre_protocol::supervisor::{MAX_SPARED, Order};
use std::time::Duration;
use tokio::time::Instant;

/// How long to wait for a command's last processes to end, before the shell is moved to another group.
pub(super) const LEAVING: Duration = Duration::from_millis(1);

impl Session {
    pub(super) fn isolate(&mut self) {
        self.spare_older_roots();
        if self.has_strangers() {
            // Moving the shell can take the kernel milliseconds, and these processes may be about to exit.
            self.timers.set(Timer::Leaving, Instant::now() + LEAVING);
        } else {
            self.events.push_back(Event::Isolated);
        }
    }

    pub(super) fn isolate_again(&mut self) {
        if self.has_strangers() {
            self.ask(&Order::Rotate);
        } else {
            self.events.push_back(Event::Isolated);
        }
    }

    pub(super) fn has_strangers(&mut self) -> bool {
        let Some(Ok(members)) = self.supervision.foreground_group().map(|group| group.members()) else {
            return false;
        };
        self.standbys.forget_retired_except(&members);
        members.iter().any(|pid| Some(*pid) != self.shell.pid() && !self.standbys.contains(*pid))
    }

    /// Without control groups, spares the roots of processes that earlier commands left behind: children of the shell,
    /// and orphans.
    pub(super) fn spare_older_roots(&mut self) {
        if self.supervision.foreground_group().is_some() {
            return;
        }
        let init = self.enclosure.init();
        let parents = self.shell.pid().into_iter().chain(self.supervision.pid()).chain(init);
        let children = parents.flat_map(proc_table::children);
        let own = [self.shell.pid(), self.standbys.pid(), init];
        self.foreground.spare(children.filter(|pid| !own.contains(&Some(*pid))).take(MAX_SPARED).collect());
    }
}
