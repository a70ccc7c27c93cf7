//! The kill ladder: signal every process, SIGKILL after the grace time, until none is left.
//!
//! The order matters. For a foreground command the shell is interrupted *first*, so that it does not continue with
//! the next command of a list when the current one dies. Then every process gets the signal and SIGCONT (a stopped
//! process cannot act on SIGTERM). Each time a process ends, another look finds processes that were forked meanwhile.
//! The ladder is finished only when a look finds nothing. For a foreground command, that look must follow the shell's
//! return to idle: an interrupt that reaches the shell while it forks takes effect only after the fork.
//!
//! The race: an interrupt that arrives inside a DEBUG trap is lost, since bash restores its own flag after a trap. So
//! it is sent again with every look until the shell has settled. It carries the command's number, so it never hits
//! another command.

use crate::process_table::ProcessTable;
use crate::target::Target;
use nacre_containment::cgroup::Group;
use nacre_containment::pid::{Identity, Pid};
use nacre_containment::proc_table::{self, Stat};
use nacre_containment::watch::Watch;
use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// The processes to end, and the signals to use.
pub struct Plan {
    /// The id from the order.
    pub id: u64,
    /// The target.
    pub target: Target,
    /// First signal.
    pub signal: i32,
    /// Time until SIGKILL.
    pub grace: Duration,
}

/// One run of the ladder.
pub struct Ladder {
    plan: Plan,
    begun: Instant,
    deadline: Instant,
    killing: bool,
    settled: bool,
    /// The user's EXIT trap is running in the shell: what the shell starts now gets the grace time.
    trap_runs: bool,
    found: bool,
    signalled: HashSet<Identity>,
    watch: Watch,
    /// Whether, at the last look, some were forks of the shell that may not have handled the signal.
    unsure: bool,
    /// The control group that was killed as a whole.
    killed_group: Option<Group>,
    /// When to look again even if no watched process has ended.
    look_at: Instant,
}

/// How often to look for processes that may still be started.
const UNSETTLED_LOOK: Duration = Duration::from_millis(5);
/// How long to look in any case, less and less often: a fork takes a moment until its exec.
const UNSETTLED_TIME: Duration = Duration::from_millis(60);

/// How often to signal forks of the shell again after that.
const UNSURE_LOOK: Duration = Duration::from_millis(50);

/// The outcome of a ladder.
pub struct Outcome {
    /// Whether there was a process to end.
    pub found: bool,
    /// Whether SIGKILL was needed.
    pub escalated: bool,
}

impl Ladder {
    /// Takes the first look; if the shell's command is to end, interrupts the shell before that.
    pub fn start(plan: Plan, table: &mut ProcessTable) -> Self {
        let is_process = matches!(plan.target, Target::Process { .. });
        plan.target.interrupt(table);
        let deadline = Instant::now() + plan.grace;
        let mut ladder = Self {
            plan,
            begun: Instant::now(),
            deadline,
            killing: false,
            settled: is_process,
            trap_runs: false,
            found: false,
            signalled: HashSet::new(),
            watch: Watch::default(),
            unsure: false,
            killed_group: None,
            look_at: Instant::now(),
        };
        let members = ladder.plan.target.members(table);
        if let Target::Process { key } = ladder.plan.target {
            table.processes.about_to_ask(Some(key), &members);
        }
        ladder.send(table, members, |_| true);
        ladder
    }

    /// The id from the order.
    pub fn id(&self) -> u64 {
        self.plan.id
    }

    /// True if it ends the foreground command.
    pub fn is_foreground(&self) -> bool {
        matches!(self.plan.target, Target::Foreground { .. })
    }

    /// The user's EXIT trap is about to run in the shell.
    pub fn trap_runs(&mut self) {
        self.trap_runs = true;
    }

    /// The shell starts nothing more for the command.
    pub fn settle(&mut self) {
        self.settled = true;
        self.look_again();
    }

    /// Makes the next look due now.
    pub fn look_again(&mut self) {
        self.look_at = Instant::now();
    }

    /// Ends the grace time.
    pub fn insist(&mut self) {
        self.deadline = self.deadline.min(Instant::now());
        self.look_again();
    }

    /// Looks again. `Some` once no process is left.
    pub fn step(&mut self, table: &mut ProcessTable) -> Option<Outcome> {
        if !self.killing && Instant::now() >= self.deadline && !self.is_finished(table) {
            self.killing = true;
            self.plan.signal = libc::SIGKILL;
            self.signalled.clear();
            self.killed_group = self.plan.target.kill_group(table);
        }
        if !self.settled {
            self.plan.target.interrupt(table);
        }
        let shell = table.shell().map(Pid::raw);
        let spares_new = self.trap_runs && !self.settled && !self.killing;
        let members = self.plan.target.members(table);
        let is_empty = members.is_empty();
        self.send(table, members, |parent| !spares_new || Some(parent) != shell);
        self.look_at = Instant::now() + self.pause();
        // The second look is needed if a look walks over the process table, where a fork can be missed.
        let over = self.settled && is_empty && self.is_finished(table);
        over.then_some(Outcome { found: self.found, escalated: self.killing })
    }

    /// How long until the next look, even if no watched process has ended.
    pub fn next_look(&self) -> Duration {
        self.look_at.saturating_duration_since(Instant::now())
    }

    fn pause(&self) -> Duration {
        let until_deadline = self.deadline.saturating_duration_since(Instant::now());
        if self.killing {
            Duration::from_millis(1)
        } else if self.watch.is_blind() || !self.settled {
            until_deadline.min(UNSETTLED_LOOK)
        } else if self.begun.elapsed() < UNSETTLED_TIME {
            until_deadline.min(UNSETTLED_LOOK.max(self.begun.elapsed()))
        } else if self.unsure {
            until_deadline.min(UNSURE_LOOK)
        } else {
            until_deadline
        }
    }

    fn is_finished(&self, table: &ProcessTable) -> bool {
        let killed_group = self.killed_group.as_ref().and_then(|group| group.members().ok());
        killed_group.is_none_or(|members| members.is_empty()) && self.plan.target.members(table).is_empty()
    }

    /// Descriptors that become readable when a signalled process has ended.
    pub fn watched(&self) -> &[OwnedFd] {
        self.watch.descriptors()
    }

    fn send(&mut self, table: &ProcessTable, members: Vec<Stat>, wanted: impl Fn(i32) -> bool) {
        self.watch = Watch::default();
        self.unsure = false;
        let shell = self.plan.target.shell(table);
        let shell =
            members.iter().find(|stat| Some(stat.identity.pid) == shell).copied().or_else(|| Stat::read(shell?));
        let signals = [self.plan.signal, libc::SIGCONT];
        let signals = if self.plan.signal == libc::SIGKILL { &signals[..1] } else { &signals[..] };
        for stat in members {
            self.found = true;
            let is_asked = self.is_due(&stat, shell.as_ref(), &wanted);
            self.watch.add(stat.identity, if is_asked { signals } else { &[] });
        }
    }

    fn is_due(&mut self, stat: &Stat, shell: Option<&Stat>, wanted: impl Fn(i32) -> bool) -> bool {
        if self.signalled.contains(&stat.identity) || !wanted(stat.parent) {
            return false;
        }
        // Before its exec, a fork of a shell has the shell's handlers for a moment, which may swallow the signal: it
        // is signalled again, for as long as that takes on a busy machine. A subshell has its own handlers or none,
        // and is signalled once, so that a user's trap runs once.
        if shell.is_some_and(|shell| proc_table::is_unsettled_fork_of(stat, shell, self.plan.signal)) {
            self.unsure = true;
        } else {
            self.signalled.insert(stat.identity);
        }
        true
    }
}

#[cfg(test)]
#[path = "ladder_tests.rs"]
mod tests;
