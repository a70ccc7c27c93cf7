//! Carrying out the actions of the shell's state machine. Nothing here waits.

use super::actor::{Call, Internal, Session};
use super::command::{Running, Streams, env_of, text_of};
use super::outcome::cwd_error;
use super::salvage;
use super::timers::Timer;
use crate::capabilities;
use crate::error::{Code, Error};
use crate::exec::Outcome;
use crate::outbox::Descriptor;
use crate::shell::channel::Channel;
use crate::shell::state::{Action, Answer, Cause, End, Event, Refusal, Shell, Source, Ticket};
use crate::shell::{launch, listener};
use crate::supervisor::{Supervisor, WITHHELD};
use crate::sys;
use nacre_containment::cgroup::Group;
use nacre_containment::pid::{Identity, Pid};
use nacre_containment::proc_table::{self, Stat};
use nacre_containment::signal;
use nacre_protocol::shell::{ForkedFlags, Refusal as ShellRefusal, Request, RequestFlags, RequestKind};
use nacre_protocol::supervisor::{Order, Role, StartStep};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Until then a command's pipes are not watched: most have ended, and what they printed waits in the pipe.
pub(super) const QUICK: Duration = Duration::from_millis(1);
/// A standby is forked when nothing has run for this long, so that a burst of commands never pays for warming it.
const IDLE_BEFORE_STANDBY: Duration = Duration::from_millis(8);
/// After a fork that failed no standby is tried for this long.
const FORK_PAUSE: Duration = Duration::from_secs(10);
/// What a command's last processes may take to end before the shell is moved away from them.
const LEAVING: Duration = Duration::from_millis(1);
/// What the shell gets beyond the grace time, since its own children are killed only at the end of that.
const SHELL_EXTRA: Duration = Duration::from_millis(50);
/// A shell that has not taken its request after this long may have been stopped (SIGSTOP).
const UNREAD: Duration = Duration::from_millis(100);
/// A supervisor that has not answered after this long may have been stopped.
const SUPERVISOR_ANSWER: Duration = Duration::from_millis(500);
/// A shell that says nothing for this long never will.
pub(super) const HELLO: Duration = Duration::from_secs(20);

/// What is awaited from others.
#[derive(Default)]
pub(super) struct Wait {
    /// Ends of setting-up requests to come.
    pub(super) setting_up: usize,
    /// The number of the command that was sent last.
    pub(super) command: u64,
    /// The kill ladder that runs.
    pub(super) ladder: u64,
    /// Its first signal.
    pub(super) kill_signal: i32,
    /// Roots of older processes, which the ladder spares. Used without control groups.
    pub(super) spare: Vec<Pid>,
    /// Why the shell refused the last request.
    pub(super) refused: Option<(ShellRefusal, String)>,
    /// `$?` of the command that the shell died over, for the standby that takes over.
    status: u64,
    /// The command whose start was announced last.
    announced: Ticket,
    /// A report of the supervisor is awaited.
    report: bool,
    sessions: u64,
    ids: u64,
    /// Keys that are random for each session.
    secret: RandomState,
}

impl Wait {
    /// The supervisor has reported something: it lives and runs.
    pub(super) fn answered(&mut self) {
        self.report = false;
    }

    /// A number for a fork.
    pub(super) fn next_id(&mut self) -> u64 {
        self.ids += 1;
        self.ids
    }

    /// A number for a command. It cannot be guessed: a command that finds the shell's socket could otherwise report its own
    /// end, or that of the next command.
    fn next_command(&mut self) -> u64 {
        self.ids += 1;
        self.command = self.secret.hash_one(self.ids).max(1);
        self.command
    }
}

impl Session {
    pub(super) fn perform(&mut self, action: Action) {
        match action {
            Action::StartSession => self.start_session(),
            Action::StartShell => self.start_shell(),
            Action::SetUp => self.set_up(),
            Action::Isolate => self.isolate(),
            Action::ForkStandby { command_follows } => self.fork_standby(command_follows),
            Action::ForkProcess(ticket, source) => {
                if let Some(Call::Start(request)) = self.calls.remove(&ticket) {
                    self.fork_process(*request, source == Source::Shell);
                }
            }
            Action::Run(ticket) => self.run_command(ticket),
            Action::SetEnv(ticket) => self.send_env(ticket),
            Action::Promote => self.promote(),
            Action::Kill { cause, signal } => self.kill(cause, signal),
            Action::Insist => self.insist(),
            Action::Settled => self.order(&Order::Settled),
            Action::TrapRuns => self.order(&Order::TrapRuns),
            Action::KillShell => {
                if self.state.running().is_some() {
                    tracing::warn!(log = self.config.log.id(), session = %self.config.id, "the shell did not answer an interrupt and is killed");
                }
                self.order(&Order::KillShell);
            }
            Action::Salvage => {
                tracing::error!(log = self.config.log.id(), session = %self.config.id, "the supervisor died; the session is started again");
                self.salvage();
            }
            Action::Sweep => {
                tracing::warn!(log = self.config.log.id(), session = %self.config.id, "the supervisor was killed while it ended the session");
                self.link.standby = None;
                self.salvage();
            }
            Action::Answer(ticket, answer) => self.answer(ticket, answer),
            Action::Shutdown => self.shutdown(),
            Action::Closed => {
                self.link = super::actor::Link::default();
                self.processes.lose_all(&self.config.id);
            }
        }
    }

    fn order(&mut self, order: &Order) {
        if let Some(supervisor) = &self.link.supervisor {
            supervisor.order(order);
        }
    }

    /// Sends an order that is answered, and checks on a supervisor that does not answer.
    pub(super) fn ask(&mut self, order: &Order) {
        self.order(order);
        self.wait.report = true;
        self.timers.set(Timer::Supervisor, Instant::now() + SUPERVISOR_ANSWER);
    }

    // ---- start ----

    fn start_session(&mut self) {
        self.failure = None;
        if self.checkpoint.is_none() && !self.config.cwd.is_dir() {
            return self.fail(cwd_error(&self.config.cwd));
        }
        self.wait.sessions += 1;
        let group = self.config.group.as_ref().map(|(_, name)| format!("{name}-{}", self.wait.sessions));
        match Supervisor::start(&self.config, group.as_deref()) {
            Ok(supervisor) => {
                tracing::debug!(log = self.config.log.id(), session = %self.config.id, supervisor = %supervisor.pid(), "started a supervisor");
                self.last_supervisor = Some(supervisor.pid());
                self.link = super::actor::Link { supervisor: Some(supervisor), ..Default::default() };
                self.start_shell();
            }
            Err(error) => {
                self.fail(spawn_failed(&format!("run {}", self.config.supervisor.display()), &error));
            }
        }
    }

    fn start_shell(&mut self) {
        if !self.config.uses_builtin {
            return self.events.push_back(Event::Hello);
        }
        let opened = Channel::pair().and_then(|(channel, theirs)| Ok((channel, vec![theirs.into(), launch::object()?.into()])));
        let (channel, descriptors) = match opened {
            Ok(opened) => opened,
            Err(error) => return self.fail(spawn_failed("open the shell's channel", &error)),
        };
        self.link.shell = Some(channel);
        let cwd = (!self.config.cwd.is_dir()).then(|| "/".to_string());
        let order = Order::Start {
            role: Role::Shell,
            arguments: launch::arguments(),
            first_descriptor: launch::FIRST_DESCRIPTOR,
            cwd,
        };
        if let Some(supervisor) = &self.link.supervisor {
            supervisor.order_with(&order, descriptors);
        }
        self.timers.set(Timer::Hello, Instant::now() + HELLO);
    }

    pub(super) fn start_failed(&mut self, step: StartStep, errno: i32) {
        self.fail(self.start_error(step, errno));
    }

    /// Why a bash cannot be started.
    pub(super) fn start_error(&self, step: StartStep, errno: i32) -> Error {
        let reason = io::Error::from_raw_os_error(errno);
        let shell = self.config.shell.display();
        match step {
            StartStep::Cwd => cwd_error(&self.config.cwd),
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

    pub(super) fn fail(&mut self, error: Error) {
        self.failure = Some(error);
        self.link = super::actor::Link::default();
        self.timers.clear(Timer::Hello);
        self.events.push_back(Event::StartFailed);
    }

    pub(super) fn hello_overdue(&mut self) {
        if matches!(self.state.shell, Shell::Starting | Shell::SettingUp) {
            let message = format!("'{}' did not become ready", self.config.shell.display());
            self.fail(Error::new(Code::SpawnFailed, message));
        }
    }

    /// The shell ended before it said hello: it is no bash, too old, or one that loads no builtins.
    pub(super) fn ask_version(&mut self) {
        let (shell, internal) = (self.config.shell.clone(), self.internal.clone());
        tokio::task::spawn_blocking(move || {
            let _ = internal.send(Internal::Version(capabilities::version_of(&shell)));
        });
    }

    pub(super) fn version_known(&mut self, version: Option<String>) {
        if !matches!(self.state.shell, Shell::Starting | Shell::SettingUp) {
            return;
        }
        let checked = capabilities::check_version(&self.config.shell, &version.clone().unwrap_or_default());
        match checked {
            Err(message) => self.fail(Error::new(Code::SpawnFailed, message)),
            Ok(()) if self.config.uses_builtin => {
                let version = version.unwrap_or_default();
                tracing::warn!(
                    log = self.config.log.id(),
                    session = %self.config.id,
                    "bash {version} cannot load the builtin; each command runs in a bash of its own"
                );
                self.config.uses_builtin = false;
                self.start_shell();
            }
            Ok(()) => {
                let message = format!("'{}' does not write its state down", self.config.shell.display());
                self.fail(Error::new(Code::SpawnFailed, message));
            }
        }
    }

    fn set_up(&mut self) {
        if !self.config.uses_builtin {
            return self.plain_set_up();
        }
        self.timers.clear(Timer::Hello);
        let mut requests = Vec::new();
        let mut env = Vec::new();
        if let Some((name, value)) = self.config.env.iter().rfind(|(name, _)| name == WITHHELD) {
            env = [name.as_encoded_bytes(), b"=", value.as_encoded_bytes(), b"\0"].concat();
        }
        if !env.is_empty() {
            requests.push((RequestFlags::KEEP_SCOPE | RequestFlags::ENGINE, Vec::new(), env));
        }
        if let Some(checkpoint) = &self.checkpoint {
            requests.push((RequestFlags::ENGINE, checkpoint.clone(), Vec::new()));
        }
        let name = listener::name().unwrap_or_default().as_bytes();
        let sent = self.link.shell.as_ref().map_or(Ok(()), |shell| {
            shell.send(&Request { text: name, ..Request::new(RequestKind::Listener, 0) }, Vec::new())?;
            for (flags, text, env) in &requests {
                shell.send(&Request { text, env, flags: *flags, ..Request::new(RequestKind::Run, 0) }, null_streams()?)?;
            }
            Ok::<(), io::Error>(())
        });
        if let Err(error) = sent {
            return self.fail(spawn_failed("set the shell up", &error));
        }
        self.wait.setting_up = requests.len();
        if requests.is_empty() {
            self.events.push_back(Event::SetUp);
        }
    }

    // ---- commands ----

    fn run_command(&mut self, ticket: Ticket) {
        if !self.config.uses_builtin {
            return self.plain_run(ticket);
        }
        let Some(Call::Exec(request)) = self.calls.remove(&ticket) else { return };
        self.timers.clear(Timer::Idle);
        let (text, flags) = text_of(&request.command);
        let env = env_of(&request.env);
        let cwd = request.cwd.as_ref().map(|cwd| cwd.as_os_str().as_encoded_bytes().to_vec()).unwrap_or_default();
        let id = self.wait.next_command();
        let begun = Instant::now();
        let streams = Streams::open(&request.input, self.spare_pipes.take());
        let wire = Request { text: &text, cwd: &cwd, env: &env, flags, ..Request::new(RequestKind::Run, id) };
        let sent = streams.and_then(|Streams { theirs, output, stdin }| {
            let Some(shell) = &self.link.shell else {
                // It is dead, and the supervisor has not reported it yet.
                self.link.unread = true;
                return Ok((output, stdin));
            };
            shell.send(&wire, theirs)?;
            Ok((output, stdin))
        });
        let (output, stdin) = match sent {
            Ok(opened) => opened,
            Err(error) => {
                self.forget_request(request.id);
                let message = format!("the command cannot be started: {error}");
                request.sink.finished(Err(Error::new(Code::EngineError, message)));
                return self.events.push_back(Event::Refused);
            }
        };
        let command = Running::new(ticket, request, begun, output, stdin);
        if let Some(timeout) = command.request.timeout {
            self.timers.set(Timer::Timeout(ticket), command.begun + timeout);
        }
        self.timers.set(Timer::Unread, command.begun + UNREAD);
        let is_live = command.request.live.is_some();
        let can_be_refused = !env.is_empty() || !cwd.is_empty();
        self.command = Some(command);
        if !can_be_refused {
            self.announce();
        }
        if is_live {
            self.register_pipes();
        } else {
            self.timers.set(Timer::Register, begun + QUICK);
            self.look_for_answer();
        }
    }

    /// The command has begun, or is sure to.
    pub(super) fn announce(&mut self) {
        let Some(command) = &mut self.command else { return };
        if std::mem::replace(&mut self.wait.announced, command.ticket) != command.ticket {
            command.request.sink.started(self.link.shell_pid.map_or(0, Pid::raw));
        }
    }

    pub(super) fn register_pipes(&mut self) {
        let Some(command) = &mut self.command else { return };
        if let Err(error) = command.register() {
            // No epoll watch can be had. The command cannot be read from, so it cannot go on.
            let text = format!("nacre: the output cannot be read: {error}\n");
            command.capture.push(1, text.as_bytes(), command.request.sink.as_mut());
            self.events.push_back(Event::Cancel(command.ticket, None));
        }
    }

    fn send_env(&mut self, ticket: Ticket) {
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

    /// Looks whether the shell has taken its request. A shell that was stopped is continued.
    pub(super) fn check_unread(&mut self) {
        let has_unread = self.link.shell.as_ref().is_some_and(|shell| shell.unread_bytes() > 0);
        // It may have been stopped with the request in its hands; no command calls recvmsg.
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

    // ---- standby ----

    fn fork_standby(&mut self, command_follows: bool) {
        self.timers.clear(Timer::Idle);
        if !self.config.uses_builtin {
            return self.events.push_back(Event::StandbyForked);
        }
        let id = self.wait.next_id();
        let mut flags = RequestFlags::STANDBY;
        if command_follows {
            flags |= RequestFlags::NO_WARM;
        }
        let group = self.make_group(&format!("s-{id}"));
        let forked = Channel::pair().and_then(|(channel, theirs)| {
            let directory = group.as_deref().map(open_directory).transpose()?;
            if directory.is_some() {
                flags |= RequestFlags::GROUP;
            }
            let shell = self.link.shell.as_ref().ok_or(io::ErrorKind::NotConnected)?;
            shell.send(&Request { flags, ..Request::new(RequestKind::Fork, id) }, [theirs].into_iter().chain(directory).map(Descriptor::from).collect())?;
            Ok(channel)
        });
        match forked {
            Ok(channel) => self.link.next_standby = Some((id, channel, group)),
            Err(error) => self.standby_failed(&error.to_string(), group),
        }
    }

    /// A group inside the session's for a fork to be born in.
    pub(super) fn make_group(&self, name: &str) -> Option<PathBuf> {
        // A shell of another user may not choose its children's groups: the supervisor moves them.
        let session = self.link.foreground.as_ref().filter(|_| self.config.user.is_none())?.parent()?;
        Group::create(session, name).ok().map(|group| group.path().to_path_buf())
    }

    /// A fork has been made, or has failed: the standby's or a process's.
    pub(super) fn forked(&mut self, id: u64, result: Result<u32, i32>, flags: ForkedFlags) {
        let placed = flags.contains(ForkedFlags::PLACED);
        let child = result.map(|pid| Pid::new(pid.cast_signed()));
        let Some((_, channel, group)) = self.link.next_standby.take_if(|(standby, ..)| *standby == id) else {
            return self.process_forked(id, child, placed);
        };
        let pid = match child {
            Ok(Some(pid)) => pid,
            Ok(None) => return self.standby_failed("an impossible pid", group),
            Err(errno) => return self.standby_failed(&io::Error::from_raw_os_error(errno).to_string(), group),
        };
        listener::expect(pid, self.reconnects.clone());
        let group = group.filter(|path| placed || std::fs::remove_dir(path).is_err());
        let group = group.filter(|_| placed).map(|path| path.display().to_string());
        self.order(&Order::Standby { pid, group });
        if let Some((_, old)) = self.link.standby.replace((channel, pid)) {
            listener::forget(old);
            self.link.retired.push(old);
        }
        self.events.push_back(Event::StandbyForked);
    }

    fn standby_failed(&mut self, reason: &str, group: Option<PathBuf>) {
        tracing::warn!(log = self.config.log.id(), session = %self.config.id, reason, "no standby can be forked");
        if let Some(group) = group {
            let _ = std::fs::remove_dir(group);
        }
        self.timers.set(Timer::ForkPauseOver, Instant::now() + FORK_PAUSE);
        self.events.push_back(Event::ForkFailed);
    }

    /// The shell is dead: the standby it was asked for never comes.
    pub(super) fn drop_unforked_standby(&mut self) {
        if let Some((_, _, Some(group))) = self.link.next_standby.take() {
            let _ = std::fs::remove_dir(group);
        }
    }

    /// After an event: a standby is due when the session stays idle.
    pub(super) fn schedule_standby(&mut self) {
        let due = self.state.shell == Shell::Idle && !self.state.standby.fresh && !self.state.standby.paused;
        if !due {
            self.timers.clear(Timer::Idle);
        } else if !self.timers.is_set(Timer::Idle) {
            self.timers.set(Timer::Idle, Instant::now() + IDLE_BEFORE_STANDBY);
        }
    }

    fn promote(&mut self) {
        if !self.config.uses_builtin {
            return self.events.push_back(Event::ShellDied { unread: false });
        }
        tracing::warn!(log = self.config.log.id(), session = %self.config.id, "the shell died; its standby takes over");
        let Some((channel, pid)) = self.link.standby.take() else {
            return self.events.push_back(Event::ShellDied { unread: false });
        };
        self.ask(&Order::Promote);
        let sent = channel.send(&Request { ..Request::new(RequestKind::Promote, self.wait.status) }, Vec::new());
        self.link.shell = Some(channel);
        self.link.shell_pid = Some(pid);
        if sent.is_err() {
            self.order(&Order::KillShell);
        }
    }

    // ---- isolation ----

    fn isolate(&mut self) {
        if self.link.foreground.is_none() {
            self.wait.spare = self.older_roots();
        }
        if self.has_strangers() {
            // Moving the shell can take the kernel milliseconds. Perhaps these are only on their way out.
            self.timers.set(Timer::Leaving, Instant::now() + LEAVING);
        } else {
            self.events.push_back(Event::Isolated);
        }
    }

    pub(super) fn isolate_again(&mut self) {
        if self.has_strangers() {
            self.ask(&Order::Rotate);
        } else {
            self.events.push_back(Event::Isolated);
        }
    }

    pub(super) fn has_strangers(&mut self) -> bool {
        let Some(Ok(members)) = self.link.foreground.as_ref().map(|group| Group::at(group).members()) else {
            return false;
        };
        self.link.retired.retain(|pid| members.contains(pid));
        let standby = self.link.standby.as_ref().map(|(_, pid)| *pid);
        members.iter().any(|pid| {
            Some(*pid) != self.link.shell_pid && Some(*pid) != standby && !self.link.retired.contains(pid)
        })
    }

    /// Children of the shell and orphans, which earlier commands have left.
    pub(super) fn older_roots(&self) -> Vec<Pid> {
        let standby = self.link.standby.as_ref().map(|(_, pid)| *pid);
        let parents = self.link.shell_pid.into_iter().chain(self.link.supervisor.as_ref().map(Supervisor::pid));
        let children = parents.flat_map(proc_table::children);
        children.filter(|pid| Some(*pid) != self.link.shell_pid && Some(*pid) != standby).take(4096).collect()
    }

    // ---- killing ----

    fn kill(&mut self, cause: Cause, signal: Option<i32>) {
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

    /// The grace time is over before its time.
    fn insist(&mut self) {
        self.order(&Order::Insist);
        if let Some(ticket) = self.state.running().map(|run| run.ticket) {
            self.timers.set(Timer::Overdue(ticket), Instant::now() + SHELL_EXTRA);
        }
    }

    /// The supervisor owes an answer: one that was stopped is continued.
    pub(super) fn check_supervisor(&mut self) {
        let Some(supervisor) = self.link.supervisor.as_ref().filter(|_| self.wait.report) else { return };
        let stat = Stat::read(supervisor.pid());
        if let Some(Stat { identity: Identity { .. }, state: b'T' | b't', .. }) = stat {
            tracing::warn!(log = self.config.log.id(), session = %self.config.id, "the supervisor was stopped and is continued");
            let _ = signal::send_to_child(supervisor.pid(), libc::SIGCONT);
        }
        self.timers.set(Timer::Supervisor, Instant::now() + SUPERVISOR_ANSWER);
    }

    // ---- ends ----

    fn answer(&mut self, ticket: Ticket, answer: Answer) {
        for timer in [Timer::Timeout(ticket), Timer::Overdue(ticket), Timer::Register, Timer::Unread] {
            self.timers.clear(timer);
        }
        if let Some(command) = self.command.take_if(|command| command.ticket == ticket) {
            self.quick = super::spinning::is_quick(command.begun.elapsed());
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

    fn salvage(&mut self) {
        self.processes.lose_all(&self.config.id);
        self.link.shell_pid.into_iter().for_each(listener::forget);
        let link = std::mem::take(&mut self.link);
        let session = link.foreground.as_ref().and_then(|group| group.parent()).map(Group::at);
        salvage::start(link.standby, self.last_supervisor, session, self.internal.clone());
    }

    fn shutdown(&mut self) {
        let grace = self.closing.as_ref().map_or(Duration::ZERO, |(grace, _)| *grace);
        self.processes.refuse_starting(|| Error::session_destroyed(&self.config.id));
        self.timers = super::timers::Timers::default();
        if self.link.supervisor.is_none() {
            return self.events.push_back(Event::SupervisorGone { unread: false, orderly: true });
        }
        self.ask(&Order::Shutdown { grace_ms: grace.as_millis() as u64 });
    }
}



fn spawn_failed(doing: &str, error: &io::Error) -> Error {
    Error::new(Code::SpawnFailed, format!("cannot {doing}: {error}"))
}
