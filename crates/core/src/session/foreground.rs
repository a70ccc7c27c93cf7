//! One foreground command from its start to its result.

use super::actor::{MOST_INTERNAL_TEXTS, Session, ShellLost, terminated};
use super::killing::{Cause, Killing};
use super::scope::{self, Scope};
use super::shell::{Happening, Phase};
use super::spinning::{self, Running};
use super::stdin;
use crate::driver::script::quote;
use crate::driver::{Event, Stdin, Suspicion};
use crate::error::{Code, Error};
use crate::exec::{Command, ExecRequest, Input, Outcome};
use crate::log::Level;
use crate::output::capture::{self, Capture};
use nacre_containment::pid::Pid;
use nacre_containment::wire::{Order, Report};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};
use tokio::time::{Instant, sleep_until};

/// Until then a command's pipes are not watched: most have ended, and what they printed waits in the pipe.
const QUICK: Duration = Duration::from_millis(1);
/// How often to look whether the shell is done although it owes a report: often at first, rarely later.
fn report_check(running: Duration) -> Duration {
    (running / 8).clamp(Duration::from_millis(20), Duration::from_millis(500))
}

/// So many times the shell has to be seen in its loop.
const BELIEVED: u32 = 2;

/// How a command came to its end.
enum End {
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
    /// The session is being closed.
    Closed,
}

/// What a run needs to know besides the request.
struct Run {
    id: u64,
    begun: Instant,
    killing: Option<Killing>,
    spare: Vec<Pid>,
    /// A ready report that is not the command's is still to come.
    skip_ready: bool,
    /// It looked once as if the report had been lost.
    suspicion: Option<Suspicion>,
    /// How often it was seen in its loop, with processor time used in between.
    runs_seen: u32,
    report_lost: bool,
}

impl Session {
    /// Runs the command and tells its sink the end.
    pub(super) async fn exec(&mut self, mut request: ExecRequest) {
        let text = text_of(&request.command);
        let scope = match self.prepare(&request, &text).await {
            Ok(scope) => scope,
            Err(error) => return request.sink.finished(Err(error)),
        };
        if self.canceled_meanwhile(request.id) {
            let cwd = self.shell.as_ref().map(|shell| shell.cwd.clone()).unwrap_or_default();
            request.sink.finished(Ok(Outcome { canceled: true, cwd, ..Outcome::default() }));
        } else if self.closing.is_some() {
            request.sink.finished(Err(Error::session_destroyed(&self.config.id)));
        } else {
            let cwd_after = scope.as_ref().and(request.cwd.as_ref()).and(self.cwd_before.take());
            let result = self.run_command(&mut request, text, cwd_after).await;
            request.sink.finished(result);
        }
        if let Some(scope) = scope
            && self.closing.is_none()
            && self.ready().await.is_ok()
        {
            let _ = self.internal(scope.restore()).await;
        }
        if let Some(shell) = self.shell.as_mut().filter(|_| self.closing.is_none()) {
            shell.get_ready().await;
        }
    }

    /// Everything that has to be in place before the command's text is sent.
    async fn prepare(&mut self, request: &ExecRequest, text: &[u8]) -> Result<Option<Scope>, Error> {
        self.ready().await?;
        if self.shell.as_ref().is_some_and(|shell| shell.stale && shell.driver.may_vanish(text)) {
            self.snapshot().await;
            self.ready().await?;
        }
        let scope = self.enter_scope(request).await?;
        for _ in 0..MOST_INTERNAL_TEXTS {
            let Some(preparation) = self.shell.as_mut().and_then(|shell| shell.driver.preparation(text)) else { break };
            if self.internal(&preparation).await.is_err() {
                self.ready().await?;
            }
        }
        Ok(scope)
    }

    async fn enter_scope(&mut self, request: &ExecRequest) -> Result<Option<Scope>, Error> {
        if request.cwd.is_none() && request.env.is_empty() {
            return Ok(None);
        }
        let names: Vec<&str> = request.env.iter().map(|(name, _)| name.as_str()).collect();
        let question =
            self.shell.as_ref().map(|shell| shell.driver.storing(&scope::question(&names))).unwrap_or_default();
        let lost = |ShellLost| Error::new(Code::EngineError, "the shell died before the command could start");
        self.internal(&question).await.map_err(lost)?;
        let shell = self.shell.as_mut().ok_or_else(|| lost(ShellLost))?;
        let answer = shell.driver.stored().map_err(|error| Error::new(Code::EngineError, error.to_string()))?;
        let scope = Scope::new(&names, request.cwd.is_some(), &answer);
        if let Some(error) = scope.read_only() {
            return Err(error);
        }
        self.cwd_before = Some(shell.cwd.clone());
        if let Some(cwd) = &request.cwd {
            let directory = shell.cwd.join(cwd);
            if !self.checked(&scope::enter(&directory)).await.map_err(lost)? {
                return Err(scope::cwd_error(&directory));
            }
        }
        if !request.env.is_empty() {
            let assignments: Vec<u8> =
                request.env.iter().flat_map(|(name, value)| scope::assignment(name, value.as_deref())).collect();
            self.internal(&assignments).await.map_err(lost)?;
        }
        Ok(Some(scope))
    }

    /// Files what has arrived during the preparation; true when it ends this very request.
    fn canceled_meanwhile(&mut self, id: u64) -> bool {
        let mut canceled = false;
        while let Ok(message) = self.mailbox.try_recv() {
            canceled |= self.take(message, Some(id)).is_some();
        }
        canceled
    }

    async fn run_command(
        &mut self,
        request: &mut ExecRequest,
        text: Vec<u8>,
        cwd_after: Option<PathBuf>,
    ) -> Result<Outcome, Error> {
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
        let streams = match shell.driver.run(&text, stdin) {
            Ok(streams) => streams,
            Err(error) => {
                shell.driver.release();
                shell.phase = Phase::Ready;
                return Err(engine_error(&format!("the command can not be started: {error}")));
            }
        };
        let feeder = streams.stdin.map(|end| stdin::feed(end, input));
        let mut capture = Capture::new(streams.stdout, streams.stderr, request.max_buffer, request.live.clone());
        request.sink.started(shell.pid.raw());
        let mut run = Run {
            id: request.id,
            begun,
            killing: None,
            spare,
            skip_ready: false,
            suspicion: None,
            runs_seen: 0,
            report_lost: false,
        };
        let running = Running::begin();
        if let Some(shell) = &self.shell {
            spinning::look(shell.driver.as_ref(), self.quick && request.live.is_none());
        }
        let end = self.watch(&mut run, request, &mut capture).await;
        drop(running);
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

    /// Waits for the end of the command, and ends it when its time is up or the caller wants it.
    async fn watch(&mut self, run: &mut Run, request: &mut ExecRequest, capture: &mut Capture) -> End {
        let timeout_at = request.timeout.map(|timeout| run.begun + timeout);
        let mut register_at = Some(if request.live.is_some() { run.begun } else { run.begun + QUICK });
        let mut check_at = run.begun + report_check(Duration::ZERO);
        let mut end: Option<End> = None;
        loop {
            if let Some(end) = end.take_if(|end| self.is_over(run, end)) {
                return end;
            }
            let Some(shell) = self.shell.as_mut() else { return End::SupervisorGone };
            let timeout_due = timeout_at.filter(|_| run.killing.is_none());
            let kill_due = run.killing.as_ref().and_then(Killing::deadline);
            let wake_at =
                [register_at, timeout_due, kill_due, Some(check_at)].into_iter().flatten().min().unwrap_or(check_at);
            tokio::select! {
                biased;
                happening = shell.next() => {
                    match (self.interpret(run, happening), &end) {
                        // The user's EXIT trap has changed the status.
                        (Some(new @ End::Exited { .. }), None | Some(End::Exited { .. })) => end = Some(new),
                        (Some(new), None) => end = Some(new),
                        _ => {}
                    }
                }
                message = self.mailbox.recv() => {
                    let Some(message) = message else { return End::Closed };
                    if let Some(signal) = self.take(message, Some(run.id)) {
                        self.start_killing(run, request, Cause::Interrupt, signal);
                    }
                    if self.closing.is_some() {
                        return End::Closed;
                    }
                }
                () = capture.step(request.sink.as_mut()), if register_at.is_none() => {}
                () = sleep_until(wake_at) => {
                    let now = Instant::now();
                    if register_at.is_some_and(|at| at <= now) {
                        register_at = None;
                        if let Err(error) = capture.register() {
                            // No epoll watch can be had. The command can not be read from, so it can not go on.
                            capture.push(1, format!("nacre: the output can not be read: {error}\n").as_bytes(), request.sink.as_mut());
                            self.start_killing(run, request, Cause::Interrupt, None);
                        }
                    }
                    if timeout_due.is_some_and(|at| at <= now) {
                        self.start_killing(run, request, Cause::Timeout, None);
                    }
                    if run.killing.as_mut().is_some_and(Killing::must_kill_shell) {
                        self.kill_shell();
                    }
                    if check_at <= now {
                        check_at = now + report_check(run.begun.elapsed());
                        self.check_report(run);
                    }
                }
            }
        }
    }

    /// Whether the end can be believed and nothing is awaited any more.
    fn is_over(&self, run: &Run, end: &End) -> bool {
        let Some(shell) = self.shell.as_ref() else { return true };
        // The user's EXIT trap still has something to say, until the shell is ready again or dead.
        let last_words = matches!(end, End::Exited { .. })
            && shell.phase == Phase::Ending
            && shell.driver.has_last_words()
            && !shell.saved;
        let killing = run.killing.as_ref().is_some_and(|killing| !killing.is_complete());
        matches!(end, End::SupervisorGone) || !(last_words || killing)
    }

    /// What a happening means for the running command.
    fn interpret(&mut self, run: &mut Run, happening: Happening) -> Option<End> {
        let shell = self.shell.as_mut()?;
        let killing = run.killing.as_mut();
        match happening {
            Happening::Shell(Event::Ready { .. }) if std::mem::take(&mut run.skip_ready) => None,
            Happening::Shell(Event::Ready { status, cwd }) => {
                if let Some(killing) = killing {
                    killing.command_ended();
                    shell.supervisor.order(&Order::Settled);
                }
                Some(End::Finished { status, cwd })
            }
            // An EXIT trap that began before the command's token was taken: the command has not begun.
            Happening::Shell(Event::Ending { .. }) if shell.driver.token_unread() => {
                run.skip_ready = true;
                None
            }
            Happening::Shell(Event::Ending { status, cwd }) => {
                if let Some(killing) = killing {
                    killing.shell_ended();
                    if !shell.driver.has_last_words() {
                        shell.supervisor.order(&Order::Settled);
                    }
                }
                Some(End::Exited { status, cwd })
            }
            Happening::Shell(Event::Saved) => {
                if killing.is_some() {
                    shell.supervisor.order(&Order::Settled);
                }
                None
            }
            Happening::Supervisor(Report::ShellEnded { code, signal, .. }) => {
                if let Some(killing) = killing {
                    killing.shell_ended();
                    shell.supervisor.order(&Order::Settled);
                }
                Some(if run.report_lost { End::ReportLost } else { End::Died { code, signal } })
            }
            Happening::Supervisor(Report::Killed { id, escalated }) => {
                if let Some(killing) = killing {
                    killing.tree_gone(id, escalated);
                }
                if escalated {
                    let session = &self.config.id;
                    self.config.log.write(Level::Debug, || {
                        format!("a command of session '{session}' had to be killed by SIGKILL")
                    });
                }
                None
            }
            Happening::SupervisorGone => Some(End::SupervisorGone),
            _ => None,
        }
    }

    fn start_killing(&mut self, run: &mut Run, request: &ExecRequest, cause: Cause, signal: Option<i32>) {
        if run.killing.is_some() {
            return;
        }
        let Some(shell) = self.shell.as_mut() else { return };
        self.ladders += 1;
        let signal = signal.unwrap_or(request.kill.signal);
        let grace = if signal == libc::SIGKILL { Duration::ZERO } else { request.kill.grace };
        let mut killing = Killing::start(self.ladders, cause, signal, grace);
        // A successor that an ending shell forks could not be told from the command's own processes.
        shell.driver.plain_exit();
        let last_words = shell.driver.has_last_words();
        shell.supervisor.order(&Order::KillForeground {
            id: self.ladders,
            signal,
            grace_ms: grace.as_millis() as u64,
            spare: std::mem::take(&mut run.spare),
            last_words,
        });
        if matches!(shell.phase, Phase::Ending | Phase::Dead) {
            killing.shell_ended();
            if shell.phase == Phase::Dead || shell.saved || !last_words {
                shell.supervisor.order(&Order::Settled);
            }
        }
        run.killing = Some(killing);
    }

    fn kill_shell(&mut self) {
        if let Some(shell) = &self.shell {
            shell.supervisor.order(&Order::KillShell);
        }
    }

    /// `set -n`, a function called `builtin` and the like: the shell waits for a command and will never report this one.
    fn check_report(&mut self, run: &mut Run) {
        let Some(shell) = &self.shell else { return };
        if shell.phase != Phase::Busy || run.report_lost {
            return;
        }
        let now = shell.driver.suspicion(shell.pid);
        run.report_lost = match (run.suspicion, now) {
            (Some(Suspicion::Waits), Some(Suspicion::Waits)) => true,
            (Some(Suspicion::Runs { cpu_ticks: before }), Some(Suspicion::Runs { cpu_ticks }))
                if cpu_ticks > before =>
            {
                run.runs_seen += 1;
                run.runs_seen == BELIEVED
            }
            _ => false,
        };
        if run.report_lost {
            shell.supervisor.order(&Order::KillShell);
        }
        run.suspicion = now.or(run.suspicion);
    }

    /// Takes what is in the pipes at this moment, and leaves to a task of its own what background processes still print.
    fn collect(
        &mut self,
        end: &End,
        run: &Run,
        request: &mut ExecRequest,
        mut capture: Capture,
        outcome: &mut Outcome,
    ) {
        let sink = request.sink.as_mut();
        if let Some(shell) = self.shell.as_mut() {
            shell.driver.release();
            capture.drain(sink);
            if matches!(end, End::Exited { .. } | End::Died { .. }) {
                let base = shell.take_base_output();
                if !shell.driver.is_traced() {
                    base.iter().enumerate().for_each(|(stream, bytes)| capture.push(stream, bytes, sink));
                }
            }
            outcome.cwd.clone_from(&shell.cwd);
        }
        capture.finish(outcome).into_iter().for_each(capture::drain_late);
        (outcome.exit_code, outcome.signal) = match end {
            End::Finished { status, cwd } | End::Exited { status, cwd } => {
                outcome.cwd.clone_from(cwd);
                (Some(*status), None)
            }
            End::Died { code, signal } => (code.or(signal.map(|signal| 128 + signal)), *signal),
            End::ReportLost | End::SupervisorGone | End::Closed => (None, None),
        };
        if let Some(killing) = &run.killing {
            outcome.timed_out = killing.cause == Cause::Timeout;
            outcome.canceled = killing.cause == Cause::Interrupt;
            if !matches!(end, End::Finished { .. }) {
                (outcome.exit_code, outcome.signal) = (None, Some(killing.final_signal()));
            }
        }
    }

    fn conclude(&mut self, end: End, mut outcome: Outcome) -> Result<Outcome, Error> {
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
                Ok(outcome)
            }
            End::SupervisorGone => {
                let message = format!("the supervisor of session '{}' died; its processes were killed", self.config.id);
                Err(Error { outcome: Some(Box::new(outcome)), ..Error::new(Code::EngineError, message) })
            }
            End::Closed => Err(Error { outcome: Some(Box::new(outcome)), ..Error::session_destroyed(&self.config.id) }),
            End::Finished { .. } | End::Exited { .. } => Ok(outcome),
        }
    }
}

/// The shell text of a command. An argument vector becomes quoted words: a program or a builtin, never a function or an
/// alias, and nothing in it is expanded.
fn text_of(command: &Command) -> Vec<u8> {
    match command {
        Command::Text(text) => text.clone(),
        Command::Argv(words) => {
            let mut text = b"\\builtin command --".to_vec();
            for word in words {
                text.push(b' ');
                text.extend_from_slice(&quote(word));
            }
            text
        }
    }
}

fn engine_error(message: &str) -> Error {
    Error::new(Code::EngineError, message)
}
