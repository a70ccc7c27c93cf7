//! Present times for sources whose content a rollback changes: outputs that were built from the other content may be outside of
//! the workspace, where nothing is rolled back.
//!
//! What is generated keeps its time. So an output is never newer than a source, and at worst a build does too much. Where
//! nothing tells outputs from sources, all files keep their times: they fit together.
//!
//! A new time copies the file to the layer that receives the writes, so this has limits.

use crate::changes::{Sides, Walks};
use crate::dates::Dates;
use crate::failure::Trouble;
use crate::git_rules::GitRules;
use crate::selection::Selection;
use crate::stamp::modified_at;
use crate::tree::{Tree, file_type, split, status};
use nacre_protocol::workspace::{Difference, Kind, WorkspaceChange};
use rustix::fs::{AtFlags, FileType, Timespec, Timestamps, fstatvfs, utimensat};
use rustix::io::Errno;
use std::os::fd::OwnedFd;

/// Maximum bytes of a file that gets a time.
pub const MAX_FILE_BYTES: u64 = 1 << 20;
/// Maximum files that get one, and bytes of them together. Beyond that, none does.
pub const MAX_FILES: usize = 10_000;
const MAX_BYTES: u64 = 64 << 20;
/// The part of the free space that they may take.
const PART_OF_SPACE: u64 = 8;

/// Gives the sources that differ between what programs saw (`base`) and what they will see (`merged`) the present time. `real` is the
/// real directory, and `clock` a directory on the file system of the layers. Returns how many.
///
/// # Errors
/// Those of the system calls. Some files may have the time then.
pub fn refresh(sides: &Sides<'_>, real: &Tree, clock: &OwnedFd) -> std::result::Result<usize, Trouble> {
    let rules = GitRules::new(real);
    if !rules.has_rules()? {
        return Ok(0);
    }
    let changes = sides.changes(&Selection::all())?;
    let (mut sources, mut bytes) = (Vec::new(), 0);
    for WorkspaceChange { path, now, .. } in changes.iter().filter(|change| is_new_content(change)) {
        if rules.generated(path, false)?.is_none() {
            sources.push(&path[..]);
            bytes += now.map_or(0, |now| now.size);
        }
    }
    let space = fstatvfs(clock)?;
    let max_bytes = MAX_BYTES.min(space.f_bavail.saturating_mul(space.f_frsize) / PART_OF_SPACE);
    if sources.is_empty() || sources.len() > MAX_FILES || bytes > max_bytes {
        return Ok(0);
    }
    let walks = Walks::new(sides);
    let mut found = Vec::new();
    for path in sources {
        let (parent, name) = split(path);
        let directory = walks.merged.directory(parent)?;
        let entry = status(directory.as_ref(), name)?.filter(|entry| file_type(entry) == FileType::RegularFile);
        found.extend(entry.map(|entry| (path, modified_at(&entry))));
    }
    let dates = Dates::new(clock, found.iter().map(|(_, old)| *old).collect())?;
    let mut count = 0;
    for (path, old) in found {
        (sides.interrupt)()?;
        let (tv_sec, tv_nsec) = dates.of(old);
        let (parent, name) = split(path);
        let directory = walks.merged.directory(parent)?.ok_or(Errno::STALE)?;
        let time = Timespec { tv_sec, tv_nsec };
        let times = Timestamps { last_access: time, last_modification: time };
        match utimensat(&directory, name, &times, AtFlags::SYMLINK_NOFOLLOW) {
            // It belongs to another user.
            Err(Errno::PERM | Errno::ACCESS) => {}
            given => {
                given?;
                count += 1;
            }
        }
    }
    dates.pass()?;
    Ok(count)
}

fn is_new_content(change: &WorkspaceChange) -> bool {
    let is_small = change.now.is_some_and(|now| now.kind == Kind::File && now.size <= MAX_FILE_BYTES);
    is_small && change.difference != Difference::Metadata
}
