//! What other programs have changed in the real directory since the workspace was opened.
//!
//! A change time at or after that moment tells. Directories change with their entries, so only another kind is a
//! conflict there; and, as root, another directory in the place of one: the kernel notes which one it was.
//!
//! Without root, a real file that was deleted meanwhile, and a directory that was swapped for another one, are missed.

use crate::changes::{Sides, Walks};
use crate::failure::{Trouble, at};
use crate::handle::Handle;
use crate::stamp::modified_at;
use crate::tree::{changed_at, file_type, split, status};
use nacre_protocol::workspace::{Change, Difference, Kind};
use rustix::fs::{AtFlags, FileType, Stat, StatxFlags, fstat, statx};
use rustix::io::{Errno, Result};
use std::collections::HashMap;
use std::os::fd::OwnedFd;

/// The paths of changes that other programs have changed in the real directory.
///
/// # Errors
/// Those of the system calls.
pub fn find(sides: &Sides<'_>, changes: &[Change]) -> std::result::Result<Vec<Vec<u8>>, Trouble> {
    let mut search = Search { sides, walks: Walks::new(sides), swapped: HashMap::new() };
    let mut found = Vec::new();
    for change in changes {
        if search.is_conflict(change).map_err(at(&change.path))? {
            found.push(change.path.clone());
        }
    }
    Ok(found)
}

struct Search<'a> {
    sides: &'a Sides<'a>,
    walks: Walks<'a>,
    /// Directories, and whether they or one above were swapped.
    swapped: HashMap<Vec<u8>, bool>,
}

impl Search<'_> {
    fn is_conflict(&mut self, change: &Change) -> Result<bool> {
        let path = &change.path[..];
        let (parent, name) = split(path);
        if self.is_swapped(parent)? {
            return Ok(true);
        }
        let base = self.walks.base.directory(parent)?;
        let found = status(base.as_ref(), name)?;
        let remains = change.now.is_some_and(|now| now.kind == Kind::Directory);
        if let Some(is_same) = self.sides.known.is_same(path, found.as_ref()) {
            return Ok(!is_same);
        }
        match (&found, &base) {
            (Some(found), Some(base)) if file_type(found) == FileType::Directory => {
                if remains {
                    return self.is_swapped(path);
                }
                self.is_new_directory(base, name, found)
            }
            (Some(_), _) if change.difference == Difference::Created => Ok(true),
            (Some(found), _) => Ok(changed_at(found) >= self.sides.opened && !self.sides.known.has_unlinked(found)),
            (None, _) => self.is_deleted(path),
        }
    }

    /// Whether a real directory was made or moved to its place after the opening. One that got another mode looks alike.
    fn is_new_directory(&self, base: &OwnedFd, name: &[u8], found: &Stat) -> Result<bool> {
        let opened = self.sides.opened;
        let extended = statx(base, name, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::BTIME)?;
        let born = (extended.stx_btime.tv_sec, i64::from(extended.stx_btime.tv_nsec));
        let is_new = extended.stx_mask & StatxFlags::BTIME.bits() != 0 && born >= opened;
        Ok(is_new || (changed_at(found) >= opened && modified_at(found) < opened))
    }

    /// Whether the real entry that was copied up is no longer there. Only root can tell.
    fn is_deleted(&self, path: &[u8]) -> Result<bool> {
        let (parent, name) = split(path);
        // With more layers, the copy may come from another layer.
        let [layer] = &self.walks.layers[..] else { return Ok(false) };
        let Some(directory) = self.origins(layer.directory(parent)?) else { return Ok(false) };
        let Some(origin) = Handle::of_origin(&directory, name)? else { return Ok(false) };
        if self.sides.known.has_touched(&origin) {
            return Ok(false);
        }
        let root = self.walks.base.directory(b"")?.ok_or(Errno::STALE)?;
        let Some(found) = origin.open(&root).map(|entry| fstat(&entry)).transpose()? else { return Ok(true) };
        Ok(match file_type(&found) {
            FileType::Directory => true,
            _ => found.st_nlink == 0 || changed_at(&found) >= self.sides.opened,
        })
    }

    /// Whether a directory that both sides have, or one above it, is another one than when it was copied up.
    fn is_swapped(&mut self, path: &[u8]) -> Result<bool> {
        if path == b"." {
            return Ok(false);
        }
        let mut unknown = Vec::new();
        let mut above = path;
        let mut is_swapped = false;
        while !above.is_empty() {
            if let Some(known) = self.swapped.get(above) {
                is_swapped = *known;
                break;
            }
            unknown.push(above);
            above = split(above).0;
        }
        for path in unknown.into_iter().rev() {
            let (parent, name) = split(path);
            is_swapped = is_swapped || self.is_other(parent, name)?;
            self.swapped.insert(path.to_vec(), is_swapped);
        }
        Ok(is_swapped)
    }

    fn is_other(&self, parent: &[u8], name: &[u8]) -> Result<bool> {
        // The lowest layer was copied from the real directory.
        for layer in self.walks.layers.iter().rev() {
            let Some(directory) = self.origins(layer.directory(parent)?) else { continue };
            let Some(found) = status(Some(&directory), name)? else { continue };
            if file_type(&found) != FileType::Directory {
                continue;
            }
            let origin = Handle::of_origin(&directory, name)?;
            let base = self.walks.base.directory(parent)?;
            let found = status(base.as_ref(), name)?.filter(|found| file_type(found) == FileType::Directory);
            let (Some(origin), Some(base), Some(_)) = (origin, base, found) else { return Ok(false) };
            return Ok(Handle::of(&base, name)?.is_some_and(|real| real != origin));
        }
        Ok(false)
    }

    /// A directory of a layer whose notes about origins can be read.
    fn origins(&self, directory: Option<OwnedFd>) -> Option<OwnedFd> {
        directory.filter(|_| self.sides.marks == "trusted")
    }
}
