//! What tells whether an entry of the real directory is still the one that was seen.

use crate::tree::{changed_at, has_other_names};
use rustix::fs::{FileType, Stat};
use serde::{Deserialize, Serialize};

/// What another program cannot change unnoticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    device: u64,
    inode: u64,
    size: i64,
    mode: u32,
    owner: (u32, u32),
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    /// That of an entry.
    pub fn of(found: &Stat) -> Self {
        Self {
            device: found.st_dev,
            inode: found.st_ino,
            size: found.st_size,
            mode: found.st_mode,
            owner: (found.st_uid, found.st_gid),
            modified: modified_at(found),
            changed: changed_at(found),
        }
    }

    /// Device and inode number.
    pub fn identity(&self) -> (u64, u64) {
        (self.device, self.inode)
    }

    /// The inode number.
    pub fn inode(&self) -> u64 {
        self.inode
    }

    /// Whether it is that of a directory.
    pub fn is_directory(&self) -> bool {
        FileType::from_raw_mode(self.mode) == FileType::Directory
    }

    /// Whether an entry is this one and has not changed. The change time of a file with several names does not count, since a
    /// change to any of the names moves it.
    pub fn is_unchanged(&self, found: &Stat) -> bool {
        if has_other_names(found) { self.is_kept(found) } else { *self == Self::of(found) }
    }

    /// The same after a rename, which moves the change time. On some file systems, that also makes it one of another device.
    pub fn is_kept(&self, found: &Stat) -> bool {
        *self == Self { device: self.device, changed: self.changed, ..Self::of(found) }
    }
}

/// The modification time, in seconds and nanoseconds.
pub fn modified_at(found: &Stat) -> (i64, i64) {
    (found.st_mtime, found.st_mtime_nsec as i64)
}
