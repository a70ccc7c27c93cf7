//! What a sandbox with a name keeps on the disk: the state of each session, written after it may have changed. The next sandbox of
//! the name begins with it.
//!
//! A state is written after a command has answered, at most once in 50 ms, and never by the command's caller. An idle shell writes
//! it down during a hold. While a command runs, its standby has the state before it. So what is on the disk is always the state
//! between two commands. When this process ends before it has written the last one, the supervisor of the session does.
//!
//! States are numbered in the order in which shells were asked for them, over all sessions and sandboxes of the name. So the
//! supervisor knows, without a clock, whether the state of the standby is newer than the one on the disk.

use super::checkpoint::{KeptCheckpoint, KeptSession, Unusable, written_down};
use super::kept_processes::ProcessKeeper;
use super::{NewSession, OpenSession, Sandbox, WeakSandbox};
use crate::blocking::blocking;
use crate::error::{Code, Error};
use crate::feed::{CommandEnd, FeedEvent, What};
use crate::hook::Hook;
use crate::private_directory;
use crate::process::Process;
use crate::session::{self, Saved};
use nacre_containment::lock::Lock;
use nacre_keep::{Entry, Failure, Kept};
use nacre_protocol::kept::{FileState, SessionFile};
use nacre_protocol::message;
use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

/// The directory of all names, in the state directory.
const DIRECTORY: &str = "kept";
/// The least time between two states of a session on the disk.
const EVERY: Duration = Duration::from_millis(50);
/// How long the end of the sandbox may wait for the last states.
const LAST: Duration = Duration::from_secs(3);

/// See the module.
pub(super) struct Keeper {
    /// `None` once the sandbox has ended.
    files: Lock<Option<Arc<Kept>>>,
    progress: Arc<StateChanges>,
    /// Held while something is written.
    turn: tokio::sync::Mutex<()>,
    hash: RandomState,
    processes: ProcessKeeper,
}

/// What has changed, and what is on the disk.
struct StateChanges {
    /// By the ids of sessions.
    sessions: Lock<HashMap<String, SessionChange>>,
    wake: mpsc::Sender<()>,
}

#[derive(Default)]
struct SessionChange {
    /// The state may not be the written one.
    has_changed: bool,
    /// How the last command has ended: `$?` belongs to the state.
    code: Option<Option<i32>>,
    /// The hash of what was written last.
    written: Option<u64>,
}

/// Why the state of a session is not on the disk.
enum Unkept {
    /// Its shell begins or ends a command, or itself.
    Unready,
    Failed(String),
}

impl StateChanges {
    fn of<T>(&self, id: &str, act: impl FnOnce(&mut SessionChange) -> T) -> T {
        let mut sessions = self.sessions.lock();
        if let Some(session) = sessions.get_mut(id) {
            return act(session);
        }
        act(sessions.entry(id.into()).or_default())
    }

    /// A state has changed. It is written soon.
    fn add(&self, id: &str) {
        self.of(id, |session| session.has_changed = true);
        self.wake();
    }

    fn wake(&self) {
        // If it is full, the task wakes up anyway.
        let _ = self.wake.try_send(());
    }

    fn command_ended(&self, id: &str, end: &CommandEnd) {
        if end.keeps_state && end.exit_code.is_none() {
            return;
        }
        let is_same = self.of(id, |session| session.code.replace(end.exit_code) == Some(end.exit_code));
        if !(is_same && end.keeps_state) {
            self.add(id);
        }
    }

    /// Another session may have got the id meanwhile.
    fn forget(&self, id: &str) {
        let mut sessions = self.sessions.lock();
        if sessions.get(id).is_some_and(|session| !session.has_changed) {
            sessions.remove(id);
        }
    }

    /// The sessions that have changed since the last call.
    fn take(&self) -> BTreeSet<String> {
        let mut sessions = self.sessions.lock();
        let changed =
            |(id, session): (&String, &mut SessionChange)| std::mem::take(&mut session.has_changed).then(|| id.clone());
        sessions.iter_mut().filter_map(changed).collect()
    }
}

impl Sandbox {
    /// Begins with what an earlier sandbox of the same name has kept, and keeps what changes from now on. Call it before anything
    /// else. Reads a few files.
    ///
    /// # Errors
    /// `SANDBOX_IN_USE`, `SANDBOX_LOST`, `STATE_DIR_UNAVAILABLE`, and those of [`Sandbox::create_session`].
    pub fn go_on(&self) -> Result<(), Error> {
        let config = &self.inner.config;
        let Some(name) = &config.keep else { return Ok(()) };
        let parent = self.state_directory(DIRECTORY)?;
        let (files, found) = Kept::open(&parent, name).map_err(|failure| error_of(failure, name))?;
        let (mut sessions, mut last) = (Vec::new(), 0);
        for (id, content) in found {
            let (session, number) = self.read_kept(&id, &content).map_err(|why| {
                let file = parent.join(name).join(format!("session-{id}"));
                Error::new(Code::SandboxLost, format!("{}: {why}", lost(name, &file)))
            })?;
            sessions.push(session);
            last = last.max(number);
        }
        let (wake, woken) = mpsc::channel(1);
        let progress = Arc::new(StateChanges { sessions: Lock::default(), wake });
        let files = Arc::new(files);
        let processes = ProcessKeeper::new(&files, last, &self.inner.state_directory, &self.inner.processes);
        let seen = Arc::clone(&progress);
        self.inner.feed.on_event(Hook::new(move |FeedEvent { session, what, .. }| match what {
            What::CommandEnded { end, .. } => seen.command_ended(session, end),
            What::SessionStarted | What::SessionEnded => seen.add(session),
            What::ProcessStarted { .. } | What::ProcessEnded { .. } => seen.wake(),
            _ => {}
        }));
        let keeper = Keeper {
            files: Lock::new(Some(files)),
            progress,
            turn: tokio::sync::Mutex::default(),
            hash: RandomState::new(),
            processes,
        };
        let _ = self.inner.keeper.set(keeper);
        self.begin_with(sessions)?;
        let cannot = |error| Error::cannot("start the engine", &error);
        crate::runtime::spawn(keep(self.downgrade(), woken)).map_err(cannot)
    }

    /// A directory in the state directory, which nobody else can write to.
    pub(super) fn state_directory(&self, name: &str) -> Result<PathBuf, Error> {
        let state_dir = &self.inner.config.state_dir;
        let own = state_dir.join(name);
        for directory in [state_dir, &own] {
            private_directory::create(directory).map_err(|refused| unavailable(directory, &refused))?;
        }
        Ok(own)
    }

    /// What is kept in the state directory, by its names.
    ///
    /// # Errors
    /// `STATE_DIR_UNAVAILABLE`.
    pub fn list_kept(&self) -> Result<Vec<Entry>, Error> {
        nacre_keep::list(&self.inner.config.state_dir.join(DIRECTORY)).map_err(|failure| error_of(failure, ""))
    }

    /// Deletes what is kept under a name.
    ///
    /// # Errors
    /// `SANDBOX_IN_USE`, `FILE_NOT_FOUND` if there is nothing, `STATE_DIR_UNAVAILABLE`.
    pub fn delete_kept(&self, name: &str) -> Result<(), Error> {
        let parent = self.inner.config.state_dir.join(DIRECTORY);
        nacre_keep::delete(&parent, name).map_err(|failure| error_of(failure, name))
    }

    /// Reads a session for this sandbox, and the number of its state. What its shell cannot have again is reported with its next
    /// result.
    fn read_kept(&self, id: &str, content: &[u8]) -> Result<(KeptSession, u64), String> {
        let foreign = || Unusable::Foreign.to_string();
        let SessionFile { made, number, state } = message::decode(content).map_err(|_| foreign())?;
        let own = self.inner.config.isolation.as_ref();
        let kept = KeptCheckpoint::decode(&made, own).map_err(|why| why.to_string())?;
        let KeptCheckpoint { isolation, mut sessions, .. } = kept;
        let mut session = sessions.pop().filter(|session| session.new.id == id).ok_or_else(foreign)?;
        session.saved = match state {
            FileState::Encoded(saved) => message::decode(&saved).map_err(|_| foreign())?,
            FileState::Items(items) => Saved::of_items(items),
        };
        let plan = isolation.map(|isolation| isolation.hosts.plan).unwrap_or_default();
        self.inner.secrets.adopt(&plan, self.plan(), &mut [&mut session.new]).map_err(|error| error.message)?;
        session.saved.report_missing();
        Ok((session, number))
    }

    /// How a session was created, for its file. Its state is elsewhere in the file.
    fn made(&self, new: NewSession) -> Result<Vec<u8>, Error> {
        written_down(&self.checkpoint_of(vec![KeptSession { new, saved: Saved::default() }]))
    }

    /// How the supervisor of a session can write its last state, if the sandbox is kept. A session without an id is only tried.
    pub(super) fn kept_session(&self, new: &NewSession) -> Result<Option<session::SessionFiles>, Error> {
        let keeper = self.inner.keeper.get().filter(|_| !new.id.is_empty());
        let kept = |keeper: &Keeper| {
            let files = keeper.files.lock().as_ref().map(Arc::downgrade).unwrap_or_default();
            Ok(session::SessionFiles {
                files,
                made: self.made(new.clone())?,
                numbers: Arc::clone(keeper.processes.numbers()),
            })
        };
        keeper.map(kept).transpose()
    }

    /// Forgets a session that was deleted, unless another one has its id already.
    pub(super) async fn forget_kept(&self, id: &str) {
        let Some(keeper) = self.inner.keeper.get() else { return };
        let _turn = keeper.turn.lock().await;
        if self.lock().open.contains_key(id) {
            return;
        }
        if let Err(error) = keeper.write(id, None).await {
            keeper.progress.of(id, |session| session.has_changed = true);
            self.not_kept(id, &error.to_string());
        }
    }

    /// What is to be called when the variables of a session have changed.
    pub(super) fn change_of(&self, session: &str) -> impl FnOnce() + Send + use<> {
        let kept = self.inner.keeper.get().map(|keeper| (Arc::clone(&keeper.progress), session.to_string()));
        move || {
            if let Some((progress, session)) = kept {
                progress.add(&session);
            }
        }
    }

    /// Writes the states that have changed.
    async fn keep_changed(&self) {
        let Some(keeper) = self.inner.keeper.get() else { return };
        let (sessions, ended) = {
            let sessions = self.lock();
            if sessions.destroyed {
                return;
            }
            let changed = keeper.progress.take();
            let (open, ended): (Vec<_>, Vec<_>) = changed.into_iter().partition(|id| sessions.open.contains_key(id));
            (open.iter().filter_map(|id| sessions.open.get(id)).map(OpenSession::clone).collect(), ended)
        };
        let _turn = keeper.turn.lock().await;
        self.write_processes(keeper, false).await;
        for (id, why) in self.keep_sessions(keeper, sessions, ended).await {
            match why {
                Unkept::Unready => keeper.progress.add(&id),
                Unkept::Failed(why) => {
                    keeper.progress.of(&id, |session| session.has_changed = true);
                    self.not_kept(&id, &format!("{why}. It is tried again with the next change, and at the end"));
                }
            }
        }
    }

    /// Writes these states, which are those of all sessions, and after which nothing changes.
    pub(super) async fn keep_all(&self, sessions: &[KeptSession]) {
        let Some(keeper) = self.inner.keeper.get() else { return };
        let _turn = keeper.turn.lock().await;
        let is_open = |id: &String| sessions.iter().any(|session| session.new.id == *id);
        let ended = keeper.progress.take().into_iter().filter(|id| !is_open(id)).map(|id| (id, None));
        let open = sessions.iter().map(|KeptSession { new, saved }| (new.id.clone(), Some((new.clone(), saved))));
        for (id, session) in ended.chain(open) {
            let content = session.map(|(new, saved)| self.file_of(new, saved)).transpose();
            let written = match content {
                Ok(content) => keeper.write(&id, content).await.map_err(|error| error.to_string()),
                Err(why) => Err(why),
            };
            if let Err(why) = written {
                self.not_kept(&id, &why);
            }
        }
    }

    /// The content of the file of a session.
    fn file_of(&self, new: NewSession, saved: &Saved) -> Result<SessionFile, String> {
        let made = self.made(new).map_err(|error| error.message)?;
        let state = message::encode(saved).map_err(|error| error.to_string())?;
        Ok(SessionFile { made, number: saved.number(), state: FileState::Encoded(state) })
    }

    /// Writes the last states, of these sessions, before anything ends. The sandbox takes no more calls.
    pub(super) async fn keep_last(&self, mut sessions: Vec<OpenSession>) {
        let Some(keeper) = self.inner.keeper.get() else { return };
        let keeping = async {
            let _turn = keeper.turn.lock().await;
            let mut changed = keeper.progress.take();
            sessions.retain(|session| changed.remove(&session.new.id));
            for (id, why) in self.keep_sessions(keeper, sessions, changed).await {
                let why = match why {
                    Unkept::Unready => "its shell is starting or ending".into(),
                    Unkept::Failed(why) => why,
                };
                self.not_kept(&id, &why);
            }
        };
        let _ = timeout(LAST, keeping).await;
    }

    /// Writes the states of sessions, and removes those that have ended. Returns the ids of those for which that has not been done.
    async fn keep_sessions(
        &self,
        keeper: &Keeper,
        sessions: Vec<OpenSession>,
        ended: impl IntoIterator<Item = String>,
    ) -> Vec<(String, Unkept)> {
        let mut unkept = Vec::new();
        for id in ended {
            let removed = keeper.write(&id, None).await;
            unkept.extend(removed.err().map(|error| (id, Unkept::Failed(error.to_string()))));
        }
        let keep = |session: OpenSession| {
            let (sandbox, id) = (self.clone(), session.new.id.clone());
            (id, tokio::spawn(async move { sandbox.keep_session(session).await }))
        };
        let keeping: Vec<_> = sessions.into_iter().map(keep).collect();
        for (id, kept) in keeping {
            let kept = kept.await.unwrap_or_else(|error| Err(Unkept::Failed(error.to_string())));
            unkept.extend(kept.err().map(|why| (id, why)));
        }
        unkept
    }

    async fn keep_session(&self, OpenSession { handle, new }: OpenSession) -> Result<(), Unkept> {
        let Some(keeper) = self.inner.keeper.get() else { return Ok(()) };
        let (id, failed) = (new.id.clone(), |why: String| Unkept::Failed(why));
        let mut content = None;
        if handle.exit_error().is_none() {
            let hold = handle.hold_if_idle();
            let saved = if hold.granted().await { hold.save().await } else { Ok(handle.save_before().await) };
            drop(hold);
            let saved = saved.map_err(|error| failed(error.message))?.ok_or(Unkept::Unready)?;
            content = Some(self.file_of(new, &saved).map_err(failed)?);
        }
        keeper.write(&id, content).await.map_err(|error| failed(error.to_string()))
    }

    fn not_kept(&self, id: &str, why: &str) {
        let log = self.inner.config.log.id();
        tracing::error!(log, session = %id, "the state of the session is not on the disk: {why}");
    }

    /// Keeps a process that is about to start.
    pub(super) fn keep_process(&self, process: &Process) {
        if let Some(keeper) = self.inner.keeper.get() {
            keeper.processes.begin(process);
        }
    }

    async fn write_processes(&self, keeper: &Keeper, is_last: bool) {
        for error in keeper.processes.write(self.inner.processes.all(), is_last).await {
            let log = self.inner.config.log.id();
            tracing::error!(log, "a process is not on the disk: {error}");
        }
    }

    /// Writes how the processes have ended, and lets another sandbox go on with what is kept.
    pub(super) async fn let_go_of_kept(&self) {
        if let Some(keeper) = self.inner.keeper.get() {
            let turn = keeper.turn.lock().await;
            self.write_processes(keeper, true).await;
            drop(turn);
            let files = keeper.files.lock().take();
            // Also of a supervisor that was killed and may not have ended yet.
            files.iter().for_each(|files| files.release());
        }
    }
}

impl Keeper {
    /// Writes a session, unless it is as it was, or removes it.
    async fn write(&self, id: &str, content: Option<SessionFile>) -> io::Result<()> {
        let Some(files) = self.files.lock().clone() else { return Ok(()) };
        let sum = content.as_ref().map(|file| self.hash.hash_one((&file.made, &file.state)));
        if sum.is_some() && self.progress.of(id, |session| session.written) == sum {
            return Ok(());
        }
        self.progress.of(id, |session| session.written = None);
        let own = id.to_string();
        let write = move || match content {
            Some(content) => Ok(message::encode(&content).and_then(|content| files.write(&own, &content))),
            None => Ok(files.remove(&own)),
        };
        blocking(write).await.unwrap_or_else(|error| Err(io::Error::other(error)))?;
        match sum {
            Some(_) => self.progress.of(id, |session| session.written = sum),
            None => self.progress.forget(id),
        }
        Ok(())
    }
}

/// Writes the states that have changed, as long as the sandbox exists.
async fn keep(sandbox: WeakSandbox, mut woken: mpsc::Receiver<()>) {
    while woken.recv().await.is_some() {
        let Some(sandbox) = sandbox.upgrade() else { return };
        sandbox.keep_changed().await;
        drop(sandbox);
        sleep(EVERY).await;
    }
}

fn unavailable(directory: &Path, refused: &dyn std::fmt::Display) -> Error {
    let directory = directory.display();
    let message = format!("the directory {directory} is needed: {refused}. Set stateDir to a directory of your own");
    Error::new(Code::StateDirUnavailable, message)
}

fn lost(name: &str, file: &Path) -> String {
    format!("what is kept as '{name}' cannot be read. Remove {} to go on without this session", file.display())
}

fn error_of(failure: Failure, name: &str) -> Error {
    match failure {
        Failure::InUse(pid) => {
            let by = pid.map_or("another program".into(), |pid| format!("process {pid}"));
            let message = format!("the sandbox '{name}' is in use by {by}: end that, or give keep another name");
            Error::new(Code::SandboxInUse, message)
        }
        Failure::Damaged(file) => {
            let why = "it is damaged, or another version of nacre has written it";
            Error::new(Code::SandboxLost, format!("{}: {why}", lost(name, Path::new(&file))))
        }
        Failure::Missing => {
            Error::new(Code::FileNotFound, format!("nothing is kept as '{name}'; nacre keep ls lists the names"))
        }
        Failure::System(doing, error) => Error::new(Code::StateDirUnavailable, format!("keep cannot {doing}: {error}")),
    }
}
