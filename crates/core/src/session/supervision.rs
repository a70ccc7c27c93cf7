//! The session's supervisor: orders, overdue reports, and the hold on its pid.

use super::Session;
use super::salvage::{self, Remains};
use super::timers::Timer;
use crate::link::Descriptor;
use crate::shell::state::Shell;
use crate::supervisor::{PidHold, Supervisor};
use nacre_containment::cgroup::Group;
use nacre_containment::ladder::UNKILLABLE;
use nacre_containment::pid::{Identity, Pid};
use nacre_containment::proc_table::Stat;
use nacre_containment::signal;
use nacre_protocol::supervisor::{ForegroundGroup, Order, Report};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// A supervisor that has not replied after this time may have been stopped.
const ANSWER: Duration = Duration::from_millis(500);

/// How long a supervisor takes at most to end a session, after the grace time and what survives SIGKILL.
const ENDING: Duration = Duration::from_secs(5);

/// See the module.
#[derive(Default)]
pub(super) struct Supervision {
    supervisor: Option<Supervisor>,
    /// It has reported that everything below it has ended.
    has_ended_all: bool,
    /// Whether a report is due.
    owes_report: bool,
    /// Whether one of the session's supervisors has reported anything: then the system has what they need.
    has_answered: bool,
    /// Whether it expects forks while it kills a command.
    expects_forks: bool,
    /// Directory of the foreground group, if groups are used.
    foreground_group: Option<PathBuf>,
    /// No report has named the foreground group of the present shell.
    is_group_unknown: bool,
    /// The last supervisor and its processes, until they have ended.
    last: Option<Remains>,
    /// How many supervisors the session has had.
    count: u64,
    /// Tasks that wait for the ends of dropped supervisors, and kill what these leave behind.
    abandoned: JoinSet<()>,
}

impl Supervision {
    /// The number of the next supervisor.
    pub(super) fn next_number(&mut self) -> u64 {
        self.count += 1;
        self.count
    }

    /// Uses a supervisor that was just started, and will create this group, if groups are used.
    pub(super) fn begin(&mut self, supervisor: Supervisor, group: Option<Group>, mark: Option<u64>) {
        self.last = Some(Remains::new(supervisor.hold_pid(), group, mark));
        self.supervisor = Some(supervisor);
    }

    /// Closes the connection: the supervisor ends, and everything below it. Its pid stays held.
    pub(super) fn close(&mut self) {
        let abandoned = std::mem::take(&mut self.abandoned);
        *self = Self { last: self.last.take(), count: self.count, abandoned, ..Self::default() };
    }

    /// Spawns a task that waits until everything that the last supervisor left behind has ended, and then drops what
    /// depends on it.
    pub(super) fn abandon(&mut self, dependent: impl Send + 'static) {
        while self.abandoned.try_join_next().is_some() {}
        if let Some(remains) = self.remains() {
            self.abandoned.spawn(async move {
                salvage::await_end(remains).await;
                drop(dependent);
            });
        }
    }

    /// Waits until nothing is left of abandoned supervisors.
    pub(super) async fn abandoned_ended(&mut self) {
        while self.abandoned.join_next().await.is_some() {}
    }

    /// Handles the end of the connection. Returns whether everything below the supervisor ended before it, and why it
    /// ended before its setup.
    pub(super) fn lost(&mut self) -> (bool, Option<String>) {
        let gone = self.supervisor.take();
        let silent = || (!self.has_answered).then(|| "it gave no reason".into());
        let complaint = gone.and_then(|gone| gone.complaint().or_else(silent));
        let orderly = std::mem::take(&mut self.has_ended_all);
        if orderly {
            self.release();
        }
        (orderly, complaint)
    }

    pub(super) fn is_connected(&self) -> bool {
        self.supervisor.is_some()
    }

    pub(super) fn pid(&self) -> Option<Pid> {
        self.supervisor.as_ref().map(Supervisor::pid)
    }

    /// The last supervisor, until the processes that it left behind have ended.
    pub(super) fn last(&self) -> Option<&PidHold> {
        self.last.as_ref().map(Remains::supervisor)
    }

    /// This shell is about to begin a session of its own.
    pub(super) fn add_leader(&mut self, shell: Identity) {
        if let Some(last) = &mut self.last {
            last.add_leader(shell);
        }
    }

    /// What the last supervisor may leave behind, until it has ended.
    pub(super) fn remains(&self) -> Option<Remains> {
        self.last.clone()
    }

    /// Releases the pid of the last supervisor, whose processes have ended.
    pub(super) fn release(&mut self) {
        self.last = None;
    }

    fn order_with(&self, order: &Order, descriptors: Vec<Descriptor>) {
        if let Some(supervisor) = &self.supervisor {
            supervisor.order_with(order, descriptors);
        }
    }

    /// Records that the supervisor has reported, so it is alive and not stopped.
    pub(super) fn has_reported(&mut self) {
        self.owes_report = false;
        self.has_answered = true;
    }

    /// Whether there is a supervisor that has not answered, and none ever has.
    pub(super) fn is_silent(&self) -> bool {
        self.supervisor.is_some() && !self.has_answered
    }

    /// Records that everything below the supervisor has ended.
    pub(super) fn has_ended_all(&mut self) {
        self.has_ended_all = true;
    }

    /// Records whether it is to expect forks. True if that is new.
    pub(super) fn change_expectation(&mut self, expected: bool) -> bool {
        std::mem::replace(&mut self.expects_forks, expected) != expected
    }

    /// The foreground group, if groups are used and it is known.
    pub(super) fn foreground_group(&self) -> Option<Group> {
        self.foreground_group.clone().map(Group::at)
    }

    /// The session's group, if groups are used. It does not exist if the supervisor could not create it.
    pub(super) fn session_group(&self) -> Option<&Group> {
        self.last.as_ref().and_then(Remains::group)
    }

    pub(super) fn set_foreground_group(&mut self, directory: Option<String>) {
        self.foreground_group = directory.map(PathBuf::from);
        self.is_group_unknown = false;
    }

    /// Another process becomes the shell. Only a report that names it shows its group.
    pub(super) fn forget_foreground_group(&mut self) {
        (self.foreground_group, self.is_group_unknown) = (None, true);
    }

    pub(super) fn is_group_unknown(&self) -> bool {
        self.is_group_unknown
    }

    /// Waits for the next report. Cancel-safe.
    pub(super) async fn report(&self) -> Option<(Report, Vec<OwnedFd>)> {
        match &self.supervisor {
            Some(supervisor) => supervisor.report().await,
            None => std::future::pending().await,
        }
    }
}

impl Session {
    /// Takes the foreground group from a report. Returns false for a report about another shell than the present one: the
    /// supervisor sent it before it read that another process becomes the shell.
    pub(super) fn use_foreground_group(&mut self, ForegroundGroup { shell, directory }: ForegroundGroup) -> bool {
        let is_present = shell == self.shell.pid();
        if is_present {
            self.supervision.set_foreground_group(directory);
        }
        is_present
    }

    pub(super) fn order(&mut self, order: &Order) {
        self.order_with(order, Vec::new());
    }

    pub(super) fn order_with(&mut self, order: &Order, descriptors: Vec<Descriptor>) {
        self.supervision.order_with(order, descriptors);
        if !self.timers.is_set(Timer::Supervisor) {
            self.timers.set(Timer::Supervisor, Instant::now() + ANSWER);
        }
    }

    /// Sends an order that needs a reply, and checks the supervisor if no reply arrives.
    pub(super) fn ask(&mut self, order: &Order) {
        self.ask_with(order, Vec::new());
    }

    pub(super) fn ask_with(&mut self, order: &Order, descriptors: Vec<Descriptor>) {
        self.order_with(order, descriptors);
        self.await_report(ANSWER);
    }

    /// Expects a report of the supervisor within this time, and checks the supervisor if none arrives.
    pub(super) fn await_report(&mut self, limit: Duration) {
        self.supervision.owes_report = true;
        self.timers.set(Timer::Supervisor, Instant::now() + limit);
    }

    /// Expects the end of the session. If no supervisor has ever reported, nothing was started that needs time.
    pub(super) fn await_ending(&mut self, grace: Duration) {
        let limit = if self.supervision.has_answered { grace + UNKILLABLE + ENDING } else { ENDING };
        self.timers.set(Timer::Closing, Instant::now() + limit);
    }

    /// The supervisor does not end the session, so the host does.
    pub(super) fn closing_overdue(&mut self) {
        if self.state.shell == Shell::Closing && self.supervision.is_connected() {
            tracing::error!(log = self.config.log.id(), session = %self.config.id, "the supervisor does not end the session and is killed");
            self.supervisor_gone();
        }
    }

    /// Checks a supervisor some time after an order, and continues it if it was stopped: it would obey none. While its report
    /// is overdue, it is checked again.
    pub(super) fn check_supervisor(&mut self) {
        let Some(pid) = self.supervision.pid() else { return };
        if Stat::read(pid).is_some_and(|stat| matches!(stat.state, b'T' | b't')) {
            tracing::warn!(log = self.config.log.id(), session = %self.config.id, "the supervisor was stopped and is continued");
            let _ = signal::send_to_child(pid, libc::SIGCONT);
        }
        if self.supervision.owes_report {
            self.timers.set(Timer::Supervisor, Instant::now() + ANSWER);
        }
    }
}
