//! Completes commits that ended with their keeper.

use crate::failure::{Failure, while_doing};
use crate::history::History;
use crate::journal::{self, Journal};
use crate::layers;
use crate::sealed;
use crate::settle;
use crate::state::{self, About};
use crate::tree::{Tree, if_directory};
use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Result;
use std::os::fd::OwnedFd;

/// Completes the last commit of a store, if it was interrupted. Returns whether it was.
///
/// The store must be in use by no other process.
///
/// # Errors
/// [`Failure::System`] if it cannot be completed now. It can be tried again. [`Failure::Missing`] if its real directory no
/// longer exists at its path, and [`Failure::Unsupported`] if only another version of nacre can.
pub fn recover(store: &OwnedFd) -> std::result::Result<bool, Failure> {
    let doing = "complete a commit that was interrupted";
    let journal = Journal::read(store).map_err(|errno| match errno {
        sealed::FOREIGN => foreign(),
        errno => while_doing(doing)(errno),
    })?;
    let Some(journal) = journal else { return Ok(false) };
    let place = String::from_utf8_lossy(&journal.path).into_owned();
    let doing = format!("{doing}, in {place}");
    let base = open_base(&journal).map_err(while_doing(&*doing))?.ok_or(Failure::Missing)?;
    complete(store, journal, &Tree::new(base)).map_err(while_doing(doing))?;
    Ok(true)
}

/// Only the version of nacre that has begun a commit can complete it.
pub fn foreign() -> Failure {
    let reason = "another version of nacre has not completed a commit of it: open it with that version first";
    Failure::Unsupported(reason.into())
}

/// The real directory of a commit. `None` if it no longer exists at its path.
fn open_base(journal: &Journal) -> Result<Option<OwnedFd>> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = openat2(rustix::fs::CWD, &journal.path[..], flags, Mode::empty(), ResolveFlags::NO_SYMLINKS);
    let Some(base) = if_directory(opened)? else { return Ok(None) };
    Ok((journal::identity(&base)? == journal.identity).then_some(base))
}

/// Whether a store has an interrupted commit in the directory with this device and inode.
pub fn is_of(store: &OwnedFd, identity: (u64, u64)) -> bool {
    matches!(Journal::read(store), Ok(Some(journal)) if journal.identity == identity)
}

/// Completes an interrupted commit of a store in its open real directory. A named workspace knows of it afterwards.
///
/// # Errors
/// Those of the system calls.
pub fn complete(store: &OwnedFd, journal: Journal, base: &Tree) -> Result<()> {
    // Without these files, the workspace is lost in any case, but not the commit.
    let named = || {
        let history = History::read(store).ok()??;
        let layers = layers::trees(store, &history.stack).ok()?;
        Some((About::read(store).ok()??, state::read_known(store).ok()?, history, layers))
    };
    let named = named();
    journal::complete(store, journal, base, |journal| {
        let Some((about, mut known, mut history, layers)) = named else { return Ok(()) };
        settle::settle(journal, base, &layers, about.mounter.marks(), &mut known)?;
        state::write_known(store, &known)?;
        // Its checkpoints are from before the commit.
        // Otherwise nothing has been applied.
        if journal.is_applied() {
            history.points.clear();
        }
        history.write(store)
    })
}
