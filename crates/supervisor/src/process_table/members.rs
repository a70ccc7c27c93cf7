//! The living processes below the supervisor: those of a command, or all of the session.

use super::ProcessTable;
use crate::groups::Groups;
use nacre_containment::descent_mark;
use nacre_containment::pid::{Identity, Pid};
use nacre_containment::proc_table::{self, Stat};
use nacre_containment::signal;
use nacre_containment::tree::MARK;
use nacre_protocol::shell::STANDBY_NAME;
use std::collections::HashSet;
use std::io;

impl ProcessTable {
    /// True for session processes that belong to no command.
    fn is_own(&self, stat: &Stat) -> bool {
        self.shell == Some(stat.identity.pid) || self.owns(stat.identity.pid)
    }

    /// True for the standby, and for former ones that have not ended yet.
    fn is_standby(&self, pid: Pid) -> bool {
        self.standby() == Some(pid) || self.retired.contains(&pid)
    }

    /// Whether some of these processes are not nacre's own.
    pub(super) fn has_programs(&self, members: &[Pid]) -> bool {
        let is_own = |pid: &Pid| self.shell == Some(*pid) || self.is_standby(*pid) || self.owns(*pid);
        !members.iter().all(is_own)
    }

    /// The processes of the foreground command: the members of its group and of those below it, and what has left them.
    /// Without groups, every descendant that is neither below one of the `spare` roots nor of an older or a background process.
    /// Never included are shell, standby, and what may be one of the expected forks.
    ///
    /// # Errors
    /// `EMFILE` and the like: this process cannot look.
    pub fn foreground(&self, spare: &[Pid]) -> io::Result<Vec<Stat>> {
        let keep: HashSet<Pid> = self.helpers.pids().chain(self.standby()).collect();
        let in_group = self.groups.as_ref().map(Groups::foreground_members).transpose()?.flatten();
        let others = spare.iter().copied().chain(self.processes.roots()).chain(keep.iter().copied()).collect();
        let below = proc_table::descendants(&[self.own], &others)?;
        let mut listed = match in_group {
            Some(mut members) => {
                members.retain(|pid| !(keep.contains(pid) || spare.contains(pid)));
                let escaped = self.escaped(&below, &members, spare)?;
                let mut listed = proc_table::read_each(members)?;
                listed.extend(escaped);
                listed
            }
            None => {
                let mut listed = Vec::new();
                for stat in below {
                    if !(self.processes.own(&stat)? || self.is_older(stat.identity.pid)?) {
                        listed.push(stat);
                    }
                }
                listed
            }
        };
        listed.retain(|stat| !self.is_own(stat) && stat.is_running());
        self.without_expected_forks(listed)
    }

    /// Those of the command's processes that are in none of the session's groups, or in another one: they were moved
    /// (`cgroup.procs`). `below` has every descendant that is not older, parents first.
    ///
    /// Descent proves it: from the shell, whose older children are spared, or from a member of the group. An orphan has no
    /// parent that proves anything. In a group of the session, it belongs to whatever that group is for. In a foreign
    /// group, it is of this command unless it may be of an older one: of a background process, which marks what it
    /// starts, or of an older process that is in a foreign group itself or has ended since.
    fn escaped(&self, below: &[Stat], members: &[Pid], spare: &[Pid]) -> io::Result<Vec<Stat>> {
        let mut known: HashSet<Pid> = members.iter().copied().chain(self.shell).collect();
        let is_away = |stat: &&Stat| {
            !(known.contains(&stat.identity.pid) || self.is_own(stat) || self.is_standby(stat.identity.pid))
        };
        let away: Vec<Stat> = below.iter().filter(is_away).copied().collect();
        let Some(groups) = self.groups.as_ref().filter(|_| !away.is_empty()) else { return Ok(Vec::new()) };
        let inside: HashSet<Pid> = groups.session().members_below()?.into_iter().collect();
        let is_older_away = |pid: &Pid| !(inside.contains(pid) || self.is_nacres(*pid));
        let takes_orphans = !spare.iter().any(is_older_away);
        let mut escaped = Vec::new();
        for stat in away {
            let Identity { pid, .. } = stat.identity;
            let parent = Pid::new(stat.parent).filter(|parent| *parent != self.own && !self.owns(*parent));
            let belongs = match parent {
                // A rotation has left it in its group.
                Some(parent) if Some(parent) == self.shell => !inside.contains(&pid),
                Some(parent) => known.contains(&parent),
                None => takes_orphans && !inside.contains(&pid) && proc_table::variable(pid, MARK)?.is_none(),
            };
            if belongs {
                known.insert(pid);
                escaped.push(stat);
            }
        }
        Ok(escaped)
    }

    /// Without groups, whether something descends from an older process, by its mark. What the shell itself or the command has
    /// changed its limit for has none.
    fn is_older(&self, pid: Pid) -> io::Result<bool> {
        let Some(present) = self.descent else { return Ok(false) };
        Ok(descent_mark::of(pid, self.own)?.is_some_and(|mark| mark != present))
    }

    /// True for the processes that nacre itself needs.
    fn is_nacres(&self, pid: Pid) -> bool {
        self.shell == Some(pid)
            || self.is_standby(pid)
            || self.owns(pid)
            || self.helpers.pids().any(|helper| helper == pid)
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

    /// A standby, or a fork that is to become a process and is not known as one yet. The latter has the command line of the shell, unless a program has
    /// replaced that; a fork of the standby has the standby's name at first.
    fn may_be_fork(&self, stat: &Stat, shell: Option<&Stat>) -> io::Result<bool> {
        if stat.parent != self.own.raw() || self.processes.roots().any(|root| root == stat.identity.pid) {
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
        signal::kill_descendants();
    }
}
