//! The kill ladder: ask everybody to end, insist after the grace time, until nobody is left.
//!
//! The order matters. For a foreground command the shell is interrupted *first*, so that it does not go on with the next
//! command of the list when the present one dies. Then every process gets the signal and SIGCONT (a stopped process can
//! not act on SIGTERM). A process that forks while it is being killed is found by looking again each time one of them
//! has ended; the ladder is finished only when a look finds nobody, and, for a foreground command, when that look was
//! taken after the shell had settled: an interrupt that reaches the shell while it forks takes effect only after the
//! fork.

use crate::family::Family;
use crate::target::Target;
use nacre_containment::cgroup::Group;
use nacre_containment::pid::{Identity, Pid};
use nacre_containment::proc_table::{self, Stat};
use nacre_containment::signal;
use nacre_containment::watch::Watch;
use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// What the host wants ended, and how.
pub struct Plan {
    /// From the order.
    pub id: u64,
    /// What.
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
    found: bool,
    signalled: HashSet<Identity>,
    watch: Watch,
    /// At the last look some were forks of the shell that may not have taken the signal.
    unsure: bool,
    /// The control group that was killed as a whole.
    doomed: Option<Group>,
    /// When to look again, although no watched process has ended.
    look_at: Instant,
}

/// How often to look for what may still be started.
const UNSETTLED_LOOK: Duration = Duration::from_millis(5);
/// For how long to look in any case, less and less often: a fork takes a moment until it is a program of its own.
const UNSETTLED_TIME: Duration = Duration::from_millis(60);

/// How often to ask forks of the shell again after that.
const UNSURE_LOOK: Duration = Duration::from_millis(50);

/// How a ladder has ended.
pub struct Outcome {
    /// There was somebody.
    pub found: bool,
    /// SIGKILL was needed.
    pub escalated: bool,
}

impl Ladder {
    /// Takes the first look, after the shell has been interrupted when it is its command that is to end.
    pub fn start(plan: Plan, family: &mut Family) -> Self {
        let is_process = matches!(plan.target, Target::Process { .. });
        if let Some(shell) = family.shell.filter(|_| !is_process) {
            let _ = signal::send_to_child(shell, signal::INTERRUPT);
            let _ = signal::send_to_child(shell, libc::SIGCONT);
        }
        let deadline = Instant::now() + plan.grace;
        let mut ladder = Self {
            plan,
            begun: Instant::now(),
            deadline,
            killing: false,
            settled: is_process,
            found: false,
            signalled: HashSet::new(),
            watch: Watch::default(),
            unsure: false,
            doomed: None,
            look_at: Instant::now(),
        };
        let members = ladder.plan.target.members(family);
        if let Target::Process { key } = ladder.plan.target {
            family.processes.about_to_ask(Some(key), &members);
        }
        ladder.send(family, members, |_| true);
        ladder
    }

    /// From the order.
    pub fn id(&self) -> u64 {
        self.plan.id
    }

    /// True when it ends the foreground command.
    pub fn is_foreground(&self) -> bool {
        matches!(self.plan.target, Target::Foreground { .. })
    }

    /// The shell starts nothing more for the command.
    pub fn settle(&mut self) {
        self.settled = true;
        self.look_at = Instant::now();
    }

    /// The grace time is over.
    pub fn insist(&mut self) {
        self.deadline = self.deadline.min(Instant::now());
        self.look_at = Instant::now();
    }

    /// Looks again. `Some` when nobody is left.
    pub fn step(&mut self, family: &mut Family) -> Option<Outcome> {
        if !self.killing && Instant::now() >= self.deadline && !self.nobody_left(family) {
            self.killing = true;
            self.plan.signal = libc::SIGKILL;
            self.signalled.clear();
            self.doomed = self.plan.target.kill_group(family);
        }
        // What the shell itself starts meanwhile belongs to the user's EXIT trap, when there is one: it may clean up until
        // the grace time is over.
        let shell = family.shell.map(Pid::raw);
        let last_words = matches!(self.plan.target, Target::Foreground { last_words: true, .. });
        let spares_new = last_words && !self.settled && !self.killing;
        let members = self.plan.target.members(family);
        let is_empty = members.is_empty();
        self.send(family, members, |parent| !spares_new || Some(parent) != shell);
        self.look_at = Instant::now() + self.pause();
        // The second look is for where a look is a walk over the process table, which a fork can slip through.
        let over = self.settled && is_empty && self.nobody_left(family);
        over.then_some(Outcome { found: self.found, escalated: self.killing })
    }

    /// How long until it has to look again although no watched process has ended.
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

    fn nobody_left(&self, family: &Family) -> bool {
        let doomed = self.doomed.as_ref().and_then(|group| group.members().ok());
        doomed.is_none_or(|members| members.is_empty()) && self.plan.target.members(family).is_empty()
    }

    /// Descriptors that become readable when a signalled process has ended.
    pub fn watched(&self) -> &[OwnedFd] {
        self.watch.descriptors()
    }

    fn send(&mut self, family: &Family, members: Vec<Stat>, wanted: impl Fn(i32) -> bool) {
        self.watch = Watch::default();
        self.unsure = false;
        let shell = self.plan.target.shell(family);
        let shell =
            members.iter().find(|stat| Some(stat.identity.pid) == shell).copied().or_else(|| Stat::read(shell?));
        let signals = [self.plan.signal, libc::SIGCONT];
        let signals = if self.plan.signal == libc::SIGKILL { &signals[..1] } else { &signals[..] };
        for stat in members {
            self.found = true;
            let is_asked = self.is_to_be_asked(&stat, shell.as_ref(), &wanted);
            self.watch.add(stat.identity, if is_asked { signals } else { &[] });
        }
    }

    fn is_to_be_asked(&mut self, stat: &Stat, shell: Option<&Stat>, wanted: impl Fn(i32) -> bool) -> bool {
        if self.signalled.contains(&stat.identity) || !wanted(stat.parent) {
            return false;
        }
        // A fork of a shell that is no program yet has the shell's handlers for a moment, which may swallow the signal: it
        // is asked again, for as long as that takes on a busy machine. A subshell has handlers of its own or none, and is
        // asked once: a trap of the user's is to run once.
        if shell.is_some_and(|shell| proc_table::is_unsettled_fork_of(stat, shell, self.plan.signal)) {
            self.unsure = true;
        } else {
            self.signalled.insert(stat.identity);
        }
        true
    }
}
