//! Trees of files that other programs may change meanwhile: walks, removes and copies without following links.
//!
//! Everything is opened relative to an open directory, one name at a time. Not with openat2(2): the filters of sessions and of
//! containers refuse it, and the files helper works under them.

use rustix::fs::{
    AtFlags, Dir, Mode, OFlags, RawDir, ResolveFlags, SeekFrom, Stat, chmod, fstat, ftruncate, openat, openat2, seek,
    unlinkat,
};
use rustix::io::{Errno, Result};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Stops the work by an error. Called now and then.
pub type Check<'a> = &'a dyn Fn() -> Result<()>;

const FLAGS: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// Bytes of the entries that are read at once.
const LIST_BYTES: usize = 32 * 1024;
/// Bytes copied between two checks.
const PIECE_BYTES: u64 = 64 * 1024 * 1024;

/// Identifies a file while it exists.
pub fn identity(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

/// The names in a directory, in no particular order.
///
/// # Errors
/// Those of the system calls.
pub fn names(directory: impl AsFd) -> Result<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push(name.to_vec());
        }
    }
    Ok(names)
}

/// The same, except for a directory that was deleted, where [`names`] finds none.
///
/// # Errors
/// `ENOENT` for a directory that was deleted, or for one of an overlay if a layer's part of it was.
pub fn existing_names(directory: impl AsFd) -> Result<Vec<Vec<u8>>> {
    let mut buffer = Vec::with_capacity(LIST_BYTES);
    let own = enter(directory, b".")?;
    let mut names = Vec::new();
    let mut entries = RawDir::new(&own, buffer.spare_capacity_mut());
    while let Some(entry) = entries.next() {
        let name = entry?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            names.push(name);
        }
    }
    Ok(names)
}

/// A position in a directory tree that moves one level at a time.
///
/// It follows no symlinks and holds two descriptors however deep the tree is. On the way up, it checks that it returns to
/// the directory it came from: a directory that was moved meanwhile would lead it out of the tree. It then walks down
/// again from its start, by the same names to the same directories.
pub struct Cursor {
    start: Arc<OwnedFd>,
    current: Arc<OwnedFd>,
    /// The directories between the start and this one, and this one: their names and identities.
    below: Vec<(Vec<u8>, (u64, u64))>,
}

impl Cursor {
    /// Starts in a directory; a final symlink is followed.
    ///
    /// # Errors
    /// Those of openat(2).
    pub fn open(origin: impl AsFd, path: &[u8]) -> Result<Self> {
        Ok(Self::at(openat(origin, path, FLAGS, Mode::empty())?))
    }

    /// Starts in a directory that is not a symlink.
    ///
    /// # Errors
    /// Those of openat(2).
    pub fn open_exactly(origin: impl AsFd, name: &[u8]) -> Result<Self> {
        Ok(Self::at(enter(origin, name)?))
    }

    fn at(start: OwnedFd) -> Self {
        let start = Arc::new(start);
        Self { current: Arc::clone(&start), start, below: Vec::new() }
    }

    /// Descends into a directory.
    ///
    /// # Errors
    /// Those of openat(2).
    pub fn enter(&mut self, name: &[u8]) -> Result<()> {
        self.push(name, enter(&self.current, name)?)
    }

    fn push(&mut self, name: &[u8], inner: OwnedFd) -> Result<()> {
        let found = identity(&fstat(&inner)?);
        self.current = Arc::new(inner);
        self.below.push((name.to_vec(), found));
        Ok(())
    }

    /// Returns to the parent directory, and the name of the directory that it has left.
    ///
    /// # Errors
    /// `STALE`: the parent directory has been moved or removed. The position is still one level higher, but there is
    /// nothing to see there.
    pub fn leave(&mut self) -> Result<Vec<u8>> {
        let left = self.below.pop().map(|(name, _)| name).unwrap_or_default();
        let Some((_, parent)) = self.below.last() else {
            self.current = Arc::clone(&self.start);
            return Ok(left);
        };
        let up = openat(&self.current, "..", FLAGS, Mode::empty()).and_then(|up| expect(up, *parent));
        self.current = Arc::new(up.or_else(|_| self.walk_down())?);
        Ok(left)
    }

    fn walk_down(&self) -> Result<OwnedFd> {
        let mut current = enter(&self.start, b".")?;
        for (name, known) in &self.below {
            let inner = enter(&current, name).and_then(|inner| expect(inner, *known));
            current = inner.map_err(|errno| match errno {
                Errno::NOENT | Errno::NOTDIR | Errno::LOOP => Errno::STALE,
                errno => errno,
            })?;
        }
        Ok(current)
    }

    /// The names in this directory. None if it has been removed.
    ///
    /// # Errors
    /// Those of the system calls.
    pub fn names(&self) -> Result<std::vec::IntoIter<Vec<u8>>> {
        match names(self) {
            Err(Errno::NOENT) => Ok(Vec::new().into_iter()),
            names => names.map(Vec::into_iter),
        }
    }

    /// The path from the start to a name in this directory.
    pub fn path(&self, name: &[u8]) -> Vec<u8> {
        let names: Vec<&[u8]> = self.below.iter().map(|(name, _)| &name[..]).chain([name]).collect();
        names.join(&b'/')
    }
}

impl AsFd for Cursor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.current.as_fd()
    }
}

fn enter(directory: impl AsFd, name: &[u8]) -> Result<OwnedFd> {
    openat(directory, name, FLAGS | OFlags::NOFOLLOW, Mode::empty())
}

fn expect(directory: OwnedFd, known: (u64, u64)) -> Result<OwnedFd> {
    if identity(&fstat(&directory)?) == known { Ok(directory) } else { Err(Errno::STALE) }
}

/// Why a tree was not removed.
#[derive(Debug)]
pub struct Kept {
    /// The entry that could not be removed, from the root of the tree. Empty for the root.
    pub path: Vec<u8>,
    /// The reason, which may be that of the check.
    pub errno: Errno,
}

/// Removes everything in a directory, whatever the modes of the directories below. What is mounted there stays.
///
/// # Errors
/// Those of the system calls. What is left can be removed later.
pub fn empty(directory: &OwnedFd) -> Result<()> {
    loop {
        let present = names(directory)?;
        if present.is_empty() {
            return Ok(());
        }
        present.iter().try_for_each(|name| remove_forced(directory, name))?;
    }
}

/// Removes an entry, with everything in it: see [`empty`].
///
/// # Errors
/// As for [`empty`].
pub fn remove_forced(directory: &OwnedFd, name: &[u8]) -> Result<()> {
    remove(directory, name, true, &|| Ok(())).map_err(|kept| kept.errno)
}

/// Removes an entry, with everything in it. What another process removes meanwhile is no error. With `is_forced`, directories
/// are made writable first, and mounts are not entered.
///
/// # Errors
/// The first that cannot be removed.
pub fn remove(parent: impl AsFd, name: &[u8], is_forced: bool, check: Check<'_>) -> std::result::Result<(), Kept> {
    let at_root = |errno| Kept { path: Vec::new(), errno };
    let Some(root) = remove_or_open(parent.as_fd(), name, is_forced).map_err(at_root)? else { return Ok(()) };
    let mut cursor = Cursor::at(root);
    let mut levels = vec![cursor.names().map_err(at_root)?];
    while let Some(names) = levels.last_mut() {
        check().map_err(at_root)?;
        if let Some(name) = names.next() {
            let at = |errno| Kept { path: cursor.path(&name), errno };
            if let Some(inner) = remove_or_open(cursor.as_fd(), &name, is_forced).map_err(at)? {
                let names = cursor.push(&name, inner).and_then(|()| cursor.names());
                levels.push(names.map_err(at_root)?);
            }
            continue;
        }
        levels.pop();
        while !levels.is_empty() {
            match cursor.leave() {
                Ok(left) => {
                    let removed = remove_one(cursor.as_fd(), &left, AtFlags::REMOVEDIR);
                    removed.map_err(|errno| Kept { path: cursor.path(&left), errno })?;
                    break;
                }
                // The parent directory has been moved or removed, with what was left in it.
                Err(Errno::STALE) => drop(levels.pop()),
                Err(errno) => return Err(at_root(errno)),
            }
        }
    }
    remove_one(parent.as_fd(), name, AtFlags::REMOVEDIR).map_err(at_root)
}

fn remove_one(directory: BorrowedFd<'_>, name: &[u8], flags: AtFlags) -> Result<()> {
    unless(&[Errno::NOENT], unlinkat(directory, name, flags))
}

/// What was done, where these are no errors: another process may have done it.
///
/// # Errors
/// All others.
pub fn unless(done_already: &[Errno], done: Result<()>) -> Result<()> {
    done.or_else(|errno| if done_already.contains(&errno) { Ok(()) } else { Err(errno) })
}

/// Removes an entry; opens it if it is a directory.
fn remove_or_open(directory: BorrowedFd<'_>, name: &[u8], is_forced: bool) -> Result<Option<OwnedFd>> {
    match remove_one(directory, name, AtFlags::empty()) {
        Err(Errno::ISDIR) => {}
        removed => return removed.map(|()| None),
    }
    match if is_forced { enter_forced(directory, name) } else { enter(directory, name) } {
        Err(Errno::NOENT) => Ok(None),
        opened => opened.map(Some),
    }
}

/// Gives the owner all rights for a directory, and opens it. Follows no link, as chmod(2) by name would.
fn enter_forced(directory: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let path = match openat2(directory, name, flags, Mode::empty(), ResolveFlags::NO_XDEV) {
        // A filter refuses the call.
        Err(Errno::NOSYS | Errno::PERM) => openat(directory, name, flags, Mode::empty())?,
        path => path?,
    };
    let path = format!("/proc/self/fd/{}", path.as_raw_fd());
    let _ = chmod(&path, Mode::RWXU);
    openat(directory, name, FLAGS | OFlags::NOFOLLOW, Mode::empty())
}

/// Copies the content of a file of this size to an empty one. Holes stay holes. Of a file that grows meanwhile, it copies no
/// more than that; one without a size, as in /proc, is read to its end.
///
/// # Errors
/// Those of the system calls, and of the check.
pub fn copy_content(from: &File, mut to: &File, size: u64, check: Check<'_>) -> Result<()> {
    let mut at = 0;
    loop {
        check()?;
        if size > 0 && at >= size {
            return Ok(());
        }
        let within = |(start, length): (u64, u64)| match size {
            0 => Some((start, length)),
            _ => size.checked_sub(start).filter(|rest| *rest > 0).map(|rest| (start, length.min(rest))),
        };
        let Some((start, length)) = next_data(from, at, size)?.and_then(within) else {
            // It may have become shorter meanwhile.
            let end = seek(from, SeekFrom::End(0))?.min(size);
            return ftruncate(to, end);
        };
        seek(to, SeekFrom::Start(start))?;
        // By the fastest way that both file systems have.
        let copied = io::copy(&mut from.take(length), &mut to);
        match copied.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))? {
            0 => return Ok(()),
            copied => at = start + copied,
        }
    }
}

/// The next data of a file that has been read up to `at`: where it begins, and how much to copy at once. `None` if a hole is
/// the end of a file of this size.
fn next_data(file: &File, at: u64, size: u64) -> Result<Option<(u64, u64)>> {
    match seek(file, SeekFrom::Data(at)) {
        Ok(start) => {
            let end = seek(file, SeekFrom::Hole(start)).unwrap_or(u64::MAX);
            seek(file, SeekFrom::Start(start))?;
            Ok(Some((start, PIECE_BYTES.min(end.saturating_sub(start)).max(1))))
        }
        Err(Errno::NXIO) if at < size => Ok(None),
        // The file system does not tell, or the file has grown, or has no size, as in /proc. The position is as before.
        Err(_) => Ok(Some((at, PIECE_BYTES))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::mkdirat;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

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

    #[test]
    fn a_copy_is_no_longer_than_its_source_was() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::write(at("source"), vec![b'x'; 10_000]).unwrap();
        for (size, copied) in [(4_000, 4_000), (10_000, 10_000), (20_000, 10_000), (0, 10_000)] {
            let (from, to) = (File::open(at("source")).unwrap(), File::create(at("copy")).unwrap());
            copy_content(&from, &to, size, &|| Ok(())).unwrap();
            assert_eq!(fs::read(at("copy")).unwrap(), vec![b'x'; copied]);
        }
    }

    #[test]
    fn trees_of_any_depth_and_mode_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::create_dir_all(at("locked/inner/deep")).unwrap();
        fs::write(at("locked/inner/file"), "").unwrap();
        std::os::unix::fs::symlink("/", at("link")).unwrap();
        fs::create_dir(at(".removed-1")).unwrap();
        fs::write(at(".removed-1/file"), "").unwrap();
        let open = || rustix::fs::open(directory.path(), FLAGS, Mode::empty()).unwrap();
        let mut deepest = open();
        for _ in 0..3000 {
            mkdirat(&deepest, "d", Mode::RWXU).unwrap();
            deepest = openat(&deepest, "d", FLAGS, Mode::empty()).unwrap();
        }
        for name in ["locked/inner/deep", "locked/inner", "locked"] {
            fs::set_permissions(at(name), PermissionsExt::from_mode(0o000)).unwrap();
        }
        empty(&open()).unwrap();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
