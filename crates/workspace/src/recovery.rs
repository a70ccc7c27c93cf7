//! Completes commits that ended with their keeper.

use crate::failure::{Failure, while_doing};
use crate::journal::{self, Journal};
use crate::settle;
use crate::state::{self, About};
use crate::tree::{Tree, open_directory};
use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use rustix::io::{Errno, Result};
use std::os::fd::OwnedFd;

/// Completes the last commit of a store, if it was interrupted. Returns whether it was.
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
        if journal::identity(&base)? != journal.identity {
            return Err(Errno::STALE);
        }
        complete(store, journal, &Tree::new(base))
    })();
    completed.map_err(while_doing(format!("{doing}, in {place}")))?;
    Ok(true)
}

/// Completes an interrupted commit of a store in its open real directory. A named workspace knows of it afterwards.
///
/// # Errors
/// Those of the system calls.
pub fn complete(store: &OwnedFd, journal: Journal, base: &Tree) -> Result<()> {
    // Without these files, the workspace is lost in any case, but not the commit.
    let named = About::read(store).ok().flatten().zip(state::read_known(store).ok());
    journal::complete(store, journal, base, |journal| {
        let Some((about, mut known)) = named else { return Ok(()) };
        settle::settle(journal, base, &layers(store)?, about.mounter.marks(), &mut known)?;
        state::write_known(store, &known)
    })
}

fn layers(store: &OwnedFd) -> Result<Vec<Tree>> {
    match open_directory(store, b"upper") {
        Err(Errno::NOENT) => Ok(Vec::new()),
        upper => Ok(vec![Tree::new(upper?)]),
    }
}
