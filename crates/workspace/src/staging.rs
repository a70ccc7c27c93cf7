//! A hidden directory in the root of a workspace, or of its real directory: new contents are made there and then renamed.

use crate::failure::errno_of;
use crate::metadata::Metadata;
use crate::tree::{Tree, file_type, if_directory, open_directory, status};
use nacre_containment::file_tree::{copy_content, empty, identity, unless};
use rustix::fs::{
    AtFlags, FileType, MemfdFlags, Mode, OFlags, fstat, ioctl_ficlone, memfd_create, mkdirat, mknodat, openat,
    readlinkat, symlinkat, unlinkat,
};
use rustix::io::{Errno, Result};
use rustix::process::geteuid;
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;

/// What the names of these directories begin with. They are never changes.
const PREFIX: &[u8] = b".nacre-commit-";
/// Maximum directories of other programs that have the name of one of a workspace.
const MAX_TAKEN: u32 = 100;

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
        Ok(identity(&fstat(&self.directory)?))
    }

    fn opened(root: OwnedFd, name: &[u8]) -> Result<Option<Self>> {
        let directory = if_directory(open_directory(&root, name))?;
        Ok(directory.map(|directory| Self { root, name: name.to_vec(), directory }))
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
        empty(&self.directory)?;
        unless(&[Errno::NOENT], unlinkat(&self.root, &self.name[..], AtFlags::REMOVEDIR))
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

/// A file in memory with a text, for [`Source::content`].
///
/// # Errors
/// Those of the system calls.
pub fn in_memory(text: &[u8]) -> Result<OwnedFd> {
    let mut file = File::from(memfd_create("nacre-hunks", MemfdFlags::CLOEXEC)?);
    file.write_all(text).map_err(|error| errno_of(&error))?;
    Ok(file.into())
}

impl Source<'_> {
    /// Copies the entry with this metadata, and returns the inode number of the copy. A directory is copied without what
    /// is in it, and its owner may write to it.
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
        let found = fstat(&from)?;
        if file_type(&found) != FileType::RegularFile {
            return Err(Errno::STALE);
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let to = openat(target, name, flags, Mode::RUSR | Mode::WUSR)?;
        match ioctl_ficlone(&to, &from) {
            Ok(()) => Ok(()),
            Err(Errno::NOSPC | Errno::DQUOT) => Err(Errno::NOSPC),
            Err(_) => copy_content(&from.into(), &to.into(), found.st_size as u64, self.interrupt),
        }
    }
}
