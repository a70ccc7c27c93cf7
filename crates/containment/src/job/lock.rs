//! The lock on a job's directory (flock(2)): held while anything of the job can run.
//!
//! The guard takes it before it forks the supervisor, and both share it. The kernel releases it when both have ended, in
//! whatever way. So the lock distinguishes a directory in preparation from a leftover, and a live job from a dead one
//! where `meta.json` cannot be used: because it was damaged, or because it comes from another pid namespace.
//!
//! A removal holds the lock of the root instead, so that a reader never takes it for the job.

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Opens a directory. Refuses anything else without opening it: a FIFO would block.
///
/// # Errors
/// Those of open(2).
pub fn open(directory: &Path) -> io::Result<File> {
    File::options().read(true).custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_NONBLOCK).open(directory)
}

/// Takes the exclusive lock of a directory; `None` when another process holds it.
///
/// # Errors
/// Those of open(2) and flock(2).
pub fn take(directory: &Path) -> io::Result<Option<File>> {
    let file = open(directory)?;
    Ok(try_lock(&file)?.then_some(file))
}

/// Takes the exclusive lock of an open directory; false when another process holds it.
///
/// # Errors
/// Those of flock(2).
pub fn try_lock(directory: &File) -> io::Result<bool> {
    lock(directory, FlockOperation::NonBlockingLockExclusive)
}

/// Takes a shared lock, or makes an exclusive one shared; false when another process holds the exclusive lock.
///
/// # Errors
/// Those of flock(2).
pub fn try_share(directory: &File) -> io::Result<bool> {
    lock(directory, FlockOperation::NonBlockingLockShared)
}

/// Releases the lock for every process that shares it: a child that another thread is just forking shares it too.
pub fn release(directory: &File) {
    let _ = flock(directory, FlockOperation::NonBlockingUnlock);
}

/// True while another process holds the lock. Callers take a shared lock for a moment, so they never see each other as
/// the holder.
///
/// # Errors
/// Those of flock(2): nothing is known.
pub fn is_held(directory: &File) -> io::Result<bool> {
    let taken = try_share(directory)?;
    if taken {
        release(directory);
    }
    Ok(!taken)
}

fn lock(directory: &File, operation: FlockOperation) -> io::Result<bool> {
    match flock(directory, operation) {
        Err(Errno::AGAIN) => Ok(false),
        locked => Ok(locked.map(|()| true)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_held_until_the_holder_is_gone() {
        let directory = tempfile::tempdir().unwrap();
        let looked = open(directory.path()).unwrap();
        assert!(!is_held(&looked).unwrap());
        let held = take(directory.path()).unwrap().unwrap();
        assert!(is_held(&looked).unwrap() && take(directory.path()).unwrap().is_none());
        release(&held);
        assert!(!is_held(&looked).unwrap());
    }

    #[test]
    fn a_fifo_or_a_symlink_has_no_lock() {
        let directory = tempfile::tempdir().unwrap();
        let (fifo, link) = (directory.path().join("fifo"), directory.path().join("link"));
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        std::os::unix::fs::symlink(directory.path(), &link).unwrap();
        assert!(take(&fifo).is_err() && take(&link).is_err());
    }
}
