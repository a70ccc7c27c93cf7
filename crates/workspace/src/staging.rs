//! A hidden directory in the root of a workspace, or of its real directory: new contents are made there and then renamed.

use crate::metadata::Metadata;
use crate::removal;
use crate::tree::{Tree, file_type, status};
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, SeekFrom, Stat, copy_file_range, fstat, ftruncate, ioctl_ficlone, mkdirat,
    mknodat, openat, readlinkat, seek, symlinkat, unlinkat,
};
use rustix::io::{Errno, Result, read, write};
use rustix::process::geteuid;
use std::os::fd::{AsFd, OwnedFd};

/// What the names of these directories begin with. They are never changes.
const PREFIX: &[u8] = b".nacre-commit-";
/// Maximum directories of other programs that have the name of one of a workspace.
const MAX_TAKEN: u32 = 100;
/// Bytes of each copy between files.
const BLOCK: usize = 1024 * 1024;
/// Maximum bytes that the kernel copies at a time.
const MAX_COPY: usize = 64 * 1024 * 1024;

/// Whether a path of a workspace is such a directory, or below one.
pub fn is_staging(path: &[u8]) -> bool {
    path.starts_with(PREFIX)
}

/// The name of the directory for a workspace.
pub fn name(id: &[u8]) -> Vec<u8> {
    [PREFIX, id].concat()
}

/// See the module.
pub struct Staging {
    root: OwnedFd,
    name: Vec<u8>,
    directory: OwnedFd,
}

impl Staging {
    /// Creates the directory.
    ///
    /// # Errors
    /// Those of the system calls; `EEXIST` if there is one of this name.
    pub fn create(tree: &Tree, name: &[u8]) -> Result<Self> {
        let root = tree.directory(b"")?.ok_or(Errno::STALE)?;
        mkdirat(&root, name, Mode::RWXU)?;
        let staging = Self::opened(root, name)?.ok_or(Errno::STALE)?;
        // A directory that another user put in its place is not used.
        let found = fstat(&staging.directory)?;
        let is_own = found.st_uid == geteuid().as_raw() && found.st_mode & 0o077 == 0;
        if is_own { Ok(staging) } else { Err(Errno::STALE) }
    }

    /// Opens the directory with this device and inode. `None` if there is none: whoever owns the workspace can give this name
    /// to any directory of it.
    ///
    /// # Errors
    /// Those of the system calls.
    pub fn open(tree: &Tree, name: &[u8], identity: (u64, u64)) -> Result<Option<Self>> {
        let Some(staging) = Self::opened(tree.directory(b"")?.ok_or(Errno::STALE)?, name)? else { return Ok(None) };
        Ok((staging.identity()? == identity).then_some(staging))
    }

    /// Its device and inode.
    ///
    /// # Errors
    /// Those of fstat(2).
    pub fn identity(&self) -> Result<(u64, u64)> {
        let found = fstat(&self.directory)?;
        Ok((found.st_dev, found.st_ino))
    }

    fn opened(root: OwnedFd, name: &[u8]) -> Result<Option<Self>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match openat(&root, name, flags, Mode::empty()) {
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
            directory => Ok(Some(Self { root, name: name.to_vec(), directory: directory? })),
        }
    }

    /// The directory.
    pub fn directory(&self) -> &OwnedFd {
        &self.directory
    }

    /// Removes it, with what is in it.
    ///
    /// # Errors
    /// Those of the system calls.
    pub fn remove(self) -> Result<()> {
        removal::empty(&self.directory)?;
        match unlinkat(&self.root, &self.name[..], AtFlags::REMOVEDIR) {
            Err(Errno::NOENT) => Ok(()),
            removed => removed,
        }
    }
}

/// Removes a directory of this name that was left behind in what programs see. A program may have made it.
///
/// # Errors
/// Those of the system calls.
pub fn remove_seen(merged: &Tree, name: &[u8]) -> Result<()> {
    let root = merged.directory(b"")?.ok_or(Errno::STALE)?;
    Staging::opened(root, name)?.map_or(Ok(()), Staging::remove)
}

/// Removes a directory that was left behind in a real directory. Without a device and inode, only if it is empty.
///
/// # Errors
/// Those of the system calls.
pub fn remove_real(base: &Tree, name: &[u8], identity: Option<(u64, u64)>) -> Result<()> {
    if let Some(identity) = identity {
        return Staging::open(base, name, identity)?.map_or(Ok(()), Staging::remove);
    }
    let root = base.directory(b"")?.ok_or(Errno::STALE)?;
    match unlinkat(&root, name, AtFlags::REMOVEDIR) {
        Err(Errno::NOENT | Errno::NOTDIR | Errno::NOTEMPTY | Errno::EXIST | Errno::PERM | Errno::ACCESS) => Ok(()),
        removed => removed,
    }
}

/// A name for a new directory in a real one: `name`, or a similar one if it is taken.
///
/// # Errors
/// Those of the system calls; `EEXIST` if too many are taken.
pub fn free_name(base: &Tree, name: &[u8]) -> Result<Vec<u8>> {
    remove_real(base, name, None)?;
    let root = base.directory(b"")?.ok_or(Errno::STALE)?;
    for number in 0..MAX_TAKEN {
        let candidate = if number == 0 { name.to_vec() } else { [name, format!("-{number}").as_bytes()].concat() };
        if status(Some(&root), &candidate)?.is_none() {
            return Ok(candidate);
        }
    }
    Err(Errno::EXIST)
}

/// An entry to be copied.
pub struct Source<'a> {
    /// Where it is.
    pub directory: &'a OwnedFd,
    /// Its name there.
    pub name: &'a [u8],
    /// Another file with the same content, whose file system can clone it.
    pub content: Option<OwnedFd>,
    /// Fails once the caller has gone. Called now and then.
    pub interrupt: &'a dyn Fn() -> Result<()>,
}

impl Source<'_> {
    /// Copies the entry with its metadata, and returns the inode number of the copy. A directory is copied without what
    /// is in it, and its owner may write to it.
    ///
    /// # Errors
    /// Those of the system calls.
    pub fn copy(self, target: &OwnedFd, name: &[u8]) -> Result<u64> {
        let metadata = Metadata::of(self.directory, self.name)?;
        self.copy_with(metadata, target, name)
    }

    /// The same with other metadata.
    ///
    /// # Errors
    /// Those of the system calls.
    pub fn copy_with(self, mut metadata: Metadata, target: &OwnedFd, name: &[u8]) -> Result<u64> {
        let found = status(Some(self.directory), self.name)?.ok_or(Errno::NOENT)?;
        let kind = file_type(&found);
        match kind {
            FileType::RegularFile => self.copy_file(target, name)?,
            FileType::Symlink => symlinkat(readlinkat(self.directory, self.name, Vec::new())?, target, name)?,
            FileType::Directory => mkdirat(target, name, Mode::RWXU)?,
            kind => mknodat(target, name, kind, Mode::RUSR | Mode::WUSR, found.st_rdev)?,
        }
        if kind == FileType::Directory {
            let mode = metadata.mode() | 0o700;
            metadata = metadata.with_mode(mode);
        }
        if !metadata.apply(target, name, None)? {
            return Err(Errno::STALE);
        }
        Ok(status(Some(target), name)?.ok_or(Errno::STALE)?.st_ino)
    }

    fn copy_file(self, target: &OwnedFd, name: &[u8]) -> Result<()> {
        let from = match self.content {
            Some(content) => content,
            None => crate::tree::open_file(self.directory, self.name)?,
        };
        if file_type(&fstat(&from)?) != FileType::RegularFile {
            return Err(Errno::STALE);
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let to = openat(target, name, flags, Mode::RUSR | Mode::WUSR)?;
        match ioctl_ficlone(&to, &from) {
            Ok(()) => Ok(()),
            Err(Errno::NOSPC | Errno::DQUOT) => Err(Errno::NOSPC),
            Err(_) => copy_data(&from, &to, &fstat(&from)?, self.interrupt),
        }
    }
}

/// Copies the content of a file. Holes stay holes.
fn copy_data(from: &OwnedFd, to: &OwnedFd, found: &Stat, interrupt: &dyn Fn() -> Result<()>) -> Result<()> {
    let end = found.st_size as u64;
    ftruncate(to, end)?;
    let mut at = 0;
    while at < end {
        let data = match seek(from, SeekFrom::Data(at)) {
            // Only a hole follows.
            Err(Errno::NXIO) => break,
            Err(Errno::INVAL) => at,
            data => data?,
        };
        let until = seek(from, SeekFrom::Hole(data)).unwrap_or(end).min(end);
        copy_range(from, to, data, until, interrupt)?;
        at = until.max(data + 1);
    }
    Ok(())
}

fn copy_range(from: &OwnedFd, to: &OwnedFd, mut at: u64, end: u64, interrupt: &dyn Fn() -> Result<()>) -> Result<()> {
    while at < end {
        interrupt()?;
        let (mut read_at, mut write_at) = (at, at);
        let length = usize::try_from(end - at).unwrap_or(usize::MAX).min(MAX_COPY);
        match copy_file_range(from, Some(&mut read_at), to, Some(&mut write_at), length) {
            Ok(0) => return Ok(()),
            Ok(copied) => at += copied as u64,
            Err(Errno::INTR) => {}
            Err(Errno::XDEV | Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                return copy_by_hand(from, to, at, end, interrupt);
            }
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

fn copy_by_hand(from: &OwnedFd, to: &OwnedFd, at: u64, end: u64, interrupt: &dyn Fn() -> Result<()>) -> Result<()> {
    seek(from, SeekFrom::Start(at))?;
    seek(to, SeekFrom::Start(at))?;
    let mut buffer = vec![0; BLOCK];
    let mut left = end - at;
    while left > 0 {
        interrupt()?;
        let wanted = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let length = match read(from, &mut buffer[..wanted]) {
            Ok(0) => return Ok(()),
            Err(Errno::INTR) => continue,
            length => length?,
        };
        write_all(to, &buffer[..length])?;
        left -= length as u64;
    }
    Ok(())
}

/// Writes all bytes.
pub fn write_all(file: impl AsFd, mut bytes: &[u8]) -> Result<()> {
    while !bytes.is_empty() {
        match write(&file, bytes) {
            Ok(0) => return Err(Errno::IO),
            Ok(length) => bytes = &bytes[length..],
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}
