//! What a named workspace must remember while it is closed, as files in its store.

use crate::failure::{Failure, errno_of};
use crate::known::Known;
use crate::overlay::Mounter;
use crate::sealed;
use crate::tree::open_file;
use nacre_containment::job::meta::boot_id;
use rustix::fs::{AtFlags, fsync, unlinkat};
use rustix::io::{Errno, Result};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;

const ABOUT: &str = "about";
const KNOWN: &str = "known";
const OPEN: &str = "open";
/// Maximum bytes of the file with what never changes.
const MAX_ABOUT_BYTES: u64 = 64 * 1024;
/// Maximum bytes of the file with what commits have made.
const MAX_KNOWN_BYTES: u64 = 1 << 30;
/// Maximum bytes of the id of a boot.
const MAX_BOOT_ID_BYTES: u64 = 64;

/// What never changes in a named workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// The path of the real directory.
    pub path: Vec<u8>,
    /// Its device and inode.
    pub identity: (u64, u64),
    /// See [`crate::opening::born`].
    pub born: Option<(i64, u32)>,
    /// Who mounts: the kernel marks layers in another way for each.
    pub mounter: Mounter,
    /// The user who mounts.
    pub user: u32,
    /// A name that no other workspace of the machine has.
    pub unique: String,
    /// See [`crate::changes::Sides::opened`].
    pub opened: (i64, i64),
}

impl About {
    /// Writes it to a new store.
    ///
    /// # Errors
    /// Those of the system calls.
    pub fn write(&self, store: &OwnedFd) -> Result<()> {
        sealed::write(store, ABOUT, self, MAX_ABOUT_BYTES, false)
    }

    /// Reads it. `None` if the store has none.
    ///
    /// # Errors
    /// Those of the system calls; [`sealed::FOREIGN`]; `EBADMSG` if it is damaged.
    pub fn read(store: &OwnedFd) -> Result<Option<Self>> {
        sealed::read(store, ABOUT, MAX_ABOUT_BYTES)
    }

    /// Reads that of a named store.
    ///
    /// # Errors
    /// [`Failure::Lost`] if it is missing or damaged, and [`Failure::Unsupported`] if another version of nacre has written it.
    pub fn expect(store: &OwnedFd) -> std::result::Result<Self, Failure> {
        expected(Self::read(store), ABOUT)
    }
}

/// Writes what commits have made.
///
/// # Errors
/// Those of the system calls.
pub fn write_known(store: &OwnedFd, known: &Known) -> Result<()> {
    sealed::write(store, KNOWN, known, MAX_KNOWN_BYTES, false)
}

/// Reads what commits have made.
///
/// # Errors
/// As for [`About::expect`].
pub fn read_known(store: &OwnedFd) -> std::result::Result<Known, Failure> {
    expected(sealed::read(store, KNOWN, MAX_KNOWN_BYTES), KNOWN)
}

/// The content of a file that a named store must have.
///
/// # Errors
/// [`Failure::Lost`] if it is missing or damaged.
pub fn expected<T>(read: Result<Option<T>>, name: &str) -> std::result::Result<T, Failure> {
    match read {
        Ok(Some(content)) => Ok(content),
        Ok(None) => Err(Failure::Lost(format!("its file '{name}' is missing"))),
        Err(Errno::BADMSG) => Err(Failure::Lost(format!("its file '{name}' is damaged"))),
        Err(sealed::FOREIGN) => Err(Failure::Unsupported(
            "another version of nacre has made its layers, in a format that this one does not read: open it with that \
             version to commit its changes, or delete it"
                .into(),
        )),
        Err(errno) => Err(Failure::System(errno, format!("read the file '{name}' of the workspace"))),
    }
}

/// Notes on the disk that the layers are open, before the first write. What programs write from then on may be missing
/// after a crash of the machine, because their mount does not sync.
///
/// # Errors
/// Those of the system calls.
pub fn mark_open(store: &OwnedFd) -> Result<()> {
    sealed::replace(store, OPEN, boot()?.as_bytes(), true)
}

/// Notes that the layers are closed. The disk has them.
///
/// # Errors
/// Those of the system calls.
pub fn mark_closed(store: &OwnedFd) -> Result<()> {
    unlinkat(store, OPEN, AtFlags::empty())?;
    fsync(store)
}

/// Whether the machine has started again since the layers were opened, and they were not closed before.
///
/// # Errors
/// Those of the system calls.
pub fn is_torn(store: &OwnedFd) -> Result<bool> {
    match open_file(store, OPEN.as_bytes()) {
        Err(Errno::NOENT) => Ok(false),
        file => {
            let mut id = Vec::new();
            let read = File::from(file?).take(MAX_BOOT_ID_BYTES).read_to_end(&mut id);
            read.map_err(|error| errno_of(&error))?;
            Ok(id.trim_ascii() != boot()?.as_bytes())
        }
    }
}

/// A system that does not tell its boots apart cannot say that layers are whole.
fn boot() -> Result<&'static str> {
    let id = boot_id().map_err(|error| errno_of(&error))?;
    if id.is_empty() { Err(Errno::OPNOTSUPP) } else { Ok(id) }
}
