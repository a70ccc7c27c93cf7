//! Opens the paths of rules. A process that controls a directory can replace part of a path with a link at any time.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Opens a path without following any link.
pub fn open_path(path: &Path) -> io::Result<OwnedFd> {
    let name = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: all zeroes is a valid `open_how`.
    let mut how: libc::open_how = unsafe { std::mem::zeroed() };
    how.flags = (libc::O_PATH | libc::O_CLOEXEC) as u64;
    how.resolve = libc::RESOLVE_NO_SYMLINKS;
    // SAFETY: the name and the structure outlive the call.
    owned(unsafe {
        libc::syscall(libc::SYS_openat2, libc::AT_FDCWD, name.as_ptr(), &raw const how, size_of::<libc::open_how>())
    })
}

/// The descriptor that a system call has created.
pub fn owned(result: libc::c_long) -> io::Result<OwnedFd> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has just created the descriptor; nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(result as i32) })
}

/// The number of a file system: major and minor.
pub type Device = (u32, u32);

/// What is at a path: its mount and its file system.
pub struct Found {
    /// The mount.
    pub mount: u64,
    /// The file system.
    pub device: Device,
}

impl Found {
    /// # Errors
    /// Those of statx(2).
    pub fn of(file: &OwnedFd) -> io::Result<Self> {
        // SAFETY: all zeroes is a valid `statx`.
        let mut found: libc::statx = unsafe { std::mem::zeroed() };
        let mask = libc::STATX_BASIC_STATS | libc::STATX_MNT_ID;
        // SAFETY: the empty path is static, and the structure outlives the call.
        let done = unsafe { libc::statx(file.as_raw_fd(), c"".as_ptr(), libc::AT_EMPTY_PATH, mask, &raw mut found) };
        if done != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { mount: found.stx_mnt_id, device: (found.stx_dev_major, found.stx_dev_minor) })
    }
}
