//! Transitions when the shell, the standby or the supervisor dies, and when the session is closed.

use super::event::{Action, Answer};
use super::state::{End, Run, Shell, Standby};
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
                self.lose_state_without_standby();
                self.bring_back();
            }
            Shell::Running(run) => {
                run.shell_died = true;
                if run.end.is_none() {
                    self.ended(End::Died);
                }
            }
            Shell::Idle if !self.state.survives_exit => self.state.shell = Shell::Terminated(None),
            Shell::Idle | Shell::Promoting => {
                self.state.restarted = true;
                self.lose_state_without_standby();
                self.bring_back();
            }
            Shell::Starting => self.start_failed(),
            Shell::SettingUp => self.bring_back(),
            _ => {}
        }
    }

    /// Called when the shell or the supervisor has died. Without a standby that has the state after the last finished
    /// command, that state is lost, and a result reports it.
    pub(super) fn lose_state_without_standby(&mut self) {
        let Standby { ready, forking, fresh, .. } = self.state.standby;
        if !(ready && fresh) || forking {
            self.act(Action::LoseState);
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
        let mut lost = None;
        if matches!(self.state.shell, Shell::Idle | Shell::Running(_) | Shell::Promoting) {
            self.lose_state_without_standby();
        }
        match self.state.shell {
            Shell::Closing if orderly => return self.closed(),
            // A terminated session has no state to save, but may have background processes.
            Shell::Closing | Shell::Terminated(_) => return self.act(Action::Sweep),
            Shell::Absent | Shell::Closed | Shell::Salvaging(_) => return,
            Shell::Starting if self.state.attempts > 0 && !self.state.restarted => {
                self.act(Action::Sweep);
                return self.start_failed();
            }
            Shell::Running(run) if run.can_repeat(unread) => self.state.queue.push_front((run.ticket, run.work)),
            Shell::Running(run) => {
                let end = run.end.filter(|end| matches!(end, End::Done { .. })).unwrap_or(End::SupervisorGone);
                lost = Some(Run { end: Some(end), ..run });
            }
            _ => {}
        }
        self.state.shell = Shell::Salvaging(lost);
        self.act(Action::Salvage);
    }

    /// Answers the command that the supervisor took down, now that all its processes are dead, and starts again. After a
    /// hold, the next call starts the shell.
    pub(super) fn salvaged(&mut self) {
        let Shell::Salvaging(lost) = self.state.shell else { return };
        let restarted = std::mem::replace(&mut self.state.restarted, true);
        if let Some(Run { ticket, end: Some(end), kill, .. }) = lost {
            self.act(Action::Answer(ticket, Answer::Ended { end, kill, restarted }));
        }
        if self.state.held.is_some() {
            self.state.shell = Shell::Absent;
        } else {
            self.start(Action::StartSession);
        }
    }

    pub(super) fn close(&mut self) {
        match self.state.shell {
            Shell::Closing | Shell::Closed => return,
            Shell::Absent => return self.closed(),
            Shell::Running(run) | Shell::Salvaging(Some(run)) => {
                let restarted = std::mem::take(&mut self.state.restarted);
                let answer = Answer::Ended { end: End::Closed, kill: run.kill, restarted };
                self.act(Action::Answer(run.ticket, answer));
            }
            _ => {}
        }
        // The remaining processes may already be being killed.
        let is_salvaging = matches!(self.state.shell, Shell::Salvaging(_));
        self.state.shell = Shell::Closing;
        if !is_salvaging {
            self.act(Action::Shutdown);
        }
    }

    pub(super) fn closed(&mut self) {
        self.state.shell = Shell::Closed;
        self.act(Action::Closed);
    }
}
