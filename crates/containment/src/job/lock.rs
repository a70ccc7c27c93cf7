//! The lock on a job's directory (flock(2)): held by the job's supervisor for as long as it lives.
//!
//! The kernel releases it when the process ends, in whatever way. So the lock distinguishes a directory in preparation
//! from a leftover, and a live job from a dead one where `meta.json` cannot be used: because it was damaged, or because
//! it comes from another pid namespace.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Takes the exclusive lock of a directory; `None` when another process holds it.
pub fn take(directory: &Path) -> io::Result<Option<File>> {
    let file = open(directory)?;
    Ok(flock(&file, libc::LOCK_EX)?.then_some(file))
}

/// True when a supervisor holds the lock. Callers take a shared lock for a moment, so they never see each other as one.
pub fn is_held(directory: &Path) -> bool {
    let Ok(file) = open(directory) else { return false };
    let taken = flock(&file, libc::LOCK_SH);
    // A child that another thread is just forking holds the lock too, until it runs its program.
    let _ = flock(&file, libc::LOCK_UN);
    matches!(taken, Ok(false))
}

/// Refuses anything but a directory without opening it: a FIFO would block.
fn open(directory: &Path) -> io::Result<File> {
    File::options().read(true).custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_NONBLOCK).open(directory)
}

fn flock(file: &File, kind: i32) -> io::Result<bool> {
    // SAFETY: a plain call on an open descriptor.
    if unsafe { libc::flock(file.as_raw_fd(), kind | libc::LOCK_NB) } == 0 {
        return Ok(true);
    }
    match io::Error::last_os_error() {
        error if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        error => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_held_until_the_holder_is_gone() {
        let directory = tempfile::tempdir().unwrap();
        assert!(!is_held(directory.path()));
        let held = take(directory.path()).unwrap().unwrap();
        assert!(is_held(directory.path()) && take(directory.path()).unwrap().is_none());
        flock(&held, libc::LOCK_UN).unwrap();
        assert!(!is_held(directory.path()));
    }

    #[test]
    fn a_fifo_or_a_symlink_has_no_lock() {
        let directory = tempfile::tempdir().unwrap();
        let (fifo, link) = (directory.path().join("fifo"), directory.path().join("link"));
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        std::os::unix::fs::symlink(directory.path(), &link).unwrap();
        assert!(take(&fifo).is_err() && take(&link).is_err() && !is_held(&fifo));
    }
}
