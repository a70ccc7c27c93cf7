//! The overlay mount of a workspace.
//!
//! Layers are named by descriptors (`/proc/self/fd/N`), which works on every kernel, with any path. The mount is
//! `volatile`: otherwise the kernel syncs each file when it copies it up, which takes 20 times as long.

use crate::tree::open_directory;
use rustix::fs::{StatVfsMountFlags, fstat, fstatvfs};
use rustix::io::{Errno, Result};
use rustix::mount::{
    FsPickFlags, MountFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, fsconfig_reconfigure, fsconfig_set_flag,
    fspick, mount, mount_bind, move_mount, open_tree, unmount,
};
use serde::{Deserialize, Serialize};
use std::ffi::CString;
use std::fmt::Write;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Maximum layers below the one that receives the writes. Their names fill one page, which is what mount(2) takes.
pub const MAX_LOWERS: usize = 200;

/// Who mounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mounter {
    /// Root of the machine: renames of real directories work, and programs cannot forge the marks of layers.
    Root,
    /// An ordinary user, in a user namespace.
    User,
}

impl Mounter {
    /// The prefix of the kernel's extended attributes in layers.
    pub fn marks(self) -> &'static str {
        match self {
            Self::Root => "trusted",
            Self::User => "user",
        }
    }

    /// For a mount that only shows layers.
    fn reading_options(self) -> &'static str {
        match self {
            Self::Root => "redirect_dir=follow,metacopy=off,index=off,xino=off",
            Self::User => "userxattr",
        }
    }

    fn options(self) -> &'static str {
        match self {
            // Copies of real files must not depend on them afterwards: no metacopy, no index.
            Self::Root => "volatile,redirect_dir=on,metacopy=off,index=off,xino=off",
            Self::User => "volatile,userxattr",
        }
    }
}

/// The directories of a mount. All of them were opened in the present mount namespace.
pub struct OverlayLayers<'a> {
    /// The real directory.
    pub base: BorrowedFd<'a>,
    /// Sealed layers above it; the newest first.
    pub sealed: Vec<BorrowedFd<'a>>,
    /// Receives the writes. Has the owner and mode of the base.
    pub upper: BorrowedFd<'a>,
    /// An empty directory on the file system of `upper`.
    pub work: BorrowedFd<'a>,
}

/// A mount in the present mount namespace. It is detached when this is dropped; copies of it stay.
pub struct Mount {
    root: OwnedFd,
}

impl Mount {
    /// Its root.
    pub fn root(&self) -> &OwnedFd {
        &self.root
    }

    /// Detaches it now. Copies of it stay.
    pub fn detach(&self) {
        let _ = unmount(by_descriptor(self.root.as_fd()), UnmountFlags::DETACH);
    }

    /// Makes the file system read-only, in every copy of the mount: its layers do not change any more.
    ///
    /// # Errors
    /// `EBUSY` while a file is open for writing, also by a mapping, or while a deleted file or directory is in use. Those of
    /// fspick(2) and fsconfig(2).
    pub fn seal(&self) -> Result<()> {
        self.reconfigure("ro")
    }

    /// Takes [`Mount::seal`] back.
    ///
    /// # Errors
    /// Those of fspick(2) and fsconfig(2).
    pub fn unseal(&self) -> Result<()> {
        self.reconfigure("rw")
    }

    fn reconfigure(&self, flag: &str) -> Result<()> {
        let context = fspick(&self.root, "", FsPickFlags::FSPICK_EMPTY_PATH | FsPickFlags::FSPICK_CLOEXEC)?;
        fsconfig_set_flag(context.as_fd(), flag)?;
        fsconfig_reconfigure(context.as_fd())
    }

    /// Its root, for tests that detach it by its path.
    #[cfg(test)]
    pub fn keep(self) -> OwnedFd {
        let kept = std::mem::ManuallyDrop::new(self);
        // SAFETY: nothing else uses the field, which is not dropped.
        unsafe { std::ptr::read(&kept.root) }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        self.detach();
    }
}

/// Mounts a workspace over the directory `name` in `parent`, in the present mount namespace.
///
/// # Errors
/// Those of mount(2): `EINVAL` if the upper layer is on a file system that cannot hold one, `EPERM` without the right to mount.
/// `ENFILE` for too many layers.
pub fn attach(parent: &OwnedFd, name: &[u8], layers: &OverlayLayers<'_>, mounter: Mounter) -> Result<Mount> {
    let mut options = lowers(&layers.sealed, layers.base)?;
    let (upper, work) = (by_descriptor(layers.upper), by_descriptor(layers.work));
    let _ = write!(options, ",upperdir={upper},workdir={work},{}", mounter.options());
    let options = CString::new(options).map_err(|_| Errno::INVAL)?;
    over(parent, name, |place| mount("nacre", place, "overlay", restrictions(layers.base)?, options.as_c_str()))
}

/// Mounts layers, of which at least one is sealed, over the directory `name` in `parent`, only for reading.
///
/// # Errors
/// As for [`attach`].
pub fn attach_readable(
    parent: &OwnedFd,
    name: &[u8],
    base: BorrowedFd<'_>,
    sealed: &[BorrowedFd<'_>],
    mounter: Mounter,
) -> Result<Mount> {
    let options = format!("{},{}", lowers(sealed, base)?, mounter.reading_options());
    let options = CString::new(options).map_err(|_| Errno::INVAL)?;
    let flags = restrictions(base)? | MountFlags::RDONLY;
    over(parent, name, |place| mount("nacre", place, "overlay", flags, options.as_c_str()))
}

/// The option with the layers that receive no writes.
fn lowers(sealed: &[BorrowedFd<'_>], base: BorrowedFd<'_>) -> Result<String> {
    if sealed.len() >= MAX_LOWERS {
        return Err(Errno::NFILE);
    }
    let names: Vec<String> = sealed.iter().chain([&base]).map(|lower| by_descriptor(*lower)).collect();
    Ok(format!("lowerdir={}", names.join(":")))
}

/// Mounts a file system in memory over the directory `name` in `parent`, in the present mount namespace.
///
/// # Errors
/// Those of mount(2).
pub fn attach_memory(parent: &OwnedFd, name: &[u8], max_bytes: Option<u64>) -> Result<Mount> {
    let limit = max_bytes.map(|bytes| format!(",size={}", bytes.max(1))).unwrap_or_default();
    let options = CString::new(format!("mode=700{limit}")).map_err(|_| Errno::INVAL)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    over(parent, name, |place| mount("nacre-memory", place, "tmpfs", flags, options.as_c_str()))
}

/// Mounts a directory, or a file, at another place in the present mount namespace, without what is mounted in it.
///
/// # Errors
/// Those of mount(2).
pub fn bind(from: &OwnedFd, to: &OwnedFd) -> Result<()> {
    mount_bind(by_descriptor(from.as_fd()), by_descriptor(to.as_fd()))
}

/// Mounts what [`copy_all`] has returned, in any mount namespace, over the directory `name` in `parent`.
///
/// # Errors
/// Those of move_mount(2).
pub fn attach_copy(parent: &OwnedFd, name: &[u8], copy: &OwnedFd) -> Result<Mount> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_SYMLINKS;
    over(parent, name, |place| move_mount(copy, "", rustix::fs::CWD, place, flags))
}

/// Mounts something over a directory.
fn over(parent: &OwnedFd, name: &[u8], mount: impl FnOnce(String) -> Result<()>) -> Result<Mount> {
    let place = open_directory(parent, name)?;
    mount(by_descriptor(place.as_fd()))?;
    let root = open_directory(parent, name)?;
    // A process that renamed the directory meanwhile has hidden the mount.
    if fstat(&root)?.st_dev == fstat(&place)?.st_dev { Err(Errno::STALE) } else { Ok(Mount { root }) }
}

/// Whether a layer receives the writes of a mount, in any namespace. The kernel does not refuse a second mount of it.
///
/// With an index, it does: that is tried with a directory for the kernel that it refuses afterwards in any case, so that
/// nothing is mounted or changed. `any` is any directory.
pub fn is_in_use(upper: &OwnedFd, any: &OwnedFd, mounter: Mounter) -> bool {
    let (upper, any) = (by_descriptor(upper.as_fd()), by_descriptor(any.as_fd()));
    let marks = if mounter == Mounter::User { ",userxattr" } else { "" };
    let options = format!("lowerdir={any},upperdir={upper},workdir={upper},index=on{marks}");
    let Ok(options) = CString::new(options) else { return false };
    mount("nacre", any, "overlay", MountFlags::empty(), options.as_c_str()) == Err(Errno::BUSY)
}

/// What the mount of the real directory forbids is forbidden above it, too.
fn restrictions(base: BorrowedFd<'_>) -> Result<MountFlags> {
    let has = fstatvfs(base)?.f_flag;
    let both = [
        (StatVfsMountFlags::NOSUID, MountFlags::NOSUID),
        (StatVfsMountFlags::NODEV, MountFlags::NODEV),
        (StatVfsMountFlags::NOEXEC, MountFlags::NOEXEC),
    ];
    Ok(both.into_iter().filter(|(flag, _)| has.contains(*flag)).map(|(_, flag)| flag).collect())
}

/// A copy of a mount that is attached nowhere. It can be attached in another mount namespace.
///
/// # Errors
/// Those of open_tree(2).
pub fn copy(merged: &OwnedFd) -> Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
    open_tree(merged, "", flags)
}

/// Like [`copy`], with everything that is mounted in it.
///
/// # Errors
/// Those of open_tree(2).
pub fn copy_all(root: &OwnedFd) -> Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_RECURSIVE;
    open_tree(root, "", flags)
}

fn by_descriptor(directory: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", directory.as_fd().as_raw_fd())
}
