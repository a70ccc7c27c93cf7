//! File handles: names of inodes that outlive renames. Only root can use those that the kernel writes into layers.

use crate::tree::{Tree, file_type, join, names, open_path, own_path, status};
use crate::walk::Walk;
use rustix::fs::{FileType, XattrFlags, getxattr, removexattr, setxattr};
use rustix::io::{Errno, Result};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::ffi::c_int;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// The attribute with the handle of the entry that was copied up.
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

/// The kernel's note from which entry an entry of a layer was copied: from the real directory, or from a layer below.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin(Vec<u8>);

impl Origin {
    /// That of an entry. `None` if it is not a copy.
    ///
    /// # Errors
    /// Those of getxattr(2).
    pub fn of(directory: &OwnedFd, name: &[u8]) -> Result<Option<Self>> {
        let mut value = [0; HEADER_BYTES + MAX_BYTES];
        let length = match open_path(directory, name).and_then(|entry| getxattr(own_path(&entry), ORIGIN, &mut value)) {
            Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::NOENT | Errno::RANGE | Errno::PERM) => return Ok(None),
            length => length?,
        };
        Ok((length > HEADER_BYTES).then(|| Self(value[..length].to_vec())))
    }

    /// The name of the inode that was copied.
    pub fn handle(&self) -> Handle {
        Handle { kind: i32::from(self.0[4]), bytes: self.0[HEADER_BYTES..].to_vec() }
    }

    /// Gives an entry of a layer this note.
    ///
    /// # Errors
    /// Those of setxattr(2).
    pub fn put(&self, directory: &OwnedFd, name: &[u8]) -> Result<()> {
        setxattr(own_path(&open_path(directory, name)?), ORIGIN, &self.0, XattrFlags::empty())
    }

    /// Removes the note of an entry of a layer.
    pub fn forget(directory: &OwnedFd, name: &[u8]) {
        let _ = open_path(directory, name).and_then(|entry| removexattr(own_path(&entry), ORIGIN));
    }
}

/// The entries of layers, each with its origin.
pub struct Copies(HashMap<Handle, Option<Origin>>);

impl Copies {
    /// Those of these layers.
    ///
    /// # Errors
    /// Those of the system calls.
    pub fn of(layers: &[Tree], interrupt: &dyn Fn() -> Result<()>) -> Result<Self> {
        let mut copies = HashMap::new();
        for layer in layers {
            let walk = Walk::new(layer);
            let mut pending = vec![Vec::new()];
            while let Some(path) = pending.pop() {
                interrupt()?;
                let directory = walk.directory(&path)?.ok_or(Errno::STALE)?;
                for name in names(&directory)? {
                    let Some(found) = status(Some(&directory), &name)? else { continue };
                    if file_type(&found) == FileType::Directory {
                        pending.push(join(&path, &name));
                    }
                    if let Some(handle) = Handle::of(&directory, &name)? {
                        copies.insert(handle, Origin::of(&directory, &name)?);
                    }
                }
            }
        }
        Ok(Self(copies))
    }

    /// Follows an origin to what is below all of these layers. `None` if the entry was created in one of them.
    pub fn follow(&self, mut origin: Origin) -> Option<Origin> {
        // Each leads to a lower layer.
        for _ in 0..self.0.len() {
            match self.0.get(&origin.handle()) {
                Some(below) => origin = below.clone()?,
                None => break,
            }
        }
        Some(origin)
    }
}
