//! File handles: names of inodes that outlive renames. Only root can use those that the kernel writes into layers.

use crate::tree::{open_path, own_path};
use rustix::fs::getxattr;
use rustix::io::{Errno, Result};
use serde::{Deserialize, Serialize};
use std::ffi::c_int;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// The attribute with the handle of the real entry that was copied up.
const ORIGIN: &str = "trusted.overlay.origin";
/// Maximum bytes of a handle (MAX_HANDLE_SZ).
const MAX_BYTES: usize = 128;
/// Bytes before the handle in the attribute: version, magic number, length, flags, type and the file system's UUID.
const HEADER_BYTES: usize = 21;

/// The name of an inode on its file system.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Handle {
    kind: i32,
    bytes: Vec<u8>,
}

/// `struct file_handle` (open_by_handle_at(2)).
#[repr(C)]
struct Raw {
    length: u32,
    kind: c_int,
    bytes: [u8; MAX_BYTES],
}

impl Handle {
    /// That of an entry. `None` if its file system has none.
    ///
    /// # Errors
    /// `ENOENT` if there is no entry.
    pub fn of(directory: &OwnedFd, name: &[u8]) -> Result<Option<Self>> {
        let entry = open_path(directory, name)?;
        let mut raw = Raw { length: MAX_BYTES as u32, kind: 0, bytes: [0; MAX_BYTES] };
        let mut mount: c_int = 0;
        // SAFETY: all pointers outlive the call, and the length is that of the buffer.
        let done = unsafe {
            libc::syscall(
                libc::SYS_name_to_handle_at,
                entry.as_raw_fd(),
                c"".as_ptr(),
                &raw mut raw,
                &raw mut mount,
                libc::AT_EMPTY_PATH,
            )
        };
        if done != 0 {
            return Ok(None);
        }
        Ok(Some(Self { kind: raw.kind, bytes: raw.bytes[..raw.length as usize].to_vec() }))
    }

    /// That of the real entry from which an entry of a layer was copied. `None` if it is not a copy.
    ///
    /// # Errors
    /// Those of getxattr(2).
    pub fn of_origin(directory: &OwnedFd, name: &[u8]) -> Result<Option<Self>> {
        let mut value = [0; HEADER_BYTES + MAX_BYTES];
        let length = match open_path(directory, name).and_then(|entry| getxattr(own_path(&entry), ORIGIN, &mut value)) {
            Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::NOENT | Errno::RANGE | Errno::PERM) => return Ok(None),
            length => length?,
        };
        Ok(value[..length]
            .get(HEADER_BYTES..)
            .filter(|bytes| !bytes.is_empty())
            .map(|bytes| Self { kind: i32::from(value[4]), bytes: bytes.to_vec() }))
    }

    /// Opens the inode on the file system of a directory. `None` if it no longer exists, or cannot be opened.
    pub fn open(&self, file_system: &OwnedFd) -> Option<OwnedFd> {
        let mut raw = Raw { length: self.bytes.len() as u32, kind: self.kind, bytes: [0; MAX_BYTES] };
        raw.bytes.get_mut(..self.bytes.len())?.copy_from_slice(&self.bytes);
        let flags = libc::O_PATH | libc::O_CLOEXEC;
        // SAFETY: the handle outlives the call, and its length is within the buffer.
        let opened =
            unsafe { libc::syscall(libc::SYS_open_by_handle_at, file_system.as_raw_fd(), &raw const raw, flags) };
        let opened = c_int::try_from(opened).ok().filter(|opened| *opened >= 0)?;
        // SAFETY: the call has just returned the descriptor.
        Some(unsafe { OwnedFd::from_raw_fd(opened) })
    }
}

/// Removes the note from which real entry an entry of a layer was copied.
pub fn forget_origin(directory: &OwnedFd, name: &[u8]) {
    let _ = open_path(directory, name).and_then(|entry| rustix::fs::removexattr(own_path(&entry), ORIGIN));
}
