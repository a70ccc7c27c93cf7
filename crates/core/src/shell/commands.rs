//! Transitions of the running command: its end, its kill ladder, its result.

use super::event::{Action, Answer, Refusal};
use super::state::{Cause, End, Kill, Run, Shell, Standby, Ticket, Work};
use super::step::Step;

impl Step {
    pub(super) fn cancel(&mut self, ticket: Ticket, signal: Option<i32>) {
        if !self.remove_from_queue(ticket, Refusal::Cancelled) {
            self.kill(ticket, Cause::Cancel, signal);
        }
    }

    /// A command can time out before its turn.
    pub(super) fn time_up(&mut self, ticket: Ticket) {
        if !self.remove_from_queue(ticket, Refusal::TimedOut) {
            self.kill(ticket, Cause::Timeout, None);
        }
    }

    /// Refuses a call that waits. False if it does not.
    pub(super) fn remove_from_queue(&mut self, ticket: Ticket, why: Refusal) -> bool {
        let Some(at) = self.state.queue.iter().position(|(queued, _)| *queued == ticket) else { return false };
        self.state.queue.remove(at);
        self.refuse(ticket, why);
        true
    }

    pub(super) fn kill(&mut self, ticket: Ticket, cause: Cause, signal: Option<i32>) {
        let Shell::Running(run) = &mut self.state.shell else { return };
        if run.ticket != ticket || run.work != Work::Command {
            return;
        }
        let action = match run.kill {
            None if run.end.is_none() => {
                run.kill = Some(Kill { cause, tree_gone: false, escalated: false, shell_killed: false });
                Action::Kill { cause, signal }
            }
            // The shell may have ended, while other processes of the command use the grace time.
            Some(kill) if signal == Some(libc::SIGKILL) && !kill.tree_gone => Action::Insist,
            _ => return,
        };
        self.act(action);
    }

    /// The process answers the command from now on. The standby becomes the shell, as after the death of a shell.
    pub(super) fn detach(&mut self, ticket: Ticket) {
        if !self.state.can_detach(ticket) {
            return;
        }
        self.state.standby = Standby { ready: false, fresh: false, ..self.state.standby };
        self.state.shell = Shell::Promoting;
        self.act(Action::Detach(ticket));
    }

    pub(super) fn shell_overdue(&mut self, ticket: Ticket) {
        let Shell::Running(run) = &mut self.state.shell else { return };
        if let Some(kill) =
            run.kill.as_mut().filter(|kill| run.ticket == ticket && run.end.is_none() && !kill.shell_killed)
        {
            kill.shell_killed = true;
            self.act(Action::KillShell);
        }
    }

    pub(super) fn tree_gone(&mut self, escalated: bool) {
        if let Shell::Running(Run { kill: Some(kill), .. }) = &mut self.state.shell {
            kill.tree_gone = true;
            kill.escalated |= escalated;
        }
        self.conclude();
    }

    pub(super) fn ended(&mut self, end: End) {
        let Shell::Running(run) = &mut self.state.shell else { return };
        if run.end.is_some() {
            return;
        }
        run.end = Some(end);
        if run.kill.is_some() {
            self.act(Action::Settled);
        }
        self.conclude();
    }

    /// Answers the command when nothing else is pending, and continues with the current shell.
    pub(super) fn conclude(&mut self) {
        let Shell::Running(run) = self.state.shell else { return };
        let Some(end) = run.end.filter(|_| run.kill.is_none_or(|kill| kill.tree_gone)) else { return };
        let ends_session = !self.state.survives_exit
            && run.kill.is_none()
            && matches!(end, End::Died | End::Done { exited: true, .. });
        let died = run.shell_died && !ends_session;
        // A change of variables and a refused command have no result that reports it, so that of the next command does.
        let has_result = run.work == Work::Command && end != End::Refused;
        self.state.restarted |= died;
        if died {
            self.lose_state_without_standby();
        }
        let restarted = has_result && std::mem::take(&mut self.state.restarted);
        self.act(Action::Answer(run.ticket, Answer::Ended { end, kill: run.kill, restarted }));
        if ends_session {
            let code = if let End::Done { status, .. } = end { Some(status) } else { None };
            self.state.shell = Shell::Terminated(code);
            self.act(Action::KillShell);
        } else if run.shell_died {
            self.bring_back();
        } else {
            self.state.standby.fresh &= run.state_kept;
            self.state.shell = Shell::Idle;
        }
    }
}
