//! The living processes below the supervisor: those of a command, or all of the session.

use super::ProcessTable;
use crate::groups::Groups;
use nacre_containment::pid::Pid;
use nacre_containment::proc_table::{self, Stat};
use nacre_containment::signal;
use std::collections::HashSet;

impl ProcessTable {
    /// True for session processes that belong to no command.
    fn is_own(&self, stat: &Stat) -> bool {
        self.shell == Some(stat.identity.pid) || self.enclosure.owns(stat.identity.pid)
    }

    /// The processes of the foreground command: the members of its group. Without groups, every descendant that is
    /// neither below one of the `spare` roots nor part of a background process. Never included are shell, standby, and
    /// what may be one of the expected forks.
    pub fn foreground(&self, spare: &[Pid]) -> Vec<Stat> {
        let keep: HashSet<Pid> = spare.iter().copied().chain(self.helpers.pids()).chain(self.standby()).collect();
        let listed: Vec<Stat> = match self.groups.as_ref().and_then(Groups::foreground_members) {
            Some(members) => members.into_iter().filter(|pid| !keep.contains(pid)).filter_map(Stat::read).collect(),
            None => {
                let keep = keep.into_iter().chain(self.processes.roots()).collect();
                let below = proc_table::descendants(&[self.own], &keep);
                below.into_iter().filter(|stat| !self.processes.own(stat)).collect()
            }
        };
        let mut listed: Vec<Stat> = listed.into_iter().filter(|stat| !self.is_own(stat) && stat.is_running()).collect();
        if self.expects_forks {
            let sources: Vec<Stat> = self.shell.into_iter().chain(self.standby()).filter_map(Stat::read).collect();
            let is_expected = |stat: &Stat| {
                stat.parent == self.own.raw() && sources.iter().any(|source| proc_table::is_fork_of(stat, source))
            };
            listed.retain(|stat| !is_expected(stat));
        }
        listed
    }

    /// Everything below this process except shell, standby, files helpers and what the confinement needs.
    pub fn workload(&self) -> Vec<Stat> {
        let mut all = proc_table::descendants(&[self.own], &self.helpers.pids().collect());
        let standby = self.standby();
        all.retain(|stat| stat.is_running() && !self.is_own(stat) && standby != Some(stat.identity.pid));
        all
    }

    /// SIGKILL to all descendants, by group and by walking.
    pub fn kill_all(&self) {
        if let Some(groups) = &self.groups {
            let _ = groups.session().kill();
        }
        for stat in proc_table::descendants(&[self.own], &HashSet::new()) {
            let _ = signal::send_to(stat.identity, libc::SIGKILL);
        }
    }
}
