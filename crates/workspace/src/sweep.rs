//! Completes the commits, and removes the stores, of keepers that died.
//!
//! A keeper holds a lock in its store while it lives. The lock of their parent directory covers the moment between the
//! creation of a store and its lock.

use crate::journal;
use crate::removal;
use crate::tree::{names, status};
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, flock, openat, unlinkat};
use rustix::io::{Errno, Result};
use std::os::fd::OwnedFd;

/// The file that a keeper locks in its store.
const LOCK: &str = "nacre.lock";
/// A store with this file is kept until it is opened again, or deleted.
const ID: &str = "id";

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

/// Locks a new store, until the result is dropped.
///
/// # Errors
/// Those of the system calls; `EAGAIN` if another process uses it.
pub fn lock_new(store: &OwnedFd) -> Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let lock = openat(store, LOCK, flags, Mode::RUSR | Mode::WUSR)?;
    flock(&lock, FlockOperation::NonBlockingLockExclusive).map(|()| lock)
}

/// A store that no process uses. It is locked.
pub struct Abandoned {
    name: Vec<u8>,
    directory: OwnedFd,
    _lock: OwnedFd,
}

/// Completes the commits of all stores in a directory that no process uses. Returns those that can be removed. What fails
/// is left to the next sweep.
///
/// # Errors
/// Those of the system calls, if the directory cannot be read.
pub fn complete(parent: &OwnedFd) -> Result<Vec<Abandoned>> {
    let mut found: Vec<Abandoned> = {
        let _creating = lock_parent(parent)?;
        let abandoned = |name: Vec<u8>| abandoned(parent, name).ok().flatten();
        names(parent)?.into_iter().filter_map(abandoned).collect()
    };
    found.retain(|store| {
        let is_complete = journal::recover(&store.directory).is_ok();
        is_complete && matches!(status(Some(&store.directory), ID.as_bytes()), Ok(None))
    });
    Ok(found)
}

/// Removes stores. That can take long.
pub fn remove_all(parent: &OwnedFd, stores: Vec<Abandoned>) {
    for store in stores {
        let _ = remove(parent, &store.name, &store.directory);
    }
}

/// Removes a store. Its lock is removed last, so that the next sweep finds what is left.
///
/// # Errors
/// Those of the system calls.
pub fn remove(parent: &OwnedFd, name: &[u8], directory: &OwnedFd) -> Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    for layer in ["upper", "work"] {
        match openat(directory, layer, flags, Mode::empty()) {
            Err(Errno::NOENT) => {}
            layer => removal::empty(&layer?)?,
        }
    }
    removal::empty(directory)?;
    unlinkat(parent, name, AtFlags::REMOVEDIR)
}

/// Opens and locks a store, if it is one and no process uses it.
fn abandoned(parent: &OwnedFd, name: Vec<u8>) -> Result<Option<Abandoned>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = openat(parent, &name[..], flags, Mode::empty())?;
    let lock = openat(&directory, LOCK, OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::AGAIN) => Ok(None),
        locked => locked.map(|()| Some(Abandoned { name, directory, _lock: lock })),
    }
}
