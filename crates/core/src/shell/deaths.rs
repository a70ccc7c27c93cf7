//! Transitions when the shell, the standby or the supervisor dies, and when the session is closed.

use super::event::{Action, Answer};
use super::state::{End, Shell};
use super::step::Step;

impl Step {
    pub(super) fn shell_died(&mut self, unread: bool) {
        let survives = self.state.survives_exit;
        match &mut self.state.shell {
            Shell::Running(run) if survives && run.can_repeat(unread) => {
                // Nothing of it has run, or it is safe to repeat, so the next shell runs it.
                let (ticket, work) = (run.ticket, run.work);
                self.state.queue.push_front((ticket, work));
                self.state.restarted = true;
                self.bring_back();
            }
            Shell::Running(run) => {
                run.shell_died = true;
                if run.end.is_none() {
                    self.ended(End::Died);
                }
            }
            Shell::Idle if !self.state.survives_exit => self.state.shell = Shell::Terminated(None),
            Shell::Idle => {
                self.state.restarted = true;
                self.bring_back();
            }
            Shell::Starting => self.start_failed(),
            Shell::SettingUp | Shell::Promoting => self.bring_back(),
            _ => {}
        }
    }

    /// Replaces a dead shell: by the standby, or otherwise by a new shell with the last checkpoint.
    pub(super) fn bring_back(&mut self) {
        self.state.standby.forking = false;
        self.state.standby.fresh = false;
        if self.state.standby.ready {
            self.state.standby.ready = false;
            self.state.shell = Shell::Promoting;
            self.act(Action::Promote);
        } else {
            self.start(Action::StartShell);
        }
    }

    pub(super) fn standby_died(&mut self) {
        self.state.standby.ready = false;
        self.state.standby.fresh &= self.state.standby.forking;
    }

    pub(super) fn supervisor_gone(&mut self, unread: bool, orderly: bool) {
        match self.state.shell {
            Shell::Closing if orderly => return self.closed(),
            // A terminated session has no state to save, but may have background processes.
            Shell::Closing | Shell::Terminated(_) => return self.act(Action::Sweep),
            Shell::Absent | Shell::Closed | Shell::Salvaging => return,
            Shell::Starting if self.state.attempts > 0 && !self.state.restarted => {
                self.act(Action::Sweep);
                return self.start_failed();
            }
            Shell::Running(run) if run.can_repeat(unread) => self.state.queue.push_front((run.ticket, run.work)),
            Shell::Running(run) => {
                let end = run.end.filter(|end| matches!(end, End::Done { .. })).unwrap_or(End::SupervisorGone);
                let restarted = std::mem::take(&mut self.state.restarted);
                self.act(Action::Answer(run.ticket, Answer::Ended { end, kill: run.kill, restarted }));
            }
            _ => {}
        }
        self.state.restarted = true;
        self.state.shell = Shell::Salvaging;
        self.act(Action::Salvage);
    }

    pub(super) fn close(&mut self) {
        match self.state.shell {
            Shell::Closing | Shell::Closed => return,
            Shell::Absent => return self.closed(),
            // The remaining processes are already being killed.
            Shell::Salvaging => {
                self.state.shell = Shell::Closing;
                return;
            }
            Shell::Running(run) => {
                let restarted = std::mem::take(&mut self.state.restarted);
                let answer = Answer::Ended { end: End::Closed, kill: run.kill, restarted };
                self.act(Action::Answer(run.ticket, answer));
            }
            _ => {}
        }
        self.state.shell = Shell::Closing;
        self.act(Action::Shutdown);
    }

    pub(super) fn closed(&mut self) {
        self.state.shell = Shell::Closed;
        self.act(Action::Closed);
    }
}
