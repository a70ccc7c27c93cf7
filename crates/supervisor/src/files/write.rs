//! Writes a file: the new content goes to a temporary file, which is renamed once everything is written.
//!
//! Readers see the old content or the new, never a part, and a write that fails or is cancelled leaves the old file.
//! A final symlink is followed and remains, as with `>` in a shell; its target is replaced. The new file has the
//! permissions of the old file and, if allowed, its owner. Hard links to the old file keep the old content.

use super::change::regular_at;
use super::connection::Connection;
use super::failure::{Stop, about};
use super::info::{info, permissions};
use super::place::Place;
use super::temporary::Temporary;
use super::way::{Start, target_of};
use nacre_protocol::files::{Failure, Finish, Reply};
use rustix::fs::{
    Access, AtFlags, Mode, OFlags, SeekFrom, Stat, accessat, fchmod, fchown, fstat, ftruncate, openat, renameat, seek,
    statat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::{Gid, Uid};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::OnceLock;

/// See the module.
pub fn write(
    connection: &Connection,
    start: Start<'_>,
    path: &[u8],
    mode: Option<u32>,
    append: bool,
) -> Result<(), Stop> {
    let place = target_of(start, path)?;
    let old = old_file(&place, path)?;
    if append {
        return add(connection, &place, old.as_ref(), path, mode);
    }
    let (temporary, file) = Temporary::file(place.parent.as_fd()).map_err(about(path))?;
    let opened = fstat(&file).map_err(about(path))?;
    connection.send_with(&Reply::Opened(info(&opened, None)), &[file.as_fd()])?;
    if connection.finish()? == Finish::Revert {
        drop(temporary);
        return connection.send(&Reply::Done);
    }
    let kept = old.as_ref().map_or(0o666 & !umask(), |old| kept_permissions(old, &file, &opened));
    fchmod(&file, Mode::from_raw_mode(mode.unwrap_or(kept))).map_err(about(path))?;
    let written = fstat(&file).map_err(about(path))?;
    temporary.keep(|name| renameat(&place.parent, name, &place.parent, &place.name[..])).map_err(about(path))?;
    connection.send(&Reply::Found(Some(info(&written, None))))
}

/// The file to replace or append to, if it exists. It must be a file that `>` could write to.
fn old_file(place: &Place, path: &[u8]) -> Result<Option<Stat>, Failure> {
    let old = match statat(&place.parent, &place.name[..], AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) if place.is_directory => return Err(about(path)(Errno::ISDIR)),
        Err(Errno::NOENT) => return Ok(None),
        found => found.map_err(about(path))?,
    };
    regular_at(&old, path)?;
    if place.is_directory {
        return Err(about(path)(Errno::NOTDIR));
    }
    accessat(&place.parent, &place.name[..], Access::WRITE_OK, AtFlags::empty()).map_err(about(path))?;
    Ok(Some(old))
}

/// Gives the new file the owner of the old file. If that fails, its set-user-ID and set-group-ID bits are dropped.
fn kept_permissions(old: &Stat, file: &OwnedFd, opened: &Stat) -> u32 {
    let is_same = (old.st_uid, old.st_gid) == (opened.st_uid, opened.st_gid);
    let owner = (Some(Uid::from_raw(old.st_uid)), Some(Gid::from_raw(old.st_gid)));
    if is_same || fchown(file, owner.0, owner.1).is_ok() { permissions(old) } else { permissions(old) & 0o1777 }
}

/// Appends to a file. A partial addition is reverted, unless another process has appended to the file meanwhile.
fn add(connection: &Connection, place: &Place, old: Option<&Stat>, path: &[u8], mode: Option<u32>) -> Result<(), Stop> {
    let made = if old.is_none() { OFlags::CREATE | OFlags::EXCL } else { OFlags::empty() };
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(&place.parent, &place.name[..], flags | made, Mode::from_raw_mode(0o666)).map_err(about(path))?;
    let opened = fstat(&file).map_err(about(path))?;
    regular_at(&opened, path)?;
    let sent = connection.send_with(&Reply::Opened(info(&opened, None)), &[file.as_fd()]);
    let finish = sent.and_then(|()| connection.finish());
    if !matches!(finish, Ok(Finish::Commit)) {
        take_back(place, old.is_none(), &file, &opened);
        return finish.and_then(|_| connection.send(&Reply::Done));
    }
    if let Some(mode) = mode {
        fchmod(&file, Mode::from_raw_mode(mode)).map_err(about(path))?;
    }
    let written = fstat(&file).map_err(about(path))?;
    connection.send(&Reply::Found(Some(info(&written, None))))
}

fn take_back(place: &Place, was_made: bool, file: &OwnedFd, opened: &Stat) {
    let Ok(now) = fstat(file) else { return };
    // The host's writes share this position: the end of what the host has appended.
    let end = seek(file, SeekFrom::Current(0)).unwrap_or(0);
    if end > 0 && u64::try_from(now.st_size) == Ok(end) {
        let _ = ftruncate(file, u64::try_from(opened.st_size).unwrap_or(0));
    }
    if was_made && fstat(file).is_ok_and(|now| now.st_size == 0) {
        let _ = unlinkat(&place.parent, &place.name[..], AtFlags::empty());
    }
}

static UMASK: OnceLock<u32> = OnceLock::new();

/// The umask. Read once, by the only thread, since reading it changes it for a moment.
pub fn umask() -> u32 {
    *UMASK.get_or_init(|| {
        let mask = rustix::process::umask(Mode::empty());
        rustix::process::umask(mask);
        mask.bits()
    })
}
