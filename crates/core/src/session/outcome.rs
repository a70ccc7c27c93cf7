//! Converts the end of a call to its result or error.

use super::calls::Call;
use super::foreground::{Refused, Remains, Running};
use super::timers::Timer;
use super::{Opened, Session};
use crate::capabilities::Engine;
use crate::error::{Code, Error};
use crate::exec::{By, Outcome, SureSink};
use crate::feed::What;
use crate::shell::event::{Answer, Refusal};
use crate::shell::plain_state::ReadOnly;
use crate::shell::state::{Cause, End, Kill, Ticket};
use nacre_isolation::git_config::GitConfigs;
use nacre_protocol::shell::Refusal as ShellRefusal;
use std::io;
use std::path::Path;
use std::sync::Arc;

impl Session {
    /// The result of a command that has ended.
    pub(super) fn conclude(&mut self, command: Running, end: End, kill: Option<Kill>, restarted: bool) {
        // A refused command has no result that reports it.
        let lost_state = if end == End::Refused { Vec::new() } else { self.recovery.take_lost() };
        let outcome = Outcome { restarted, lost_state, cwd: self.cwd.clone(), ..Outcome::default() };
        let seen = command.seen();
        let is_held = kill.is_some() || !matches!(end, End::Done { .. });
        let Remains { request, mut outcome, pipes, died, answered } = command.finish(outcome, is_held);
        let killer = self.calls.answered(request.id);
        match pipes {
            Ok(pipes) => self.keep_pipes(pipes),
            Err(leftover) => self.foreground.leave(leftover),
        }
        // Those of a command whose caller has its result belong to the next one.
        let configs = self.enclosure.configs().filter(|configs| answered.is_none() && configs.have_changed());
        match answered {
            Some(answered) => {
                (outcome.duration, outcome.dropped, outcome.denials) =
                    (answered.duration, answered.dropped, answered.denials);
            }
            None => {
                self.look_for_newcomers();
                self.pace.ended(outcome.duration);
                let denials = self.enclosure.denials();
                outcome.denials = denials.map(|denials| denials.end_command()).unwrap_or_default();
            }
        }
        (outcome.exit_code, outcome.signal) = match (end, died) {
            (End::Done { status, .. }, _) => (Some(status), None),
            (End::Died, Some((code, signal))) => (code.or(signal.map(|signal| 128 + signal)), signal),
            _ => (None, None),
        };
        outcome.killed_by = match kill.map(|kill| kill.cause) {
            Some(Cause::Timeout) => Some(By::Timeout.into()),
            Some(Cause::OutputLimit) => Some(By::OutputLimit.into()),
            Some(Cause::Cancel) => killer,
            None => (end == End::Closed).then_some(By::Session.into()),
        };
        if let Some(kill) = kill {
            outcome.timed_out = kill.cause == Cause::Timeout;
            outcome.cancelled = kill.cause == Cause::Cancel;
            // A command that ended by itself at the same moment keeps its status.
            if !matches!(end, End::Done { exited: false, .. }) {
                let signal =
                    if kill.escalated || kill.shell_killed { libc::SIGKILL } else { self.foreground.kill_signal() };
                (outcome.exit_code, outcome.signal) = (None, Some(signal));
            }
        }
        self.timers.clear(Timer::Output);
        self.show_end(request.id, &outcome, seen);
        tracing::debug!(
            log = self.config.log.id(),
            session = %self.config.id,
            duration_us = outcome.duration.as_micros() as u64,
            exit_code = ?outcome.exit_code,
            signal = ?outcome.signal,
            "command ended"
        );
        if end == End::Refused {
            let refused = self.foreground.take_refused();
            let error = self.refused(refused, request.cwd.as_deref(), "command");
            return self.answers.deliver(request.sink, Err(error));
        }
        let ended_session = self.ends_session(end, kill);
        let with = |error: Error, outcome| Err(Error { outcome: Some(Box::new(outcome)), ..error });
        let result = match end {
            End::SupervisorGone => {
                let message = format!("the supervisor of session '{}' died; its processes were killed", self.config.id);
                with(Error::new(Code::EngineError, message), outcome)
            }
            End::Closed => with(self.ended_error(), outcome),
            _ if ended_session => with(terminated(&self.config.id, outcome.exit_code), outcome),
            _ => Ok(outcome),
        };
        match configs {
            Some(configs) => self.write_back(configs, request.sink, result),
            None => self.answers.deliver(request.sink, result),
        }
    }

    /// Gives the machine's config files of git what a command has changed in the session's, and then its result.
    fn write_back(&mut self, configs: Arc<GitConfigs>, sink: SureSink, mut result: Result<Outcome, Error>) {
        let (feed, id) = (Arc::clone(&self.config.feed), self.config.id.clone());
        // A file may be on a disk that does not respond.
        self.answers.deliver_after(sink, move || {
            let withheld = configs.write_back();
            withheld.iter().for_each(|key| feed.push(&id, What::Withheld { key: key.clone() }));
            match &mut result {
                Ok(outcome) => outcome.withheld = withheld,
                Err(error) => error.outcome.iter_mut().for_each(|outcome| outcome.withheld.clone_from(&withheld)),
            }
            result
        });
    }

    pub(super) fn ends_session(&self, end: End, kill: Option<Kill>) -> bool {
        !self.config.survive_exit && kill.is_none() && matches!(end, End::Died | End::Done { exited: true, .. })
    }

    /// The error for a command, process or change of variables that the shell refused.
    pub(super) fn refused(&self, refused: Option<Refused>, cwd: Option<&Path>, what: &str) -> Error {
        let Some(Refused { reason, errno, about }) = refused else {
            return Error::new(
                Code::EngineError,
                format!("the {what} cannot be started: its streams cannot be opened"),
            );
        };
        match reason {
            ShellRefusal::Cwd => Error::cwd(&self.cwd.join(cwd.unwrap_or(Path::new(""))), errno),
            ShellRefusal::ReadOnly => read_only(&ReadOnly(about)),
            ShellRefusal::Limit => limit_error(&about),
            ShellRefusal::Streams => {
                let message = format!(
                    "the {what} cannot be started: an earlier command set a limit of open files (ulimit -n) below 5; \
                     delete the session, and set the limit in a subshell"
                );
                Error::new(Code::SpawnFailed, message)
            }
            ShellRefusal::Terminal => no_terminal(&about, errno),
            ShellRefusal::Unknown(_) => {
                Error::new(Code::EngineError, format!("the {what} cannot be started: the shell refused it"))
            }
        }
    }

    /// The error of a call that never ran.
    pub(super) fn refusal(&self, why: Refusal) -> Error {
        match why {
            Refusal::Closed | Refusal::Cancelled | Refusal::TimedOut => self.ended_error(),
            Refusal::Terminated(code) => terminated(&self.config.id, code),
            Refusal::NoShell => self.failure.clone().unwrap_or_else(|| {
                let message = format!("the shell of session '{}' dies as soon as it starts", self.config.id);
                Error::new(Code::SpawnFailed, message)
            }),
            Refusal::NoFork => no_fork(),
            Refusal::StandbyDied => {
                Error::new(Code::SpawnFailed, "the process cannot be started: the session's standby died")
            }
        }
    }

    /// Clears the timers of the running command, which has ended.
    pub(super) fn clear_command_timers(&mut self, ticket: Ticket) {
        for timer in [Timer::Timeout(ticket), Timer::Overdue(ticket), Timer::Unread] {
            self.timers.clear(timer);
        }
    }

    pub(super) fn answer(&mut self, ticket: Ticket, answer: Answer) {
        if let Some(command) = self.foreground.take(ticket) {
            self.clear_command_timers(ticket);
            if let Answer::Ended { end, kill, restarted } = answer {
                let status = match end {
                    End::Done { status, .. } => Some(status),
                    End::Died => command.status_of_death(),
                    _ => None,
                };
                status.into_iter().for_each(|status| self.foreground.keep_status(status));
                return self.conclude(command, end, kill, restarted);
            }
        }
        let Some(call) = self.calls.take(ticket) else { return };
        let error = match answer {
            Answer::Refused(why) => Some(self.refusal(why)),
            Answer::Ended { end: End::Refused, .. } => {
                let refused = self.foreground.take_refused();
                Some(self.refused(refused, None, "change of variables"))
            }
            Answer::Ended { end: End::Closed, .. } => Some(self.ended_error()),
            _ => None,
        };
        match call {
            Call::Open(reply) => {
                let engine = if self.plain.is_engine() { Engine::Plain } else { Engine::Builtin };
                let opened = Opened { engine, version: self.version.clone() };
                drop(reply.send(error.map_or(Ok(opened), Err)));
            }
            Call::SetEnv { reply, .. } => drop(reply.send(error.map_or(Ok(()), Err))),
            // Dropping it reports to the holder that the session ends.
            Call::Hold { grant, before } => {
                let is_needed = before.is_none_or(|request| self.calls.ticket_of(request).is_some());
                if error.is_none() && is_needed {
                    self.calls.stop_timeouts();
                    self.holds.grant(grant);
                }
            }
            Call::Files => self.answer_files(error),
            Call::Exec(request, _) => {
                let killer = self.calls.answered(request.id);
                let timed_out = matches!(answer, Answer::Refused(Refusal::TimedOut));
                let killed_by = if timed_out { Some(By::Timeout.into()) } else { killer };
                let never_ran = Outcome {
                    cancelled: !timed_out,
                    timed_out,
                    duration: request.timeout.filter(|_| timed_out).unwrap_or_default(),
                    killed_by,
                    waited_for: if timed_out {
                        self.foreground.command().map(|command| command.blocker())
                    } else {
                        None
                    },
                    cwd: self.cwd.clone(),
                    ..Outcome::default()
                };
                self.show_end(request.id, &never_ran, [0; 2]);
                match (answer, error) {
                    // It has not waited for its turn.
                    (Answer::Refused(Refusal::Cancelled | Refusal::TimedOut), _) => {
                        request.sink.finished(Ok(never_ran))
                    }
                    (_, error) => {
                        let error = error.unwrap_or_else(|| self.ended_error());
                        self.answers.deliver(request.sink, Err(error));
                    }
                }
            }
            Call::Start(request) => {
                request.refuse(error.unwrap_or_else(|| self.ended_error()));
            }
        }
    }
}

/// The error of calls on a session whose shell has ended permanently.
pub(super) fn terminated(id: &str, code: Option<i32>) -> Error {
    let how = code.map_or("was killed".to_string(), |code| format!("exited with code {code}"));
    Error::new(Code::SessionTerminated, format!("the shell of session '{id}' {how}"))
}

/// The error for a process that cannot be forked.
pub(super) fn no_fork() -> Error {
    let message = "the process cannot be started: the shell cannot fork (limit of processes or memory)";
    Error::new(Code::SpawnFailed, message)
}

/// The error for a command whose shell cannot have a terminal. `process`: the pid of a process of an earlier command.
fn no_terminal(process: &str, errno: i32) -> Error {
    let reason = if process.is_empty() {
        io::Error::from_raw_os_error(errno).to_string()
    } else {
        format!(
            "process {process} of an earlier command would get its signals, like those of Ctrl-C; end it, start such \
             programs with startProcess, or use another session"
        )
    };
    Error::new(Code::TerminalUnavailable, format!("the session cannot give its command a terminal: {reason}"))
}

/// The error for a variable that is read-only in the session.
pub(super) fn read_only(refused: &ReadOnly) -> Error {
    Error::new(Code::InvalidEnvName, refused.to_string())
}

/// The error for a limit above the host's own.
pub(super) fn limit_error(limit: &str) -> Error {
    let message = format!("the limit {limit} cannot be set: it is above what the host itself may use");
    Error::new(Code::LimitUnsupported, message)
}
