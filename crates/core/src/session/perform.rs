//! Performs the actions of the shell's state machine, without waiting.

use super::context::{Call, Link, Session};
use super::salvage;
use super::timers::{Timer, Timers};
use crate::error::Error;
use crate::shell::event::{Action, Event, Source};
use crate::shell::listener;
use nacre_containment::cgroup::Group;
use nacre_containment::pid::Identity;
use nacre_containment::proc_table::Stat;
use nacre_containment::signal;
use nacre_protocol::supervisor::Order;
use std::time::Duration;
use tokio::time::Instant;

/// A supervisor that has not replied after this time may have been stopped.
pub(super) const SUPERVISOR_ANSWER: Duration = Duration::from_millis(500);

impl Session {
    pub(super) fn perform(&mut self, action: Action) {
        match action {
            Action::StartSession => self.start_session(),
            Action::StartShell => self.start_shell(),
            Action::SetUp => self.set_up(),
            Action::Isolate => self.isolate(),
            Action::ForkStandby { command_follows } => self.fork_standby(command_follows),
            Action::ForkProcess(ticket, source) => {
                if let Some(Call::Start(request)) = self.calls.remove(&ticket) {
                    self.fork_process(*request, source == Source::Shell);
                }
            }
            Action::Run(ticket) => self.run_command(ticket),
            Action::SetEnv(ticket) => self.send_env(ticket),
            Action::Promote => self.promote(),
            Action::Kill { cause, signal } => self.kill(cause, signal),
            Action::Insist => self.insist(),
            Action::Settled => self.order(&Order::Settled),
            Action::TrapRuns => self.order(&Order::TrapRuns),
            Action::KillShell => {
                if self.state.running().is_some() {
                    tracing::warn!(log = self.config.log.id(), session = %self.config.id, "the shell did not answer an interrupt and is killed");
                }
                self.order(&Order::KillShell);
            }
            Action::Salvage => {
                tracing::error!(log = self.config.log.id(), session = %self.config.id, "the supervisor died; the session is being restarted");
                self.salvage();
            }
            Action::Sweep => {
                tracing::warn!(log = self.config.log.id(), session = %self.config.id, "the supervisor was killed while the session was ending");
                self.link.standby = None;
                self.salvage();
            }
            Action::Answer(ticket, answer) => self.answer(ticket, answer),
            Action::Shutdown => self.shutdown(),
            Action::Closed => {
                self.link = Link::default();
                self.processes.lose_all(&self.config.id);
                self.drains.abort_all();
            }
        }
    }

    pub(super) fn order(&mut self, order: &Order) {
        if let Some(supervisor) = &self.link.supervisor {
            supervisor.order(order);
        }
    }

    /// Sends an order that needs a reply, and checks the supervisor if no reply arrives.
    pub(super) fn ask(&mut self, order: &Order) {
        self.order(order);
        self.await_report(SUPERVISOR_ANSWER);
    }

    /// Expects a report of the supervisor within this time, and checks the supervisor if none arrives.
    pub(super) fn await_report(&mut self, limit: Duration) {
        self.wait.report = true;
        self.timers.set(Timer::Supervisor, Instant::now() + limit);
    }

    /// Checks a supervisor whose report is overdue, and continues it if it was stopped.
    pub(super) fn check_supervisor(&mut self) {
        let Some(supervisor) = self.link.supervisor.as_ref().filter(|_| self.wait.report) else { return };
        let stat = Stat::read(supervisor.pid());
        if let Some(Stat { identity: Identity { .. }, state: b'T' | b't', .. }) = stat {
            tracing::warn!(log = self.config.log.id(), session = %self.config.id, "the supervisor was stopped and is continued");
            let _ = signal::send_to_child(supervisor.pid(), libc::SIGCONT);
        }
        self.timers.set(Timer::Supervisor, Instant::now() + SUPERVISOR_ANSWER);
    }

    pub(super) fn salvage(&mut self) {
        self.processes.lose_all(&self.config.id);
        self.link.shell_pid.into_iter().for_each(listener::forget);
        let link = std::mem::take(&mut self.link);
        let session = link.foreground.as_ref().and_then(|group| group.parent()).map(Group::at);
        salvage::start(link.standby, self.last_supervisor.clone(), session, self.internal.clone());
    }

    pub(super) fn shutdown(&mut self) {
        let grace = self.closing.as_ref().map_or(Duration::ZERO, |(grace, _)| *grace);
        self.processes.refuse_starting(|| Error::session_destroyed(&self.config.id));
        self.timers = Timers::default();
        if self.link.supervisor.is_none() {
            return self
                .events
                .push_back(Event::SupervisorGone { unread: false, orderly: self.last_supervisor.is_none() });
        }
        self.ask(&Order::Shutdown { grace_ms: grace.as_millis() as u64 });
    }
}
