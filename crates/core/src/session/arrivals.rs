//! Turns messages of the shell, the standby and the supervisor into events of the state machine.

use super::busy_poll;
use super::command::Running;
use super::context::{Arrival, Call, Session};
use crate::shell::channel::{Channel, Received};
use crate::shell::event::Event;
use crate::shell::listener::{self, Reconnected};
use crate::shell::state::{Shell, Work};
use nacre_containment::pid::Pid;
use nacre_protocol::shell::{Done, DoneFlags, Reply};
use nacre_protocol::supervisor::{Order, Report};
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How soon the supervisor reports the death of a shell. A later report means that the supervisor was stopped.
const SHELL_DEATH: Duration = Duration::from_millis(100);

impl Session {
    pub(super) fn arrived(&mut self, arrival: Arrival) {
        match arrival {
            Arrival::Shell(received) => self.handle_shell_report(received),
            Arrival::Standby(received) => self.handle_standby_report(received),
            Arrival::Supervisor(Some((report, descriptor))) => self.handle_supervisor_report(report, descriptor),
            Arrival::Supervisor(None) => {
                self.drain_shell();
                if let Some(complaint) = self.link.supervisor.take().and_then(|gone| gone.complaint()) {
                    self.supervisor_complained(&complaint);
                }
                let (unread, orderly) = (self.takes_unread(), std::mem::take(&mut self.link.ended));
                self.events.push_back(Event::SupervisorGone { unread, orderly });
            }
        }
    }

    /// Handles the shell's reports so far. Called before its death is handled, because its last reports precede it.
    pub(super) fn drain_shell(&mut self) {
        while let Some(received) = self.link.shell.as_deref().and_then(Channel::poll) {
            self.handle_shell_report(received);
        }
    }

    pub(super) fn handle_shell_report(&mut self, received: Received) {
        match received {
            Received::Closed { unread } => {
                // Either the shell is dead, or a command closed its end. A report of the supervisor or a new connection
                // will show which. A command that a caller sent after this end of file was lost.
                let has_lost = self.link.shell.take().is_some_and(|shell| shell.has_lost());
                self.link.unread = unread || has_lost;
                self.await_report(SHELL_DEATH);
            }
            // The supervisor's report with the pid and the group may arrive later. Both are needed.
            Received::Reply(Reply::Hello { .. }) if self.link.shell_pid.is_none() => self.link.said_hello = true,
            Received::Reply(Reply::Hello { .. }) => self.events.push_back(Event::Hello),
            Received::Reply(
                Reply::Done(Done { id, .. })
                | Reply::Refused { id, .. }
                | Reply::Begun { id, .. }
                | Reply::Ending { id },
            ) if id != self.wait.command && self.wait.setting_up == 0 => {
                tracing::warn!(log = self.config.log.id(), session = %self.config.id, "a forged report was ignored");
            }
            Received::Reply(Reply::Done(done)) => self.command_done(done),
            Received::Reply(Reply::Refused { reason, about, .. }) => {
                self.wait.refused = Some((reason, about));
                self.events.push_back(Event::Refused);
            }
            Received::Reply(Reply::Promoted { .. }) => self.events.push_back(Event::Promoted),
            Received::Reply(Reply::Ending { .. }) => self.events.push_back(Event::TrapRuns),
            Received::Reply(Reply::Forked { id, result, flags }) => self.forked(id, result, flags),
            Received::Reply(Reply::Begun { .. }) => self.announce(),
        }
    }

    pub(super) fn command_done(&mut self, done: Done) {
        if self.wait.setting_up > 0 {
            self.wait.setting_up -= 1;
            if self.wait.setting_up == 0 {
                self.events.push_back(Event::SetUp);
            }
            return;
        }
        if let Some(command) = &mut self.command {
            command.forked = done.forks > 0;
        }
        let event = Event::Done {
            status: done.status,
            exited: done.flags.contains(DoneFlags::EXITED),
            state_kept: done.flags.contains(DoneFlags::STATE_KEPT),
            forked: done.forks > 0,
        };
        if done.flags.contains(DoneFlags::FRAMES_DISCARDED) {
            tracing::debug!(log = self.config.log.id(), session = %self.config.id, "bash has discarded frames without unwinding them");
        }
        if !done.cwd.is_empty() {
            self.cwd = PathBuf::from(OsString::from_vec(done.cwd));
        }
        self.events.push_back(event);
    }

    pub(super) fn handle_standby_report(&mut self, received: Received) {
        match received {
            Received::Closed { .. } => self.lose_standby(),
            Received::Reply(Reply::Forked { id, result, flags }) => self.forked(id, result, flags),
            Received::Reply(_) => {}
        }
    }

    pub(super) fn lose_standby(&mut self) {
        if let Some((_, pid)) = self.link.standby.take() {
            if self.state.shell != Shell::Closing {
                tracing::warn!(log = self.config.log.id(), session = %self.config.id, %pid, "the standby died");
            }
            listener::forget(pid);
            self.events.push_back(Event::StandbyDied);
        }
        self.submit_again(false);
    }

    pub(super) fn handle_supervisor_report(&mut self, report: Report, descriptor: Option<OwnedFd>) {
        self.wait.answered();
        match report {
            Report::Confined { init } => self.confined(init, descriptor),
            Report::Reconnected { pid } => {
                if let Some(socket) = descriptor {
                    self.reconnected(Reconnected { pid, socket });
                }
            }
            Report::NotConfined { problem } => self.link.not_confined = Some(problem),
            Report::Started { identity, key: None, group } => {
                self.link.shell_pid = Some(identity.pid);
                self.link.foreground = group.map(PathBuf::from);
                if !self.config.uses_builtin {
                    return self.plain_started();
                }
                listener::expect(identity.pid, self.reconnects.clone());
                if std::mem::take(&mut self.link.said_hello) {
                    self.events.push_back(Event::Hello);
                }
            }
            Report::StartFailed { key: None, step, errno, detail } => self.plain_not_started(step, errno, &detail),
            Report::Started { key: Some(key), identity, group } => self.plain_process_started(key, identity, group),
            Report::StartFailed { key: Some(key), step, errno, detail } => {
                self.plain_process_failed(key, step, errno, &detail);
            }
            Report::ShellEnded { pid, code, signal } if self.link.shell_pid == Some(pid) => {
                self.drain_shell();
                self.shell_ended(pid, code, signal);
            }
            Report::ShellEnded { .. } => {}
            Report::Ended => self.link.ended = true,
            Report::StandbyEnded { pid } => {
                if self.link.standby.as_ref().is_some_and(|(_, standby)| *standby == pid) {
                    self.lose_standby();
                }
            }
            Report::Promoted { shell: Some(_), group } => self.link.foreground = group.map(PathBuf::from),
            Report::Promoted { shell: None, .. } => {
                self.link.shell = None;
                self.events.push_back(Event::ShellDied { unread: false });
            }
            Report::Rotated { group } => {
                self.link.foreground = group.map(PathBuf::from);
                self.events.push_back(Event::Isolated);
            }
            Report::Killed { id, escalated } if id == self.wait.ladder => {
                if escalated {
                    tracing::warn!(log = self.config.log.id(), session = %self.config.id, "a command needed SIGKILL");
                }
                self.events.push_back(Event::TreeGone { escalated });
            }
            Report::Killed { .. } => {}
            Report::Adopted { .. } | Report::ProcessEnded { .. } | Report::ProcessKilled { .. } => {
                self.process_report(report);
            }
        }
    }

    pub(super) fn shell_ended(&mut self, pid: Pid, code: Option<i32>, signal: Option<i32>) {
        listener::forget(pid);
        tracing::debug!(log = self.config.log.id(), session = %self.config.id, %pid, ?code, ?signal, "the shell ended");
        self.link.shell_pid = None;
        self.wait.setting_up = 0;
        self.drop_unforked_standby();
        self.submit_again(true);
        if !self.config.uses_builtin {
            return self.plain_ended(code, signal);
        }
        if self.state.shell == Shell::Starting && signal != Some(libc::SIGKILL) {
            self.link.shell = None;
            return self.ask_version();
        }
        if let Some(command) = &mut self.command {
            command.died = Some((code, signal));
        }
        let unread = self.takes_unread();
        self.events.push_back(Event::ShellDied { unread });
    }

    /// Resubmits the starts that the dead shell or standby has not forked.
    pub(super) fn submit_again(&mut self, was_shell: bool) {
        for request in self.processes.source_died(was_shell) {
            self.submit(Call::Start(Box::new(request)), Work::Start);
        }
    }

    /// True if the dead shell had not read its command, so that the next shell can run it.
    ///
    /// The race: a fork that the shell has just made holds the channel open until it first runs. There is no end of
    /// file yet, so the kernel is asked how many bytes are unread.
    pub(super) fn takes_unread(&mut self) -> bool {
        let unread = self.link.shell.take().is_some_and(|shell| shell.unread_bytes() > 0);
        let unread = std::mem::take(&mut self.link.unread) || unread;
        let unread = unread || !self.config.uses_builtin && self.plain_unread();
        unread && self.command.as_ref().is_none_or(Running::is_repeatable)
    }

    pub(super) fn reconnected(&mut self, Reconnected { pid, socket }: Reconnected) {
        if self.link.shell_pid != Some(pid) {
            return;
        }
        self.drain_shell();
        // A fork of the shell that has not run yet may still hold the old channel open, which then has no end of file.
        self.link.unread |= self.link.shell.take().is_some_and(|shell| shell.unread_bytes() > 0 || shell.has_lost());
        if self.link.unread {
            // A trap closed the channel between commands, with a request that the shell had not read. The standby has
            // the state and gets the request.
            tracing::warn!(log = self.config.log.id(), session = %self.config.id, %pid, "the shell lost a request and is replaced");
            return self.order(&Order::KillShell);
        }
        tracing::debug!(log = self.config.log.id(), session = %self.config.id, %pid, "reconnected");
        if let Ok(channel) = Channel::reconnected(socket) {
            self.wait.answered();
            self.link.shell = Some(Arc::new(channel));
        }
    }

    /// After a quick command, busy-polls for the reply to the next one.
    pub(super) fn look_for_answer(&mut self) -> bool {
        let is_near = std::mem::take(&mut self.answer_is_near) && self.quick;
        let Some(shell) = self.link.shell.as_ref().filter(|_| is_near) else { return false };
        busy_poll::look(shell).map(|received| self.handle_shell_report(received)).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Config;
    use crate::session::lane::Lane;
    use nacre_protocol::shell::{Request, RequestKind};
    use tokio::sync::mpsc;

    fn session() -> Session {
        let config = Config {
            id: "test".into(),
            cwd: "/".into(),
            env: Vec::new(),
            shell: "/bin/bash".into(),
            supervisor: "/bin/false".into(),
            survive_exit: true,
            uses_builtin: true,
            group: None,
            limits: Default::default(),
            user: None,
            confinement: None,
            proxied: None,
            log: Default::default(),
        };
        Session::new(config, Lane::default(), mpsc::unbounded_channel().0, mpsc::unbounded_channel().0)
    }

    #[tokio::test]
    async fn a_command_sent_after_the_end_of_file_was_read_counts_as_unread() {
        let mut session = session();
        let (channel, theirs) = Channel::pair().unwrap();
        let channel = Arc::new(channel);
        session.link.shell = Some(Arc::clone(&channel));
        drop(theirs);
        let closed = channel.poll().unwrap();
        assert!(matches!(closed, Received::Closed { unread: false }));
        // The fast lane: a caller sends before the actor has taken the loan back.
        channel.send(&Request::new(RequestKind::Run, 1), Vec::new()).unwrap();
        session.handle_shell_report(closed);
        assert!(session.takes_unread());
    }
}
