//! Handles, which send messages to a session.

use super::actor;
use super::config::{Opened, SessionConfig};
use super::confinement::Judgement;
use super::end_reason::EndReason;
use super::errors;
use super::mailbox::{Sender, WeakSender, mailbox};
use super::message::{Message, NewHold};
use super::ports::Network;
use super::running::RunningCommand;
use super::saved::Saved;
use crate::budget::SessionBudgets;
use crate::error::Error;
use crate::exec::{ExecRequest, KillPolicy, KilledBy, Outcome};
use crate::files::Access;
use crate::process::{DetachRequest, Owner, SessionStats, StartRequest};
use crate::variables::EnvChange;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// Sends messages to a session's task.
#[derive(Clone)]
pub struct Handle {
    id: String,
    end_reason: EndReason,
    budgets: Option<Arc<SessionBudgets>>,
    mailbox: Sender<Message>,
}

/// A weak [`Handle`]: the session ends when only weak handles are left.
#[derive(Clone)]
pub struct WeakHandle {
    id: String,
    end_reason: EndReason,
    budgets: Option<Arc<SessionBudgets>>,
    mailbox: WeakSender<Message>,
}

impl Owner for WeakHandle {
    fn id(&self) -> &str {
        &self.id
    }

    fn kill_process(&self, key: u64, policy: KillPolicy) -> Pin<Box<dyn Future<Output = bool> + Send>> {
        match self.upgrade() {
            Some(handle) => Box::pin(async move { handle.kill_process(key, policy).await }),
            None => Box::pin(std::future::ready(false)),
        }
    }

    fn signal_process(&self, key: u64, signal: i32) {
        if let Some(handle) = self.upgrade() {
            let _ = handle.send(Message::SignalProcess { key, signal });
        }
    }
}

impl WeakHandle {
    /// Whether [`Handle::roll_back`] has ended the session.
    pub(super) fn is_rolled_back(&self) -> bool {
        self.end_reason.is_rolled_back()
    }

    /// The session's id.
    pub(super) fn session(&self) -> &str {
        &self.id
    }

    pub(crate) fn upgrade(&self) -> Option<Handle> {
        let (mailbox, budgets) = (self.mailbox.upgrade()?, self.budgets.clone());
        Some(Handle { id: self.id.clone(), end_reason: self.end_reason.clone(), budgets, mailbox })
    }
}

impl Handle {
    /// The error of calls that need a shell, once that has exited without `survive_exit`.
    pub fn exit_error(&self) -> Option<Error> {
        self.end_reason.exited().map(|code| errors::terminated(&self.id, code))
    }

    /// Starts the session's task. The shell itself is started by the first call that needs it.
    pub fn spawn(config: SessionConfig) -> io::Result<Self> {
        let (id, budgets) = (config.id.clone(), config.budgets.clone());
        let (sender, mailbox) = mailbox();
        let end_reason = EndReason::default();
        crate::runtime::spawn(actor::run(config, end_reason.clone(), mailbox))?;
        Ok(Self { id, end_reason, budgets, mailbox: sender })
    }

    /// Starts the shell now. Like all calls here, it is queued immediately and not when the future is first polled, so
    /// calls keep their order.
    pub fn open(&self) -> impl Future<Output = Result<Opened, Error>> + Send + use<> {
        self.ask(Message::Open)
    }

    /// Queues a command, or sends it immediately. Its sink always receives the end, unless that is returned. Waits for it
    /// at most 0.1 ms, and only if the request wants that and the last command was quick.
    pub fn exec(&self, request: ExecRequest) -> Option<Outcome> {
        self.send_exec(request, None)
    }

    pub(super) fn send_exec(&self, request: ExecRequest, after: Option<NewHold>) -> Option<Outcome> {
        if let Err(error) = self.begin() {
            request.sink.finished(Err(error));
            return None;
        }
        let message = Message::Exec { request: Box::new(request), sent: None, after };
        match self.mailbox.send(message) {
            Ok(outcome) => outcome,
            Err(Message::Exec { request, .. }) => {
                request.sink.finished(Err(self.end_reason.error(&self.id)));
                None
            }
            Err(_) => None,
        }
    }

    /// Refuses what begins in a session that has used its budget up.
    fn begin(&self) -> Result<(), Error> {
        self.budgets.as_ref().map_or(Ok(()), |budgets| budgets.begin())
    }

    /// Interrupts a command: if queued, it never runs; if running, it is killed. No effect after its end.
    pub fn interrupt(&self, id: u64, signal: Option<i32>, by: KilledBy) {
        let _ = self.send(Message::Interrupt { id, signal, by, ended: None });
    }

    /// Does the same, and resolves when the command has ended, or has been a background process.
    pub fn kill_command(&self, id: u64, signal: Option<i32>, by: KilledBy) -> impl Future<Output = ()> + Send + use<> {
        let (sender, ended) = oneshot::channel();
        let _ = self.send(Message::Interrupt { id, signal, by, ended: Some(sender) });
        async move { drop(ended.await) }
    }

    /// Makes a running command, with its shell, a background process. The request's starter receives the outcome.
    pub fn detach(&self, request: DetachRequest) {
        if let Err(Message::Detach(request)) = self.mailbox.send(Message::Detach(Box::new(request))) {
            request.starter.answer(Err(self.end_reason.error(&self.id)));
        }
    }

    /// Sets and unsets exported variables, in order with the commands.
    pub fn set_env(&self, vars: EnvChange) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        self.ask(|reply| Message::SetEnv { vars, reply })
    }

    /// Starts a background process. The request's starter receives the outcome.
    pub fn start_process(&self, request: StartRequest) {
        if let Err(error) = self.begin() {
            return request.refuse(error);
        }
        if let Err(Message::Start(request)) = self.mailbox.send(Message::Start(Box::new(request))) {
            request.refuse(self.end_reason.error(&self.id));
        }
    }

    /// Returns access to the session's files, relative to its current directory.
    pub fn files(&self) -> impl Future<Output = Result<Access, Error>> + Send + use<> {
        self.ask(Message::Files)
    }

    /// Returns the state before the command that runs. `None` if none runs, or nothing has the state at the moment.
    pub fn save_before(&self) -> impl Future<Output = Option<Saved>> + Send + use<> {
        let (reply, answer) = oneshot::channel();
        let _ = self.send(Message::SaveBefore(reply));
        async move { answer.await.ok() }
    }

    /// Returns the running command, and the queued ones in their order.
    pub fn running(&self) -> impl Future<Output = Result<Vec<RunningCommand>, Error>> + Send + use<> {
        self.ask(Message::Running)
    }

    /// Reads the resource usage of everything in the session.
    pub fn stats(&self) -> impl Future<Output = Result<SessionStats, Error>> + Send + use<> {
        self.ask(Message::Stats)
    }

    /// Returns the network of the session. `None` while it has no processes.
    pub fn network(&self) -> impl Future<Output = Result<Option<Network>, Error>> + Send + use<> {
        self.ask(Message::Network)
    }

    /// Returns what judges paths and hosts by the rules of the session, which has started. `None` without rules.
    pub fn judgement(&self) -> impl Future<Output = Result<Option<Judgement>, Error>> + Send + use<> {
        self.ask(Message::Judgement)
    }

    /// Ends a background process with its whole tree. False if it had already ended.
    pub fn kill_process(&self, key: u64, policy: KillPolicy) -> impl Future<Output = bool> + Send + use<> {
        let (reply, answer) = oneshot::channel();
        let sent = self.send(Message::KillProcess { key, policy, reply });
        async move { sent.is_ok() && answer.await.unwrap_or(false) }
    }

    /// The session's id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// A weak handle.
    pub fn downgrade(&self) -> WeakHandle {
        let (mailbox, budgets) = (self.mailbox.downgrade(), self.budgets.clone());
        WeakHandle { id: self.id.clone(), end_reason: self.end_reason.clone(), budgets, mailbox }
    }

    /// Whether it is the same session.
    pub fn is(&self, other: &Self) -> bool {
        self.end_reason.is(&other.end_reason)
    }

    /// Whether [`Handle::roll_back`] has ended it.
    pub fn is_rolled_back(&self) -> bool {
        self.end_reason.is_rolled_back()
    }

    /// Ends the session and everything that it started. Resolves when nothing is left. Waiting and running commands
    /// fail with `SESSION_DESTROYED`.
    pub fn close(&self, grace: Duration) -> impl Future<Output = ()> + Send + use<> {
        let (reply, answer) = oneshot::channel();
        let sent = self.send(Message::Close { grace, reply });
        async move {
            if sent.is_ok() {
                let _ = answer.await;
            }
        }
    }

    /// The same at once, because another session takes its place: waiting and running commands fail with `ROLLED_BACK`.
    pub fn roll_back(&self) -> impl Future<Output = ()> + Send + use<> {
        self.end_reason.roll_back();
        self.close(Duration::ZERO)
    }

    fn ask<T: Send, F>(&self, message: F) -> impl Future<Output = Result<T, Error>> + Send + use<T, F>
    where
        F: FnOnce(oneshot::Sender<Result<T, Error>>) -> Message,
    {
        let (reply, answer) = oneshot::channel();
        let sent = self.send(message(reply));
        let (id, end_reason) = (self.id.clone(), self.end_reason.clone());
        async move {
            sent?;
            answer.await.unwrap_or_else(|_| Err(end_reason.error(&id)))
        }
    }

    pub(super) fn send(&self, message: Message) -> Result<(), Error> {
        self.mailbox.send(message).map(drop).map_err(|_| self.end_reason.error(&self.id))
    }
}
