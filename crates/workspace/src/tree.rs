//! A directory tree that is reached through a descriptor, without following links.

use nacre_containment::file_tree;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat, openat, openat2, statat};
use rustix::io::{Errno, Result};
use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};

/// A path longer than this is opened in pieces: the kernel takes at most 4095 bytes.
const PIECE_BYTES: usize = 4000;

/// See the module.
pub struct Tree {
    root: OwnedFd,
}

impl Tree {
    /// The tree of a directory.
    pub fn new(root: OwnedFd) -> Self {
        Self { root }
    }

    /// Opens the directory at a path, for reading. `None` if the path leads to no directory, or through a link.
    ///
    /// # Errors
    /// Those of openat2(2): `EXDEV` if another file system is mounted on the way.
    pub fn directory(&self, path: &[u8]) -> Result<Option<OwnedFd>> {
        if_directory(self.open(None, path))
    }

    /// The same with a path relative to an open directory of the tree; the root by default.
    ///
    /// # Errors
    /// As for [`Tree::directory`]; `ENOENT` if there is nothing at the path, and `ENOTDIR` or `ELOOP` if there, or on the
    /// way, is something else.
    pub fn open(&self, from: Option<&OwnedFd>, path: &[u8]) -> Result<OwnedFd> {
        let mut current = None;
        let mut left = path;
        while left.len() > PIECE_BYTES {
            let end = left[..PIECE_BYTES].iter().rposition(|byte| *byte == b'/').ok_or(Errno::NAMETOOLONG)?;
            current = Some(self.open_piece(current.as_ref().or(from), &left[..end])?);
            left = &left[end + 1..];
        }
        self.open_piece(current.as_ref().or(from), if left.is_empty() { b"." } else { left })
    }

    fn open_piece(&self, from: Option<&OwnedFd>, path: &[u8]) -> Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
        loop {
            match openat2(from.unwrap_or(&self.root), path, flags, Mode::empty(), beneath) {
                // Something was renamed meanwhile.
                Err(Errno::AGAIN) => {}
                opened => return opened,
            }
        }
    }
}

/// An opened directory. `None` if there is none.
pub fn if_directory(opened: Result<OwnedFd>) -> Result<Option<OwnedFd>> {
    match opened {
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
        opened => opened.map(Some),
    }
}

/// The names in a directory, in the order of their bytes.
pub fn names(directory: &OwnedFd) -> Result<Vec<Vec<u8>>> {
    let mut names = file_tree::names(directory)?;
    names.sort_unstable();
    Ok(names)
}

/// Describes an entry without following it. `None` if there is none.
pub fn status(directory: Option<&OwnedFd>, name: &[u8]) -> Result<Option<Stat>> {
    let Some(directory) = directory else { return Ok(None) };
    match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => Ok(None),
        found => found.map(Some),
    }
}

/// Opens a regular file for reading. The flags make sure that nothing else is opened, whatever has the name meanwhile.
pub fn open_file(directory: &OwnedFd, name: &[u8]) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    openat(directory, name, flags, Mode::empty())
}

/// Opens a directory for reading, without following it.
pub fn open_directory(parent: impl AsFd, name: &[u8]) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(parent, name, flags, Mode::empty())
}

/// Opens an entry of any kind for its metadata only, without following it.
pub fn open_path(directory: &OwnedFd, name: &[u8]) -> Result<OwnedFd> {
    openat(directory, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

/// The path of the directory of an entry, and its name there. The workspace itself is `.` in itself.
pub fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (b"", path),
    }
}

/// The path of an entry of a directory.
pub fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    if directory.is_empty() { name.to_vec() } else { [directory, b"/", name].concat() }
}

/// The path by which the kernel reaches an open entry itself, for calls that take no descriptor.
pub fn own_path(entry: &OwnedFd) -> CString {
    use std::os::fd::AsRawFd;
    CString::new(format!("/proc/self/fd/{}", entry.as_raw_fd())).unwrap_or_default()
}

/// The kind of an entry.
pub fn file_type(status: &Stat) -> FileType {
    FileType::from_raw_mode(status.st_mode)
}

/// The change time, in seconds and nanoseconds.
pub fn changed_at(status: &Stat) -> (i64, i64) {
    (status.st_ctime, status.st_ctime_nsec as i64)
}

/// Whether a file has other names. What is done to the file is seen there, too: to change one name, the file is replaced.
pub fn has_other_names(status: &Stat) -> bool {
    file_type(status) == FileType::RegularFile && status.st_nlink > 1
}
