//! Removes directory trees of any depth, whatever the modes of their directories.

use crate::tree::names;
use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, fchmod, openat, openat2, renameat, unlinkat};
use rustix::io::{Errno, Result};
use std::os::fd::{AsFd, OwnedFd};

/// Removes everything in a directory. Directories are first moved up into it, so depth costs neither stack nor
/// descriptors.
///
/// # Errors
/// Those of the system calls. What is left can be removed later.
pub fn empty(directory: &OwnedFd) -> Result<()> {
    let mut moved = 0u64;
    loop {
        let present = names(directory)?;
        if present.is_empty() {
            return Ok(());
        }
        for name in present {
            let Some(below) = remove_or_open(directory, &name)? else { continue };
            for inner in names(&below)? {
                if remove_or_open(&below, &inner)?.is_some() {
                    moved = move_up(&below, &inner, directory, moved)?;
                }
            }
            unlinkat(directory, &name[..], AtFlags::REMOVEDIR)?;
        }
    }
}

/// Removes an entry, with everything in it.
///
/// # Errors
/// Those of the system calls. What is left can be removed later.
pub fn remove(directory: &OwnedFd, name: &[u8]) -> Result<()> {
    if let Some(below) = remove_or_open(directory, name)? {
        empty(&below)?;
        unlinkat(directory, name, AtFlags::REMOVEDIR)?;
    }
    Ok(())
}

/// Removes an entry; opens it if it is a directory, which its owner may write to then.
///
/// # Errors
/// Those of the system calls.
pub fn remove_or_open(directory: &OwnedFd, name: &[u8]) -> Result<Option<OwnedFd>> {
    match unlinkat(directory, name, AtFlags::empty()) {
        Err(Errno::ISDIR) => {}
        Err(Errno::NOENT) => return Ok(None),
        removed => return removed.map(|()| None),
    }
    // Without write permission, a directory can neither be emptied nor moved by its owner.
    // What is mounted there belongs to another tree.
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::DIRECTORY;
    let path = openat2(directory, name, flags, Mode::empty(), ResolveFlags::NO_XDEV)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let own = Mode::from_raw_mode(0o700);
    let _ = rustix::fs::chmod(crate::tree::reachable(path.as_fd(), b"."), own);
    let opened = openat(directory, name, flags, Mode::empty())?;
    let _ = fchmod(&opened, own);
    Ok(Some(opened))
}

/// Moves a directory to a free name in `target`. Returns the next number to try.
fn move_up(from: &OwnedFd, name: &[u8], target: &OwnedFd, mut number: u64) -> Result<u64> {
    loop {
        number += 1;
        // A name that exists may be an empty directory, which a rename would replace: that is right, too.
        match renameat(from, name, target, format!(".removed-{number}")) {
            Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => {}
            moved => return moved.map(|()| number),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::mkdirat;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    fn open(path: &std::path::Path) -> OwnedFd {
        rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap()
    }

    #[test]
    fn trees_of_any_depth_and_mode_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::create_dir_all(at("locked/inner/deep")).unwrap();
        fs::write(at("locked/inner/file"), "").unwrap();
        std::os::unix::fs::symlink("/", at("link")).unwrap();
        fs::create_dir(at(".removed-1")).unwrap();
        fs::write(at(".removed-1/file"), "").unwrap();
        let mut deepest = open(directory.path());
        for _ in 0..3000 {
            mkdirat(&deepest, "d", Mode::RWXU).unwrap();
            deepest = openat(&deepest, "d", OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap();
        }
        for name in ["locked/inner/deep", "locked/inner", "locked"] {
            fs::set_permissions(at(name), PermissionsExt::from_mode(0o000)).unwrap();
        }
        empty(&open(directory.path())).unwrap();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
