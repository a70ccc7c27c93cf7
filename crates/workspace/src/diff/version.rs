//! The content of a path on one side of a patch.

use super::{reading, shown};
use crate::failure::{Failure, while_doing};
use crate::tree::{open_file, status};
use rustix::fs::{FileType, fstat, readlinkat};
use rustix::io::{Errno, pread};
use sha1::{Digest, Sha1};
use std::os::fd::OwnedFd;

/// Maximum bytes of a file in a patch.
pub const MAX_FILE_BYTES: u64 = 512 * 1024 * 1024;
/// Maximum bytes of a file that is kept in memory, and whose lines are compared.
const MAX_TEXT_BYTES: u64 = 64 * 1024 * 1024;
/// As in git, a file with a NUL among its first bytes is binary.
const BINARY_BYTES: usize = 8000;
/// Bytes of each read.
const BLOCK: usize = 256 * 1024;
/// Attempts to read a path that becomes another file each time.
const ATTEMPTS: u32 = 16;
/// The mode of a symbolic link in git.
const LINK: &str = "120000";

/// The id of an object of git.
pub type Id = [u8; 20];

/// See the module.
pub struct Version {
    mode: &'static str,
    content: VersionContent,
    id: Id,
}

enum VersionContent {
    Memory(Vec<u8>),
    /// A large file, which is read once more for the patch.
    Disk {
        file: OwnedFd,
        size: u64,
    },
}

impl Version {
    /// Reads a file or link. `None` if the directory has neither with this name.
    ///
    /// # Errors
    /// [`Failure::TooLarge`] above [`MAX_FILE_BYTES`]; `EAGAIN` if it is replaced or truncated all the time.
    pub fn load(directory: &OwnedFd, name: &[u8], path: &[u8]) -> Result<Option<Self>, Failure> {
        for _ in 0..ATTEMPTS {
            let found = status(Some(directory), name).map_err(while_doing(reading(path)))?;
            let loaded = match found.map(|found| FileType::from_raw_mode(found.st_mode)) {
                Some(FileType::RegularFile) => Self::load_file(directory, name, path),
                Some(FileType::Symlink) => Self::load_link(directory, name, path),
                _ => return Ok(None),
            };
            match loaded {
                // The name has got another file since it was looked up, or the file has shrunk.
                Err(Failure::System(Errno::NOENT | Errno::INVAL | Errno::LOOP | Errno::NXIO | Errno::AGAIN, _)) => {}
                loaded => return loaded.map(Some),
            }
        }
        Err(Failure::System(Errno::AGAIN, reading(path)))
    }

    fn load_link(directory: &OwnedFd, name: &[u8], path: &[u8]) -> Result<Self, Failure> {
        let target = readlinkat(directory, name, Vec::new()).map_err(while_doing(reading(path)))?.into_bytes();
        let mut hash = hash_of(target.len() as u64);
        hash.update(&target);
        Ok(Self { mode: LINK, content: VersionContent::Memory(target), id: hash.finalize().into() })
    }

    fn load_file(directory: &OwnedFd, name: &[u8], path: &[u8]) -> Result<Self, Failure> {
        let file = open_file(directory, name).map_err(while_doing(reading(path)))?;
        let found = fstat(&file).map_err(while_doing(reading(path)))?;
        if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
            return Err(Failure::System(Errno::AGAIN, reading(path)));
        }
        let mode = if found.st_mode & 0o100 == 0 { "100644" } else { "100755" };
        let size = u64::try_from(found.st_size).unwrap_or(u64::MAX);
        if size > MAX_FILE_BYTES {
            let limit = MAX_FILE_BYTES / (1024 * 1024);
            return Err(Failure::TooLarge(format!("{} has more than {limit} MiB", shown(path))));
        }
        if size > MAX_TEXT_BYTES {
            let id = read_file(&file, size, path, |_| Ok(()))?;
            return Ok(Self { mode, content: VersionContent::Disk { file, size }, id });
        }
        let mut bytes = Vec::with_capacity(size as usize);
        let id = read_file(&file, size, path, |block| {
            bytes.extend_from_slice(block);
            Ok(())
        })?;
        Ok(Self { mode, content: VersionContent::Memory(bytes), id })
    }

    /// The mode in git.
    pub fn mode(&self) -> &'static str {
        self.mode
    }

    /// The id in git.
    pub fn id(&self) -> Id {
        self.id
    }

    /// Whether it is a symbolic link.
    pub fn is_link(&self) -> bool {
        self.mode == LINK
    }

    /// The number of bytes.
    pub fn size(&self) -> u64 {
        match &self.content {
            VersionContent::Memory(bytes) => bytes.len() as u64,
            VersionContent::Disk { size, .. } => *size,
        }
    }

    /// Whether another version has the same content.
    pub fn has_content_of(&self, other: &Self) -> bool {
        match (&self.content, &other.content) {
            (VersionContent::Memory(a), VersionContent::Memory(b)) => a == b,
            _ => self.id == other.id,
        }
    }

    /// The content if it is text. A large file counts as binary.
    pub fn text(&self) -> Option<&[u8]> {
        match &self.content {
            VersionContent::Memory(bytes) => {
                (memchr::memchr(0, &bytes[..bytes.len().min(BINARY_BYTES)]).is_none()).then_some(bytes)
            }
            VersionContent::Disk { .. } => None,
        }
    }

    /// Passes the content on, in blocks.
    ///
    /// # Errors
    /// Those of `each`; `EAGAIN` if a large file has changed since it was loaded.
    pub fn read(&self, path: &[u8], mut each: impl FnMut(&[u8]) -> Result<(), Failure>) -> Result<(), Failure> {
        match &self.content {
            VersionContent::Memory(bytes) => each(bytes),
            VersionContent::Disk { file, size } => match read_file(file, *size, path, each)? == self.id {
                true => Ok(()),
                false => Err(Failure::System(Errno::AGAIN, reading(path))),
            },
        }
    }
}

/// The hash of a blob of this size, before its content.
fn hash_of(size: u64) -> Sha1 {
    Sha1::new_with_prefix(format!("blob {size}\0"))
}

/// Reads exactly the first `size` bytes: a file that grows meanwhile counts as it was. Returns its id.
fn read_file(
    file: &OwnedFd,
    size: u64,
    path: &[u8],
    mut each: impl FnMut(&[u8]) -> Result<(), Failure>,
) -> Result<Id, Failure> {
    let mut hash = hash_of(size);
    let mut block = vec![0; usize::try_from(size).map_or(BLOCK, |size| size.min(BLOCK))];
    let mut at = 0;
    while at < size {
        let length = usize::try_from(size - at).map_or(block.len(), |left| left.min(block.len()));
        match pread(file, &mut block[..length], at) {
            Ok(0) => return Err(Failure::System(Errno::AGAIN, reading(path))),
            Ok(length) => {
                hash.update(&block[..length]);
                each(&block[..length])?;
                at += length as u64;
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(Failure::System(errno, reading(path))),
        }
    }
    Ok(hash.finalize().into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat, openat};

    #[test]
    fn what_has_become_another_kind_of_file_is_not_read() {
        let place = tempfile::tempdir().unwrap();
        let directory = openat(CWD, place.path(), OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
        mknodat(&directory, "fifo", FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        std::fs::create_dir(place.path().join("directory")).unwrap();
        std::fs::write(place.path().join("file"), "text").unwrap();
        std::os::unix::fs::symlink("file", place.path().join("link")).unwrap();
        for name in ["fifo", "directory", "link"] {
            let loaded = Version::load_file(&directory, name.as_bytes(), b"path");
            assert!(matches!(loaded, Err(Failure::System(Errno::AGAIN | Errno::LOOP, _))), "{name}");
        }
        let link = Version::load(&directory, b"link", b"path").unwrap().unwrap();
        assert!(link.is_link() && link.text() == Some(b"file"));
        assert!(Version::load(&directory, b"fifo", b"path").unwrap().is_none());
        assert!(matches!(
            Version::load_link(&directory, b"file", b"path"),
            Err(Failure::System(Errno::INVAL | Errno::NOENT, _))
        ));
    }

    #[test]
    fn a_file_that_shrinks_or_grows_counts_as_it_was() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(10).unwrap();
        let file = OwnedFd::from(file);
        let read = |size| {
            let mut length = 0;
            let id = read_file(&file, size, b"path", |block| {
                length += block.len();
                Ok(())
            });
            id.map(|_| length)
        };
        assert!(matches!(read(10), Ok(10)));
        assert!(matches!(read(4), Ok(4)), "it has grown");
        assert!(matches!(read(11), Err(Failure::System(Errno::AGAIN, _))), "it has shrunk");
    }

    #[test]
    fn a_large_file_that_changes_before_it_is_read_again_fails() {
        let place = tempfile::tempdir().unwrap();
        let directory = openat(CWD, place.path(), OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
        let path = place.path().join("large");
        let file = std::fs::File::create(&path).unwrap();
        file.set_len(MAX_TEXT_BYTES + 1).unwrap();
        let version = Version::load(&directory, b"large", b"large").unwrap().unwrap();
        assert_eq!((version.size(), version.text()), (MAX_TEXT_BYTES + 1, None));
        assert!(version.read(b"large", |_| Ok(())).is_ok());
        std::os::unix::fs::FileExt::write_at(&file, b"x", 1000).unwrap();
        assert!(matches!(version.read(b"large", |_| Ok(())), Err(Failure::System(Errno::AGAIN, _))));
    }
}
