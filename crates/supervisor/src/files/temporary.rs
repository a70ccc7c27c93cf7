//! Files and directories that exist only until a call has succeeded.
//!
//! They are registered, so that they are also removed if the session ends during the call.

use nacre_containment::file_tree::remove_forced;
use nacre_containment::lock::Lock;
use nacre_protocol::files::temporary_name;
use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, openat, unlinkat};
use rustix::io::Errno;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

static LIVE: Lock<Vec<Arc<TemporaryFile>>> = Lock::new(Vec::new());

struct TemporaryFile {
    directory: OwnedFd,
    name: Vec<u8>,
    is_tree: bool,
    /// Whether there is a file with this temporary name. Locked by the system calls that change it, which may hang with
    /// their file system; meanwhile, [`LIVE`] is free for other calls.
    exists: Lock<bool>,
}

/// See the module. Dropping it removes the file.
pub struct Temporary(Arc<TemporaryFile>);

/// How often to try to remove a tree.
const REMOVALS: u32 = 50;
const PAUSE: Duration = Duration::from_millis(2);

impl Temporary {
    /// Creates a file that only its owner can read.
    pub fn file(directory: BorrowedFd<'_>) -> Result<(Self, OwnedFd), Errno> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Self::make(directory, false, |name| openat(directory, name, flags, Mode::from_raw_mode(0o600)))
    }

    /// Creates something else, like a FIFO, with a system call that fails if the name exists.
    pub fn other(directory: BorrowedFd<'_>, make: impl Fn(&[u8]) -> Result<(), Errno>) -> Result<Self, Errno> {
        Self::make(directory, false, make).map(|(temporary, ())| temporary)
    }

    /// Creates a directory that only its owner can use.
    pub fn directory(directory: BorrowedFd<'_>) -> Result<Self, Errno> {
        let make = |name: &[u8]| mkdirat(directory, name, Mode::from_raw_mode(0o700));
        Self::make(directory, true, make).map(|(temporary, ())| temporary)
    }

    fn make<T>(
        directory: BorrowedFd<'_>,
        is_tree: bool,
        make: impl Fn(&[u8]) -> Result<T, Errno>,
    ) -> Result<(Self, T), Errno> {
        loop {
            let name = temporary_name();
            let directory = rustix::io::fcntl_dupfd_cloexec(directory, 3)?;
            let entry = Arc::new(TemporaryFile { directory, name, is_tree, exists: Lock::new(false) });
            let temporary = Self(Arc::clone(&entry));
            let mut exists = entry.exists.lock();
            LIVE.lock().push(Arc::clone(&entry));
            match make(&entry.name) {
                Ok(made) => {
                    *exists = true;
                    return Ok((temporary, made));
                }
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno),
            }
        }
    }

    /// The temporary name in its directory.
    pub fn name(&self) -> &[u8] {
        &self.0.name
    }

    /// Gives it its final name with `rename`, after which it is no longer temporary.
    pub fn keep(self, rename: impl FnOnce(&[u8]) -> Result<(), Errno>) -> Result<(), Errno> {
        // Under the lock: an end of the session in between must not remove a file with its final name.
        let mut exists = self.0.exists.lock();
        let renamed = rename(&self.0.name);
        *exists = renamed.is_err();
        renamed
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        self.0.remove();
        LIVE.lock().retain(|entry| !Arc::ptr_eq(entry, &self.0));
    }
}

impl TemporaryFile {
    fn remove(&self) {
        let mut exists = self.exists.lock();
        if !std::mem::take(&mut *exists) {
            return;
        }
        if self.is_tree {
            // A copy that has not noticed its end yet can add a file meanwhile.
            for _ in 0..REMOVALS {
                if remove_forced(&self.directory, &self.name).is_ok() {
                    return;
                }
                std::thread::sleep(PAUSE);
            }
        } else {
            let _ = unlinkat(&self.directory, &self.name[..], AtFlags::empty());
        }
    }
}

/// Removes all of them, each on its own thread, since any may hang with its file system. Keeps the lock, so that no call
/// creates another before this process exits.
pub fn remove_all() {
    let live = LIVE.lock();
    std::thread::scope(|scope| {
        for entry in live.iter() {
            let remover = std::thread::Builder::new().spawn_scoped(scope, || entry.remove());
            if remover.is_err() {
                entry.remove();
            }
        }
    });
    std::mem::forget(live);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn it_is_gone_when_it_is_dropped_and_stays_when_it_is_kept() {
        let root = tempfile::tempdir().unwrap();
        let directory = std::fs::File::open(root.path()).unwrap();
        let count = || std::fs::read_dir(root.path()).unwrap().count();
        let (dropped, _) = Temporary::file(directory.as_fd()).unwrap();
        let tree = Temporary::directory(directory.as_fd()).unwrap();
        std::fs::write(root.path().join(std::str::from_utf8(tree.name()).unwrap()).join("x"), "x").unwrap();
        assert_eq!(count(), 2);
        drop((dropped, tree));
        assert_eq!(count(), 0);
        let (kept, _) = Temporary::file(directory.as_fd()).unwrap();
        kept.keep(|name| rustix::fs::renameat(&directory, name, &directory, "kept")).unwrap();
        assert!(root.path().join("kept").exists() && count() == 1);
    }

    #[test]
    fn a_file_system_that_hangs_holds_up_no_other_file() {
        let root = tempfile::tempdir().unwrap();
        let directory = std::fs::File::open(root.path()).unwrap();
        let (hangs, is_hanging) = std::sync::mpsc::channel();
        let (end, ends) = std::sync::mpsc::channel::<()>();
        let slow = directory.try_clone().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let hang = |_: &[u8]| {
                    hangs.send(()).unwrap();
                    ends.recv().unwrap();
                    Err(Errno::IO)
                };
                assert!(Temporary::other(slow.as_fd(), hang).is_err());
            });
            is_hanging.recv().unwrap();
            let (done, is_done) = std::sync::mpsc::channel();
            let other = directory.try_clone().unwrap();
            std::thread::spawn(move || done.send(Temporary::file(other.as_fd()).is_ok()));
            let made = is_done.recv_timeout(std::time::Duration::from_secs(30));
            end.send(()).unwrap();
            assert_eq!(made, Ok(true), "the other file waits");
        });
    }
}
