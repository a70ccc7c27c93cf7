//! Completes the commits, and removes the stores, of keepers that died.
//!
//! A keeper holds a lock in its store while it lives. The lock of their parent directory covers the moment between the
//! creation of a store and its lock.

use crate::failure::Failure;
use crate::history::History;
use crate::journal;
use crate::layers::{self, Layers};
use crate::recovery;
use crate::tree::{names, open_directory};
use nacre_containment::file_tree::{empty, remove_forced};
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, flock, openat, unlinkat};
use rustix::io::{Errno, Result};
use std::os::fd::OwnedFd;

/// The file that a keeper locks in its store.
const LOCK: &str = "nacre.lock";
/// What the names of stores begin with that are kept until they are opened again, or deleted. Those of others begin with a
/// digit, or with what is to be deleted.
pub const NAMED: &[u8] = b"id-";

/// Locks the parent directory of stores, until the result is dropped.
///
/// # Errors
/// Those of the system calls.
pub fn lock_parent(parent: &OwnedFd) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    // A description of its own: a lock belongs to it, not to the descriptor.
    let locked = openat(parent, ".", flags, Mode::empty())?;
    loop {
        match flock(&locked, FlockOperation::LockExclusive) {
            Err(Errno::INTR) => {}
            done => return done.map(|()| locked),
        }
    }
}

/// Locks a store, until the result is dropped.
///
/// # Errors
/// Those of the system calls; `EAGAIN` if another process uses it.
pub fn lock(store: &OwnedFd) -> Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let lock = openat(store, LOCK, flags, Mode::RUSR | Mode::WUSR)?;
    flock(&lock, FlockOperation::NonBlockingLockExclusive).map(|()| lock)
}

/// Whether a process has locked a store.
///
/// # Errors
/// Those of the system calls.
pub fn is_locked(store: &OwnedFd) -> Result<bool> {
    let lock = openat(store, LOCK, OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    match flock(&lock, FlockOperation::NonBlockingLockShared) {
        Err(Errno::AGAIN) => Ok(true),
        locked => locked.map(|()| false),
    }
}

/// A store that no process uses. It is locked.
pub struct Abandoned {
    name: Vec<u8>,
    directory: OwnedFd,
    lock: OwnedFd,
}

impl Abandoned {
    /// Whether it has a name.
    pub fn is_named(&self) -> bool {
        self.name.starts_with(NAMED)
    }

    /// Whether its last commit has not ended.
    pub fn is_interrupted(&self) -> bool {
        !matches!(journal::exists(&self.directory), Ok(false))
    }
}

/// The stores of a directory that no process uses.
///
/// # Errors
/// Those of the system calls, if the directory cannot be read.
pub fn find(parent: &OwnedFd) -> Result<Vec<Abandoned>> {
    let _creating = lock_parent(parent)?;
    let abandoned = |name: Vec<u8>| abandoned(parent, name).ok().flatten();
    Ok(names(parent)?.into_iter().filter_map(abandoned).collect())
}

/// Completes the commits in one real directory, given by its device and inode. What fails is left to the next sweep.
pub fn complete(stores: &[Abandoned], identity: (u64, u64)) {
    for store in stores.iter().filter(|store| recovery::is_of(&store.directory, identity)) {
        let _ = recovery::recover(&store.directory);
    }
}

/// Completes all other commits, and removes the stores. That can take long. What fails is left to the next sweep.
pub fn remove_all(parent: &OwnedFd, stores: Vec<Abandoned>) {
    for store in stores {
        // Without its real directory, a commit can never be completed.
        let is_over = matches!(recovery::recover(&store.directory), Ok(_) | Err(Failure::Missing));
        if is_over && !store.is_named() {
            let _ = remove(parent, &store.name, &store.directory, store.lock);
        }
    }
}

/// Removes what the stores of these names have left for a fork, which does not use it any more. Stores in use do that
/// themselves. What fails is left to the next sweep.
pub fn leave(parent: &OwnedFd, names: Vec<Vec<u8>>, unlock: impl FnOnce()) {
    let stores: Vec<Abandoned> = {
        // Another process that leaves such a store does so before or after this, see `remove`.
        let Ok(_creating) = lock_parent(parent) else { return };
        unlock();
        names.into_iter().filter_map(|name| abandoned(parent, name).ok().flatten()).collect()
    };
    for store in stores.into_iter().filter(|store| !store.is_interrupted()) {
        let _ = match store.is_named() {
            true => keep_only_present(&store),
            false => remove(parent, &store.name, &store.directory, store.lock),
        };
    }
}

/// Removes the layers that a closed named store does not have any more.
fn keep_only_present(store: &Abandoned) -> Result<()> {
    if let Some(history) = History::read(&store.directory)? {
        let layers = Layers::at(open_directory(&store.directory, b".")?)?;
        layers.keep_only(history.stacks())?;
        layers.settle();
    }
    Ok(())
}

/// Removes a store, except for the layers that forks use: the last fork removes these. Its lock is removed last, so that
/// the next sweep finds what is left.
///
/// # Errors
/// Those of the system calls.
pub fn remove(parent: &OwnedFd, name: &[u8], directory: &OwnedFd, lock: OwnedFd) -> Result<()> {
    while layers::remove_unused(directory)? {
        let _creating = lock_parent(parent)?;
        // A fork that leaves it later finds it unlocked.
        if !layers::are_any_unused(directory)? {
            drop(lock);
            return Ok(());
        }
    }
    for inner in names(directory)?.iter().filter(|inner| *inner != LOCK.as_bytes()) {
        remove_forced(directory, inner)?;
    }
    empty(directory)?;
    unlinkat(parent, name, AtFlags::REMOVEDIR)
}

/// Opens and locks a store, if it is one and no process uses it.
fn abandoned(parent: &OwnedFd, name: Vec<u8>) -> Result<Option<Abandoned>> {
    let directory = open_directory(parent, &name)?;
    let lock = openat(&directory, LOCK, OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::AGAIN) => Ok(None),
        locked => locked.map(|()| Some(Abandoned { name, directory, lock })),
    }
}
