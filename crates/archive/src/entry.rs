//! What an archive has of a file, and what an entry can be.

use crate::{BLOCK, MAX_ENTRIES, Refused, SUM_BYTES};
use serde::{Deserialize, Serialize};
use sha1::{Digest, Sha1};
use std::collections::HashSet;
use std::io::{self, Read};

/// Maximum bytes of the paths of all directories together.
const MAX_PATH_BYTES: u64 = 256 << 20;
/// Maximum bytes of a name.
const MAX_NAME_BYTES: usize = 255;
/// Maximum bytes of the target of a link.
const MAX_TARGET_BYTES: usize = 4095;
/// The permissions that an entry may have: those for set-user-ID and set-group-ID are not among them.
const MODES: u16 = 0o1777;

/// A file, or that there is none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The number of the entry of its directory. The first entry is the workspace itself, without a name.
    pub parent: u32,
    /// Its name there.
    pub name: Vec<u8>,
    /// What it is.
    pub what: What,
    /// Its permissions.
    pub mode: u16,
    /// When it was modified, in seconds and nanoseconds.
    pub modified: (i64, u32),
    /// What the real directory had there. `None`: nothing.
    pub base: Option<Base>,
}

/// What an entry is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum What {
    /// A directory.
    Directory {
        /// It hides what the real directory has there.
        hides: bool,
        /// It is as in the real directory, if that has it: only what is in it has changed.
        is_real: bool,
    },
    /// A regular file of this size, whose content is in the archive.
    File(u64),
    /// Another name of the file with this number.
    Link(u32),
    /// A symbolic link with this target.
    Symlink(Vec<u8>),
    /// A named pipe.
    Fifo,
    /// What the real directory has there was deleted.
    Deleted,
}

/// What the real directory had.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Base {
    /// A directory.
    Directory,
    /// A regular file: its size, and the beginning of its checksum.
    File(u64, [u8; 8]),
    /// A symbolic link: the beginning of the checksum of its target.
    Symlink([u8; 8]),
    /// Something else.
    Other,
}

/// The beginning of the checksum of a content. It finds differences, and proves nothing about who wrote it.
///
/// # Errors
/// Those of the reader.
pub fn digest(content: impl Read) -> io::Result<[u8; 8]> {
    let mut short = [0; 8];
    short.copy_from_slice(&checksum(content)?[..8]);
    Ok(short)
}

/// The checksum of a content.
pub(crate) fn checksum(mut content: impl Read) -> io::Result<[u8; SUM_BYTES]> {
    let mut sum = Sha1::new();
    let mut block = vec![0; BLOCK];
    loop {
        match content.read(&mut block) {
            Ok(0) => return Ok(sum.finalize().into()),
            Ok(length) => sum.update(&block[..length]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Checks that entries can be unpacked into an empty directory, and returns the bytes of their contents.
pub(crate) fn check(entries: &[Entry]) -> Result<u64, Refused> {
    if entries.len() as u64 > MAX_ENTRIES {
        return Refused::because(format!("it has more than {MAX_ENTRIES} files"));
    }
    let mut names = HashSet::with_capacity(entries.len());
    // Of directories, the bytes of their paths.
    let mut lengths: Vec<Option<u64>> = Vec::with_capacity(entries.len());
    let (mut bytes, mut path_bytes) = (0_u64, 0_u64);
    for (number, entry) in entries.iter().enumerate() {
        let is_directory = matches!(entry.what, What::Directory { .. });
        let above = match number {
            0 if entry.name.is_empty() && entry.parent == 0 && is_directory => 0,
            0 => return Refused::because("its first entry is not the workspace"),
            _ => {
                check_name(&entry.name)?;
                let parent = lengths.get(entry.parent as usize).copied().flatten();
                parent.ok_or_else(|| Refused::Because(format!("{} is in no directory", shown(&entry.name))))?
            }
        };
        if number > 0 && !names.insert((entry.parent, &entry.name[..])) {
            return Refused::because(format!("{} is in it twice", shown(&entry.name)));
        }
        if entry.mode & !MODES != 0 || entry.modified.1 >= 1_000_000_000 {
            return Refused::because(format!("{} has a mode or time that no archive may have", shown(&entry.name)));
        }
        match &entry.what {
            What::File(size) => bytes = bytes.checked_add(*size).ok_or_else(Refused::damaged)?,
            What::Link(of) => {
                let file = (*of as usize) < number && matches!(entries[*of as usize].what, What::File(_));
                if !file {
                    return Refused::because(format!("{} is a link to no file", shown(&entry.name)));
                }
            }
            What::Symlink(target) => {
                if target.is_empty() || target.len() > MAX_TARGET_BYTES || target.contains(&0) {
                    return Refused::because(format!("{} is a link that cannot be", shown(&entry.name)));
                }
            }
            What::Directory { .. } | What::Fifo | What::Deleted => {}
        }
        let length = above + entry.name.len() as u64 + 1;
        path_bytes += if is_directory { length } else { 0 };
        if path_bytes > MAX_PATH_BYTES {
            return Refused::because("its directories are too deep");
        }
        lengths.push(is_directory.then_some(length));
    }
    Ok(bytes)
}

fn check_name(name: &[u8]) -> Result<(), Refused> {
    let is_name = !name.is_empty() && name.len() <= MAX_NAME_BYTES && name != b"." && name != b"..";
    if is_name && !name.contains(&b'/') && !name.contains(&0) {
        return Ok(());
    }
    Refused::because(format!("{} is no name of a file", shown(name)))
}

fn shown(name: &[u8]) -> String {
    format!("'{}'", String::from_utf8_lossy(&name[..name.len().min(300)]).escape_debug())
}
