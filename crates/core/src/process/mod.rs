//! The host's view of a background process, from the request until the process is forgotten.

mod hold;
pub mod listeners;
pub mod messages;
pub mod ports;
pub mod pump;
mod registry;
mod request;
mod stats;
pub mod terminal;
mod wait_for;
mod waiting;

pub use hold::ProcessHold;
pub use pump::pump;
pub use registry::Registry;
pub use request::{DetachRequest, DetachedProcess, NewProcess, StartRequest, Starter};
pub use stats::{SessionStats, Stats};
pub use wait_for::{Conditions, First};
pub use waiting::{How, Waiting};

use crate::error::{Code, Error};
use crate::exec::{By, Chunk, InputWriter, KillPolicy, KilledBy, Outcome};
use crate::process_log::ProcessLog;
use messages::Messages;
use nacre_containment::lock::Lock;
use nacre_containment::pid::Pid;
use nacre_containment::tree::Tree;
use nacre_protocol::supervisor::Asked;
use serde::{Deserialize, Serialize};
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use terminal::Terminal;
use tokio::sync::watch;

/// The error of a query whose processes cannot be looked up, for example because this process has no descriptor left.
fn unseen(error: &io::Error) -> Error {
    Error::new(Code::EngineError, format!("the processes cannot be looked up: {error}"))
}

/// Why a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reason {
    /// It exited by itself.
    Exit,
    /// A signal that nacre did not send ended it.
    Signal,
    /// It reached its timeout.
    Timeout,
    /// It reached its memory limit.
    OutOfMemory,
    /// The caller killed it, or its session ended.
    Killed,
    /// Its supervisor was killed, and the process with it.
    Lost,
    /// The program that had its kept sandbox was killed, and the process with it.
    HostLost,
}

impl From<By> for Reason {
    fn from(by: By) -> Self {
        match by {
            By::Timeout => Self::Timeout,
            By::OutOfMemory => Self::OutOfMemory,
            By::Abort | By::Caller | By::OutputLimit | By::Session | By::Budget => Self::Killed,
        }
    }
}

/// The end of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// Exit code, if it exited.
    pub code: Option<i32>,
    /// Signal number, if a signal ended it.
    pub signal: Option<i32>,
    /// The reason.
    pub reason: Reason,
}

/// The start of a process.
#[derive(Clone, Debug)]
pub struct Birth {
    /// Its pid.
    pub pid: Pid,
    /// Wall clock.
    pub at: SystemTime,
    /// The process and its descendants.
    pub tree: Tree,
}

/// What happens to a process, for a [`ProcessObserver`].
#[derive(Clone, Debug)]
pub enum ProcessChange {
    /// It runs.
    Started {
        /// Its pid.
        pid: i32,
        /// The size of its terminal, if it has one.
        terminal: Option<terminal::Size>,
    },
    /// Its terminal has another size.
    Resized(terminal::Size),
    /// A program of it waits for input.
    Waits(Waiting),
    /// It has ended, and what has killed it.
    Ended(Exit, Option<KilledBy>),
}

/// Receives what happens to a process. Must not block.
pub type ProcessObserver = Arc<dyn Fn(&Process, ProcessChange) + Send + Sync>;

/// The progress of a process.
#[derive(Clone, Debug, Default)]
pub struct ProcessLife {
    /// `None` while it is starting.
    pub birth: Option<Birth>,
    /// The end and its time (wall clock).
    pub end: Option<(Exit, SystemTime)>,
    /// What has killed it, if something did.
    pub killed_by: Option<KilledBy>,
}

/// The session that a process belongs to.
pub trait Owner: Send + Sync {
    /// The session's id.
    fn id(&self) -> &str;

    /// Ends a process with its whole tree. False if it had already ended.
    fn kill_process(&self, key: u64, policy: KillPolicy) -> Pin<Box<dyn Future<Output = bool> + Send>>;

    /// Sends a signal to the process group of a process.
    fn signal_process(&self, key: u64, signal: i32);
}

static NEXT_NUMBER: AtomicU64 = AtomicU64::new(1);

/// See the module.
pub struct Process {
    /// The id, unique among the processes of the sandbox at one time.
    pub id: String,
    /// The number, which no other process of this program ever has.
    pub number: u64,
    /// The session that started it.
    pub session: Box<dyn Owner>,
    /// As displayed.
    pub command: String,
    /// Its output.
    pub log: ProcessLog,
    /// Backpressure for a lagging reader, if requested.
    pub hold: Option<ProcessHold>,
    /// Whether the process is forgotten some time after its end.
    pub auto_cleanup: bool,
    /// Whether the log has everything from the beginning.
    pub keeps_log: bool,
    /// It is a command in the foreground of its session.
    is_command: AtomicBool,
    life: watch::Sender<ProcessLife>,
    /// Its key in the session, once it has one, and the pending termination request.
    fate: Lock<ProcessFate>,
    /// Its streamed input, if it has one.
    writer: Option<InputWriter>,
    terminal: Lock<Option<Terminal>>,
    /// Its channel of messages, if it has one.
    messages: OnceLock<Arc<Messages>>,
    /// The inode of the pipe that is its standard input.
    input: OnceLock<u64>,
    /// When input was last written, in milliseconds since the epoch; 0 for never.
    input_ms: AtomicU64,
    /// The wait for input that observers know, and `input_ms` then.
    reported: Lock<Option<(Waiting, u64)>>,
    /// The id of the request, if it is or was a command.
    request: Option<u64>,
    /// The number of its files, if the sandbox keeps it on the disk.
    pub kept_as: OnceLock<u64>,
    /// It belonged to an earlier sandbox of the same name.
    pub is_restored: bool,
    /// What the next sandbox of the same name gets with it.
    pub definition: Option<String>,
    observer: ProcessObserver,
}

#[derive(Default)]
struct ProcessFate {
    key: Option<u64>,
    /// What ends it, and the first signal.
    doom: Option<(KilledBy, i32)>,
}

impl Process {
    /// Creates a process that has not started.
    pub fn new(new: &mut NewProcess, session: Box<dyn Owner>, log: ProcessLog, observer: ProcessObserver) -> Self {
        if new.ipc {
            new.env.extend(messages::variables());
        }
        Self {
            hold: new.window.map(ProcessHold::new),
            auto_cleanup: new.auto_cleanup,
            writer: new.writer.take(),
            definition: new.definition.take(),
            ..Self::unborn(new.id.clone(), new.shown.clone(), session, log, observer)
        }
    }

    /// A process that has not started, without what its callers ask for.
    fn unborn(
        id: String,
        command: String,
        session: Box<dyn Owner>,
        log: ProcessLog,
        observer: ProcessObserver,
    ) -> Self {
        Self {
            id,
            number: NEXT_NUMBER.fetch_add(1, Ordering::Relaxed),
            session,
            command,
            log,
            hold: None,
            auto_cleanup: false,
            keeps_log: true,
            is_command: AtomicBool::new(false),
            life: watch::Sender::default(),
            fate: Lock::default(),
            writer: None,
            terminal: Lock::default(),
            messages: OnceLock::new(),
            input: OnceLock::new(),
            input_ms: AtomicU64::default(),
            reported: Lock::default(),
            request: None,
            kept_as: OnceLock::new(),
            is_restored: false,
            definition: None,
            observer,
        }
    }

    /// A process of an earlier sandbox, which has ended.
    pub fn restored(
        (id, command): (String, String),
        session: Box<dyn Owner>,
        log: ProcessLog,
        auto_cleanup: bool,
        definition: Option<String>,
        life: ProcessLife,
    ) -> Self {
        Self {
            auto_cleanup,
            life: watch::Sender::new(life),
            is_restored: true,
            definition,
            ..Self::unborn(id, command, session, log, Arc::new(|_, _| {}))
        }
    }

    /// Creates the process that a command in the foreground can become.
    pub fn of_command(
        new: DetachedProcess,
        session: Box<dyn Owner>,
        log: ProcessLog,
        observer: ProcessObserver,
    ) -> Self {
        Self {
            auto_cleanup: new.auto_cleanup,
            keeps_log: new.keeps_log,
            is_command: AtomicBool::new(true),
            writer: new.writer,
            request: Some(new.request),
            ..Self::unborn(new.id, new.shown, session, log, observer)
        }
    }

    /// Returns the current progress.
    pub fn life(&self) -> ProcessLife {
        self.life.borrow().clone()
    }

    /// Records that it is running.
    pub fn born(&self, key: u64, birth: Birth) {
        self.fate.lock().key = Some(key);
        let pid = birth.pid.raw();
        self.life.send_modify(|life| life.birth = Some(birth));
        let terminal = self.terminal().map(|(size, _)| size);
        self.happens(ProcessChange::Started { pid, terminal });
    }

    /// Records that a command in the foreground has begun.
    pub fn command_begun(&self, birth: Birth) {
        self.life.send_modify(|life| life.birth = Some(birth));
    }

    /// Records the end that the kernel reports; `None` if the end could not be observed.
    ///
    /// A shell exits with 128+n if signal n ended its child. If nacre sent that signal, the end is reported as a
    /// signal. If a shell is signalled while it runs no foreground program, its exit code is that of the previous
    /// command; a 0 is then reported as the signal.
    pub fn ended(&self, status: Option<pump::Status>) {
        if status.is_some_and(|status| status.out_of_memory) {
            self.doom(By::OutOfMemory.into(), libc::SIGKILL);
        }
        let doom = self.fate.lock().doom.clone();
        let doom = doom.filter(|(_, signal)| status.is_none_or(|status| status.can_follow(*signal)));
        let (killed_by, doom) = doom.map(|(by, signal)| (by.clone(), (Reason::from(by.by), signal))).unzip();
        let alone = status.is_some_and(|status| status.asked == Asked::Alone);
        let status = status.map(|status| (status.code, status.signal));
        let exit = match (status, doom) {
            (None, None) => Exit { code: None, signal: None, reason: Reason::Lost },
            (None, Some((reason, _))) => Exit { code: None, signal: Some(libc::SIGKILL), reason },
            (Some((Some(code), _)), Some((reason, signal))) => {
                let reported = [signal, libc::SIGKILL].into_iter().find(|signal| code == 128 + signal);
                let by = reported.or((alone && code == 0).then_some(signal));
                Exit { code: by.is_none().then_some(code), signal: by, reason }
            }
            (Some((_, signal)), Some((reason, _))) => Exit { code: None, signal, reason },
            (Some((Some(code), _)), None) => Exit { code: Some(code), signal: None, reason: Reason::Exit },
            (Some((None, signal)), None) => Exit { code: None, signal, reason: Reason::Signal },
        };
        self.close_input();
        drop(self.terminal.lock().take());
        self.messages.get().into_iter().for_each(|messages| messages.close());
        self.happens(ProcessChange::Ended(exit, killed_by.clone()));
        self.life.send_modify(|life| {
            life.killed_by = killed_by;
            life.end = Some((exit, SystemTime::now()));
        });
    }

    /// Whether it is a command in the foreground of its session, and no process yet.
    pub fn is_command(&self) -> bool {
        self.is_command.load(Ordering::Relaxed)
    }

    /// Records that the command has become a process.
    pub fn detached(&self) {
        self.is_command.store(false, Ordering::Relaxed);
    }

    /// Records the end of a command. No effect if it has become a process.
    pub fn command_ended(&self, result: &Result<Outcome, Error>) {
        if !self.is_command() {
            return;
        }
        let outcome = result.as_ref().map_or_else(|error| error.outcome.as_deref(), Some);
        let exit = match outcome {
            None => Exit { code: None, signal: None, reason: Reason::Lost },
            Some(Outcome { exit_code: code, signal, timed_out, cancelled, output_limited, .. }) => {
                let reason = match (timed_out, cancelled | output_limited, signal) {
                    (true, ..) => Reason::Timeout,
                    (_, true, _) => Reason::Killed,
                    (_, _, Some(_)) => Reason::Signal,
                    (_, _, None) if code.is_none() => Reason::Lost,
                    (_, _, None) => Reason::Exit,
                };
                Exit { code: *code, signal: *signal, reason }
            }
        };
        self.life.send_modify(|life| {
            life.killed_by = outcome.and_then(|outcome| outcome.killed_by.clone());
            life.end = Some((exit, SystemTime::now()));
        });
        drop(self.terminal.lock().take());
        self.log.end();
    }

    /// Resolves once it runs, or with `None` if it never will.
    pub async fn birth(&self) -> Option<Birth> {
        let mut life = self.life.subscribe();
        let life = life.wait_for(|life| life.birth.is_some() || life.end.is_some()).await.ok()?;
        life.birth.clone()
    }

    /// Resolves once it has ended.
    pub async fn wait(&self) {
        let mut life = self.life.subscribe();
        // Cannot fail: `self` owns the sender.
        let _ = life.wait_for(|life| life.end.is_some()).await;
    }

    /// Records what ends the process. The first counts.
    pub fn doom(&self, by: KilledBy, signal: i32) {
        if self.life.borrow().end.is_none() {
            self.fate.lock().doom.get_or_insert((by, signal));
        }
    }

    /// True if the process is being ended, whether or not it has begun.
    pub fn is_doomed(&self) -> bool {
        self.fate.lock().doom.is_some()
    }

    /// The first signal with which it is being ended.
    pub fn doomed_by(&self) -> Option<i32> {
        self.fate.lock().doom.as_ref().map(|(_, signal)| *signal)
    }

    /// Ends the process with its whole tree. Resolves when nothing is left: false if it had already ended.
    pub async fn kill(&self, by: KilledBy, policy: KillPolicy) -> bool {
        self.doom(by, policy.signal);
        let key = self.fate.lock().key;
        match key {
            Some(key) => self.session.kill_process(key, policy).await,
            None => false,
        }
    }

    /// Sends a signal to the process group, without a later SIGKILL. False if the process has ended.
    pub fn signal(&self, signal: i32) -> bool {
        let key = self.fate.lock().key.filter(|_| self.life.borrow().end.is_none());
        key.inspect(|&key| self.session.signal_process(key, signal)).is_some()
    }

    /// True while its standard input is open.
    pub fn takes_input(&self) -> bool {
        self.writer.as_ref().is_some_and(InputWriter::is_open)
    }

    /// Sends a chunk to standard input. A chunk that cannot be delivered is dropped.
    pub fn write(&self, chunk: Chunk) {
        if let Some(writer) = &self.writer {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
            self.input_ms.store(now, Ordering::Relaxed);
            writer.send(chunk);
        }
    }

    /// When input was last written, in milliseconds since the epoch.
    pub fn last_input_ms(&self) -> Option<u64> {
        Some(self.input_ms.load(Ordering::Relaxed)).filter(|time| *time > 0)
    }

    /// Attaches a terminal.
    pub fn set_terminal(&self, terminal: Terminal) {
        *self.terminal.lock() = Some(terminal);
    }

    /// Sets the size of the terminal. False if there is no terminal, or the process has ended.
    pub fn resize(&self, size: terminal::Size) -> bool {
        let is_resized = self.with_terminal(|terminal| terminal.resize(size)).is_some_and(|resized| resized.is_ok());
        if is_resized && !self.is_command() {
            self.happens(ProcessChange::Resized(size));
        }
        is_resized
    }

    /// The size and the mode of the terminal. `None` if there is none, or the process has ended.
    pub fn terminal(&self) -> Option<(terminal::Size, terminal::Mode)> {
        self.with_terminal(|terminal| Some((terminal.size().ok()?, terminal.mode().ok()?)))?
    }

    /// `None` if there is no terminal, or the process has ended.
    fn with_terminal<T>(&self, act: impl FnOnce(&Terminal) -> T) -> Option<T> {
        let terminal = self.terminal.lock();
        terminal.as_ref().filter(|_| self.life.borrow().end.is_none()).map(act)
    }

    /// Attaches a channel of messages.
    pub fn set_messages(&self, messages: Messages) {
        let _ = self.messages.set(Arc::new(messages));
    }

    /// Its channel of messages, if it has one.
    pub fn messages(&self) -> Option<&Arc<Messages>> {
        self.messages.get()
    }

    /// Records the inode of the pipe that is its standard input.
    pub fn set_input(&self, pipe: u64) {
        let _ = self.input.set(pipe);
    }

    /// Closes standard input.
    pub fn close_input(&self) {
        if let Some(writer) = &self.writer {
            writer.close();
        }
    }

    /// The id of the request, if it is a command in the foreground of its session.
    pub fn request(&self) -> Option<u64> {
        self.request.filter(|_| self.is_command())
    }

    fn happens(&self, what: ProcessChange) {
        (self.observer)(self, what);
    }
}

/// Kills a process after its timeout.
pub fn end_after(process: std::sync::Arc<Process>, timeout: Duration, policy: KillPolicy) {
    tokio::spawn(async move {
        if tokio::time::timeout(timeout, process.wait()).await.is_err() {
            process.kill(By::Timeout.into(), policy).await;
        }
    });
}
