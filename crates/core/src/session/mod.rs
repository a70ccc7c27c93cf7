//! One session: a persistent shell, a queue of foreground commands, background processes, and the actor that owns them.
//!
//! A session shares nothing. Its actor owns everything and receives messages from [`Handle`]s.

mod actor;
mod arrivals;
mod busy_poll;
mod command;
mod confinement;
mod context;
mod files;
mod lane;
mod loans;
mod outcome;
mod perform;
mod pid_namespace;
mod plain;
mod plain_process;
mod plain_state;
mod process_reports;
mod process_start;
mod processes;
mod run;
mod salvage;
mod spare_pipes;
mod standby;
mod startup;
mod stdin;
mod strangers;
mod timers;

use crate::error::{Code, Error};
use crate::exec::{ExecRequest, KillPolicy};
use crate::files::Access;
use crate::limits::Inherited;
use crate::log::Log;
use crate::process::{Owner, StartRequest};
use crate::proxy::Denials;
use crate::user::User;
use crate::variables::EnvChange;
use lane::Lane;
use nacre_isolation::confinement::Confinement;
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// The configuration of a session's shell and its supervisor.
#[derive(Clone, Debug)]
pub struct Config {
    /// The session's id, for messages.
    pub id: String,
    /// The absolute directory where the shell starts.
    pub cwd: PathBuf,
    /// The shell's complete environment.
    pub env: Vec<(OsString, OsString)>,
    /// Absolute path of bash.
    pub shell: PathBuf,
    /// Absolute path of the supervisor executable.
    pub supervisor: PathBuf,
    /// `exit` ends only the command, not the session.
    pub survive_exit: bool,
    /// Whether the builtin drives the shell. Otherwise each command runs in a new bash.
    pub uses_builtin: bool,
    /// Parent and name of the session's control group, if groups are used.
    pub group: Option<(PathBuf, String)>,
    /// Limits that processes inherit.
    pub limits: Inherited,
    /// The user that the shell runs as, if not this process's.
    pub user: Option<User>,
    /// The confinement of everything in the session.
    pub confinement: Option<Arc<Confinement>>,
    /// The proxy through which its programs reach the network.
    pub proxied: Option<Proxied>,
    /// Receives diagnostics.
    pub log: Log,
}

/// The configuration of a session's proxy.
#[derive(Clone, Debug)]
pub struct Proxied {
    /// Hosts with ports.
    pub allow: Arc<[String]>,
    /// The listener, unless the supervisor listens inside a network namespace.
    pub listener: Option<Arc<OwnedFd>>,
    /// Receives refused destinations.
    pub denials: Denials,
}

enum Message {
    Open(oneshot::Sender<Result<(), Error>>),
    Exec { request: Box<ExecRequest>, sent: Option<lane::Sent> },
    Interrupt { id: u64, signal: Option<i32> },
    SetEnv { vars: EnvChange, reply: oneshot::Sender<Result<(), Error>> },
    Start(Box<StartRequest>),
    Files(files::Reply),
    SignalProcess { key: u64, signal: i32 },
    KillProcess { key: u64, policy: KillPolicy, reply: oneshot::Sender<bool> },
    Close { grace: Duration, reply: oneshot::Sender<()> },
}

/// Sends messages to a session's task.
#[derive(Clone)]
pub struct Handle {
    id: String,
    mailbox: mpsc::UnboundedSender<Message>,
    lane: Lane,
}

/// A weak [`Handle`]: the session ends when only weak handles are left.
#[derive(Clone)]
pub struct WeakHandle {
    id: String,
    mailbox: mpsc::WeakUnboundedSender<Message>,
    lane: Lane,
}

impl Owner for WeakHandle {
    fn id(&self) -> &str {
        &self.id
    }

    fn kill_process(&self, key: u64, policy: KillPolicy) -> Pin<Box<dyn Future<Output = bool> + Send>> {
        let lane = self.lane.clone();
        match self.mailbox.upgrade().map(|mailbox| Handle { id: self.id.clone(), mailbox, lane }) {
            Some(handle) => Box::pin(async move { handle.kill_process(key, policy).await }),
            None => Box::pin(std::future::ready(false)),
        }
    }

    fn signal_process(&self, key: u64, signal: i32) {
        if let Some(mailbox) = self.mailbox.upgrade() {
            let _ = mailbox.send(Message::SignalProcess { key, signal });
        }
    }
}

impl Handle {
    /// Starts the session's task. The shell itself is started by the first call that needs it.
    pub fn spawn(config: Config) -> io::Result<Self> {
        let (mailbox, messages) = mpsc::unbounded_channel();
        let (id, lane) = (config.id.clone(), Lane::default());
        crate::runtime::spawn(actor::run(config, messages, lane.clone()))?;
        Ok(Self { id, mailbox, lane })
    }

    /// Starts the shell now. Like all calls here, it is queued immediately and not when the future is first polled, so
    /// calls keep their order.
    pub fn open(&self) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        self.ask(Message::Open)
    }

    /// Queues a command, or sends it immediately. Its sink always receives the end.
    pub fn exec(&self, request: ExecRequest) {
        let message = Message::Exec { request: Box::new(request), sent: None };
        if let Err(mpsc::error::SendError(Message::Exec { request, .. })) = self.post(message) {
            request.sink.finished(Err(Error::session_destroyed(&self.id)));
        }
    }

    /// Interrupts a command: if queued, it never runs; if running, it is killed. No effect after its end.
    pub fn interrupt(&self, id: u64, signal: Option<i32>) {
        let _ = self.send(Message::Interrupt { id, signal });
    }

    /// Sets and unsets exported variables, in order with the commands.
    pub fn set_env(&self, vars: EnvChange) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        self.ask(|reply| Message::SetEnv { vars, reply })
    }

    /// Starts a background process. The request's starter receives the outcome.
    pub fn start_process(&self, request: StartRequest) {
        if let Err(mpsc::error::SendError(Message::Start(request))) = self.post(Message::Start(Box::new(request))) {
            request.refuse(Error::session_destroyed(&self.id));
        }
    }

    /// Returns access to the session's files, relative to its current directory.
    pub fn files(&self) -> impl Future<Output = Result<Access, Error>> + Send + use<> {
        self.ask(Message::Files)
    }

    /// Ends a background process with its whole tree. False if it had already ended.
    pub fn kill_process(&self, key: u64, policy: KillPolicy) -> impl Future<Output = bool> + Send + use<> {
        let (reply, answer) = oneshot::channel();
        let sent = self.send(Message::KillProcess { key, policy, reply });
        async move { sent.is_ok() && answer.await.unwrap_or(false) }
    }

    /// A weak handle.
    pub fn downgrade(&self) -> WeakHandle {
        WeakHandle { id: self.id.clone(), mailbox: self.mailbox.downgrade(), lane: self.lane.clone() }
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

    fn ask<T: Send, F>(&self, message: F) -> impl Future<Output = Result<T, Error>> + Send + use<T, F>
    where
        F: FnOnce(oneshot::Sender<Result<T, Error>>) -> Message,
    {
        let (reply, answer) = oneshot::channel();
        let sent = self.send(message(reply));
        let id = self.id.clone();
        async move {
            sent?;
            answer.await.unwrap_or_else(|_| Err(Error::session_destroyed(&id)))
        }
    }

    fn post(&self, message: Message) -> Result<(), mpsc::error::SendError<Message>> {
        self.lane.post(message, |message| self.mailbox.send(message))
    }

    fn send(&self, message: Message) -> Result<(), Error> {
        self.post(message).map_err(|_| Error::new(Code::SessionDestroyed, format!("session '{}' was deleted", self.id)))
    }
}
