//! The kill ladder of a foreground command: interrupt the shell, ask its processes to end, insist after the grace time.
//!
//! The order matters. The shell is interrupted *first*, so that it does not go on with the next command of the list when
//! the present one dies. Then every process of the command gets the signal and SIGCONT (a stopped process can not act on
//! SIGTERM). A process that forks while it is being killed is found by looking again each time one of them has ended; the
//! ladder is finished only when a look finds nobody, and when that look was taken after the shell had settled: an
//! interrupt that reaches the shell while it forks takes effect only after the fork.

use crate::family::Family;
use nacre_containment::cgroup::Group;
use nacre_containment::pid::{Identity, Pid};
use nacre_containment::{pidfd, signal};
use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// What the host wants ended, and how.
pub struct Plan {
    /// From the order.
    pub id: u64,
    /// First signal.
    pub signal: i32,
    /// Time until SIGKILL.
    pub grace: Duration,
    /// Roots of older trees.
    pub spare: Vec<Pid>,
    /// A trap of the user's runs when the shell ends.
    pub last_words: bool,
}

/// One run of the ladder.
pub struct Ladder {
    plan: Plan,
    begun: Instant,
    deadline: Instant,
    killing: bool,
    settled: bool,
    signalled: HashSet<Identity>,
    watched: Vec<OwnedFd>,
    blind: bool,
    /// The control group that was killed as a whole.
    doomed: Option<Group>,
}

/// How often to look for what the shell may still start.
const UNSETTLED_LOOK: Duration = Duration::from_millis(5);
/// For how long to look so often in any case: a fork takes a moment until it is a program of its own.
const UNSETTLED_TIME: Duration = Duration::from_millis(60);

impl Ladder {
    /// Interrupts the shell and takes the first look.
    pub fn start(plan: Plan, family: &Family) -> Self {
        if let Some(shell) = family.shell {
            let _ = signal::send_to_child(shell, signal::INTERRUPT);
            let _ = signal::send_to_child(shell, libc::SIGCONT);
        }
        let deadline = Instant::now() + plan.grace;
        let mut ladder = Self {
            plan,
            begun: Instant::now(),
            deadline,
            killing: false,
            settled: false,
            signalled: HashSet::new(),
            watched: Vec::new(),
            blind: false,
            doomed: None,
        };
        ladder.send(family, |_| true);
        ladder
    }

    /// From the order.
    pub fn id(&self) -> u64 {
        self.plan.id
    }

    /// The shell starts nothing more for the command.
    pub fn settle(&mut self) {
        self.settled = true;
    }

    /// Looks again. `Some(escalated)` when nobody is left.
    pub fn step(&mut self, family: &mut Family) -> Option<bool> {
        if !self.killing && Instant::now() >= self.deadline && !self.nobody_left(family) {
            self.killing = true;
            self.plan.signal = libc::SIGKILL;
            self.signalled.clear();
            self.doomed = family.kill_foreground_group();
        }
        // What the shell itself starts meanwhile belongs to the user's EXIT trap, when there is one: it may clean up until
        // the grace time is over.
        let shell = family.shell.map(Pid::raw);
        let spares_new = self.plan.last_words && !self.settled && !self.killing;
        self.send(family, |parent| !spares_new || Some(parent) != shell);
        (self.settled && self.nobody_left(family)).then_some(self.killing)
    }

    /// When to look again although no watched process has ended.
    pub fn next_look(&self) -> Duration {
        let until_deadline = self.deadline.saturating_duration_since(Instant::now());
        if self.killing {
            Duration::from_millis(1)
        } else if self.blind || !self.settled || self.begun.elapsed() < UNSETTLED_TIME {
            until_deadline.min(UNSETTLED_LOOK)
        } else {
            until_deadline
        }
    }

    fn nobody_left(&self, family: &Family) -> bool {
        let doomed = self.doomed.as_ref().and_then(|group| group.members().ok());
        doomed.is_none_or(|members| members.is_empty()) && family.foreground(&self.plan.spare).is_empty()
    }

    /// Descriptors that become readable when a signalled process has ended.
    pub fn watched(&self) -> &[OwnedFd] {
        &self.watched
    }

    fn send(&mut self, family: &Family, wanted: impl Fn(i32) -> bool) {
        self.watched.clear();
        self.blind = false;
        for stat in family.foreground(&self.plan.spare) {
            match pidfd::open(stat.identity.pid) {
                Ok(fd) => self.watched.push(fd),
                Err(_) => self.blind = true,
            }
            if self.signalled.contains(&stat.identity) || !wanted(stat.parent) {
                continue;
            }
            // A fork of the shell that has not exec'd yet still has the shell's handlers, which may swallow the signal: it
            // is asked again at the next look.
            if !is_fork_of(stat.identity.pid, family.shell) {
                self.signalled.insert(stat.identity);
            }
            let _ = signal::send_to(stat.identity, self.plan.signal);
            if self.plan.signal != libc::SIGKILL {
                let _ = signal::send_to(stat.identity, libc::SIGCONT);
            }
        }
    }
}

/// True for a copy of the shell's process image: its command line is still the shell's.
fn is_fork_of(pid: Pid, shell: Option<Pid>) -> bool {
    let command_line = |pid: Pid| std::fs::read(format!("/proc/{pid}/cmdline")).ok().filter(|line| !line.is_empty());
    shell.and_then(command_line).is_some_and(|line| command_line(pid) == Some(line))
}
