//! Files and directories that exist only until a call has succeeded.
//!
//! They are registered, so that they are also removed if the session ends during the call.

use super::remove::remove_tree;
use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, openat, unlinkat};
use rustix::io::Errno;
use std::hash::{BuildHasher, RandomState};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

static LIVE: Mutex<Vec<Arc<Entry>>> = Mutex::new(Vec::new());

struct Entry {
    directory: OwnedFd,
    name: Vec<u8>,
    is_tree: bool,
}

/// See the module. Dropping it removes the file.
pub struct Temporary(Arc<Entry>);

const PREFIX: &[u8] = b".nacre-";
const SUFFIX: &[u8] = b".tmp";
const DIGITS: usize = 16;

/// True for names of this engine's temporary files.
pub fn is_temporary(name: &[u8]) -> bool {
    let digits = name.strip_prefix(PREFIX).and_then(|rest| rest.strip_suffix(SUFFIX));
    digits.is_some_and(|digits| digits.len() == DIGITS && digits.iter().all(u8::is_ascii_hexdigit))
}

impl Temporary {
    /// Creates a file that only its owner can read.
    pub fn file(directory: BorrowedFd<'_>) -> Result<(Self, OwnedFd), Errno> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
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
            let digits = format!("{:016x}", RandomState::new().hash_one(0));
            let name = [PREFIX, digits.as_bytes(), SUFFIX].concat();
            let directory = rustix::io::fcntl_dupfd_cloexec(directory, 3)?;
            let mut live = live();
            match make(&name) {
                Ok(made) => {
                    let entry = Arc::new(Entry { directory, name, is_tree });
                    live.push(Arc::clone(&entry));
                    return Ok((Self(entry), made));
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
        let mut live = live();
        let renamed = rename(&self.0.name);
        if renamed.is_ok() {
            live.retain(|entry| !Arc::ptr_eq(entry, &self.0));
        }
        drop(live);
        renamed
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let mut live = live();
        if live.iter().any(|entry| Arc::ptr_eq(entry, &self.0)) {
            live.retain(|entry| !Arc::ptr_eq(entry, &self.0));
            drop(live);
            self.0.remove();
        }
    }
}

impl Entry {
    fn remove(&self) {
        if self.is_tree {
            let _ = remove_tree(self.directory.as_fd(), &self.name, &self.name, &|| Ok(()));
        } else {
            let _ = unlinkat(&self.directory, &self.name[..], AtFlags::empty());
        }
    }
}

/// Removes all of them. Keeps the lock, so that no call creates or renames another before this process exits.
pub fn remove_all() {
    let live = live();
    live.iter().for_each(|entry| entry.remove());
    std::mem::forget(live);
}

fn live() -> MutexGuard<'static, Vec<Arc<Entry>>> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_engine_are_temporary() {
        assert!(is_temporary(b".nacre-0123456789abcdef.tmp"));
        for name in [&b".nacre-0123456789abcde.tmp"[..], b".nacre-0123456789abcdeg.tmp", b"a.tmp", b".nacre-.tmp"] {
            assert!(!is_temporary(name), "{}", name.escape_ascii());
        }
    }

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
}
