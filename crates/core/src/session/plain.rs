//! The plain engine, for a bash that cannot load the builtin. Each command runs in a new bash, which restores the
//! session's state first and dumps it at the end ([`plain_script`]). That state does not include jobs and open
//! descriptors. A killed command does not change it.
//!
//! The shell's state machine is the same. Starting a shell succeeds immediately, a command's bash is the shell while
//! that command runs, and there is no standby.

use super::actor::Session;
use super::calls::Call;
use super::commands::{not_started, read_only};
use super::engine::{PlainShell, Purpose};
use super::foreground::{ForegroundCommand, Refused};
use super::loan::Sent;
use super::streams::{Streams, null_streams};
use super::timers::{HELLO, Timer};
use crate::error::{Code, Error};
use crate::exec::Command;
use crate::link::Descriptor;
use crate::shell::channel::Received;
use crate::shell::event::{Action, Event};
use crate::shell::plain_script::{self, Plan};
use crate::shell::plain_state::{ReadOnly, Report as Dump, Scope, Snapshot};
use crate::shell::state::Ticket;
use crate::supervisor::WITHHELD;
use crate::sys;
use nacre_protocol::shell::{Lost, Refusal, Reply};
use nacre_protocol::supervisor::{Order, Report, Role, StartStep};
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use tokio::time::Instant;

/// Maximum size of a dump. A larger dump is not read, and the command's changes are lost.
const LONGEST_DUMP: u64 = 64 << 20;

impl Session {
    /// Performs an action. Only those that need a shell differ.
    pub(super) fn perform_plain(&mut self, action: Action) {
        match action {
            Action::SetUp => self.plain_set_up(),
            Action::ForkStandby { .. } => {
                self.cx.timers.clear(Timer::Idle);
                self.cx.events.push_back(Event::StandbyForked);
            }
            Action::ForkProcess(ticket, _) => {
                if let Some(Call::Start(request)) = self.calls.take(ticket) {
                    self.launch_process(*request);
                }
            }
            Action::Run(ticket) => self.plain_run(ticket),
            Action::SetEnv(ticket) => self.plain_set_env(ticket),
            // The host has the state.
            Action::LoseState => {}
            Action::Promote => self.cx.events.push_back(Event::Promoted),
            Action::Detach(ticket) => {
                if self.detach_command(ticket) {
                    // What the command changes does not reach the session.
                    self.engine.plain.leave();
                    self.cx.events.push_back(Event::Promoted);
                }
            }
            common => self.perform_with_builtin(common),
        }
    }

    /// Handles a supervisor's report about a shell or the start of a process. Returns other reports.
    pub(super) fn take_plain_report(&mut self, report: Report) -> Option<Report> {
        match report {
            Report::Started { key: None, identity, group } => {
                self.shell.started(identity.pid);
                self.supervision.set_foreground_group(group);
                self.plain_started();
            }
            Report::StartFailed { key: None, step, errno, detail } => self.plain_not_started(step, errno, &detail),
            Report::Started { key: Some(key), identity, group } => self.plain_process_started(key, identity, group),
            Report::StartFailed { key: Some(key), step, errno, detail } => {
                self.plain_process_failed(key, step, errno, &detail);
            }
            Report::ShellEnded { pid, code, signal } if self.shell.pid() == Some(pid) => {
                self.shell.ended();
                self.plain_ended(code, signal);
            }
            Report::Detached { key, identity, group, foreground } => {
                self.supervision.use_foreground_group(self.shell.pid(), foreground);
                self.detached(key, identity, group);
            }
            other => return Some(other),
        }
        None
    }

    /// Gets the first state from a bash that runs nothing, which also checks that bash exists.
    pub(super) fn plain_set_up(&mut self) {
        self.cx.timers.clear(Timer::Hello);
        if self.engine.plain.state.is_some() {
            return self.cx.events.push_back(Event::SetUp);
        }
        self.cx.timers.set(Timer::Hello, Instant::now() + HELLO);
        if self.engine.version.is_empty() {
            return self.ask_version();
        }
        let withheld = self.cx.config.env.iter().rfind(|(name, _)| name == WITHHELD);
        let value = withheld.map(|(_, value)| value.to_string_lossy().into_owned());
        let text = value.map(|value| format!("export {WITHHELD}={}", quoted(&value))).unwrap_or_default();
        let script = plain_script::command(&Plan::default(), &Command::Text(text.into_bytes()));
        let started = null_streams()
            .and_then(|streams| self.start_plain(plain_script::arguments(), &script, streams, Purpose::FirstState));
        if let Err(error) = started {
            self.fail(Error::cannot("set the shell up", &error));
        }
    }

    /// Asks the shell for its version: plain mode has no handshake, and a shell that ended before its handshake is not
    /// bash, is too old, or cannot load builtins.
    ///
    /// The supervisor starts the shell, as it starts everything that the session's user may have written.
    pub(super) fn ask_version(&mut self) {
        let asked = null_streams()
            .and_then(|streams| self.start_plain(plain_script::version_arguments(), b"", streams, Purpose::Version));
        if let Err(error) = asked {
            self.fail(Error::cannot("ask the shell for its version", &error));
        }
    }

    fn start_plain(
        &mut self,
        arguments: Vec<String>,
        script: &[u8],
        streams: Vec<Descriptor>,
        purpose: Purpose,
    ) -> io::Result<()> {
        let (text, dump) = (sys::memory_file()?, sys::memory_file()?);
        sys::replace_contents(&text, script)?;
        let descriptors =
            streams.into_iter().chain([text.try_clone()?, dump.try_clone()?].map(Descriptor::from)).collect();
        let order =
            Order::Start { role: Role::Command, arguments, first_descriptor: 0, anywhere: self.engine.has_state() };
        self.supervision.order_with(&mut self.cx, &order, descriptors);
        self.engine.plain.shell = Some(PlainShell { script: text, dump, purpose });
        Ok(())
    }

    /// Runs a command in a new bash.
    fn plain_run(&mut self, ticket: Ticket) {
        let Some(Call::Exec(request, _)) = self.calls.take(ticket) else { return };
        self.cx.timers.clear(Timer::Idle);
        if request.terminal.is_some() {
            let message = "the session cannot give its command a terminal in plain mode: use startProcess";
            return self.not_sent(ticket, *request, Error::new(Code::TerminalUnavailable, message));
        }
        let begun = Instant::now();
        let scope =
            Scope { names: request.env.iter().map(|(name, _)| name.clone()).collect(), cwd: request.cwd.is_some() };
        let script = self.plain_script(&request.env, request.cwd.as_deref(), [None, None], |plan| {
            plain_script::command(plan, &request.command)
        });
        // Jobs of earlier commands stay in their group.
        let isolated = self.isolate_plain().map_err(not_started);
        let opened = isolated.and(script).and_then(|script| {
            let Streams { theirs, output, stdin } =
                Streams::open(&request.input, None, request.merge_output).map_err(not_started)?;
            self.start_plain(plain_script::arguments(), &script, theirs, Purpose::Command(scope))
                .map_err(not_started)?;
            Ok((output, stdin))
        });
        let (output, stdin) = match opened {
            Ok(opened) => opened,
            Err(error) => return self.not_sent(ticket, *request, error),
        };
        let limit = self.calls.end_of_wait(ticket);
        let sent = Sent::new(self.cx.numbers.command(), begun, output, stdin);
        let command = ForegroundCommand::new(ticket, request, limit, sent);
        if let Some(deadline) = command.deadline() {
            self.cx.timers.set(Timer::Timeout(ticket), deadline);
        }
        self.foreground.begin(command);
    }

    /// Handles the start of a command's bash, which is reported before any output.
    fn plain_started(&mut self) {
        self.announce_command();
        self.watch_output();
    }

    fn isolate_plain(&mut self) -> io::Result<()> {
        self.spare_older_roots()?;
        if self.may_have_strangers() {
            self.supervision.ask(&mut self.cx, &Order::Rotate);
        }
        Ok(())
    }

    pub(super) fn plain_script(
        &self,
        env: &[(String, Option<String>)],
        cwd: Option<&Path>,
        limits: [Option<u64>; 2],
        make: impl FnOnce(&Plan<'_>) -> Vec<u8>,
    ) -> Result<Vec<u8>, Error> {
        let state = self.engine.plain.state.as_ref().map(|state| state.with_env(env)).transpose();
        let state = state.map_err(|refused| read_only(&refused))?;
        let inherited = self.cx.config.env.iter().filter_map(|(name, _)| name.to_str()).collect();
        Ok(make(&Plan { state: state.as_ref(), inherited, cwd, status: self.engine.plain.status, limits }))
    }

    /// Sets variables in the state, without a process.
    fn plain_set_env(&mut self, ticket: Ticket) {
        let Some(Call::SetEnv { vars, .. }) = self.calls.get(ticket) else { return };
        match self.engine.plain.state.as_ref().map(|state| state.with_env(vars)) {
            Some(Err(ReadOnly(name))) => {
                self.foreground.refuse(Refused { reason: Refusal::ReadOnly, errno: 0, about: name });
                self.cx.events.push_back(Event::Refused(ticket));
            }
            changed => {
                self.engine.plain.state = changed.and_then(Result::ok).or(self.engine.plain.state.take());
                self.cx.events.push_back(Event::Done {
                    ticket,
                    status: self.engine.plain.status,
                    exited: false,
                    state_kept: false,
                    forked: false,
                });
            }
        }
    }

    /// Handles the end of a command's shell, or of the first one.
    fn plain_ended(&mut self, code: Option<i32>, signal: Option<i32>) {
        let Some(PlainShell { dump, purpose, .. }) = self.engine.plain.shell.take() else { return };
        let bytes = read_dump(&dump);
        let (scope, is_first) = match purpose {
            Purpose::Version => return self.version_known(String::from_utf8_lossy(&bytes).into_owned()),
            Purpose::FirstState => (Scope::default(), true),
            Purpose::Command(scope) => (scope, false),
        };
        let status = code.or(signal.map(|signal| 128 + signal)).unwrap_or(0);
        if bytes == [plain_script::CANNOT_ENTER] {
            self.foreground.refuse(Refused { reason: Refusal::Cwd, errno: 0, about: String::new() });
            return self.refused_by_shell();
        }
        let Some(dump) = Dump::parse(&bytes) else {
            if is_first {
                let message = format!("'{}' does not write its state down", self.cx.config.shell.display());
                return self.fail(Error::new(Code::SpawnFailed, message));
            }
            if self.foreground.command().is_some() {
                self.engine.plain.status = status;
            }
            self.foreground.shell_ended(code, signal);
            return self.end_command(Event::ShellDied { unread: false }, true, true);
        };
        let exited = dump.exited;
        let reason = "the new bash refuses it";
        let lost =
            dump.lost.iter().map(|(kind, name)| Lost { kind: kind.clone(), name: name.clone(), reason: reason.into() });
        self.engine.recovery.lose(lost);
        if !dump.unparsed {
            let state = Snapshot::after(dump, self.engine.plain.state.as_ref(), &scope);
            self.cx.cwd = PathBuf::from(OsString::from_vec(state.cwd().to_vec()));
            self.engine.plain.state = Some(state);
        }
        if is_first {
            self.cx.timers.clear(Timer::Hello);
            return self.cx.events.push_back(Event::SetUp);
        }
        self.engine.plain.status = status;
        if let Some(ticket) = self.take_owed() {
            let end = Event::Done { ticket, status, exited, state_kept: false, forked: true };
            self.end_command(end, true, true);
        }
    }

    /// Handles a failed start of a command's bash. The session continues.
    fn plain_not_started(&mut self, step: StartStep, errno: i32, detail: &str) {
        self.engine.plain.shell = None;
        let ticket = self.foreground.command().map(|command| command.ticket());
        let Some(command) = ticket.and_then(|ticket| self.foreground.take(ticket)) else {
            return self.start_failed(step, errno, detail);
        };
        let ticket = command.ticket();
        self.clear_command_timers(ticket);
        self.not_sent(ticket, *command.into_request(), self.start_error(step, errno, detail));
    }
}

pub(super) fn quoted(text: &str) -> String {
    String::from_utf8_lossy(&crate::shell::plain_state::quote(text.as_bytes())).into_owned()
}

/// Reads a dump. Empty if it is too long or unreadable.
pub(super) fn read_dump(dump: &OwnedFd) -> Vec<u8> {
    let length = sys::length(dump).unwrap_or(u64::MAX);
    if length > LONGEST_DUMP { Vec::new() } else { sys::contents(dump).unwrap_or_default() }
}

/// The report of a starting process, in the builtin's format.
pub(super) async fn first_letter(ready: OwnedFd) -> Received {
    let mut letter = Vec::with_capacity(1);
    if let Ok(ready) = sys::watch(ready) {
        let _ = sys::read_next(&ready, &mut letter, 1).await;
    }
    let refused =
        |reason, about: &str| Received::Reply(Reply::Refused { id: 0, reason, errno: 0, about: about.into() });
    match letter.first() {
        Some(&plain_script::BEGINS) => Received::Reply(Reply::Begun { id: 0, pid: 0 }),
        Some(&plain_script::CANNOT_ENTER) => refused(Refusal::Cwd, ""),
        Some(&plain_script::CANNOT_LIMIT_FILES) => refused(Refusal::Limit, "openFiles"),
        Some(&plain_script::CANNOT_LIMIT_PROCESSES) => refused(Refusal::Limit, "pids"),
        _ => Received::Closed { unread: false },
    }
}
