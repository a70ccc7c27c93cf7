//! The kill ladder: a signal to every process, SIGKILL after the grace time, and looks until none is left.
//!
//! The owner lists the processes, since only it knows which are its own, and decides when none can be left. Each look
//! finds processes that were forked since the last one: they get the signal too. A process gets it once, so that a
//! user's trap runs once, and SIGCONT with it: a stopped process cannot act on SIGTERM. SIGKILL is sent at each look.

use crate::pid::{Identity, Pid};
use crate::proc_table::{self, Original, Stat};
use crate::watch::Watch;
use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// How often to look for processes that may still be started.
const UNSETTLED_LOOK: Duration = Duration::from_millis(5);
/// How long to look in any case, less and less often: a fork takes a moment until its exec.
const UNSETTLED_TIME: Duration = Duration::from_millis(60);
/// How often to signal forks of the shell again after that.
const UNSURE_LOOK: Duration = Duration::from_millis(50);
/// How often to look for what SIGKILL has not ended yet, at first and later. A process that does not die immediately is
/// blocked in the kernel, which may take long.
const KILLED_LOOKS: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(100)];
const KILLED_TIME: Duration = Duration::from_secs(1);
/// How long to wait for processes that survive even SIGKILL (uninterruptible sleep on a dead file system).
pub const UNKILLABLE: Duration = Duration::from_secs(10);

/// See the module.
pub struct Ladder {
    signal: i32,
    begun: Instant,
    deadline: Instant,
    is_killing: bool,
    is_settled: bool,
    signalled: HashSet<Identity>,
    /// The shell, as it was last seen.
    shell: Option<Original>,
    /// At the last look, some were forks of the shell that may not have handled the signal.
    is_unsure: bool,
    watch: Watch,
    /// When to look again even if no watched process has ended.
    look_at: Instant,
}

impl Ladder {
    /// Creates a ladder that has done nothing yet. `grace` is the time from now until SIGKILL.
    pub fn new(signal: i32, grace: Duration) -> Self {
        let begun = Instant::now();
        Self {
            signal,
            begun,
            deadline: begun + grace,
            is_killing: false,
            is_settled: true,
            signalled: HashSet::new(),
            shell: None,
            is_unsure: false,
            watch: Watch::default(),
            look_at: begun,
        }
    }

    /// Expects new processes at any time, until [`Ladder::settle`].
    #[must_use]
    pub fn unsettled(self) -> Self {
        Self { is_settled: false, ..self }
    }

    /// Looks at the shell, which may end before its forks have handlers of their own.
    #[must_use]
    pub fn of_forks_of(self, shell: Option<Pid>) -> Self {
        Self { shell: shell.and_then(Original::look), ..self }
    }

    /// New processes come only from those that a look has found.
    pub fn settle(&mut self) {
        self.is_settled = true;
        self.look_again();
    }

    /// See [`Ladder::settle`].
    pub fn is_settled(&self) -> bool {
        self.is_settled
    }

    /// Shortens the grace time, but never extends it.
    pub fn hasten(&mut self, grace: Duration) {
        self.deadline = self.deadline.min(Instant::now() + grace);
        self.look_again();
    }

    /// True once the grace time is over.
    pub fn is_overdue(&self) -> bool {
        Instant::now() >= self.deadline
    }

    /// Sends only SIGKILL from now on.
    pub fn kill(&mut self) {
        self.is_killing = true;
        self.signal = libc::SIGKILL;
    }

    /// True after [`Ladder::kill`].
    pub fn is_killing(&self) -> bool {
        self.is_killing
    }

    /// Makes the next look due now.
    pub fn look_again(&mut self) {
        self.look_at = Instant::now();
    }

    /// The owner could not look, for example because it has no descriptor left: it must look again. Watches would wake it
    /// at once, again and again, and need descriptors.
    pub fn cannot_look(&mut self) {
        self.watch = Watch::default();
        self.look_at = Instant::now() + UNSETTLED_LOOK;
    }

    /// How long until the next look, even if no watched process has ended.
    pub fn next_look(&self) -> Duration {
        self.look_at.saturating_duration_since(Instant::now())
    }

    /// Descriptors that become readable when a process that the last look found has ended.
    pub fn watched(&self) -> &[OwnedFd] {
        self.watch.descriptors()
    }

    /// Sends due signals to the running processes that a look has found. Some may be forks of `shell`. Before SIGKILL,
    /// processes below `spared` get no signal, unless they had it before.
    ///
    /// Before its exec, a fork of a shell has the shell's handlers for a moment, which may swallow the signal: it is
    /// signalled again, for as long as that takes on a busy machine. A subshell has its own handlers or none.
    pub fn step(&mut self, members: &[Stat], shell: Option<Pid>, spared: Option<Pid>) {
        let seen = shell.and_then(Original::look).or(self.shell.take());
        let signal = self.signal;
        let is_unsettled =
            |stat: &Stat| seen.as_ref().is_some_and(|shell| proc_table::is_unsettled_fork_of(stat, shell, signal));
        let is_spared = |stat: &Stat| spared.is_some_and(|parent| stat.parent == parent.raw());
        let due = self.due(members, is_spared, is_unsettled);
        self.shell = seen;
        let signals: &[i32] = if signal == libc::SIGKILL { &[signal] } else { &[signal, libc::SIGCONT] };
        self.watch = Watch::default();
        for (stat, is_due) in members.iter().zip(due) {
            self.watch.add(stat.identity, if is_due { signals } else { &[] });
        }
        let now = Instant::now();
        self.look_at = now + self.pause(now, self.watch.is_blind());
    }

    /// Decides for each process whether it gets a signal now.
    fn due(
        &mut self,
        members: &[Stat],
        is_spared: impl Fn(&Stat) -> bool,
        is_unsettled: impl Fn(&Stat) -> bool,
    ) -> Vec<bool> {
        self.is_unsure = false;
        let is_due = |stat: &Stat| {
            if self.is_killing {
                return true;
            }
            if self.signalled.contains(&stat.identity) || is_spared(stat) {
                return false;
            }
            if is_unsettled(stat) {
                self.is_unsure = true;
            } else {
                self.signalled.insert(stat.identity);
            }
            true
        };
        members.iter().map(is_due).collect()
    }

    /// Decides when to look again. A watch is blind if it cannot observe the end of every process.
    fn pause(&self, now: Instant, is_blind: bool) -> Duration {
        let until_deadline = self.deadline.saturating_duration_since(now);
        let age = now.saturating_duration_since(self.begun);
        if self.is_killing {
            let is_stuck = self.is_settled && now.saturating_duration_since(self.deadline) >= KILLED_TIME;
            KILLED_LOOKS[usize::from(is_stuck)]
        } else if is_blind || !self.is_settled {
            until_deadline.min(UNSETTLED_LOOK)
        } else if age < UNSETTLED_TIME {
            until_deadline.min(UNSETTLED_LOOK.max(age))
        } else if self.is_unsure {
            until_deadline.min(UNSURE_LOOK)
        } else {
            until_deadline
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(10);

    fn ladder() -> Ladder {
        Ladder::new(libc::SIGTERM, GRACE)
    }

    fn process(pid: i32, start_ticks: u64) -> Stat {
        let mut stat = Stat::read(Pid::new(std::process::id() as i32).unwrap()).unwrap();
        stat.identity = Identity { pid: Pid::new(pid).unwrap(), start_ticks };
        stat
    }

    fn processes<const N: usize>(pids: [i32; N]) -> [Stat; N] {
        pids.map(|pid| process(pid, 1))
    }

    fn has_pid(pid: i32) -> impl Fn(&Stat) -> bool {
        move |stat| stat.identity.pid.raw() == pid
    }

    #[test]
    fn each_process_is_asked_once_and_killed_at_each_look() {
        let mut ladder = ladder();
        let none = has_pid(0);
        for (pids, is_killing, due) in [
            ([10, 11], false, [true, true]),
            ([10, 11], false, [false, false]),
            ([11, 12], false, [false, true]),
            ([11, 12], true, [true, true]),
            ([11, 13], true, [true, true]),
        ] {
            if is_killing {
                ladder.kill();
            }
            assert_eq!(ladder.due(&processes(pids), &none, &none), due, "{pids:?}, {is_killing}");
        }
        // A reused pid is another process.
        ladder.is_killing = false;
        assert_eq!(ladder.due(&[process(10, 2)], &none, &none), [true]);
    }

    #[test]
    fn a_process_that_may_have_missed_the_signal_is_asked_again() {
        let (mut ladder, none) = (ladder(), has_pid(0));
        for (unsettled, due) in [(11, [true, true]), (11, [false, true]), (0, [false, true]), (11, [false, false])] {
            assert_eq!(ladder.due(&processes([10, 11]), &none, has_pid(unsettled)), due);
            assert_eq!(ladder.is_unsure, unsettled == 11 && due[1]);
        }
    }

    #[test]
    fn a_spared_process_is_asked_later_and_killed_like_any_other() {
        let (mut ladder, none) = (ladder(), has_pid(0));
        assert_eq!(ladder.due(&processes([10, 11]), has_pid(11), &none), [true, false]);
        assert_eq!(ladder.due(&processes([11]), &none, &none), [true]);
        ladder.kill();
        assert_eq!(ladder.due(&processes([11]), has_pid(11), &none), [true]);
    }

    #[test]
    fn looks_are_as_frequent_as_new_processes_are_likely() {
        let ms = Duration::from_millis;
        for (name, age, is_blind, change, pause) in [
            ("at first", ms(0), false, (|_| {}) as fn(&mut Ladder), ms(5)),
            ("then less often", ms(40), false, |_| {}, ms(40)),
            ("then at the deadline", ms(60), false, |_| {}, GRACE - ms(60)),
            ("without a watch", ms(60), true, |_| {}, ms(5)),
            ("while more may start", ms(60), false, |ladder| ladder.is_settled = false, ms(5)),
            ("while the signal may be lost", ms(60), false, |ladder| ladder.is_unsure = true, ms(50)),
            ("never after the deadline", GRACE - ms(2), true, |_| {}, ms(2)),
            ("after SIGKILL", GRACE, false, Ladder::kill, ms(1)),
            ("long after SIGKILL", GRACE + ms(1000), false, Ladder::kill, ms(100)),
        ] {
            let mut ladder = ladder();
            change(&mut ladder);
            assert_eq!(ladder.pause(ladder.begun + age, is_blind), pause, "{name}");
        }
    }

    #[test]
    fn the_grace_time_is_only_shortened() {
        let mut ladder = ladder();
        let deadline = ladder.deadline;
        ladder.hasten(2 * GRACE);
        assert_eq!((ladder.deadline, ladder.is_overdue()), (deadline, false));
        ladder.hasten(Duration::ZERO);
        assert!(ladder.is_overdue());
    }
}
