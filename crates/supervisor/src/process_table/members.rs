//! The living processes below the supervisor: those of a command, or all of the session.

use super::ProcessTable;
use crate::groups::Groups;
use nacre_containment::pid::Pid;
use nacre_containment::proc_table::{self, Stat};
use nacre_containment::signal;
use nacre_protocol::shell::STANDBY_NAME;
use std::collections::HashSet;
use std::io;

impl ProcessTable {
    /// True for session processes that belong to no command.
    fn is_own(&self, stat: &Stat) -> bool {
        self.shell == Some(stat.identity.pid) || self.enclosure.owns(stat.identity.pid)
    }

    /// True for the standby, and for former ones that have not ended yet.
    fn is_standby(&self, pid: Pid) -> bool {
        self.standby() == Some(pid) || self.retired.contains(&pid)
    }

    /// Whether some of these processes are not nacre's own.
    pub(super) fn has_programs(&self, members: &[Pid]) -> bool {
        let is_own = |pid: &Pid| self.shell == Some(*pid) || self.is_standby(*pid) || self.enclosure.owns(*pid);
        !members.iter().all(is_own)
    }

    /// The processes of the foreground command: the members of its group. Without groups, every descendant that is
    /// neither below one of the `spare` roots nor part of a background process. Never included are shell, standby, and
    /// what may be one of the expected forks.
    ///
    /// # Errors
    /// `EMFILE` and the like: this process cannot look.
    pub fn foreground(&self, spare: &[Pid]) -> io::Result<Vec<Stat>> {
        let keep: HashSet<Pid> = spare.iter().copied().chain(self.helpers.pids()).chain(self.standby()).collect();
        let in_group = self.groups.as_ref().map(Groups::foreground_members).transpose()?.flatten();
        let mut listed = match in_group {
            Some(members) => proc_table::read_each(members.into_iter().filter(|pid| !keep.contains(pid)))?,
            None => {
                let keep = keep.into_iter().chain(self.processes.roots()).collect();
                let mut listed = Vec::new();
                for stat in proc_table::descendants(&[self.own], &keep)? {
                    if !self.processes.own(&stat)? {
                        listed.push(stat);
                    }
                }
                listed
            }
        };
        listed.retain(|stat| !self.is_own(stat) && stat.is_running());
        self.without_expected_forks(listed)
    }

    fn without_expected_forks(&self, listed: Vec<Stat>) -> io::Result<Vec<Stat>> {
        if !self.expects_forks {
            return Ok(listed);
        }
        let shell = self.shell.and_then(Stat::read);
        let mut found = Vec::new();
        for stat in listed {
            if !self.may_be_fork(&stat, shell.as_ref())? {
                found.push(stat);
            }
        }
        Ok(found)
    }

    /// A standby, or a fork that is to become a process. The latter has the command line of the shell, unless a program has
    /// replaced that; a fork of the standby has the standby's name at first.
    fn may_be_fork(&self, stat: &Stat, shell: Option<&Stat>) -> io::Result<bool> {
        if stat.parent != self.own.raw() {
            return Ok(false);
        }
        if stat.name.starts_with(STANDBY_NAME.to_bytes_with_nul()) {
            return Ok(true);
        }
        let is_fork = shell.map_or(Ok(false), |shell| proc_table::is_fork_of(stat, shell))?;
        Ok(is_fork || proc_table::has_command_line(stat.identity.pid, &self.shell_line)?)
    }

    /// Everything below this process except shell, standby, files helpers, what the confinement needs, and what may be one of
    /// the expected forks.
    ///
    /// # Errors
    /// `EMFILE` and the like: this process cannot look.
    pub fn workload(&self) -> io::Result<Vec<Stat>> {
        let mut all = proc_table::descendants(&[self.own], &self.helpers.pids().collect())?;
        all.retain(|stat| stat.is_running() && !self.is_own(stat) && !self.is_standby(stat.identity.pid));
        self.without_expected_forks(all)
    }

    /// SIGKILL to all descendants, by group and by walking. Callers repeat it until no child is left.
    pub fn kill_all(&self) {
        if let Some(groups) = &self.groups {
            let _ = groups.session().kill();
        }
        for stat in proc_table::descendants(&[self.own], &HashSet::new()).unwrap_or_default() {
            let _ = signal::send_to(stat.identity, libc::SIGKILL);
        }
    }
}
