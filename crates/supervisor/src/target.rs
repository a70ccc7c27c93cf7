//! What a kill ladder is to end: a foreground command, or a background process with its tree.

use crate::family::Family;
use nacre_containment::cgroup::Group;
use nacre_containment::pid::Pid;
use nacre_containment::proc_table::Stat;

/// See the module.
pub enum Target {
    /// What the present command has started; the shell itself lives on.
    Foreground {
        /// Roots of older trees.
        spare: Vec<Pid>,
        /// A trap of the user's runs when the shell ends: what it starts for that has the grace time.
        last_words: bool,
    },
    /// A background process.
    Process {
        /// Which one.
        key: u64,
    },
}

impl Target {
    /// Everybody who belongs to it and runs.
    pub fn members(&self, family: &Family) -> Vec<Stat> {
        match self {
            Self::Foreground { spare, .. } => family.foreground(spare),
            Self::Process { key } => {
                family.processes.tree(*key).map(|tree| tree.members(family.standby)).unwrap_or_default()
            }
        }
    }

    /// The shell that runs it, whose forks are among its processes.
    pub fn shell(&self, family: &Family) -> Option<Pid> {
        match self {
            Self::Foreground { .. } => family.shell,
            Self::Process { key } => family.processes.tree(*key).map(|tree| tree.root.pid),
        }
    }

    /// SIGKILL to all of them by one write, where they have a group to themselves; gives that group.
    pub fn kill_group(&self, family: &mut Family) -> Option<Group> {
        match self {
            Self::Foreground { .. } => family.kill_foreground_group(),
            Self::Process { key } => {
                let group = family.processes.tree(*key)?.group.clone()?;
                let alone = !group.members().ok()?.iter().any(|pid| Some(*pid) == family.standby);
                (alone && group.kill().is_ok()).then_some(group)
            }
        }
    }
}
