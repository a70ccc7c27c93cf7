//! Placeholders: an empty directory or a small file where one is missing that no program may create. A mount needs it there.
//!
//! The last session that uses a placeholder removes it. Each session holds a lock, and the one that can lock it alone is the
//! last. A session that begins just then looks whether what it has locked is still there.
//!
//! What anything else has changed stays: a placeholder is known by its modification time.

use crate::paths::open_path;
use crate::project::{PLACED_AT, is_placeholder};
use nacre_protocol::confinement::Placeholder;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, Flock, FlockArg, OFlag, openat};
use nix::sys::stat::{Mode, futimens, mkdirat};
use nix::sys::time::TimeSpec;
use nix::unistd::{Gid, Uid, UnlinkatFlags, fchownat, linkat, unlinkat};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// How often a placeholder that another session is removing is looked at again, and the time between.
const ATTEMPTS: usize = 20;
const PAUSE: Duration = Duration::from_millis(1);

/// The placeholders that a session uses.
#[derive(Default)]
pub struct Placeholders(Vec<HeldPlaceholder>, BTreeMap<PathBuf, Directory>);

/// The directory that a placeholder is in: its device, its inode and, since that may be used again, when it was made.
type Directory = (u64, u64, Option<SystemTime>);

struct HeldPlaceholder {
    path: PathBuf,
    is_file: bool,
    /// Locked, for as long as it is open.
    opened: Flock<File>,
}

impl Placeholders {
    /// Creates those that are missing. One that cannot be created, or locked, is left out: programs cannot create it either, or
    /// something is there already, which is protected.
    pub fn make(wanted: &[Placeholder]) -> Self {
        let directories = wanted.iter().filter_map(|wanted| Some((wanted.path.clone(), directory_of(wanted)?)));
        Self(wanted.iter().filter_map(hold).collect(), directories.collect())
    }

    /// Creates those again whose directory has been replaced. In a directory that is still there, a program of the machine may be about
    /// to create a file of the name, or to remove them all.
    pub fn renew(&mut self, wanted: &[Placeholder]) {
        for wanted in wanted {
            let directory = directory_of(wanted);
            if directory.is_none() || self.1.get(&wanted.path) == directory.as_ref() {
                continue;
            }
            self.0.retain(|held| held.path != wanted.path);
            self.0.extend(hold(wanted));
            self.1.extend(directory.map(|directory| (wanted.path.clone(), directory)));
        }
    }

    /// Removes those that no other session uses. Nothing of this one runs any more.
    pub fn remove(&self) {
        for held in &self.0 {
            let _ = held.remove();
        }
    }
}

impl HeldPlaceholder {
    fn remove(&self) -> io::Result<()> {
        self.opened.relock(FlockArg::LockExclusiveNonblock)?;
        let (parent, name) = parent_of(&self.path)?;
        // What has been put into a directory changes its time, and keeps it from being removed.
        if is_placeholder(&self.opened.metadata()?, self.is_file) && self.is_there(&parent, name)? {
            let flag = if self.is_file { UnlinkatFlags::NoRemoveDir } else { UnlinkatFlags::RemoveDir };
            unlinkat(&parent, name, flag)?;
        }
        Ok(())
    }

    /// Whether it is still in its place.
    fn is_there(&self, parent: &OwnedFd, name: &OsStr) -> io::Result<bool> {
        let (found, own) = (File::from(open(parent, name, self.is_file)?).metadata()?, self.opened.metadata()?);
        Ok((found.dev(), found.ino()) == (own.dev(), own.ino()))
    }
}

/// Creates a placeholder unless it exists, and locks it.
fn hold(wanted: &Placeholder) -> Option<HeldPlaceholder> {
    for _ in 0..ATTEMPTS {
        match try_to_hold(wanted) {
            Ok(Some(held)) => return Some(held),
            Ok(None) => std::thread::sleep(PAUSE),
            Err(_) => return None,
        }
    }
    None
}

/// `None` if another session is removing it just now.
fn try_to_hold(wanted: &Placeholder) -> io::Result<Option<HeldPlaceholder>> {
    let (parent, name) = parent_of(&wanted.path)?;
    match create(&parent, name, wanted.text.as_deref()) {
        Err(Errno::EEXIST) => {}
        created => created?,
    }
    let is_file = wanted.text.is_some();
    let opened = match open(&parent, name, is_file) {
        Err(Errno::ENOENT) => return Ok(None),
        opened => File::from(opened?),
    };
    if !is_placeholder(&opened.metadata()?, is_file) {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    let Ok(opened) = Flock::lock(opened, FlockArg::LockSharedNonblock) else { return Ok(None) };
    let held = HeldPlaceholder { path: wanted.path.clone(), is_file, opened };
    Ok(held.is_there(&parent, name).unwrap_or(false).then_some(held))
}

/// Creates a placeholder, for the owner of the directory that it is in. A file gets its name once it is complete: git of the
/// machine may read it at any time.
fn create(parent: &OwnedFd, name: &OsStr, text: Option<&str>) -> nix::Result<()> {
    let Some(text) = text else {
        mkdirat(parent, name, Mode::from_bits_truncate(0o755))?;
        return finish(parent, &open(parent, name, false)?);
    };
    let unique = format!(".nacre-{}-{}", std::process::id(), name.display());
    let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let mut file = File::from(openat(parent, unique.as_str(), flags, Mode::from_bits_truncate(0o644))?);
    let written =
        file.write_all(text.as_bytes()).map_err(|error| error.raw_os_error().map_or(Errno::EIO, Errno::from_raw));
    let linked = written
        .and_then(|()| finish(parent, &file.into()))
        .and_then(|()| linkat(parent, unique.as_str(), parent, name, AtFlags::empty()));
    let _ = unlinkat(parent, unique.as_str(), UnlinkatFlags::NoRemoveDir);
    linked
}

fn finish(parent: &OwnedFd, placeholder: &OwnedFd) -> nix::Result<()> {
    if nix::unistd::geteuid().is_root() {
        let found = nix::sys::stat::fstat(parent)?;
        let owner = (Some(Uid::from_raw(found.st_uid)), Some(Gid::from_raw(found.st_gid)));
        // In a user namespace, the owner may have no number.
        let _ = fchownat(placeholder, "", owner.0, owner.1, AtFlags::AT_EMPTY_PATH);
    }
    let time = TimeSpec::new(PLACED_AT, 0);
    futimens(placeholder, &time, &time)
}

fn open(parent: &OwnedFd, name: &OsStr, is_file: bool) -> nix::Result<OwnedFd> {
    let kind = if is_file { OFlag::O_NONBLOCK } else { OFlag::O_DIRECTORY };
    openat(parent, name, OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | kind, Mode::empty())
}

fn directory_of(wanted: &Placeholder) -> Option<Directory> {
    let found = wanted.path.parent()?.metadata().ok()?;
    Some((found.dev(), found.ino(), found.created().ok()))
}

fn parent_of(path: &Path) -> io::Result<(OwnedFd, &OsStr)> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    Ok((open_path(parent)?, name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn wanted(root: &Path) -> [Placeholder; 2] {
        [("directory", None), ("file", Some("text".to_string()))]
            .map(|(name, text)| Placeholder { path: root.join(name), text })
    }

    #[test]
    fn the_last_session_removes_a_placeholder() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let wanted = wanted(&root);
        let left = || fs::read_dir(&root).unwrap().count();
        let (one, other) = (Placeholders::make(&wanted), Placeholders::make(&wanted));
        assert_eq!((one.0.len(), other.0.len(), left()), (2, 2, 2));
        assert_eq!(fs::read_to_string(root.join("file")).unwrap(), "text");
        one.remove();
        assert_eq!(left(), 2, "another session uses them");
        other.remove();
        assert_eq!(left(), 0);
        // What a killed session has left is used and removed by the next one.
        drop(Placeholders::make(&wanted));
        assert_eq!(left(), 2);
        Placeholders::make(&wanted).remove();
        assert_eq!(left(), 0);
    }

    #[test]
    fn what_others_have_made_or_changed_stays() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let wanted = wanted(&root);
        let held = Placeholders::make(&wanted);
        fs::write(root.join("directory/file"), "mine").unwrap();
        fs::write(root.join("file"), "mine").unwrap();
        held.remove();
        assert_eq!(fs::read_to_string(root.join("directory/file")).unwrap(), "mine");
        let again = Placeholders::make(&wanted);
        assert!(again.0.is_empty());
        again.remove();
        assert_eq!(fs::read_to_string(root.join("file")).unwrap(), "mine");
    }
}
