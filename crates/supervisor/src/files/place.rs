//! The place of a file: its parent directory, opened, and the file's name in it.
//!
//! The kernel resolves paths under the rules of this process, so a link leads a call exactly where it would lead a
//! command of the session. Only the final link of a file to write is followed here, since its replacement is created
//! next to the file.

use super::failure::{about, failure};
use nacre_containment::file_tree::identity;
use nacre_protocol::files::{Failure, Reason};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, fstat, mkdirat, openat, readlinkat, statat};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The kernel's limit for links in one path.
pub const MAX_LINKS: usize = 40;

/// Where a path starts: at the session's directory, if it is relative.
pub struct Origin(Option<OwnedFd>);

impl Origin {
    /// An open directory.
    pub fn at(directory: OwnedFd) -> Self {
        Self(Some(directory))
    }

    /// Opens the start of a path.
    pub fn of(cwd: &[u8], path: &[u8]) -> Result<Self, Failure> {
        if path.starts_with(b"/") {
            return Ok(Self(None));
        }
        let opened = open_directory(CWD, cwd);
        Ok(Self(Some(opened.map_err(|errno| failure(Reason::Cwd(errno.raw_os_error()), cwd))?)))
    }
}

impl AsFd for Origin {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_ref().map_or(CWD, AsFd::as_fd)
    }
}

/// See the module.
pub struct Place {
    /// The open directory.
    pub parent: OwnedFd,
    /// The name, or `.` if the path has none.
    pub name: Vec<u8>,
    /// The path ends with a slash, so it can only be a directory.
    pub is_directory: bool,
}

impl Place {
    /// Opens the parent directory of a path; creates it if requested.
    pub fn of(cwd: &[u8], path: &[u8], makes_parents: bool) -> Result<Self, Failure> {
        let origin = Origin::of(cwd, path)?;
        Self::from(origin.as_fd(), path, makes_parents).map_err(about(path))
    }

    fn from(origin: BorrowedFd<'_>, path: &[u8], makes_parents: bool) -> Result<Self, Errno> {
        let (directory, name, is_directory) = split(path);
        let parent = match open_directory(origin, directory) {
            Err(Errno::NOENT) if makes_parents => make_directories(origin, directory)?,
            opened => opened?,
        };
        Ok(Self { parent, name: name.to_vec(), is_directory })
    }

    /// The place of the target of a final symlink, which need not exist.
    pub fn follow(mut self) -> Result<Self, Errno> {
        for _ in 0..MAX_LINKS {
            match readlinkat(&self.parent, &self.name[..], Vec::new()) {
                Ok(target) => {
                    let next = Self::from(self.parent.as_fd(), target.as_bytes(), false)?;
                    self = Self { is_directory: self.is_directory || next.is_directory, ..next };
                }
                // It is not a symlink, or does not exist.
                Err(Errno::INVAL | Errno::NOENT) => return Ok(self),
                Err(errno) => return Err(errno),
            }
        }
        Err(Errno::LOOP)
    }

    /// True for `.` and `..`, which name a directory that also has another name.
    pub fn has_name(&self) -> bool {
        self.name != b"." && self.name != b".."
    }
}

/// Splits a path into directory, name, and whether a slash follows.
fn split(path: &[u8]) -> (&[u8], &[u8], bool) {
    let end = path.iter().rposition(|&byte| byte != b'/').map_or(0, |last| last + 1);
    let (whole, has_slash) = (&path[..end], end < path.len());
    if whole.is_empty() {
        return (b"/", b".", true);
    }
    match whole.iter().rposition(|&byte| byte == b'/') {
        Some(slash) => (&whole[..=slash], &whole[slash + 1..], has_slash),
        None => (b".", whole, has_slash),
    }
}

/// Opens a directory as a starting point; nothing can be read through it.
pub fn open_directory(origin: impl AsFd, path: &[u8]) -> Result<OwnedFd, Errno> {
    openat(origin, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
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

/// Opens a directory and creates its missing parts.
pub fn make_directories(origin: BorrowedFd<'_>, path: &[u8]) -> Result<OwnedFd, Errno> {
    let mut current = open_directory(origin, if path.starts_with(b"/") { b"/" } else { b"." })?;
    for name in path.split(|&byte| byte == b'/').filter(|name| !name.is_empty()) {
        current = match open_directory(&current, name) {
            Err(Errno::NOENT) => match mkdirat(&current, name, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(Errno::EXIST) => open_directory(&current, name)?,
                Err(errno) => return Err(errno),
            },
            opened => opened?,
        };
    }
    Ok(current)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_split_as_the_kernel_reads_it() {
        for (path, directory, name, slash) in [
            ("a", ".", "a", false),
            ("a/b", "a/", "b", false),
            ("a//b//", "a//", "b", true),
            ("/", "/", ".", true),
            ("//", "/", ".", true),
            ("/a", "/", "a", false),
            ("..", ".", "..", false),
            ("a/..", "a/", "..", false),
        ] {
            assert_eq!(split(path.as_bytes()), (directory.as_bytes(), name.as_bytes(), slash), "{path}");
        }
    }
}
