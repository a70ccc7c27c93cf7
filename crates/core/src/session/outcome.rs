//! What a foreground command has come to: its end, its result, its error.

use super::actor::{Session, terminated};
use super::foreground::Run;
use super::killing::Cause;
use crate::error::{Code, Error};
use crate::exec::{ExecRequest, Outcome};
use crate::output::capture::Capture;
use std::path::PathBuf;

/// How a command came to its end.
pub(super) enum End {
    /// It ran to its end in the shell.
    Finished { status: i32, cwd: PathBuf },
    /// It ended the shell, in an orderly way.
    Exited { status: i32, cwd: PathBuf },
    /// The shell's process is gone.
    Died { code: Option<i32>, signal: Option<i32> },
    /// The report stayed away; the shell has been killed for it.
    ReportLost,
    /// The supervisor is gone, and everything with it.
    SupervisorGone,
    /// The shell, or its supervisor, had died before the command was taken: nothing of it has run.
    NotBegun,
    /// The session is being closed.
    Closed,
}

impl Session {
    /// Takes what is in the pipes at this moment.
    pub(super) fn collect(
        &mut self,
        end: &End,
        run: &Run,
        request: &mut ExecRequest,
        mut capture: Capture,
        outcome: &mut Outcome,
    ) {
        let sink = request.sink.as_mut();
        if let Some(shell) = self.shell.as_mut() {
            capture.drain(sink);
            if matches!(end, End::Exited { .. } | End::Died { .. }) {
                let base = shell.take_base_output();
                if !shell.driver.is_traced() {
                    base.iter().enumerate().for_each(|(stream, bytes)| capture.push(stream, bytes, sink));
                }
            }
            outcome.cwd.clone_from(&shell.cwd);
        }
        self.leftover = Some(capture.finish(outcome, sink));
        (outcome.exit_code, outcome.signal) = match end {
            End::Finished { status, cwd } | End::Exited { status, cwd } => {
                outcome.cwd.clone_from(cwd);
                (Some(*status), None)
            }
            End::Died { code, signal } => (code.or(signal.map(|signal| 128 + signal)), *signal),
            End::ReportLost | End::SupervisorGone | End::NotBegun | End::Closed => (None, None),
        };
        if let Some(killing) = &run.killing {
            outcome.timed_out = killing.cause == Cause::Timeout;
            outcome.canceled = killing.cause == Cause::Interrupt;
            if !matches!(end, End::Finished { .. }) {
                (outcome.exit_code, outcome.signal) = (None, Some(killing.final_signal()));
            }
        }
    }

    /// Closes the command's pipes, after its result has been given: nobody has to wait for that. What background
    /// processes still print goes to a task of its own.
    pub(super) fn let_go(&mut self) {
        let Some(leftover) = self.leftover.take() else { return };
        if let Some(shell) = self.shell.as_mut() {
            shell.driver.release();
        }
        leftover.let_go();
    }

    pub(super) fn conclude(&mut self, end: End, mut outcome: Outcome) -> Result<Option<Outcome>, Error> {
        let killed = outcome.timed_out || outcome.canceled;
        match end {
            End::Exited { .. } | End::Died { .. } if !self.config.survive_exit && !killed => {
                self.terminated = Some(outcome.exit_code);
                let error = terminated(&self.config.id, outcome.exit_code);
                Err(Error { outcome: Some(Box::new(outcome)), ..error })
            }
            End::Died { .. } | End::ReportLost => {
                if let (Some(shell), Some(code)) = (self.shell.as_mut(), outcome.exit_code) {
                    shell.driver.set_status(code);
                }
                // It is brought back before the next command runs; this result is the one to say so.
                outcome.restarted = true;
                self.death_told = true;
                Ok(Some(outcome))
            }
            End::NotBegun => {
                self.restarted |= outcome.restarted;
                Ok(None)
            }
            End::SupervisorGone => {
                let message = format!("the supervisor of session '{}' died; its processes were killed", self.config.id);
                Err(Error { outcome: Some(Box::new(outcome)), ..Error::new(Code::EngineError, message) })
            }
            End::Closed => Err(Error { outcome: Some(Box::new(outcome)), ..Error::session_destroyed(&self.config.id) }),
            End::Finished { .. } | End::Exited { .. } => Ok(Some(outcome)),
        }
    }
}
