//! The properties of a file, from its status.

use nacre_protocol::files::{Info, Kind};
use rustix::fs::{AtFlags, Stat, readlinkat, statat};
use rustix::io::Errno;
use std::os::fd::AsFd;

/// The file's permissions, without its kind.
pub fn permissions(stat: &Stat) -> u32 {
    stat.st_mode & 0o7777
}

/// The description of a file from its status.
pub fn info(stat: &Stat, target: Option<Vec<u8>>) -> Info {
    Info {
        kind: Kind::of(stat.st_mode),
        size: u64::try_from(stat.st_size).unwrap_or(0),
        mode: permissions(stat),
        uid: stat.st_uid,
        gid: stat.st_gid,
        modified: (stat.st_mtime, u32::try_from(stat.st_mtime_nsec).unwrap_or(0)),
        target,
    }
}

/// Describes a file in an open directory; a symlink is not followed.
pub fn info_at(directory: impl AsFd, name: &[u8]) -> Result<Info, Errno> {
    let stat = statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let target = match Kind::of(stat.st_mode) {
        Kind::Symlink => target(&directory, name),
        _ => None,
    };
    Ok(info(&stat, target))
}

/// The target of a symlink; `None` for other files.
pub fn target(directory: impl AsFd, name: &[u8]) -> Option<Vec<u8>> {
    readlinkat(directory, name, Vec::new()).ok().map(|target| target.into_bytes())
}
