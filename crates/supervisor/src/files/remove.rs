//! Removes files and trees.

use super::connection::Connection;
use super::cursor::{Cursor, holds};
use super::failure::{Stop, about, below, failure};
use super::info::{identity, kind_of};
use super::place::open_directory;
use super::way::{Start, place_of};
use nacre_protocol::files::{Failure, Kind, Reason};
use rustix::fs::{AtFlags, CWD, statat, unlinkat};
use rustix::io::Errno;
use std::os::fd::BorrowedFd;

/// Removes a file, a symlink or a directory. Refuses `.`, `..`, the root, and a directory that contains the session's
/// directory. `rm -r` refuses most of them too, and a session without its directory is useless.
pub fn remove(connection: &Connection, start: Start<'_>, path: &[u8], recursive: bool) -> Result<(), Stop> {
    let place = place_of(start, path, false)?;
    let protected = || Stop::Failed(failure(Reason::Protected, path));
    if !place.has_name() {
        return Err(protected());
    }
    let stat = statat(&place.parent, &place.name[..], AtFlags::SYMLINK_NOFOLLOW).map_err(about(path))?;
    if kind_of(&stat) != Kind::Directory {
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
        return remove_tree(&place.parent, &place.name, path, &|| connection.check());
    }
    match unlinkat(&place.parent, &place.name[..], AtFlags::REMOVEDIR) {
        Err(Errno::NOTEMPTY | Errno::EXIST) => Err(failure(Reason::NeedsRecursive, path).into()),
        removed => Ok(removed.map_err(about(path))?),
    }
}

/// Removes a directory with its content. `shown` is its path in failures; `check` can stop the work.
pub fn remove_tree(
    parent: impl std::os::fd::AsFd,
    name: &[u8],
    shown: &[u8],
    check: &dyn Fn() -> Result<(), Stop>,
) -> Result<(), Stop> {
    let mut cursor = Cursor::open_exactly(&parent, name).map_err(about(shown))?;
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
            let Some((own, _)) = levels.pop() else { break };
            if levels.is_empty() {
                break;
            }
            let failed = |errno| Stop::Failed(about(&path_of(&levels, &own))(errno));
            cursor.leave().map_err(failed)?;
            remove_one(cursor_fd(&cursor), &own, AtFlags::REMOVEDIR).map_err(failed)?;
            continue;
        };
        match remove_one(cursor_fd(&cursor), &entry, AtFlags::empty()) {
            Ok(()) => {}
            // Linux returns EISDIR for a directory; POSIX allows EPERM.
            Err(Errno::ISDIR | Errno::PERM) => match cursor.enter(&entry).and_then(|()| cursor.names()) {
                Ok(names) => levels.push((entry, names)),
                Err(errno) => return Err(fail(&path_of(&levels, &entry), errno)),
            },
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
