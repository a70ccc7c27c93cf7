//! The journal of a commit: what it is about to do, on disk, so that it can be completed after a crash.

use crate::failure::{Failure, while_doing};
use crate::staging::{self, Staging, write_all};
use crate::steps::{Place, Reason, Step};
use crate::tree::{Tree, open_file, status};
use nacre_protocol::message;
use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, fstat, fsync, openat, openat2, renameat, syncfs, unlinkat};
use rustix::io::{Errno, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;

const NAME: &str = "journal";
const NEW_NAME: &str = "journal.new";

/// What has been skipped: paths and reasons.
pub type Skipped = BTreeMap<Vec<u8>, Reason>;

/// What to do with the steps after a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Direction {
    /// Do them.
    Forward,
    /// Undo them.
    Back,
}

/// See the module. A journal without steps only says that there may be a staging directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Journal {
    /// The path of the real directory.
    pub path: Vec<u8>,
    /// Its device and inode.
    pub identity: (u64, u64),
    /// The name of the staging directory in it.
    pub staging: Vec<u8>,
    /// What to do with the steps.
    pub direction: Direction,
    /// The steps, in their order.
    pub steps: Vec<Step>,
    /// Whether the disk must have everything before the journal ends.
    pub sync: bool,
}

impl Journal {
    /// Reads the journal of a store, if there is one.
    ///
    /// # Errors
    /// Those of the system calls; `EBADMSG` for a file that is no journal.
    pub fn read(store: &OwnedFd) -> Result<Option<Self>> {
        if !exists(store)? {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        let read = File::from(open_file(store, NAME.as_bytes())?).read_to_end(&mut bytes);
        read.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        message::decode(&bytes).map(Some).map_err(|_| Errno::BADMSG)
    }

    /// Writes it, in the place of an earlier one.
    ///
    /// # Errors
    /// Those of the system calls.
    pub fn write(&self, store: &OwnedFd) -> Result<()> {
        let bytes = message::encode(self).map_err(|_| Errno::NOMEM)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(store, NEW_NAME, flags, Mode::RUSR | Mode::WUSR)?;
        write_all(&file, &bytes)?;
        if self.sync {
            fsync(&file)?;
        }
        renameat(store, NEW_NAME, store, NAME)?;
        if self.sync { fsync(store) } else { Ok(()) }
    }

    /// Does or undoes all steps. They may have been done before.
    ///
    /// # Errors
    /// Those of the system calls.
    pub fn run(&self, place: &Place<'_>, mut reached: impl FnMut() -> Result<()>) -> Result<Skipped> {
        let mut skipped = Skipped::new();
        let steps = self.steps.iter().enumerate();
        match self.direction {
            Direction::Forward => {
                for (number, step) in steps {
                    if let Some(reason) = place.apply(number, step)? {
                        skipped.entry(step.path.clone()).or_insert(reason);
                    }
                    reached()?;
                }
            }
            Direction::Back => {
                for (number, step) in steps.rev() {
                    place.undo(number, step)?;
                    reached()?;
                }
            }
        }
        Ok(skipped)
    }

    /// Ends the commit: removes the staging directory with the old contents, and then the journal.
    ///
    /// # Errors
    /// Those of the system calls.
    pub fn end(mut self, store: &OwnedFd, staging: Staging, mut reached: impl FnMut() -> Result<()>) -> Result<()> {
        if self.sync {
            syncfs(staging.directory())?;
        }
        // From here on, no step may be repeated: what tells that it was done is removed.
        self.steps.clear();
        if self.write(store).is_err() {
            // Without space for the journal.
            remove(store)?;
            return staging.remove();
        }
        reached()?;
        staging.remove()?;
        reached()?;
        remove(store)
    }
}

/// Whether a store has a journal: its last commit has not ended.
pub fn exists(store: &OwnedFd) -> Result<bool> {
    Ok(status(Some(store), NAME.as_bytes())?.is_some())
}

fn remove(store: &OwnedFd) -> Result<()> {
    unlinkat(store, NAME, AtFlags::empty())
}

/// Completes the commit of a store that was interrupted. Returns whether there was one.
///
/// The store must be in use by no other process.
///
/// # Errors
/// [`Failure::System`] if it cannot be completed now. It can be tried again.
pub fn recover(store: &OwnedFd) -> std::result::Result<bool, Failure> {
    let doing = "complete a commit that was interrupted";
    let Some(journal) = Journal::read(store).map_err(while_doing(doing))? else { return Ok(false) };
    let place = String::from_utf8_lossy(&journal.path).into_owned();
    let completed = (|| {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let base = openat2(rustix::fs::CWD, &journal.path[..], flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?;
        if identity(&base)? != journal.identity {
            return Err(Errno::STALE);
        }
        complete(store, journal, &Tree::new(base))
    })();
    completed.map_err(while_doing(format!("{doing}, in {place}")))?;
    Ok(true)
}

/// Completes the last commit of a store, if it has not ended, in an open real directory. Returns the steps if they were
/// undone.
///
/// # Errors
/// Those of the system calls.
pub fn complete_if_any(store: &OwnedFd, base: &Tree) -> Result<Option<Vec<Step>>> {
    let Some(journal) = Journal::read(store)? else { return Ok(None) };
    let undone = (journal.direction == Direction::Back).then(|| journal.steps.clone());
    complete(store, journal, base)?;
    Ok(undone)
}

/// Completes an interrupted commit in an open real directory.
///
/// # Errors
/// Those of the system calls.
pub fn complete(store: &OwnedFd, journal: Journal, base: &Tree) -> Result<()> {
    if journal.steps.is_empty() {
        staging::remove(base, &journal.staging)?;
        return remove(store);
    }
    // The staging directory outlives the steps. If another program has removed it, nothing can be done.
    let Some(staging) = Staging::open(base, &journal.staging)? else { return remove(store) };
    journal.run(&Place { base, staging: staging.directory() }, || Ok(()))?;
    journal.end(store, staging, || Ok(()))
}

/// The device and inode of a directory.
pub fn identity(directory: &OwnedFd) -> Result<(u64, u64)> {
    let found = fstat(directory)?;
    Ok((found.st_dev, found.st_ino))
}
