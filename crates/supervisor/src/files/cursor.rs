//! A position in a directory tree that moves one level at a time.
//!
//! It follows no symlinks and holds two descriptors however deep the tree is. On the way up, it checks that it returns to
//! the directory it came from: a directory that was moved meanwhile would lead it out of the tree. It then walks down
//! again from its start, by the same names to the same directories.

use super::info::identity;
use rustix::fs::{AtFlags, Dir, Mode, OFlags, fstat, openat, statat};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// See the module.
pub struct Cursor {
    start: Arc<OwnedFd>,
    current: Arc<OwnedFd>,
    /// The directories between the start and this one, and this one: their names and identities.
    below: Vec<(Vec<u8>, (u64, u64))>,
}

const FLAGS: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

impl Cursor {
    /// Starts in a directory; a final symlink is followed.
    pub fn open(origin: impl AsFd, path: &[u8]) -> Result<Self, Errno> {
        Ok(Self::at(openat(origin, path, FLAGS, Mode::empty())?))
    }

    /// Starts in a directory that is not a symlink.
    pub fn open_exactly(origin: impl AsFd, name: &[u8]) -> Result<Self, Errno> {
        Ok(Self::at(enter(origin, name)?))
    }

    fn at(start: OwnedFd) -> Self {
        let start = Arc::new(start);
        Self { current: Arc::clone(&start), start, below: Vec::new() }
    }

    /// Descends into a directory.
    pub fn enter(&mut self, name: &[u8]) -> Result<(), Errno> {
        let inner = enter(&self.current, name)?;
        let found = identity(&fstat(&inner)?);
        self.current = Arc::new(inner);
        self.below.push((name.to_vec(), found));
        Ok(())
    }

    /// Returns to the parent directory.
    ///
    /// # Errors
    /// `STALE`: the parent directory has been moved or removed. The position is still one level higher, but there is
    /// nothing to see there.
    pub fn leave(&mut self) -> Result<(), Errno> {
        self.below.pop();
        let parent = match self.below.last() {
            Some((_, parent)) => *parent,
            None => {
                self.current = Arc::clone(&self.start);
                return Ok(());
            }
        };
        let up = openat(&self.current, "..", FLAGS, Mode::empty());
        if let Ok(up) = up.and_then(|up| expect(up, parent)) {
            self.current = Arc::new(up);
            return Ok(());
        }
        let mut current = Arc::clone(&self.start);
        for (name, known) in &self.below {
            let inner = enter(&current, name).and_then(|inner| expect(inner, *known));
            current = Arc::new(inner.map_err(|errno| match errno {
                Errno::NOENT | Errno::NOTDIR | Errno::LOOP => Errno::STALE,
                errno => errno,
            })?);
        }
        self.current = current;
        Ok(())
    }

    /// The names in this directory. None if it has been removed.
    pub fn names(&self) -> Result<std::vec::IntoIter<Vec<u8>>, Errno> {
        let mut names = Vec::new();
        let entries = match Dir::read_from(self.current.as_fd()) {
            Err(Errno::NOENT) => return Ok(names.into_iter()),
            entries => entries?,
        };
        for entry in entries {
            let entry = match entry {
                Err(Errno::NOENT) => break,
                entry => entry?,
            };
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push(name.to_vec());
            }
        }
        Ok(names.into_iter())
    }
}

fn enter(directory: impl AsFd, name: &[u8]) -> Result<OwnedFd, Errno> {
    openat(directory, name, FLAGS | OFlags::NOFOLLOW, Mode::empty())
}

fn expect(directory: OwnedFd, known: (u64, u64)) -> Result<OwnedFd, Errno> {
    if identity(&fstat(&directory)?) == known { Ok(directory) } else { Err(Errno::STALE) }
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn it_finds_back_from_a_directory_that_was_moved_and_never_leaves_the_tree() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        let names = |cursor: &Cursor| {
            let mut names: Vec<_> = cursor.names().unwrap().map(|name| String::from_utf8(name).unwrap()).collect();
            names.sort();
            names
        };
        fs::create_dir_all(path("tree/a/b")).unwrap();
        fs::create_dir(path("outside")).unwrap();
        let mut cursor = Cursor::open(rustix::fs::CWD, path("tree").as_os_str().as_encoded_bytes()).unwrap();
        let descend = |cursor: &mut Cursor| ["a", "b"].map(|name| cursor.enter(name.as_bytes()).unwrap());
        descend(&mut cursor);
        fs::rename(path("tree/a/b"), path("outside/b")).unwrap();
        fs::create_dir(path("tree/a/other")).unwrap();
        cursor.leave().unwrap();
        assert_eq!(names(&cursor), ["other"]);
        cursor.leave().unwrap();
        fs::create_dir(path("tree/a/b")).unwrap();
        descend(&mut cursor);
        fs::rename(path("tree/a/b"), path("outside/c")).unwrap();
        fs::rename(path("tree/a"), path("tree/moved")).unwrap();
        assert_eq!(cursor.leave(), Err(Errno::STALE));
        cursor.leave().unwrap();
        assert_eq!(names(&cursor), ["moved"]);
        cursor.enter(b"moved").unwrap();
        fs::remove_dir_all(path("tree/moved")).unwrap();
        assert_eq!(names(&cursor), [""; 0]);
    }
}
