//! Removes files and trees.

use super::connection::Connection;
use super::cursor::{Cursor, holds};
use super::failure::{Stop, about, below, failure};
use super::info::identity;
use super::place::open_directory;
use super::way::{Start, place_of};
use nacre_protocol::files::{Failure, Kind, Reason};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, chmod, fchmod, openat, statat, unlinkat};
use rustix::io::Errno;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Removes a file, a symlink or a directory. Refuses `.`, `..`, the root, and a directory that contains the session's
/// directory. `rm -r` refuses most of them too, and a session without its directory is useless.
pub fn remove(connection: &Connection, start: Start<'_>, path: &[u8], recursive: bool) -> Result<(), Stop> {
    let place = place_of(start, path, false)?;
    let protected = || Stop::Failed(failure(Reason::Protected, path));
    if !place.has_name() {
        return Err(protected());
    }
    let stat = statat(&place.parent, &place.name[..], AtFlags::SYMLINK_NOFOLLOW).map_err(about(path))?;
    if Kind::of(stat.st_mode) != Kind::Directory {
        if place.is_directory {
            return Err(about(path)(Errno::NOTDIR).into());
        }
        unlinkat(&place.parent, &place.name[..], AtFlags::empty()).map_err(about(path))?;
        return Ok(());
    }
    let (Start::Session(here) | Start::Root(here)) = start;
    let is_session_inside = open_directory(CWD, here).and_then(|inner| holds(identity(&stat), inner));
    if is_session_inside == Ok(true) {
        return Err(protected());
    }
    if recursive {
        return remove_tree(&place.parent, &place.name, path, false, &|| connection.check());
    }
    match unlinkat(&place.parent, &place.name[..], AtFlags::REMOVEDIR) {
        Err(Errno::NOTEMPTY | Errno::EXIST) => Err(failure(Reason::NeedsRecursive, path).into()),
        removed => Ok(removed.map_err(about(path))?),
    }
}

/// Removes a directory with its content. `shown` is its path in failures; `forced` makes its directories writable first;
/// `check` can stop the work.
pub fn remove_tree(
    parent: impl std::os::fd::AsFd,
    name: &[u8],
    shown: &[u8],
    forced: bool,
    check: &dyn Fn() -> Result<(), Stop>,
) -> Result<(), Stop> {
    let mut cursor = Cursor::open_exactly(&parent, name);
    if matches!(cursor, Err(Errno::ACCESS)) && forced {
        make_readable(parent.as_fd(), name).map_err(about(shown))?;
        cursor = Cursor::open_exactly(&parent, name);
    }
    let mut cursor = cursor.map_err(about(shown))?;
    let mut levels = vec![(Vec::new(), cursor.names().map_err(about(shown))?)];
    let path_of = |levels: &[(Vec<u8>, _)], name: &[u8]| -> Vec<u8> {
        levels
            .iter()
            .map(|(name, _)| &name[..])
            .chain([name])
            .filter(|name| !name.is_empty())
            .fold(shown.to_vec(), |path, name| below(&path, name))
    };
    while let Some((_, names)) = levels.last_mut() {
        check()?;
        let Some(entry) = names.next() else {
            while let Some((own, _)) = levels.pop()
                && !levels.is_empty()
            {
                let failed = |errno| Stop::Failed(about(&path_of(&levels, &own))(errno));
                match cursor.leave() {
                    Ok(()) => {
                        remove_one(cursor_fd(&cursor), &own, AtFlags::REMOVEDIR).map_err(failed)?;
                        break;
                    }
                    // The parent directory has been moved or removed, with what was left in it.
                    Err(Errno::STALE) => {}
                    Err(errno) => return Err(failed(errno)),
                }
            }
            continue;
        };
        let mut removed = remove_one(cursor_fd(&cursor), &entry, AtFlags::empty());
        if removed == Err(Errno::ACCESS) && forced {
            // This directory cannot be written to.
            removed =
                fchmod(&cursor, Mode::RWXU).and_then(|()| remove_one(cursor_fd(&cursor), &entry, AtFlags::empty()));
        }
        match removed {
            Ok(()) => {}
            // Linux returns EISDIR for a directory; POSIX allows EPERM.
            Err(Errno::ISDIR | Errno::PERM) => {
                let mut entered = cursor.enter(&entry);
                if entered == Err(Errno::ACCESS) && forced {
                    entered = make_readable(cursor_fd(&cursor), &entry).and_then(|()| cursor.enter(&entry));
                }
                match entered.and_then(|()| cursor.names()) {
                    Ok(names) => levels.push((entry, names)),
                    Err(Errno::NOENT) => {}
                    Err(errno) => return Err(fail(&path_of(&levels, &entry), errno)),
                }
            }
            Err(errno) => return Err(fail(&path_of(&levels, &entry), errno)),
        }
    }
    drop(cursor);
    Ok(remove_one(parent.as_fd(), name, AtFlags::REMOVEDIR).map_err(about(shown))?)
}

fn fail(path: &[u8], errno: Errno) -> Stop {
    // A file that cannot be removed and is not a directory: the first error was the reason.
    let errno = if errno == Errno::NOTDIR { Errno::PERM } else { errno };
    Stop::Failed(Failure { reason: Reason::System(errno.raw_os_error()), path: path.to_vec() })
}

/// Gives the owner all permissions for a directory. Follows no link, as chmod(2) by name would.
fn make_readable(parent: BorrowedFd<'_>, name: &[u8]) -> Result<(), Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = openat(parent, name, flags, Mode::empty())?;
    chmod(format!("/proc/self/fd/{}", directory.as_raw_fd()), Mode::RWXU)
}

fn cursor_fd(cursor: &Cursor) -> BorrowedFd<'_> {
    std::os::fd::AsFd::as_fd(cursor)
}

/// Treats a file that another process has removed meanwhile as removed.
fn remove_one(directory: BorrowedFd<'_>, name: &[u8], flags: AtFlags) -> Result<(), Errno> {
    match unlinkat(directory, name, flags) {
        Err(Errno::NOENT) => Ok(()),
        removed => removed,
    }
}
