//! The kill ladder of a job: SIGTERM and SIGCONT to the whole tree, SIGKILL after the grace time.
//!
//! The tree is everything below this process, which is its subreaper, and everything in the control group. Each time
//! a process ends, another scan finds processes that were forked meanwhile.

use nacre_containment::cgroup::Group;
use nacre_containment::job::record::Reason;
use nacre_containment::pid::{Identity, Pid};
use nacre_containment::proc_table::{self, Stat};
use nacre_containment::watch::Watch;
use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// How often, and for how long, to scan while forks may not have executed their programs yet.
const UNSETTLED_LOOK: Duration = Duration::from_millis(5);
const UNSETTLED_TIME: Duration = Duration::from_millis(60);

/// The running processes of a job.
pub fn members(own: Pid, group: Option<&Group>) -> Vec<Stat> {
    let mut found = proc_table::descendants(&[own], &HashSet::new());
    let known: HashSet<Pid> = found.iter().map(|stat| stat.identity.pid).collect();
    let in_group = group.and_then(|group| group.members().ok()).unwrap_or_default();
    found.extend(in_group.into_iter().filter(|pid| !known.contains(pid)).filter_map(Stat::read));
    found.retain(Stat::is_running);
    found
}

/// See the module.
pub struct Killing {
    /// The reason.
    pub reason: Reason,
    begun: Instant,
    deadline: Instant,
    asked: HashSet<Identity>,
    watch: Watch,
}

impl Killing {
    /// Creates a ladder that does nothing yet.
    pub fn new(reason: Reason, grace: Duration) -> Self {
        let begun = Instant::now();
        let deadline = begun + grace;
        Self { reason, begun, deadline, asked: HashSet::new(), watch: Watch::default() }
    }

    /// Shortens the grace time, but never extends it.
    pub fn hasten(&mut self, grace: Duration) {
        self.deadline = self.deadline.min(Instant::now() + grace);
    }

    /// Scans again and sends due signals.
    pub fn step(&mut self, own: Pid, group: Option<&Group>, command: Option<Pid>) {
        let insist = self.insists();
        if let Some(group) = group.filter(|_| insist) {
            let _ = group.kill();
        }
        self.watch = Watch::default();
        let shell = command.and_then(Stat::read);
        for stat in members(own, group) {
            let signals: &[i32] = if insist {
                &[libc::SIGKILL]
            } else if self.is_to_be_asked(&stat, shell.as_ref()) {
                &[libc::SIGTERM, libc::SIGCONT]
            } else {
                &[]
            };
            self.watch.add(stat.identity, signals);
        }
    }

    fn is_to_be_asked(&mut self, stat: &Stat, shell: Option<&Stat>) -> bool {
        if self.asked.contains(&stat.identity) {
            return false;
        }
        // A fork of the shell that has not executed its program yet still has the shell's handlers, which may swallow
        // the signal: it receives the signal again at the next scan.
        if !shell.is_some_and(|shell| proc_table::is_unsettled_fork_of(stat, shell, libc::SIGTERM)) {
            self.asked.insert(stat.identity);
        }
        true
    }

    fn insists(&self) -> bool {
        Instant::now() >= self.deadline
    }

    /// When to scan again even without an ended process.
    pub fn next_look(&self) -> Duration {
        let until_deadline = self.deadline.saturating_duration_since(Instant::now());
        if self.insists() {
            // A process that does not die immediately is blocked in the kernel, which may take long.
            if self.deadline.elapsed() < Duration::from_secs(1) {
                Duration::from_millis(1)
            } else {
                Duration::from_millis(100)
            }
        } else if self.watch.is_blind() || self.begun.elapsed() < UNSETTLED_TIME {
            until_deadline.min(UNSETTLED_LOOK)
        } else {
            until_deadline
        }
    }

    /// Descriptors that become readable when a process of the tree has ended.
    pub fn watched(&self) -> &[OwnedFd] {
        self.watch.descriptors()
    }
}
