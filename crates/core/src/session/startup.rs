//! Starts a working shell (supervisor, shell, handshake, setup), and the standby that replaces it when it dies.

use super::actor::Session;
use super::background::ProcessEvent;
use super::config::{SessionConfig, SessionFiles, SessionIsolation};
use super::standby::request_fork;
use super::streams::null_streams;
use super::timers::{HELLO, Timer};
use crate::capabilities::{self, Engine};
use crate::error::{Code, Error};
use crate::shell::channel::{Channel, Received};
use crate::shell::event::{Event, Source};
use crate::shell::state::Shell;
use crate::shell::{launch, listener};
use crate::supervisor::{Launch, Supervisor, WITHHELD};
use nacre_containment::cgroup::Group;
use nacre_host_commands::calls;
use nacre_protocol::shell::{ForkedFlags, Reply, Request, RequestFlags, RequestKind};
use nacre_protocol::supervisor::{Order, Role, StartStep};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Idle time after which a standby is forked, so that a burst of commands does not pay for warming it.
const IDLE_BEFORE_STANDBY: Duration = Duration::from_millis(8);
/// Time after a failed fork during which no standby is forked.
const FORK_PAUSE: Duration = Duration::from_secs(1);
/// Time limit for a standby to become the shell. It takes less than a millisecond, unless something stops the standby.
const PROMOTION: Duration = Duration::from_secs(5);

impl Session {
    pub(super) fn start_session(&mut self) {
        self.engine.fail(None);
        if self.enclosure.decides(&mut self.cx) {
            return;
        }
        self.abandon_supervisor();
        let number = self.supervision.next_number();
        let group =
            self.cx.config.group.as_ref().map(|(parent, name)| Group::at(parent.join(format!("{name}-{number}"))));
        let SessionConfig { id, supervisor, cwd, shell, env, user, limits, marks, commands, kept, .. } =
            &self.cx.config;
        let kept = match kept.as_ref().map(SessionFiles::places).transpose() {
            Ok(places) => places.map(|places| (id.as_str(), places)),
            Err(error) => return self.fail(Error::cannot("pass on where the session is kept", &error)),
        };
        let taken = commands.as_ref().map_or_else(|| Ok(None), |_| calls::listen(|| marks.next()));
        let (mark, listener) = match taken {
            Ok(Some((mark, listener))) => (Some(mark), Some(listener)),
            Ok(None) => (marks.next(), None),
            Err(error) => return self.fail(Error::cannot("listen for calls of the commands", &error)),
        };
        let launch = Launch {
            program: supervisor,
            cwd,
            shell,
            env,
            user: user.as_ref().map(|user| &user.run_as),
            limits: *limits,
            group: group.as_ref(),
            mark,
            commands: commands.as_ref().map(|commands| commands.places.clone()),
            listener,
            kept,
        };
        match Supervisor::start(launch) {
            Ok(supervisor) => {
                tracing::debug!(log = self.cx.config.log.id(), session = %self.cx.config.id, supervisor = %supervisor.pid(), "started a supervisor");
                if let Some(budgets) = &self.cx.config.budgets {
                    budgets.watch(supervisor.hold_pid(), group.clone());
                }
                self.supervision.begin(supervisor, group, mark);
                match self.enclosure.confine(&mut self.cx, &self.supervision) {
                    Ok(()) => self.start_shell(self.engine.has_state()),
                    Err(error) => self.fail(Error::cannot("write the session's rules", &error)),
                }
            }
            Err(error) => {
                self.fail(Error::cannot(&format!("run {}", self.cx.config.supervisor.display()), &error));
            }
        }
    }

    /// Handles the decision how the session is confined, unless the session has given up meanwhile.
    pub(super) fn isolation_decided(&mut self, decision: u64, decided: Result<SessionIsolation, Error>) {
        if self.state.shell != Shell::Starting || !self.enclosure.awaits(decision) {
            return;
        }
        match decided {
            Ok(isolation) => {
                self.enclosure.decided(&mut self.cx, isolation);
                self.start_session();
            }
            Err(error) => self.fail(error),
        }
    }

    /// Starts the shell; `anywhere`: in `/` if its directory cannot be entered.
    pub(super) fn start_shell(&mut self, anywhere: bool) {
        match self.engine.kind() {
            Engine::Builtin => self.start_shell_with_builtin(anywhere),
            Engine::Plain => self.cx.events.push_back(Event::Hello),
        }
    }

    fn start_shell_with_builtin(&mut self, anywhere: bool) {
        let opened =
            Channel::pair().and_then(|(channel, theirs)| Ok((channel, vec![theirs.into(), launch::object()?.into()])));
        let (channel, descriptors) = match opened {
            Ok(opened) => opened,
            Err(error) => return self.fail(Error::cannot("open the shell's channel", &error)),
        };
        self.shell.open(channel);
        let order = Order::Start {
            role: Role::Shell,
            arguments: launch::arguments(),
            first_descriptor: launch::FIRST_DESCRIPTOR,
            anywhere,
        };
        self.supervision.order_with(&mut self.cx, &order, descriptors);
        self.cx.timers.set(Timer::Hello, Instant::now() + HELLO);
    }

    /// The error for a bash that cannot be started.
    pub(super) fn start_error(&self, step: StartStep, errno: i32, detail: &str) -> Error {
        let reason = match detail {
            "" => io::Error::from_raw_os_error(errno).to_string(),
            detail => detail.to_string(),
        };
        let shell = self.cx.config.shell.display();
        let cwd = self.cx.config.cwd.display();
        match step {
            StartStep::Prepare if errno == libc::ETIMEDOUT => {
                let paths = format!("the working directory '{cwd}', the shell {shell} or a path of the isolation");
                Error::new(Code::SpawnFailed, format!("cannot start the shell: {paths} does not respond"))
            }
            StartStep::Isolation => self.enclosure.error(errno, detail),
            StartStep::Cwd => Error::cwd(&self.cx.config.cwd, errno),
            StartStep::Limits => {
                let message = "the sandbox's limits cannot be set: they are above what the host itself may use";
                Error::new(Code::LimitUnsupported, message)
            }
            StartStep::User => Error::new(Code::SpawnFailed, format!("cannot become the user of {shell}: {reason}")),
            StartStep::Group => Error::new(Code::SpawnFailed, format!("cannot join the control group: {reason}")),
            StartStep::Prepare => Error::new(Code::SpawnFailed, format!("cannot prepare the shell: {reason}")),
            StartStep::Exec => Error::new(Code::SpawnFailed, format!("cannot run the shell {shell}: {reason}")),
        }
    }

    /// Gives up the start. A session that is being closed waits for its supervisor's end instead.
    pub(super) fn fail(&mut self, error: Error) {
        self.engine.fail(Some(error));
        if self.state.shell == Shell::Closing {
            return;
        }
        self.abandon_supervisor();
        self.cx.timers.clear(Timer::Hello);
        self.cx.events.push_back(Event::StartFailed);
    }

    /// Drops the supervisor, if there is one. It ends with the link, and everything below it.
    pub(super) fn abandon_supervisor(&mut self) {
        let lost = self.lose_processes();
        self.supervision.abandon(lost);
        self.disconnect();
    }

    pub(super) fn hello_overdue(&mut self) {
        if matches!(self.state.shell, Shell::Starting | Shell::SettingUp) {
            let shell = self.cx.config.shell.display();
            let seconds = HELLO.as_secs();
            let message = if self.supervision.is_silent() {
                let supervisor = self.cx.config.supervisor.display();
                format!(
                    "the supervisor {supervisor} has not answered within {seconds} s: check with `nacre doctor` what this \
                     system lacks, and that nothing stops or traces the process"
                )
            } else {
                format!("'{shell}' did not become ready within {seconds} s")
            };
            self.fail(Error::new(Code::SpawnFailed, message));
        }
    }

    /// Handles the `$BASH_VERSION` of a shell, which is empty if it is not bash.
    pub(super) fn version_known(&mut self, version: String) {
        if !matches!(self.state.shell, Shell::Starting | Shell::SettingUp) {
            return;
        }
        match capabilities::check_version(&self.cx.config.shell, &version) {
            Err(error) => self.fail(error.into()),
            Ok(()) if self.engine.confirm_plain() => {
                tracing::warn!(
                    log = self.cx.config.log.id(),
                    session = %self.cx.config.id,
                    "bash {version} cannot load the builtin; each command runs in its own bash"
                );
                self.engine.has_version(version);
                self.cx.events.push_back(Event::Hello);
            }
            Ok(()) => {
                self.engine.has_version(version);
                self.plain_set_up();
            }
        }
    }

    pub(super) fn set_up_ended(&mut self) {
        self.shell.set_up(false);
        self.cx.timers.clear(Timer::Hello);
    }

    pub(super) fn set_up(&mut self) {
        self.engine.inherit(&self.cx.config.env);
        let withheld = self.cx.config.env.iter().rfind(|(name, _)| name == WITHHELD);
        let env =
            withheld.map(|(name, value)| [name.as_encoded_bytes(), b"=", value.as_encoded_bytes(), b"\0"].concat());
        let request = match (self.engine.next_checkpoint(), &env) {
            (Some(text), _) => {
                Some((Request { text, ..Request::new(RequestKind::Restore, self.foreground.status()) }, Ok(Vec::new())))
            }
            (None, Some(env)) => {
                let flags = RequestFlags::KEEP_SCOPE | RequestFlags::ENGINE;
                Some((Request { env, flags, ..Request::new(RequestKind::Run, 0) }, null_streams()))
            }
            (None, None) => None,
        };
        let has_request = request.is_some();
        let name = listener::name().unwrap_or_default().as_bytes();
        // A dead shell needs no set-up: its death is being reported.
        let Some(shell) = self.shell.channel().cloned() else { return };
        self.cx.timers.clear(Timer::Hello);
        let send = || {
            shell.send(&Request { text: name, ..Request::new(RequestKind::Listener, 0) }, Vec::new())?;
            if let Some((request, streams)) = request {
                shell.send(&request, streams?)?;
            }
            Ok::<(), io::Error>(())
        };
        if let Err(error) = send() {
            return self.fail(Error::cannot("set the shell up", &error));
        }
        self.shell.set_up(has_request);
        if has_request {
            self.engine.attempted();
            self.cx.timers.set(Timer::Hello, Instant::now() + HELLO);
        } else {
            self.is_set_up();
        }
    }

    /// The shell has its state.
    pub(super) fn is_set_up(&mut self) {
        self.share_shell();
        self.cx.events.push_back(Event::SetUp);
    }

    /// Lets the supervisor ask the shell for its state when this process has ended, if the session is kept.
    pub(super) fn share_shell(&mut self) {
        if let (Some(channel), Some(_)) = (self.shell.channel(), &self.cx.config.kept) {
            let channel = channel.shared();
            self.supervision.order_with(&mut self.cx, &Order::Ready, vec![channel]);
        }
    }

    pub(super) fn fork_standby(&mut self, command_follows: bool) {
        self.cx.timers.clear(Timer::Idle);
        // The shell is dead, and the supervisor has not reported it yet. The request goes to the next shell.
        let Some(shell) = self.shell.channel().cloned() else { return };
        let id = self.cx.numbers.next();
        let mut flags = RequestFlags::STANDBY;
        flags.set(RequestFlags::NO_WARM, command_follows);
        let group = self.supervision.make_group(&self.cx, &format!("s-{id}"));
        let (numbers, number) = (Arc::clone(&self.cx.numbers), self.cx.config.next_state());
        // Before the shell forks: this process may end before it knows the fork.
        let announce = |channel: &Channel| {
            if self.cx.config.kept.is_some() {
                self.supervision.order_with(&mut self.cx, &Order::Fork { number }, vec![channel.shared()]);
            }
        };
        match request_fork(Some(&shell), &numbers, id, flags, group.as_deref(), announce) {
            Ok(channel) => {
                self.standbys.expect(id, (channel, group, number));
                self.expect_forks();
            }
            Err(error) => self.standby_failed(&error.to_string(), group, true),
        }
    }

    /// Handles the report of a fork or its failure, for the standby or a process.
    pub(super) fn forked(&mut self, id: u64, result: Result<u32, i32>, flags: ForkedFlags) {
        self.take_fork(id, result, flags);
        self.expect_forks();
    }

    fn take_fork(&mut self, id: u64, result: Result<u32, i32>, flags: ForkedFlags) {
        let placed = flags.contains(ForkedFlags::PLACED);
        let child = result.map(|pid| self.enclosure.outside(pid.cast_signed(), self.supervision.pid()));
        let Some((channel, group, number)) = self.standbys.arrives(id) else {
            return self.process_forked(id, child, placed);
        };
        let pid = match child {
            Ok(Some(pid)) => pid,
            Ok(None) => return self.standby_failed("it has ended at once", group, false),
            Err(errno) => return self.standby_failed(&io::Error::from_raw_os_error(errno).to_string(), group, true),
        };
        channel.set_owner(pid);
        listener::expect(pid, self.cx.reconnects.clone());
        let group = group.filter(|path| placed || std::fs::remove_dir(path).is_err());
        let group = group.filter(|_| placed).map(|path| path.display().to_string());
        self.supervision.order(&mut self.cx, &Order::Standby { pid, group });
        self.retire_standby();
        self.standbys.begin(channel, pid, number);
        self.cx.events.push_back(Event::StandbyForked);
    }

    /// Releases the standby that is being replaced. Its finished forks are kept, and pending forks move to the next
    /// standby.
    fn retire_standby(&mut self) {
        while let Some(Received::Reply(Reply::Forked { id, result, flags })) =
            self.standbys.channel().and_then(Channel::poll)
        {
            self.forked(id, result, flags);
        }
        self.standbys.retire().into_iter().for_each(listener::forget);
        self.happened_to_process(ProcessEvent::SourceGone(Source::Standby));
    }

    pub(super) fn handle_standby_report(&mut self, received: Received) {
        match received {
            Received::Closed { .. } => self.lose_standby(),
            Received::Reply(Reply::Forked { id, result, flags }) => self.forked(id, result, flags),
            Received::Reply(_) => {}
        }
    }

    pub(super) fn lose_standby(&mut self) {
        if let Some((_, pid)) = self.standbys.take() {
            if self.state.shell != Shell::Closing {
                tracing::warn!(log = self.cx.config.log.id(), session = %self.cx.config.id, %pid, "the standby died");
            }
            listener::forget(pid);
            self.cx.events.push_back(Event::StandbyDied);
        }
        self.happened_to_process(ProcessEvent::SourceGone(Source::Standby));
    }

    /// `pauses`: the system refuses forks for now.
    fn standby_failed(&mut self, reason: &str, group: Option<PathBuf>, pauses: bool) {
        tracing::warn!(log = self.cx.config.log.id(), session = %self.cx.config.id, reason, "no standby can be forked");
        if let Some(group) = group {
            let _ = std::fs::remove_dir(group);
        }
        if pauses {
            self.cx.timers.set(Timer::ForkPauseOver, Instant::now() + FORK_PAUSE);
        }
        self.cx.events.push_back(Event::ForkFailed { pauses });
    }

    /// Called after an event: schedules a standby for when the session stays idle.
    pub(super) fn schedule_standby(&mut self) {
        if !self.state.lacks_standby() {
            self.cx.timers.clear(Timer::Idle);
        } else if !self.cx.timers.is_set(Timer::Idle) {
            self.cx.timers.set(Timer::Idle, Instant::now() + IDLE_BEFORE_STANDBY);
        }
    }

    pub(super) fn promote(&mut self) {
        tracing::warn!(log = self.cx.config.log.id(), session = %self.cx.config.id, "the shell died; its standby takes over");
        if self.standbys.pid().is_some() {
            self.supervision.ask(&mut self.cx, &Order::Promote);
        }
        self.use_standby();
    }

    /// Makes the standby, which the supervisor has been ordered to promote, the shell.
    pub(super) fn use_standby(&mut self) {
        self.supervision.forget_foreground_group();
        let Some((channel, pid)) = self.standbys.take() else {
            return self.cx.events.push_back(Event::ShellDied { unread: false });
        };
        let sent =
            channel.send(&Request { ..Request::new(RequestKind::Promote, self.foreground.status()) }, Vec::new());
        self.happened_to_process(ProcessEvent::Promoted);
        self.shell.promote(channel, pid);
        if sent.is_err() {
            self.supervision.order(&mut self.cx, &Order::KillShell);
        }
        self.cx.timers.set(Timer::Promotion, Instant::now() + PROMOTION);
    }

    /// Kills a standby that does not become the shell. A new shell with the last checkpoint follows.
    pub(super) fn promotion_overdue(&mut self) {
        if self.state.shell == Shell::Promoting {
            tracing::warn!(log = self.cx.config.log.id(), session = %self.cx.config.id, "the standby does not take over and is killed");
            self.supervision.order(&mut self.cx, &Order::KillShell);
        }
    }
}
