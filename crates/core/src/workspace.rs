//! The copy-on-write workspace of a sandbox: the host's side of its keeper.
//!
//! The keeper is a process, which holds the mount and the layers, and compares them with the real directory. It starts
//! with the first call that needs it. The calls wait for it, so they belong on a thread that may block.

use crate::error::{Code, Error};
use crate::private_directory;
use nacre_protocol::confinement;
use nacre_protocol::workspace::{Change, Offer, Reply, Request, Skipped};
use nacre_protocol::{message, socket};
use serde::de::DeserializeOwned;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

/// The directory of all layers, in the state directory.
const STORE: &str = "workspaces";
/// How long the removal of the layers may take after the sandbox has ended. It goes on afterwards, without the host.
const REMOVAL: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// How long a machine may take to show what it offers.
const PROBE: Duration = Duration::from_secs(1);

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

/// See the module.
#[derive(Debug)]
pub struct Workspace {
    path: PathBuf,
    state_dir: PathBuf,
    /// The name of its layers, unique on the machine.
    unique: String,
    supervisor: PathBuf,
    /// Held by the request that is being answered.
    socket: Mutex<Option<OwnedFd>>,
    keeper: Mutex<State>,
}

#[derive(Debug, Default)]
enum State {
    /// No call has needed the keeper.
    #[default]
    Unused,
    Running(Child),
    /// The sandbox has been destroyed.
    Closed,
}

impl Workspace {
    /// A workspace over a directory. Starts nothing.
    pub fn new(path: PathBuf, state_dir: PathBuf, unique: String, supervisor: PathBuf) -> Self {
        Self { path, state_dir, unique, supervisor, socket: Mutex::default(), keeper: Mutex::default() }
    }

    /// The directory, as programs see it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where it is mounted for the programs of a session, and the mount: it can be attached once.
    ///
    /// # Errors
    /// `WORKSPACE_UNSUPPORTED` if this machine or this directory allows no workspace.
    pub fn share(&self) -> Result<(confinement::Workspace, OwnedFd), Error> {
        let (_, mount) = self.request(&Request::Share)?;
        let mount = mount.ok_or_else(|| failed("the mount of the workspace is missing"))?;
        Ok((confinement::Workspace { path: self.path.clone(), store: self.state_dir.join(STORE) }, mount))
    }

    /// The changed paths: those selected, and everything below them; all by default.
    ///
    /// # Errors
    /// As for [`Workspace::share`], and `ENGINE_ERROR` if the directories cannot be compared.
    pub fn changes(&self, paths: Option<Vec<Vec<u8>>>) -> Result<Vec<Change>, Error> {
        let (_, file) = self.request(&Request::Changes { paths })?;
        read_list(file)
    }

    /// Applies changes to the real directory: those of the selected paths and below; all by default. `force` overwrites
    /// what other programs have changed, and `sync` waits for the disk.
    ///
    /// # Errors
    /// As for [`Workspace::changes`]; nothing is applied then. `WORKSPACE_CONFLICT` if other programs have changed the
    /// same paths, `FILE_NOT_FOUND` if a path names no change, `NO_SPACE` and `PERMISSION_DENIED`.
    pub fn commit(&self, paths: Option<Vec<Vec<u8>>>, force: bool, sync: bool) -> Result<Commit, Error> {
        match self.request(&Request::Commit { paths, force, sync })? {
            (Reply::Committed { applied }, skipped) => Ok(Commit { applied, skipped: read_list(skipped)? }),
            (Reply::Conflict, paths) => {
                let paths: Vec<Vec<u8>> = read_list(paths)?;
                let first = paths.first().map(|path| String::from_utf8_lossy(path)).unwrap_or_default();
                let message = match paths.len() {
                    0 | 1 => format!("other programs have changed '{first}' in the real directory"),
                    count => {
                        format!("other programs have changed '{first}' and {} more in the real directory", count - 1)
                    }
                };
                Err(Error { paths, ..Error::new(Code::WorkspaceConflict, message) })
            }
            (reply, _) => Err(no_change(reply)),
        }
    }

    /// Restores the real versions of changed paths and of everything below; all by default. Returns how many.
    ///
    /// # Errors
    /// As for [`Workspace::changes`], and `FILE_NOT_FOUND` if a path names no change. Some changes may have been
    /// discarded after an `ENGINE_ERROR` or `NO_SPACE`.
    pub fn discard(&self, paths: Option<Vec<Vec<u8>>>) -> Result<u64, Error> {
        match self.request(&Request::Discard { paths })? {
            (Reply::Discarded { count }, _) => Ok(count),
            (reply, _) => Err(no_change(reply)),
        }
    }

    /// A patch in git's format with the changes of these paths, and of everything below them; all by default. The file
    /// has no name, and is read from its start.
    ///
    /// # Errors
    /// As for [`Workspace::changes`], and `FILE_TOO_LARGE` if the patch has more than `max_bytes`, or a file more than
    /// 512 MiB.
    pub fn diff(&self, paths: Option<Vec<Vec<u8>>>, max_bytes: u64) -> Result<File, Error> {
        let (_, file) = self.request(&Request::Diff { paths, max_bytes })?;
        file.map(File::from).ok_or_else(|| failed("the patch is missing"))
    }

    /// What the layers take.
    ///
    /// # Errors
    /// As for [`Workspace::changes`].
    pub fn usage(&self) -> Result<Usage, Error> {
        match self.request(&Request::Usage)? {
            (Reply::Used { bytes, files, layers }, _) => Ok(Usage { bytes, files, layers }),
            _ => Err(failed("the keeper of the workspace has sent another answer")),
        }
    }

    /// Removes the layers. The sessions have ended. Every later call fails.
    pub fn close(&self) {
        let State::Running(mut keeper) = std::mem::replace(&mut *lock(&self.keeper), State::Closed) else { return };
        // A call may be waiting for the keeper: it must not keep this one waiting, and ends with the keeper.
        if let Ok(mut socket) = self.socket.try_lock() {
            *socket = None;
            let end = Instant::now() + REMOVAL;
            while Instant::now() < end {
                if !matches!(keeper.try_wait(), Ok(None)) {
                    return;
                }
                std::thread::sleep(LOOK_EVERY);
            }
            return;
        }
        let _ = keeper.kill();
        let _ = keeper.wait();
    }

    fn request(&self, request: &Request) -> Result<(Reply, Option<OwnedFd>), Error> {
        let mut socket = lock(&self.socket);
        let open = match &*socket {
            Some(open) => open,
            None => socket.insert(self.open()?),
        };
        let answered = exchange(open, request);
        answered.unwrap_or_else(|error| Err(failed(&format!("the keeper of the workspace has ended: {error}"))))
    }

    /// Starts the keeper, and opens the workspace.
    fn open(&self) -> Result<OwnedFd, Error> {
        let unavailable = |error: io::Error| {
            let place = self.state_dir.join(STORE);
            Error::new(Code::StateDirUnavailable, format!("cannot create {}: {error}", place.display()))
        };
        private_directory::create(&self.state_dir).map_err(|refused| unavailable(refused.into()))?;
        let store = self.state_dir.join(STORE);
        private_directory::create(&store).map_err(|refused| unavailable(refused.into()))?;
        let (ours, theirs) = socket::pair().map_err(|error| failed(&format!("cannot open a socket: {error}")))?;
        {
            let mut state = lock(&self.keeper);
            if !matches!(*state, State::Unused) {
                return Err(Error::sandbox_destroyed());
            }
            let mut command = Command::new(&self.supervisor);
            command.arg("--workspace").arg(std::process::id().to_string()).env_clear();
            let started = command.stdin(theirs).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
            let started = started.map_err(|error| {
                let message = format!("cannot run {}: {error}", self.supervisor.display());
                Error::new(Code::SpawnFailed, message)
            })?;
            *state = State::Running(started);
        }
        let path = self.path.as_os_str().as_bytes().to_vec();
        let store = store.join(&self.unique).as_os_str().as_bytes().to_vec();
        let opened = exchange(&ours, &Request::Open { path, store });
        let opened = opened.unwrap_or_else(|error| Err(failed(&format!("the workspace cannot be opened: {error}"))));
        if let Err(error) = opened {
            // A later call tries again.
            if let State::Running(mut keeper) = std::mem::take(&mut *lock(&self.keeper)) {
                drop(ours);
                let _ = keeper.wait();
            }
            return Err(error);
        }
        Ok(ours)
    }
}

/// What this machine offers to workspaces with this state directory. A process of its own tries it, because it changes its
/// namespaces.
pub fn offer(supervisor: &Path, state_dir: &Path) -> Offer {
    let (sender, found) = mpsc::channel();
    let (supervisor, state_dir) = (supervisor.to_path_buf(), state_dir.to_path_buf());
    // The directory may not respond, and then this thread never ends.
    std::thread::spawn(move || sender.send(ask_for_offer(&supervisor, &state_dir)));
    let refused = |reason: String| Offer { copy_on_write: Err(reason), directory_rename: false, reflink: false };
    let found = found.recv_timeout(PROBE).unwrap_or_else(|_| Err("the state directory does not respond".into()));
    found.unwrap_or_else(refused)
}

fn ask_for_offer(supervisor: &Path, state_dir: &Path) -> Result<Offer, String> {
    // The first call that needs the directory creates it, on the file system of its parent.
    let directory = state_dir.ancestors().find(|directory| directory.is_dir()).unwrap_or(state_dir);
    let output = Command::new(supervisor).arg("--workspace-offer").arg(directory).env_clear().output();
    let output = output.map_err(|error| format!("cannot run {}: {error}", supervisor.display()))?;
    serde_json::from_slice(&output.stdout).map_err(|error| format!("{} has failed: {error}", supervisor.display()))
}

impl Drop for Workspace {
    fn drop(&mut self) {
        self.close();
    }
}

/// Sends a request and waits for the answer. The outer error: the keeper has ended.
fn exchange(keeper: &OwnedFd, request: &Request) -> io::Result<Result<(Reply, Option<OwnedFd>), Error>> {
    message::send(keeper.as_fd(), request, &[])?;
    let answer = message::receive(keeper.as_fd())?.ok_or(io::ErrorKind::UnexpectedEof)?;
    let (reply, descriptors): (Reply, Vec<OwnedFd>) = answer;
    Ok(match reply {
        Reply::Unsupported(reason) => {
            Err(Error::new(Code::WorkspaceUnsupported, format!("the workspace cannot be copy-on-write: {reason}")))
        }
        Reply::TooLarge(limit) => {
            Err(Error::new(Code::FileTooLarge, format!("the patch of the workspace is too large: {limit}")))
        }
        Reply::Failed { errno, doing } => {
            let code = match errno {
                libc::ENOSPC | libc::EDQUOT => Code::NoSpace,
                libc::EACCES | libc::EPERM => Code::PermissionDenied,
                _ => Code::EngineError,
            };
            let reason = io::Error::from_raw_os_error(errno);
            Err(Error::new(code, format!("cannot {doing}: {reason}")))
        }
        reply => Ok((reply, descriptors.into_iter().next())),
    })
}

/// Reads the list of a reply.
fn read_list<T: DeserializeOwned>(file: Option<OwnedFd>) -> Result<Vec<T>, Error> {
    let read = || {
        let mut file = File::from(file.ok_or(io::ErrorKind::UnexpectedEof)?);
        file.rewind()?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        message::decode(&bytes)
    };
    read().map_err(|error: io::Error| failed(&format!("the answer of the workspace's keeper cannot be read: {error}")))
}

/// The error for a path that names no change, or for a reply to another request.
fn no_change(reply: Reply) -> Error {
    let Reply::NoChange { path } = reply else { return failed("the keeper of the workspace has sent another answer") };
    let path = String::from_utf8_lossy(&path).into_owned();
    Error { path: Some(path.clone()), ..Error::new(Code::FileNotFound, format!("'{path}' names no change")) }
}

fn failed(message: &str) -> Error {
    Error::new(Code::EngineError, message)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
