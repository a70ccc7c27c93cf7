//! What a sandbox with a name keeps on the disk: the state of each session, written after it may have changed. The next sandbox of
//! the name begins with it.
//!
//! A state is written after a command has answered, at most once in 50 ms, and never by the command's caller. An idle shell writes
//! it down during a hold. While a command runs, its standby has the state before it. So what is on the disk is always the state
//! between two commands.

use super::checkpoint::{KeptCheckpoint, KeptSession, VERSION};
use super::secrets::comparable;
use super::{OpenSession, Sandbox, WeakSandbox};
use crate::blocking::blocking;
use crate::error::{Code, Error};
use crate::feed::{CommandEnd, FeedEvent, What};
use crate::hook::Hook;
use crate::private_directory;
use nacre_containment::lock::Lock;
use nacre_keep::{Failure, Kept};
use nacre_protocol::message;
use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
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
    changed: Arc<ChangedSessions>,
    /// Held while states are written.
    turn: tokio::sync::Mutex<()>,
    hash: RandomState,
    /// What was written last, by the ids of sessions.
    written: Lock<HashMap<String, u64>>,
}

/// The sessions whose state may have changed.
struct ChangedSessions {
    ids: Lock<BTreeSet<String>>,
    /// The last exit codes, by the ids of sessions: `$?` belongs to the state.
    codes: Lock<HashMap<String, Option<i32>>>,
    wake: mpsc::Sender<()>,
}

impl ChangedSessions {
    fn add(&self, id: &str) {
        self.ids.lock().insert(id.into());
        // If it is full, the task wakes up anyway.
        let _ = self.wake.try_send(());
    }

    fn command_ended(&self, id: &str, end: &CommandEnd) {
        if end.keeps_state && end.exit_code.is_none() {
            return;
        }
        let mut codes = self.codes.lock();
        let is_same = codes.get(id).is_some_and(|code| *code == end.exit_code);
        if !is_same {
            codes.insert(id.into(), end.exit_code);
        }
        drop(codes);
        if !(is_same && end.keeps_state) {
            self.add(id);
        }
    }

    fn take(&self) -> BTreeSet<String> {
        std::mem::take(&mut self.ids.lock())
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
        let parent = config.state_dir.join(DIRECTORY);
        for directory in [&config.state_dir, &parent] {
            private_directory::create(directory).map_err(|refused| unavailable(directory, &refused))?;
        }
        let (files, found) = Kept::open(&parent, name).map_err(|failure| error_of(failure, name))?;
        let mut sessions = Vec::new();
        for (id, content) in found {
            sessions.push(self.read_kept(&id, &content).map_err(|why| {
                let file = parent.join(name).join(format!("session-{id}"));
                Error::new(Code::SandboxLost, format!("{}: {why}", lost(name, &file)))
            })?);
        }
        let (wake, woken) = mpsc::channel(1);
        let changed = Arc::new(ChangedSessions { ids: Lock::default(), codes: Lock::default(), wake });
        let seen = Arc::clone(&changed);
        self.inner.feed.on_event(Hook::new(move |FeedEvent { session, what, .. }| match what {
            What::CommandEnded { end, .. } => seen.command_ended(session, end),
            What::SessionStarted | What::SessionEnded => seen.add(session),
            _ => {}
        }));
        let keeper = Keeper {
            files: Lock::new(Some(Arc::new(files))),
            changed,
            turn: tokio::sync::Mutex::default(),
            hash: RandomState::new(),
            written: Lock::default(),
        };
        let _ = self.inner.keeper.set(keeper);
        self.begin_with(sessions)?;
        let cannot = |error| Error::cannot("start the engine", &error);
        crate::runtime::spawn(keep(self.downgrade(), woken)).map_err(cannot)
    }

    /// Reads a session for this sandbox. What its shell cannot have again is reported with its next result.
    fn read_kept(&self, id: &str, content: &[u8]) -> Result<KeptSession, String> {
        let read = message::decode::<KeptCheckpoint>(content).ok().filter(|kept| kept.version == VERSION);
        let foreign = || "another version of nacre has written it".to_string();
        let KeptCheckpoint { isolation, mut sessions, .. } = read.ok_or_else(foreign)?;
        let mut session = sessions.pop().filter(|session| session.new.id == id).ok_or_else(foreign)?;
        let own = self.inner.config.isolation.as_ref();
        if session.new.isolation.is_some() && comparable(isolation.as_ref()) != comparable(own) {
            return Err("the session has an isolation of its own, and the sandbox had another one then: create it with the same isolation".into());
        }
        let plan = isolation.map(|isolation| isolation.hosts.plan).unwrap_or_default();
        self.inner.secrets.adopt(&plan, self.plan(), &mut [&mut session.new]).map_err(|error| error.message)?;
        session.saved.report_missing();
        Ok(session)
    }

    /// The variables of a session have changed.
    pub(super) fn has_changed(&self, session: &str) {
        if let Some(keeper) = self.inner.keeper.get() {
            keeper.changed.add(session);
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
            let changed = keeper.changed.take();
            let (open, ended): (Vec<_>, _) = changed.into_iter().partition(|id| sessions.open.contains_key(id));
            (open.iter().filter_map(|id| sessions.open.get(id)).map(OpenSession::clone).collect(), ended)
        };
        let _turn = keeper.turn.lock().await;
        for id in ended {
            keeper.changed.codes.lock().remove(&id);
            self.write_kept(keeper, &id, None).await;
        }
        // They begin or end a command.
        self.keep_sessions(sessions).await.iter().for_each(|id| keeper.changed.add(id));
    }

    /// Writes these states, which are those of all sessions, and after which nothing changes.
    pub(super) async fn keep_all(&self, sessions: &[KeptSession]) {
        let Some(keeper) = self.inner.keeper.get() else { return };
        let _turn = keeper.turn.lock().await;
        let is_open = |id: &String| sessions.iter().any(|session| session.new.id == *id);
        for id in keeper.changed.take().iter().filter(|id| !is_open(id)) {
            self.write_kept(keeper, id, None).await;
        }
        for session in sessions {
            self.write_kept(keeper, &session.new.id, Some(session.clone())).await;
        }
    }

    /// Writes the last states, of these sessions, before anything ends. The sandbox takes no more calls.
    pub(super) async fn keep_last(&self, mut sessions: Vec<OpenSession>) {
        let Some(keeper) = self.inner.keeper.get() else { return };
        let keeping = async {
            let _turn = keeper.turn.lock().await;
            let changed = keeper.changed.take();
            sessions.retain(|session| changed.contains(&session.new.id));
            for id in self.keep_sessions(sessions).await {
                self.not_kept(&id, "its shell is starting or ending");
            }
        };
        let _ = timeout(LAST, keeping).await;
    }

    /// Writes the states of sessions. Returns the ids of those that have none at the moment.
    async fn keep_sessions(&self, sessions: Vec<OpenSession>) -> Vec<String> {
        let keep = |session: OpenSession| {
            let sandbox = self.clone();
            tokio::spawn(async move { sandbox.keep_session(session).await })
        };
        let keeping: Vec<_> = sessions.into_iter().map(keep).collect();
        let mut unready = Vec::new();
        for kept in keeping {
            unready.extend(kept.await.ok().flatten());
        }
        unready
    }

    async fn keep_session(&self, OpenSession { handle, new }: OpenSession) -> Option<String> {
        let (keeper, id) = (self.inner.keeper.get()?, new.id.clone());
        if handle.exit_error().is_some() {
            self.write_kept(keeper, &id, None).await;
            return None;
        }
        let hold = handle.hold_if_idle();
        let saved = if hold.granted().await { hold.save().await } else { Ok(handle.save_before().await) };
        drop(hold);
        match saved {
            Ok(None) => return Some(id),
            Ok(Some(saved)) => self.write_kept(keeper, &id, Some(KeptSession { new, saved })).await,
            Err(error) => self.not_kept(&id, &error.message),
        }
        None
    }

    /// Writes a session, unless it is as it was, or removes it.
    async fn write_kept(&self, keeper: &Keeper, id: &str, session: Option<KeptSession>) {
        let Some(files) = keeper.files.lock().clone() else { return };
        let content = session.map(|session| {
            let isolation = self.inner.config.isolation.as_ref();
            let isolation = isolation.map(|isolation| self.inner.secrets.current(isolation, self.plan()).into_owned());
            message::encode(&KeptCheckpoint { version: VERSION.into(), isolation, sessions: vec![session] })
        });
        let written = match content.transpose() {
            Err(error) => Err(error),
            Ok(content) => {
                let sum = content.as_ref().map(|content| keeper.hash.hash_one(content));
                if sum.is_some() && keeper.written.lock().get(id).copied() == sum {
                    return;
                }
                let own = id.to_string();
                let write = move || match content {
                    Some(content) => Ok(files.write(&own, &content)),
                    None => Ok(files.remove(&own)),
                };
                let written = blocking(write).await.unwrap_or_else(|error| Err(std::io::Error::other(error)));
                match sum.filter(|_| written.is_ok()) {
                    Some(sum) => drop(keeper.written.lock().insert(id.into(), sum)),
                    None => drop(keeper.written.lock().remove(id)),
                }
                written
            }
        };
        if let Err(error) = written {
            // With what changes next, or at the end of the sandbox.
            keeper.changed.ids.lock().insert(id.into());
            self.not_kept(id, &error.to_string());
        }
    }

    fn not_kept(&self, id: &str, why: &str) {
        let log = self.inner.config.log.id();
        tracing::error!(log, session = %id, "the state of the session is not on the disk: {why}. It is tried again with the next change");
    }

    /// Lets another sandbox go on with what is kept.
    pub(super) fn let_go_of_kept(&self) {
        if let Some(keeper) = self.inner.keeper.get() {
            keeper.files.lock().take();
        }
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
    let message = format!("keep needs the directory {directory}: {refused}. Set stateDir to a directory of your own");
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
        Failure::Missing => Error::engine_failed(),
        Failure::System(doing, error) => Error::new(Code::StateDirUnavailable, format!("keep cannot {doing}: {error}")),
    }
}
