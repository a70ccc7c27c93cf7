//! One session: a persistent shell, a queue of foreground commands, and the task that owns both.
//!
//! Nothing of a session is shared. Its task owns the shell, the queue and the running command, and is talked to by
//! messages; a [`Handle`] is the cheap end of that.

mod actor;
mod effects;
mod foreground;
mod interrupting;
mod isolation;
mod killing;
mod listening;
mod lost_report;
mod noting;
mod outcome;
mod own_texts;
mod plain_commands;
mod preparing;
mod processes;
mod recovery;
mod remains;
mod scope;
mod shell;
mod spinning;
mod stdin;
mod watching;

use crate::error::{Code, Error};
use crate::exec::{ExecRequest, KillPolicy};
use crate::log::Log;
use crate::process::StartRequest;
use crate::user::User;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// How a session's shell is started and guarded.
#[derive(Clone, Debug)]
pub struct Config {
    /// Names the session in messages.
    pub id: String,
    /// Where the shell starts, absolute.
    pub cwd: PathBuf,
    /// The shell's whole environment.
    pub env: Vec<(OsString, OsString)>,
    /// Absolute path of bash.
    pub shell: PathBuf,
    /// Absolute path of the supervisor executable.
    pub supervisor: PathBuf,
    /// `exit` ends the command only, not the session.
    pub survive_exit: bool,
    /// Directory for the FIFO channels, when they are used: one that nobody else uses.
    pub fifo_directory: Option<PathBuf>,
    /// The shell is offered its loop as a builtin.
    pub offers_builtin: bool,
    /// Parent of the session's control group and its name, when groups are used.
    pub group: Option<(PathBuf, String)>,
    /// Statements that set the limits which processes hand down.
    pub limits: Vec<Vec<u8>>,
    /// Whom the shell runs as, when it is somebody else.
    pub user: Option<User>,
    /// Where deaths and recoveries are told.
    pub log: Log,
}

/// A change of variables: `None` unsets.
pub type EnvChange = Vec<(String, Option<String>)>;

enum Message {
    Open(oneshot::Sender<Result<(), Error>>),
    Exec(Box<ExecRequest>),
    Interrupt { id: u64, signal: Option<i32> },
    SetEnv { vars: EnvChange, reply: oneshot::Sender<Result<(), Error>> },
    Start(Box<StartRequest>),
    KillProcess { key: u64, policy: KillPolicy, reply: oneshot::Sender<bool> },
    Close { grace: Duration, reply: oneshot::Sender<()> },
}

/// The way to a session's task.
#[derive(Clone)]
pub struct Handle {
    id: String,
    mailbox: mpsc::UnboundedSender<Message>,
}

/// A [`Handle`] that does not keep the session from ending when nobody else holds one.
#[derive(Clone)]
pub struct WeakHandle {
    id: String,
    mailbox: mpsc::WeakUnboundedSender<Message>,
}

impl WeakHandle {
    /// The session's id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// See [`Handle::kill_process`].
    pub async fn kill_process(&self, key: u64, policy: KillPolicy) -> bool {
        let handle = self.mailbox.upgrade().map(|mailbox| Handle { id: self.id.clone(), mailbox });
        match handle {
            Some(handle) => handle.kill_process(key, policy).await,
            None => false,
        }
    }
}

impl Handle {
    /// Starts the session's task. The shell itself is started by the first call that needs it.
    pub fn spawn(config: Config) -> io::Result<Self> {
        let (mailbox, messages) = mpsc::unbounded_channel();
        let id = config.id.clone();
        crate::runtime::spawn(actor::Session::new(config, messages).run())?;
        Ok(Self { id, mailbox })
    }

    /// Starts the shell now. Like all calls here it is queued at once, and not when the future is first polled: calls
    /// keep their order.
    pub fn open(&self) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        self.ask(Message::Open)
    }

    /// Queues a command. Its sink is told the end in every case.
    pub fn exec(&self, request: ExecRequest) {
        if let Err(mpsc::error::SendError(Message::Exec(request))) = self.mailbox.send(Message::Exec(Box::new(request)))
        {
            request.sink.finished(Err(Error::session_destroyed(&self.id)));
        }
    }

    /// Ends a command: a queued one never runs, a running one is killed. No effect on one that has ended.
    pub fn interrupt(&self, id: u64, signal: Option<i32>) {
        let _ = self.send(Message::Interrupt { id, signal });
    }

    /// Sets and unsets exported variables, in turn with the commands.
    pub fn set_env(&self, vars: EnvChange) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        self.ask(|reply| Message::SetEnv { vars, reply })
    }

    /// Starts a background process. Told by the request's reply.
    pub fn start_process(&self, request: StartRequest) {
        if let Err(mpsc::error::SendError(Message::Start(request))) =
            self.mailbox.send(Message::Start(Box::new(request)))
        {
            request.refuse(Error::session_destroyed(&self.id));
        }
    }

    /// Ends a background process with its whole tree; false when there was nobody to end.
    pub fn kill_process(&self, key: u64, policy: KillPolicy) -> impl Future<Output = bool> + Send + use<> {
        let (reply, answer) = oneshot::channel();
        let sent = self.send(Message::KillProcess { key, policy, reply });
        async move { sent.is_ok() && answer.await.unwrap_or(false) }
    }

    /// For those who must not keep it.
    pub fn downgrade(&self) -> WeakHandle {
        WeakHandle { id: self.id.clone(), mailbox: self.mailbox.downgrade() }
    }

    /// Ends the session and everything it started; resolves when nothing is left. Commands that wait or run fail with
    /// `SESSION_DESTROYED`.
    pub fn close(&self, grace: Duration) -> impl Future<Output = ()> + Send + use<> {
        let (reply, answer) = oneshot::channel();
        let sent = self.send(Message::Close { grace, reply });
        async move {
            if sent.is_ok() {
                let _ = answer.await;
            }
        }
    }

    fn ask<F>(&self, message: F) -> impl Future<Output = Result<(), Error>> + Send + use<F>
    where
        F: FnOnce(oneshot::Sender<Result<(), Error>>) -> Message,
    {
        let (reply, answer) = oneshot::channel();
        let sent = self.send(message(reply));
        let id = self.id.clone();
        async move {
            sent?;
            answer.await.unwrap_or_else(|_| Err(Error::session_destroyed(&id)))
        }
    }

    fn send(&self, message: Message) -> Result<(), Error> {
        self.mailbox
            .send(message)
            .map_err(|_| Error::new(Code::SessionDestroyed, format!("session '{}' was deleted", self.id)))
    }
}
