//! The background processes of a session, by key.

use nacre_containment::limits;
use nacre_containment::pid::Pid;
use nacre_containment::proc_table::{self, Stat};
use nacre_containment::signal;
use nacre_containment::tree::Tree;
use nacre_protocol::supervisor::Asked;
use std::io;

struct Process {
    key: u64,
    tree: Tree,
    /// The number of the command that its shell runs, if that was a shell of the session.
    command: Option<u64>,
    ended: bool,
    asked: Asked,
}

/// See the module.
#[derive(Default)]
pub struct Processes {
    known: Vec<Process>,
}

impl Processes {
    /// Tracks a child of the supervisor from now on. `command`: that of a shell of the session, which is interrupted when the
    /// process is killed.
    pub fn add(&mut self, key: u64, tree: Tree, command: Option<u64>) {
        self.known.push(Process { key, tree, command, ended: false, asked: Asked::No });
    }

    /// Interrupts the command of a process (or of all of them) whose shell would go on with the next one of a list. False if
    /// there is none, or a program has replaced the shell. An interrupt can come too early, so callers repeat it until the shell has ended.
    pub fn interrupt(&self, key: Option<u64>) -> bool {
        let concerned = |process: &&Process| !process.ended && key.is_none_or(|key| process.key == key);
        let mut has_command = false;
        for process in self.known.iter().filter(concerned) {
            let shell = process.tree.root.pid;
            if let Some(command) = process.command
                && signal::handles_interrupt(shell).unwrap_or(false)
            {
                has_command = true;
                let _ = signal::interrupt_child(shell, command);
            }
        }
        has_command
    }

    /// Records a reaped child: the key of the process, if it was one.
    pub fn reaped(&mut self, pid: Pid) -> Option<u64> {
        let process = self.known.iter_mut().find(|process| !process.ended && process.tree.root.pid == pid)?;
        process.ended = true;
        Some(process.key)
    }

    /// True if a process reached its memory limit.
    pub fn ran_out_of_memory(&self, key: u64) -> bool {
        self.tree(key).and_then(|tree| tree.group.as_ref()).is_some_and(limits::ran_out_of_memory)
    }

    /// Records that a process (or all of them) is about to be asked to end, if it has not ended by itself. A shell that
    /// runs a program in the foreground waits for it, and returns its exit code. Otherwise it returns that of the
    /// previous command, which is meaningless. A background program of a shell without job control ignores SIGINT; a
    /// fork before its exec does not count. `alive` includes the processes of its tree.
    pub fn about_to_ask(&mut self, key: Option<u64>, alive: &[Stat]) {
        let concerned = |process: &&mut Process| key.is_none_or(|key| process.key == key) && process.asked == Asked::No;
        for process in self.known.iter_mut().filter(concerned) {
            let root = process.tree.root;
            let Some(shell) = alive.iter().find(|stat| stat.identity == root) else { continue };
            let in_front = |stat: &Stat| {
                let is_fork = || proc_table::is_fork_of(stat, shell).unwrap_or(false);
                stat.parent == root.pid.raw() && !stat.ignores(libc::SIGINT) && !is_fork()
            };
            process.asked = if alive.iter().any(in_front) { Asked::WithProgram } else { Asked::Alone };
        }
    }

    /// See [`Processes::about_to_ask`].
    pub fn asked(&self, key: u64) -> Asked {
        self.known.iter().find(|process| process.key == key).map_or(Asked::No, |process| process.asked)
    }

    /// Sends a signal to the process group that a process leads. If it has left its group, only the process gets the
    /// signal.
    pub fn signal_group(&self, key: u64, signal: i32) {
        let Some(living) = self.known.iter().find(|process| process.key == key && !process.ended) else { return };
        let leader = living.tree.root.pid;
        if signal::send_to_group(leader, signal).is_err() {
            let _ = signal::send_to_child(leader, signal);
        }
    }

    /// The tree of a process that may have survivors.
    pub fn tree(&self, key: u64) -> Option<&Tree> {
        self.known.iter().find(|process| process.key == key).map(|process| &process.tree)
    }

    /// True if a process belongs to one of the trees. Only used without groups.
    ///
    /// # Errors
    /// `EMFILE` and the like: this process cannot look.
    pub fn own(&self, stat: &Stat) -> io::Result<bool> {
        for process in &self.known {
            if process.tree.shows_mark(stat)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The processes themselves.
    pub fn roots(&self) -> impl Iterator<Item = Pid> {
        self.known.iter().filter(|process| !process.ended).map(|process| process.tree.root.pid)
    }

    /// Forgets processes that have ended without descendants, so that reused pids are not mistaken for theirs.
    pub fn tidy(&mut self) {
        self.known.retain(|process| {
            let group = process.tree.group.as_ref();
            // Nearly always, the kernel itself reports that the group is empty.
            let removed = || group.is_some_and(|group| group.remove_empty().is_ok());
            // If this process cannot look, some may be left.
            let has_none = || process.tree.members().is_ok_and(|members| members.is_empty());
            let empty = || has_none() && group.is_none_or(|group| group.remove().is_ok());
            !(process.ended && (removed() || empty()))
        });
    }
}

#[cfg(test)]
#[path = "processes_tests.rs"]
mod tests;
