//! Discards changes: copies the real version back through the merged view, so that running programs can go on.

use crate::changes::Sides;
use crate::failure::{Trouble, at};
use crate::metadata::Metadata;
use crate::omitted;
use crate::staging::{self, Source, Staging};
use crate::steps::new_name;
use crate::tree::{has_other_names, split, status};
use nacre_protocol::workspace::{Change, Difference, Entry, Kind};
use rustix::fs::{AtFlags, RenameFlags, renameat, renameat_with, unlinkat};
use rustix::io::{Errno, Result};

fn is_directory(entry: Option<Entry>) -> bool {
    entry.is_some_and(|entry| entry.kind == Kind::Directory)
}

/// Discards the changes of paths and everything below them; all by default. Returns how many, or a path that names none.
///
/// # Errors
/// Those of the system calls. Some changes may have been discarded then; `EACCES`, all but those whose real version cannot
/// be read.
pub fn discard(
    sides: &Sides<'_>,
    paths: Option<Vec<Vec<u8>>>,
    staging: &[u8],
) -> std::result::Result<std::result::Result<u64, Vec<u8>>, Trouble> {
    let changes = match sides.choose(paths, |change| (change.before, change.now))? {
        Ok(changes) => changes,
        Err(path) => return Ok(Err(path)),
    };
    if changes.is_empty() {
        return Ok(Ok(0));
    }
    staging::remove_seen(sides.merged, staging)?;
    let staging = Staging::create(sides.merged, staging)?;
    let restored = restore(sides, &changes, &staging);
    let removed = staging.remove();
    restored?;
    removed?;
    Ok(Ok(changes.len() as u64))
}

fn restore(sides: &Sides<'_>, changes: &[Change], staging: &Staging) -> std::result::Result<(), Trouble> {
    for change in changes.iter().rev() {
        remove(sides, change).map_err(at(&change.path))?;
    }
    let mut unreadable = None;
    for (number, change) in changes.iter().enumerate() {
        match put(sides, change, staging, number) {
            // The others are restored nevertheless.
            Err(Errno::ACCESS) => {
                unreadable.get_or_insert(at(&change.path)(Errno::ACCESS));
            }
            put => put.map_err(at(&change.path))?,
        }
    }
    // A directory's times change with its entries.
    for change in changes.iter().rev().filter(|change| change.difference != Difference::Metadata) {
        if is_directory(change.before) {
            copy_metadata(sides, &change.path, true).map_err(at(&change.path))?;
        }
    }
    unreadable.map_or(Ok(()), Err)
}

/// Removes what the real version does not have, or what is in its way.
fn remove(sides: &Sides<'_>, change: &Change) -> Result<()> {
    let is_in_the_way = match change.difference {
        Difference::Created => true,
        Difference::Replaced => is_directory(change.now) || is_directory(change.before),
        _ => false,
    };
    if !is_in_the_way {
        return Ok(());
    }
    let (parent, name) = split(&change.path);
    let Some(directory) = sides.merged.directory(parent)? else { return Ok(()) };
    let flags = if is_directory(change.now) { AtFlags::REMOVEDIR } else { AtFlags::empty() };
    match unlinkat(&directory, name, flags) {
        Err(Errno::NOENT) => Ok(()),
        Err(Errno::NOTEMPTY | Errno::EXIST) => omitted::remove_directory(&directory, name),
        removed => removed,
    }
}

fn put(sides: &Sides<'_>, change: &Change, staging: &Staging, number: usize) -> Result<()> {
    if change.before.is_none() {
        return Ok(());
    }
    let (parent, name) = split(&change.path);
    let merged = sides.merged.directory(parent)?.ok_or(Errno::STALE)?;
    let present = status(Some(&merged), name)?;
    if change.difference == Difference::Metadata && !present.as_ref().is_some_and(has_other_names) {
        return copy_metadata(sides, &change.path, !is_directory(change.before));
    }
    let base = sides.base.directory(parent)?.ok_or(Errno::STALE)?;
    let new = new_name(number);
    let interrupt = sides.interrupt;
    Source { directory: &base, name, content: None, interrupt }.copy(staging.directory(), new.as_bytes())?;
    // Swapping is faster than replacing, for which some file systems write the content to the disk first.
    match renameat_with(staging.directory(), &new, &merged, name, RenameFlags::EXCHANGE) {
        Err(Errno::NOENT) => renameat(staging.directory(), &new, &merged, name),
        swapped => swapped,
    }
}

/// Gives an entry of the workspace the metadata of the real one.
fn copy_metadata(sides: &Sides<'_>, path: &[u8], times: bool) -> Result<()> {
    let (parent, name) = split(path);
    let merged = sides.merged.directory(parent)?.ok_or(Errno::STALE)?;
    let base = sides.base.directory(parent)?.ok_or(Errno::STALE)?;
    let mut metadata = if path == b"." {
        // Only the mode of the workspace itself is compared.
        Metadata::of(&merged, name)?.with_mode(Metadata::of(&base, name)?.mode())
    } else {
        Metadata::of(&base, name)?
    };
    if !times {
        metadata = metadata.without_times();
    }
    metadata.apply(&merged, name, None).map(|_| ())
}
