//! What other programs have changed in the real directory since the workspace was opened.
//!
//! A change time at or after that moment tells. Directories change with their entries, so only another kind is a
//! conflict there; and, as root, another directory in the place of one: the kernel notes which one it was. It notes what it
//! has copied: from the real directory, or from a layer below, where the note of that copy leads further down.
//!
//! Without root, a real file that was deleted meanwhile, and a directory that was swapped for another one, are missed.

use crate::changes::{InLayer, Sides, Walks};
use crate::failure::{Trouble, at};
use crate::handle::{Copies, Handle, Origin};
use crate::stamp::modified_at;
use crate::tree::{changed_at, file_type, split, status};
use crate::walk::Walk;
use nacre_protocol::workspace::{Difference, Kind, WorkspaceChange};
use rustix::fs::{AtFlags, FileType, Stat, StatxFlags, fstat, statx};
use rustix::io::{Errno, Result};
use std::collections::HashMap;
use std::os::fd::OwnedFd;

/// The paths of changes that other programs have changed in the real directory.
///
/// # Errors
/// Those of the system calls.
pub fn find(sides: &Sides<'_>, changes: &[WorkspaceChange]) -> std::result::Result<Vec<Vec<u8>>, Trouble> {
    let mut search = ConflictSearch::new(sides);
    let mut found = Vec::new();
    for change in changes {
        if search.is_conflict(change).map_err(at(&change.path))? {
            found.push(change.path.clone());
        }
    }
    Ok(found)
}

/// The real entries that were copied up for the changes, and that other programs have deleted or moved since: a commit that is
/// forced makes them its own.
///
/// # Errors
/// Those of the system calls.
pub fn deleted_origins(sides: &Sides<'_>, changes: &[WorkspaceChange]) -> std::result::Result<Vec<Handle>, Trouble> {
    let mut search = ConflictSearch::new(sides);
    let mut found = Vec::new();
    for change in changes.iter().filter(|change| change.now.is_some()) {
        found.extend(search.deleted_origin(&change.path).map_err(at(&change.path))?);
    }
    Ok(found)
}

struct ConflictSearch<'a> {
    sides: &'a Sides<'a>,
    walks: Walks<'a>,
    directories: HashMap<Vec<u8>, SharedDirectory>,
    /// Those of the sealed layers. `None` until they are needed.
    copies: Option<Copies>,
}

/// A directory that both sides have.
#[derive(Clone, Copy)]
struct SharedDirectory {
    /// It, or one above it, is another one than when it was copied up.
    is_swapped: bool,
    /// How many layers, from the lowest one on, are above the real directory there: none of them hides it.
    above_real: usize,
}

impl<'a> ConflictSearch<'a> {
    fn new(sides: &'a Sides<'a>) -> Self {
        Self { sides, walks: Walks::new(sides), directories: HashMap::new(), copies: None }
    }

    fn is_conflict(&mut self, change: &WorkspaceChange) -> Result<bool> {
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
            (None, _) => Ok(change.now.is_some() && self.deleted_origin(path)?.is_some()),
        }
    }

    /// Whether a real directory was made or moved to its place after the opening. One that got another mode looks alike, and
    /// so does one that a real overlay has copied: a conflict is the safe side.
    fn is_new_directory(&self, base: &OwnedFd, name: &[u8], found: &Stat) -> Result<bool> {
        let opened = self.sides.opened;
        let extended = statx(base, name, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::BTIME)?;
        let born = (extended.stx_btime.tv_sec, i64::from(extended.stx_btime.tv_nsec));
        let is_new = extended.stx_mask & StatxFlags::BTIME.bits() != 0 && born >= opened;
        Ok(is_new || (changed_at(found) >= opened && modified_at(found) < opened))
    }

    /// The real entry that was copied up, if it is no longer there. Only root can tell.
    fn deleted_origin(&mut self, path: &[u8]) -> Result<Option<Handle>> {
        let Some(origin) = self.real_origin(path)? else { return Ok(None) };
        if self.sides.known.has_touched(&origin) {
            return Ok(None);
        }
        let root = self.walks.base.directory(b"")?.ok_or(Errno::STALE)?;
        let found = origin.open(&root).map(|entry| fstat(&entry)).transpose()?;
        let is_there = found.is_some_and(|found| {
            file_type(&found) != FileType::Directory && found.st_nlink > 0 && changed_at(&found) < self.sides.opened
        });
        Ok((!is_there).then_some(origin))
    }

    /// The real entry that was copied up for what programs see at a path, through all layers. `None` if it was created in
    /// one of them.
    fn real_origin(&mut self, path: &[u8]) -> Result<Option<Handle>> {
        let (parent, name) = split(path);
        if !self.has_origins() {
            return Ok(None);
        }
        for layer in &self.walks.layers {
            let Some(directory) = layer.directory(parent)? else { continue };
            let Some(found) = status(Some(&directory), name)? else { continue };
            let mut origin = Origin::of(&directory, name)?;
            if origin.is_some() && file_type(&found) == FileType::Directory {
                origin = self.origin_of_directory(path)?;
            }
            let Some(origin) = origin else { return Ok(None) };
            if self.copies.is_none() {
                // The first layer is no origin of another one.
                let sealed = self.sides.layers.get(1..).unwrap_or_default();
                self.copies = Some(Copies::of(sealed, self.sides.interrupt)?);
            }
            let real = self.copies.as_ref().and_then(|copies| copies.follow(origin));
            return Ok(real.map(|origin| origin.handle()));
        }
        Ok(None)
    }

    /// That of the lowest layer which shows the directory. Those above it were copied from there; but when layers are merged,
    /// directories are made anew.
    fn origin_of_directory(&self, path: &[u8]) -> Result<Option<Origin>> {
        let (parent, name) = split(path);
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at).chain([path.len()]);
        let mut origin = None;
        let mut shown = self.walks.layers.len();
        for end in ends {
            for (number, layer) in self.walks.layers.iter().enumerate().take(shown) {
                let InLayer { directory, hides } = self.sides.look(layer, &path[..end])?;
                if directory.is_some() && end == path.len() {
                    let above = layer.directory(parent)?.ok_or(Errno::STALE)?;
                    origin = Origin::of(&above, name)?;
                }
                if hides {
                    shown = number + 1;
                    break;
                }
            }
        }
        Ok(origin)
    }

    /// Whether a directory that both sides have, or one above it, is another one than when it was copied up.
    fn is_swapped(&mut self, path: &[u8]) -> Result<bool> {
        if path == b"." || !self.has_origins() {
            return Ok(false);
        }
        let mut unknown = Vec::new();
        let mut above = path;
        let mut directory = SharedDirectory { is_swapped: false, above_real: self.walks.layers.len() };
        while !above.is_empty() {
            if let Some(known) = self.directories.get(above) {
                directory = *known;
                break;
            }
            unknown.push(above);
            above = split(above).0;
        }
        for path in unknown.into_iter().rev() {
            directory = self.look(path, directory)?;
            self.directories.insert(path.to_vec(), directory);
        }
        Ok(directory.is_swapped)
    }

    /// Looks at a directory in one that is known.
    fn look(
        &self,
        path: &[u8],
        SharedDirectory { mut is_swapped, mut above_real }: SharedDirectory,
    ) -> Result<SharedDirectory> {
        let (parent, name) = split(path);
        let above = is_swapped;
        let mut is_copied = false;
        for (number, layer) in self.walks.layers.iter().rev().enumerate().take(above_real) {
            let InLayer { directory, hides } = self.sides.look(layer, path)?;
            if hides {
                // What is below it does not count.
                (is_swapped, above_real) = (above, number);
                break;
            }
            // The lowest one was copied from the real directory, those above it from layers.
            if directory.is_some() && !is_copied {
                is_copied = true;
                is_swapped = is_swapped || self.is_other(layer, parent, name)?;
            }
        }
        Ok(SharedDirectory { is_swapped, above_real })
    }

    /// Whether the directory that was copied to a layer is another one than the real one.
    fn is_other(&self, layer: &Walk<'_>, parent: &[u8], name: &[u8]) -> Result<bool> {
        let copy = layer.directory(parent)?.ok_or(Errno::STALE)?;
        let base = self.walks.base.directory(parent)?;
        let found = status(base.as_ref(), name)?.filter(|found| file_type(found) == FileType::Directory);
        let (Some(origin), Some(base), Some(_)) = (Origin::of(&copy, name)?, base, found) else {
            return Ok(false);
        };
        Ok(Handle::of(&base, name)?.is_some_and(|real| real != origin.handle()))
    }

    /// Whether the notes of the kernel about origins can be read.
    fn has_origins(&self) -> bool {
        self.sides.marks == "trusted"
    }
}
