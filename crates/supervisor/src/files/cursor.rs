//! A position in a directory tree that moves one level at a time.
//!
//! It follows no symlinks and holds one descriptor however deep the tree is. On the way up, it checks that it returns
//! to the directory it came from: a directory that was moved meanwhile would lead it out of the tree.

use super::info::identity;
use rustix::fs::{AtFlags, Dir, Mode, OFlags, fstat, openat, statat};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// See the module.
pub struct Cursor {
    current: OwnedFd,
    above: Vec<(u64, u64)>,
}

const FLAGS: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

impl Cursor {
    /// Starts in a directory; a final symlink is followed.
    pub fn open(origin: impl AsFd, path: &[u8]) -> Result<Self, Errno> {
        Ok(Self { current: openat(origin, path, FLAGS, Mode::empty())?, above: Vec::new() })
    }

    /// Starts in a directory that is not a symlink.
    pub fn open_exactly(origin: impl AsFd, name: &[u8]) -> Result<Self, Errno> {
        Ok(Self { current: openat(origin, name, FLAGS | OFlags::NOFOLLOW, Mode::empty())?, above: Vec::new() })
    }

    /// Descends into a directory.
    pub fn enter(&mut self, name: &[u8]) -> Result<(), Errno> {
        let here = identity(&fstat(&self.current)?);
        self.current = openat(&self.current, name, FLAGS | OFlags::NOFOLLOW, Mode::empty())?;
        self.above.push(here);
        Ok(())
    }

    /// Returns to the parent directory.
    pub fn leave(&mut self) -> Result<(), Errno> {
        let up = openat(&self.current, "..", FLAGS, Mode::empty())?;
        if self.above.pop() != Some(identity(&fstat(&up)?)) {
            return Err(Errno::STALE);
        }
        self.current = up;
        Ok(())
    }

    /// The names in this directory.
    pub fn names(&self) -> Result<std::vec::IntoIter<Vec<u8>>, Errno> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.current)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push(name.to_vec());
            }
        }
        Ok(names.into_iter())
    }
}

impl AsFd for Cursor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.current.as_fd()
    }
}

/// True if a directory is `other`, or contains it at any depth.
pub fn holds(outer: (u64, u64), inner: impl AsFd) -> Result<bool, Errno> {
    let mut here = statat(inner.as_fd(), ".", AtFlags::empty())?;
    let mut current = openat(inner, ".", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    loop {
        if identity(&here) == outer {
            return Ok(true);
        }
        current = openat(&current, "..", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let above = fstat(&current)?;
        if identity(&above) == identity(&here) {
            return Ok(false);
        }
        here = above;
    }
}
