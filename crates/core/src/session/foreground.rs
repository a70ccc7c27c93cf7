//! One foreground command from its start to its result.

use super::actor::Session;
use super::effects;
use super::killing::{Cause, Killing};
use super::outcome::End;
use super::preparing::text_of;
use super::recovery::MOST_ATTEMPTS;
use super::scope::Scope;
use super::shell::{Happening, Phase};
use super::spinning::{self, Running};
use super::stdin;
use crate::driver::{Event, Stdin, Suspicion};
use crate::error::{Code, Error};
use crate::exec::{ExecRequest, Input, Outcome};
use crate::log::Level;
use crate::output::capture::Capture;
use nacre_containment::pid::Pid;
use nacre_containment::wire::{Order, Report};
use std::path::PathBuf;
use std::sync::Arc;
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

/// What a run needs to know besides the request.
pub(super) struct Run {
    id: u64,
    begun: Instant,
    pub(super) killing: Option<Killing>,
    spare: Vec<Pid>,
    /// A ready report that is not the command's is still to come.
    skip_ready: bool,
    /// The command was to be killed before it had begun, and never will.
    withdrawn: bool,
    /// It looked once as if the report had been lost.
    suspicion: Option<Suspicion>,
    /// How often it was seen in its loop, with processor time used in between.
    runs_seen: u32,
    report_lost: bool,
    /// If the command turns out not to have begun, it is run again.
    repeatable: bool,
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
                Ok(None) => self.leave_scope(scope).await,
                Ok(Some(outcome)) => break (scope, Ok(outcome)),
                Err(error) => break (scope, Err(error)),
            }
        };
        request.sink.finished(result);
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
            suspicion: None,
            runs_seen: 0,
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
                        capture.hurry();
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
                        capture.hurry();
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
            Happening::Shell(Event::Ready { status, cwd }) if std::mem::take(&mut run.skip_ready) => {
                run.withdrawn.then_some(End::Exited { status, cwd })
            }
            Happening::Shell(Event::Ready { status, cwd }) => {
                if let Some(killing) = killing {
                    killing.command_ended();
                    shell.supervisor.order(&Order::Settled);
                }
                Some(End::Finished { status, cwd })
            }
            // An EXIT trap that began before the command's token was taken: the command has not begun. It does when the
            // shell is back; unless it is to be killed, and it was the interrupt that came before the token: then it must
            // not begin any more, since there will be nobody to kill it.
            Happening::Shell(Event::Ending { .. })
                if shell.driver.token_unread() && !(killing.is_some() && shell.driver.take_back()) =>
            {
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
            Happening::Supervisor(Report::ShellEnded { .. }) | Happening::SupervisorGone
                if run.repeatable && killing.is_none() && shell.driver.take_back() =>
            {
                Some(End::NotBegun)
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
        let Some(shell) = self.shell.as_mut() else { return };
        if let Some(killing) = &mut run.killing {
            if signal == Some(libc::SIGKILL) {
                killing.insist();
                shell.supervisor.order(&Order::Insist);
            }
            return;
        }
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
        run.withdrawn = run.skip_ready && shell.driver.take_back();
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
}

pub(super) fn engine_error(message: &str) -> Error {
    Error::new(Code::EngineError, message)
}
