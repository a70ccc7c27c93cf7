//! Mode, owner, extended attributes and times of an entry, and how they are given to another.

use crate::tree::{open_path, own_path, status};
use nacre_containment::extended_attributes::{filled, is_label, is_mark};
use rustix::fs::{
    AtFlags, FileType, Gid, Mode, Stat, Timespec, Timestamps, Uid, XattrFlags, chmod, chownat, fstat, getxattr,
    listxattr, removexattr, setxattr, utimensat,
};
use rustix::io::{Errno, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metadata {
    /// With the bits of the file type.
    mode: u32,
    owner: (u32, u32),
    attributes: BTreeMap<Vec<u8>, Vec<u8>>,
    times: Option<Times>,
}

/// When an entry was accessed and modified, in seconds and nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Times {
    accessed: (i64, i64),
    modified: (i64, i64),
}

impl Times {
    fn give(&self, entry: &OwnedFd) -> Result<()> {
        let time = |(tv_sec, tv_nsec): (i64, i64)| Timespec { tv_sec, tv_nsec };
        let times = Timestamps { last_access: time(self.accessed), last_modification: time(self.modified) };
        utimensat(rustix::fs::CWD, own_path(entry), &times, AtFlags::empty())
    }
}

impl Metadata {
    /// That of an existing entry.
    ///
    /// # Errors
    /// `ENOENT` if there is none.
    pub fn of(directory: &OwnedFd, name: &[u8]) -> Result<Self> {
        Self::with(directory, name, |name| !is_mark(name))
    }

    /// The same with the kernel's marks for the layers of a workspace.
    ///
    /// # Errors
    /// As for [`Metadata::of`].
    pub fn with_marks(directory: &OwnedFd, name: &[u8]) -> Result<Self> {
        Self::with(directory, name, |_| true)
    }

    fn with(directory: &OwnedFd, name: &[u8], is_wanted: impl Fn(&[u8]) -> bool) -> Result<Self> {
        let found = status(Some(directory), name)?.ok_or(Errno::NOENT)?;
        let is_link = FileType::from_raw_mode(found.st_mode) == FileType::Symlink;
        let attributes =
            if is_link { BTreeMap::new() } else { attributes_of(&open_path(directory, name)?, is_wanted)? };
        let times = Times {
            accessed: (found.st_atime, found.st_atime_nsec as i64),
            modified: (found.st_mtime, found.st_mtime_nsec as i64),
        };
        Ok(Self { mode: found.st_mode, owner: (found.st_uid, found.st_gid), attributes, times: Some(times) })
    }

    /// The mode, with the bits of the file type.
    pub fn mode(&self) -> u32 {
        self.mode
    }

    /// The same with another mode.
    pub fn with_mode(self, mode: u32) -> Self {
        Self { mode, ..self }
    }

    /// The same with another user and group.
    pub fn owned_by(self, owner: (u32, u32)) -> Self {
        Self { owner, ..self }
    }

    /// The same with the owner of another entry.
    pub fn owned_like(self, found: &Stat) -> Self {
        self.owned_by((found.st_uid, found.st_gid))
    }

    /// The value of an extended attribute.
    pub fn attribute(&self, name: &str) -> Option<&[u8]> {
        self.attributes.get(name.as_bytes()).map(Vec::as_slice)
    }

    /// The same with another value of an extended attribute, or without it.
    pub fn with_attribute(mut self, name: &str, value: Option<&[u8]>) -> Self {
        match value {
            Some(value) => self.attributes.insert(name.as_bytes().to_vec(), value.to_vec()),
            None => self.attributes.remove(name.as_bytes()),
        };
        self
    }

    /// When the entry was modified, in seconds and nanoseconds.
    pub fn modified(&self) -> Option<(i64, i64)> {
        self.times.map(|times| times.modified)
    }

    /// The same, modified at another time.
    pub fn modified_at(self, moment: (i64, i64)) -> Self {
        Self { times: Some(Times { accessed: moment, modified: moment }), ..self }
    }

    /// The same, but the times stay as they are.
    pub fn without_times(self) -> Self {
        Self { times: None, ..self }
    }

    /// Whether an entry has one of two states, or is between them. Otherwise another program has changed it: its mode or owner,
    /// or the content of a file.
    pub fn is_either(found: &Stat, one: &Self, other: &Self) -> bool {
        // Giving a file away removes its bits for set-user-ID.
        let mode = |mode: u32| mode & !0o6000;
        let has = |is: &dyn Fn(&Self) -> bool| is(one) || is(other);
        let modified = (found.st_mtime, found.st_mtime_nsec as i64);
        let is_file = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile;
        has(&|it| mode(it.mode) == mode(found.st_mode))
            && has(&|it| it.owner == (found.st_uid, found.st_gid))
            && (!is_file || has(&|it| it.times.is_none_or(|times| times.modified == modified)))
    }

    /// Gives its times to a directory, if there is one.
    ///
    /// # Errors
    /// Those of the system calls.
    pub fn apply_times(&self, directory: &OwnedFd, name: &[u8]) -> Result<()> {
        let entry = match open_path(directory, name) {
            Err(Errno::NOENT) => return Ok(()),
            entry => entry?,
        };
        let is_directory = FileType::from_raw_mode(fstat(&entry)?.st_mode) == FileType::Directory;
        self.times.filter(|_| is_directory).map_or(Ok(()), |times| times.give(&entry))
    }

    /// Gives it to an entry. Returns false if the entry has another inode number than this one.
    ///
    /// # Errors
    /// Those of the system calls; `ENOENT` if there is no entry.
    pub fn apply(&self, directory: &OwnedFd, name: &[u8], inode: Option<u64>) -> Result<bool> {
        let entry = open_path(directory, name)?;
        let found = fstat(&entry)?;
        let kind = FileType::from_raw_mode(self.mode);
        if inode.is_some_and(|inode| inode != found.st_ino) || kind != FileType::from_raw_mode(found.st_mode) {
            return Ok(false);
        }
        self.give_owner(&entry, &found)?;
        let path = own_path(&entry);
        if kind != FileType::Symlink {
            // A change of the owner removes the bits for set-user-ID.
            chmod(&path, Mode::from_raw_mode(self.mode & 0o7777))?;
            self.give_attributes(&entry)?;
        }
        self.times.map_or(Ok(()), |times| times.give(&entry))?;
        Ok(true)
    }

    fn give_owner(&self, entry: &OwnedFd, found: &Stat) -> Result<()> {
        let (user, group) = self.owner;
        let user = (user != found.st_uid).then(|| Uid::from_raw(user));
        let group = (group != found.st_gid).then(|| Gid::from_raw(group));
        if user.is_none() && group.is_none() {
            return Ok(());
        }
        match chownat(entry, "", user, group, AtFlags::EMPTY_PATH) {
            // The user namespace has no name for the owner.
            Err(Errno::INVAL) => Ok(()),
            given => given,
        }
    }

    fn give_attributes(&self, entry: &OwnedFd) -> Result<()> {
        let present = attributes_of(entry, |name| !is_mark(name))?;
        let path = own_path(entry);
        let unless_unsupported = |given: Result<()>| match given {
            Err(Errno::OPNOTSUPP | Errno::NODATA) => Ok(()),
            given => given,
        };
        for name in present.keys().filter(|name| !self.attributes.contains_key(*name)) {
            unless_unsupported(removexattr(&path, &name[..]))?;
        }
        for (name, value) in self.attributes.iter().filter(|(name, value)| present.get(*name) != Some(value)) {
            unless_unsupported(setxattr(&path, &name[..], value, XattrFlags::empty()))?;
        }
        Ok(())
    }
}

/// The extended attributes that a program can have set and that can be read. Labels of security modules depend on the file
/// system.
pub fn attributes(directory: &OwnedFd, name: &[u8]) -> Result<BTreeMap<Vec<u8>, Vec<u8>>> {
    match open_path(directory, name) {
        Err(Errno::NOENT) => Ok(BTreeMap::new()),
        entry => attributes_of(&entry?, |name| !is_mark(name)),
    }
}

fn attributes_of(entry: &OwnedFd, is_wanted: impl Fn(&[u8]) -> bool) -> Result<BTreeMap<Vec<u8>, Vec<u8>>> {
    let path = own_path(entry);
    let list = match filled(|buffer| listxattr(&path, buffer)) {
        Err(Errno::OPNOTSUPP) => return Ok(BTreeMap::new()),
        list => list?,
    };
    let mut found = BTreeMap::new();
    let names = list.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    for name in names.filter(|name| !is_label(name) && is_wanted(name)) {
        match filled(|buffer| getxattr(&path, name, buffer)) {
            Ok(value) => {
                found.insert(name.to_vec(), value);
            }
            Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::ACCESS) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(found)
}
