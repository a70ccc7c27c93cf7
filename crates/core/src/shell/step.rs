//! A transition in progress: the state, the actions so far, and helpers for all transitions.

use super::event::{Action, Answer, Refusal};
use super::state::{ForegroundIsolation, Shell, Standby, State, Ticket, Work};
use std::collections::VecDeque;

/// Maximum consecutive starts of a shell that dies immediately.
pub const MAX_ATTEMPTS: u32 = 3;

/// See the module.
pub(super) struct Step {
    pub(super) state: State,
    pub(super) actions: Vec<Action>,
}

impl Step {
    pub(super) fn act(&mut self, action: Action) {
        self.actions.push(action);
    }

    pub(super) fn refuse(&mut self, ticket: Ticket, why: Refusal) {
        self.act(Action::Answer(ticket, Answer::Refused(why)));
    }

    /// Forks a standby, unless a standby has the current state, forking has just failed, or nothing may begin.
    pub(super) fn fork_standby(&mut self, command_follows: bool) {
        let standby = &mut self.state.standby;
        if standby.fresh || standby.paused || self.state.held.is_some() {
            return;
        }
        (standby.forking, standby.fresh) = (true, true);
        self.act(Action::ForkStandby { command_follows });
    }

    pub(super) fn start(&mut self, action: Action) {
        self.state.attempts += 1;
        if self.state.attempts > MAX_ATTEMPTS {
            return self.start_failed();
        }
        self.state.shell = Shell::Starting;
        self.state.standby = Standby { paused: self.state.standby.paused, ..State::new(true).standby };
        self.state.isolation = ForegroundIsolation::Isolated;
        self.act(action);
    }

    pub(super) fn start_failed(&mut self) {
        self.state.attempts = 0;
        self.state.shell = Shell::Absent;
        self.refuse_all(Refusal::NoShell);
    }

    /// Refuses every waiting call. Only the end of the session refuses a hold: without a shell, it takes effect at once.
    pub(super) fn refuse_all(&mut self, why: Refusal) {
        let queue = std::mem::take(&mut self.state.queue);
        let starts = std::mem::take(&mut self.state.starts);
        let is_kept = |work: Work| work == Work::Hold && why != Refusal::Closed;
        let (kept, refused): (VecDeque<_>, VecDeque<_>) = queue.into_iter().partition(|(_, work)| is_kept(*work));
        self.state.queue = kept;
        for ticket in refused.into_iter().map(|(ticket, _)| ticket).chain(starts) {
            self.refuse(ticket, why);
        }
    }
}
