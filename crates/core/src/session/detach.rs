//! Makes the running command a background process, and the session free for the next command.
//!
//! The shell stays with its command: it is the process. Its standby, which has the state before the command, becomes the
//! session's shell, as after the death of a shell. So nothing waits for the command any more, and what it changes in its
//! shell does not reach the session. Jobs of earlier commands belong to the session: they go on.
//!
//! The shell would wait for another command when its own has ended. It ends instead when its channel closes, which happens
//! as soon as it has reported the end. The process then has the status of the command.

use super::Session;
use super::background::Key;
use super::foreground::{Remains, Running};
use crate::error::{Code, Error};
use crate::exec::{KillPolicy, KilledBy, Outcome};
use crate::feed::What;
use crate::output::rest::{Source, read_rest};
use crate::process::pump::{Logged, Status};
use crate::process::{Birth, DetachRequest, Process, Reason, Starter, end_after};
use crate::shell::channel::{Channel, Received};
use crate::shell::event::Event;
use crate::shell::listener;
use crate::shell::state::Ticket;
use nacre_containment::pid::{Identity, Pid};
use nacre_containment::tree::Tree;
use nacre_protocol::shell::{Done, DoneFlags, Reply};
use nacre_protocol::supervisor::{Asked, Order};
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// The processes of a session that were commands.
#[derive(Default)]
pub(super) struct Detached(HashMap<Key, Command>);

/// A process that was a command.
struct Command {
    process: Arc<Process>,
    /// Its shell.
    shell: Option<Pid>,
    /// The command's number in the shell's protocol.
    number: u64,
    report: Arc<Report>,
    /// The id of its request.
    request: u64,
    kill: KillPolicy,
    started_at: SystemTime,
    /// When it times out.
    deadline: Option<Instant>,
    /// Roots of older trees.
    spare: Vec<Pid>,
    /// The shell had ended before the supervisor could make it a process: its exit code and its signal.
    died: Option<(Option<i32>, Option<i32>)>,
    /// Until the supervisor has made it a process.
    starter: Option<Starter>,
}

/// What is known of the end of a command before its process has ended.
#[derive(Default)]
struct Report {
    /// `$?`, and whether a kill has interrupted it, once the shell has reported that.
    end: OnceLock<(i32, bool)>,
    /// Its caller has cancelled it.
    is_cancelled: AtomicBool,
}

impl Detached {
    /// Records the end of a shell that may be that of such a process.
    pub(super) fn shell_ended(&mut self, pid: Pid, code: Option<i32>, signal: Option<i32>) {
        if let Some(command) = self.0.values_mut().find(|command| command.shell == Some(pid)) {
            command.died = Some((code, signal));
        }
    }

    /// Uses the new channel of such a process, whose command had closed the old one. Returns the channel of another process.
    pub(super) fn reconnected(&self, pid: Pid, socket: OwnedFd) -> Option<OwnedFd> {
        let Some(command) = self.0.values().find(|command| command.shell == Some(pid)) else { return Some(socket) };
        if let Ok(channel) = Channel::reconnected(socket, pid) {
            tokio::spawn(await_end(Arc::new(channel), command.number, Arc::clone(&command.report)));
        }
        None
    }

    /// Forgets a process that has ended. Returns how: its shell ends after the command, but the command's status counts.
    pub(super) fn ended(&mut self, key: Key, status: Status) -> Status {
        let Some(command) = self.0.remove(&key) else { return status };
        command.shell.into_iter().for_each(listener::forget);
        match (command.report.end.get(), command.process.doomed_by()) {
            (Some((_, true)), Some(signal)) => Status { code: None, signal: Some(signal), ..status },
            (Some(&(code, _)), _) => Status { code: Some(code), signal: None, ..status },
            (None, _) => status,
        }
    }

    /// Forgets all, because the supervisor has died.
    pub(super) fn lose(&mut self) {
        for command in std::mem::take(&mut self.0).into_values() {
            command.shell.into_iter().for_each(listener::forget);
            if let Some(starter) = command.starter {
                let message =
                    "the command cannot be detached: the supervisor of its session died, and its processes were killed";
                starter.answer(Err(Error::new(Code::EngineError, message)));
            }
        }
    }
}

/// Waits until the shell reports the end of its command, and closes the channel: the shell then ends.
async fn await_end(shell: Arc<Channel>, number: u64, report: Arc<Report>) {
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

impl Session {
    /// Makes a command a process as soon as that is possible.
    pub(super) fn detach(&mut self, request: DetachRequest) {
        if self.detaching.is_some() {
            return request
                .starter
                .answer(Err(Error::not_detached("it is already being detached: wait for the other call")));
        }
        self.detaching = Some(request);
    }

    /// Detaches the command if that is due, or refuses it. Returns whether anything has changed.
    pub(super) fn detach_if_due(&mut self) -> bool {
        let Some(DetachRequest { command, .. }) = &self.detaching else { return false };
        let ticket = self.calls.ticket_of(*command);
        let why = match (ticket, self.state.running()) {
            (None, _) => "it has already ended: its result has all of its output",
            (Some(ticket), Some(run))
                if run.ticket == ticket && (run.end.is_some() || run.shell_died || self.rest.is_some()) =>
            {
                "it has just ended: its result has all of its output"
            }
            (Some(ticket), Some(run)) if run.ticket == ticket && run.kill.is_some() => "it is being killed",
            (Some(ticket), Some(run)) if run.ticket == ticket => {
                // The standby has the state before the command only once every fork that was asked for has arrived.
                // In plain mode, the shell of the command may still be starting.
                if self.awaits_forks() || self.state.standby.forking || self.shell.pid().is_none() {
                    return false;
                }
                if self.state.can_detach(ticket) {
                    self.events.push_back(Event::Detach(ticket));
                    return true;
                }
                "no shell can take the place of its own (limit of processes or memory): let it end, or start it with startProcess"
            }
            _ => "it has not begun: wait for the event 'start'",
        };
        if let Some(DetachRequest { starter, .. }) = self.detaching.take() {
            starter.answer(Err(Error::not_detached(why)));
        }
        true
    }

    /// Makes the running command with its shell a process, and the standby the shell.
    pub(super) fn detach_command(&mut self, ticket: Ticket) {
        let (Some(request), Some(mut command)) = (self.detaching.take(), self.foreground.take(ticket)) else { return };
        let DetachRequest { process, ends_call, starter, .. } = request;
        self.foreground.take_owed();
        self.clear_command_timers(ticket);
        self.pace.ended(command.elapsed());
        self.calls.answered(command.request().id);
        let (channel, shell) = self.shell.leave();
        self.plain.leave();
        let key = self.numbers.next();
        tracing::debug!(log = self.config.log.id(), session = %self.config.id, process = %process.id, ?shell, "a command becomes a process");
        let (number, report) = (self.numbers.command(), Arc::new(Report::default()));
        if let Some(channel) = channel {
            tokio::spawn(await_end(channel, number, Arc::clone(&report)));
        }
        if let Some(pipe) = command.input() {
            process.set_input(pipe);
        }
        process.detached();
        command.log_to(process.log.clone());
        let spare = self.foreground.take_spared();
        let detached = Command {
            process: Arc::clone(&process),
            shell,
            number,
            report: Arc::clone(&report),
            request: command.request().id,
            kill: command.kill_policy(),
            started_at: command.started_at(),
            deadline: command.deadline().filter(|_| ends_call),
            spare: spare.clone(),
            died: None,
            starter: Some(starter),
        };
        self.detached.0.insert(key, detached);
        let end = self.add_detached(key);
        let denials = self.enclosure.denials().map(|denials| denials.take()).unwrap_or_default();
        self.show_detach(&mut command, &process.id, &denials);
        let outcome = Outcome { cwd: self.cwd.clone(), denials, ..Outcome::default() };
        if ends_call {
            let (sink, outcome) = command.answer(outcome.clone());
            self.answers.deliver(sink, Ok(outcome));
        }
        tokio::spawn(carry_on(command, process, report, end, outcome));
        let command = (!self.plain.is_engine()).then_some(number);
        self.ask(&Order::Detach { key, mark: self.mark(key), command, spare });
        self.use_standby();
    }

    /// Reports that a command has become a process, and before that what was not reported.
    fn show_detach(&mut self, command: &mut Running, process: &str, denials: &[String]) {
        if self.config.feed.is_watched() {
            let (id, total, newest) = command.unseen_output();
            if newest.iter().any(|bytes| !bytes.is_empty()) {
                self.happens(What::CommandOutput { id, total, newest });
            }
        }
        denials.iter().for_each(|target| self.happens(What::Denied { target: target.clone() }));
        self.happens(What::CommandDetached { id: command.request().id, process: process.into() });
    }

    /// Handles the supervisor's answer.
    pub(super) fn detached(&mut self, key: Key, identity: Option<Identity>, group: Option<String>) {
        let Some(command) = self.detached.0.get_mut(&key) else { return };
        let (starter, died, spare) = (command.starter.take(), command.died, std::mem::take(&mut command.spare));
        let (process, at) = (Arc::clone(&command.process), command.started_at);
        let (deadline, kill) = (command.deadline, command.kill);
        let known = identity.or(command.shell.map(|pid| Identity { pid, start_ticks: 0 }));
        let Some(root) = known else { return };
        let tree = Tree { spare, ..self.tree(key, root, group) };
        process.born(key, Birth { pid: root.pid, at, tree });
        if let Some(deadline) = deadline {
            end_after(Arc::clone(&process), deadline.saturating_duration_since(Instant::now()), kill);
        }
        if identity.is_none() {
            let (code, signal) = died.unwrap_or_default();
            let status = Status { code, signal, out_of_memory: false, asked: Asked::No };
            let status = self.detached.ended(key, status);
            self.end_detached(key, status);
        }
        if let Some(starter) = starter {
            starter.answer(Ok(()));
        }
    }

    /// Kills a process that was a command, for the caller of the command.
    pub(super) fn interrupt_detached(&mut self, request: u64, signal: Option<i32>, by: KilledBy) {
        let mut all = self.detached.0.iter();
        let Some((&key, command)) = all.find(|(_, command)| command.request == request) else { return };
        let policy = KillPolicy { signal: signal.unwrap_or(command.kill.signal), ..command.kill };
        command.report.is_cancelled.store(true, Ordering::Relaxed);
        command.process.doom(by, policy.signal);
        self.kill_process(key, policy, oneshot::channel().0);
    }
}

/// Passes on the output of a command that is a process, and then its result.
async fn carry_on(
    mut command: Running,
    process: Arc<Process>,
    report: Arc<Report>,
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
    let Remains { request, mut outcome, pipes, .. } = command.finish(outcome, true);
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
