//! Renames a directory that the kernel refuses to rename, by giving its files further names.
//!
//! In an overlay that an ordinary user has mounted, rename(2) of a directory with content in a lower layer fails with EXDEV. Here
//! a complete copy is made beside the target, in which each file is a further name of the same file: open descriptors and
//! mappings stay with it. One rename(2) then puts the copy in place, and the source is removed. Whenever this process is killed,
//! the source or the target is complete.
//!
//! What another process creates in the source meanwhile is moved along: it is there and not in the copy. What another process
//! removes there meanwhile may come back in the target.

use crate::extended_attributes::{filled, is_label, is_mark};
use crate::file_tree::{Check, Cursor, existing_names, names, remove_forced, unless};
use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, RenameFlags, Stat, StatxFlags, Timespec, Timestamps, Uid, XattrFlags, fchmod,
    fchown, fgetxattr, flistxattr, fsetxattr, fstat, futimens, linkat, mkdirat, open, openat, readlinkat, renameat,
    renameat_with, statat, statx, unlinkat,
};
use rustix::io::{Errno, Result};
use std::ffi::{CStr, OsStr};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// How often a source is looked through in which other processes go on creating files.
const ROUNDS: u32 = 8;
const WRITE_AND_ENTER: u32 = 0o300;

/// An entry of an open directory.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    /// The directory.
    pub directory: &'a OwnedFd,
    /// The name in it.
    pub name: &'a [u8],
}

/// The directories in which processes are: they would be left in a directory that is removed.
pub struct Standing {
    /// Their paths and devices: a program outside may be in the real directory, at the same path.
    places: Vec<(PathBuf, u64)>,
    /// The descriptors of this process, also once it has lost its way to `/proc`.
    own: OwnedFd,
}

impl Standing {
    /// Looks at all processes that this one may look at.
    ///
    /// # Errors
    /// `/proc` cannot be read.
    pub fn look() -> io::Result<Self> {
        let processes = std::fs::read_dir("/proc")?.flatten();
        let processes = processes.filter(|entry| entry.file_name().as_bytes().first().is_some_and(u8::is_ascii_digit));
        let places = processes.filter_map(|entry| {
            let link = entry.path().join("cwd");
            Some((std::fs::read_link(&link).ok()?, std::fs::metadata(&link).ok()?.dev()))
        });
        let places = places.collect();
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self { places, own: open("/proc/self/fd", flags, Mode::empty())? })
    }

    fn is_in(&self, directory: &OwnedFd) -> Result<bool> {
        let path = readlinkat(&self.own, directory.as_raw_fd().to_string(), Vec::new())?;
        let path = Path::new(OsStr::from_bytes(path.to_bytes()));
        let device = fstat(directory)?.st_dev;
        Ok(self.places.iter().any(|(place, on)| *on == device && place.starts_with(path)))
    }
}

/// Renames a directory, as renameat2(2) with these flags would; an exchange is not possible. `staging` is a free name in the
/// directory of the target. The check can stop it until the target is in place.
///
/// # Errors
/// `EXDEV` if a process is in the directory, if something is mounted there, or if a part of it would get another owner. `ENOTEMPTY` for a target that
/// has entries. Those of the system calls and of the check. The source is complete after an error, unless the target is.
pub fn relocate(
    from: Place<'_>,
    to: Place<'_>,
    flags: RenameFlags,
    (staging, standing): (&[u8], &Standing),
    check: Check<'_>,
) -> Result<()> {
    let path = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let source = openat(from.directory, from.name, path, Mode::empty())?;
    if flags.contains(RenameFlags::EXCHANGE) || standing.is_in(&source)? {
        return Err(Errno::XDEV);
    }
    // Before anything is copied in vain.
    if let Ok(target) = Cursor::open_exactly(to.directory, to.name)
        && !names(&target)?.is_empty()
    {
        return Err(Errno::NOTEMPTY);
    }
    mkdirat(to.directory, staging, Mode::RWXU)?;
    let placed = link(from, Place { name: staging, ..to }, check)
        .and_then(|()| check())
        .and_then(|()| renameat_with(to.directory, staging, to.directory, to.name, flags));
    if let Err(errno) = placed {
        let _ = remove_forced(to.directory, staging);
        return Err(errno);
    }
    for _ in 0..ROUNDS {
        follow(from, to)?;
        match unlinkat(from.directory, from.name, AtFlags::REMOVEDIR) {
            Err(Errno::NOTEMPTY | Errno::EXIST) => {}
            removed => return removed,
        }
    }
    Err(Errno::NOTEMPTY)
}

/// Gives everything in a directory further names in an existing empty one, which becomes like it.
///
/// # Errors
/// `EXDEV` if something is mounted in it. `ENOENT` or `ESTALE` if another process moves or removes a part of it. Those of the
/// system calls and of the check.
pub fn link(from: Place<'_>, to: Place<'_>, check: Check<'_>) -> Result<()> {
    let mut source = Cursor::open_exactly(from.directory, from.name)?;
    let mut target = Cursor::open_exactly(to.directory, to.name)?;
    let mount = mount_of(&source)?;
    let mut levels = vec![existing_names(&source)?.into_iter()];
    while let Some(names) = levels.last_mut() {
        check()?;
        let Some(name) = names.next() else {
            levels.pop();
            // Last, since its times change with its entries.
            liken(&source, &target)?;
            if !levels.is_empty() {
                source.leave()?;
                target.leave()?;
            }
            continue;
        };
        match linkat(&source, &name[..], &target, &name[..], AtFlags::empty()) {
            Ok(()) => continue,
            // As for a file that must not be linked.
            Err(Errno::PERM) if is_directory(&source, &name)? => {}
            Err(errno) => return Err(errno),
        }
        source.enter(&name)?;
        if mount_of(&source)? != mount {
            return Err(Errno::XDEV);
        }
        mkdirat(&target, &name[..], Mode::RWXU)?;
        target.enter(&name)?;
        levels.push(existing_names(&source)?.into_iter());
    }
    Ok(())
}

/// Removes from a source what the target has, too. What only the source has moves to the target, also a later version of a file
/// that another process has put in place of an earlier one.
fn follow(from: Place<'_>, to: Place<'_>) -> Result<()> {
    let mut source = Cursor::open_exactly(from.directory, from.name)?;
    let mut target = Cursor::open_exactly(to.directory, to.name)?;
    open_up(&source)?;
    let mut levels = vec![names(&source)?.into_iter()];
    while let Some(names_here) = levels.last_mut() {
        let Some(name) = names_here.next() else {
            levels.pop();
            if !levels.is_empty() {
                target.leave()?;
                let left = source.leave()?;
                match unlinkat(&source, &left[..], AtFlags::REMOVEDIR) {
                    // The next round takes what has been created meanwhile.
                    Ok(()) | Err(Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST) => {}
                    Err(errno) => return Err(errno),
                }
            }
            continue;
        };
        let stat = |directory: &Cursor| match statat(directory, &name[..], AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => Ok(None),
            found => found.map(Some),
        };
        let Some(left) = stat(&source)? else { continue };
        match stat(&target)? {
            None => renameat(&source, &name[..], &target, &name[..])?,
            Some(placed) if kind(&left) == FileType::Directory && kind(&placed) == FileType::Directory => {
                target.enter(&name)?;
                source.enter(&name)?;
                open_up(&source)?;
                levels.push(names(&source)?.into_iter());
            }
            Some(placed) if placed.st_ino != left.st_ino && changed(&left) > changed(&placed) => {
                renameat(&source, &name[..], &target, &name[..])?;
            }
            Some(_) => unlinkat(&source, &name[..], AtFlags::empty())?,
        }
    }
    Ok(())
}

/// Lets the owner remove what is in a directory.
fn open_up(directory: &Cursor) -> Result<()> {
    let mode = fstat(directory)?.st_mode;
    if mode & WRITE_AND_ENTER == WRITE_AND_ENTER {
        return Ok(());
    }
    fchmod(directory, Mode::from_raw_mode(mode & 0o7777 | WRITE_AND_ENTER))
}

/// Gives a directory the owner, the mode, the extended attributes and the times of another one.
fn liken(from: &Cursor, to: &Cursor) -> Result<()> {
    let (found, made) = (fstat(from)?, fstat(to)?);
    let user = (found.st_uid != made.st_uid).then(|| Uid::from_raw(found.st_uid));
    let group = (found.st_gid != made.st_gid).then(|| Gid::from_raw(found.st_gid));
    if user.is_some() || group.is_some() {
        // Nor could rename(2) change the owner.
        fchown(to, user, group).map_err(|_| Errno::XDEV)?;
    }
    fchmod(to, Mode::from_raw_mode(found.st_mode & 0o7777))?;
    let list = match filled(|buffer| flistxattr(from, buffer)) {
        Err(Errno::OPNOTSUPP) => Vec::new(),
        list => list?,
    };
    for name in list.split_inclusive(|byte| *byte == 0).filter_map(|name| CStr::from_bytes_with_nul(name).ok()) {
        if !is_mark(name.to_bytes()) && !is_label(name.to_bytes()) {
            let value = filled(|buffer| fgetxattr(from, name, buffer))?;
            unless(&[Errno::OPNOTSUPP], fsetxattr(to, name, &value, XattrFlags::empty()))?;
        }
    }
    let time = |tv_sec: i64, tv_nsec: u64| Timespec { tv_sec, tv_nsec: tv_nsec as i64 };
    let last_access = time(found.st_atime, found.st_atime_nsec);
    futimens(to, &Timestamps { last_access, last_modification: time(found.st_mtime, found.st_mtime_nsec) })
}

fn kind(found: &Stat) -> FileType {
    FileType::from_raw_mode(found.st_mode)
}

fn changed(found: &Stat) -> (i64, u64) {
    (found.st_ctime, found.st_ctime_nsec)
}

fn is_directory(directory: &Cursor, name: &[u8]) -> Result<bool> {
    Ok(kind(&statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?) == FileType::Directory)
}

/// The mount that a directory is on (Linux 5.8).
fn mount_of(directory: impl AsFd) -> Result<u64> {
    Ok(statx(directory, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID)?.stx_mnt_id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::panic::AssertUnwindSafe;
    use std::time::{Duration, SystemTime};

    const STAGING: &[u8] = b".staging";

    struct Root(tempfile::TempDir, OwnedFd);

    impl Root {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let opened = open(directory.path(), OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
            Self(directory, opened)
        }

        fn at(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn make(&self) {
            fs::create_dir_all(self.at("a/b/c")).unwrap();
            for name in ["a/1", "a/b/2", "a/b/c/3"] {
                fs::write(self.at(name), name).unwrap();
            }
            symlink("b", self.at("a/link")).unwrap();
            let hour = SystemTime::UNIX_EPOCH + Duration::from_secs(3600);
            for (name, mode) in [("a/b/c", 0o555), ("a/b", 0o1750), ("a", 0o700)] {
                fs::set_permissions(self.at(name), PermissionsExt::from_mode(mode)).unwrap();
                fs::File::open(self.at(name)).unwrap().set_modified(hour).unwrap();
            }
        }

        fn relocate(&self, to: &str, flags: RenameFlags, check: Check<'_>) -> Result<()> {
            let place = |name| Place { directory: &self.1, name };
            let standing = Standing::look().unwrap();
            relocate(place(b"a"), place(to.as_bytes()), flags, (STAGING, &standing), check)
        }

        /// The names, modes, times of directories, and contents below a name.
        fn look(&self, name: &str) -> Vec<String> {
            let mut found = Vec::new();
            let mut pending = vec![String::new()];
            while let Some(path) = pending.pop() {
                let at = self.at(name).join(path.trim_start_matches('/'));
                let Ok(entry) = at.symlink_metadata() else { continue };
                let content = if entry.is_dir() {
                    let names =
                        fs::read_dir(&at).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
                    pending.extend(names.map(|name| format!("{path}/{name}")));
                    format!("{:?}", entry.modified().unwrap())
                } else {
                    fs::read_to_string(&at)
                        .or_else(|_| fs::read_link(&at).map(|link| link.display().to_string()))
                        .unwrap()
                };
                found.push(format!("{path} {:o} {content}", entry.permissions().mode()));
            }
            found.sort();
            found
        }
    }

    #[test]
    fn a_directory_has_all_that_it_had_under_its_new_name() {
        for target in ["free", "empty"] {
            let root = Root::new();
            root.make();
            fs::create_dir(root.at("empty")).unwrap();
            let before = root.look("a");
            assert_eq!(before.len(), 7);
            root.relocate(target, RenameFlags::empty(), &|| Ok(())).unwrap();
            assert_eq!(root.look(target), before);
            assert!(!root.at("a").exists() && !root.at(".staging").exists());
        }
    }

    #[test]
    fn the_source_stays_where_a_rename_is_refused() {
        let root = Root::new();
        root.make();
        fs::create_dir_all(root.at("full/x")).unwrap();
        fs::write(root.at("file"), "").unwrap();
        let before = root.look("a");
        for (target, flags, expected) in [
            ("full", RenameFlags::empty(), Errno::NOTEMPTY),
            ("file", RenameFlags::empty(), Errno::NOTDIR),
            ("full", RenameFlags::EXCHANGE, Errno::XDEV),
            ("file", RenameFlags::NOREPLACE, Errno::EXIST),
        ] {
            assert_eq!(root.relocate(target, flags, &|| Ok(())), Err(expected), "{target}");
            assert_eq!(root.look("a"), before);
            assert!(!root.at(".staging").exists());
        }
    }

    #[test]
    fn one_of_both_is_complete_wherever_it_is_stopped_or_killed() {
        for is_killed in [false, true] {
            for steps in 0.. {
                let root = Root::new();
                root.make();
                let before = root.look("a");
                let left = Cell::new(steps);
                let check = || match left.replace(left.get() - 1) {
                    // Nothing that follows happens, as after a kill.
                    0 if is_killed => std::panic::resume_unwind(Box::new(())),
                    0 => Err(Errno::CANCELED),
                    _ => Ok(()),
                };
                let run = AssertUnwindSafe(|| root.relocate("m", RenameFlags::empty(), &check));
                let done = std::panic::catch_unwind(run).is_ok_and(|done| done.is_ok());
                assert_eq!(root.look(if done { "m" } else { "a" }), before);
                assert!(is_killed || !root.at(".staging").exists());
                if done {
                    assert!(steps >= 10);
                    break;
                }
            }
        }
    }

    #[test]
    fn what_other_processes_create_meanwhile_moves_along() {
        let root = Root::new();
        root.make();
        let calls = Cell::new(0);
        let check = || {
            calls.set(calls.get() + 1);
            fs::write(root.at(&format!("a/new-{}", calls.get())), "new").unwrap();
            fs::create_dir_all(root.at(&format!("a/b/dir-{}/deep", calls.get()))).unwrap();
            fs::write(root.at("a/replaced"), "late").unwrap();
            fs::rename(root.at("a/replaced"), root.at("a/1")).unwrap();
            Ok(())
        };
        root.relocate("m", RenameFlags::empty(), &check).unwrap();
        for call in 1..=calls.get() {
            assert!(root.at(&format!("m/new-{call}")).exists() && root.at(&format!("m/b/dir-{call}/deep")).exists());
        }
        assert_eq!(fs::read_to_string(root.at("m/1")).unwrap(), "late");
        assert!(!root.at("a").exists());
    }

    #[test]
    fn a_directory_in_which_a_process_is_stays() {
        let root = Root::new();
        root.make();
        let mut process = std::process::Command::new("sleep").arg("1000").current_dir(root.at("a/b")).spawn().unwrap();
        assert_eq!(root.relocate("m", RenameFlags::empty(), &|| Ok(())), Err(Errno::XDEV));
        process.kill().unwrap();
        process.wait().unwrap();
        assert_eq!(root.relocate("m", RenameFlags::empty(), &|| Ok(())), Ok(()));
    }
}
