//! The shell's state machine: `(State, Event) -> (State, Vec<Action>)`, pure.
//!
//! Two rules carry the rest. A command runs only when the standby has the state after the last finished command, or
//! forking has failed: so a shell that dies loses no more than the command it died over, and a background process can
//! start from the right state while a command runs. And every call is answered exactly once, whatever dies in between.

use super::state::{
    Action, Answer, Cause, End, Event, Isolation, Kill, Refusal, Run, Shell, Source, Standby, State, Ticket, Work,
};

/// A shell that dies at once is started this often.
pub const MAX_ATTEMPTS: u32 = 3;

/// See the module.
pub fn step(state: State, event: Event) -> (State, Vec<Action>) {
    let mut step = Step { state, actions: Vec::new() };
    step.take(event);
    step.advance();
    (step.state, step.actions)
}

struct Step {
    state: State,
    actions: Vec<Action>,
}

impl Step {
    fn act(&mut self, action: Action) {
        self.actions.push(action);
    }

    fn refuse(&mut self, ticket: Ticket, why: Refusal) {
        self.act(Action::Answer(ticket, Answer::Refused(why)));
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Submit(ticket, Work::Start) => self.state.starts.push_back(ticket),
            Event::Submit(ticket, work) => self.state.queue.push_back((ticket, work)),
            Event::Cancel(ticket, signal) => self.cancel(ticket, signal),
            Event::TimeUp(ticket) => self.kill(ticket, Cause::Timeout, None),
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
            Event::Isolated => self.state.isolation = Isolation::Isolated,
            Event::Done { status, exited, state_kept, forked } => {
                self.state.standby.fresh &= state_kept;
                if forked {
                    self.state.isolation = Isolation::Unknown;
                }
                self.ended(End::Done { status, exited });
            }
            Event::Refused => self.ended(End::Refused),
            Event::TrapRuns => {
                if self.state.running().is_some_and(|run| run.kill.is_some()) {
                    self.act(Action::TrapRuns);
                }
            }
            Event::StandbyForked => {
                self.state.standby.forking = false;
                self.state.standby.ready = true;
            }
            Event::ForkFailed => {
                self.state.standby = Standby { forking: false, fresh: false, paused: true, ..self.state.standby };
            }
            Event::ForkPauseOver => self.state.standby.paused = false,
            Event::IdleForAWhile if self.state.shell == Shell::Idle => self.fork_standby(false),
            Event::ShellDied { unread } => self.shell_died(unread),
            Event::StandbyDied => self.standby_died(),
            Event::Promoted if self.state.shell == Shell::Promoting => {
                self.state.attempts = 0;
                self.state.shell = Shell::Idle;
                self.state.isolation = Isolation::Unknown;
                self.fork_standby(false);
            }
            Event::TreeGone { escalated } => self.tree_gone(escalated),
            Event::SupervisorGone { unread, orderly } => self.supervisor_gone(unread, orderly),
            Event::Salvaged if self.state.shell == Shell::Salvaging => self.start(Action::StartSession),
            Event::Salvaged if self.state.shell == Shell::Closing => self.closed(),
            Event::Close => self.close(),
            Event::Hello | Event::SetUp | Event::IdleForAWhile | Event::Promoted | Event::Salvaged => {}
        }
    }

    /// Does whatever can be done now.
    fn advance(&mut self) {
        match self.state.shell {
            Shell::Absent if !self.state.queue.is_empty() || !self.state.starts.is_empty() => {
                self.start(Action::StartSession);
            }
            Shell::Idle => self.use_idle_shell(),
            Shell::Running(_) => self.start_processes_beside_a_command(),
            Shell::Terminated(code) => self.refuse_all(Refusal::Terminated(code)),
            Shell::Closing | Shell::Closed => self.refuse_all(Refusal::Closed),
            _ => {}
        }
    }

    fn use_idle_shell(&mut self) {
        while let Some(ticket) = self.state.starts.pop_front() {
            let standby = self.state.standby;
            let source =
                if standby.ready && standby.fresh && !standby.forking { Source::Standby } else { Source::Shell };
            self.act(Action::ForkProcess(ticket, source));
        }
        if self.state.isolation == Isolation::Unknown {
            self.state.isolation = Isolation::Isolating;
            self.act(Action::Isolate);
        }
        while let Some((ticket, work)) = self.state.queue.front().copied() {
            if work == Work::Open {
                self.state.queue.pop_front();
                self.act(Action::Answer(ticket, Answer::Ready));
                continue;
            }
            if self.state.isolation != Isolation::Isolated {
                return;
            }
            self.state.queue.pop_front();
            self.fork_standby(true);
            self.act(if work == Work::Command { Action::Run(ticket) } else { Action::SetEnv(ticket) });
            self.state.shell = Shell::Running(Run { ticket, work, end: None, kill: None, shell_died: false });
            return;
        }
    }

    fn start_processes_beside_a_command(&mut self) {
        let standby = self.state.standby;
        // Forked before the command: it has the right state as soon as it is there, or as long as the command runs.
        if standby.forking {
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

    /// Forks a standby, unless there is one with the present state or forking has just failed.
    fn fork_standby(&mut self, command_follows: bool) {
        let standby = &mut self.state.standby;
        if standby.fresh || standby.paused {
            return;
        }
        (standby.forking, standby.fresh) = (true, true);
        self.act(Action::ForkStandby { command_follows });
    }

    fn start(&mut self, action: Action) {
        self.state.attempts += 1;
        if self.state.attempts > MAX_ATTEMPTS {
            return self.start_failed();
        }
        self.state.shell = Shell::Starting;
        self.state.standby = Standby { paused: self.state.standby.paused, ..State::new(true).standby };
        self.state.isolation = Isolation::Isolated;
        self.act(action);
    }

    fn start_failed(&mut self) {
        self.state.attempts = 0;
        self.state.shell = Shell::Absent;
        self.refuse_all(Refusal::NoShell);
    }

    fn refuse_all(&mut self, why: Refusal) {
        let queue = std::mem::take(&mut self.state.queue);
        let starts = std::mem::take(&mut self.state.starts);
        for ticket in queue.into_iter().map(|(ticket, _)| ticket).chain(starts) {
            self.refuse(ticket, why);
        }
    }

    fn cancel(&mut self, ticket: Ticket, signal: Option<i32>) {
        if let Some(at) = self.state.queue.iter().position(|(queued, _)| *queued == ticket) {
            self.state.queue.remove(at);
            return self.refuse(ticket, Refusal::Cancelled);
        }
        self.kill(ticket, Cause::Cancel, signal);
    }

    fn kill(&mut self, ticket: Ticket, cause: Cause, signal: Option<i32>) {
        let Shell::Running(run) = &mut self.state.shell else { return };
        if run.ticket != ticket || run.end.is_some() || run.work != Work::Command {
            return;
        }
        let action = match run.kill {
            None => {
                run.kill = Some(Kill { cause, tree_gone: false, escalated: false, shell_killed: false });
                Action::Kill { cause, signal }
            }
            Some(_) if signal == Some(libc::SIGKILL) => Action::Insist,
            Some(_) => return,
        };
        self.act(action);
    }

    fn shell_overdue(&mut self, ticket: Ticket) {
        let Shell::Running(run) = &mut self.state.shell else { return };
        if let Some(kill) =
            run.kill.as_mut().filter(|kill| run.ticket == ticket && run.end.is_none() && !kill.shell_killed)
        {
            kill.shell_killed = true;
            self.act(Action::KillShell);
        }
    }

    fn tree_gone(&mut self, escalated: bool) {
        if let Shell::Running(Run { kill: Some(kill), .. }) = &mut self.state.shell {
            kill.tree_gone = true;
            kill.escalated |= escalated;
        }
        self.conclude();
    }

    fn ended(&mut self, end: End) {
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

    /// Answers the command once nothing more is awaited, and goes on with whatever shell there is.
    fn conclude(&mut self) {
        let Shell::Running(run) = self.state.shell else { return };
        let Some(end) = run.end.filter(|_| run.kill.is_none_or(|kill| kill.tree_gone)) else { return };
        let ends_session = !self.state.survives_exit
            && run.kill.is_none()
            && matches!(end, End::Died | End::Done { exited: true, .. });
        let died = run.shell_died && !ends_session;
        let restarted = std::mem::take(&mut self.state.restarted) || died;
        self.act(Action::Answer(run.ticket, Answer::Ended { end, kill: run.kill, restarted }));
        if ends_session {
            let code = if let End::Done { status, .. } = end { Some(status) } else { None };
            self.state.shell = Shell::Terminated(code);
            self.act(Action::KillShell);
        } else if run.shell_died {
            self.bring_back();
        } else {
            self.state.shell = Shell::Idle;
        }
    }

    fn shell_died(&mut self, unread: bool) {
        let survives = self.state.survives_exit;
        match &mut self.state.shell {
            Shell::Running(run) if survives && run.can_repeat(unread) => {
                // Nothing of it has run, or running it twice does no harm: the next shell gets it.
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

    /// The shell is dead: in order of how much is kept, the standby or a new shell with the last checkpoint.
    fn bring_back(&mut self) {
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

    fn standby_died(&mut self) {
        self.state.standby.ready = false;
        self.state.standby.fresh &= self.state.standby.forking;
    }

    fn supervisor_gone(&mut self, unread: bool, orderly: bool) {
        match self.state.shell {
            Shell::Closing if orderly => return self.closed(),
            Shell::Closing => return self.act(Action::Sweep),
            Shell::Absent | Shell::Terminated(_) | Shell::Closed | Shell::Salvaging => return,
            Shell::Starting if self.state.attempts > 0 && !self.state.restarted => return self.start_failed(),
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

    fn close(&mut self) {
        match self.state.shell {
            Shell::Closing | Shell::Closed => return,
            Shell::Absent => return self.closed(),
            // What is left is being removed already.
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

    fn closed(&mut self) {
        self.state.shell = Shell::Closed;
        self.act(Action::Closed);
    }
}
