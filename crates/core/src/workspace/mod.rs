//! The copy-on-write workspace of a sandbox: the host's side of its keeper.
//!
//! The keeper is a process, which holds the mount and the layers, and compares them with the real directory. It starts
//! with the first call that needs it. The calls wait for it, so they belong on a thread that may block.

mod archives;
mod keeper;
mod stores;

pub use archives::{ArchiveOnDisk, Suspension, read_archive, write_archive};
pub use stores::{Named, delete, list, offer, stores};

use crate::error::{Code, Error};
use crate::private_directory::{self, RefusedDirectory};
use crate::sys;
use archives::{suspend_request, written};
use keeper::{Answer, RunningKeeper, exchange, failed, other_answer, post, read_all, read_value, receive, shown};
use nacre_containment::lock::Lock;
use nacre_containment::mount_table;
use nacre_protocol::confinement;
use nacre_protocol::workspace::{
    Blamed, Chosen, Joined, KeeperReply, KeeperRequest, MergeRules, Opening, Point, ReviewedChange, Skipped, Storage,
    Unpacking, WorkspaceChange,
};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};
use stores::unavailable;

/// What a workspace is, and where its layers are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The directory: absolute, without links.
    pub path: PathBuf,
    /// Keeps the layers after the end, for the next workspace with this name: letters, digits, `.`, `_` and `-`.
    pub id: Option<String>,
    /// The directory of the layers of all workspaces; absolute. Default: one in the state directory.
    pub directory: Option<PathBuf>,
    /// Keeps the layers in memory. Neither with `id` nor with `directory`.
    pub memory: bool,
    /// Maximum bytes of the layers.
    pub max_bytes: Option<u64>,
    /// How many automatic checkpoints to keep: one precedes each command. 0: none.
    pub undo_steps: u32,
    /// Whether mounts below the directory are there as they are. Otherwise they are refused.
    pub passes_mounts: bool,
}

/// What the layers take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Allocated bytes.
    pub bytes: u64,
    /// Files and directories.
    pub files: u64,
    /// Layers, with the one that receives the writes.
    pub layers: u64,
}

/// What a commit has applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// How many changes.
    pub applied: u64,
    /// The changes that could not be applied.
    pub skipped: Vec<Skipped>,
}

/// What a new workspace begins with.
enum FirstLayers {
    Nothing,
    /// What travels from the parent of a fork, and its layers.
    Fork(Vec<u8>, OwnedFd),
    /// An archive.
    Archive(Unpacking, OwnedFd),
}

/// Stops a comparison, before or while it is made: see [`Workspace::stop`].
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    fn is_requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// What forks of a workspace begin with, while they are being opened.
#[derive(Debug)]
pub struct Fork {
    parent: Arc<Workspace>,
    number: u64,
    is_sealed: bool,
    origin: Vec<u8>,
}

impl Fork {
    /// Whether the mount of the parent is read-only now: every session must change over.
    pub fn is_sealed(&self) -> bool {
        self.is_sealed
    }

    /// Its layers.
    fn copy(&self) -> Result<OwnedFd, Error> {
        let (_, copy) = self.parent.request(&KeeperRequest::Branch { fork: self.number })?;
        copy.ok_or_else(|| failed("the layers for a fork of the workspace are missing"))
    }

    /// Lets the parent remove layers again.
    pub fn end(&self) {
        // A parent that has been closed has no layers.
        let _ = self.parent.request(&KeeperRequest::EndFork { fork: self.number });
    }
}

/// See the module.
#[derive(Debug)]
pub struct Workspace {
    options: Options,
    stores: PathBuf,
    /// The name of its layers, unique on the machine.
    unique: String,
    supervisor: PathBuf,
    /// Held by the request that is being answered.
    socket: Lock<Option<OwnedFd>>,
    /// The socket for copies of the mount: a session need not wait for a comparison.
    shares: Lock<Option<OwnedFd>>,
    keeper: Lock<KeeperState>,
    /// Stops the comparison that the keeper makes.
    comparing: Lock<Option<Stop>>,
    /// The last commits on branches of git that have what this workspace has.
    branches: Lock<BTreeMap<String, String>>,
}

#[derive(Debug, Default)]
enum KeeperState {
    /// No call has needed the keeper.
    #[default]
    Unused,
    Running(RunningKeeper),
    /// The sandbox has been destroyed.
    Closed,
}

impl Workspace {
    /// A workspace. Starts nothing.
    pub fn new(options: Options, state_dir: &Path, unique: String, supervisor: PathBuf) -> Self {
        let stores = options.directory.clone().unwrap_or_else(|| stores(state_dir));
        Self {
            options,
            stores,
            unique,
            supervisor,
            socket: Lock::default(),
            shares: Lock::default(),
            keeper: Lock::default(),
            comparing: Lock::default(),
            branches: Lock::default(),
        }
    }

    /// The directory, as programs see it.
    pub fn path(&self) -> &Path {
        &self.options.path
    }

    /// Its name, if it has one.
    pub fn id(&self) -> Option<&str> {
        self.options.id.as_deref()
    }

    /// The last commit that it, or one whose files it has got, has made on a branch of git.
    pub(crate) fn last_commit(&self, branch: &str) -> Option<String> {
        self.branches.lock().get(branch).cloned()
    }

    /// Records a commit on a branch of git.
    pub(crate) fn record_commit(&self, branch: String, id: String) {
        self.branches.lock().insert(branch, id);
    }

    fn knows_branches_of(&self, fork: &Fork) {
        let known = fork.parent.branches.lock().clone();
        self.branches.lock().extend(known);
    }

    /// Where it is mounted for the programs of a session, and the mount: it can be attached once.
    ///
    /// # Errors
    /// `WORKSPACE_UNSUPPORTED` if this machine or this directory allows no workspace. For a named one: `WORKSPACE_IN_USE`, `WORKSPACE_LOST`, and `PERMISSION_DENIED` if another user has made it.
    pub fn share(&self) -> Result<(confinement::Workspace, OwnedFd), Error> {
        let (_, mount) = self.ask_beside(&KeeperRequest::Share)?;
        let mount = mount.ok_or_else(|| failed("the mount of the workspace is missing"))?;
        let (path, store) = (self.options.path.clone(), self.stores.clone());
        let passes_mounts = self.options.passes_mounts;
        Ok((confinement::Workspace { path, store, outside: Vec::new(), passes_mounts }, mount))
    }

    /// The changed paths: those selected, and everything below them; all by default. `None` if that is stopped.
    ///
    /// # Errors
    /// As for [`Workspace::share`], and `ENGINE_ERROR` if the directories cannot be compared.
    pub fn changes(&self, paths: Option<Vec<Vec<u8>>>, stop: &Stop) -> Result<Option<Vec<WorkspaceChange>>, Error> {
        let answer = self.compare(&KeeperRequest::Changes { paths }, stop)?;
        answer.map(|(_, file)| read_value(file)).transpose()
    }

    /// The changed paths in groups, with hunks of at most `max_bytes` together; otherwise as [`Workspace::changes`].
    ///
    /// # Errors
    /// As for [`Workspace::diff`].
    pub fn review(
        &self,
        paths: Option<Vec<Vec<u8>>>,
        max_bytes: u64,
        stop: &Stop,
    ) -> Result<Option<Vec<ReviewedChange>>, Error> {
        let answer = self.compare(&KeeperRequest::Review { paths, max_bytes }, stop)?;
        answer.map(|(_, file)| read_value(file)).transpose()
    }

    /// The command that has last written a path, if its step is kept.
    ///
    /// # Errors
    /// As for [`Workspace::changes`].
    pub fn blame(&self, path: Vec<u8>) -> Result<Option<Blamed>, Error> {
        let (_, found) = self.request(&KeeperRequest::Blame { path })?;
        read_value(found)
    }

    /// Applies changes to the real directory: those of the chosen paths and below, and hunks; all by default. `force` overwrites
    /// what other programs have changed, and `sync` waits for the disk. `withholds` leaves out what programs of the machine run
    /// later, unless a path names it.
    ///
    /// # Errors
    /// As for [`Workspace::changes`]; nothing is applied then. `WORKSPACE_CONFLICT` if other programs have changed the
    /// same paths, `FILE_NOT_FOUND` if a path names no change or a hunk does not exist, `NO_SPACE` and `PERMISSION_DENIED`.
    pub fn commit(&self, chosen: impl Into<Chosen>, force: bool, sync: bool, withholds: bool) -> Result<Commit, Error> {
        match self.request(&KeeperRequest::Commit { chosen: chosen.into(), force, sync, withholds })? {
            (KeeperReply::Committed { applied }, skipped) => Ok(Commit { applied, skipped: read_value(skipped)? }),
            (KeeperReply::Conflict, paths) => {
                let paths: Vec<Vec<u8>> = read_value(paths)?;
                let shown = shown(&paths, paths.len() as u64);
                let message = format!("other programs have changed {shown} in the real directory");
                Err(Error { paths, ..Error::new(Code::WorkspaceConflict, message) })
            }
            (reply, _) => Err(no_change(reply)),
        }
    }

    /// Restores the real versions of changed paths and of everything below, and of hunks; all by default. Returns how many.
    ///
    /// # Errors
    /// As for [`Workspace::changes`], and `FILE_NOT_FOUND` if a path names no change or a hunk does not exist. Some changes may have been
    /// discarded after an `ENGINE_ERROR` or `NO_SPACE`.
    pub fn discard(&self, chosen: impl Into<Chosen>) -> Result<u64, Error> {
        match self.request(&KeeperRequest::Discard { chosen: chosen.into() })? {
            (KeeperReply::Discarded { count }, _) => Ok(count),
            (reply, _) => Err(no_change(reply)),
        }
    }

    /// A patch in git's format with the changes of these paths, and of everything below them; all by default. The file
    /// has no name, and is read from its start.
    ///
    /// # Errors
    /// As for [`Workspace::changes`], and `FILE_TOO_LARGE` if the patch has more than `max_bytes`, or a file more than
    /// 512 MiB.
    pub fn diff(&self, paths: Option<Vec<Vec<u8>>>, max_bytes: u64, stop: &Stop) -> Result<Option<File>, Error> {
        let answer = self.compare(&KeeperRequest::Diff { paths, max_bytes }, stop)?;
        let file = |(_, file): Answer| file.map(File::from);
        answer.map(|answer| file(answer).ok_or_else(|| failed("the patch is missing"))).transpose()
    }

    /// Stops the comparison that was given this, now or once it begins. Does not wait.
    pub fn stop(&self, stop: &Stop) {
        stop.0.store(true, Ordering::Relaxed);
        let comparing = self.comparing.lock();
        if comparing.as_ref().is_some_and(|comparing| Arc::ptr_eq(&comparing.0, &stop.0))
            && let KeeperState::Running(keeper) = &*self.keeper.lock()
        {
            keeper.stop();
        }
    }

    /// What these changed paths are now, and nothing below them, as `git fast-import` reads it: after `head`, and each below `prefix`.
    /// The file has no name, and is read from its start.
    ///
    /// # Errors
    /// As for [`Workspace::changes`], and `FILE_TOO_LARGE` if a file has more than 512 MiB.
    pub fn stream(&self, paths: Vec<Vec<u8>>, prefix: Vec<u8>, head: Vec<u8>) -> Result<File, Error> {
        let (_, file) = self.request(&KeeperRequest::Stream { paths, prefix, head })?;
        file.map(File::from).ok_or_else(|| failed("the changes for git are missing"))
    }

    /// What the layers take.
    ///
    /// # Errors
    /// As for [`Workspace::changes`].
    pub fn usage(&self) -> Result<Usage, Error> {
        usage(self.request(&KeeperRequest::Usage)?)
    }

    /// The mounts below the directory that sessions see as they are, in the order of their paths.
    ///
    /// # Errors
    /// `ENGINE_ERROR` if the list of mounts cannot be read.
    pub fn passed_mounts(&self) -> Result<Vec<PathBuf>, Error> {
        if !self.options.passes_mounts {
            return Ok(Vec::new());
        }
        let mounts = mount_table::of_this_process();
        let mounts = mounts.map_err(|error| failed(&format!("the list of mounts cannot be read: {error}")))?;
        let below = mounts.into_iter().map(|mount| mount.place);
        let below: BTreeSet<_> = below.filter(|place| place != self.path() && place.starts_with(self.path())).collect();
        Ok(below.into_iter().collect())
    }

    /// The same as [`Workspace::usage`], while another call may be being made.
    pub(crate) fn usage_beside(&self) -> Result<Usage, Error> {
        usage(self.ask_beside(&KeeperRequest::Usage)?)
    }

    /// Maximum bytes of the layers, if they are on disk: nothing but nacre keeps programs from writing more.
    pub(crate) fn disk_limit(&self) -> Option<u64> {
        self.options.max_bytes.filter(|_| !self.options.memory)
    }

    /// Free bytes of the disk with the layers.
    pub(crate) fn free_bytes(&self) -> io::Result<u64> {
        let found = rustix::fs::statfs(&self.stores)?;
        Ok(found.f_bfree.saturating_mul(found.f_bsize as u64))
    }

    /// Keeps the present files as a checkpoint, with a text about the sandbox. No program may write to them meanwhile.
    ///
    /// Whether that has sealed the mount, which is only done with `may_seal`: then it is read-only, and every session must
    /// change over to what [`Workspace::share`] returns.
    ///
    /// # Errors
    /// As for [`Workspace::changes`], and `NO_SPACE`.
    pub fn checkpoint(
        &self,
        name: Option<String>,
        sessions: Vec<String>,
        text: &[u8],
        may_seal: bool,
    ) -> Result<(Point, bool), Error> {
        let (request, file) = self.new_checkpoint(name, None, sessions, text, may_seal)?;
        kept(self.request_with(&request, Some(file))?)?.ok_or_else(other_answer)
    }

    /// Keeps the present files as an automatic checkpoint before a command, with a text about the sandbox; otherwise as
    /// [`Workspace::checkpoint`].
    ///
    /// `None`, with nothing kept, if the files would have to be copied, or if another call is being made: it may take long.
    ///
    /// # Errors
    /// As for [`Workspace::checkpoint`].
    pub fn step(
        &self,
        (command, runs_in): (String, Vec<String>),
        sessions: Vec<String>,
        text: &[u8],
        may_seal: bool,
    ) -> Result<Option<(Point, bool)>, Error> {
        let (request, file) = self.new_checkpoint(None, Some((command, runs_in)), sessions, text, may_seal)?;
        let Some(mut socket) = self.socket.try_lock() else { return Ok(None) };
        kept(self.request_on(&mut socket, &request, Some(file))?)
    }

    fn new_checkpoint(
        &self,
        name: Option<String>,
        command: Option<(String, Vec<String>)>,
        sessions: Vec<String>,
        text: &[u8],
        may_seal: bool,
    ) -> Result<(KeeperRequest, OwnedFd), Error> {
        let file = sys::memory_file().and_then(|file| sys::replace_contents(&file, text).map(|()| file));
        let file = file.map_err(|error| failed(&format!("the state of the shells cannot be kept: {error}")))?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let (command, runs_in) = command.map_or_else(Default::default, |(command, runs_in)| (Some(command), runs_in));
        let point = Point { number: 0, name, created_at: now.as_millis() as i64, sessions, command, runs_in };
        Ok((KeeperRequest::Checkpoint { point, may_seal, max_steps: self.options.undo_steps.into() }, file))
    }

    /// Begins forks with the present files. No program may write to them meanwhile. With `may_seal`, every session must change
    /// over to what [`Workspace::share`] returns afterwards, unless [`Fork::is_sealed`] says otherwise, and also after an
    /// error.
    ///
    /// # Errors
    /// As for [`Workspace::checkpoint`].
    pub fn fork(self: &Arc<Self>, may_seal: bool) -> Result<Fork, Error> {
        match self.request(&KeeperRequest::Fork { may_seal })? {
            (KeeperReply::Forked { fork, is_sealed }, origin) => {
                Ok(Fork { parent: Arc::clone(self), number: fork, is_sealed, origin: read_all(origin)? })
            }
            _ => Err(other_answer()),
        }
    }

    /// Opens the workspace, which nothing has used before, as one of these forks.
    ///
    /// # Errors
    /// As for [`Workspace::share`].
    pub fn open_as(&self, fork: &Fork) -> Result<(), Error> {
        let copy = fork.copy()?;
        self.open_with(FirstLayers::Fork(fork.origin.clone(), copy))?;
        self.knows_branches_of(fork);
        Ok(())
    }

    /// Opens the workspace, which nothing has used before.
    fn open_with(&self, beginning: FirstLayers) -> Result<(), Error> {
        let mut socket = self.socket.lock();
        if self.is_closed() {
            return Err(Error::sandbox_destroyed());
        }
        *socket = Some(self.open(beginning)?);
        self.release(&mut socket);
        Ok(())
    }

    /// Brings in what another workspace has changed since both were one, before any program runs. `side` is its number, from 1;
    /// that of this one is 0. A file gets markers at its conflicts, or is as before there.
    ///
    /// # Errors
    /// As for [`Workspace::changes`]; `INVALID_OPTION` for the workspace of another directory, or if they have never been one. A part
    /// of the changes may be there then.
    pub fn join(&self, fork: &Fork, side: u32, has_markers: bool, rules: &MergeRules) -> Result<Joined, Error> {
        let refused = |why: &str| Err(Error::new(Code::InvalidOption, format!("sandboxes[{side}] {why}")));
        let (own, other) = (self.path(), fork.parent.path());
        if own != other {
            let (own, other) = (own.display(), other.display());
            return refused(&format!(
                "has a workspace of {other}, and sandboxes[0] one of {own}: merge sandboxes of one directory"
            ));
        }
        let (origin, rules) = (fork.origin.clone(), rules.clone());
        let request = KeeperRequest::Join { origin, side, has_markers, rules };
        match self.request_with(&request, Some(fork.copy()?))? {
            (KeeperReply::Done, joined) => {
                self.knows_branches_of(fork);
                read_value(joined)
            }
            (KeeperReply::Unrelated, _) => refused(
                "and sandboxes[0] do not come from one sandbox: merge the forks of one call of fork, or a sandbox with its forks",
            ),
            _ => Err(other_answer()),
        }
    }

    /// Opens the workspace, which nothing has used before and must not exist under its name, with the files of an archive. Returns
    /// the paths where the real directory is not as it was below them.
    ///
    /// # Errors
    /// `ARCHIVE_REJECTED`, `WORKSPACE_CONFLICT`, and as for [`Workspace::share`]. Nothing has been created.
    pub fn open_archived(&self, file: OwnedFd, unpacking: Unpacking) -> Result<Vec<Vec<u8>>, Error> {
        self.open_with(FirstLayers::Archive(unpacking, file))?;
        let (_, paths) = self.request(&KeeperRequest::Differing)?;
        read_value(paths)
    }

    /// Writes an archive with what programs see beside the real directory to an empty file. No program may write meanwhile.
    ///
    /// # Errors
    /// As for [`Workspace::changes`], and `NO_SPACE`.
    pub fn suspend(&self, suspension: Suspension, to: OwnedFd) -> Result<ArchiveOnDisk, Error> {
        written(self.request_with(&suspend_request(suspension)?, Some(to))?)
    }

    /// How many automatic checkpoints are kept.
    pub fn undo_steps(&self) -> u32 {
        self.options.undo_steps
    }

    /// The checkpoints that are not automatic, the oldest first.
    ///
    /// # Errors
    /// As for [`Workspace::changes`].
    pub fn checkpoints(&self) -> Result<Vec<Point>, Error> {
        let (_, file) = self.request(&KeeperRequest::Checkpoints)?;
        read_value(file)
    }

    /// Deletes a checkpoint.
    ///
    /// # Errors
    /// As for [`Workspace::changes`], and `CHECKPOINT_NOT_FOUND`.
    pub fn delete_checkpoint(&self, number: u64) -> Result<(), Error> {
        match self.request(&KeeperRequest::DeleteCheckpoint { number })? {
            (KeeperReply::Done, _) => Ok(()),
            (KeeperReply::NoCheckpoint, _) => Err(no_checkpoint()),
            _ => Err(other_answer()),
        }
    }

    /// Mounts the files of a checkpoint, beside the present ones: of the newest automatic one without a number. Returns it
    /// with its text.
    ///
    /// # Errors
    /// As for [`Workspace::delete_checkpoint`], and `NO_SPACE`.
    pub fn prepare(&self, number: Option<u64>) -> Result<(Point, Vec<u8>), Error> {
        match self.request(&KeeperRequest::Prepare { number })? {
            (KeeperReply::Kept(point), text) => Ok((point, read_all(text)?)),
            (KeeperReply::NoCheckpoint, _) if number.is_none() => Err(self.no_step()),
            (KeeperReply::NoCheckpoint, _) => Err(no_checkpoint()),
            _ => Err(other_answer()),
        }
    }

    /// Uses what was prepared last in place of the present files. No program may run meanwhile.
    ///
    /// # Errors
    /// As for [`Workspace::changes`]; the files are as before then.
    pub fn switch(&self) -> Result<(), Error> {
        self.request(&KeeperRequest::Switch).map(drop)
    }

    fn no_step(&self) -> Error {
        let message = match self.options.undo_steps {
            0 => {
                "no command can be undone: create the sandbox with workspace: { mode: 'copy-on-write', undoSteps: 20 }"
                    .into()
            }
            steps => format!(
                "no command can be undone: none has run since the last commit, all were undone, or programs were running beside it; \
                 undoSteps is {steps}"
            ),
        };
        Error::new(Code::CheckpointNotFound, message)
    }

    /// Closes the workspace, whose sessions have ended, and removes its layers unless it has a name. Every later call fails.
    ///
    /// A commit that is running is completed, or has changed nothing. A fork that is running fails. Other calls that are running may fail.
    pub fn close(&self) {
        let closed = std::mem::replace(&mut *self.keeper.lock(), KeeperState::Closed);
        if let KeeperState::Running(keeper) = closed {
            keeper.close();
        }
        // A call that holds one of them closes it at its end.
        for socket in [&self.socket, &self.shares] {
            if let Some(mut socket) = socket.try_lock() {
                *socket = None;
            }
        }
    }

    fn request(&self, request: &KeeperRequest) -> Result<Answer, Error> {
        self.request_with(request, None)
    }

    fn request_with(&self, request: &KeeperRequest, file: Option<OwnedFd>) -> Result<Answer, Error> {
        self.request_on(&mut self.socket.lock(), request, file)
    }

    fn request_on(
        &self,
        socket: &mut Option<OwnedFd>,
        request: &KeeperRequest,
        file: Option<OwnedFd>,
    ) -> Result<Answer, Error> {
        let answer = self.opened(socket).and_then(|socket| self.ask(socket, request, file));
        self.release(socket);
        answer
    }

    /// Makes a comparison. `None` if it is stopped.
    fn compare(&self, request: &KeeperRequest, stop: &Stop) -> Result<Option<Answer>, Error> {
        let mut socket = self.socket.lock();
        let answer = self.opened(&mut socket).and_then(|socket| {
            {
                // It is sent before what stops it, and never after.
                let mut comparing = self.comparing.lock();
                if stop.is_requested() {
                    return Ok(None);
                }
                if let Some(refused) = self.unless_ended(post(socket, request, None))? {
                    return Err(refused);
                }
                *comparing = Some(stop.clone());
            }
            let answer = self.unless_ended(receive(socket, self.id()));
            *self.comparing.lock() = None;
            match answer.and_then(|answer| answer) {
                Err(_) if stop.is_requested() => Ok(None),
                answer => answer.map(Some),
            }
        });
        self.release(&mut socket);
        answer
    }

    /// Closes a socket that a call has used while the workspace was being closed.
    fn release(&self, socket: &mut Option<OwnedFd>) {
        if self.is_closed() {
            *socket = None;
        }
    }

    /// Asks the keeper while it may be answering another request.
    fn ask_beside(&self, request: &KeeperRequest) -> Result<Answer, Error> {
        if self.shares.lock().is_none() {
            let mut socket = self.socket.lock();
            self.opened(&mut socket)?;
        }
        if self.is_closed() {
            return Err(Error::sandbox_destroyed());
        }
        let mut shares = self.shares.lock();
        let answer = match &*shares {
            Some(shares) => self.ask(shares, request, None),
            None => Err(failed("the second socket of the workspace is missing")),
        };
        self.release(&mut shares);
        answer
    }

    /// The socket to the keeper, which opens the workspace if that is not done.
    fn opened<'a>(&self, socket: &'a mut Option<OwnedFd>) -> Result<&'a OwnedFd, Error> {
        if self.is_closed() {
            return Err(Error::sandbox_destroyed());
        }
        match socket {
            Some(open) => Ok(open),
            none => Ok(none.insert(self.open(FirstLayers::Nothing)?)),
        }
    }

    fn is_closed(&self) -> bool {
        matches!(*self.keeper.lock(), KeeperState::Closed)
    }

    fn ask(&self, socket: &OwnedFd, request: &KeeperRequest, file: Option<OwnedFd>) -> Result<Answer, Error> {
        self.unless_ended(exchange(socket, request, file, self.id()))?
    }

    fn unless_ended<T>(&self, exchanged: io::Result<T>) -> Result<T, Error> {
        exchanged.map_err(|error| {
            let ended = || failed(&format!("the keeper of the workspace has ended: {error}"));
            if self.is_closed() { Error::sandbox_destroyed() } else { ended() }
        })
    }

    /// Starts the keeper, and opens the workspace.
    fn open(&self, beginning: FirstLayers) -> Result<OwnedFd, Error> {
        let Options { path, id, directory, memory, max_bytes, undo_steps: _, passes_mounts } = self.options.clone();
        assert!(!memory || (id.is_none() && directory.is_none()), "a workspace in memory has neither id nor directory");
        let unavailable = |refused: RefusedDirectory| unavailable(&self.stores, &refused);
        if let Some(state_dir) = self.stores.parent().filter(|_| directory.is_none()) {
            private_directory::create(state_dir).map_err(unavailable)?;
        }
        match private_directory::create(&self.stores) {
            // Another host has just removed it with its last store. The keeper creates it again.
            Err(RefusedDirectory::Io(error)) if error.kind() == io::ErrorKind::NotFound && directory.is_none() => {}
            made => made.map_err(unavailable)?,
        }
        let socket = {
            let mut state = self.keeper.lock();
            if !matches!(*state, KeeperState::Unused) {
                return Err(Error::sandbox_destroyed());
            }
            let (keeper, socket) = RunningKeeper::start(&self.supervisor)?;
            *state = KeeperState::Running(keeper);
            socket
        };
        let storage = if memory { Storage::Memory { max_bytes } } else { Storage::Disk };
        let (fork, archive, file) = match beginning {
            FirstLayers::Nothing => (None, None, None),
            FirstLayers::Fork(origin, copy) => (Some(origin), None, Some(copy)),
            FirstLayers::Archive(unpacking, file) => (None, Some(unpacking), Some(file)),
        };
        let opening = Opening {
            path: bytes(&path),
            stores: bytes(&self.stores),
            // A directory that the caller has chosen stays.
            removes_stores: directory.is_none(),
            unique: self.unique.clone(),
            id,
            storage,
            fork,
            archive,
            passes_mounts,
        };
        let opened = exchange(&socket, &KeeperRequest::Open(opening), file, self.id());
        let opened = opened.unwrap_or_else(|error| Err(failed(&format!("the workspace cannot be opened: {error}"))));
        let error = match opened {
            Ok((_, shares)) => {
                *self.shares.lock() = shares;
                return Ok(socket);
            }
            Err(error) => error,
        };
        let keeper = self.stop_running().ok_or_else(Error::sandbox_destroyed)?;
        drop(socket);
        keeper.wait();
        Err(error)
    }

    /// The keeper, which has failed: a later call starts another one. `None` if the workspace has been closed meanwhile.
    fn stop_running(&self) -> Option<RunningKeeper> {
        let mut state = self.keeper.lock();
        match std::mem::take(&mut *state) {
            KeeperState::Running(running) => Some(running),
            other => {
                *state = other;
                None
            }
        }
    }
}

/// A path as the keeper and archives have it.
pub(crate) fn bytes(path: &Path) -> Vec<u8> {
    path.as_os_str().as_bytes().to_vec()
}

impl Drop for Workspace {
    fn drop(&mut self) {
        self.close();
    }
}

/// A checkpoint that was made, and whether that has sealed the mount. `None` if none was made.
fn kept((reply, _): Answer) -> Result<Option<(Point, bool)>, Error> {
    match reply {
        KeeperReply::Kept(point) => Ok(Some((point, false))),
        KeeperReply::Sealed(point) => Ok(Some((point, true))),
        KeeperReply::NoCheckpoint => Ok(None),
        _ => Err(other_answer()),
    }
}

fn no_checkpoint() -> Error {
    let message = "there is no such checkpoint: it was deleted, or a commit has ended it";
    Error::new(Code::CheckpointNotFound, message)
}

fn usage((reply, _): Answer) -> Result<Usage, Error> {
    match reply {
        KeeperReply::Used { bytes, files, layers } => Ok(Usage { bytes, files, layers }),
        _ => Err(other_answer()),
    }
}

/// The error for a path that names no change, or for a reply to another request.
fn no_change(reply: KeeperReply) -> Error {
    let (path, reason) = match reply {
        KeeperReply::NoChange { path } => (path, "names no change".into()),
        KeeperReply::NoHunk { path, reason } => (path, format!("cannot be taken by hunks: {reason}")),
        _ => return other_answer(),
    };
    let path = String::from_utf8_lossy(&path).into_owned();
    Error { path: Some(path.clone()), ..Error::new(Code::FileNotFound, format!("'{path}' {reason}")) }
}
