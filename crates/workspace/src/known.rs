//! What the commits of a workspace have made of its real directory. Without it, a commit would look like the work of
//! other programs afterwards.

use crate::handle::Handle;
use crate::metadata::Metadata;
use crate::stamp::{Stamp, modified_at};
use crate::steps::{Action, Step};
use crate::tree::{Tree, changed_at, file_type, has_other_names, split, status};
use crate::walk::Walk;
use rustix::fs::{FileType, Stat};
use rustix::io::{Errno, Result};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Known {
    /// The entries at the committed paths; `None` if there is none.
    entries: HashMap<Vec<u8>, Option<Stamp>>,
    /// Directories in which entries were committed. The real directory itself is the empty path.
    directories: HashMap<Vec<u8>, Owned>,
    /// Directories that commits have made. The layers hide what other programs create there.
    made: HashSet<Vec<u8>>,
    /// What commits have removed or changed, or taken the place of; only as root.
    touched: HashSet<Handle>,
    /// Files of which commits have removed one name: that moves the change time, which the other names show. By device and
    /// inode number.
    linked: HashMap<(u64, u64), Stamp>,
    /// Directories that a layer hides, and when a commit first made the real ones equal. The layers hide what other programs
    /// create there later.
    equal: HashMap<Vec<u8>, (i64, i64)>,
}

/// Mode and owner of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Owned(u32, u32, u32);

/// What a commit must remember, before it changes the real directory, to be known afterwards.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notes {
    /// The directories in which it creates and removes entries.
    directories: Vec<(Vec<u8>, Owned)>,
    /// What it removes or changes, or takes the place of; only as root.
    touched: Vec<Handle>,
    /// The files with several names of which it removes one.
    linked: Vec<Stamp>,
    /// The directories that a layer hides and that it makes equal.
    equal: Vec<Vec<u8>>,
    /// When it began to do so.
    moment: (i64, i64),
}

impl Notes {
    /// Adds what the commit takes the place of.
    pub fn touch(&mut self, handles: Vec<Handle>) {
        self.touched.extend(handles);
    }

    /// Adds directories that a layer hides and that the commit makes equal, from this moment on.
    pub fn equal(&mut self, directories: Vec<Vec<u8>>, moment: (i64, i64)) {
        (self.equal, self.moment) = (directories, moment);
    }
}

/// The staged entries of a commit, by path.
pub type Staged = BTreeMap<Vec<u8>, Content>;

/// What a renamed entry keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content {
    /// Its inode number.
    pub inode: u64,
    size: i64,
    modified: (i64, i64),
}

impl Content {
    /// That of an entry.
    pub fn of(found: &Stat) -> Self {
        Self { inode: found.st_ino, size: found.st_size, modified: modified_at(found) }
    }

    /// When it was modified.
    pub fn modified(&self) -> (i64, i64) {
        self.modified
    }
}

impl Owned {
    fn of(found: &Stat) -> Self {
        Self(found.st_mode, found.st_uid, found.st_gid)
    }
}

impl Known {
    /// Whether a committed path is as the commit has made it; a directory, whether it is still one. `None` if the path was
    /// not committed.
    pub fn is_same(&self, path: &[u8], found: Option<&Stat>) -> Option<bool> {
        let known = self.entries.get(path)?;
        Some(match (known, found) {
            (Some(known), Some(found)) if known.is_directory() => file_type(found) == FileType::Directory,
            (Some(known), Some(found)) => {
                let now = Stamp::of(found);
                *known == now || (known.identity() == now.identity() && self.has_unlinked(found))
            }
            (known, found) => known.is_none() && found.is_none(),
        })
    }

    /// Whether a file is as it was when a commit removed another name of it.
    pub fn has_unlinked(&self, found: &Stat) -> bool {
        self.linked.get(&Stamp::of(found).identity()).is_some_and(|known| known.is_kept(found))
    }

    /// Whether a directory has the mode and owner that it had after a commit.
    pub fn has_directory(&self, path: &[u8], found: &Stat) -> bool {
        self.directories.get(path) == Some(&Owned::of(found))
    }

    /// Whether a commit has put something at a path.
    pub fn has_put(&self, path: &[u8]) -> bool {
        matches!(self.entries.get(path), Some(Some(_)))
    }

    /// Whether a commit has removed what was at a path: what is there now belongs to another program.
    pub fn has_removed(&self, path: &[u8]) -> bool {
        matches!(self.entries.get(path), Some(None))
    }

    /// Whether a commit has made the directory at a path.
    pub fn has_made(&self, path: &[u8]) -> bool {
        self.made.contains(path)
    }

    /// Notes that a commit with these notes has been applied.
    pub fn note_equal(&mut self, notes: &Notes) {
        for path in &notes.equal {
            self.equal.entry(path.clone()).or_insert(notes.moment);
        }
    }

    /// When a commit first made a real directory equal that a layer hides.
    pub fn equal_since(&self, path: &[u8]) -> Option<(i64, i64)> {
        self.equal.get(path).copied()
    }

    /// Whether a commit has removed or changed the inode.
    pub fn has_touched(&self, handle: &Handle) -> bool {
        self.touched.contains(handle)
    }

    /// What a commit must remember before it changes the real directory. `tracks` says whether it can remember inodes.
    ///
    /// # Errors
    /// Those of the system calls.
    pub fn prepare(&self, base: &Tree, steps: &[Step], opened: (i64, i64), tracks: bool) -> Result<Notes> {
        let mut notes = Notes::default();
        let base = Walk::new(base);
        // The staging directory is made in the real directory itself.
        let parents: BTreeSet<&[u8]> = steps.iter().map(|step| split(&step.path).0).chain([&b""[..]]).collect();
        for path in parents {
            let Some(now) = base.directory(path)?.map(rustix::fs::fstat).transpose()? else { continue };
            // Other programs may have changed them since the workspace was opened.
            if changed_at(&now) < opened || self.has_directory(path, &now) {
                notes.directories.push((path.to_vec(), Owned::of(&now)));
            }
        }
        for step in steps {
            let (parent, name) = split(&step.path);
            let Some(directory) = base.directory(parent)? else { continue };
            let found = status(Some(&directory), name)?.filter(has_other_names);
            let is_clean = |found: &Stat| {
                changed_at(found) < opened
                    || self.has_unlinked(found)
                    || self.is_same(&step.path, Some(found)) == Some(true)
            };
            notes.linked.extend(found.filter(is_clean).as_ref().map(Stamp::of));
            if !tracks {
                continue;
            }
            match Handle::of(&directory, name) {
                Err(Errno::NOENT) => {}
                handle => notes.touched.extend(handle?),
            }
        }
        Ok(notes)
    }

    /// Notes what a commit is about to change.
    pub fn expect(&mut self, notes: &Notes) {
        self.directories.extend(notes.directories.iter().cloned());
        self.touched.extend(notes.touched.iter().cloned());
        self.linked.extend(notes.linked.iter().map(|stamp| (stamp.identity(), *stamp)));
    }

    /// Notes what a commit has made. A path that another program has changed meanwhile is not noted, so that it is a
    /// conflict next time.
    ///
    /// # Errors
    /// Those of the system calls.
    pub fn note(&mut self, base: &Tree, steps: &[Step], staged: &Staged) -> Result<()> {
        let base = Walk::new(base);
        for step in steps {
            let found = entry(&base, &step.path)?;
            let is_directory = found.as_ref().is_some_and(|found| file_type(found) == FileType::Directory);
            let is_expected = match (&step.action, &found) {
                (Action::Remove { .. } | Action::RemoveDirectory { .. }, found) => found.is_none(),
                (Action::Set { inode, now, before }, Some(found)) => {
                    found.st_ino == *inode && is_ours(found, now, before.as_ref())
                }
                (Action::Put { .. }, Some(found)) => staged.get(&step.path).is_some_and(|staged| {
                    if is_directory { staged.inode == found.st_ino } else { *staged == Content::of(found) }
                }),
                _ => false,
            };
            match found.filter(|_| is_expected) {
                _ if !is_expected => self.forget(&step.path),
                Some(found) if is_directory => {
                    if matches!(step.action, Action::Put { .. }) {
                        self.made.insert(step.path.clone());
                    }
                    self.note_entry(&step.path, Some(&found));
                }
                found => {
                    self.forget(&step.path);
                    self.note_entry(&step.path, found.as_ref());
                }
            }
        }
        Ok(())
    }

    /// Notes the entries of a commit that was undone: moving them back has changed their times. What another program has
    /// changed meanwhile is not noted.
    ///
    /// # Errors
    /// Those of the system calls.
    pub fn note_undone(&mut self, base: &Tree, steps: &[Step]) -> Result<()> {
        let base = Walk::new(base);
        for step in steps {
            let found = entry(&base, &step.path)?;
            let Some(found) = found else { continue };
            let is_restored = match &step.action {
                Action::Remove { old } => old.is_kept(&found),
                Action::Set { inode, now, before } => found.st_ino == *inode && is_ours(&found, now, before.as_ref()),
                Action::RemoveDirectory { .. } => true,
                Action::Put { replaces, .. } => replaces.as_ref().is_some_and(|old| old.is_kept(&found)),
            };
            if is_restored {
                self.note_entry(&step.path, Some(&found));
            }
        }
        Ok(())
    }

    fn note_entry(&mut self, path: &[u8], found: Option<&Stat>) {
        self.entries.insert(path.to_vec(), found.map(Stamp::of));
        if let Some(found) = found.filter(|found| file_type(found) == FileType::Directory) {
            let path = if path == b"." { b"" } else { path };
            self.directories.insert(path.to_vec(), Owned::of(found));
        }
    }

    fn forget(&mut self, path: &[u8]) {
        self.entries.remove(path);
        self.directories.remove(path);
        self.made.remove(path);
    }
}

/// Whether an entry is as a commit, or its undoing, has made it.
fn is_ours(found: &Stat, now: &Metadata, before: Option<&Metadata>) -> bool {
    before.is_none_or(|before| Metadata::is_either(found, before, now))
}

fn entry(base: &Walk<'_>, path: &[u8]) -> Result<Option<Stat>> {
    let (parent, name) = split(path);
    status(base.directory(parent)?.as_ref(), name)
}
