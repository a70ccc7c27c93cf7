//! Starts a working shell: supervisor, shell, handshake, setup.

use super::Session;
use super::streams::null_streams;
use super::timers::Timer;
use crate::capabilities;
use crate::error::{Code, Error};
use crate::shell::channel::Channel;
use crate::shell::event::Event;
use crate::shell::state::Shell;
use crate::shell::{launch, listener};
use crate::supervisor::{Supervisor, WITHHELD};
use nacre_containment::cgroup::Group;
use nacre_protocol::shell::{Request, RequestFlags, RequestKind};
use nacre_protocol::supervisor::{Order, Role, StartStep};
use std::io;
use std::time::Duration;
use tokio::time::Instant;

/// Time limit for a shell's handshake, and for its set-up.
pub(super) const HELLO: Duration = Duration::from_secs(20);

impl Session {
    pub(super) fn start_session(&mut self) {
        self.failure = None;
        if self.decides_isolation() {
            return;
        }
        self.abandon_supervisor();
        self.forget_spare_group();
        let number = self.supervision.next_number();
        let group = self.config.group.as_ref().map(|(parent, name)| Group::at(parent.join(format!("{name}-{number}"))));
        let mark = self.config.marks.next();
        match Supervisor::start(&self.config, group.as_ref(), mark) {
            Ok(supervisor) => {
                tracing::debug!(log = self.config.log.id(), session = %self.config.id, supervisor = %supervisor.pid(), "started a supervisor");
                self.supervision.begin(supervisor, group, mark);
                match self.confine() {
                    Ok(()) => self.start_shell(self.recovery.has_checkpoint()),
                    Err(error) => self.fail(spawn_failed("write the session's rules", &error)),
                }
            }
            Err(error) => {
                self.fail(spawn_failed(&format!("run {}", self.config.supervisor.display()), &error));
            }
        }
    }

    /// Starts the shell; `anywhere`: in `/` if its directory cannot be entered.
    pub(super) fn start_shell(&mut self, anywhere: bool) {
        if self.plain.is_engine() {
            return self.events.push_back(Event::Hello);
        }
        let opened =
            Channel::pair().and_then(|(channel, theirs)| Ok((channel, vec![theirs.into(), launch::object()?.into()])));
        let (channel, descriptors) = match opened {
            Ok(opened) => opened,
            Err(error) => return self.fail(spawn_failed("open the shell's channel", &error)),
        };
        self.shell.open(channel);
        let order = Order::Start {
            role: Role::Shell,
            arguments: launch::arguments(),
            first_descriptor: launch::FIRST_DESCRIPTOR,
            anywhere,
        };
        self.order_with(&order, descriptors);
        self.timers.set(Timer::Hello, Instant::now() + HELLO);
    }

    pub(super) fn start_failed(&mut self, step: StartStep, errno: i32, detail: &str) {
        self.fail(self.start_error(step, errno, detail));
    }

    /// The error for a bash that cannot be started.
    pub(super) fn start_error(&self, step: StartStep, errno: i32, detail: &str) -> Error {
        let reason = io::Error::from_raw_os_error(errno);
        let shell = self.config.shell.display();
        let cwd = self.config.cwd.display();
        match step {
            StartStep::Prepare if errno == libc::ETIMEDOUT => {
                let paths = format!("the working directory '{cwd}', the shell {shell} or a path of the isolation");
                Error::new(Code::SpawnFailed, format!("cannot start the shell: {paths} does not respond"))
            }
            StartStep::Isolation => self.isolation_error(errno, detail),
            StartStep::Cwd => Error::cwd(&self.config.cwd, errno),
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

    /// Handles the end of a supervisor before its setup. If no later attempt succeeds, the call fails with this reason.
    pub(super) fn supervisor_complained(&mut self, complaint: &str) {
        let supervisor = self.config.supervisor.display();
        let message = format!("the supervisor {supervisor} ended before it could start the shell: {complaint}");
        self.failure = Some(Error::new(Code::SpawnFailed, message));
    }

    /// Gives up the start. A session that is being closed waits for its supervisor's end instead.
    pub(super) fn fail(&mut self, error: Error) {
        self.failure = Some(error);
        if self.state.shell == Shell::Closing {
            return;
        }
        self.abandon_supervisor();
        self.timers.clear(Timer::Hello);
        self.events.push_back(Event::StartFailed);
    }

    /// Drops the supervisor, if there is one. It ends with the link, and everything below it.
    pub(super) fn abandon_supervisor(&mut self) {
        let lost = self.lose_processes();
        self.supervision.abandon(lost);
        self.disconnect();
    }

    pub(super) fn hello_overdue(&mut self) {
        if matches!(self.state.shell, Shell::Starting | Shell::SettingUp) {
            let shell = self.config.shell.display();
            let seconds = HELLO.as_secs();
            let message = if self.supervision.is_silent() {
                let supervisor = self.config.supervisor.display();
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
        match capabilities::check_version(&self.config.shell, &version) {
            Err(error) => self.fail(error.into()),
            Ok(()) if !self.plain.is_engine() => {
                tracing::warn!(
                    log = self.config.log.id(),
                    session = %self.config.id,
                    "bash {version} cannot load the builtin; each command runs in its own bash"
                );
                self.version = version;
                self.plain.become_engine();
                self.shell.close();
                self.start_shell(false);
            }
            Ok(()) => {
                self.version = version;
                self.plain_set_up();
            }
        }
    }

    pub(super) fn set_up_ended(&mut self) {
        self.shell.set_up(false);
        self.timers.clear(Timer::Hello);
    }

    pub(super) fn set_up(&mut self) {
        let withheld = self.config.env.iter().rfind(|(name, _)| name == WITHHELD);
        let env =
            withheld.map(|(name, value)| [name.as_encoded_bytes(), b"=", value.as_encoded_bytes(), b"\0"].concat());
        let request = match (self.recovery.next_checkpoint(), &env) {
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
        self.timers.clear(Timer::Hello);
        let send = || {
            shell.send(&Request { text: name, ..Request::new(RequestKind::Listener, 0) }, Vec::new())?;
            if let Some((request, streams)) = request {
                shell.send(&request, streams?)?;
            }
            Ok::<(), io::Error>(())
        };
        if let Err(error) = send() {
            return self.fail(spawn_failed("set the shell up", &error));
        }
        self.shell.set_up(has_request);
        if has_request {
            self.recovery.attempted();
            self.timers.set(Timer::Hello, Instant::now() + HELLO);
        } else {
            self.events.push_back(Event::SetUp);
        }
    }
}

pub(super) fn spawn_failed(doing: &str, error: &io::Error) -> Error {
    Error::new(Code::SpawnFailed, format!("cannot {doing}: {error}"))
}
