//! Copies files and trees. A copy appears under its name once it is complete.
//!
//! As with `cp -r`, symlinks are copied as symlinks and FIFOs as FIFOs. Permissions are preserved, owners and times
//! are not. Sockets and devices are refused.

use super::change::{open_to_read, regular_at};
use super::connection::Connection;
use super::failure::{Stop, about, below, failure, stopped};
use super::info::{permissions, target};
use super::place::{Place, holds};
use super::temporary::Temporary;
use super::write::NewContent;
use nacre_containment::file_tree::{Cursor, copy_content, identity};
use nacre_protocol::files::{Failure, Kind, Reason};
use rustix::fs::{
    Access, AtFlags, Mode, OFlags, RenameFlags, Stat, accessat, fchmod, mkdirat, mkfifoat, openat, renameat,
    renameat_with, statat, symlinkat,
};
use rustix::io::Errno;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};

/// See the module.
pub fn copy(connection: &Connection, cwd: &[u8], from: &[u8], to: &[u8], recursive: bool) -> Result<(), Stop> {
    let mut source = Place::of(cwd, from, false)?;
    if !recursive || source.is_directory {
        source = source.follow().map_err(about(from))?;
    }
    let stat = statat(&source.parent, &source.name[..], AtFlags::SYMLINK_NOFOLLOW).map_err(about(from))?;
    let kind = Kind::of(stat.st_mode);
    if source.is_directory && kind != Kind::Directory {
        return Err(about(from)(Errno::NOTDIR).into());
    }
    if kind == Kind::Directory && !recursive {
        return Err(failure(Reason::NeedsRecursive, from).into());
    }
    let mut copy = Place::of(cwd, to, false)?;
    if kind == Kind::File {
        copy = copy.follow().map_err(about(to))?;
    }
    let overwrites = check_target(&copy, &stat, to)?;
    let work = Work { connection, from };
    match kind {
        Kind::Directory => work.tree(&source, &stat, &copy, to),
        Kind::File => {
            let (new, file) = NewContent::of(&copy, overwrites).map_err(about(to))?;
            let content = file.try_clone().map_err(|_| about(to)(Errno::MFILE))?;
            work.content(source.parent.as_fd(), &source.name, content.into(), from, to)?;
            new.put(&file, &copy, None, to, &|| connection.check())?;
            Ok(())
        }
        _ => {
            let make =
                |name: &[u8]| make_special(source.parent.as_fd(), &source.name, &stat, copy.parent.as_fd(), name);
            check_special(kind, from)?;
            let temporary = Temporary::other(copy.parent.as_fd(), make).map_err(about(to))?;
            Ok(temporary.keep(|name| renameat(&copy.parent, name, &copy.parent, &copy.name[..])).map_err(about(to))?)
        }
    }
}

/// A file can replace a file; a directory cannot replace anything. Returns whether there is a file that may be written to.
fn check_target(copy: &Place, source: &Stat, to: &[u8]) -> Result<bool, Failure> {
    let is_tree = Kind::of(source.st_mode) == Kind::Directory;
    let existing = match statat(&copy.parent, &copy.name[..], AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) if copy.is_directory && !is_tree => return Err(about(to)(Errno::ISDIR)),
        Err(Errno::NOENT) if is_tree => {
            let is_inside = holds(identity(source), &copy.parent).map_err(about(to))?;
            return if is_inside { Err(failure(Reason::Inside, to)) } else { Ok(false) };
        }
        Err(Errno::NOENT) => return Ok(false),
        found => found.map_err(about(to))?,
    };
    if identity(&existing) == identity(source) {
        return Err(failure(Reason::SameFile, to));
    }
    if is_tree {
        return Err(about(to)(Errno::EXIST));
    }
    regular_at(&existing, to)?;
    Ok(accessat(&copy.parent, &copy.name[..], Access::WRITE_OK, AtFlags::empty()).is_ok())
}

struct Work<'a> {
    connection: &'a Connection,
    from: &'a [u8],
}

impl Work<'_> {
    fn tree(&self, source: &Place, stat: &Stat, copy: &Place, to: &[u8]) -> Result<(), Stop> {
        let temporary = Temporary::directory(copy.parent.as_fd()).map_err(about(to))?;
        let mut reading = Cursor::open_exactly(&source.parent, &source.name).map_err(about(self.from))?;
        let mut writing = Cursor::open_exactly(&copy.parent, temporary.name()).map_err(about(to))?;
        let mut levels = vec![(Vec::new(), permissions(stat), reading.names().map_err(about(self.from))?)];
        let mut path: Vec<Vec<u8>> = Vec::new();
        while let Some((_, mode, names)) = levels.last_mut() {
            self.connection.check()?;
            let Some(name) = names.next() else {
                let own = shown(to, &path);
                let failed = about(&own);
                fchmod(&writing, Mode::from_raw_mode(*mode & 0o777)).map_err(&failed)?;
                levels.pop();
                if !levels.is_empty() {
                    reading.leave().map_err(about(&shown(self.from, &path)))?;
                    writing.leave().map_err(&failed)?;
                    path.pop();
                }
                continue;
            };
            let own: Vec<Vec<u8>> = path.iter().cloned().chain([name.clone()]).collect();
            let (from, to) = (shown(self.from, &own), shown(to, &own));
            let stat = match statat(&reading, &name[..], AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) => continue,
                found => found.map_err(about(&from))?,
            };
            match Kind::of(stat.st_mode) {
                Kind::Directory => {
                    reading.enter(&name).map_err(about(&from))?;
                    mkdirat(&writing, &name[..], Mode::from_raw_mode(0o700)).map_err(about(&to))?;
                    writing.enter(&name).map_err(about(&to))?;
                    levels.push((name.clone(), permissions(&stat), reading.names().map_err(about(&from))?));
                    path.push(name);
                }
                Kind::File => {
                    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                    let mode = Mode::from_raw_mode(0o600);
                    let file = openat(&writing, &name[..], flags, mode).map_err(about(&to))?;
                    self.content(reading.as_fd(), &name, file.into(), &from, &to)?;
                }
                kind => {
                    check_special(kind, &from)?;
                    make_special(reading.as_fd(), &name, &stat, writing.as_fd(), &name).map_err(about(&to))?;
                }
            }
        }
        let flags = RenameFlags::NOREPLACE;
        let renamed = temporary.keep(|name| {
            match renameat_with(&copy.parent, name, &copy.parent, &copy.name[..], flags) {
                // Not every file system supports the flag. Without it, only an empty directory could be replaced.
                Err(Errno::INVAL) => renameat(&copy.parent, name, &copy.parent, &copy.name[..]),
                renamed => renamed,
            }
        });
        Ok(renamed.map_err(about(to))?)
    }

    /// Copies a file's content, with its holes, and its permissions.
    fn content(&self, directory: BorrowedFd<'_>, name: &[u8], copy: File, from: &[u8], to: &[u8]) -> Result<(), Stop> {
        let opened = open_to_read(directory, name, OFlags::NOFOLLOW);
        let (file, found) = opened.map_err(|reason| failure(reason, from))?;
        let copied = copy_content(&file.into(), &copy, found.size, &|| self.connection.check_errno());
        copied.map_err(|errno| stopped(errno, to))?;
        Ok(fchmod(&copy, Mode::from_raw_mode(found.mode & 0o777)).map_err(about(to))?)
    }
}

fn shown(given: &[u8], names: &[Vec<u8>]) -> Vec<u8> {
    names.iter().fold(given.to_vec(), |path, name| below(&path, name))
}

fn check_special(kind: Kind, path: &[u8]) -> Result<(), Failure> {
    match kind {
        Kind::Symlink | Kind::Fifo => Ok(()),
        kind => Err(failure(Reason::NotRegular(kind), path)),
    }
}

/// Creates a symlink or a FIFO like an existing one.
fn make_special(
    directory: BorrowedFd<'_>,
    name: &[u8],
    stat: &Stat,
    to: BorrowedFd<'_>,
    new: &[u8],
) -> Result<(), Errno> {
    if Kind::of(stat.st_mode) == Kind::Fifo {
        return mkfifoat(to, new, Mode::from_raw_mode(permissions(stat) & 0o777));
    }
    symlinkat(target(directory, name).ok_or(Errno::NOENT)?, to, new)
}
