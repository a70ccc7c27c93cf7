//! Sends commands and variables to the shell, and ends commands early.

use super::command::{Running, env_of, null_streams};
use super::context::{Call, Session};
use super::lane::{self, Loan, Sent};
use super::timers::Timer;
use crate::error::{Code, Error};
use crate::proxy::Denials;
use crate::shell::event::Event;
use crate::shell::state::{Cause, Ticket};
use nacre_containment::pid::Pid;
use nacre_containment::proc_table::{self, Stat};
use nacre_protocol::shell::{Request, RequestFlags, RequestKind};
use nacre_protocol::supervisor::Order;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Time before a command's pipes are watched. Most commands end within it, and their output waits in the pipe.
pub(super) const QUICK: Duration = Duration::from_millis(1);

/// Extra time for the shell after the grace time. Its children are killed only at the end of the grace time, and on a
/// busy machine the shell must wait for a processor.
pub(super) const SHELL_EXTRA: Duration = Duration::from_millis(200);

/// A shell that has not read its request after this time may have been stopped (SIGSTOP).
pub(super) const UNREAD: Duration = Duration::from_millis(100);

impl Session {
    /// The connections that the session's proxy refused.
    pub(super) fn denials(&self) -> Option<Denials> {
        self.config.proxied.as_ref().map(|proxied| proxied.denials.clone())
    }

    pub(super) fn run_command(&mut self, ticket: Ticket) {
        if !self.config.uses_builtin {
            return self.plain_run(ticket);
        }
        let Some(Call::Exec(request)) = self.calls.remove(&ticket) else { return };
        self.timers.clear(Timer::Idle);
        let sent = match (self.sent.take(), &self.link.shell) {
            (Some(sent), _) => Ok(sent),
            (None, Some(shell)) => {
                let (shell, id) = (Arc::clone(shell), self.wait.next_command());
                lane::send(Loan { shell, id, pipes: self.spare_pipes.take(), denials: self.denials() }, &request)
            }
            (None, None) => {
                // The shell is dead, and the supervisor has not reported it yet.
                self.link.unread = true;
                Sent::to_a_dead_shell(&request.input)
            }
        };
        let Sent { begun, output, stdin } = match sent {
            Ok(sent) => sent,
            Err(error) => {
                self.forget_request(request.id);
                let message = format!("the command cannot be started: {error}");
                request.sink.finished(Err(Error::new(Code::EngineError, message)));
                return self.events.push_back(Event::Refused);
            }
        };
        let can_be_refused =
            !request.env.is_empty() || request.cwd.as_ref().is_some_and(|cwd| !cwd.as_os_str().is_empty());
        let command = Running::new(ticket, request, begun, output, stdin);
        if let Some(timeout) = command.request.timeout {
            self.timers.set(Timer::Timeout(ticket), command.begun + timeout);
        }
        self.timers.set(Timer::Unread, command.begun + UNREAD);
        let is_live = command.request.live.is_some();
        self.command = Some(command);
        if !can_be_refused {
            self.announce();
        }
        if is_live {
            self.register_pipes();
        } else {
            self.timers.set(Timer::Register, begun + QUICK);
            self.answer_is_near = true;
        }
    }

    /// Announces that the command has begun, or certainly will.
    pub(super) fn announce(&mut self) {
        let Some(command) = &mut self.command else { return };
        if std::mem::replace(&mut self.wait.announced, command.ticket) != command.ticket {
            command.request.sink.started(self.link.shell_pid.map_or(0, Pid::raw));
        }
    }

    pub(super) fn register_pipes(&mut self) {
        let Some(command) = &mut self.command else { return };
        if let Err(error) = command.register() {
            // No epoll watch is available. The command's output cannot be read, so the command cannot continue.
            let text = format!("nacre: the output cannot be read: {error}\n");
            command.capture.push(1, text.as_bytes(), command.request.sink.as_mut());
            self.events.push_back(Event::Cancel(command.ticket, None));
        }
    }

    pub(super) fn send_env(&mut self, ticket: Ticket) {
        if !self.config.uses_builtin {
            return self.plain_set_env(ticket);
        }
        let Some(Call::SetEnv { vars, .. }) = self.calls.get(&ticket) else { return };
        let env = env_of(vars);
        let id = self.wait.next_command();
        let sent = null_streams().and_then(|streams| {
            let request = Request { env: &env, flags: RequestFlags::KEEP_SCOPE, ..Request::new(RequestKind::Run, id) };
            self.link.shell.as_ref().map_or(Ok(()), |shell| shell.send(&request, streams))
        });
        if let Err(error) = sent {
            if let Some(Call::SetEnv { reply, .. }) = self.calls.remove(&ticket) {
                let message = format!("the variables cannot be set: {error}");
                let _ = reply.send(Err(Error::new(Code::EngineError, message)));
            }
            self.events.push_back(Event::Refused);
        }
    }

    /// Checks whether the shell has read its request. A stopped shell is resumed.
    pub(super) fn check_unread(&mut self) {
        let has_unread = self.link.shell.as_ref().is_some_and(|shell| shell.unread_bytes() > 0);
        // The shell may have been stopped while it received the request; no command calls recvmsg.
        let is_stopped = || {
            let pid = self.link.shell_pid.filter(|pid| Stat::read(*pid).is_some_and(|stat| stat.state == b'T'));
            pid.is_some_and(|pid| proc_table::system_call(pid) == Some(libc::SYS_recvmsg))
        };
        if self.state.running().is_none_or(|run| run.end.is_some()) || !(has_unread || is_stopped()) {
            return;
        }
        self.order(&Order::Continue);
        self.timers.set(Timer::Unread, Instant::now() + UNREAD);
    }

    pub(super) fn kill(&mut self, cause: Cause, signal: Option<i32>) {
        let Some(command) = &mut self.command else { return };
        tracing::debug!(log = self.config.log.id(), session = %self.config.id, ?cause, "killing a command");
        command.capture.hurry();
        let signal = signal.unwrap_or(command.request.kill.signal);
        let grace = if signal == libc::SIGKILL { Duration::ZERO } else { command.request.kill.grace };
        self.timers.set(Timer::Overdue(command.ticket), Instant::now() + grace + SHELL_EXTRA);
        self.wait.ladder = self.wait.next_id();
        self.wait.kill_signal = signal;
        let order = Order::KillForeground {
            id: self.wait.ladder,
            command: self.wait.command,
            signal,
            grace_ms: grace.as_millis() as u64,
            spare: self.wait.spare.clone(),
        };
        self.ask(&order);
    }

    /// Ends the grace time early.
    pub(super) fn insist(&mut self) {
        self.order(&Order::Insist);
        if let Some(ticket) = self.state.running().map(|run| run.ticket) {
            self.timers.set(Timer::Overdue(ticket), Instant::now() + SHELL_EXTRA);
        }
    }
}
