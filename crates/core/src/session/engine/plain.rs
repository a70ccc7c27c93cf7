//! The plain engine, for a bash that cannot load the builtin. Each command runs in a new bash, which restores the
//! session's state first and dumps it at the end ([`plain_script`]). That state does not include jobs and open
//! descriptors. A killed command does not change it.
//!
//! The shell's state machine is the same. Starting a shell succeeds immediately, a command's bash is the shell while
//! that command runs, and there is no standby.

use super::{Plain, PlainShell, Purpose};
use crate::error::{Code, Error};
use crate::exec::{Command, ExecRequest};
use crate::link::Descriptor;
use crate::session::actor::Session;
use crate::session::calls::Call;
use crate::session::context::Context;
use crate::session::errors::{not_started, read_only};
use crate::session::foreground::Refused;
use crate::session::loan::Sent;
use crate::session::saved::Saved;
use crate::session::streams::{Streams, null_streams};
use crate::session::supervision::Supervision;
use crate::session::timers::{HELLO, Timer};
use crate::shell::channel::Received;
use crate::shell::event::{Action, Event};
use crate::shell::plain_script::{self, Plan};
use crate::shell::plain_state::{ReadOnly, Report as Dump, Scope, Snapshot, quote};
use crate::shell::state::Ticket;
use crate::supervisor::WITHHELD;
use crate::sys;
use nacre_protocol::message;
use nacre_protocol::shell::portable::Variables;
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

impl Plain {
    pub(super) fn has_state(&self) -> bool {
        self.state.is_some() || self.untried.as_ref().is_some_and(|checkpoint| checkpoint.items.is_some())
    }

    /// Completes a state that began elsewhere.
    pub(super) fn inherit(&mut self, env: &Variables, own: &[Vec<u8>]) {
        self.state = self.state.take().map(|state| state.with_inherited(env, own));
        if let Some(untried) = &mut self.untried {
            untried.inherit(env, own);
        }
    }

    /// Forgets the running shell: its supervisor is gone, or it belongs to a process now.
    pub(super) fn leave(&mut self) {
        self.shell = None;
    }

    /// Called when the supervisor is dead. True if the shell had read nothing of its script, so that the command has
    /// not run. Leaves nothing to read, so the command never will.
    pub fn leave_unread(&mut self) -> bool {
        self.shell.take().is_some_and(|shell| {
            sys::replace_contents(&shell.script, b"").is_ok() && sys::position(&shell.script).is_ok_and(|at| at == 0)
        })
    }

    /// The script of a command or process, made for the state with these variables.
    pub fn script(
        &self,
        cx: &Context,
        env: &[(String, Option<String>)],
        cwd: Option<&Path>,
        limits: [Option<u64>; 2],
        make: impl FnOnce(&Plan<'_>) -> Vec<u8>,
    ) -> Result<Vec<u8>, Error> {
        let state = self.state.as_ref().map(|state| state.with_env(env)).transpose();
        let state = state.map_err(|refused| read_only(&refused))?;
        let inherited = cx.config.env.iter().filter_map(|(name, _)| name.to_str()).collect();
        Ok(make(&Plan { state: state.as_ref(), inherited, cwd, status: self.status, limits }))
    }

    /// Starts the bash of a background process. Returns where its script writes [how it begins](first_letter).
    pub fn launch(
        &self,
        cx: &mut Context,
        supervision: &Supervision,
        script: &[u8],
        mut streams: Vec<Descriptor>,
        role: Role,
    ) -> io::Result<OwnedFd> {
        let text = sys::memory_file()?;
        sys::replace_contents(&text, script)?;
        let (ready, theirs) = sys::pipe()?;
        sys::set_nonblocking(&ready)?;
        let arguments = plain_script::process_arguments(matches!(role, Role::Process { terminal: true, .. }));
        let order = Order::Start { role, arguments, first_descriptor: 0, anywhere: self.has_state() };
        // The script finds its own descriptors behind the streams, and the command that of its messages behind those.
        streams.splice(3..3, [text, theirs].map(Descriptor::from));
        supervision.order_with(cx, &order, streams);
        Ok(ready)
    }
}

impl Session {
    /// Performs an action. Only those that need a shell differ.
    pub fn perform_plain(&mut self, action: Action) {
        match action {
            Action::SetUp => self.plain_set_up(),
            Action::ForkStandby { .. } => {
                self.cx.timers.clear(Timer::Idle);
                self.cx.events.push_back(Event::StandbyForked);
            }
            Action::ForkProcess(ticket, _) => self.launch_process(ticket),
            Action::Run(ticket) => {
                let Some(Call::Exec(request, _)) = self.calls.take(ticket) else { return };
                self.cx.timers.clear(Timer::Idle);
                match self.plain_send(&request) {
                    Ok(sent) => self.begin_command(ticket, request, sent),
                    Err(error) => self.not_sent(ticket, *request, error),
                }
            }
            Action::SetEnv(ticket) => self.plain_set_env(ticket),
            // The host has the state.
            Action::LoseState => {}
            Action::Promote => self.cx.events.push_back(Event::Promoted),
            Action::Detach(ticket) => {
                if self.detach_command(ticket) {
                    // What the command changes does not reach the session.
                    self.engine.plain().into_iter().for_each(Plain::leave);
                    self.cx.events.push_back(Event::Promoted);
                }
            }
            common => self.perform_with_builtin(common),
        }
    }

    /// Handles a supervisor's report about a shell of the plain engine. Returns other reports.
    pub fn take_plain_report(&mut self, report: Report) -> Option<Report> {
        match report {
            other if self.engine.plain().is_none() => return Some(other),
            Report::Started { key: None, identity, group } => {
                self.shell.started(identity.pid);
                self.supervision.set_foreground_group(group);
                // It is reported before any output.
                self.announce_command();
                self.foreground.watch_output(&mut self.cx);
            }
            Report::StartFailed { key: None, step, errno, detail } => self.plain_not_started(step, errno, &detail),
            Report::ShellEnded { pid, code, signal } if self.shell.pid() == Some(pid) => {
                self.shell.ended();
                self.plain_ended(code, signal);
            }
            other => return Some(other),
        }
        None
    }

    /// Gets the first state from a bash that runs nothing, which also checks that bash exists.
    pub fn plain_set_up(&mut self) {
        self.cx.timers.clear(Timer::Hello);
        self.engine.inherit(&self.cx.config.env);
        if self.engine.plain().is_some_and(|plain| plain.state.is_some()) {
            return self.cx.events.push_back(Event::SetUp);
        }
        self.cx.timers.set(Timer::Hello, Instant::now() + HELLO);
        if self.engine.version.is_empty() {
            return self.ask_version();
        }
        let withheld = self.cx.config.env.iter().rfind(|(name, _)| name == WITHHELD);
        let export = |(_, value): &(OsString, OsString)| {
            [b"export ", WITHHELD.as_bytes(), b"=", &quote(value.to_string_lossy().as_bytes())].concat()
        };
        let command = Command::Text(withheld.map(export).unwrap_or_default());
        let script = plain_script::command(&Plan::default(), &command);
        let started = null_streams().and_then(|streams| self.start_plain(&script, streams, Purpose::FirstState));
        if let Err(error) = started {
            self.fail(Error::cannot("set the shell up", &error));
        }
    }

    /// Asks the shell for its version: plain mode has no handshake, and a shell that ended before its handshake is not
    /// bash, is too old, or cannot load builtins.
    ///
    /// The supervisor starts the shell, as it starts everything that the session's user may have written.
    pub fn ask_version(&mut self) {
        let asked = null_streams().and_then(|streams| self.start_plain(b"", streams, Purpose::Version));
        if let Err(error) = asked {
            self.fail(Error::cannot("ask the shell for its version", &error));
        }
    }

    fn start_plain(&mut self, script: &[u8], streams: Vec<Descriptor>, purpose: Purpose) -> io::Result<()> {
        let (text, dump) = (sys::memory_file()?, sys::memory_file()?);
        sys::replace_contents(&text, script)?;
        let own = [text.try_clone()?, dump.try_clone()?].map(Descriptor::from);
        let arguments = match purpose {
            Purpose::Version => plain_script::version_arguments(),
            Purpose::FirstState | Purpose::Command(_) => plain_script::arguments(),
        };
        let order =
            Order::Start { role: Role::Command, arguments, first_descriptor: 0, anywhere: self.engine.has_state() };
        self.supervision.order_with(&mut self.cx, &order, streams.into_iter().chain(own).collect());
        if let Some(plain) = self.engine.plain() {
            plain.shell = Some(PlainShell { script: text, dump, purpose });
        }
        Ok(())
    }

    /// Starts a new bash for a command.
    fn plain_send(&mut self, request: &ExecRequest) -> Result<Sent, Error> {
        if request.terminal.is_some() {
            let message = "the session cannot give its command a terminal in plain mode: use startProcess";
            return Err(Error::new(Code::TerminalUnavailable, message));
        }
        let begun = Instant::now();
        let Some(plain) = self.engine.plain() else { return Err(Error::engine_failed()) };
        let make = |plan: &Plan<'_>| plain_script::command(plan, &request.command);
        let script = plain.script(&self.cx, &request.env, request.cwd.as_deref(), [None, None], make)?;
        // Jobs of earlier commands stay in their group.
        self.look_up_older().map_err(not_started)?;
        if self.shares_foreground() {
            self.supervision.ask(&mut self.cx, &Order::Rotate);
        }
        let names = request.env.iter().map(|(name, _)| name.clone()).collect();
        let scope = Scope { names, cwd: request.cwd.is_some() };
        let Streams { theirs, output, stdin } =
            Streams::open(&request.input, None, request.merge_output).map_err(not_started)?;
        let traced = request.is_traced.then_some(request.id);
        self.enclosure.denials().iter().for_each(|denials| denials.begin_command(traced));
        self.start_plain(&script, theirs, Purpose::Command(scope)).map_err(not_started)?;
        Ok(Sent::new(self.foreground.number(), begun, output, stdin))
    }

    /// Sets variables in the state, without a process.
    fn plain_set_env(&mut self, ticket: Ticket) {
        let (Some(Call::SetEnv { vars, .. }), Some(plain)) = (self.calls.get(ticket), self.engine.plain()) else {
            return;
        };
        let event = match plain.state.as_ref().map(|state| state.with_env(vars)).transpose() {
            Err(ReadOnly(name)) => {
                self.foreground.refuse(Refused { reason: Refusal::ReadOnly, errno: 0, about: name });
                Event::Refused(ticket)
            }
            Ok(changed) => {
                plain.state = changed;
                let status = plain.status;
                self.share_state();
                Event::Done { ticket, status, exited: false, state_kept: false, forked: false }
            }
        };
        self.cx.events.push_back(event);
    }

    /// Lets the supervisor write the state when this process has ended, if the session is kept.
    fn share_state(&mut self) {
        let Some(status) = self.engine.plain().filter(|_| self.cx.config.kept.is_some()).map(|plain| plain.status)
        else {
            return;
        };
        let number = self.cx.config.next_state();
        let env = self.cx.config.env.clone();
        let saved = Saved::new(number, self.engine.next_state(), status as u64, &self.cx.cwd, env);
        let shared = message::encode(&saved).and_then(|bytes| {
            let file = sys::memory_file()?;
            sys::replace_contents(&file, &bytes)?;
            Ok(file)
        });
        match shared {
            Ok(file) => self.supervision.order_with(&mut self.cx, &Order::Saved { number }, vec![file.into()]),
            Err(error) => {
                tracing::warn!(log = self.cx.config.log.id(), session = %self.cx.config.id, "the state cannot be passed on: {error}");
            }
        }
    }

    /// Handles the end of a command's shell, or of the first one.
    fn plain_ended(&mut self, code: Option<i32>, signal: Option<i32>) {
        let Some(plain) = self.engine.plain() else { return };
        let Some(PlainShell { dump, purpose, .. }) = plain.shell.take() else { return };
        let bytes = read_dump(&dump);
        let (scope, is_first) = match purpose {
            Purpose::Version => return self.version_known(String::from_utf8_lossy(&bytes).into_owned()),
            Purpose::FirstState => (Scope::default(), true),
            Purpose::Command(scope) => (scope, false),
        };
        if bytes == [plain_script::CANNOT_ENTER] {
            self.foreground.refuse(Refused { reason: Refusal::Cwd, errno: 0, about: String::new() });
            return self.refused_by_shell();
        }
        let status = code.or(signal.map(|signal| 128 + signal)).unwrap_or(0);
        if !is_first {
            plain.status = status;
        }
        let Some(dump) = Dump::parse(&bytes) else {
            if is_first {
                let message = format!("'{}' does not write its state down", self.cx.config.shell.display());
                return self.fail(Error::new(Code::SpawnFailed, message));
            }
            self.share_state();
            self.foreground.shell_ended(code, signal);
            return self.end_command(Event::ShellDied { unread: false }, true, true);
        };
        let (exited, lost) = (dump.exited, dump.lost.clone());
        if !dump.unparsed {
            let state = Snapshot::after(dump, plain.state.as_ref(), &scope);
            self.cx.cwd = PathBuf::from(OsString::from_vec(state.cwd().to_vec()));
            plain.state = Some(state);
        }
        self.share_state();
        let lost = lost.into_iter().map(|(kind, name)| Lost { kind, name, reason: "the new bash refuses it".into() });
        self.engine.lose(lost);
        if is_first {
            self.cx.timers.clear(Timer::Hello);
            return self.cx.events.push_back(Event::SetUp);
        }
        if let Some(ticket) = self.take_owed() {
            let end = Event::Done { ticket, status, exited, state_kept: false, forked: true };
            self.end_command(end, true, true);
        }
    }

    /// Handles a failed start of a command's bash. The session continues.
    fn plain_not_started(&mut self, step: StartStep, errno: i32, detail: &str) {
        self.engine.plain().into_iter().for_each(Plain::leave);
        let ticket = self.foreground.command().map(|command| command.ticket());
        let Some(command) = ticket.and_then(|ticket| self.foreground.take(ticket)) else {
            return self.fail(self.start_error(step, errno, detail));
        };
        let ticket = command.ticket();
        self.clear_command_timers(ticket);
        self.not_sent(ticket, *command.into_request(), self.start_error(step, errno, detail));
    }
}

/// Reads a dump. Empty if it is too long or unreadable.
fn read_dump(dump: &OwnedFd) -> Vec<u8> {
    let length = sys::length(dump).unwrap_or(u64::MAX);
    if length > LONGEST_DUMP { Vec::new() } else { sys::contents(dump).unwrap_or_default() }
}

/// The report of a starting process, in the builtin's format.
pub(in crate::session) async fn first_letter(ready: OwnedFd) -> Received {
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
