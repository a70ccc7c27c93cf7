//! Converts the end of a call to its result or error.

use super::busy_poll;
use super::command::{Running, keep_pipes};
use super::context::{Call, Session};
use super::spare_pipes::{self, Keeper};
use super::timers::Timer;
use crate::error::{Code, Error};
use crate::exec::Outcome;
use crate::shell::checkpoint::ReadOnly;
use crate::shell::event::{Answer, Refusal};
use crate::shell::state::{Cause, End, Kill, Ticket};
use nacre_protocol::shell::Refusal as ShellRefusal;
use std::path::Path;
use tokio::time::Instant;

impl Session {
    /// The result of a command that has ended.
    pub(super) fn conclude(&mut self, mut command: Running, end: End, kill: Option<Kill>, restarted: bool) {
        command.stop_input();
        let Running { mut request, mut capture, writers, forked, begun, started_at, died, .. } = command;
        self.forget_request(request.id);
        let mut outcome =
            Outcome { started_at: Some(started_at), restarted, cwd: self.cwd.clone(), ..Outcome::default() };
        capture.drain(request.sink.as_mut());
        let leftover = capture.finish(&mut outcome, request.sink.as_mut());
        let may_hold = forked || kill.is_some() || !matches!(end, End::Done { .. });
        match keep_pipes(leftover, writers, may_hold) {
            Ok(pipes) => {
                self.spare_pipes = Some(pipes);
                self.keeper = self.keeper.take().or_else(Keeper::new);
                self.timers.set(Timer::SparePipes, Instant::now() + spare_pipes::limit(self.keeper.as_ref()));
            }
            Err(leftover) => self.leftover = Some(*leftover),
        }
        outcome.duration = begun.elapsed();
        outcome.denials = self.config.proxied.as_ref().map(|proxied| proxied.denials.take()).unwrap_or_default();
        (outcome.exit_code, outcome.signal) = match (end, died) {
            (End::Done { status, .. }, _) => (Some(status), None),
            (End::Died, Some((code, signal))) => (code.or(signal.map(|signal| 128 + signal)), signal),
            _ => (None, None),
        };
        if let Some(kill) = kill {
            outcome.timed_out = kill.cause == Cause::Timeout;
            outcome.canceled = kill.cause == Cause::Cancel;
            // A command that ended by itself at the same moment keeps its status.
            if !matches!(end, End::Done { exited: false, .. }) {
                let signal = if kill.escalated || kill.shell_killed { libc::SIGKILL } else { self.wait.kill_signal };
                (outcome.exit_code, outcome.signal) = (None, Some(signal));
            }
        }
        tracing::debug!(
            log = self.config.log.id(),
            session = %self.config.id,
            duration_us = outcome.duration.as_micros() as u64,
            exit_code = ?outcome.exit_code,
            signal = ?outcome.signal,
            "command ended"
        );
        if end == End::Refused {
            let refused = self.wait.refused.take();
            let error = self.refused(refused, request.cwd.as_deref(), "command");
            return request.sink.finished(Err(error));
        }
        let ended_session = self.ends_session(end, kill);
        let with = |error: Error, outcome| Err(Error { outcome: Some(Box::new(outcome)), ..error });
        request.sink.finished(match end {
            End::SupervisorGone => {
                let message = format!("the supervisor of session '{}' died; its processes were killed", self.config.id);
                with(Error::new(Code::EngineError, message), outcome)
            }
            End::Closed => with(Error::session_destroyed(&self.config.id), outcome),
            _ if ended_session => with(terminated(&self.config.id, outcome.exit_code), outcome),
            _ => Ok(outcome),
        });
        self.pace.result_given();
    }

    pub(super) fn ends_session(&self, end: End, kill: Option<Kill>) -> bool {
        !self.config.survive_exit && kill.is_none() && matches!(end, End::Died | End::Done { exited: true, .. })
    }

    /// The error for a command, process or change of variables that the shell refused.
    pub(super) fn refused(&self, refused: Option<(ShellRefusal, String)>, cwd: Option<&Path>, what: &str) -> Error {
        match refused {
            Some((ShellRefusal::Cwd, _)) => cwd_error(&self.cwd.join(cwd.unwrap_or(Path::new("")))),
            Some((ShellRefusal::ReadOnly, name)) => read_only(&ReadOnly(name)),
            Some((ShellRefusal::Limit, name)) => limit_error(&name),
            Some((ShellRefusal::Unknown(_), _)) | None => {
                Error::new(Code::EngineError, format!("the {what} cannot be started: its streams cannot be opened"))
            }
        }
    }

    /// The error of a call that never ran.
    pub(super) fn refusal(&self, why: Refusal) -> Error {
        match why {
            Refusal::Closed | Refusal::Cancelled => Error::session_destroyed(&self.config.id),
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

    pub(super) fn answer(&mut self, ticket: Ticket, answer: Answer) {
        for timer in [Timer::Timeout(ticket), Timer::Overdue(ticket), Timer::Register, Timer::Unread] {
            self.timers.clear(timer);
        }
        if let Some(command) = self.command.take_if(|command| command.ticket == ticket) {
            self.quick = busy_poll::is_quick(command.begun.elapsed());
            if let Answer::Ended { end, kill, restarted } = answer {
                if let (End::Died, Some((code, signal))) = (end, command.died) {
                    self.wait.status = code.or(signal.map(|signal| 128 + signal)).unwrap_or(0) as u64;
                }
                return self.conclude(command, end, kill, restarted);
            }
        }
        let Some(call) = self.calls.remove(&ticket) else { return };
        let error = match answer {
            Answer::Refused(why) => Some(self.refusal(why)),
            Answer::Ended { end: End::Refused, .. } => {
                let refused = self.wait.refused.take();
                Some(self.refused(refused, None, "change of variables"))
            }
            Answer::Ended { end: End::Closed, .. } => Some(Error::session_destroyed(&self.config.id)),
            _ => None,
        };
        match call {
            Call::Open(reply) | Call::SetEnv { reply, .. } => drop(reply.send(error.map_or(Ok(()), Err))),
            Call::Files(reply) => self.answer_files(reply, error),
            Call::Exec(request) => {
                self.forget_request(request.id);
                request.sink.finished(match (answer, error) {
                    (Answer::Refused(Refusal::Cancelled), _) => {
                        Ok(Outcome { canceled: true, cwd: self.cwd.clone(), ..Outcome::default() })
                    }
                    (_, error) => Err(error.unwrap_or_else(|| Error::session_destroyed(&self.config.id))),
                });
            }
            Call::Start(request) => {
                request.refuse(error.unwrap_or_else(|| Error::session_destroyed(&self.config.id)));
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

/// The error for a variable that is read-only in the session.
pub(super) fn read_only(refused: &ReadOnly) -> Error {
    Error::new(Code::InvalidEnvName, refused.to_string())
}

/// The error for a limit above the host's own.
pub(super) fn limit_error(limit: &str) -> Error {
    let message = format!("the limit {limit} cannot be set: it is above what the host itself may use");
    Error::new(Code::LimitUnsupported, message)
}

/// The error for a directory in which nothing can run.
pub(super) fn cwd_error(directory: &Path) -> Error {
    let shown = directory.display();
    let reason = match std::fs::metadata(directory) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => "does not exist".to_string(),
        Err(error) => format!("cannot be used: {error}"),
        Ok(info) if !info.is_dir() => "is not a directory".to_string(),
        Ok(_) => "cannot be entered".to_string(),
    };
    Error::new(Code::CwdNotFound, format!("the working directory '{shown}' {reason}"))
}
