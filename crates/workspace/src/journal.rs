//! The journal of a commit: what it is about to do, on disk, so that it can be completed after a crash.

use crate::failure::{Trouble, at};
use crate::known::{Notes, Staged};
use crate::sealed;
use crate::staging::{self, Staging};
use crate::steps::{Place, Reason, Step, is_conflict};
use crate::tree::{Tree, status};
use nacre_containment::file_tree;
use rustix::fs::{AtFlags, fstat, syncfs, unlinkat};
use rustix::io::Result;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

const NAME: &str = "journal";
/// Maximum bytes of a journal: some millions of steps.
const MAX_BYTES: u64 = 1 << 30;

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
    /// Its device and inode, once it is made.
    pub made: Option<(u64, u64)>,
    /// What to do with the steps.
    pub direction: Direction,
    /// The steps, in their order.
    pub steps: Vec<Step>,
    /// What must be known of the real directory afterwards.
    pub notes: Notes,
    /// What the staging directory held before the steps.
    pub staged: Staged,
    /// Whether the disk must have everything before the journal ends.
    pub sync: bool,
}

impl Journal {
    /// Reads the journal of a store, if there is one.
    ///
    /// # Errors
    /// Those of the system calls; [`sealed::FOREIGN`]; `EBADMSG` for a file that is damaged.
    pub fn read(store: &OwnedFd) -> Result<Option<Self>> {
        sealed::read(store, NAME, MAX_BYTES)
    }

    /// Writes it, in the place of an earlier one.
    ///
    /// # Errors
    /// Those of the system calls; `EFBIG` for more steps than a journal can have.
    pub fn write(&self, store: &OwnedFd) -> Result<()> {
        sealed::write(store, NAME, self, MAX_BYTES, self.sync)
    }

    /// Does or undoes all steps. They may have been done before. The inner error: the path at which another program is in
    /// the way, if `is_strict`. The steps before it are done.
    ///
    /// # Errors
    /// Those of the system calls.
    pub fn run(
        &self,
        place: &Place<'_>,
        is_strict: bool,
        mut reached: impl FnMut() -> Result<()>,
    ) -> std::result::Result<std::result::Result<Skipped, Vec<u8>>, Trouble> {
        let mut skipped = Skipped::new();
        match self.direction {
            Direction::Forward => {
                for (number, step) in self.steps.iter().enumerate() {
                    if let Some(reason) = place.apply(number, step).map_err(at(&step.path))? {
                        let is_known = skipped.contains_key(&step.path);
                        if is_strict && !is_known && is_conflict(reason) {
                            return Ok(Err(step.path.clone()));
                        }
                        skipped.entry(step.path.clone()).or_insert(reason);
                    }
                    reached()?;
                }
            }
            Direction::Back => {
                for (number, step) in self.steps.iter().enumerate().rev() {
                    place.undo(number, step).map_err(at(&step.path))?;
                    reached()?;
                }
                for step in &self.steps {
                    place.restore_times(step).map_err(at(&step.path))?;
                }
            }
        }
        Ok(Ok(skipped))
    }

    /// Whether its steps are, or will be, in the real directory.
    pub fn is_applied(&self) -> bool {
        self.direction == Direction::Forward && !self.steps.is_empty()
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
        (self.notes, self.staged) = Default::default();
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

/// Completes an interrupted commit in an open real directory. `settle` is called once the steps are done or undone, and can
/// be called again.
///
/// # Errors
/// Those of the system calls and of `settle`.
pub fn complete(
    store: &OwnedFd,
    journal: Journal,
    base: &Tree,
    settle: impl FnOnce(&Journal) -> Result<()>,
) -> Result<()> {
    if journal.steps.is_empty() {
        staging::remove_real(base, &journal.staging, journal.made)?;
        settle(&journal)?;
        return remove(store);
    }
    // The staging directory outlives the steps. If another program has removed it, nothing can be done.
    let staging = journal.made.map(|made| Staging::open(base, &journal.staging, made)).transpose()?.flatten();
    let Some(staging) = staging else { return remove(store) };
    // No caller can be told of a failure, so as much as possible is done.
    let run = journal.run(&Place { base, staging: staging.directory() }, false, || Ok(()));
    let _ = run.map_err(|trouble| trouble.errno())?;
    settle(&journal)?;
    journal.end(store, staging, || Ok(()))
}

/// The device and inode of a directory.
pub fn identity(directory: &OwnedFd) -> Result<(u64, u64)> {
    Ok(file_tree::identity(&fstat(directory)?))
}
