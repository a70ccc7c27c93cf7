//! A background process as the host knows it: from the request to its end, and for as long as somebody asks after it.

pub mod ports;
pub mod pump;
mod registry;
mod stats;
pub mod terminal;

pub use pump::pump;
pub use registry::Registry;
pub use stats::Stats;

use crate::error::Error;
use crate::exec::{Chunk, Command, Input, KillPolicy};
use crate::limits::{Enforcement, Limits};
use crate::process_log::ProcessLog;
use nacre_containment::pid::Pid;
use nacre_containment::tree::Tree;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};
use terminal::Terminal;
use tokio::sync::{mpsc, watch};

/// Why a process has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It exited.
    Exit,
    /// A signal that was not ours.
    Signal,
    /// Its time was up.
    Timeout,
    /// The memory limit.
    OutOfMemory,
    /// Somebody asked for it, or its session was ended.
    Killed,
    /// Its supervisor was killed, and it with it.
    Lost,
}

/// How a process has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// Exit code, when it exited.
    pub code: Option<i32>,
    /// Signal number, when one ended it.
    pub signal: Option<i32>,
    /// Why.
    pub reason: Reason,
}

/// When and as what a process has started.
#[derive(Clone, Debug)]
pub struct Birth {
    /// Its number.
    pub pid: Pid,
    /// Wall clock.
    pub at: SystemTime,
    /// Who belongs to it.
    pub tree: Tree,
}

/// What has become of a process so far.
#[derive(Clone, Debug, Default)]
pub struct Life {
    /// Nothing while it is being started.
    pub birth: Option<Birth>,
    /// How it has ended, and when (wall clock).
    pub end: Option<(Exit, SystemTime)>,
}

/// What a process is asked to do.
pub struct NewProcess {
    /// Unique in the sandbox.
    pub id: String,
    /// As it is shown.
    pub shown: String,
    /// The command itself.
    pub command: Command,
    /// Instead of the session's directory; relative to that.
    pub cwd: Option<PathBuf>,
    /// Changes to the session's variables; `None` unsets.
    pub env: Vec<(String, Option<String>)>,
    /// From the start.
    pub timeout: Option<Duration>,
    /// For the timeout.
    pub kill: KillPolicy,
    /// Standard input.
    pub input: Input,
    /// The other end of a streamed input.
    pub writer: Option<mpsc::UnboundedSender<Chunk>>,
    /// A terminal of this size in place of the three streams.
    pub terminal: Option<terminal::Size>,
    /// Bytes of log kept.
    pub log_limit: u64,
    /// What it may use.
    pub wanted_limits: Limits,
    /// What that is put into force by; the sandbox fills it in.
    pub limits: Enforcement,
    /// Forgotten some time after its end.
    pub auto_cleanup: bool,
}

/// A request on its way through the session.
pub struct StartRequest {
    /// What is to be started.
    pub new: NewProcess,
    /// Where its life is written down.
    pub process: std::sync::Arc<Process>,
    /// Told when it runs or can not be started.
    pub starter: Starter,
}

impl StartRequest {
    /// It can not be started.
    pub fn refuse(self, error: Error) {
        self.starter.tell(Err(error));
    }
}

/// Who waits for a process to start. Told once, at once and on the thread that knows; a request that is lost is one of a
/// session that has ended.
pub struct Starter {
    session: String,
    tell: Option<Tell>,
}

type Tell = Box<dyn FnOnce(Result<(), Error>) + Send>;

impl Starter {
    /// `tell` must not wait for anything.
    pub fn new(session: &str, tell: impl FnOnce(Result<(), Error>) + Send + 'static) -> Self {
        Self { session: session.into(), tell: Some(Box::new(tell)) }
    }

    /// What has become of it.
    pub fn tell(mut self, result: Result<(), Error>) {
        if let Some(tell) = self.tell.take() {
            tell(result);
        }
    }
}

impl Drop for Starter {
    fn drop(&mut self) {
        if let Some(tell) = self.tell.take() {
            tell(Err(Error::session_destroyed(&self.session)));
        }
    }
}

/// The session that a process belongs to.
pub trait Owner: Send + Sync {
    /// The session's id.
    fn id(&self) -> &str;

    /// Ends a process with its whole tree; false when there was nothing to end.
    fn kill_process(&self, key: u64, policy: KillPolicy) -> Pin<Box<dyn Future<Output = bool> + Send>>;
}

/// See the module.
pub struct Process {
    /// Unique in the sandbox.
    pub id: String,
    /// The session it was started from.
    pub session: Box<dyn Owner>,
    /// As it is shown.
    pub command: String,
    /// What it prints.
    pub log: ProcessLog,
    /// Forgotten some time after its end.
    pub auto_cleanup: bool,
    life: watch::Sender<Life>,
    /// Its key in the session, once it has one; and what it is to end by, when somebody wants it to.
    fate: Mutex<Fate>,
    writer: Mutex<Option<mpsc::UnboundedSender<Chunk>>>,
    terminal: Mutex<Option<Terminal>>,
}

#[derive(Default)]
struct Fate {
    key: Option<u64>,
    doom: Option<(Reason, i32)>,
}

impl Process {
    /// Not started yet.
    pub fn new(new: &mut NewProcess, session: Box<dyn Owner>, log: ProcessLog) -> Self {
        Self {
            id: new.id.clone(),
            session,
            command: new.shown.clone(),
            log,
            auto_cleanup: new.auto_cleanup,
            life: watch::Sender::default(),
            fate: Mutex::default(),
            writer: Mutex::new(new.writer.take()),
            terminal: Mutex::default(),
        }
    }

    /// What has become of it.
    pub fn life(&self) -> Life {
        self.life.borrow().clone()
    }

    /// It runs.
    pub fn born(&self, key: u64, birth: Birth) {
        self.fate().key = Some(key);
        self.life.send_modify(|life| life.birth = Some(birth));
    }

    /// It has ended, as the kernel tells it: `None` when nobody could see it.
    ///
    /// A shell says 128+n for a child that was ended by signal n; when that is the signal we have sent, it is told as
    /// what it is. A shell that was asked to end when it ran no program in front has no exit code to give but a 0 that
    /// was there before.
    pub fn ended(&self, status: Option<pump::Status>) {
        if status.is_some_and(|status| status.out_of_memory) {
            self.doom(Reason::OutOfMemory, libc::SIGKILL);
        }
        let alone = status.is_some_and(|status| status.alone);
        let status = status.map(|status| (status.code, status.signal));
        let doom = self.fate().doom;
        let exit = match (status, doom) {
            (None, None) => Exit { code: None, signal: None, reason: Reason::Lost },
            (None, Some((reason, _))) => Exit { code: None, signal: Some(libc::SIGKILL), reason },
            (Some((Some(code), _)), Some((reason, signal))) => {
                let told = [signal, libc::SIGKILL].into_iter().find(|signal| code == 128 + signal);
                let by = told.or((alone && code == 0).then_some(signal));
                Exit { code: by.is_none().then_some(code), signal: by, reason }
            }
            (Some((_, signal)), Some((reason, _))) => Exit { code: None, signal, reason },
            (Some((Some(code), _)), None) => Exit { code: Some(code), signal: None, reason: Reason::Exit },
            (Some((None, signal)), None) => Exit { code: None, signal, reason: Reason::Signal },
        };
        self.writer().take();
        drop(self.terminal.lock().unwrap_or_else(PoisonError::into_inner).take());
        self.life.send_modify(|life| life.end = Some((exit, SystemTime::now())));
    }

    /// Resolves when it has ended.
    pub async fn wait(&self) {
        let mut life = self.life.subscribe();
        // The sender lives in `self`.
        let _ = life.wait_for(|life| life.end.is_some()).await;
    }

    /// Says why it will have ended. The first one stays.
    pub fn doom(&self, reason: Reason, signal: i32) {
        if self.life.borrow().end.is_none() {
            self.fate().doom.get_or_insert((reason, signal));
        }
    }

    /// True when it is to end, whether or not it has begun.
    pub fn is_doomed(&self) -> bool {
        self.fate().doom.is_some()
    }

    /// Ends it with its whole tree; resolves when nothing is left. False when there was nobody to end.
    pub async fn kill(&self, reason: Reason, policy: KillPolicy) -> bool {
        self.doom(reason, policy.signal);
        let key = self.fate().key;
        match key {
            Some(key) => self.session.kill_process(key, policy).await,
            None => false,
        }
    }

    /// True while standard input is open.
    pub fn takes_input(&self) -> bool {
        self.writer().as_ref().is_some_and(|writer| !writer.is_closed())
    }

    /// Sends standard input. Where nobody takes it the chunk is given up.
    pub fn write(&self, chunk: Chunk) {
        if let Some(writer) = self.writer().as_ref() {
            let _ = writer.send(chunk);
        }
    }

    /// It has a terminal.
    pub fn set_terminal(&self, terminal: Terminal) {
        *self.terminal.lock().unwrap_or_else(PoisonError::into_inner) = Some(terminal);
    }

    /// Sets the size of its terminal. False when it has none, or has ended.
    pub fn resize(&self, size: terminal::Size) -> bool {
        let terminal = self.terminal.lock().unwrap_or_else(PoisonError::into_inner);
        self.life.borrow().end.is_none() && terminal.as_ref().is_some_and(|terminal| terminal.resize(size).is_ok())
    }

    /// Ends standard input.
    pub fn close_input(&self) {
        self.writer().take();
    }

    fn fate(&self) -> MutexGuard<'_, Fate> {
        self.fate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn writer(&self) -> MutexGuard<'_, Option<mpsc::UnboundedSender<Chunk>>> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends a process when its time is up.
pub fn end_after(process: std::sync::Arc<Process>, timeout: Duration, policy: KillPolicy) {
    tokio::spawn(async move {
        if tokio::time::timeout(timeout, process.wait()).await.is_err() {
            process.kill(Reason::Timeout, policy).await;
        }
    });
}
