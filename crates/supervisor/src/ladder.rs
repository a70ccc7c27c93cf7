//! The kill ladder of a foreground command: interrupt the shell, ask its processes to end, insist after the grace time.
//!
//! The order matters. The shell is interrupted *first*, so that it does not go on with the next command of the list when
//! the present one dies. Then every process of the command gets the signal and SIGCONT (a stopped process can not act on
//! SIGTERM). A process that forks while it is being killed is found by looking again each time one of them has ended; the
//! ladder is finished only when a look finds nobody.

use crate::family::Family;
use nacre_containment::pid::{Identity, Pid};
use nacre_containment::{pidfd, signal};
use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// One run of the ladder.
pub struct Ladder {
    /// From the order.
    pub id: u64,
    signal: i32,
    spare: Vec<Pid>,
    deadline: Instant,
    killing: bool,
    signalled: HashSet<Identity>,
    watched: Vec<OwnedFd>,
    blind: bool,
}

impl Ladder {
    /// Interrupts the shell and takes the first look.
    pub fn start(id: u64, signal: i32, grace: Duration, spare: Vec<Pid>, family: &Family) -> Self {
        if let Some(shell) = family.shell {
            let _ = signal::send_to_child(shell, signal::INTERRUPT);
            let _ = signal::send_to_child(shell, libc::SIGCONT);
        }
        let deadline = Instant::now() + grace;
        let mut ladder = Self {
            id,
            signal,
            spare,
            deadline,
            killing: false,
            signalled: HashSet::new(),
            watched: Vec::new(),
            blind: false,
        };
        ladder.send(family, |_| true);
        ladder
    }

    /// Looks again. `Some(escalated)` when nobody is left.
    pub fn step(&mut self, family: &mut Family) -> Option<bool> {
        if family.foreground(&self.spare).is_empty() {
            return Some(self.killing);
        }
        if !self.killing && Instant::now() >= self.deadline {
            self.killing = true;
            self.signal = libc::SIGKILL;
            self.signalled.clear();
            family.kill_foreground_group();
        }
        let (shell, killing) = (family.shell.map(Pid::raw), self.killing);
        // What the shell itself starts now belongs to the user's EXIT trap: it may clean up until the grace time is over.
        self.send(family, |parent| killing || Some(parent) != shell);
        family.foreground(&self.spare).is_empty().then_some(self.killing)
    }

    /// When to look again although no watched process has ended.
    pub fn next_look(&self) -> Duration {
        let until_deadline = self.deadline.saturating_duration_since(Instant::now());
        if self.killing {
            Duration::from_millis(1)
        } else if self.blind {
            until_deadline.min(Duration::from_millis(10))
        } else {
            until_deadline
        }
    }

    /// Descriptors that become readable when a signalled process has ended.
    pub fn watched(&self) -> &[OwnedFd] {
        &self.watched
    }

    fn send(&mut self, family: &Family, wanted: impl Fn(i32) -> bool) {
        self.watched.clear();
        self.blind = false;
        for stat in family.foreground(&self.spare) {
            match pidfd::open(stat.identity.pid) {
                Ok(fd) => self.watched.push(fd),
                Err(_) => self.blind = true,
            }
            if self.signalled.contains(&stat.identity) || !wanted(stat.parent) {
                continue;
            }
            self.signalled.insert(stat.identity);
            let _ = signal::send_to(stat.identity, self.signal);
            if self.signal != libc::SIGKILL {
                let _ = signal::send_to(stat.identity, libc::SIGCONT);
            }
        }
    }
}
