//! Calls that need a single system call: stat, mkdir, chmod, rename, and opening a file for reading.

use super::connection::Connection;
use super::failure::{Stop, about, failure};
use super::info::{info, target};
use super::place::{Origin, Place};
use super::way::{Start, Way, place_of};
use nacre_containment::relocation::{self, Standing};
use nacre_protocol::files::{Failure, FilesReply, Info, Kind, Reason, temporary_name};
use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, chmodat, fstat, mkdirat, openat, renameat, statat};
use rustix::io::Errno;
use std::os::fd::AsFd;

/// Describes a file; `target` shows whether the path itself is a link.
pub fn stat(connection: &Connection, start: Start<'_>, path: &[u8], follow: bool) -> Result<(), Stop> {
    let way = match Way::of(start, path, follow) {
        Err(Failure { reason: Reason::System(errno), .. }) if is_missing(errno) => {
            return connection.send(&FilesReply::Found(None));
        }
        way => way?,
    };
    let flags = if way.follows { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
    let found = match statat(&way.origin, &way.path[..], flags) {
        Ok(stat) => Some(info(&stat, target(&way.origin, &way.path))),
        Err(Errno::NOENT | Errno::NOTDIR) => None,
        Err(errno) => return Err(about(path)(errno).into()),
    };
    connection.send(&FilesReply::Found(found))
}

fn is_missing(errno: i32) -> bool {
    errno == Errno::NOENT.raw_os_error() || errno == Errno::NOTDIR.raw_os_error()
}

/// Creates a directory and its missing parents.
pub fn make_directory(start: Start<'_>, path: &[u8]) -> Result<(), Stop> {
    let place = place_of(start, path, true)?;
    Ok(mkdirat(&place.parent, &place.name[..], Mode::from_raw_mode(0o777)).map_err(about(path))?)
}

/// Sets the permissions of a file, as chmod(1) does.
pub fn set_mode(cwd: &[u8], path: &[u8], mode: u32) -> Result<(), Stop> {
    let origin = Origin::of(cwd, path)?;
    Ok(chmodat(&origin, path, Mode::from_raw_mode(mode), AtFlags::empty()).map_err(about(path))?)
}

/// Renames a file, replacing an existing file, as rename(2) does. `relocates`: also a directory that the kernel refuses to rename,
/// because it has content in a lower layer.
pub fn rename(cwd: &[u8], from: &[u8], to: &[u8], relocates: bool) -> Result<(), Stop> {
    let (old, new) = (Place::of(cwd, from, false)?, Place::of(cwd, to, false)?);
    for (place, path) in [(&old, from), (&new, to)] {
        if !place.has_name() {
            return Err(failure(Reason::Protected, path).into());
        }
    }
    let stat = statat(&old.parent, &old.name[..], AtFlags::SYMLINK_NOFOLLOW).map_err(about(from))?;
    if (old.is_directory || new.is_directory) && Kind::of(stat.st_mode) != Kind::Directory {
        return Err(about(if old.is_directory { from } else { to })(Errno::NOTDIR).into());
    }
    let renamed = match renameat(&old.parent, &old.name[..], &new.parent, &new.name[..]) {
        Err(Errno::XDEV) if relocates && Kind::of(stat.st_mode) == Kind::Directory => relocate(&old, &new),
        renamed => renamed,
    };
    Ok(renamed.map_err(|errno| match errno {
        Errno::NOENT => about(from)(errno),
        Errno::INVAL => failure(Reason::Inside, to),
        errno => about(to)(errno),
    })?)
}

fn relocate(old: &Place, new: &Place) -> rustix::io::Result<()> {
    let standing = Standing::look().map_err(|_| Errno::XDEV)?;
    let old = relocation::Place { directory: &old.parent, name: &old.name };
    let new = relocation::Place { directory: &new.parent, name: &new.name };
    relocation::relocate(old, new, RenameFlags::empty(), (&temporary_name(), &standing), &|| Ok(()))
}

/// Opens a regular file and passes it to the host.
pub fn read(connection: &Connection, start: Start<'_>, path: &[u8]) -> Result<(), Stop> {
    let way = Way::of(start, path, true)?;
    let flags = if way.follows { OFlags::empty() } else { OFlags::NOFOLLOW };
    let (file, found) = open_to_read(&way.origin, &way.path, flags).map_err(|reason| failure(reason, path))?;
    connection.send_with(&FilesReply::Opened(found), &[file.as_fd()])
}

/// Opens a regular file. Other files are never opened: some block, and opening some devices has side effects.
pub fn open_to_read(origin: impl AsFd, path: &[u8], flags: OFlags) -> Result<(std::os::fd::OwnedFd, Info), Reason> {
    let system = |errno: Errno| Reason::System(errno.raw_os_error());
    let nofollow = flags.contains(OFlags::NOFOLLOW);
    let at = if nofollow { AtFlags::SYMLINK_NOFOLLOW } else { AtFlags::empty() };
    regular(&statat(&origin, path, at).map_err(system)?)?;
    // The file may have been replaced meanwhile, so the open must not block either.
    let all = flags | OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = openat(&origin, path, all, Mode::empty()).map_err(system)?;
    let stat = fstat(&file).map_err(system)?;
    regular(&stat)?;
    Ok((file, info(&stat, None)))
}

/// Refuses files that are not regular.
pub fn regular(stat: &rustix::fs::Stat) -> Result<(), Reason> {
    match Kind::of(stat.st_mode) {
        Kind::File => Ok(()),
        Kind::Directory => Err(Reason::System(Errno::ISDIR.raw_os_error())),
        kind => Err(Reason::NotRegular(kind)),
    }
}

/// Does the same, with the path in the failure.
pub fn regular_at(stat: &rustix::fs::Stat, path: &[u8]) -> Result<(), Failure> {
    regular(stat).map_err(|reason| failure(reason, path))
}
