//! A suspended sandbox as one file, which another machine may have written.
//!
//! The file has:
//!
//! - a title with the number of the format, and a checksum of the rest,
//! - a compressed stream: [`About`] as JSON after its length, the states of the shells, the [`Entry`] of each file, and then the
//!   contents of all files in the same order, with nothing between them.
//!
//! **It owns** the format and its bounds. **It must never know** what states mean, nor layers and mounts.
//!
//! What is read is hostile. An entry names its directory by the number of an earlier entry, and its own name is one component. So no
//! path can be absolute, lead upwards or through a link. Everything is bounded before anything is allocated for it, and an
//! entry that cannot be is refused before the first content is read.

mod entry;
pub mod fuzzing;
mod read;
mod write;

pub use entry::{Base, Entry, What, digest};
pub use read::Archive;
pub use write::write;

use serde::{Deserialize, Serialize};
use std::io;

/// The number of the format. Raise it with every change of what an archive contains.
pub const FORMAT: u32 = 1;
/// What the first line begins with. The number of the format follows.
const TITLE: &[u8] = b"nacre archive ";
/// Bytes of the checksum behind the first line.
const SUM_BYTES: usize = 20;
/// Maximum bytes of [`About`].
const MAX_ABOUT_BYTES: u32 = 4 << 20;
/// Maximum bytes of the states: a shell has at most 64 MiB.
const MAX_STATE_BYTES: u64 = 512 << 20;
/// Maximum bytes of the entries as they are in the file.
const MAX_ENTRY_BYTES: u64 = 256 << 20;
/// Maximum number of entries.
const MAX_ENTRIES: u64 = 1_000_000;
/// Bytes of each read and write.
const BLOCK: usize = 64 * 1024;

/// What an archive says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct About {
    /// See [`FORMAT`].
    pub format: u32,
    /// The version of nacre that has written it.
    pub version: String,
    /// The number of the format of the states, which their writer counts.
    #[serde(default)]
    pub state_format: u32,
    /// The architecture of the machine, as in `process.arch`.
    pub architecture: String,
    /// The name under which the sandbox was kept.
    pub name: Option<String>,
    /// In milliseconds since 1970.
    pub created_at: i64,
    /// The directory of the sandbox.
    pub cwd: String,
    /// The directory of its copy-on-write workspace. `None`: it has no files.
    pub workspace: Option<String>,
    /// Whether rules restricted its programs.
    pub isolated: bool,
    /// The ids of its sessions.
    pub sessions: Vec<String>,
    /// What it does not have, like `process server`.
    pub missing: Vec<String>,
    /// How many files and directories it has.
    pub files: u64,
    /// Bytes of all contents.
    pub bytes: u64,
    /// Bytes of the states.
    pub state_bytes: u64,
    /// How many entries there are, and their bytes.
    pub entries: u64,
    /// See `entries`.
    pub entry_bytes: u64,
}

/// Why an archive is not read.
#[derive(Debug)]
pub enum Refused {
    /// One clause.
    Because(String),
    /// It could not be read.
    System(io::Error),
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

impl Refused {
    pub(crate) fn because<T>(reason: impl Into<String>) -> Result<T, Self> {
        Err(Self::Because(reason.into()))
    }

    pub(crate) fn damaged() -> Self {
        Self::Because("it is damaged or incomplete".into())
    }
}

#[cfg(test)]
mod tests;
