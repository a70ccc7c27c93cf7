//! The freeze of a session's programs, by control groups.
//!
//! A freeze is complete when a look finds no program that runs outside of the frozen groups. The shell and its standby
//! are not frozen: the shell leaves its group if programs of earlier commands are in it.
//!
//! Not frozen is a process that is being killed: it must run to handle its signal. Its descendants run with it.

use super::ProcessTable;
use nacre_containment::cgroup::Group;
use nacre_containment::pid::Pid;
use nacre_containment::proc_table::{self, Stat};
use nacre_protocol::supervisor::{MAX_COMMAND_BYTES, MAX_PROGRAMS, Program, Report};
use std::collections::HashSet;
use std::io;
use std::time::{Duration, Instant};

/// How long the kernel may take to stop every process. One that is blocked in the kernel, for example by a dead network
/// file system, does not stop.
const STOPPING: Duration = Duration::from_secs(5);
/// How long a program that cannot be frozen may take to end by itself: it may have been killed already.
const ENDING: Duration = Duration::from_millis(250);
/// The time between two looks, at first and at most.
const LOOKS: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(20)];

/// See the module. It lasts from the order to freeze to the order to thaw.
pub struct Freeze {
    /// Groups that are frozen, or about to be.
    frozen: Vec<Group>,
    /// Groups of processes that are being killed.
    spared: Vec<Group>,
    /// The answer is pending.
    wait: Option<Wait>,
}

struct Wait {
    id: u64,
    if_idle: bool,
    begun: Instant,
    look_at: Instant,
    pause: Duration,
}

/// What a look has found.
struct Look {
    /// The programs that have not stopped.
    running: Vec<Stat>,
    /// All programs, stopped or not.
    programs: Vec<Stat>,
}

impl Freeze {
    fn thaw(&self) {
        for group in &self.frozen {
            // A group that does not exist any more needs no thawing.
            let _ = group.set_frozen(false);
        }
    }
}

impl ProcessTable {
    /// Begins to freeze every program. [`ProcessTable::step_freeze`] has the answer.
    pub fn freeze(&mut self, id: u64, if_idle: bool) {
        self.thaw();
        let now = Instant::now();
        let wait = Some(Wait { id, if_idle, begun: now, look_at: now, pause: LOOKS[0] });
        self.freeze = Some(Freeze { frozen: Vec::new(), spared: Vec::new(), wait });
    }

    /// Lets every program go on.
    pub fn thaw(&mut self) {
        if let Some(freeze) = self.freeze.take() {
            freeze.thaw();
        }
    }

    /// Lets a process that is being killed go on, so that it can handle its signal.
    pub fn spare_from_freeze(&mut self, key: u64) {
        let group = self.processes.tree(key).and_then(|tree| tree.group.clone());
        if let (Some(freeze), Some(group)) = (&mut self.freeze, group) {
            freeze.frozen.retain(|frozen| *frozen != group);
            let _ = group.set_frozen(false);
            freeze.spared.push(group);
        }
    }

    /// How long until the next look; `None` if no answer is pending.
    pub fn next_freeze_look(&self) -> Option<Duration> {
        let wait = self.freeze.as_ref()?.wait.as_ref()?;
        Some(wait.look_at.saturating_duration_since(Instant::now()))
    }

    /// Looks whether all programs have stopped, if that is due. Returns the answer to the order.
    pub fn step_freeze(&mut self) -> Option<Report> {
        if !self.next_freeze_look()?.is_zero() {
            return None;
        }
        let mut freeze = self.freeze.take()?;
        let if_idle = freeze.wait.as_ref().is_some_and(|wait| wait.if_idle);
        let look = if if_idle { self.look_at_programs() } else { self.freeze_programs(&mut freeze) };
        let report = match (freeze.wait.take(), look) {
            (None, _) => None,
            (Some(Wait { id, .. }), Ok(Look { running, programs })) if running.is_empty() => {
                let (programs, count) = (named(&programs), programs.len() as u64);
                Some(Report::Frozen { id, programs, count, foreground: self.foreground_group() })
            }
            (Some(wait), look) => {
                let limit = if freeze.frozen.is_empty() { ENDING } else { STOPPING };
                // What a program that lives may have to do is not known, and nothing waits for it.
                let is_busy = if_idle && look.as_ref().is_ok_and(|look| !look.running.iter().all(|stat| stat.is_dying));
                if is_busy || wait.begun.elapsed() >= limit {
                    freeze.thaw();
                    return Some(self.not_frozen(wait.id, &look.map(|look| look.running).unwrap_or_default()));
                }
                let look_at = Instant::now() + wait.pause;
                freeze.wait = Some(Wait { look_at, pause: (wait.pause * 2).min(LOOKS[1]), ..wait });
                None
            }
        };
        self.freeze = Some(freeze);
        report
    }

    fn not_frozen(&self, id: u64, running: &[Stat]) -> Report {
        let (programs, count) = (named(running), running.len() as u64);
        Report::NotFrozen { id, foreground: self.foreground_group(), programs, count }
    }

    /// Freezes nothing.
    fn look_at_programs(&self) -> io::Result<Look> {
        let programs = self.workload()?;
        Ok(Look { running: programs.clone(), programs })
    }

    /// Freezes the groups that have programs.
    fn freeze_programs(&mut self, freeze: &mut Freeze) -> io::Result<Look> {
        if self.shell.is_some() && self.has_programs_beside_the_shell()? {
            self.rotate();
        }
        let groups = self.groups.as_ref().map_or(Ok(Vec::new()), |groups| groups.session().inner())?;
        for group in groups {
            let is_known = freeze.frozen.contains(&group) || freeze.spared.contains(&group);
            if !is_known && self.has_programs(&group.members_below()?) {
                // One that cannot be frozen keeps running, which the answer reports.
                let _ = group.set_frozen(true);
                freeze.frozen.push(group);
            }
        }
        let mut stopped: HashSet<Pid> = HashSet::new();
        for group in &freeze.frozen {
            if group.is_frozen()? {
                stopped.extend(group.members_below()?);
            }
        }
        for group in &freeze.spared {
            stopped.extend(group.members_below()?);
        }
        let programs = self.workload()?;
        let running = programs.iter().filter(|stat| !stopped.contains(&stat.identity.pid)).copied().collect();
        Ok(Look { running, programs })
    }

    fn has_programs_beside_the_shell(&self) -> io::Result<bool> {
        let Some(groups) = &self.groups else { return Ok(false) };
        Ok(self.has_programs(&groups.foreground_members()?.unwrap_or_default()))
    }
}

/// Some of the programs, for a report.
fn named(programs: &[Stat]) -> Vec<Program> {
    let program =
        |stat: &Stat| Program { pid: stat.identity.pid, command: proc_table::command_line(stat, MAX_COMMAND_BYTES) };
    programs.iter().take(MAX_PROGRAMS).map(program).collect()
}

#[cfg(test)]
#[path = "freeze_tests.rs"]
mod tests;
