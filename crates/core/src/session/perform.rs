//! Performs the actions of the shell's state machine, without waiting.

use super::Session;
use super::calls::Call;
use super::salvage;
use super::timers::Timers;
use crate::shell::event::{Action, Event};
use crate::shell::listener;
use nacre_protocol::supervisor::Order;
use std::time::Duration;

impl Session {
    pub(super) fn perform(&mut self, action: Action) {
        if self.plain.is_engine() { self.perform_plain(action) } else { self.perform_with_builtin(action) }
    }

    pub(super) fn perform_with_builtin(&mut self, action: Action) {
        match action {
            Action::StartSession => self.start_session(),
            // The session has had a shell, so its directory existed.
            Action::StartShell => self.start_shell(true),
            Action::SetUp => self.set_up(),
            Action::Isolate => self.isolate(),
            Action::ForkStandby { command_follows } => self.fork_standby(command_follows),
            Action::ForkProcess(ticket, source) => {
                if let Some(Call::Start(request)) = self.calls.take(ticket) {
                    self.start_process(*request, Some(source));
                }
            }
            Action::Run(ticket) => self.run_command(ticket),
            Action::SetEnv(ticket) => self.send_env(ticket),
            Action::LoseState => self.recovery.lose_state("no standby had it when the shell died"),
            Action::Promote => self.promote(),
            Action::Detach(ticket) => self.detach_command(ticket),
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
                drop(self.standbys.take());
                self.salvage();
            }
            Action::Answer(ticket, answer) => self.answer(ticket, answer),
            Action::Defect(event, shell) => self.defect(&format_args!("{event:?} while the shell is {shell:?}")),
            Action::Shutdown => self.shutdown(),
            Action::Closed => {
                self.abandon_supervisor();
                self.foreground.stop_drains();
            }
        }
    }

    pub(super) fn salvage(&mut self) {
        let lost = self.lose_processes();
        self.foreground.take_owed();
        self.shell.pid().into_iter().for_each(listener::forget);
        let standby = self.standbys.take();
        self.disconnect();
        salvage::start(standby, self.supervision.remains(), lost, self.internal.clone());
    }

    pub(super) fn shutdown(&mut self) {
        let grace = self.closing.as_ref().map_or(Duration::ZERO, |(grace, _)| *grace);
        // A standby that appears now is no program that needs the grace time.
        let expected = self.awaits_forks();
        self.refuse_starting_processes();
        self.timers = Timers::default();
        if !self.supervision.is_connected() {
            let orderly = self.supervision.last().is_none();
            return self.events.push_back(Event::SupervisorGone { unread: false, orderly });
        }
        if self.supervision.change_expectation(expected) {
            self.order(&Order::ExpectForks { expected });
        }
        self.ask(&Order::Shutdown { grace_ms: grace.as_millis() as u64 });
        self.await_ending(grace);
    }
}
