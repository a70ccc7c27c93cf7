//! Replaces the mount of a session's workspace, while the session lives on.
//!
//! What is mounted at and below the workspace is made again over the new mount. So the rules hold as before: they are
//! copied, not decided again. This happens in a copy of the session's namespace, where no program sees it, and whatever
//! fails there changes nothing. Only then the old mounts are detached and the new ones attached.

use crate::child;
use crate::mounts::{self, STAGE, is_visible};
use crate::namespaces::Handles;
use crate::paths::{Device, open_path};
use nacre_containment::mount_table::{self, Mounted};
use nix::mount::{MntFlags, umount2};
use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Why a mount was not replaced.
#[derive(Debug)]
pub enum Problem {
    /// Nothing has changed.
    Unchanged(io::Error),
    /// The old mount may be detached, and rules with it. No program must run in the session any more.
    Broken,
}

/// Replaces the mounts of a file system, in the namespaces of a session, by those of `workspace`, in a short-lived child.
///
/// # Errors
/// See [`Problem`].
pub fn remount(handles: &Handles, workspace: &OwnedFd, old: Device) -> Result<(), Problem> {
    let report = child::report(|| match assemble(handles, workspace, old) {
        Err(error) => format!("={error}"),
        Ok(assembled) => match assembled.iter().try_for_each(|(place, tree)| replace(place, tree)) {
            Ok(()) => "=".into(),
            Err(_) => String::new(),
        },
    });
    let text = report.map_err(Problem::Unchanged)?;
    match text.as_deref().and_then(|text| text.strip_prefix('=')) {
        Some("") => Ok(()),
        Some(problem) => Err(Problem::Unchanged(io::Error::other(problem.to_string()))),
        None => Err(Problem::Broken),
    }
}

/// The mounts of the workspace with those below them, in the session's namespace: where they are, and unattached copies over
/// the new mount.
fn assemble(handles: &Handles, workspace: &OwnedFd, old: Device) -> io::Result<Vec<(PathBuf, OwnedFd)>> {
    // Opened before the namespace is entered: that may have another `/proc`, or none.
    let own = File::open("/proc/self")?;
    handles.enter()?;
    let listed = nix::fcntl::openat(own, "mountinfo", nix::fcntl::OFlag::O_RDONLY, nix::sys::stat::Mode::empty())?;
    let mounted = kept(&mount_table::read(listed.into())?, old);
    nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNS)?;
    let stage = Path::new(STAGE);
    mounts::attach(workspace, stage)?;
    let copied: Vec<OwnedFd> = mounted.iter().map(|mount| copy(mount, old)).collect::<io::Result<_>>()?;
    detach(stage)?;
    let is_inner = |mount: &Mounted| mounted.iter().any(|outer| outer.id == mount.parent);
    let outer: Vec<&Mounted> = mounted.iter().filter(|mount| !is_inner(mount)).collect();
    outer.iter().try_for_each(|mount| detach(&mount.place))?;
    for (mount, tree) in mounted.iter().zip(&copied) {
        mounts::attach(tree, &mount.place).map_err(mounts::at(&mount.place, "mount"))?;
    }
    let assembled = outer.iter().map(|mount| Ok((mount.place.clone(), mounts::clone_tree(&mount.place)?)));
    let assembled = assembled.collect::<io::Result<_>>()?;
    handles.enter_mounts()?;
    Ok(assembled)
}

fn replace(place: &Path, tree: &OwnedFd) -> io::Result<()> {
    detach(place)?;
    mounts::attach(tree, place)
}

/// Detaches a mount with everything below it.
fn detach(place: &Path) -> io::Result<()> {
    // Only the last name is looked up there: see [`crate::mounts`].
    let (Some(parent), Some(name)) = (place.parent(), place.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    nix::unistd::fchdir(open_path(parent)?)?;
    umount2(name, MntFlags::MNT_DETACH | MntFlags::UMOUNT_NOFOLLOW)?;
    std::env::set_current_dir("/")
}

/// A copy of a mount, without those below it. That of the workspace shows the new one, which is at the stage.
fn copy(mount: &Mounted, old: Device) -> io::Result<OwnedFd> {
    if mount.device != old {
        return mounts::clone_one(&mount.place).map_err(mounts::at(&mount.place, "copy"));
    }
    let source = mounts::inside(Path::new(STAGE), &mount.root);
    let tree = mounts::clone_one(&source).map_err(mounts::at(&mount.place, "find the new version of"))?;
    if mount.is_read_only {
        mounts::read_only_tree(&tree)?;
    }
    Ok(tree)
}

/// The mounts of a file system and those below them, outer ones first. Without what another mount covers: nothing can
/// reach that.
fn kept(all: &[Mounted], device: Device) -> Vec<Mounted> {
    let mut visible: Vec<&Mounted> = all.iter().filter(|mount| is_visible(mount)).collect();
    visible.sort_by(|a, b| a.place.cmp(&b.place));
    let mut ids = HashSet::new();
    visible.retain(|mount| (mount.device == device || ids.contains(&mount.parent)) && ids.insert(mount.id));
    visible.into_iter().cloned().collect()
}
