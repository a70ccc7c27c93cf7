//! The target of a kill ladder: a foreground command, or a background process with its tree.

use crate::process_table::ProcessTable;
use nacre_containment::cgroup::Group;
use nacre_containment::pid::Pid;
use nacre_containment::proc_table::Stat;
use nacre_containment::signal;

/// See the module.
pub enum Target {
    /// Everything that the current command has started, except the shell itself.
    Foreground {
        /// The command's number in the shell.
        command: u64,
        /// Roots of older trees.
        spare: Vec<Pid>,
    },
    /// A background process.
    Process {
        /// Its key.
        key: u64,
    },
}

impl Target {
    /// The target's running processes.
    pub fn members(&self, table: &ProcessTable) -> Vec<Stat> {
        match self {
            Self::Foreground { spare, .. } => table.foreground(spare),
            Self::Process { key } => table.processes.tree(*key).map(|tree| tree.members()).unwrap_or_default(),
        }
    }

    /// The shell that runs the target, whose forks are among its processes.
    pub fn shell(&self, table: &ProcessTable) -> Option<Pid> {
        match self {
            Self::Foreground { .. } => table.shell(),
            Self::Process { key } => table.processes.tree(*key).map(|tree| tree.root.pid),
        }
    }

    /// Interrupts the shell's command, even in a stopped shell. A background process only gets its signals.
    pub fn interrupt(&self, table: &ProcessTable) {
        if let (Self::Foreground { command, .. }, Some(shell)) = (self, table.shell()) {
            let _ = signal::interrupt_child(shell, *command);
            let _ = signal::send_to_child(shell, libc::SIGCONT);
        }
    }

    /// Sends SIGKILL to all of them by one write, if they have their own group; returns that group.
    pub fn kill_group(&self, table: &mut ProcessTable) -> Option<Group> {
        match self {
            Self::Foreground { .. } => table.kill_foreground_group(),
            Self::Process { key } => {
                let group = table.processes.tree(*key)?.group.clone()?;
                group.kill().is_ok().then_some(group)
            }
        }
    }
}
