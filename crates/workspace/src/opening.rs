//! The conditions for a workspace, and the namespaces of its keeper.

use crate::failure::{Failure, errno_of, while_doing};
use crate::overlay::Mounter;
use nacre_containment::mount_table;
use nacre_containment::user_namespace::{map_ids, own_ids};
use rustix::fs::{
    AtFlags, Mode, OFlags, ResolveFlags, StatxFlags, fstat, fstatfs, ftruncate, openat, openat2, statx, unlinkat,
};
use rustix::io::{Errno, Result};
use rustix::mount::{MountPropagationFlags, UnmountFlags, mount_change, unmount};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

/// The kind of an overlay (statfs(2)).
const OVERLAY: i64 = 0x794c_7630;
/// Attempts to see a change time move. A tick of the clock of an older kernel takes four milliseconds at most.
const ATTEMPTS: u32 = 1_000_000;

/// Enters a mount namespace; a user namespace first if that is the only way.
///
/// # Errors
/// [`Failure::Unsupported`] if the machine allows neither.
pub fn enter_namespaces() -> std::result::Result<Mounter, Failure> {
    mount_table::has_namespaces().map_err(|error| Failure::Unsupported(error.to_string()))?;
    let mounter = match unshare(UnshareFlags::NEWNS) {
        Ok(()) => Mounter::Root,
        Err(_) => {
            let refused = |error: io::Error| {
                Failure::Unsupported(format!("programs cannot have mounts of their own here: {error}"))
            };
            let own = own_ids();
            unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNS).map_err(|errno| refused(errno.into()))?;
            map_ids("self", own, own).map_err(refused)?;
            Mounter::User
        }
    };
    let alone = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", alone).map_err(while_doing("separate the mounts of the workspace"))?;
    Ok(mounter)
}

fn unshare(flags: UnshareFlags) -> Result<()> {
    // SAFETY: no flag is FILES, so descriptors stay as they are.
    unsafe { unshare_unsafe(flags) }
}

/// Opens the real directory, in the present mount namespace.
pub fn open_real(path: &Path) -> std::result::Result<OwnedFd, Failure> {
    let opened = (|| {
        let (parent, name) = (path.parent().ok_or(Errno::INVAL)?, path.file_name().ok_or(Errno::INVAL)?);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let parent = openat2(rustix::fs::CWD, parent, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?;
        openat(&parent, name, flags | OFlags::NOFOLLOW, Mode::empty())
    })();
    opened.map_err(while_doing(format!("open {}", path.display())))
}

/// When a directory was created, in seconds and nanoseconds. Tells it from a later one to which the file system has given
/// the same inode number. `None` if the file system does not know. An overlay gives another time once it has copied a
/// directory, so it does not count.
pub fn born(directory: &OwnedFd) -> Option<(i64, u32)> {
    if fstatfs(directory).ok()?.f_type as i64 == OVERLAY {
        return None;
    }
    let found = statx(directory, "", AtFlags::EMPTY_PATH, StatxFlags::BTIME).ok()?;
    let is_known = StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::BTIME);
    is_known.then_some((found.stx_btime.tv_sec, found.stx_btime.tv_nsec))
}

/// Refuses what an overlay would hide: it shows the directory beneath a mount. `is_passed`: sessions would have it again, but the
/// kernel mounts no overlay above what an ordinary user could uncover.
pub fn refuse_mounts_below(path: &Path, is_passed: bool) -> std::result::Result<(), Failure> {
    let remedy = match is_passed {
        true => "only root with CAP_SYS_ADMIN can use submounts: 'pass'. Choose a workspace without mounts",
        false => "choose a workspace without mounts, or set submounts: 'pass', by which writes there are real",
    };
    match mounts_below(path)?.first() {
        None => Ok(()),
        Some(place) => {
            Err(Failure::Unsupported(format!("a file system is mounted below it, at {}: {remedy}", place.display())))
        }
    }
}

/// Detaches what is mounted below a directory, in the present mount namespace, which no other process uses.
pub fn detach_mounts_below(path: &Path) -> std::result::Result<(), Failure> {
    for place in mounts_below(path)?.iter().rev() {
        // Another mount may hide it, or it has been detached with the one above.
        let _ = unmount(place, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW);
    }
    match mounts_below(path)?.first() {
        None => Ok(()),
        Some(place) => Err(Failure::System(Errno::BUSY, format!("look below the mount at {}", place.display()))),
    }
}

/// Where something is mounted below a directory.
fn mounts_below(path: &Path) -> std::result::Result<Vec<PathBuf>, Failure> {
    let unread = |error: io::Error| Failure::System(errno_of(&error), "read the list of mounts".into());
    let mounts = mount_table::of_this_process().map_err(unread)?.into_iter().map(|mount| mount.place);
    Ok(mounts.filter(|place| place != path && place.starts_with(path)).collect())
}

/// The moment of opening, as a change time of the real directory's file system: every later change of a file there has
/// at least this one, and every earlier change an earlier one.
///
/// # Errors
/// [`Failure::Unsupported`] if no file can be created on that file system.
pub fn moment(base: &OwnedFd, store: &OwnedFd) -> std::result::Result<(i64, i64), Failure> {
    let is_same = |store: &OwnedFd| Ok::<_, Errno>(fstat(store)?.st_dev == fstat(base)?.st_dev);
    let probe = unnamed(base).or_else(|errno| match is_same(store) {
        Ok(true) => unnamed(store),
        _ => Err(errno),
    });
    let probe = probe.map_err(|errno| {
        Failure::Unsupported(format!("no file can be created on its file system, which tells the time: {errno}"))
    })?;
    moved(&probe).map_err(while_doing("find the time of the workspace's file system"))
}

/// A new file without a name. File systems that know no such file, like virtiofs, get one that loses its name at once.
fn unnamed(directory: &OwnedFd) -> Result<OwnedFd> {
    match openat(directory, ".", OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR) {
        // Kernels that do not know the flag see a directory that is to be written.
        Err(Errno::OPNOTSUPP | Errno::ISDIR) => unlinked(directory),
        opened => opened,
    }
}

/// Another program may take a name first, so none can be foreseen.
fn unlinked(directory: &OwnedFd) -> Result<OwnedFd> {
    let name = format!(".nacre-{:016x}", RandomState::new().build_hasher().finish());
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::RDWR | OFlags::CLOEXEC;
    let file = openat(directory, &name, flags, Mode::RUSR | Mode::WUSR)?;
    unlinkat(directory, &name, AtFlags::empty())?;
    Ok(file)
}

/// Changes a file until its change time moves: files often share one for some milliseconds. Returns the new one.
///
/// # Errors
/// Those of the system calls; `ETIME` if it does not move.
pub fn moved(file: &OwnedFd) -> Result<(i64, i64)> {
    let time = |file: &OwnedFd| fstat(file.as_fd()).map(|found| (found.st_ctime, found.st_ctime_nsec as i64));
    let first = time(file)?;
    for attempt in 0..ATTEMPTS {
        ftruncate(file, u64::from(attempt % 2))?;
        let now = time(file)?;
        if now != first {
            return Ok(now);
        }
    }
    Err(Errno::TIME)
}

/// The reason why an overlay cannot be mounted.
pub fn cannot_mount(errno: Errno) -> Failure {
    match errno {
        Errno::INVAL | Errno::PERM | Errno::NODEV | Errno::OPNOTSUPP => {
            Failure::Unsupported(format!("the kernel cannot mount an overlay here: {errno}"))
        }
        _ => Failure::System(errno, "mount the workspace".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn only_another_directory_was_created_at_another_time() {
        let directory = tempfile::tempdir().unwrap();
        let open = |name: &str| crate::testing::open(&directory.path().join(name));
        fs::create_dir(directory.path().join("one")).unwrap();
        let first = open("one");
        moment(&first, &first).unwrap();
        fs::create_dir(directory.path().join("two")).unwrap();
        let before = born(&first);
        fs::write(directory.path().join("one/file"), "").unwrap();
        fs::rename(directory.path().join("one"), directory.path().join("moved")).unwrap();
        assert_eq!(born(&open("moved")), before);
        assert!(before.is_none() || born(&open("two")) > before);
    }

    #[test]
    fn an_overlay_does_not_know_when_a_directory_was_created() {
        let name = "opening::tests::an_overlay_does_not_know_when_a_directory_was_created";
        crate::testing::in_namespaces(name, |workspace| {
            assert_eq!(born(&workspace.mount(1).merged), None);
        });
    }

    #[test]
    fn a_file_without_a_name_needs_no_support_of_the_file_system() {
        let directory = tempfile::tempdir().unwrap();
        let base = rustix::fs::open(directory.path(), OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
        let file = unlinked(&base).unwrap();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
        let before = fstat(&file).unwrap();
        assert_eq!(before.st_nlink, 0);
        assert!(moved(&file).unwrap() > (before.st_ctime, before.st_ctime_nsec as i64));
    }

    #[test]
    fn the_moment_divides_earlier_from_later_changes() {
        let directory = tempfile::tempdir().unwrap();
        let base = rustix::fs::open(directory.path(), OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
        let time = |name: &str| {
            let file = fs::File::open(directory.path().join(name)).unwrap();
            let found = fstat(&file).unwrap();
            (found.st_ctime, found.st_ctime_nsec as i64)
        };
        for round in 0..100 {
            let (before, after) = (format!("before-{round}"), format!("after-{round}"));
            fs::write(directory.path().join(&before), "").unwrap();
            let moment = moment(&base, &base).unwrap();
            fs::write(directory.path().join(&after), "").unwrap();
            assert!(time(&before) < moment && time(&after) >= moment, "round {round}");
        }
    }
}
