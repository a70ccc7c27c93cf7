//! Removes files and trees.

use super::connection::Connection;
use super::failure::{Stop, about, below, failure, stopped};
use super::place::{holds, open_directory};
use super::way::{Start, place_of};
use nacre_containment::file_tree::{self, Kept, identity};
use nacre_protocol::files::{Kind, Reason};
use rustix::fs::{AtFlags, CWD, statat, unlinkat};
use rustix::io::Errno;

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
        let removed = file_tree::remove(&place.parent, &place.name, false, &|| connection.check_errno());
        return removed.map_err(|Kept { path: entry, errno }| stopped(errno, &below(path, &entry)));
    }
    match unlinkat(&place.parent, &place.name[..], AtFlags::REMOVEDIR) {
        Err(Errno::NOTEMPTY | Errno::EXIST) => Err(failure(Reason::NeedsRecursive, path).into()),
        removed => Ok(removed.map_err(about(path))?),
    }
}
