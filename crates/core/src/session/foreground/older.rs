//! Tells the programs of the running command from the processes of earlier commands, and from the engine's own.

use super::Foreground;
use crate::session::standby::Standbys;
use nacre_containment::cgroup::Group;
use nacre_containment::descent_mark;
use nacre_containment::pid::Pid;
use nacre_containment::proc_table;
use nacre_protocol::supervisor::MAX_SPARED;
use std::io;

/// The processes of a session that belong to the engine, and where the others are found.
pub(in crate::session) struct EngineProcesses {
    pub shell: Option<Pid>,
    pub standby: Option<Pid>,
    pub supervisor: Option<Pid>,
    /// The init of the pid namespace, which adopts orphans.
    pub init: Option<Pid>,
    /// The foreground group, if groups are used and it is known.
    pub group: Option<Group>,
}

impl EngineProcesses {
    /// Those that can be parents of a command's processes.
    pub(super) fn parents(&self) -> impl Iterator<Item = Pid> {
        [self.shell, self.supervisor, self.init].into_iter().flatten()
    }
}

/// The roots of processes that earlier commands left behind: children of the shell, and orphans. A kill spares them. With
/// control groups, they matter only if they have left theirs.
#[derive(Default)]
pub(super) struct OlderProcesses {
    pub roots: Vec<Pid>,
    /// The last look has failed.
    is_unknown: bool,
}

impl Foreground {
    /// Looks the processes of earlier commands up.
    ///
    /// # Errors
    /// They cannot be looked up. A kill of the next command would reach them, so it must not begin.
    pub fn look_up_older(&mut self, own: &EngineProcesses) -> io::Result<()> {
        self.older = OlderProcesses { roots: Vec::new(), is_unknown: true };
        let mut roots = Vec::new();
        for parent in own.parents() {
            roots.extend(proc_table::children(parent)?);
        }
        roots.retain(|pid| ![own.shell, own.standby, own.init].contains(&Some(*pid)));
        roots.truncate(MAX_SPARED);
        self.older = OlderProcesses { roots, is_unknown: false };
        Ok(())
    }

    /// Whether the processes of earlier commands are known.
    pub fn knows_older(&self) -> bool {
        !self.older.is_unknown
    }

    /// Whether processes of earlier commands look like programs of the next: they are in the foreground group or, without
    /// groups, one has the mark of the shell, and so its orphans would. True if that cannot be looked up: a kill would reach them.
    pub fn is_shared(&self, own: &EngineProcesses, standbys: &mut Standbys) -> bool {
        let Some(group) = &own.group else {
            let (Some(shell), Some(supervisor)) = (own.shell, own.supervisor) else { return false };
            let mark = |pid| descent_mark::of(pid, supervisor).ok().flatten();
            return mark(shell).is_some_and(|shared| self.older.roots.iter().any(|root| mark(*root) == Some(shared)));
        };
        let Ok(members) = group.members_below() else { return true };
        standbys.forget_retired_except(&members);
        members.iter().any(|pid| Some(*pid) != own.shell && !standbys.contains(*pid))
    }
}
