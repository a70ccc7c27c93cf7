//! The steps by which a commit changes the real directory, and how they are undone.
//!
//! A step never loses an entry: it moves the old one into the staging directory, or swaps it with the new one. The inode
//! numbers in both places say what has been done, so steps can be repeated after a crash. An entry that is another than the
//! planned one, or was changed since, belongs to another program: it stays, and the step is skipped.

use crate::metadata::Metadata;
use crate::omitted;
use crate::stamp::Stamp;
use crate::tree::{Tree, file_type, if_directory, names, open_directory, split, status};
use nacre_containment::file_tree::unless;
use rustix::fs::{AtFlags, FileType, Mode, RenameFlags, Stat, mkdirat, renameat, renameat_with, unlinkat};
use rustix::io::{Errno, Result};
use serde::{Deserialize, Serialize};
use std::os::fd::OwnedFd;

/// Why a step was skipped.
pub type Reason = &'static str;

const REPLACED: Reason = "it was replaced in the real directory meanwhile";
const CREATED: Reason = "it was created in the real directory meanwhile";
const NOT_EMPTY: Reason = "the real directory is not empty";
const NO_PARENT: Reason = "its directory does not exist in the real directory";

/// Whether another program is in the way of the change itself. One that has put something into a directory is not.
pub fn is_conflict(reason: Reason) -> bool {
    reason != NOT_EMPTY
}

/// One step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Relative to the real directory.
    pub path: Vec<u8>,
    /// What is done there.
    pub action: Action,
}

/// What a step does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    /// Remove what is no directory.
    Remove {
        /// What it is.
        old: Stamp,
    },
    /// Remove an empty directory.
    RemoveDirectory {
        /// Gives the directory its metadata again.
        before: Metadata,
    },
    /// Put the staged entry in its place.
    Put {
        /// The inode number of the staged entry.
        inode: u64,
        /// The entry which it replaces. Neither that one nor both are directories.
        replaces: Option<Stamp>,
    },
    /// Set the metadata.
    Set {
        /// The inode number of the entry.
        inode: u64,
        /// The new metadata.
        now: Metadata,
        /// The present metadata; `None` for a directory that the commit creates.
        before: Option<Metadata>,
    },
}

/// The name of the new entry of a step in the staging directory.
pub fn new_name(step: usize) -> String {
    format!("new-{step}")
}

/// The name of the entry that a step has taken away.
fn old_name(step: usize) -> String {
    format!("old-{step}")
}

/// Where steps are done.
pub struct Place<'a> {
    /// The real directory.
    pub base: &'a Tree,
    /// The staging directory in it.
    pub staging: &'a OwnedFd,
}

impl Place<'_> {
    /// Does a step that may have been done. Returns why it is skipped, if it is.
    ///
    /// # Errors
    /// Those of the system calls. The step has changed nothing then, or can be undone.
    pub fn apply(&self, number: usize, step: &Step) -> Result<Option<Reason>> {
        let (parent, name) = split(&step.path);
        let Some(directory) = self.base.directory(parent)? else {
            let is_removed = matches!(step.action, Action::Remove { .. } | Action::RemoveDirectory { .. });
            return Ok((!is_removed).then_some(NO_PARENT));
        };
        match &step.action {
            Action::Remove { old } => self.take_away(&directory, name, old, number),
            Action::RemoveDirectory { .. } => self.remove_directory(&directory, name, number),
            Action::Put { inode, replaces } => {
                let staged = self.inode(&new_name(number))?;
                match replaces {
                    Some(old) if staged == Some(*inode) => self.swap(&directory, name, old, number),
                    None if staged == Some(*inode) => self.put(&directory, name, number),
                    // A crash may have followed the swap at once.
                    Some(old) if staged == Some(old.inode()) && is_inode(&directory, name, *inode)? => {
                        self.check_swapped(&directory, name, old, number)
                    }
                    _ => Ok(None),
                }
            }
            Action::Set { now, before: Some(before), .. } if !is_either(&directory, name, before, now)? => {
                Ok(Some(REPLACED))
            }
            Action::Set { inode, now, before } => match now.apply(&directory, name, Some(*inode)) {
                Ok(true) => Ok(None),
                Ok(false) | Err(Errno::NOENT) => Ok(before.is_some().then_some(REPLACED)),
                Err(errno) => Err(errno),
            },
        }
    }

    /// Undoes a step that may have been done.
    ///
    /// # Errors
    /// Those of the system calls.
    pub fn undo(&self, number: usize, step: &Step) -> Result<()> {
        let (parent, name) = split(&step.path);
        let Some(directory) = self.base.directory(parent)? else { return Ok(()) };
        match &step.action {
            Action::Remove { .. } => self.bring_back(&directory, name, number),
            Action::RemoveDirectory { before } => {
                let is_made = match mkdirat(&directory, name, Mode::RWXU) {
                    Err(Errno::EXIST) => false,
                    made => made.map(|()| true)?,
                };
                self.bring_back_omitted(&directory, name, number)?;
                if is_made {
                    before.apply(&directory, name, None)?;
                }
                Ok(())
            }
            Action::Put { inode, .. } => self.take_back(&directory, name, *inode, number),
            Action::Set { now, before: Some(before), .. } if !is_either(&directory, name, before, now)? => Ok(()),
            Action::Set { inode, before: Some(before), .. } => match before.apply(&directory, name, Some(*inode)) {
                Ok(_) | Err(Errno::NOENT) => Ok(()),
                Err(errno) => Err(errno),
            },
            Action::Set { .. } => Ok(()),
        }
    }

    /// Restores the times of a directory, once everything in it is restored.
    ///
    /// # Errors
    /// Those of the system calls.
    pub fn restore_times(&self, step: &Step) -> Result<()> {
        let Action::RemoveDirectory { before } = &step.action else { return Ok(()) };
        let (parent, name) = split(&step.path);
        self.base.directory(parent)?.map_or(Ok(()), |directory| before.apply_times(&directory, name))
    }

    fn staged(&self, name: &str) -> Result<Option<Stat>> {
        status(Some(self.staging), name.as_bytes())
    }

    fn inode(&self, staged: &str) -> Result<Option<u64>> {
        Ok(self.staged(staged)?.map(|found| found.st_ino))
    }

    /// What was changed just before it was moved goes back to its place.
    fn take_away(&self, directory: &OwnedFd, name: &[u8], old: &Stamp, number: usize) -> Result<Option<Reason>> {
        let aside = old_name(number);
        match status(Some(directory), name)? {
            None => {}
            Some(found) if found.st_ino != old.inode() => {
                // Another program may have created it after this step.
                return Ok((self.inode(&aside)? != Some(old.inode())).then_some(REPLACED));
            }
            Some(found) if !old.is_unchanged(&found) => return Ok(Some(REPLACED)),
            Some(_) => renameat(directory, name, self.staging, &aside)?,
        }
        match self.staged(&aside)? {
            Some(found) if !old.is_kept(&found) => self.bring_back(directory, name, number).map(|()| Some(REPLACED)),
            _ => Ok(None),
        }
    }

    /// Moves what was taken away to its place, unless something has been created there.
    fn bring_back(&self, directory: &OwnedFd, name: &[u8], number: usize) -> Result<()> {
        let moved = rename_new(self.staging, old_name(number).as_bytes(), directory, name);
        unless(&[Errno::NOENT, Errno::EXIST], moved)
    }

    /// Removes a directory, and what is omitted from the changes of a workspace in it.
    fn remove_directory(&self, directory: &OwnedFd, name: &[u8], number: usize) -> Result<Option<Reason>> {
        let remove = || match unlinkat(directory, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => Ok(None),
            Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(Some(NOT_EMPTY)),
            Err(Errno::NOTDIR) => Ok(Some(REPLACED)),
            Err(errno) => Err(errno),
        };
        let first = remove()?;
        if first != Some(NOT_EMPTY) {
            return Ok(first);
        }
        let Some(below) = if_directory(open_directory(directory, name))? else { return Ok(Some(REPLACED)) };
        let Some(omitted) = omitted::only_omitted(&below)? else { return Ok(first) };
        let aside = old_name(number);
        unless(&[Errno::EXIST], mkdirat(self.staging, &aside, Mode::RWXU))?;
        let aside = open_directory(self.staging, aside.as_bytes())?;
        for inner in &omitted {
            unless(&[Errno::NOENT], renameat(&below, &inner[..], &aside, &inner[..]))?;
        }
        let last = remove()?;
        if last.is_some() {
            self.bring_back_omitted(directory, name, number)?;
        }
        Ok(last)
    }

    fn bring_back_omitted(&self, directory: &OwnedFd, name: &[u8], number: usize) -> Result<()> {
        let aside = if_directory(open_directory(self.staging, old_name(number).as_bytes()))?;
        let (Some(aside), Some(target)) = (aside, if_directory(open_directory(directory, name))?) else {
            return Ok(());
        };
        for inner in names(&aside)? {
            unless(&[Errno::NOENT, Errno::EXIST], rename_new(&aside, &inner, &target, &inner))?;
        }
        Ok(())
    }

    fn put(&self, directory: &OwnedFd, name: &[u8], number: usize) -> Result<Option<Reason>> {
        let new = new_name(number);
        match rename_new(self.staging, new.as_bytes(), directory, name) {
            Err(Errno::EXIST) => {}
            moved => return moved.map(|()| None),
        }
        let is_directory = |directory: &OwnedFd, name: &[u8]| {
            status(Some(directory), name)
                .map(|found| found.is_some_and(|found| file_type(&found) == FileType::Directory))
        };
        let are_both = is_directory(self.staging, new.as_bytes())? && is_directory(directory, name)?;
        Ok((!are_both).then_some(CREATED))
    }

    fn swap(&self, directory: &OwnedFd, name: &[u8], old: &Stamp, number: usize) -> Result<Option<Reason>> {
        let (new, aside) = (new_name(number), old_name(number));
        let found = status(Some(directory), name)?;
        if found.is_none() && self.inode(&aside)? == Some(old.inode()) {
            return self.replace(directory, name, old, number);
        }
        if !found.is_some_and(|found| old.is_unchanged(&found)) {
            return Ok(Some(REPLACED));
        }
        match renameat_with(self.staging, &new, directory, name, RenameFlags::EXCHANGE) {
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                return self.replace(directory, name, old, number);
            }
            swapped => swapped?,
        }
        self.check_swapped(directory, name, old, number)
    }

    /// What was changed just before it was swapped goes back to its place.
    fn check_swapped(&self, directory: &OwnedFd, name: &[u8], old: &Stamp, number: usize) -> Result<Option<Reason>> {
        let new = new_name(number);
        if self.staged(&new)?.is_some_and(|found| old.is_kept(&found)) {
            return Ok(None);
        }
        renameat_with(self.staging, &new, directory, name, RenameFlags::EXCHANGE)?;
        Ok(Some(REPLACED))
    }

    /// Replaces an entry where the file system cannot swap: the name is missing for a moment.
    fn replace(&self, directory: &OwnedFd, name: &[u8], old: &Stamp, number: usize) -> Result<Option<Reason>> {
        match self.take_away(directory, name, old, number)? {
            None => self.put(directory, name, number),
            skipped => Ok(skipped),
        }
    }

    /// Moves a new entry back into the staging directory, and what it has replaced to its place.
    fn take_back(&self, directory: &OwnedFd, name: &[u8], inode: u64, number: usize) -> Result<()> {
        let new = new_name(number);
        let staged = self.inode(&new)?;
        let found = status(Some(directory), name)?.filter(|found| found.st_ino == inode);
        match (staged, found) {
            (Some(staged), Some(_)) if staged != inode => {
                renameat_with(self.staging, &new, directory, name, RenameFlags::EXCHANGE)?;
            }
            (None, Some(found)) if file_type(&found) == FileType::Directory => {
                match unlinkat(directory, name, AtFlags::REMOVEDIR) {
                    // Other programs use it.
                    Err(Errno::NOTEMPTY | Errno::EXIST) => return Ok(()),
                    removed => removed?,
                }
            }
            (None, Some(_)) => renameat(directory, name, self.staging, &new)?,
            _ => {}
        }
        self.bring_back(directory, name, number)
    }
}

fn is_inode(directory: &OwnedFd, name: &[u8], inode: u64) -> Result<bool> {
    Ok(status(Some(directory), name)?.is_some_and(|found| found.st_ino == inode))
}

fn is_either(directory: &OwnedFd, name: &[u8], before: &Metadata, now: &Metadata) -> Result<bool> {
    Ok(status(Some(directory), name)?.is_some_and(|found| Metadata::is_either(&found, before, now)))
}

/// Renames, but replaces nothing.
fn rename_new(from: &OwnedFd, name: &[u8], to: &OwnedFd, new: &[u8]) -> Result<()> {
    match renameat_with(from, name, to, new, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {}
        renamed => return renamed,
    }
    if status(Some(to), new)?.is_some() { Err(Errno::EXIST) } else { renameat(from, name, to, new) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::OFlags;
    use std::fs;

    #[test]
    fn an_entry_is_replaced_and_restored_without_swapping() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let open = |name: &str| rustix::fs::open(at(name), OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap();
        let content = || fs::read_to_string(at("base/file")).ok();
        for name in ["base", "base/staging"] {
            fs::create_dir(at(name)).unwrap();
        }
        fs::write(at("base/file"), "old").unwrap();
        fs::write(at("base/staging/new-0"), "new").unwrap();
        let (base, staging, root) = (Tree::new(open("base")), open("base/staging"), open("base"));
        let stamp = |directory: &OwnedFd, name: &[u8]| Stamp::of(&status(Some(directory), name).unwrap().unwrap());
        let (old, new) = (stamp(&root, b"file"), stamp(&staging, b"new-0").inode());
        let step = Step { path: b"file".to_vec(), action: Action::Put { inode: new, replaces: Some(old) } };
        let place = Place { base: &base, staging: &staging };

        assert_eq!(place.replace(&root, b"file", &old, 0), Ok(None));
        assert_eq!((content().as_deref(), place.apply(0, &step)), (Some("new"), Ok(None)));
        place.undo(0, &step).unwrap();
        assert_eq!(content().as_deref(), Some("old"));
        // A crash between the two renames.
        let old = stamp(&root, b"file");
        assert_eq!(place.take_away(&root, b"file", &old, 0), Ok(None));
        assert_eq!(content(), None);
        place.undo(0, &step).unwrap();
        assert_eq!(content().as_deref(), Some("old"));
        let old = stamp(&root, b"file");
        assert_eq!(place.take_away(&root, b"file", &old, 0), Ok(None));
        assert_eq!((place.apply(0, &step), content().as_deref()), (Ok(None), Some("new")));
        // Another program's file stays.
        place.undo(0, &step).unwrap();
        fs::write(at("base/other"), "theirs").unwrap();
        fs::rename(at("base/other"), at("base/file")).unwrap();
        assert_eq!(place.replace(&root, b"file", &old, 0), Ok(Some(REPLACED)));
        assert_eq!(content().as_deref(), Some("theirs"));
    }

    /// A real file and a staged one, and the step that replaces the first one.
    fn edited(edit_at: &str) -> (Option<Reason>, String, String) {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let open = |name: &str| rustix::fs::open(at(name), OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap();
        fs::create_dir_all(at("base/staging")).unwrap();
        fs::write(at("base/file"), "old").unwrap();
        fs::write(at("base/staging/new-0"), "new").unwrap();
        let (base, staging, root) = (Tree::new(open("base")), open("base/staging"), open("base"));
        let found = |directory: &OwnedFd, name: &[u8]| status(Some(directory), name).unwrap().unwrap();
        let old = Stamp::of(&found(&root, b"file"));
        let inode = found(&staging, b"new-0").st_ino;
        let step = Step { path: b"file".to_vec(), action: Action::Put { inode, replaces: Some(old) } };
        if edit_at == "base/staging/new-0" {
            renameat_with(&staging, "new-0", &root, "file", RenameFlags::EXCHANGE).unwrap();
        } else if edit_at == "base/staging/old-0" {
            renameat(&root, "file", &staging, "old-0").unwrap();
        }
        fs::write(at(edit_at), "theirs").unwrap();
        let place = Place { base: &base, staging: &staging };
        let skipped = place.apply(0, &step).unwrap();
        assert_eq!(place.apply(0, &step).unwrap(), skipped);
        let now = fs::read_to_string(at("base/file")).unwrap();
        place.undo(0, &step).unwrap();
        (skipped, now, fs::read_to_string(at("base/file")).unwrap())
    }

    #[test]
    fn a_file_that_is_edited_before_or_while_it_is_replaced_stays() {
        for place in ["base/file", "base/staging/new-0", "base/staging/old-0"] {
            assert_eq!(edited(place), (Some(REPLACED), "theirs".into(), "theirs".into()), "{place}");
        }
    }
}
