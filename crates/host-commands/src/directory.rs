//! The directory with a link for each command.
//!
//! Its path depends on the names of the commands and on the program, so all sessions with the same commands share it, also
//! those of other hosts. Each supervisor holds a shared lock (flock(2)) as long as it lives. The last one removes the
//! directory when it ends, in whatever way its host has ended.
//!
//! The race: one supervisor removes the directory while another one opens it. The latter finds, once it has its lock, that
//! the path leads elsewhere, and starts again.

use nacre_containment::job::lock;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

/// The program in the directory, to which all links lead.
pub const PROGRAM: &str = "nacre-command";

/// How often another process may be in the way, which takes a few milliseconds.
const ATTEMPTS: u32 = 200;
const PAUSE: Duration = Duration::from_millis(5);

/// The path of the directory for these commands. `program` is the supervisor's, whose copies may differ between versions.
pub fn path<'a>(root: &Path, names: impl Iterator<Item = &'a str>, program: &Path) -> PathBuf {
    let mut hasher = DefaultHasher::new();
    let mut names: Vec<&str> = names.collect();
    names.sort_unstable();
    names.hash(&mut hasher);
    if let Ok(info) = program.metadata() {
        (info.len(), info.mtime(), info.mtime_nsec()).hash(&mut hasher);
    }
    root.join(format!("nacre-commands-{:016x}", hasher.finish()))
}

/// The directory, in use.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    lock: File,
}

impl Directory {
    /// Makes the directory, unless it exists, and keeps it. `program` is copied.
    ///
    /// # Errors
    /// It cannot be made, something of another user is in its place, or its file system runs no programs.
    pub fn open(path: &Path, names: &[String], program: &Path) -> io::Result<Self> {
        if let Some(parent) = path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
            let info = parent.symlink_metadata()?;
            // In a sticky directory, like that for temporary files, others cannot replace what belongs to this user.
            let is_shared = info.mode() & 0o022 != 0 && info.mode() & libc::S_ISVTX == 0;
            if !info.is_dir() || is_of_other(&info) || is_shared {
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, "another user can replace it"));
            }
        }
        for _ in 0..ATTEMPTS {
            if let Some(lock) = try_open(path)? {
                fill(path, names, program)?;
                return Ok(Self { path: path.into(), lock });
            }
            sleep(PAUSE);
        }
        Err(io::Error::other("another process does not release it"))
    }

    /// The open directory, which has the lock.
    pub fn lock(&self) -> BorrowedFd<'_> {
        self.lock.as_fd()
    }

    /// Removes the directory, unless another supervisor uses it.
    pub fn close(self) {
        // The kernel gives up the shared lock first, so of those that end at the same moment, the last one succeeds.
        if matches!(lock::try_lock(&self.lock), Ok(true)) && is_at(&self.lock, &self.path) {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// Opens the directory with a shared lock; `None` if it is being removed.
fn try_open(path: &Path) -> io::Result<Option<File>> {
    match DirBuilder::new().mode(0o755).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let directory = match lock::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let info = directory.metadata()?;
    if is_of_other(&info) || info.mode() & 0o022 != 0 {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "another user can write to it"));
    }
    Ok((lock::try_share(&directory)? && is_at(&directory, path)).then_some(directory))
}

fn is_of_other(info: &fs::Metadata) -> bool {
    info.uid() != 0 && info.uid() != nix::unistd::geteuid().as_raw()
}

fn is_at(directory: &File, path: &Path) -> bool {
    let identity = |info: fs::Metadata| (info.dev(), info.ino());
    let here = directory.metadata().map(identity).ok();
    here.is_some() && here == path.symlink_metadata().map(identity).ok()
}

/// Adds what is missing. Several supervisors may do so at the same time.
fn fill(path: &Path, names: &[String], program: &Path) -> io::Result<()> {
    if nix::sys::statvfs::statvfs(path)?.flags().contains(nix::sys::statvfs::FsFlags::ST_NOEXEC) {
        return Err(io::Error::other("its file system is mounted without programs (noexec)"));
    }
    // Whatever the umask is: programs may run as another user.
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
    let place = path.join(PROGRAM);
    if !place.exists() {
        let new = path.join(format!("{PROGRAM}.{}", std::process::id()));
        fs::copy(program, &new)?;
        fs::set_permissions(&new, fs::Permissions::from_mode(0o755))?;
        fs::rename(&new, &place)?;
    }
    for name in names {
        match symlink(OsStr::new(PROGRAM), path.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(path: &Path) -> io::Result<Directory> {
        Directory::open(path, &["ask".into(), "deploy".into()], Path::new("/proc/self/exe"))
    }

    #[test]
    fn the_path_depends_on_the_names_in_any_order() {
        let path = |names: &[&'static str]| path(Path::new("/r"), names.iter().copied(), Path::new("/proc/self/exe"));
        assert_eq!(path(&["a", "b"]), path(&["b", "a"]));
        assert_ne!(path(&["a", "b"]), path(&["ab"]));
    }

    #[test]
    fn the_last_user_removes_the_directory() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("state/commands");
        let (one, two) = (open(&path).unwrap(), open(&path).unwrap());
        assert_eq!(fs::read_link(path.join("ask")).unwrap(), Path::new(PROGRAM));
        assert_eq!(fs::read_dir(&path).unwrap().count(), 3);
        one.close();
        assert!(path.join("deploy").exists());
        two.close();
        assert!(!path.exists());
        open(&path).unwrap().close();
        assert!(!path.exists());
    }

    #[test]
    fn a_directory_that_others_can_write_to_and_a_link_are_refused() {
        let root = tempfile::tempdir().unwrap();
        let (shared, link) = (root.path().join("shared"), root.path().join("link"));
        fs::create_dir(&shared).unwrap();
        fs::set_permissions(&shared, fs::Permissions::from_mode(0o777)).unwrap();
        symlink(root.path(), &link).unwrap();
        assert!(open(&shared).is_err() && open(&link).is_err());
        assert_eq!(fs::read_dir(&shared).unwrap().count(), 0);
        assert!(open(&shared.join("commands")).is_err());
        assert!(!shared.join("commands").exists());
    }

    #[test]
    fn users_that_come_and_go_at_the_same_time_always_find_it_and_leave_nothing() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("commands");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20 {
                        let directory = Directory::open(&path, &["ask".into()], Path::new("/bin/true")).unwrap();
                        assert!(path.join("ask").exists());
                        directory.close();
                    }
                });
            }
        });
        assert!(!path.exists());
    }
}
