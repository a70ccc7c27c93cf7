//! Reading the files of a job safely. Every reader of a job uses this module.
//!
//! The directory is open, so a reader reaches the files of one job, whatever happens to the directory's path meanwhile.
//!
//! The directory belongs to the caller or to root, but a command of the same user can put anything into it: a FIFO
//! would block the reader, a symlink would lead it elsewhere, a sparse file would fill its memory. So a file is checked
//! before it is opened, opened without following links or waiting, and checked again. The second check decides. The
//! first keeps devices from being opened, since opening some devices has an effect.

use super::layout;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, fstatat};
use std::fmt;
use std::fs::File;
use std::io::{self, Read};

/// Maximum length of `meta.json`. The supervisor shortens the displayed command so that its own files are shorter.
pub const MOST_META_BYTES: u64 = 8 * 1024 * 1024;
/// Maximum length of `exit` or `end.json`. nacre writes less than 512 bytes.
pub const MOST_RECORD_BYTES: u64 = 4096;

/// Why a file of a job is not read.
#[derive(Debug)]
pub enum Unreadable {
    /// A FIFO, a device, a symlink, a socket or a directory.
    NotRegular,
    /// It belongs to neither this user nor root. Holds the uid.
    Owner(u32),
    /// It is longer than the limit for such a file. Holds its length and the limit, in bytes.
    TooLong(u64, u64),
    /// A system call failed.
    Io(io::Error),
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotRegular => f.write_str("it is not a regular file"),
            Self::Owner(uid) => write!(f, "it belongs to another user (uid {uid})"),
            Self::TooLong(length, most) => write!(f, "it has {length} bytes, and at most {most} are read"),
            Self::Io(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Unreadable {}

impl From<Errno> for Unreadable {
    fn from(errno: Errno) -> Self {
        Self::Io(errno.into())
    }
}

/// Opens a file of a job, or `None` when there is no such file. Never blocks.
///
/// # Errors
/// See [`Unreadable`].
pub fn open(directory: &File, name: &str) -> Result<Option<File>, Unreadable> {
    if stat(directory, name)?.is_none() {
        return Ok(None);
    }
    let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOFOLLOW | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    let file = match openat(directory, name, flags, Mode::empty()) {
        Err(Errno::ENOENT) => return Ok(None),
        Err(Errno::ELOOP) => return Err(Unreadable::NotRegular),
        other => other?,
    };
    check(&fstat(&file)?, name)?;
    Ok(Some(file.into()))
}

/// Reads a whole file of a job, or `None` when there is no such file.
///
/// # Errors
/// See [`Unreadable`]; a file of more than `most` bytes is [`Unreadable::TooLong`].
pub fn read(directory: &File, name: &str, most: u64) -> Result<Option<Vec<u8>>, Unreadable> {
    let Some(file) = open(directory, name)? else { return Ok(None) };
    let length = file.metadata().map_err(Unreadable::Io)?.len();
    if length > most {
        return Err(Unreadable::TooLong(length, most));
    }
    let mut bytes = Vec::with_capacity(length as usize);
    // The file may grow meanwhile.
    file.take(most).read_to_end(&mut bytes).map_err(Unreadable::Io)?;
    Ok(Some(bytes))
}

/// The length of a file of a job in bytes; 0 when there is no such file.
///
/// # Errors
/// See [`Unreadable`].
pub fn size(directory: &File, name: &str) -> Result<u64, Unreadable> {
    Ok(stat(directory, name)?.map_or(0, |found| u64::try_from(found.st_size).unwrap_or_default()))
}

/// Checks a file as [`open`] does, without opening it.
///
/// # Errors
/// See [`Unreadable`].
pub fn stat(directory: &File, name: &str) -> Result<Option<FileStat>, Unreadable> {
    match fstatat(directory, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
        Err(Errno::ENOENT) => Ok(None),
        found => {
            let found = found?;
            check(&found, name)?;
            Ok(Some(found))
        }
    }
}

/// The output and the input belong to the user that the command runs as, so their owner is not checked. Being in the
/// directory is proof enough: only the directory's owner can put a file there.
fn check(found: &FileStat, name: &str) -> Result<(), Unreadable> {
    if SFlag::from_bits_truncate(found.st_mode) & SFlag::S_IFMT != SFlag::S_IFREG {
        return Err(Unreadable::NotRegular);
    }
    let is_the_commands = [layout::OUTPUT, layout::STDIN].contains(&name);
    if is_the_commands || found.st_uid == 0 || found.st_uid == nix::unistd::geteuid().as_raw() {
        return Ok(());
    }
    Err(Unreadable::Owner(found.st_uid))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn opens_regular_files_and_nothing_else() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        fs::write(at("file"), "text").unwrap();
        fs::create_dir(at("directory")).unwrap();
        nix::unistd::mkfifo(&at("fifo"), Mode::S_IRWXU).unwrap();
        symlink(at("file"), at("link")).unwrap();
        symlink("/dev/zero", at("device")).unwrap();
        let directory = File::open(root.path()).unwrap();
        assert_eq!(read(&directory, "file", 9).unwrap().unwrap(), b"text");
        assert!(open(&directory, "missing").unwrap().is_none());
        for name in ["directory", "fifo", "link", "device"] {
            assert!(matches!(open(&directory, name), Err(Unreadable::NotRegular)), "{name}");
            assert!(size(&directory, name).is_err());
        }
        assert_eq!((size(&directory, "file").unwrap(), size(&directory, "missing").unwrap()), (4, 0));
    }

    #[test]
    fn refuses_what_is_longer_than_the_limit_without_reading_it() {
        let root = tempfile::tempdir().unwrap();
        let sparse = File::create(root.path().join("meta.json")).unwrap();
        sparse.set_len(1 << 40).unwrap();
        let refused = read(&File::open(root.path()).unwrap(), "meta.json", MOST_META_BYTES);
        assert!(matches!(refused, Err(Unreadable::TooLong(length, MOST_META_BYTES)) if length == 1 << 40));
    }
}
