//! Archives of sandboxes.

use super::keeper::{Answer, ask_once, failed, other_answer, read_value, unreadable};
use crate::error::Error;
use nacre_archive::About;
use nacre_protocol::workspace::{KeeperReply, KeeperRequest};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;

/// What goes into an archive beside the files.
#[derive(Clone, Debug)]
pub struct Suspension {
    /// What it says about itself.
    pub about: About,
    /// The states of the shells.
    pub states: Vec<u8>,
    /// The user and group of the sandbox. `None`: those of this process.
    pub owner: Option<(u32, u32)>,
}

/// An archive that is on the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchiveOnDisk {
    /// Its bytes.
    pub bytes: u64,
    /// How many files and directories it has.
    pub files: u64,
    /// What it does not have.
    pub missing: Vec<String>,
}

/// Writes an archive without files to an empty file.
///
/// # Errors
/// `NO_SPACE` and `ENGINE_ERROR`.
pub fn write_archive(supervisor: &Path, suspension: Suspension, to: OwnedFd) -> Result<ArchiveOnDisk, Error> {
    written(ask_once(supervisor, &suspend_request(suspension)?, Some(to), None)?)
}

/// Reads what an archive says about itself, and the states of its shells.
///
/// # Errors
/// `ARCHIVE_REJECTED`.
pub fn read_archive(supervisor: &Path, file: File) -> Result<(About, Vec<u8>), Error> {
    let (_, read) = ask_once(supervisor, &KeeperRequest::ReadArchive, Some(file.into()), None)?;
    let (about, states): (Vec<u8>, Vec<u8>) = read_value(read)?;
    let about = serde_json::from_slice(&about).map_err(|error| unreadable(&error.into()))?;
    Ok((about, states))
}

pub(super) fn suspend_request(Suspension { about, states, owner }: Suspension) -> Result<KeeperRequest, Error> {
    let about =
        serde_json::to_vec(&about).map_err(|error| failed(&format!("the archive cannot be described: {error}")))?;
    Ok(KeeperRequest::Suspend { about, states, owner })
}

pub(super) fn written((reply, missing): Answer) -> Result<ArchiveOnDisk, Error> {
    let KeeperReply::Suspended { bytes, files } = reply else { return Err(other_answer()) };
    Ok(ArchiveOnDisk { bytes, files, missing: read_value(missing)? })
}
