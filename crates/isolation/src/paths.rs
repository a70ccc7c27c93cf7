//! Opens the paths of rules. A process that controls a directory can replace part of a path with a link at any time.

use nix::sys::stat::fstat;
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};

/// The path with the links of the part that exists.
pub fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => real(parent).join(name),
        _ => path.to_path_buf(),
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
    let name = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: all zeroes is a valid `open_how`.
    let mut how: libc::open_how = unsafe { std::mem::zeroed() };
    how.flags = (libc::O_PATH | libc::O_CLOEXEC) as u64;
    how.resolve = libc::RESOLVE_NO_SYMLINKS;
    // SAFETY: the name and the structure outlive the call.
    owned(unsafe {
        libc::syscall(libc::SYS_openat2, libc::AT_FDCWD, name.as_ptr(), &raw const how, size_of::<libc::open_how>())
    })
}

/// The same with one call for each name. A link is opened itself, and refused: nothing can be opened below it.
fn open_step_by_step(path: &Path) -> io::Result<OwnedFd> {
    let mut at = open_name(None, if path.is_absolute() { c"/" } else { c"." })?;
    for component in path.components() {
        if let Component::Normal(_) | Component::ParentDir = component {
            let name = CString::new(component.as_os_str().as_bytes())?;
            at = open_name(Some(&at), &name)?;
        }
    }
    Ok(at)
}

fn open_name(directory: Option<&OwnedFd>, name: &CStr) -> io::Result<OwnedFd> {
    let directory = directory.map_or(libc::AT_FDCWD, AsRawFd::as_raw_fd);
    let flags = libc::O_PATH | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    // SAFETY: the name outlives the call.
    let opened = owned(libc::c_long::from(unsafe { libc::openat(directory, name.as_ptr(), flags) }))?;
    match fstat(&opened)?.st_mode & libc::S_IFMT {
        libc::S_IFLNK => Err(io::Error::from_raw_os_error(libc::ELOOP)),
        _ => Ok(opened),
    }
}

/// Opens a regular file to read it; `None` for anything else. A pipe would block, and a link leads anywhere.
pub fn open_regular(path: &Path) -> io::Result<Option<File>> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    Ok(file.metadata()?.is_file().then_some(file))
}

/// The descriptor that a system call has created.
pub fn owned(result: libc::c_long) -> io::Result<OwnedFd> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has just created the descriptor; nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(result as i32) })
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
        // SAFETY: all zeroes is a valid `statx`.
        let mut found: libc::statx = unsafe { std::mem::zeroed() };
        let mask = libc::STATX_BASIC_STATS | libc::STATX_MNT_ID;
        // SAFETY: the empty path is static, and the structure outlives the call.
        let done = unsafe { libc::statx(file.as_raw_fd(), c"".as_ptr(), libc::AT_EMPTY_PATH, mask, &raw mut found) };
        if done != 0 {
            return Err(io::Error::last_os_error());
        }
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
                Ok(file) => fstat(&file).map(|found| (found.st_dev, found.st_ino)).map_err(|error| error as i32),
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
