//! Writes a file: the new content goes to a temporary file, which is renamed once everything is written.
//!
//! Readers see the old content or the new, never a part, and a write that fails or is cancelled leaves the old file.
//! A final symlink is followed and remains, as with `>` in a shell; its target is replaced. The new file has the
//! permissions of the old file and, if allowed, its owner. Hard links to the old file keep the old content.
//!
//! Some files cannot be replaced, but written to: a mount point, like `/etc/hosts` in a container, or a file in a directory
//! that is read-only. They are overwritten once everything is there, as `>` does it: readers may see a part.

use super::change::regular_at;
use super::connection::Connection;
use super::failure::{Stop, about};
use super::info::{info, permissions};
use super::place::Place;
use super::temporary::Temporary;
use super::way::{Start, target_of};
use nacre_containment::file_tree::identity;
use nacre_protocol::files::{Failure, FilesReply, Finish};
use rustix::fs::{
    Access, AtFlags, CWD, Mode, OFlags, SeekFrom, Stat, accessat, fchmod, fchown, fstat, ftruncate, openat, renameat,
    seek, statat, unlinkat,
};
use rustix::io::{Errno, pread, retry_on_intr, write as write_to};
use rustix::process::{Gid, Uid};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
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
    let (new, file) = NewContent::of(&place, old.is_some()).map_err(about(path))?;
    let opened = fstat(&file).map_err(about(path))?;
    connection.send_with(&FilesReply::Opened(info(&opened, None)), &[file.as_fd()])?;
    if connection.finish()? == Finish::Revert {
        drop(new);
        return connection.send(&FilesReply::Done);
    }
    let kept = old.as_ref().map_or(0o666 & !umask(), |old| kept_permissions(old, &file, &opened));
    fchmod(&file, Mode::from_raw_mode(mode.unwrap_or(kept))).map_err(about(path))?;
    let written = new.put(&file, &place, mode, path, &|| connection.check())?;
    connection.send(&FilesReply::Found(Some(info(&written, None))))
}

/// The new content of a file, until it is complete.
pub struct NewContent {
    /// `None` if the file cannot be replaced.
    temporary: Option<Temporary>,
    overwrites: bool,
}

impl NewContent {
    /// With the file to write the content to. `overwrites`: there is an old file, which may be written to.
    pub fn of(place: &Place, overwrites: bool) -> Result<(Self, OwnedFd), Errno> {
        match Temporary::file(place.parent.as_fd()) {
            Ok((temporary, file)) => Ok((Self { temporary: Some(temporary), overwrites }, file)),
            Err(errno) if overwrites && cannot_replace(errno) => {
                Ok((Self { temporary: None, overwrites }, unnamed_file(place)?))
            }
            Err(errno) => Err(errno),
        }
    }

    /// Puts the content, with its permissions, in the place of the old file; or into that file, which keeps its permissions
    /// unless there is a `mode`. Returns the file that is there now.
    pub fn put(
        self,
        content: &OwnedFd,
        place: &Place,
        mode: Option<u32>,
        path: &[u8],
        check: &dyn Fn() -> Result<(), Stop>,
    ) -> Result<Stat, Stop> {
        let Self { temporary, overwrites } = self;
        let Some(temporary) = temporary else { return overwrite(content, place, mode, path, check) };
        let written = fstat(content).map_err(about(path))?;
        match temporary.keep(|name| renameat(&place.parent, name, &place.parent, &place.name[..])) {
            Ok(()) => Ok(written),
            Err(errno) if overwrites && cannot_replace(errno) => overwrite(content, place, mode, path, check),
            Err(errno) => Err(about(path)(errno).into()),
        }
    }
}

/// The file is a mount point, or its directory must not be changed.
fn cannot_replace(errno: Errno) -> bool {
    matches!(errno, Errno::BUSY | Errno::ROFS | Errno::ACCESS | Errno::PERM)
}

fn overwrite(
    content: &OwnedFd,
    place: &Place,
    mode: Option<u32>,
    path: &[u8],
    check: &dyn Fn() -> Result<(), Stop>,
) -> Result<Stat, Stop> {
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(&place.parent, &place.name[..], flags, Mode::empty()).map_err(about(path))?;
    regular_at(&fstat(&file).map_err(about(path))?, path)?;
    if let Some(mode) = mode {
        fchmod(&file, Mode::from_raw_mode(mode)).map_err(about(path))?;
    }
    let mut added = Added::default();
    copy_all(&file, content, &mut added, path, check)?;
    ftruncate(&file, added.end).map_err(about(path))?;
    Ok(fstat(&file).map_err(about(path))?)
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

/// Appends to a file. Until everything is there, the addition is kept in a file without a name: a failed or cancelled
/// append changes nothing.
fn add(connection: &Connection, place: &Place, old: Option<&Stat>, path: &[u8], mode: Option<u32>) -> Result<(), Stop> {
    if old.is_none() {
        accessat(&place.parent, ".", Access::WRITE_OK, AtFlags::empty()).map_err(about(path))?;
    }
    let addition = unnamed_file(place).map_err(about(path))?;
    let opened = fstat(&addition).map_err(about(path))?;
    connection.send_with(&FilesReply::Opened(info(&opened, None)), &[addition.as_fd()])?;
    if connection.finish()? == Finish::Revert {
        return connection.send(&FilesReply::Done);
    }
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = |flags| openat(&place.parent, &place.name[..], flags, Mode::from_raw_mode(0o666));
    let (file, was_made) = match open(flags | OFlags::CREATE | OFlags::EXCL) {
        Err(Errno::EXIST) => (open(flags).map_err(about(path))?, false),
        made => (made.map_err(about(path))?, true),
    };
    let added = add_to(&file, &addition, path, mode, &|| connection.check());
    if added.is_err() && was_made {
        let there = statat(&place.parent, &place.name[..], AtFlags::SYMLINK_NOFOLLOW);
        let is_empty = |made: Stat| made.st_size == 0 && there.is_ok_and(|there| identity(&there) == identity(&made));
        if fstat(&file).is_ok_and(is_empty) {
            let _ = unlinkat(&place.parent, &place.name[..], AtFlags::empty());
        }
    }
    added?;
    let written = fstat(&file).map_err(about(path))?;
    connection.send(&FilesReply::Found(Some(info(&written, None))))
}

/// A file for an addition, next to the file if possible: there should be room for it.
fn unnamed_file(place: &Place) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
    let open = |directory: BorrowedFd<'_>, path: &Path| openat(directory, path, flags, Mode::from_raw_mode(0o600));
    let elsewhere = |errno| open(CWD, &std::env::temp_dir()).map_err(|_| errno);
    open(place.parent.as_fd(), Path::new(".")).or_else(elsewhere)
}

/// Bytes per write of an addition. A shorter addition is written at once, so nothing comes into its middle.
const PIECE_BYTES: usize = 256 * 1024;

/// Adds the content of `addition` to a file. On a failure, what was added is removed, unless another program has added to
/// the file meanwhile.
///
/// The race: another program can add to the file between the look at its size and the removal. Then its addition is lost.
/// Linux offers no way to exclude that.
fn add_to(
    file: &OwnedFd,
    addition: &OwnedFd,
    path: &[u8],
    mode: Option<u32>,
    check: &dyn Fn() -> Result<(), Stop>,
) -> Result<(), Stop> {
    let before = fstat(file).map_err(about(path))?;
    regular_at(&before, path)?;
    if let Some(mode) = mode {
        fchmod(file, Mode::from_raw_mode(mode)).map_err(about(path))?;
    }
    let mut added = Added::default();
    let result = copy_all(file, addition, &mut added, path, check);
    if result.is_err() && mode.is_some() {
        let _ = fchmod(file, Mode::from_raw_mode(permissions(&before)));
    }
    if result.is_err() && added.end > added.start && fstat(file).is_ok_and(|now| now.st_size as u64 == added.end) {
        let _ = ftruncate(file, added.start);
    }
    result
}

/// The part of a file that was added without anything else in it: the last one, if something came between.
#[derive(Default)]
struct Added {
    start: u64,
    end: u64,
}

fn copy_all(
    file: &OwnedFd,
    addition: &OwnedFd,
    added: &mut Added,
    path: &[u8],
    check: &dyn Fn() -> Result<(), Stop>,
) -> Result<(), Stop> {
    let mut buffer = vec![0; PIECE_BYTES];
    let mut from = 0;
    loop {
        check()?;
        let read = retry_on_intr(|| pread(addition, &mut buffer, from)).map_err(about(path))?;
        if read == 0 {
            return Ok(());
        }
        from += read as u64;
        let mut rest = &buffer[..read];
        while !rest.is_empty() {
            let written = retry_on_intr(|| write_to(file, rest)).map_err(about(path))?;
            rest = &rest[written..];
            // The kernel has moved the position behind what was added.
            let end = seek(file, SeekFrom::Current(0)).map_err(about(path))?;
            let start = end - written as u64;
            *added = Added { start: if added.end == start { added.start.min(start) } else { start }, end };
        }
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
