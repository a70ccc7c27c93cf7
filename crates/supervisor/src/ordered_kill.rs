//! A kill that the host orders: the ladder for a foreground command or a background process.
//!
//! The order matters. For a foreground command the shell is interrupted *first*, so that it does not continue with
//! the next command of a list when the current one dies. Then every process gets the signal. The kill is finished only
//! when a look finds nothing. For a foreground command, that look must follow the shell's return to idle: an interrupt
//! that reaches the shell while it forks takes effect only after the fork.
//!
//! The race: an interrupt that arrives inside a DEBUG trap is lost, since bash restores its own flag after a trap. So
//! it is sent again with every look until the shell has settled. It carries the command's number, so it never hits
//! another command.
//!
//! A program can replace the shell (`exec`). It does not handle the interrupt, which would end it before it could clean
//! up. It is one of the command's programs and gets the signal as they do.

use crate::process_table::ProcessTable;
use nacre_containment::cgroup::Group;
use nacre_containment::ladder::Ladder;
use nacre_containment::pid::{Identity, Pid};
use nacre_containment::proc_table::{self, Stat};
use nacre_containment::signal;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// See the module.
pub struct OrderedKill {
    id: u64,
    target: Target,
    ladder: Ladder,
    /// The user's EXIT trap is running in the shell: what the shell starts now gets the grace time.
    trap_runs: bool,
    found: bool,
    /// The control group is to be killed as a whole, once no fork is expected in it.
    group_is_due: bool,
    /// That group. The shell of a foreground command has left it.
    group: Option<Group>,
    /// The processes that the last look has found. They stay targets if they lose their parents and leave their group.
    followed: Vec<Identity>,
}

/// The outcome of a kill.
pub struct Outcome {
    /// Whether there was a process to end.
    pub found: bool,
    /// Whether SIGKILL was needed.
    pub escalated: bool,
}

impl OrderedKill {
    /// Takes the first look; if the shell's command is to end, interrupts the shell before that. `id` is that of the
    /// order, `signal` the first signal, `grace` the time until SIGKILL. `is_ordered`: as in [`OrderedKill::step`].
    pub fn start(
        id: u64,
        target: Target,
        signal: i32,
        grace: Duration,
        table: &mut ProcessTable,
        is_ordered: impl Fn() -> bool,
    ) -> Self {
        let ladder = Ladder::new(signal, grace).of_forks_of(target.shell(table));
        let mut kill = Self {
            id,
            target,
            ladder,
            trap_runs: false,
            found: false,
            group_is_due: false,
            group: None,
            followed: Vec::new(),
        };
        kill.note(table);
        if kill.target.interrupt_ends_shell() {
            // Of some, only the shell proves that they are the command's.
            kill.members(table).iter().for_each(|members| kill.follow(members));
        }
        if kill.target.interrupt(table) {
            kill.ladder = kill.ladder.unsettled();
        }
        let members = kill.members(table);
        if let (Ok(members), false) = (members, kill.must_wait(is_ordered)) {
            kill.send(table, &members);
        }
        kill.look_again();
        kill
    }

    /// The id from the order.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// True if it ends the foreground command.
    pub fn is_foreground(&self) -> bool {
        matches!(self.target, Target::Foreground { .. })
    }

    /// The key of the background process that it ends.
    pub fn process(&self) -> Option<u64> {
        match self.target {
            Target::Process { key } => Some(key),
            Target::Foreground { .. } => None,
        }
    }

    /// The user's EXIT trap is about to run in the shell.
    pub fn trap_runs(&mut self) {
        self.trap_runs = true;
    }

    /// The shell starts nothing more for the command.
    pub fn settle(&mut self) {
        self.ladder.settle();
    }

    /// Makes the next look due now.
    pub fn look_again(&mut self) {
        self.ladder.look_again();
    }

    /// Ends the grace time.
    pub fn insist(&mut self) {
        self.ladder.hasten(Duration::ZERO);
    }

    /// Looks again. `Some` once no process is left.
    ///
    /// The host announces forks by an order before it asks for them. So if a look shows such a fork and `is_ordered` is
    /// false after it, the fork is expected. Otherwise the orders come first, and nothing gets a signal.
    pub fn step(&mut self, table: &mut ProcessTable, is_ordered: impl Fn() -> bool) -> Option<Outcome> {
        self.note(table);
        let waits = self.is_foreground() && table.expects_forks;
        if !self.ladder.is_killing() && self.ladder.is_overdue() && !self.is_finished(table) {
            self.ladder.kill();
            self.group_is_due = true;
        }
        if self.group_is_due && !waits {
            self.group = self.group.take().or_else(|| self.target.separate_group(table));
            // If that fails, it is tried again. Meanwhile, its members are killed one by one.
            self.group_is_due = self.group.as_ref().is_some_and(|group| group.kill().is_err());
        }
        if !self.ladder.is_settled() && !self.target.interrupt(table) {
            self.ladder.settle();
        }
        let members = self.members(table);
        if self.must_wait(is_ordered) {
            self.look_again();
            return None;
        }
        // Otherwise, some may be left.
        let Ok(members) = members else {
            self.ladder.cannot_look();
            return None;
        };
        self.send(table, &members);
        // The second look is needed if a look walks over the process table, where a fork can be missed.
        let over = self.ladder.is_settled() && !waits && members.is_empty() && self.is_finished(table);
        over.then_some(Outcome { found: self.found, escalated: self.ladder.is_killing() })
    }

    /// How long until the next look, even if no watched process has ended.
    pub fn next_look(&self) -> Duration {
        self.ladder.next_look()
    }

    /// Descriptors that become readable when a signalled process has ended.
    pub fn watched(&self) -> &[OwnedFd] {
        self.ladder.watched()
    }

    /// The running processes to end.
    fn members(&self, table: &ProcessTable) -> io::Result<Vec<Stat>> {
        let mut members = self.target.members(table)?;
        if self.is_foreground() && self.target.shell(table).is_none() {
            let program = table.shell().and_then(Stat::read).filter(Stat::is_running);
            members.extend(program);
        }
        if let (Some(group), true) = (&self.group, self.is_foreground()) {
            let left = proc_table::read_each(group.members_below()?)?;
            members.extend(left.into_iter().filter(Stat::is_running));
        }
        for identity in &self.followed {
            let is_listed = members.iter().any(|stat| stat.identity == *identity);
            let left = if is_listed { None } else { Stat::look(identity.pid)? };
            members.extend(left.filter(|stat| stat.identity == *identity && stat.is_running()));
        }
        Ok(members)
    }

    /// Notes what tells the processes of the command from older ones.
    fn note(&self, table: &mut ProcessTable) {
        if self.is_foreground() {
            table.note_descent();
        }
    }

    fn is_finished(&self, table: &ProcessTable) -> bool {
        self.members(table).is_ok_and(|members| members.is_empty())
    }

    /// Whether an order may be about what the last look has found.
    fn must_wait(&self, is_ordered: impl Fn() -> bool) -> bool {
        self.is_foreground() && is_ordered()
    }

    fn follow(&mut self, members: &[Stat]) {
        self.followed = members.iter().map(|stat| stat.identity).collect();
    }

    fn send(&mut self, table: &mut ProcessTable, members: &[Stat]) {
        self.found |= !members.is_empty();
        self.follow(members);
        if let Target::Process { key } = self.target {
            table.processes.about_to_ask(Some(key), members);
        }
        let spares_new = self.trap_runs && !self.ladder.is_settled();
        let spared = table.shell().filter(|_| spares_new);
        self.ladder.step(members, self.target.shell(table), spared);
    }
}

/// The processes to end: a foreground command, or a background process with its tree.
pub enum Target {
    /// Everything that the current command has started, except the shell itself.
    Foreground {
        /// The command's number in the shell. `None` in plain mode, in which the interrupt ends the shell.
        command: Option<u64>,
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
    fn members(&self, table: &ProcessTable) -> io::Result<Vec<Stat>> {
        match self {
            Self::Foreground { spare, .. } => table.foreground(spare),
            Self::Process { key } => table.processes.tree(*key).map_or(Ok(Vec::new()), |tree| tree.members()),
        }
    }

    /// The shell that runs the target, whose forks are among its processes. `None` if a program has replaced it.
    fn shell(&self, table: &ProcessTable) -> Option<Pid> {
        match self {
            Self::Foreground { command: None, .. } => table.shell(),
            // What cannot be looked at gets no signal that would end a shell.
            Self::Foreground { .. } => table.shell().filter(|shell| signal::handles_interrupt(*shell).unwrap_or(true)),
            Self::Process { key } => table.processes.tree(*key).map(|tree| tree.root.pid),
        }
    }

    fn interrupt_ends_shell(&self) -> bool {
        matches!(self, Self::Foreground { command: None, .. })
    }

    /// Interrupts the shell's command, even in a stopped shell. False if no shell starts more: a background process only gets
    /// its signals, unless it was such a command.
    fn interrupt(&self, table: &ProcessTable) -> bool {
        match self {
            Self::Process { key } => table.processes.interrupt(Some(*key)),
            Self::Foreground { command, .. } => {
                if let Some(shell) = self.shell(table) {
                    let _ = signal::interrupt_child(shell, command.unwrap_or_default());
                    let _ = signal::send_to_child(shell, libc::SIGCONT);
                }
                // The host knows when the shell has settled.
                true
            }
        }
    }

    /// A control group with nothing else in it, if there are groups.
    fn separate_group(&self, table: &mut ProcessTable) -> Option<Group> {
        match self {
            Self::Foreground { .. } => table.leave_foreground_group(),
            Self::Process { key } => table.processes.tree(*key)?.group.clone(),
        }
    }
}

#[cfg(test)]
#[path = "ordered_kill_tests.rs"]
mod tests;
