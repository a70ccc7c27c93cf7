//! Renamed directories, turned into plain copies.
//!
//! As root, the kernel can rename a real directory without copying it: the layer only names the real path. A commit
//! removes that path, so the content is copied into the layer before.

use crate::changes::{InLayer, Sides};
use crate::staging::Staging;
use crate::tree::{file_type, join, names, split, status};
use crate::walk::Walk;
use nacre_containment::relocation::{Place, link};
use rustix::fs::{FileType, Mode, RenameFlags, mkdirat, renameat_with};
use rustix::io::{Errno, Result};
use std::collections::BTreeSet;

const COPY: &[u8] = b"copy";

/// Copies the content of every renamed directory into the layer, through the merged view. The name of the staging directory
/// must be free there. Returns the directories that stay as they are, because other programs have deleted real ones of
/// which they consist: then the merged view lacks even what the layer has there.
///
/// # Errors
/// Those of the system calls. What programs see is the same in any case.
pub fn copy_renamed(sides: &Sides<'_>, staging: &[u8]) -> Result<Vec<Vec<u8>>> {
    let mut deleted = Vec::new();
    if sides.marks != "trusted" {
        return Ok(deleted);
    }
    for path in find(sides)? {
        let made = Staging::create(sides.merged, staging)?;
        let (parent, name) = split(&path);
        let parent = sides.merged.directory(parent)?.ok_or(Errno::STALE)?;
        mkdirat(made.directory(), COPY, Mode::RWXU)?;
        let (source, target) = (Place { directory: &parent, name }, Place { directory: made.directory(), name: COPY });
        match link(source, target, sides.interrupt) {
            Err(Errno::NOENT | Errno::STALE) => deleted.push(path),
            copied => {
                copied?;
                renameat_with(made.directory(), COPY, &parent, name, RenameFlags::EXCHANGE)?;
            }
        }
        made.remove()?;
    }
    Ok(deleted)
}

/// The directories that a layer redirects, without those below.
fn find(sides: &Sides<'_>) -> Result<Vec<Vec<u8>>> {
    let mut found = Vec::new();
    let merged = Walk::new(sides.merged);
    let layers: Vec<Walk<'_>> = sides.layers.iter().map(Walk::new).collect();
    // With the number of layers that are not hidden there.
    let mut pending = vec![(Vec::new(), layers.len())];
    while let Some((path, mut depth)) = pending.pop() {
        (sides.interrupt)()?;
        if merged.directory(&path)?.is_none() {
            continue;
        }
        let mut below = BTreeSet::new();
        let mut is_redirected = false;
        for (number, layer) in layers.iter().enumerate().take(depth) {
            let InLayer { directory, hides } = sides.look(layer, &path)?;
            if let Some(directory) = directory {
                is_redirected |= sides.has_mark(&directory, "redirect")?;
                for name in names(&directory)? {
                    let entry = status(Some(&directory), &name)?;
                    if entry.is_some_and(|entry| file_type(&entry) == FileType::Directory) {
                        below.insert(name);
                    }
                }
            }
            if hides {
                depth = number + 1;
                break;
            }
        }
        if is_redirected {
            found.push(path);
        } else {
            pending.extend(below.iter().map(|name| (join(&path, name), depth)));
        }
    }
    Ok(found)
}
