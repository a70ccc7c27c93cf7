//! Opens the paths of rules. A process that controls a directory can replace part of a path with a link at any time.

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, StatxFlags, fstat, openat, openat2, statx};
use rustix::mount::{OpenTreeFlags, open_tree};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};

/// The path with the links of the part that exists.
pub fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => real(parent).join(name),
        _ => path.to_path_buf(),
    })
}

/// The same with one system call if there are no links on the way. The path is absolute, without `.` and `..`.
pub fn real_at_once(path: &Path) -> PathBuf {
    match open_at_once(path) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::ELOOP | libc::ENOSYS | libc::EPERM)) => real(path),
        _ => path.to_path_buf(),
    }
}

/// The path without `.` and `..`.
pub fn plain(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut plain, part| {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(plain.pop()),
            part => plain.push(part),
        }
        plain
    })
}

/// Opens a path without following any link.
pub fn open_path(path: &Path) -> io::Result<OwnedFd> {
    match open_at_once(path) {
        // A filter refuses the call: it is older, or it has to see the mode, which is behind a pointer, like that of nacre.
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => open_step_by_step(path),
        opened => opened,
    }
}

fn open_at_once(path: &Path) -> io::Result<OwnedFd> {
    Ok(openat2(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::NO_SYMLINKS)?)
}

/// The same with one call for each name. A link is opened itself, and refused: nothing can be opened below it.
fn open_step_by_step(path: &Path) -> io::Result<OwnedFd> {
    let mut at = open_name(CWD, OsStr::new(if path.is_absolute() { "/" } else { "." }))?;
    for component in path.components() {
        if let Component::Normal(_) | Component::ParentDir = component {
            at = open_name(at.as_fd(), component.as_os_str())?;
        }
    }
    Ok(at)
}

fn open_name(directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<OwnedFd> {
    let opened = openat(directory, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    match FileType::from_raw_mode(fstat(&opened)?.st_mode) {
        FileType::Symlink => Err(io::Error::from_raw_os_error(libc::ELOOP)),
        _ => Ok(opened),
    }
}

/// Opens a regular file to read it; `None` for anything else. A pipe would block, and a link leads anywhere.
pub fn open_regular(path: &Path) -> io::Result<Option<File>> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    Ok(file.metadata()?.is_file().then_some(file))
}

/// Copies the mount of what is open, without attaching it.
pub fn clone_mount(opened: &OwnedFd, flags: OpenTreeFlags) -> io::Result<OwnedFd> {
    let clone = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
    Ok(open_tree(opened, "", flags | clone)?)
}

/// The number of a file system: major and minor.
pub type Device = (u32, u32);

/// What is at a path: its mount and its file system.
pub struct Found {
    /// The mount.
    pub mount: u64,
    /// The file system.
    pub device: Device,
}

impl Found {
    /// # Errors
    /// Those of statx(2).
    pub fn of(file: &OwnedFd) -> io::Result<Self> {
        let found = statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS | StatxFlags::MNT_ID)?;
        Ok(Self { mount: found.stx_mnt_id, device: (found.stx_dev_major, found.stx_dev_minor) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_path_is_opened_step_by_step_as_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        std::fs::write(root.join("a/b/file"), "").unwrap();
        symlink("a", root.join("link")).unwrap();
        symlink("nowhere", root.join("a/loose")).unwrap();
        let proc =
            ["/proc/self/exe", "/proc/self/root/etc", "/proc/self/fd/0", "/", "/proc/nowhere", "Cargo.toml", "."];
        let own = ["", "a", "a/", "a//b", "a/b/file", "a/b/../b", "a/./b", "link", "link/b", "link/b/file", "a/loose"];
        let other = ["a/missing", "a/b/file/x", "a/b/file/..", "a/loose/x", "a/b/link"];
        let paths = proc.map(Path::new).map(Path::to_path_buf).into_iter();
        for path in paths.chain(own.into_iter().chain(other).map(|name| root.join(name))) {
            let seen = [open_at_once(&path), open_step_by_step(&path)].map(|opened| match opened {
                Ok(file) => {
                    fstat(&file).map(|found| (found.st_dev, found.st_ino)).map_err(|error| error.raw_os_error())
                }
                Err(error) => Err(error.raw_os_error().unwrap()),
            });
            // A link on the way is seen as what it is, or as what has nothing below it.
            match seen {
                [Err(libc::ELOOP), Err(libc::ELOOP | libc::ENOTDIR)] => {}
                [at_once, step_by_step] => assert_eq!(at_once, step_by_step, "{}", path.display()),
            }
        }
    }
}
