//! The shell's state machine: a pure function `(State, Event) -> (State, Vec<Action>)`.
//!
//! Three rules determine the rest. First, a command runs only if the standby has the state after the last finished
//! command, or forking has failed. A shell that dies then loses only the changes of its last command, and a background
//! process can start from the right state while a command runs. Second, every call is answered exactly once, whatever
//! dies in between. Third, while a hold is in effect, no call and no process begins, whatever dies.

use super::event::{Action, Answer, Event, Refusal, Source};
use super::state::{Cause, End, ForegroundIsolation, Run, Shell, Standby, State, Ticket, Work};
use super::step::Step;

/// See the module.
pub fn step(state: State, event: Event) -> (State, Vec<Action>) {
    let mut step = Step { state, actions: Vec::new() };
    step.take(event);
    step.advance();
    (step.state, step.actions)
}

impl Step {
    pub(super) fn take(&mut self, event: Event) {
        match event {
            Event::Submit(ticket, Work::Start) => self.state.starts.push_back(ticket),
            Event::Submit(ticket, work) => self.state.queue.push_back((ticket, work)),
            Event::Cancel(ticket, signal) => self.cancel(ticket, signal),
            Event::Released(ticket) => self.released(ticket),
            Event::Detach(ticket) => self.detach(ticket),
            Event::TimeUp(ticket) => self.time_up(ticket),
            Event::OutputLimit(ticket) => self.kill(ticket, Cause::OutputLimit, None),
            Event::ShellOverdue(ticket) => self.shell_overdue(ticket),
            Event::Hello if self.state.shell == Shell::Starting => {
                self.state.shell = Shell::SettingUp;
                self.act(Action::SetUp);
            }
            Event::SetUp if self.state.shell == Shell::SettingUp => {
                self.state.attempts = 0;
                self.state.shell = Shell::Idle;
            }
            Event::StartFailed => self.start_failed(),
            Event::Isolated => self.state.isolation = ForegroundIsolation::Isolated,
            Event::Done { ticket, status, exited, state_kept, forked } if self.state.awaits_end_of(ticket) => {
                if let Shell::Running(run) = &mut self.state.shell {
                    run.state_kept = state_kept;
                }
                if forked {
                    self.state.isolation = ForegroundIsolation::Unknown;
                }
                self.ended(End::Done { status, exited });
            }
            Event::Refused(ticket) if self.state.awaits_end_of(ticket) => self.ended(End::Refused),
            Event::TrapRuns(ticket) if self.state.awaits_end_of(ticket) => {
                if self.state.running().is_some_and(|run| run.kill.is_some()) {
                    self.act(Action::TrapRuns);
                }
            }
            Event::StandbyForked => {
                self.state.standby.forking = false;
                self.state.standby.ready = true;
            }
            Event::ForkFailed { pauses } => {
                let paused = pauses || self.state.standby.paused;
                self.state.standby = Standby { forking: false, fresh: false, paused, ..self.state.standby };
            }
            Event::ForkPauseOver => self.state.standby.paused = false,
            Event::IdleForAWhile if self.state.shell == Shell::Idle => self.fork_standby(false),
            Event::ShellDied { unread } => self.shell_died(unread),
            Event::StandbyDied => self.standby_died(),
            Event::Promoted if self.state.shell == Shell::Promoting => {
                self.state.attempts = 0;
                self.state.shell = Shell::Idle;
                self.state.isolation = ForegroundIsolation::Unknown;
                self.state.standby.paused = false;
                self.fork_standby(false);
            }
            Event::TreeGone { ticket, escalated } if self.state.kills(ticket) => self.tree_gone(escalated),
            Event::SupervisorGone { unread, orderly } => self.supervisor_gone(unread, orderly),
            Event::Salvaged if matches!(self.state.shell, Shell::Salvaging(_)) => self.salvaged(),
            Event::Salvaged if self.state.shell == Shell::Closing => self.closed(),
            Event::Close => self.close(),
            Event::IdleForAWhile => {}
            // A session that is being closed has answered its calls, but its processes still report. A program can send
            // the other two in the name of the shell.
            Event::SetUp | Event::Done { .. } | Event::Refused(_) | Event::TrapRuns(_) | Event::TreeGone { .. }
                if self.state.is_ending() => {}
            Event::Hello | Event::Promoted => {}
            // What a session left behind that could not start, or has ended, is gone.
            Event::Salvaged if matches!(self.state.shell, Shell::Absent | Shell::Terminated(_) | Shell::Closed) => {}
            Event::SetUp
            | Event::Done { .. }
            | Event::Refused(_)
            | Event::TrapRuns(_)
            | Event::TreeGone { .. }
            | Event::Salvaged => self.act(Action::Defect(event, self.state.shell)),
        }
    }

    /// Performs every step that is possible now.
    pub(super) fn advance(&mut self) {
        match self.state.shell {
            Shell::Terminated(code) => {
                self.refuse_all(Refusal::Terminated(code));
                self.grant_hold();
            }
            Shell::Closing | Shell::Closed => self.refuse_all(Refusal::Closed),
            _ if self.state.held.is_some() => {}
            Shell::Absent => {
                let is_needed = !self.state.queue.is_empty() || !self.state.starts.is_empty();
                if !self.grant_hold() && is_needed {
                    self.start(Action::StartSession);
                }
            }
            Shell::Idle => self.use_idle_shell(),
            Shell::Running(_) => self.start_processes_beside_a_command(),
            _ => {}
        }
    }

    /// Puts the first call of the queue into effect if it is a hold. It needs no shell.
    fn grant_hold(&mut self) -> bool {
        let is_first = self.state.queue.front().is_some_and(|(_, work)| *work == Work::Hold);
        if self.state.held.is_some() || !is_first {
            return false;
        }
        self.state.held = self.state.queue.pop_front().map(|(ticket, _)| ticket);
        self.state.held.into_iter().for_each(|ticket| self.act(Action::Answer(ticket, Answer::Ready)));
        true
    }

    fn released(&mut self, ticket: Ticket) {
        if self.state.held.take_if(|held| *held == ticket).is_none() {
            self.remove_from_queue(ticket, Refusal::Cancelled);
        }
    }

    pub(super) fn use_idle_shell(&mut self) {
        while let Some(ticket) = self.state.starts.pop_front() {
            let standby = self.state.standby;
            let source =
                if standby.ready && standby.fresh && !standby.forking { Source::Standby } else { Source::Shell };
            self.act(Action::ForkProcess(ticket, source));
        }
        if self.state.isolation == ForegroundIsolation::Unknown {
            self.state.isolation = ForegroundIsolation::Isolating;
            self.act(Action::Isolate);
        }
        while let Some((ticket, work)) = self.state.queue.front().copied() {
            if self.grant_hold() {
                return;
            }
            if work == Work::Open {
                self.state.queue.pop_front();
                self.act(Action::Answer(ticket, Answer::Ready));
                continue;
            }
            if self.state.isolation != ForegroundIsolation::Isolated {
                return;
            }
            self.state.queue.pop_front();
            self.fork_standby(true);
            self.act(if work == Work::Command { Action::Run(ticket) } else { Action::SetEnv(ticket) });
            self.state.shell =
                Shell::Running(Run { ticket, work, end: None, state_kept: true, kill: None, shell_died: false });
            return;
        }
    }

    pub(super) fn start_processes_beside_a_command(&mut self) {
        let standby = self.state.standby;
        // Forked before the command, so it has the right state from its start and while the command runs.
        if standby.forking {
            return;
        }
        // The next shell is about to come, and can fork them.
        let is_leaving = self.state.running().is_some_and(|run| run.end.is_some() || run.shell_died);
        if is_leaving && !standby.paused && !(standby.ready && standby.fresh) {
            return;
        }
        while let Some(ticket) = self.state.starts.pop_front() {
            match (standby.ready && standby.fresh, standby.paused) {
                (true, false) => self.act(Action::ForkProcess(ticket, Source::Standby)),
                (_, true) => self.refuse(ticket, Refusal::NoFork),
                (false, false) => self.refuse(ticket, Refusal::StandbyDied),
            }
        }
    }
}
