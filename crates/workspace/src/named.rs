//! Named workspaces: their layers are kept when they are closed, and opened again.
//!
//! The store `id-NAME` has:
//!
//! - `layer-N`: the layers, see [`crate::layers`],
//! - `fork-N`: a place for mounts while forks are being opened, see [`crate::fork`],
//! - `layers` and `text-N`: which of them are in use, and the checkpoints, see [`History`],
//! - `about`: what never changes, see [`About`],
//! - `known`: what commits have made of the real directory, see [`Known`],
//! - `open`: the boot id of the machine, while the layers may not be on the disk,
//! - `journal`: a commit that has not ended,
//! - `nacre.lock`: locked while a keeper uses the store.
//!
//! `about`, `known` and `journal` begin with the version of their format. A store of another version is neither changed nor
//! swept.
//!
//! A new store is made under another name and renamed at the end, so what is missing in a named store is damage.

use crate::failure::{Failure, while_doing};
use crate::history::History;
use crate::import::Import;
use crate::journal::{self, Journal};
use crate::known::Known;
use crate::layers;
use crate::opening;
use crate::overlay::Mounter;
use crate::state::{self, About};
use crate::store::{Store, Stores};
use crate::tree::{Tree, names, open_directory, status};
use crate::{recovery, sealed, sweep};
use nacre_protocol::workspace::{self, Storage};
use rustix::fs::{fstat, renameat, syncfs};
use rustix::io::{Errno, Result};
use rustix::process::geteuid;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Maximum bytes of a name.
const MAX_ID_BYTES: usize = 128;
/// How long a workspace may be in use before that is an error: a keeper and programs whose host has been killed end soon.
const PATIENCE: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Why an archive is not unpacked there.
const EXISTS: &str = "it exists already, and an archive needs a new one: delete it, or choose another id";

/// A workspace to open.
pub struct Wanted<'a> {
    /// The directory of all stores.
    pub stores: Stores<'a>,
    /// The name of the workspace.
    pub id: &'a str,
    /// A name that no other workspace of the machine has.
    pub unique: &'a str,
    /// The path of the real directory.
    pub path: &'a Path,
    /// The real directory.
    pub base: &'a OwnedFd,
    /// Who mounts.
    pub mounter: Mounter,
}

/// An open named workspace, which is not mounted.
pub struct Named {
    /// Its store.
    pub store: Store,
    /// What never changes.
    pub about: About,
    /// What commits have made.
    pub known: Known,
    /// Its layers and checkpoints.
    pub history: History,
    /// The paths where the real directory is not as it was below the files of the archive.
    pub differing: Vec<Vec<u8>>,
    /// Whether it was created just now.
    is_new: bool,
}

impl Named {
    /// Takes back the opening: nothing has been mounted.
    pub fn cancel(mut self) {
        if !self.is_new {
            let _ = close(&self.store);
        } else if self.store.rename(self.about.unique.as_bytes()).is_ok() {
            self.store.remove();
        }
    }
}

/// A store that this process has locked.
struct Held {
    parent: OwnedFd,
    name: Vec<u8>,
    directory: OwnedFd,
    lock: OwnedFd,
}

/// What is in the way of a lock.
enum Obstacle {
    InUse(&'static str),
    Failed(Errno),
}

impl From<Errno> for Obstacle {
    fn from(errno: Errno) -> Self {
        Self::Failed(errno)
    }
}

/// Opens a named workspace again, or creates it.
///
/// # Errors
/// [`Failure::InUse`], [`Failure::Lost`], [`Failure::Unsupported`] for a store of another version of nacre, and those of
/// [`Store::create`].
pub fn open(wanted: &Wanted<'_>) -> std::result::Result<Named, Failure> {
    let name = name_of(wanted.id)?;
    let doing = || format!("open the workspace '{}'", wanted.id);
    loop {
        // Another process may create it, or delete it, in between.
        match hold(wanted.stores.path, &name, Some(wanted.mounter)) {
            Ok(held) => return resume(wanted, held),
            Err(Obstacle::InUse(user)) => return Err(Failure::InUse(user.into())),
            Err(Obstacle::Failed(Errno::NOENT)) => {}
            Err(Obstacle::Failed(errno)) => return Err(while_doing(doing())(errno)),
        }
        if let Some(created) = create(wanted, &name, None)? {
            return Ok(created);
        }
    }
}

/// Creates a named workspace with the files of an archive.
///
/// # Errors
/// [`Failure::InUse`] if there is one of this name, those of [`Import::unpack`] and of [`Store::create`].
pub fn import(wanted: &Wanted<'_>, import: Import) -> std::result::Result<Named, Failure> {
    let name = name_of(wanted.id)?;
    let exists = || Failure::InUse(EXISTS.into());
    match hold(wanted.stores.path, &name, Some(wanted.mounter)) {
        Err(Obstacle::Failed(Errno::NOENT)) => create(wanted, &name, Some(import))?.ok_or_else(exists),
        Err(Obstacle::Failed(errno)) => Err(while_doing(format!("create the workspace '{}'", wanted.id))(errno)),
        Ok(_) | Err(Obstacle::InUse(_)) => Err(exists()),
    }
}

/// Notes that the layers are closed, and that the disk has them: no program writes to them.
///
/// # Errors
/// Those of the system calls.
pub fn close(store: &Store) -> Result<()> {
    syncfs(store.directory())?;
    state::mark_closed(store.directory())
}

/// The named workspaces of a directory of stores.
///
/// # Errors
/// [`Failure::System`] if the directory cannot be read.
pub fn list(stores: &Path) -> std::result::Result<Vec<workspace::Named>, Failure> {
    let doing = || format!("list the workspaces in {}", stores.display());
    let directory = match open_directory(rustix::fs::CWD, stores.as_os_str().as_bytes()) {
        Err(Errno::NOENT) => return Ok(Vec::new()),
        directory => directory.map_err(while_doing(doing()))?,
    };
    let names = names(&directory).map_err(while_doing(doing()))?;
    Ok(names.iter().filter_map(|name| describe(&directory, name)).collect())
}

fn describe(stores: &OwnedFd, name: &[u8]) -> Option<workspace::Named> {
    let id = str::from_utf8(name.strip_prefix(sweep::NAMED)?).ok().filter(|id| is_id(id))?;
    let store = open_directory(stores, name).ok()?;
    let path = About::read(&store).ok().flatten().map(|about| about.path);
    let in_use = sweep::is_locked(&store).unwrap_or(false);
    let used_at = fstat(&store).ok()?.st_mtime;
    Some(workspace::Named { id: id.into(), path, in_use, used_at })
}

/// Deletes a named workspace.
///
/// # Errors
/// [`Failure::Missing`], [`Failure::InUse`], and [`Failure::System`] or [`Failure::Unsupported`] if a commit that was
/// interrupted cannot be completed.
pub fn delete(stores: &Path, id: &str) -> std::result::Result<(), Failure> {
    let name = name_of(id)?;
    let doing = || format!("delete the workspace '{id}'");
    // Without namespaces, there is no mount.
    let mounter = opening::enter_namespaces().ok();
    let Held { parent, name, directory, lock } = match hold(stores, &name, mounter) {
        Ok(held) => held,
        Err(Obstacle::InUse(user)) => return Err(Failure::InUse(user.into())),
        Err(Obstacle::Failed(Errno::NOENT)) => return Err(Failure::Missing),
        Err(Obstacle::Failed(errno)) => return Err(while_doing(doing())(errno)),
    };
    if layers::are_shared(&directory).map_err(while_doing(doing()))? {
        return Err(Failure::InUse("forks still use its layers: destroy them first".into()));
    }
    match recovery::recover(&directory) {
        // Without its real directory or its journal, it can never be completed.
        Ok(_) | Err(Failure::Missing | Failure::System(Errno::STALE | Errno::BADMSG, _)) => {}
        Err(failure) => return Err(failure),
    }
    let deleted = (|| {
        let trash = {
            let _creating = sweep::lock_parent(&parent)?;
            let free = |number: &u32| format!("deleted-{}-{number}", std::process::id()).into_bytes();
            let is_free = |name: &Vec<u8>| matches!(status(Some(&parent), name), Ok(None));
            let trash = (0..u32::MAX).map(|number| free(&number)).find(is_free).ok_or(Errno::EXIST)?;
            renameat(&parent, &name[..], &parent, &trash[..])?;
            trash
        };
        sweep::remove(&parent, &trash, &directory, lock)
    })();
    deleted.map_err(while_doing(doing()))
}

/// The name of the store. It never leads to another directory, and no unnamed store has it.
fn name_of(id: &str) -> std::result::Result<Vec<u8>, Failure> {
    if is_id(id) {
        return Ok([sweep::NAMED, id.as_bytes()].concat());
    }
    Err(Failure::System(Errno::INVAL, format!("use the name '{}' for a workspace", id.escape_debug())))
}

fn is_id(id: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=MAX_ID_BYTES).contains(&id.len()) && id.bytes().all(is_allowed) && id != "." && id != ".."
}

/// Locks a store that no process uses. Without `mounter`, there can be no mount of it.
fn hold(stores: &Path, name: &[u8], mounter: Option<Mounter>) -> std::result::Result<Held, Obstacle> {
    let end = Instant::now() + PATIENCE;
    loop {
        match try_to_hold(stores, name, mounter) {
            Err(Obstacle::InUse(_)) if Instant::now() < end => std::thread::sleep(LOOK_EVERY),
            held => return held,
        }
    }
}

fn try_to_hold(stores: &Path, name: &[u8], mounter: Option<Mounter>) -> std::result::Result<Held, Obstacle> {
    let parent = open_directory(rustix::fs::CWD, stores.as_os_str().as_bytes())?;
    let (directory, lock) = {
        // So it is not deleted meanwhile.
        let _creating = sweep::lock_parent(&parent)?;
        let directory = open_directory(&parent, name)?;
        match sweep::lock(&directory) {
            Err(Errno::AGAIN) => return Err(Obstacle::InUse("another sandbox has opened it")),
            lock => (directory, lock?),
        }
    };
    // Its programs may have outlived its keeper.
    if let (Some(mounter), Ok(Some(history))) = (mounter, History::read(&directory))
        && layers::are_in_use(&directory, &history.stack, mounter)
    {
        return Err(Obstacle::InUse("programs of the sandbox that opened it are still running"));
    }
    Ok(Held { parent, name: name.to_vec(), directory, lock })
}

/// Creates a named workspace. `None` if another process has just done so.
fn create(wanted: &Wanted<'_>, name: &[u8], import: Option<Import>) -> std::result::Result<Option<Named>, Failure> {
    let doing = || format!("create the workspace '{}'", wanted.id);
    let base = wanted.base;
    let mut store = Store::create(&wanted.stores, wanted.unique.as_bytes(), Storage::Disk)?;
    let created = opening::moment(base, store.directory()).and_then(|opened| {
        let noted = (|| {
            let about = About {
                path: wanted.path.as_os_str().as_bytes().to_vec(),
                identity: journal::identity(base)?,
                born: opening::born(base),
                mounter: wanted.mounter,
                user: geteuid().as_raw(),
                unique: wanted.unique.into(),
                opened,
            };
            about.write(store.directory())?;
            state::write_known(store.directory(), &Known::default())?;
            let first = store.layers().create(base)?;
            let history = History::new(vec![first]);
            history.write(store.directory())?;
            state::mark_open(store.directory())?;
            Ok((about, history, first))
        })();
        let (about, history, first) = noted.map_err(while_doing(doing()))?;
        let marks = wanted.mounter.marks();
        let unpacked = import.map(|import| import.unpack(store.layers().place(), first, base, marks)).transpose()?;
        let differing = unpacked.unwrap_or_default();
        // A directory of this name is never empty, so it is not replaced.
        match store.rename(name) {
            Err(Errno::EXIST | Errno::NOTEMPTY) => Ok(None),
            renamed => renamed.map(|()| Some((about, history, differing))).map_err(while_doing(doing())),
        }
    });
    match created {
        Ok(Some((about, history, differing))) => {
            Ok(Some(Named { store, about, known: Known::default(), history, differing, is_new: true }))
        }
        other => {
            store.remove();
            other.map(|_| None)
        }
    }
}

/// Opens a store again.
fn resume(wanted: &Wanted<'_>, held: Held) -> std::result::Result<Named, Failure> {
    let doing = || format!("open the workspace '{}'", wanted.id);
    let Held { parent, name, directory, lock } = held;
    let about = About::expect(&directory)?;
    let user = geteuid().as_raw();
    if (about.mounter, about.user) != (wanted.mounter, user) {
        let who = |mounter: Mounter, user: u32| match mounter {
            Mounter::Root => format!("user {user} with the rights of root"),
            Mounter::User => format!("user {user} in a user namespace"),
        };
        let (maker, opener) = (who(about.mounter, about.user), who(wanted.mounter, user));
        let doing = format!("open the workspace '{}' as {opener}: it was made by {maker}", wanted.id);
        return Err(Failure::System(Errno::PERM, doing));
    }
    let base = wanted.base;
    let is_same = about.identity == journal::identity(base).map_err(while_doing(doing()))?;
    // A removed directory leaves its number to others.
    let is_later = about.born.zip(opening::born(base)).is_some_and(|(then, now)| then != now);
    if !is_same || is_later {
        let reason = format!(
            "{} is another directory than the one it was made for, {}: its device, inode or time of creation differs",
            wanted.path.display(),
            String::from_utf8_lossy(&about.path)
        );
        return Err(Failure::Lost(reason));
    }
    let history = History::expect(&directory)?;
    for stack in history.stacks() {
        match layers::trees(&directory, stack) {
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {
                return Err(Failure::Lost("one of its layers is missing".into()));
            }
            found => found.map_err(while_doing(doing()))?,
        };
    }
    if state::is_torn(&directory).map_err(while_doing(doing()))? {
        let reason = "the machine was restarted while it was open, so files may be missing or torn";
        return Err(Failure::Lost(reason.into()));
    }
    state::read_known(&directory)?;
    let completed = Journal::read(&directory).and_then(|journal| {
        let base = Tree::new(open_directory(wanted.base, b".")?);
        journal.map_or(Ok(()), |journal| recovery::complete(&directory, journal, &base))
    });
    match completed {
        Err(Errno::BADMSG) => return Err(Failure::Lost("its file 'journal' is damaged".into())),
        Err(sealed::FOREIGN) => return Err(recovery::foreign()),
        completed => completed.map_err(while_doing(format!("{}: complete its last commit", doing())))?,
    }
    let (known, history) = (state::read_known(&directory)?, History::expect(&directory)?);
    state::mark_open(&directory).map_err(while_doing(doing()))?;
    let store = Store::open(&wanted.stores, parent, name, directory, lock).map_err(while_doing(doing()))?;
    // What a keeper that died had not removed.
    let _ = store.layers().keep_only(history.stacks());
    let _ = history.keep_only_texts(store.layers().place());
    Ok(Named { store, about, known, history, differing: Vec::new(), is_new: false })
}

#[cfg(test)]
#[path = "named_tests.rs"]
mod tests;
