//! The session's supervisor: orders, overdue reports, and the hold on its pid.

use super::context::Context;
use super::salvage::{self, SupervisorTree};
use super::timers::Timer;
use crate::error::Error;
use crate::link::Descriptor;
use crate::process::SessionStats;
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
use tokio::sync::oneshot;
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
    /// Whether it has reported anything: then the system has what it needs.
    has_answered: bool,
    /// Whether it expects forks while it kills a command.
    expects_forks: bool,
    /// Directory of the foreground group, if groups are used.
    foreground_group: Option<PathBuf>,
    /// No report has named the foreground group of the present shell.
    is_group_unknown: bool,
    /// The last supervisor and its processes, until they have ended.
    last: Option<SupervisorTree>,
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
        self.last = Some(SupervisorTree::new(supervisor.hold_pid(), group, mark));
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
        if let Some(tree) = self.tree() {
            self.abandoned.spawn(async move {
                salvage::await_end(tree).await;
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
        self.last.as_ref().map(SupervisorTree::supervisor)
    }

    /// This shell is about to begin a session of its own.
    pub(super) fn add_leader(&mut self, shell: Identity) {
        if let Some(last) = &mut self.last {
            last.add_leader(shell);
        }
    }

    /// What the last supervisor may leave behind, until it has ended.
    pub(super) fn tree(&self) -> Option<SupervisorTree> {
        self.last.clone()
    }

    /// Releases the pid of the last supervisor, whose processes have ended.
    pub(super) fn release(&mut self) {
        self.last = None;
    }

    /// Records that the supervisor has reported, so it is alive and not stopped.
    pub(super) fn has_reported(&mut self) {
        self.owes_report = false;
        self.has_answered = true;
    }

    /// Whether there is a supervisor that has not reported anything.
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
        self.last.as_ref().and_then(SupervisorTree::group)
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

    /// Sends an order, and looks a while later whether the supervisor was stopped.
    pub(super) fn order(&self, cx: &mut Context, order: &Order) {
        self.order_with(cx, order, Vec::new());
    }

    pub(super) fn order_with(&self, cx: &mut Context, order: &Order, descriptors: Vec<Descriptor>) {
        if let Some(supervisor) = &self.supervisor {
            supervisor.order_with(order, descriptors);
        }
        if !cx.timers.is_set(Timer::Supervisor) {
            cx.timers.set(Timer::Supervisor, Instant::now() + ANSWER);
        }
    }

    /// Sends an order that needs a reply, and checks the supervisor if no reply arrives.
    pub(super) fn ask(&mut self, cx: &mut Context, order: &Order) {
        self.ask_with(cx, order, Vec::new());
    }

    pub(super) fn ask_with(&mut self, cx: &mut Context, order: &Order, descriptors: Vec<Descriptor>) {
        self.order_with(cx, order, descriptors);
        self.await_report(cx, ANSWER);
    }

    /// Expects a report of the supervisor within this time, and checks the supervisor if none arrives.
    pub(super) fn await_report(&mut self, cx: &mut Context, limit: Duration) {
        self.owes_report = true;
        cx.timers.set(Timer::Supervisor, Instant::now() + limit);
    }

    /// Expects the end of the session. If the supervisor has not reported anything, it has started nothing that needs time.
    pub(super) fn await_ending(&self, cx: &mut Context, grace: Duration) {
        let limit = if self.has_answered { grace + UNKILLABLE + ENDING } else { ENDING };
        cx.timers.set(Timer::Closing, Instant::now() + limit);
    }

    /// Checks a supervisor some time after an order, and continues it if it was stopped: it would obey none. While its report
    /// is overdue, it is checked again.
    pub(super) fn check(&self, cx: &mut Context) {
        let Some(pid) = self.pid() else { return };
        if Stat::read(pid).is_some_and(|stat| matches!(stat.state, b'T' | b't')) {
            tracing::warn!(log = cx.config.log.id(), session = %cx.config.id, "the supervisor was stopped and is continued");
            let _ = signal::send_to_child(pid, libc::SIGCONT);
        }
        if self.owes_report {
            cx.timers.set(Timer::Supervisor, Instant::now() + ANSWER);
        }
    }

    /// Takes the foreground group of this shell from a report. Returns false for a report about another shell: the supervisor
    /// sent it before it read that another process becomes the shell.
    pub(super) fn use_foreground_group(&mut self, present: Option<Pid>, group: ForegroundGroup) -> bool {
        let is_present = group.shell == present;
        if is_present {
            self.set_foreground_group(group.directory);
        }
        is_present
    }

    /// Answers with the resource usage of the session, beside whatever it does. Without a supervisor it is 0.
    pub(super) fn read_stats(&self, reply: oneshot::Sender<Result<SessionStats, Error>>) {
        let Some(supervisor) = self.last().cloned() else {
            return drop(reply.send(Ok(SessionStats { sessions: 1, ..SessionStats::default() })));
        };
        let group = self.session_group().cloned();
        tokio::spawn(async move {
            let stats = SessionStats::of(supervisor.pid(), group).await;
            drop((supervisor, reply.send(stats)));
        });
    }

    /// Creates a group inside the session's group, in which a fork starts.
    pub(super) fn make_group(&self, cx: &Context, name: &str) -> Option<PathBuf> {
        // A shell of another user must not choose its children's groups: the supervisor moves them.
        if cx.config.user.is_some() {
            return None;
        }
        let group = Group::create(self.session_group()?.path(), name).ok()?;
        Some(group.path().to_path_buf())
    }
}
