//! Makes the running command a background process, and the session free for the next command.
//!
//! The shell stays with its command: it is the process. Its standby, which has the state before the command, becomes the
//! session's shell, as after the death of a shell. So nothing waits for the command any more, and what it changes in its
//! shell does not reach the session. Jobs of earlier commands belong to the session: they go on.
//!
//! The shell would wait for another command when its own has ended. It ends instead when its channel closes, which happens
//! as soon as it has reported the end. The process then has the status of the command.

use super::machine::Key;
use crate::error::{Code, Error};
use crate::exec::{KillPolicy, KilledBy, Outcome};
use crate::feed::What;
use crate::output::rest::{OutputSource, read_rest};
use crate::process::pump::{Logged, Status};
use crate::process::{Birth, DetachRequest, Process, Reason, Starter, end_after};
use crate::session::context::Context;
use crate::session::foreground::{EndedCommand, ForegroundCommand, show_unseen};
use crate::shell::channel::{Channel, Received};
use crate::shell::event::Event;
use crate::shell::listener;
use crate::shell::state::{State, Ticket};
use nacre_containment::pid::{Identity, Pid};
use nacre_containment::tree::Tree;
use nacre_protocol::shell::{Done, DoneFlags, Reply};
use nacre_protocol::supervisor::Asked;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// The processes of a session that were commands.
#[derive(Default)]
pub(in crate::session) struct Detached {
    /// The call that makes the running command another one.
    requested: Option<DetachRequest>,
    processes: HashMap<Key, DetachedCommand>,
}

/// A process that was a command.
pub(super) struct DetachedCommand {
    pub process: Arc<Process>,
    /// Its shell.
    pub shell: Option<Pid>,
    /// The command's number in the shell's protocol.
    pub number: u64,
    pub report: Arc<DetachedEnd>,
    /// The id of its request.
    pub request: u64,
    pub kill: KillPolicy,
    pub started_at: SystemTime,
    /// When it times out.
    pub deadline: Option<Instant>,
    /// The roots of the processes that are older.
    pub older: Vec<Pid>,
    /// The shell had ended before the supervisor could make it a process: its exit code and its signal.
    pub died: Option<(Option<i32>, Option<i32>)>,
    /// Until the supervisor has made it a process.
    pub starter: Option<Starter>,
}

impl DetachedCommand {
    /// A command that becomes a process. `older`: the roots of the processes that are older.
    pub(super) fn new(
        request: DetachRequest,
        command: &mut ForegroundCommand,
        shell: Option<Pid>,
        number: u64,
        older: Vec<Pid>,
    ) -> Self {
        let DetachRequest { process, ends_call, starter, .. } = request;
        command.input().into_iter().for_each(|pipe| process.set_input(pipe));
        process.detached();
        command.log_to(process.log.clone());
        Self {
            process,
            shell,
            number,
            report: Arc::default(),
            request: command.request().id,
            kill: command.kill_policy(),
            started_at: command.started_at(),
            deadline: command.deadline().filter(|_| ends_call),
            older,
            died: None,
            starter: Some(starter),
        }
    }
}

/// What is known of the end of a command before its process has ended.
#[derive(Default)]
pub(super) struct DetachedEnd {
    /// `$?`, and whether a kill has interrupted it, once the shell has reported that.
    pub end: OnceLock<(i32, bool)>,
    /// Its caller has cancelled it.
    pub is_cancelled: AtomicBool,
}

impl Detached {
    /// Makes the running command a process as soon as that is possible.
    pub fn request(&mut self, request: DetachRequest) {
        if self.requested.is_some() {
            let problem = "it is already being detached: wait for the other call";
            return request.starter.answer(Err(Error::not_detached(problem)));
        }
        self.requested = Some(request);
    }

    /// Takes the call that makes the running command a process.
    pub fn take_request(&mut self) -> Option<DetachRequest> {
        self.requested.take()
    }

    /// Asks the state machine to detach the command if that is due, or refuses it. Returns whether anything has changed.
    /// `is_ending`: its end is held back. `is_settled`: its shell runs, and every fork that was asked for has arrived. Only then,
    /// the standby has the state before the command.
    pub fn request_if_due(
        &mut self,
        cx: &mut Context,
        state: &State,
        ticket: Option<Ticket>,
        is_ending: bool,
        is_settled: bool,
    ) -> bool {
        let why = match (ticket, state.running().filter(|run| Some(run.ticket) == ticket)) {
            (None, _) => "it has already ended: its result has all of its output",
            (Some(_), None) => "it has not begun: wait for the event 'start'",
            (_, Some(run)) if run.end.is_some() || run.shell_died || is_ending => {
                "it has just ended: its result has all of its output"
            }
            (_, Some(run)) if run.kill.is_some() => "it is being killed",
            _ if !is_settled || state.standby.forking => return false,
            (Some(ticket), _) if state.can_detach(ticket) => {
                cx.events.push_back(Event::Detach(ticket));
                return true;
            }
            _ => {
                "no shell can take the place of its own (limit of processes or memory): let it end, or start it with startProcess"
            }
        };
        if let Some(DetachRequest { starter, .. }) = self.requested.take() {
            starter.answer(Err(Error::not_detached(why)));
        }
        true
    }

    /// The id of the command that is to become a process.
    pub fn requested(&self) -> Option<u64> {
        self.requested.as_ref().map(|request| request.command)
    }

    /// Adds a command that has become a process.
    pub(super) fn add(&mut self, key: Key, command: DetachedCommand) {
        self.processes.insert(key, command);
    }

    /// Records that the caller of a command kills the process that it has become, and how.
    pub(super) fn cancel(&mut self, request: u64, signal: Option<i32>, by: KilledBy) -> Option<(Key, KillPolicy)> {
        let (key, command) = self.processes.iter().find(|(_, command)| command.request == request)?;
        let policy = KillPolicy { signal: signal.unwrap_or(command.kill.signal), ..command.kill };
        command.report.is_cancelled.store(true, Ordering::Relaxed);
        command.process.doom(by, policy.signal);
        Some((*key, policy))
    }

    /// Handles the supervisor's answer: its process, unless that has ended, and the tree with this root. Returns how it has ended
    /// if it has.
    pub(super) fn adopted(
        &mut self,
        key: Key,
        identity: Option<Identity>,
        tree: impl FnOnce(Identity) -> Tree,
    ) -> Option<Status> {
        let command = self.processes.get_mut(&key)?;
        let starter = command.starter.take();
        let root = identity.or(command.shell.map(|pid| Identity { pid, start_ticks: 0 }))?;
        let tree = Tree { spare: std::mem::take(&mut command.older), ..tree(root) };
        command.process.born(key, Birth { pid: root.pid, at: command.started_at, tree });
        if let Some(deadline) = command.deadline {
            let left = deadline.saturating_duration_since(Instant::now());
            end_after(Arc::clone(&command.process), left, command.kill);
        }
        let (code, signal) = command.died.unwrap_or_default();
        let status = Status { code, signal, out_of_memory: false, asked: Asked::No };
        let ended = identity.is_none().then(|| self.ended(key, status));
        starter.into_iter().for_each(|starter| starter.answer(Ok(())));
        ended
    }

    /// Records the end of a shell that may be that of such a process.
    pub fn shell_ended(&mut self, pid: Pid, code: Option<i32>, signal: Option<i32>) {
        if let Some(command) = self.processes.values_mut().find(|command| command.shell == Some(pid)) {
            command.died = Some((code, signal));
        }
    }

    /// Uses the new channel of such a process, whose command had closed the old one. Returns the channel of another process.
    pub fn reconnected(&self, pid: Pid, socket: OwnedFd) -> Option<OwnedFd> {
        let Some(command) = self.processes.values().find(|command| command.shell == Some(pid)) else {
            return Some(socket);
        };
        if let Ok(channel) = Channel::reconnected(socket, pid) {
            tokio::spawn(await_end(Arc::new(channel), command.number, Arc::clone(&command.report)));
        }
        None
    }

    /// Forgets a process that has ended. Returns how: its shell ends after the command, but the command's status counts.
    pub(super) fn ended(&mut self, key: Key, status: Status) -> Status {
        let Some(command) = self.processes.remove(&key) else { return status };
        command.shell.into_iter().for_each(listener::forget);
        match (command.report.end.get(), command.process.doomed_by()) {
            (Some((_, true)), Some(signal)) => Status { code: None, signal: Some(signal), ..status },
            (Some(&(code, _)), _) => Status { code: Some(code), signal: None, ..status },
            (None, _) => status,
        }
    }

    /// Forgets all, because the supervisor has died.
    pub(super) fn lose(&mut self) {
        for command in std::mem::take(&mut self.processes).into_values() {
            command.shell.into_iter().for_each(listener::forget);
            if let Some(starter) = command.starter {
                let message =
                    "the command cannot be detached: the supervisor of its session died, and its processes were killed";
                starter.answer(Err(Error::new(Code::EngineError, message)));
            }
        }
    }
}

/// Reports that a command has become a process, and before that what was not reported.
pub(super) fn show_detach(cx: &Context, command: &mut ForegroundCommand, process: &str) {
    if cx.config.feed.is_watched() {
        show_unseen(cx, command);
    }
    cx.happens(What::CommandDetached { id: command.request().id, process: process.into() });
}

/// Waits until the shell reports the end of its command, and closes the channel: the shell then ends.
pub(super) async fn await_end(shell: Arc<Channel>, number: u64, report: Arc<DetachedEnd>) {
    loop {
        match shell.receive().await {
            Received::Reply(Reply::Done(Done { id, status, flags, .. })) if id == number => {
                let _ = report.end.set((status, flags.contains(DoneFlags::INTERRUPTED)));
                return;
            }
            Received::Reply(_) => {}
            // The process ends, has become another program, or connects again.
            Received::Closed { .. } => return,
        }
    }
}

/// Passes on the output of a command that is a process, and then its result.
pub(super) async fn carry_on(
    mut command: ForegroundCommand,
    process: Arc<Process>,
    report: Arc<DetachedEnd>,
    mut ended: oneshot::Receiver<Status>,
    outcome: Outcome,
) {
    let log = &process.log;
    let status = loop {
        tokio::select! {
            biased;
            status = &mut ended => break status.ok(),
            () = command.step() => {}
        }
    };
    read_rest(process.life().birth.map(|birth| birth.tree), &mut command).await;
    let EndedCommand { request, mut outcome, pipes, .. } = command.finish(outcome, true);
    process.ended(status);
    log.end();
    let lost = match process.life().end {
        Some((exit, _)) => {
            (outcome.exit_code, outcome.signal) = (exit.code, exit.signal);
            exit.reason == Reason::Lost
        }
        None => true,
    };
    outcome.killed_by = process.life().killed_by;
    outcome.cancelled = report.is_cancelled.load(Ordering::Relaxed) && outcome.signal.is_some();
    request.sink.finished(if lost {
        let message = format!("the supervisor of process '{}' died; it was killed", process.id);
        Err(Error { outcome: Some(Box::new(outcome)), ..Error::new(Code::EngineError, message) })
    } else {
        Ok(outcome)
    });
    if let Err(rest) = pipes {
        Logged::new(log, rest).log_rest().await;
    }
}
