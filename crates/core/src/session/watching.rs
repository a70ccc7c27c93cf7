//! Waiting for the end of a foreground command, and what each happening meanwhile means for it.

use super::actor::Session;
use super::foreground::Run;
use super::killing::{Cause, Killing};
use super::listening::Happening;
use super::outcome::End;
use super::shell::Phase;
use crate::driver::Event;
use crate::exec::ExecRequest;
use crate::log::Level;
use crate::output::capture::Capture;
use nacre_containment::wire::{Order, Report};
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// Until then a command's pipes are not watched: most have ended, and what they printed waits in the pipe.
const QUICK: Duration = Duration::from_millis(1);
/// How often to look whether the shell is done although it owes a report: often at first, rarely later.
fn report_check(running: Duration) -> Duration {
    (running / 8).clamp(Duration::from_millis(20), Duration::from_millis(500))
}

impl Session {
    /// Waits for the end of the command, and ends it when its time is up or the caller wants it.
    pub(super) async fn watch(&mut self, run: &mut Run, request: &mut ExecRequest, capture: &mut Capture) -> End {
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
}
