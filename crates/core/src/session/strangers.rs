//! Separates a command's processes from those that earlier commands have left running.

use super::context::Session;
use super::pid_namespace::Inside;
use super::timers::Timer;
use crate::shell::event::Event;
use crate::supervisor::Supervisor;
use nacre_containment::cgroup::Group;
use nacre_containment::pid::Pid;
use nacre_containment::proc_table;
use nacre_protocol::supervisor::Order;
use std::time::Duration;
use tokio::time::Instant;

/// How long to wait for a command's last processes to end, before the shell is moved to another group.
pub(super) const LEAVING: Duration = Duration::from_millis(1);

impl Session {
    pub(super) fn isolate(&mut self) {
        if self.link.foreground.is_none() {
            self.wait.spare = self.older_roots();
        }
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
        let Some(Ok(members)) = self.link.foreground.as_ref().map(|group| Group::at(group).members()) else {
            return false;
        };
        self.link.retired.retain(|pid| members.contains(pid));
        let standby = self.link.standby.as_ref().map(|(_, pid)| *pid);
        members
            .iter()
            .any(|pid| Some(*pid) != self.link.shell_pid && Some(*pid) != standby && !self.link.retired.contains(pid))
    }

    /// The roots of processes that earlier commands left behind: children of the shell, and orphans.
    pub(super) fn older_roots(&self) -> Vec<Pid> {
        let standby = self.link.standby.as_ref().map(|(_, pid)| *pid);
        let init = self.link.inside.as_ref().map(Inside::init);
        let supervisor = self.link.supervisor.as_ref().map(Supervisor::pid);
        let parents = self.link.shell_pid.into_iter().chain(supervisor).chain(init);
        let children = parents.flat_map(proc_table::children);
        children.filter(|pid| ![self.link.shell_pid, standby, init].contains(&Some(*pid))).take(4096).collect()
    }
}
