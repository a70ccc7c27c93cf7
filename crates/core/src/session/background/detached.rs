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
use crate::exec::{KillPolicy, Outcome};
use crate::output::rest::{OutputSource, read_rest};
use crate::process::pump::{Logged, Status};
use crate::process::{Process, Reason, Starter};
use crate::session::foreground::{EndedCommand, ForegroundCommand};
use crate::shell::channel::{Channel, Received};
use crate::shell::listener;
use nacre_containment::pid::Pid;
use nacre_protocol::shell::{Done, DoneFlags, Reply};
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// The processes of a session that were commands.
#[derive(Default)]
pub(in crate::session) struct Detached(HashMap<Key, DetachedCommand>);

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
    /// Roots of older trees.
    pub spare: Vec<Pid>,
    /// The shell had ended before the supervisor could make it a process: its exit code and its signal.
    pub died: Option<(Option<i32>, Option<i32>)>,
    /// Until the supervisor has made it a process.
    pub starter: Option<Starter>,
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
    /// Adds a process that was a command.
    pub(super) fn add(&mut self, key: Key, command: DetachedCommand) {
        self.0.insert(key, command);
    }

    /// One that has not ended.
    pub(super) fn get_mut(&mut self, key: Key) -> Option<&mut DetachedCommand> {
        self.0.get_mut(&key)
    }

    /// The one that was the command of this request.
    pub(super) fn of_request(&self, request: u64) -> Option<(Key, &DetachedCommand)> {
        self.0.iter().find(|(_, command)| command.request == request).map(|(key, command)| (*key, command))
    }

    /// Records the end of a shell that may be that of such a process.
    pub(in crate::session) fn shell_ended(&mut self, pid: Pid, code: Option<i32>, signal: Option<i32>) {
        if let Some(command) = self.0.values_mut().find(|command| command.shell == Some(pid)) {
            command.died = Some((code, signal));
        }
    }

    /// Uses the new channel of such a process, whose command had closed the old one. Returns the channel of another process.
    pub(in crate::session) fn reconnected(&self, pid: Pid, socket: OwnedFd) -> Option<OwnedFd> {
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
