//! The data of a session. The neighbouring modules have its behaviour, each as a part of `impl Session`.

use super::busy_poll::Pace;
use super::command::{OutputPipes, Running};
use super::lane::{Lane, Sent};
use super::pid_namespace::Inside;
use super::plain_state::Plain;
use super::processes::Processes;
use super::spare_pipes::Keeper;
use super::timers::Timers;
use super::{Config, EnvChange};
use crate::error::Error;
use crate::exec::ExecRequest;
use crate::files::{Access, Helper};
use crate::output::capture::Leftover;
use crate::process::StartRequest;
use crate::proxy::Proxy;
use crate::shell::channel::{Channel, Received};
use crate::shell::event::Event;
use crate::shell::listener::Reconnected;
use crate::shell::state::{State, Ticket};
use crate::supervisor::{PidHold, Supervisor};
use nacre_containment::pid::Pid;
use nacre_protocol::shell::Refusal as ShellRefusal;
use nacre_protocol::supervisor::Report;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

/// A call that has not been answered yet.
pub(super) enum Call {
    Open(oneshot::Sender<Result<(), Error>>),
    Exec(Box<ExecRequest>),
    SetEnv { vars: EnvChange, reply: oneshot::Sender<Result<(), Error>> },
    Start(Box<StartRequest>),
    Files(oneshot::Sender<Result<Access, Error>>),
}

/// Reports of the session's own tasks.
pub(super) enum Internal {
    /// From the channel of a background process that is starting.
    Process(u64, Received),
    /// The processes of a dead supervisor have been killed.
    Salvaged {
        /// The supervisor.
        of: Option<Pid>,
        /// The saved state, if it could be saved.
        checkpoint: Option<Vec<u8>>,
    },
    /// The version of a shell that made no handshake; `None` if it is not bash.
    Version(Option<String>),
}

/// The connections to the session's processes.
#[derive(Default)]
pub(super) struct Link {
    pub(super) supervisor: Option<Supervisor>,
    pub(super) shell: Option<Arc<Channel>>,
    pub(super) shell_pid: Option<Pid>,
    /// The shell's handshake arrived before the supervisor reported the start.
    pub(super) said_hello: bool,
    /// The pid namespace of the session.
    pub(super) inside: Option<Inside>,
    /// The proxy, which ends with the link.
    pub(super) proxy: Option<Proxy>,
    /// Why the session cannot be confined.
    pub(super) not_confined: Option<String>,
    /// The supervisor has ended, with everything below it.
    pub(super) ended: bool,
    /// The shell's channel closed before the shell read the last request.
    pub(super) unread: bool,
    pub(super) standby: Option<(Channel, Pid)>,
    /// The standby that is being forked, and its group.
    pub(super) next_standby: Option<(u64, Channel, Option<PathBuf>)>,
    /// Directory of the foreground group.
    pub(super) foreground: Option<PathBuf>,
    /// An empty group for the next process.
    pub(super) spare_group: Option<PathBuf>,
    /// The files helper, after its first use.
    pub(super) files: Option<Arc<Helper>>,
    /// Replaced standbys that live in the foreground group.
    pub(super) retired: Vec<Pid>,
}

/// A received message.
pub(super) enum Arrival {
    Shell(Received),
    Standby(Received),
    Supervisor(Option<(Report, Option<OwnedFd>)>),
}

impl Link {
    /// Waits for the next message. Cancel-safe.
    pub(super) async fn next(&self) -> Arrival {
        let channel = async |channel: Option<&Channel>| match channel {
            Some(channel) => channel.receive().await,
            None => std::future::pending().await,
        };
        let report = async || match &self.supervisor {
            Some(supervisor) => supervisor.report().await,
            None => std::future::pending().await,
        };
        tokio::select! {
            biased;
            received = channel(self.shell.as_deref()) => Arrival::Shell(received),
            received = channel(self.standby.as_ref().map(|(channel, _)| channel)) => Arrival::Standby(received),
            report = report() => Arrival::Supervisor(report),
        }
    }
}

/// Replies that other processes still owe.
#[derive(Default)]
pub(super) struct Wait {
    /// Number of setup requests whose end is pending.
    pub(super) setting_up: usize,
    /// The number of the last command sent.
    pub(super) command: u64,
    /// The running kill ladder.
    pub(super) ladder: u64,
    /// Its first signal.
    pub(super) kill_signal: i32,
    /// Roots of older processes, which the ladder spares. Only used without control groups.
    pub(super) spare: Vec<Pid>,
    /// Why the shell refused the last request.
    pub(super) refused: Option<(ShellRefusal, String)>,
    /// `$?` of the command during which the shell died, for the standby that takes over.
    pub(super) status: u64,
    /// The last command whose start was announced.
    pub(super) announced: Ticket,
    /// Whether a report of the supervisor is due.
    pub(super) report: bool,
    pub(super) sessions: u64,
    pub(super) ids: u64,
    /// Hash keys, random in each session.
    pub(super) secret: RandomState,
}

impl Wait {
    /// Records that the supervisor has reported, so it is alive and not stopped.
    pub(super) fn answered(&mut self) {
        self.report = false;
    }

    /// The number of the next fork.
    pub(super) fn next_id(&mut self) -> u64 {
        self.ids += 1;
        self.ids
    }

    /// The key of the session's forks; see [`nacre_isolation::filter::program`].
    pub(super) fn fork_key(&self) -> u64 {
        self.secret.hash_one("fork")
    }

    /// An unguessable number for a command. With a guessable number, a command that finds the shell's socket could
    /// report its own end, or that of the next command.
    pub(super) fn next_command(&mut self) -> u64 {
        self.ids += 1;
        self.command = self.secret.hash_one(self.ids).max(1);
        self.command
    }
}

/// See the module.
pub(super) struct Session {
    pub(super) config: Config,
    pub(super) state: State,
    pub(super) events: VecDeque<Event>,
    pub(super) calls: HashMap<Ticket, Call>,
    pub(super) link: Link,
    pub(super) command: Option<Running>,
    pub(super) processes: Processes,
    pub(super) timers: Timers,
    pub(super) wait: Wait,
    pub(super) plain: Plain,
    pub(super) internal: mpsc::UnboundedSender<Internal>,
    pub(super) reconnects: mpsc::UnboundedSender<Reconnected>,
    /// The session's directory after the last command.
    pub(super) cwd: PathBuf,
    /// The state that a new shell starts with, as text.
    pub(super) checkpoint: Option<Vec<u8>>,
    /// Why there is no shell.
    pub(super) failure: Option<Error>,
    /// The pipes of the command that was answered last.
    pub(super) leftover: Option<Leftover>,
    /// Tasks that read later output of processes of earlier commands.
    pub(super) drains: JoinSet<()>,
    /// Pipes for the next command.
    pub(super) spare_pipes: Option<OutputPipes>,
    pub(super) keeper: Option<Keeper>,
    pub(super) closing: Option<(Duration, Vec<oneshot::Sender<()>>)>,
    pub(super) pace: Pace,
    pub(super) lane: Lane,
    /// The next command, if its caller has already sent it.
    pub(super) sent: Option<Sent>,
    /// Whether the reply to the last command may arrive soon.
    pub(super) answer_is_near: bool,
    /// Whether the last command took a fraction of a millisecond.
    pub(super) quick: bool,
    /// The pid of the last supervisor, until the processes that it left behind have ended.
    pub(super) last_supervisor: Option<PidHold>,
    pub(super) tickets: Ticket,
    pub(super) requests: HashMap<u64, Ticket>,
}

impl Session {
    pub(super) fn new(
        config: Config,
        lane: Lane,
        internal: mpsc::UnboundedSender<Internal>,
        reconnects: mpsc::UnboundedSender<Reconnected>,
    ) -> Self {
        Self {
            state: State::new(config.survive_exit),
            cwd: config.cwd.clone(),
            config,
            events: VecDeque::new(),
            calls: HashMap::new(),
            link: Link::default(),
            command: None,
            processes: Processes::default(),
            timers: Timers::default(),
            wait: Wait::default(),
            plain: Plain::default(),
            internal,
            reconnects,
            checkpoint: None,
            failure: None,
            leftover: None,
            drains: JoinSet::new(),
            spare_pipes: None,
            keeper: None,
            closing: None,
            pace: Pace::default(),
            lane,
            sent: None,
            answer_is_near: false,
            quick: false,
            last_supervisor: None,
            tickets: 0,
            requests: HashMap::new(),
        }
    }
}
