//! Turns messages of the shell, the standby and the supervisor into events of the state machine.

use super::actor::Session;
use super::engine::Plain;
use super::errors;
use super::foreground::Refused;
use super::holds::not_remounted;
use super::message::{Busy, Frozen};
use crate::error::{Code, Error};
use crate::shell::channel::Received;
use crate::shell::event::Event;
use crate::shell::listener::{self, Reconnected};
use crate::shell::state::{Shell, Ticket};
use nacre_containment::pid::Pid;
use nacre_protocol::shell::{Done, DoneFlags, Reply};
use nacre_protocol::supervisor::{ForegroundGroup, Order, Report};
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// How soon the supervisor reports the death of a shell. A later report means that the supervisor was stopped.
const SHELL_DEATH: Duration = Duration::from_millis(100);

/// How soon the kernel kills a shell whose supervisor is dead.
const SHELL_KILLED: Duration = Duration::from_millis(500);

/// The signals of a bash that crashes while it loads the builtin.
const CRASHES: [i32; 4] = [libc::SIGILL, libc::SIGABRT, libc::SIGBUS, libc::SIGSEGV];

impl Session {
    /// Waits for the end of the shell after that of the supervisor's connection.
    ///
    /// The kernel closes the supervisor's socket before it kills the shell, which may read a command until then. Only the
    /// end of its channel shows that it will not.
    pub(super) async fn await_shells_end(&mut self) {
        let give_up = Instant::now() + SHELL_KILLED;
        // If the system does not allow that, the shell counts as alive.
        self.shell.watch();
        loop {
            while let Some(received) = self.shell.try_receive() {
                self.handle_shell_report(received);
            }
            if self.shell.channel().is_none() || timeout_at(give_up, self.shell.ready()).await.is_err() {
                return;
            }
        }
    }

    /// Handles the end of the supervisor's connection. The command was not read if the shell's channel has ended and says so.
    pub(super) fn supervisor_gone(&mut self) {
        self.drain_shell();
        self.shell.close();
        let (orderly, complaint) = self.supervision.lost();
        // If no later attempt succeeds, the call fails with this reason.
        if let Some(complaint) = complaint {
            let supervisor = self.cx.config.supervisor.display();
            let message = format!("the supervisor {supervisor} ended before it could start the shell: {complaint}");
            self.engine.fail(Some(Error::new(Code::SpawnFailed, message)));
        }
        let unread = self.takes_unread();
        self.cx.events.push_back(Event::SupervisorGone { unread, orderly });
    }

    /// Handles the shell's reports so far. Called before its death is handled, because its last reports precede it.
    pub(super) fn drain_shell(&mut self) {
        while let Some(received) = self.shell.poll() {
            self.handle_shell_report(received);
        }
    }

    pub(super) fn handle_shell_report(&mut self, received: Received) {
        match received {
            Received::Closed { unread } => {
                if self.shell.channel().is_some_and(|channel| channel.is_flooded()) {
                    // The shell lives and may have read its request, so nothing is lost that could run again.
                    self.shell.close();
                    self.supervision.order(&mut self.cx, &Order::KillShell);
                } else {
                    self.shell.closed(unread);
                }
                // A report of the supervisor or a new connection will show whether the shell is dead.
                self.supervision.await_report(&mut self.cx, SHELL_DEATH);
            }
            Received::Reply(Reply::Refused { reason, errno, about, .. }) if self.shell.is_setting_up() => {
                let error = errors::refused(&self.cx, Some(Refused { reason, errno, about }), None, "shell");
                self.fail(error);
            }
            Received::Reply(Reply::Begun { .. } | Reply::Ending { .. }) if self.shell.is_setting_up() => {}
            Received::Reply(Reply::Restored(lost)) => {
                if self.shell.is_setting_up() {
                    self.set_up_ended();
                    self.engine.restored(lost);
                    self.is_set_up();
                }
            }
            Received::Reply(Reply::Hello { version, .. }) => {
                if !version.is_empty() {
                    self.engine.has_version(version);
                }
                if self.shell.greeted() {
                    self.cx.events.push_back(Event::Hello);
                }
            }
            Received::Reply(
                Reply::Done(Done { id, .. })
                | Reply::Refused { id, .. }
                | Reply::Begun { id, .. }
                | Reply::Ending { id },
            ) if (id != self.foreground.number() || self.foreground.owed().is_none())
                && !self.shell.is_setting_up() =>
            {
                tracing::warn!(log = self.cx.config.log.id(), session = %self.cx.config.id, "a forged report was ignored");
            }
            Received::Reply(Reply::Done(done)) => self.command_done(done),
            Received::Reply(Reply::Refused { reason, errno, about, .. }) => {
                self.foreground.refuse(Refused { reason, errno, about });
                self.refused_by_shell();
            }
            Received::Reply(Reply::Promoted { .. }) => self.cx.events.push_back(Event::Promoted),
            Received::Reply(Reply::Ending { .. }) => self.cx.events.extend(self.foreground.owed().map(Event::TrapRuns)),
            Received::Reply(Reply::Forked { id, result, flags }) => self.forked(id, result, flags),
            Received::Reply(Reply::Begun { .. }) => self.announce_command(),
        }
    }

    pub(super) fn command_done(&mut self, done: Done) {
        if self.shell.is_setting_up() {
            self.set_up_ended();
            return self.is_set_up();
        }
        let Some(ticket) = self.take_owed() else { return };
        if let Some(command) = self.foreground.command() {
            command.done(&done);
        }
        let event = Event::Done {
            ticket,
            status: done.status,
            exited: done.flags.contains(DoneFlags::EXITED),
            state_kept: done.flags.contains(DoneFlags::STATE_KEPT),
            forked: done.forks > 0,
        };
        if done.flags.contains(DoneFlags::FRAMES_DISCARDED) {
            tracing::debug!(log = self.cx.config.log.id(), session = %self.cx.config.id, "bash has discarded frames without unwinding them");
        }
        if !done.cwd.is_empty() {
            self.cx.cwd = PathBuf::from(OsString::from_vec(done.cwd));
        }
        let only_jobs = done.forks == 0 || done.flags.contains(DoneFlags::ONLY_JOBS);
        self.end_command(event, !only_jobs, done.flags.contains(DoneFlags::SUBSTITUTED));
    }

    /// The call whose end has arrived.
    pub(super) fn take_owed(&mut self) -> Option<Ticket> {
        let owed = self.foreground.take_owed();
        if owed.is_none() {
            self.cx.defect(&"the end of a command that is not running");
        }
        owed
    }

    /// Handles a refusal, whose reason has been kept.
    pub(super) fn refused_by_shell(&mut self) {
        let owed = self.take_owed();
        self.cx.events.extend(owed.map(Event::Refused));
    }

    pub(super) fn handle_supervisor_report(&mut self, report: Report, descriptors: Vec<OwnedFd>) {
        self.supervision.has_reported();
        let Some(report) = self.take_plain_report(report) else { return };
        match report {
            Report::Confined { init } => self.enclosure.confined(&self.cx, init, descriptors),
            Report::Orphans { init } => self.enclosure.adopts(init),
            Report::Reconnected { pid } => {
                if let Some(socket) = descriptors.into_iter().next() {
                    self.reconnected(Reconnected { pid, socket });
                }
            }
            Report::Called => {
                let commands = self.cx.config.commands.as_ref();
                if let Some((commands, connection)) = commands.zip(descriptors.into_iter().next()) {
                    commands.on_call.call(&self.cx.config.id, connection);
                }
            }
            Report::NotConfined { problem } => self.enclosure.refuse(problem),
            Report::Started { identity, key: None, group } => {
                let has_greeted = self.shell.started(identity.pid);
                self.supervision.set_foreground_group(group);
                listener::expect(identity.pid, self.cx.reconnects.clone());
                if has_greeted {
                    self.cx.events.push_back(Event::Hello);
                }
            }
            Report::StartFailed { key: None, step, errno, detail } => self.fail(self.start_error(step, errno, &detail)),
            Report::ShellEnded { pid, code, signal } if self.shell.pid() == Some(pid) => {
                self.drain_shell();
                self.shell_ended(pid, code, signal);
            }
            Report::ShellEnded { pid, code, signal } => self.background.detached.shell_ended(pid, code, signal),
            Report::Ended => self.supervision.has_ended_all(),
            Report::StandbyEnded { pid } => {
                if self.standbys.pid() == Some(pid) {
                    self.lose_standby();
                }
            }
            Report::Promoted { foreground } => self.standby_took_over(foreground),
            Report::Detached { key, identity, group, foreground } => {
                self.standby_took_over(foreground);
                self.detached(key, identity, group);
            }
            Report::Rotated { foreground } => {
                if self.supervision.use_foreground_group(self.shell.pid(), foreground) {
                    self.cx.events.push_back(Event::Isolated);
                }
            }
            Report::Killed { id, escalated, foreground } => {
                self.supervision.use_foreground_group(self.shell.pid(), foreground);
                let Some(ticket) = self.foreground.ended_by(id) else { return };
                if escalated {
                    tracing::warn!(log = self.cx.config.log.id(), session = %self.cx.config.id, "a command needed SIGKILL");
                }
                self.cx.events.push_back(Event::TreeGone { ticket, escalated });
            }
            Report::Frozen { id, programs, count, foreground } => {
                self.supervision.use_foreground_group(self.shell.pid(), foreground);
                self.holds.frozen(id, Ok(Frozen { is_idle: count == 0 && !self.files.is_writing(), programs, count }));
            }
            Report::NotFrozen { id, programs, count, foreground } => {
                let has_groups = foreground.directory.is_some();
                self.supervision.use_foreground_group(self.shell.pid(), foreground);
                self.holds.frozen(id, Err(Busy { programs, count, has_groups }));
            }
            Report::Remounted => {
                self.files.remounted();
                self.holds.remounted(Ok(()));
            }
            Report::NotRemounted { problem } => self.holds.remounted(Err(not_remounted(&self.cx, &problem))),
            Report::Masked => self.enclosure.masked(),
            Report::Started { .. }
            | Report::StartFailed { .. }
            | Report::Adopted { .. }
            | Report::ProcessEnded { .. }
            | Report::ProcessKilled { .. } => {
                self.process_report(report);
            }
        }
    }

    /// Uses the group of the standby that has become the shell, unless it is dead. In plain mode, there is no shell now.
    fn standby_took_over(&mut self, foreground: ForegroundGroup) {
        if foreground.shell.is_none() && self.shell.pid().is_some() {
            self.shell.close();
            self.cx.events.push_back(Event::ShellDied { unread: false });
        }
        self.supervision.use_foreground_group(self.shell.pid(), foreground);
    }

    pub(super) fn shell_ended(&mut self, pid: Pid, code: Option<i32>, signal: Option<i32>) {
        listener::forget(pid);
        tracing::debug!(log = self.cx.config.log.id(), session = %self.cx.config.id, %pid, ?code, ?signal, "the shell ended");
        self.shell.ended();
        self.standbys.drop_unforked();
        // A shell that was killed may be able to load the builtin. The next start will show.
        if self.state.shell == Shell::Starting && signal.is_none_or(|signal| CRASHES.contains(&signal)) {
            self.shell.close();
            self.engine.try_plain();
            return self.ask_version();
        }
        self.foreground.shell_ended(code, signal);
        let unread = self.takes_unread();
        self.end_command(Event::ShellDied { unread }, !unread, true);
    }

    /// True if the dead shell had not read its command, so that the next shell can run it.
    pub(super) fn takes_unread(&mut self) -> bool {
        let unread = self.shell.take_unread() || self.engine.plain().is_some_and(Plain::leave_unread);
        unread && self.foreground.is_repeatable()
    }

    pub(super) fn reconnected(&mut self, Reconnected { pid, socket }: Reconnected) {
        let Some(socket) = self.background.detached.reconnected(pid, socket) else { return };
        if self.shell.pid() != Some(pid) {
            return;
        }
        self.drain_shell();
        if !self.shell.reconnect(pid, socket) {
            // A trap closed the channel between commands, with a request that the shell had not read. The standby has
            // the state and gets the request.
            tracing::warn!(log = self.cx.config.log.id(), session = %self.cx.config.id, %pid, "the shell lost a request and is replaced");
            return self.supervision.order(&mut self.cx, &Order::KillShell);
        }
        tracing::debug!(log = self.cx.config.log.id(), session = %self.cx.config.id, %pid, "reconnected");
        if !self.shell.is_setting_up() {
            self.share_shell();
        }
        self.supervision.has_reported();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::SessionConfig;
    use crate::session::end_reason::EndReason;
    use crate::shell::channel::Channel;
    use crate::supervisor::{Launch, Supervisor};
    use nacre_protocol::shell::{Request, RequestKind, Usage};
    use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
    use std::fs::File;
    use std::os::fd::AsFd;
    use std::path::Path;
    use tokio::sync::mpsc;

    fn session() -> Session {
        let config = SessionConfig {
            id: "test".into(),
            cwd: "/".into(),
            shell: "/bin/bash".into(),
            supervisor: "/bin/false".into(),
            survive_exit: true,
            uses_builtin: true,
            ..SessionConfig::default()
        };
        Session::new(config, EndReason::default(), mpsc::unbounded_channel().0, mpsc::unbounded_channel().0)
    }

    #[tokio::test]
    async fn a_command_that_the_shell_reads_after_its_supervisors_death_does_not_run_again() {
        for is_read in [true, false] {
            let mut session = session();
            let (channel, theirs) = Channel::pair().unwrap();
            session.shell.open(channel);
            session.shell.channel().unwrap().send(&Request::new(RequestKind::Run, 1), Vec::new()).unwrap();
            let ends = async {
                session.await_shells_end().await;
                session.supervisor_gone();
            };
            let shell = async move {
                if is_read {
                    nacre_protocol::socket::receive(theirs.as_fd(), &mut [0; 256]).unwrap();
                }
            };
            tokio::join!(biased; ends, shell);
            let Some(Event::SupervisorGone { unread, .. }) = session.cx.events.pop_front() else { panic!("no event") };
            assert_eq!(unread, !is_read);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_supervisor_that_neither_covers_what_was_replaced_nor_dies_is_given_up() {
        let mut session = session();
        // It reads orders and never answers. The clock of the test runs out before the kernel has ended it.
        let launch = Launch {
            program: Path::new("/bin/cat"),
            cwd: Path::new("/"),
            shell: Path::new("/bin/bash"),
            env: &[],
            user: None,
            limits: Default::default(),
            group: None,
            commands: None,
            listener: None,
            mark: None,
            kept: None,
        };
        session.supervision.begin(Supervisor::start(launch).unwrap(), None, None);
        let directory = tempfile::tempdir().unwrap();
        let changes = Inotify::init(InitFlags::IN_NONBLOCK).unwrap();
        changes.add_watch(directory.path(), AddWatchFlags::IN_CREATE).unwrap();
        File::create(directory.path().join("replaced")).unwrap();
        let mounts = File::open("/proc/self/mountinfo").unwrap();
        session.enclosure.confined(&session.cx, None, vec![mounts.into(), changes.into()]);
        session.await_masks().await;
        assert!(matches!(session.cx.events.pop_front(), Some(Event::SupervisorGone { unread: false, orderly: false })));
    }

    #[tokio::test]
    #[should_panic(expected = "a defect of nacre: the end of a command that is not running")]
    async fn a_report_about_no_command_is_a_defect() {
        session().command_done(Done {
            id: 0,
            status: 0,
            signal: 0,
            flags: DoneFlags::default(),
            forks: 0,
            usage: Usage::default(),
            cwd: Vec::new(),
        });
    }
}
