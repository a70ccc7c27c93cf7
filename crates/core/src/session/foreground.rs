//! One foreground command from its start to its result.

use super::actor::Session;
use super::effects;
use super::killing::Killing;
use super::lost_report::Suspicions;
use super::preparing::text_of;
use super::recovery::MOST_ATTEMPTS;
use super::scope::Scope;
use super::shell::Phase;
use super::spinning::{self, Running};
use super::stdin;
use crate::driver::Stdin;
use crate::error::{Code, Error};
use crate::exec::{ExecRequest, Input, Outcome};
use crate::output::capture::Capture;
use nacre_containment::pid::Pid;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;
use tokio::time::Instant;

/// What a run needs to know besides the request.
pub(super) struct Run {
    pub(super) id: u64,
    pub(super) begun: Instant,
    pub(super) killing: Option<Killing>,
    pub(super) spare: Vec<Pid>,
    /// A ready report that is not the command's is still to come.
    pub(super) skip_ready: bool,
    /// The command was to be killed before it had begun, and never will.
    pub(super) withdrawn: bool,
    pub(super) suspicions: Suspicions,
    pub(super) report_lost: bool,
    /// If the command turns out not to have begun, it is run again.
    pub(super) repeatable: bool,
}

impl Session {
    /// Runs the command and tells its sink the end.
    ///
    /// The race: a shell that is killed while idle is gone before anybody has heard of it, and a command sent meanwhile
    /// is sent to nobody. It must not be blamed for a death that it had no part in, so it is taken back and run by the
    /// shell that comes next.
    pub(super) async fn exec(&mut self, mut request: ExecRequest) {
        self.pace.answered();
        let text = text_of(&request.command);
        let mut attempts = 0;
        let (scope, result) = loop {
            attempts += 1;
            let scope = match self.prepare(&request, &text).await {
                Ok(scope) => scope,
                Err(error) => break (None, Err(error)),
            };
            match self.attempt(&mut request, &text, scope.is_some(), attempts).await {
                Ok(None) => {
                    self.let_go();
                    self.leave_scope(scope).await;
                }
                Ok(Some(outcome)) => break (scope, Ok(outcome)),
                Err(error) => break (scope, Err(error)),
            }
        };
        request.sink.finished(result);
        self.let_go();
        self.pace.told();
        self.leave_scope(scope).await;
        if let Some(shell) = self.shell.as_mut().filter(|_| self.closing.is_none()) {
            shell.get_ready().await;
        }
    }

    /// Runs the prepared command, unless it is not wanted any more. `None` when it has to be tried again.
    async fn attempt(
        &mut self,
        request: &mut ExecRequest,
        text: &[u8],
        scoped: bool,
        attempt: u32,
    ) -> Result<Option<Outcome>, Error> {
        if self.canceled_meanwhile(request.id) {
            let cwd = self.shell.as_ref().map(|shell| shell.cwd.clone()).unwrap_or_default();
            return Ok(Some(Outcome { canceled: true, cwd, ..Outcome::default() }));
        }
        if self.closing.is_some() {
            return Err(Error::session_destroyed(&self.config.id));
        }
        let cwd_after = request.cwd.as_ref().filter(|_| scoped).and(self.cwd_before.take());
        self.run_command(request, text, cwd_after, attempt).await
    }

    pub(super) async fn leave_scope(&mut self, scope: Option<Scope>) {
        if let Some(scope) = scope
            && self.closing.is_none()
            && self.ready().await.is_ok()
        {
            let _ = self.internal(scope.restore()).await;
        }
    }

    async fn run_command(
        &mut self,
        request: &mut ExecRequest,
        text: &[u8],
        cwd_after: Option<PathBuf>,
        attempt: u32,
    ) -> Result<Option<Outcome>, Error> {
        let restarted = std::mem::take(&mut self.restarted);
        let Some(shell) = self.shell.as_mut() else { return Err(engine_error("the session has no shell")) };
        shell.isolate().await;
        let spare = shell.begin_command();
        let input = std::mem::replace(&mut request.input, Input::None);
        let started_at = SystemTime::now();
        let begun = Instant::now();
        let stdin = match &input {
            Input::None => Stdin::Empty,
            Input::Bytes(bytes) => Stdin::Whole(bytes),
            Input::Stream(_) => Stdin::Streamed,
        };
        // What has been streamed into a pipe can not be had back.
        let repeatable = attempt < MOST_ATTEMPTS && self.config.survive_exit && !matches!(input, Input::Stream(_));
        if let Input::Bytes(bytes) = &input {
            request.input = Input::Bytes(Arc::clone(bytes));
        }
        let streams = match shell.driver.run(text, stdin) {
            Ok(streams) => streams,
            Err(error) => {
                shell.driver.release();
                shell.phase = Phase::Ready;
                return Err(engine_error(&format!("the command can not be started: {error}")));
            }
        };
        let feeder = streams.stdin.map(|end| stdin::feed(end, input));
        let mut capture = Capture::new(streams.stdout, streams.stderr, request.max_buffer, request.live.clone());
        if attempt == 1 {
            request.sink.started(shell.pid.raw());
        }
        let mut run = Run {
            id: request.id,
            begun,
            killing: None,
            spare,
            skip_ready: false,
            withdrawn: false,
            suspicions: Suspicions::new(text.len()),
            report_lost: false,
            repeatable,
        };
        let running = Running::begin();
        if let Some(shell) = &mut self.shell {
            spinning::look(shell, self.quick && request.live.is_none());
        }
        let end = self.watch(&mut run, request, &mut capture).await;
        drop(running);
        if let Some(shell) = self.shell.as_mut().filter(|_| !effects::keeps_state(text)) {
            shell.outdated = true;
        }
        self.quick = spinning::is_quick(begun.elapsed());
        if let Some(feeder) = feeder {
            feeder.abort();
        }
        let mut outcome = Outcome { started_at: Some(started_at), restarted, ..Outcome::default() };
        self.collect(&end, &run, request, capture, &mut outcome);
        if let Some(cwd) = cwd_after {
            outcome.cwd = cwd;
        }
        outcome.duration = begun.elapsed();
        self.conclude(end, outcome)
    }
}

pub(super) fn engine_error(message: &str) -> Error {
    Error::new(Code::EngineError, message)
}
