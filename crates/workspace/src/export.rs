//! What a workspace shows beside its real directory, for an archive.
//!
//! The archive holds the files as programs see them, without the overlay's own marks, so any machine and user can unpack it. The layers
//! only name candidates, as for [`crate::changes`]. Where a layer hides a whole directory, everything in it belongs to the archive.

use crate::changes::{Sides, Walks};
use crate::failure::{Trouble, at, errno_of, shown};
use crate::metadata::attributes;
use crate::omitted::is_omitted;
use crate::stamp::modified_at;
use crate::tree::{file_type, join, names, open_file, status};
use crate::walk::Walk;
use nacre_archive::{Base, Entry, What, digest};
use rustix::fs::{FileType, Stat, fstat, readlinkat};
use rustix::io::{Errno, Result};
use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

/// Maximum number of texts about what is missing.
const MAX_TEXTS: usize = 1000;
/// The permissions that an archive has.
const MODES: u32 = 0o1777;

/// What an archive gets.
#[derive(Default)]
pub struct Export {
    /// The entries. Nothing was changed if there is only one.
    pub entries: Vec<Entry>,
    /// What is no part of it, like `socket run/agent.sock`.
    pub missing: Vec<String>,
    /// Files with several names, by device and inode number: the first entry of each.
    links: HashMap<(u64, u64), u32>,
}

/// How much of a directory belongs to the archive.
#[derive(Clone, Copy, PartialEq, Eq)]
enum View {
    /// What the layers have.
    Layers,
    /// Everything: a layer hides the real one.
    Whole,
    /// What differs: a commit has made the real one.
    Committed,
}

struct UnreadDirectory {
    number: u32,
    path: Vec<u8>,
    view: View,
}

/// Looks up what an archive gets. `owner`: the user and group of the sandbox.
///
/// # Errors
/// Those of the system calls.
pub fn export(sides: &Sides<'_>, owner: (u32, u32)) -> std::result::Result<Export, Trouble> {
    let walks = Walks::new(sides);
    let mut export = Export::default();
    let root = walks.merged.directory(b"")?.ok_or(Errno::STALE)?;
    let base = walks.base.directory(b"")?.ok_or(Errno::STALE)?;
    let (now, before) = (fstat(&root)?, fstat(&base)?);
    let is_real = now.st_mode == before.st_mode;
    export.add(0, b"", What::Directory { hides: false, is_real }, &now, Some(Base::Directory));
    let mut pending = vec![UnreadDirectory { number: 0, path: Vec::new(), view: View::Layers }];
    while let Some(directory) = pending.pop() {
        (sides.interrupt)()?;
        let from = pending.len();
        export.read(sides, &walks, &directory, owner, &mut pending).map_err(at(&directory.path))?;
        pending[from..].reverse();
    }
    if export.missing.len() > MAX_TEXTS {
        let more = export.missing.len() - MAX_TEXTS;
        export.missing.truncate(MAX_TEXTS);
        export.missing.push(format!("{more} more files or parts of files"));
    }
    Ok(export)
}

impl Export {
    fn add(&mut self, parent: u32, name: &[u8], what: What, found: &Stat, base: Option<Base>) -> u32 {
        let modified = (found.st_mtime, found.st_mtime_nsec as u32);
        let mode = (found.st_mode & MODES) as u16;
        self.entries.push(Entry { parent, name: name.to_vec(), what, mode, modified, base });
        (self.entries.len() - 1) as u32
    }

    fn read(
        &mut self,
        sides: &Sides<'_>,
        walks: &Walks<'_>,
        UnreadDirectory { number, path, view }: &UnreadDirectory,
        owner: (u32, u32),
        pending: &mut Vec<UnreadDirectory>,
    ) -> Result<()> {
        let Some(merged) = walks.merged.directory(path)? else { return Ok(()) };
        let base = if *view == View::Whole { None } else { real(&walks.base, path)? };
        let mut candidates = BTreeSet::new();
        if *view == View::Layers {
            for layer in &walks.layers {
                if let Some(directory) = sides.look(layer, path)?.directory {
                    candidates.extend(names(&directory)?);
                }
            }
        } else {
            candidates.extend(names(&merged)?);
            let committed = base.as_ref().map(names).transpose()?.unwrap_or_default();
            candidates.extend(committed.into_iter().filter(|name| sides.known.has_put(&join(path, name))));
        }
        for name in candidates {
            let path = join(path, &name);
            if is_omitted(&path) {
                continue;
            }
            let change = sides.compare(Some(&merged), base.as_ref(), &name, &path)?;
            let Some(found) = status(Some(&merged), &name)? else {
                if let Some(before) = change.and(status(base.as_ref(), &name)?) {
                    let base = base_of(base.as_ref(), &name)?;
                    self.add(*number, &name, What::Deleted, &before, base);
                }
                continue;
            };
            if file_type(&found) == FileType::Directory {
                let view = view_of(sides, walks, &path, *view)?;
                let before = base_of(base.as_ref(), &name)?;
                let is_real = change.is_none() && before.is_some();
                let what = What::Directory { hides: view == View::Whole, is_real };
                if !is_real {
                    self.note_lost(&merged, &name, &path, &found, owner, None)?;
                }
                let number = self.add(*number, &name, what, &found, before);
                pending.push(UnreadDirectory { number, path, view });
                continue;
            }
            let before = status(base.as_ref(), &name)?;
            // A file that was only touched is no change, but tools for builds look at its time.
            let is_touched = |before: &Stat| modified_at(before) != modified_at(&found);
            if change.is_none() && !before.as_ref().is_some_and(is_touched) {
                continue;
            }
            let what = match file_type(&found) {
                FileType::RegularFile => match self.links.get(&(found.st_dev, found.st_ino)) {
                    Some(first) if found.st_nlink > 1 => What::Link(*first),
                    _ => What::File(found.st_size as u64),
                },
                FileType::Symlink => What::Symlink(readlinkat(&merged, &name[..], Vec::new())?.into_bytes()),
                FileType::Fifo => What::Fifo,
                kind => {
                    let kind = if kind == FileType::Socket { "socket" } else { "device" };
                    self.missing.push(format!("{kind} {}", shown(&path)));
                    continue;
                }
            };
            self.note_lost(&merged, &name, &path, &found, owner, before.as_ref())?;
            let is_file = matches!(what, What::File(_));
            let base = base_of(base.as_ref(), &name)?;
            let number = self.add(*number, &name, what, &found, base);
            if is_file && found.st_nlink > 1 {
                self.links.insert((found.st_dev, found.st_ino), number);
            }
        }
        Ok(())
    }

    /// Notes what of an entry no archive has. An owner that the real one has, too, comes back with it.
    fn note_lost(
        &mut self,
        directory: &OwnedFd,
        name: &[u8],
        path: &[u8],
        found: &Stat,
        owner: (u32, u32),
        before: Option<&Stat>,
    ) -> Result<()> {
        let is_of = |owner: (u32, u32)| owner == (found.st_uid, found.st_gid);
        if !is_of(owner) && !before.is_some_and(|before| is_of((before.st_uid, before.st_gid))) {
            self.missing.push(format!("owner {}:{} of {}", found.st_uid, found.st_gid, shown(path)));
        }
        if found.st_mode & 0o6000 != 0 {
            self.missing.push(format!("mode {:o} of {}", found.st_mode & 0o6000, shown(path)));
        }
        if file_type(found) != FileType::Symlink && !attributes(directory, name)?.is_empty() {
            self.missing.push(format!("extended attributes of {}", shown(path)));
        }
        Ok(())
    }
}

/// Opens contents of the entries, in any order.
pub struct Contents<'a> {
    merged: Walk<'a>,
    entries: &'a [Entry],
    /// The directory of the last one.
    last: Option<(u32, OwnedFd)>,
}

impl<'a> Contents<'a> {
    /// Those of a workspace.
    pub fn new(sides: &Sides<'a>, entries: &'a [Entry]) -> Self {
        Self { merged: Walk::new(sides.merged), entries, last: None }
    }

    /// Opens the content of an entry.
    ///
    /// # Errors
    /// Those of the system calls.
    pub fn open(&mut self, number: usize) -> io::Result<File> {
        let Entry { parent, name, .. } = &self.entries[number];
        if self.last.as_ref().is_none_or(|(last, _)| last != parent) {
            let directory = self.merged.directory(&path_of(self.entries, *parent))?.ok_or(Errno::STALE)?;
            self.last = Some((*parent, directory));
        }
        let directory = self.last.as_ref().map(|(_, directory)| directory).ok_or(Errno::STALE)?;
        let file = open_file(directory, name)?;
        if file_type(&fstat(&file)?) == FileType::RegularFile { Ok(file.into()) } else { Err(Errno::STALE.into()) }
    }
}

/// The path of an entry.
pub fn path_of(entries: &[Entry], number: u32) -> Vec<u8> {
    let mut path = Vec::new();
    let mut at = number;
    while at != 0 {
        let Entry { parent, name, .. } = &entries[at as usize];
        path.push(&name[..]);
        at = *parent;
    }
    path.reverse();
    path.join(&b'/')
}

/// How much of a directory below one with this view belongs to the archive.
fn view_of(sides: &Sides<'_>, walks: &Walks<'_>, path: &[u8], above: View) -> Result<View> {
    if above != View::Layers {
        return Ok(above);
    }
    if sides.known.has_made(path) || sides.known.equal_since(path).is_some() {
        return Ok(View::Committed);
    }
    for layer in &walks.layers {
        if sides.look(layer, path)?.hides {
            return Ok(View::Whole);
        }
    }
    Ok(View::Layers)
}

/// Opens a real directory. What cannot be read counts as missing.
pub fn real(base: &Walk<'_>, path: &[u8]) -> Result<Option<OwnedFd>> {
    match base.directory(path) {
        Err(Errno::ACCESS) => Ok(None),
        directory => directory,
    }
}

/// What a real directory has under a name.
///
/// # Errors
/// Those of the system calls.
pub fn base_of(directory: Option<&OwnedFd>, name: &[u8]) -> Result<Option<Base>> {
    let (Some(found), Some(directory)) = (status(directory, name)?, directory) else { return Ok(None) };
    let read = |errno: io::Error| errno_of(&errno);
    Ok(Some(match file_type(&found) {
        FileType::Directory => Base::Directory,
        FileType::Symlink => {
            let target = readlinkat(directory, name, Vec::new())?;
            Base::Symlink(digest(target.as_bytes()).map_err(read)?)
        }
        FileType::RegularFile => match open_file(directory, name) {
            Err(Errno::ACCESS) => Base::Other,
            file => Base::File(found.st_size as u64, digest(File::from(file?)).map_err(read)?),
        },
        _ => Base::Other,
    }))
}
