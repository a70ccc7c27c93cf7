//! Entries that are never changes: what nacre has made for the duration of a call.

use crate::staging;
use crate::tree::{names, open_directory, split};
use nacre_containment::file_tree::remove_forced;
use nacre_protocol::files::is_temporary;
use rustix::fs::{AtFlags, unlinkat};
use rustix::io::Result;
use std::os::fd::OwnedFd;

/// Whether a path of a workspace is omitted from its changes. What is below is omitted, too.
pub fn is_omitted(path: &[u8]) -> bool {
    staging::is_staging(path) || is_temporary(split(path).1)
}

/// The names in a directory below the root of a workspace, if all of them are omitted.
///
/// # Errors
/// Those of the system calls.
pub fn only_omitted(directory: &OwnedFd) -> Result<Option<Vec<Vec<u8>>>> {
    Ok(Some(names(directory)?).filter(|names| names.iter().all(|name| is_temporary(name))))
}

/// Removes a directory in which everything is omitted.
///
/// # Errors
/// Those of the system calls: `ENOTEMPTY` if it has other entries.
pub fn remove_directory(parent: &OwnedFd, name: &[u8]) -> Result<()> {
    let directory = open_directory(parent, name)?;
    for inner in only_omitted(&directory)?.unwrap_or_default() {
        remove_forced(&directory, &inner)?;
    }
    unlinkat(parent, name, AtFlags::REMOVEDIR)
}
