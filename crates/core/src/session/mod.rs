//! One session: a persistent shell, a queue of foreground commands, background processes, and the actor that owns them.
//!
//! A session shares nothing. Its actor owns everything and receives messages from [`Handle`]s.

mod actor;
mod answers;
mod arrivals;
mod background;
mod calls;
mod confinement;
mod detach;
mod fate;
mod files;
mod foreground;
mod hold;
mod loan;
mod mailbox;
mod masks;
mod newcomers;
mod numbers;
mod outcome;
mod pace;
mod perform;
mod pid_namespace;
mod plain;
mod ports;
mod recovery;
mod remount;
mod rest;
mod run;
mod running;
mod salvage;
mod save;
mod shell_link;
mod spare_pipes;
mod stall;
mod standby;
mod startup;
mod stdin;
mod strangers;
mod streams;
mod supervision;
mod timers;

use crate::capabilities::Engine;
use crate::error::Error;
use crate::exec::{ExecRequest, KillPolicy, KilledBy, Outcome};
use crate::feed::{Feed, What};
use crate::files::Access;
use crate::log::Log;
use crate::process::{DetachRequest, Owner, SessionStats, StartRequest};
use crate::proxy::Policy;
use crate::shell::channel::Received;
use crate::shell::event::Event;
use crate::shell::listener::Reconnected;
use crate::shell::state::State;
use crate::user::User;
use crate::variables::EnvChange;
use answers::Answers;
use background::Background;
use calls::Calls;
use confinement::Enclosure;
use detach::Detached;
use fate::Fate;
use files::Files;
use foreground::Foreground;
use hold::{FreezeReply, Holds, NewHold};
use loan::Sent;
use mailbox::{Sender, WeakSender, mailbox};
use nacre_containment::pid::Pid;
use nacre_containment::session_mark::Marks;
use nacre_protocol::confinement::Confinement;
use nacre_protocol::standing::ResourceLimits;
use numbers::Numbers;
use pace::Pace;
use plain::Plain;
use recovery::Recovery;
use remount::{Remount, RemountReply};
use rest::Rest;
use save::SaveReply;
use shell_link::ShellLink;
use spare_pipes::SparePipes;
use standby::Standbys;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use supervision::Supervision;
use timers::Timers;
use tokio::sync::{mpsc, oneshot};

pub use hold::{Busy, Frozen, Hold};
pub use ports::{Network, Port};
pub use running::{Progress, RunningCommand};
pub use save::Saved;

/// The lock of the mailbox, which its model test replaces.
mod sync {
    pub(super) use std::sync::{Mutex, MutexGuard};
}

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
    /// The marks of its processes.
    pub marks: Arc<Marks>,
    /// Limits that processes inherit.
    pub limits: ResourceLimits,
    /// The user that the shell runs as, if not this process's.
    pub user: Option<User>,
    /// Decides how everything in the session is confined.
    pub isolate: Option<Isolate>,
    /// The state that it begins with; otherwise that of a new shell.
    pub saved: Option<Saved>,
    /// Receives what happens.
    pub feed: Arc<Feed>,
    /// Receives diagnostics.
    pub log: Log,
}

/// Decides how a session is confined. It looks at the user's directories, so it runs on a thread that may block.
#[derive(Clone)]
pub struct Isolate(pub Arc<dyn Fn() -> Result<Isolated, Error> + Send + Sync>);

impl fmt::Debug for Isolate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Isolate")
    }
}

/// How a session is confined.
#[derive(Debug)]
pub struct Isolated {
    /// The confinement of everything in it.
    pub confinement: Confinement,
    /// The proxy through which its programs reach the network.
    pub proxied: Option<Proxied>,
    /// Variables that its programs need for both.
    pub variables: Vec<(String, OsString)>,
    /// The mount of its workspace, until it is sent to the supervisor: it can be attached once.
    pub mount: Option<OwnedFd>,
}

/// The configuration of a session's proxy.
#[derive(Clone, Debug)]
pub struct Proxied {
    /// The destinations that it allows, and those that it refused.
    pub policy: Policy,
    /// The listener, unless the supervisor listens inside a network namespace.
    pub listener: Option<Arc<OwnedFd>>,
}

/// The shell of a session that has started.
#[derive(Clone, Debug)]
pub struct Opened {
    /// How commands reach it.
    pub engine: Engine,
    /// Its `$BASH_VERSION`.
    pub version: String,
}

enum Message {
    Open(oneshot::Sender<Result<Opened, Error>>),
    Exec {
        request: Box<ExecRequest>,
        sent: Option<Box<Sent>>,
        /// A hold to queue before it.
        after: Option<NewHold>,
    },
    Interrupt {
        id: u64,
        signal: Option<i32>,
        by: KilledBy,
        /// Dropped when the command has ended.
        ended: Option<oneshot::Sender<()>>,
    },
    Detach(Box<DetachRequest>),
    SetEnv {
        vars: EnvChange,
        reply: oneshot::Sender<Result<(), Error>>,
    },
    Start(Box<StartRequest>),
    Files(files::Reply),
    Running(oneshot::Sender<Result<Vec<RunningCommand>, Error>>),
    Stats(oneshot::Sender<Result<SessionStats, Error>>),
    Network(oneshot::Sender<Result<Option<Network>, Error>>),
    SignalProcess {
        key: u64,
        signal: i32,
    },
    KillProcess {
        key: u64,
        policy: KillPolicy,
        reply: oneshot::Sender<bool>,
    },
    Hold(NewHold),
    HoldIfIdle(NewHold),
    Freeze {
        id: u64,
        if_idle: bool,
        reply: FreezeReply,
    },
    Save {
        id: u64,
        reply: SaveReply,
    },
    Remount {
        id: u64,
        mount: OwnedFd,
        reply: RemountReply,
    },
    StartAgain {
        id: u64,
    },
    Release {
        id: u64,
    },
    Close {
        grace: Duration,
        reply: oneshot::Sender<()>,
    },
}

/// Sends messages to a session's task.
#[derive(Clone)]
pub struct Handle {
    id: String,
    fate: Fate,
    mailbox: Sender<Message>,
}

/// A weak [`Handle`]: the session ends when only weak handles are left.
#[derive(Clone)]
pub struct WeakHandle {
    id: String,
    fate: Fate,
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
    fn upgrade(&self) -> Option<Handle> {
        Some(Handle { mailbox: self.mailbox.upgrade()?, id: self.id.clone(), fate: self.fate.clone() })
    }
}

impl Handle {
    /// Starts the session's task. The shell itself is started by the first call that needs it.
    pub fn spawn(config: Config) -> io::Result<Self> {
        let id = config.id.clone();
        let (sender, mailbox) = mailbox();
        let fate = Fate::default();
        crate::runtime::spawn(actor::run(config, fate.clone(), mailbox))?;
        Ok(Self { id, fate, mailbox: sender })
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

    fn send_exec(&self, request: ExecRequest, after: Option<NewHold>) -> Option<Outcome> {
        let message = Message::Exec { request: Box::new(request), sent: None, after };
        match self.mailbox.send(message) {
            Ok(outcome) => outcome,
            Err(Message::Exec { request, .. }) => {
                request.sink.finished(Err(self.fate.error(&self.id)));
                None
            }
            Err(_) => None,
        }
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
            request.starter.answer(Err(self.fate.error(&self.id)));
        }
    }

    /// Sets and unsets exported variables, in order with the commands.
    pub fn set_env(&self, vars: EnvChange) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        self.ask(|reply| Message::SetEnv { vars, reply })
    }

    /// Starts a background process. The request's starter receives the outcome.
    pub fn start_process(&self, request: StartRequest) {
        if let Err(Message::Start(request)) = self.mailbox.send(Message::Start(Box::new(request))) {
            request.refuse(self.fate.error(&self.id));
        }
    }

    /// Returns access to the session's files, relative to its current directory.
    pub fn files(&self) -> impl Future<Output = Result<Access, Error>> + Send + use<> {
        self.ask(Message::Files)
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
        WeakHandle { id: self.id.clone(), fate: self.fate.clone(), mailbox: self.mailbox.downgrade() }
    }

    /// Whether it is the same session.
    pub fn is(&self, other: &Self) -> bool {
        self.fate.is(&other.fate)
    }

    /// Whether [`Handle::roll_back`] has ended it.
    pub fn is_rolled_back(&self) -> bool {
        self.fate.is_rolled_back()
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
        self.fate.roll_back();
        self.close(Duration::ZERO)
    }

    fn ask<T: Send, F>(&self, message: F) -> impl Future<Output = Result<T, Error>> + Send + use<T, F>
    where
        F: FnOnce(oneshot::Sender<Result<T, Error>>) -> Message,
    {
        let (reply, answer) = oneshot::channel();
        let sent = self.send(message(reply));
        let (id, fate) = (self.id.clone(), self.fate.clone());
        async move {
            sent?;
            answer.await.unwrap_or_else(|_| Err(fate.error(&id)))
        }
    }

    fn send(&self, message: Message) -> Result<(), Error> {
        self.mailbox.send(message).map(drop).map_err(|_| self.fate.error(&self.id))
    }
}

/// Reports of the session's own tasks.
enum Internal {
    /// From the channel of a background process that is starting.
    Process(u64, Received),
    /// The processes of a dead supervisor have been killed.
    Salvaged {
        /// The supervisor.
        of: Option<Pid>,
        /// The saved state, if it could be saved.
        checkpoint: Option<Vec<u8>>,
        /// There was a standby, but it has not saved the state.
        has_lost: bool,
    },
    /// How the session is to be confined.
    Isolated { decision: u64, isolated: Box<Result<Isolated, Error>> },
}

/// The state of a session, which its actor owns. Each part owns its state; the modules here act on several parts.
struct Session {
    config: Config,
    fate: Fate,
    /// The shell's state machine.
    state: State,
    events: VecDeque<Event>,
    calls: Calls,
    foreground: Foreground,
    background: Background,
    /// The background processes that were commands.
    detached: Detached,
    holds: Holds,
    /// The call that makes the running command a process.
    detaching: Option<DetachRequest>,
    /// The call that waits for the state of the shell.
    saving: Option<SaveReply>,
    remount: Remount,
    /// The end of the command, while the rest of its output is awaited.
    rest: Option<Rest>,
    supervision: Supervision,
    shell: ShellLink,
    standbys: Standbys,
    enclosure: Enclosure,
    files: Files,
    plain: Plain,
    recovery: Recovery,
    numbers: Numbers,
    answers: Answers,
    timers: Timers,
    pace: Arc<Pace>,
    spare_pipes: SparePipes,
    internal: mpsc::UnboundedSender<Internal>,
    reconnects: mpsc::UnboundedSender<Reconnected>,
    /// The directory after the last command.
    cwd: PathBuf,
    /// `$BASH_VERSION`; empty until the shell has started once.
    version: String,
    /// Why there is no shell.
    failure: Option<Error>,
    closing: Option<(Duration, Vec<oneshot::Sender<()>>)>,
}

impl Session {
    fn new(
        mut config: Config,
        fate: Fate,
        internal: mpsc::UnboundedSender<Internal>,
        reconnects: mpsc::UnboundedSender<Reconnected>,
    ) -> Self {
        let saved = config.saved.take();
        let mut session = Self {
            state: State::new(config.survive_exit),
            cwd: config.cwd.clone(),
            plain: Plain::new(!config.uses_builtin),
            config,
            fate,
            events: VecDeque::new(),
            calls: Calls::default(),
            foreground: Foreground::default(),
            background: Background::default(),
            detached: Detached::default(),
            holds: Holds::default(),
            detaching: None,
            saving: None,
            remount: Remount::default(),
            rest: None,
            supervision: Supervision::default(),
            shell: ShellLink::default(),
            standbys: Standbys::default(),
            enclosure: Enclosure::default(),
            files: Files::default(),
            recovery: Recovery::default(),
            numbers: Numbers::default(),
            answers: Answers::default(),
            timers: Timers::default(),
            pace: Arc::default(),
            spare_pipes: SparePipes::default(),
            internal,
            reconnects,
            version: String::new(),
            failure: None,
            closing: None,
        };
        saved.into_iter().for_each(|saved| session.begin_with(saved));
        session
    }

    /// Reports what has happened to observers.
    fn happens(&self, what: What) {
        self.config.feed.push(&self.config.id, what);
    }

    /// The error of a call that the end of the session cuts off.
    fn ended_error(&self) -> Error {
        self.fate.error(&self.config.id)
    }

    /// Closes every connection to the session's processes.
    fn disconnect(&mut self) {
        self.supervision.close();
        self.shell = ShellLink::default();
        self.standbys = Standbys::default();
        self.enclosure.close();
        self.files.disconnect();
        self.holds.disconnect();
        self.remount.disconnect();
        self.plain.disconnect();
    }
}
