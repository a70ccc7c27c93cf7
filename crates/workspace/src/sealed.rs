//! Files of a store whose damage is noticed, and whose format has a version: a store may outlive its nacre. Small ones are
//! replaced as a whole.

use crate::failure::errno_of;
use crate::tree::{file_type, open_file};
use nacre_protocol::message;
use rustix::fs::{FileType, Mode, OFlags, fstat, fsync, openat, renameat};
use rustix::io::{Errno, Result};
use serde::{Serialize, de::DeserializeOwned};
use sha1::{Digest, Sha1};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;

/// The first line of all files, with the version of their format. Raise it with every change of what the files contain.
const VERSION: &[u8] = b"nacre workspace 3\n";
/// The part of the first line that is the same in all versions.
const TITLE: &[u8] = b"nacre workspace ";
/// Bytes of the checksum, which follows the version and covers the rest.
const SUM_BYTES: usize = 20;
/// The error for a file in the format of another version. It is not damaged, but cannot be read.
pub const FOREIGN: Errno = Errno::PROTONOSUPPORT;

/// A content as the bytes of a file.
///
/// # Errors
/// `ENOMEM` if it cannot be encoded.
pub fn seal<T: Serialize>(content: &T) -> Result<Vec<u8>> {
    let content = message::encode(content).map_err(|_| Errno::NOMEM)?;
    Ok([VERSION, &Sha1::digest(&content)[..], &content].concat())
}

/// The content of a file.
///
/// # Errors
/// [`FOREIGN`]; `EBADMSG` for a file that is damaged.
pub fn unseal<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    let Some(rest) = bytes.strip_prefix(VERSION) else {
        return Err(if is_foreign(bytes) { FOREIGN } else { Errno::BADMSG });
    };
    let (sum, content) = rest.split_at_checked(SUM_BYTES).ok_or(Errno::BADMSG)?;
    if Sha1::digest(content)[..] != *sum {
        return Err(Errno::BADMSG);
    }
    message::decode(content).map_err(|_| Errno::BADMSG)
}

fn is_foreign(bytes: &[u8]) -> bool {
    let rest = bytes.strip_prefix(TITLE).unwrap_or_default();
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    digits > 0 && rest.get(digits) == Some(&b'\n')
}

/// Reads a file. `None` if there is none.
///
/// # Errors
/// Those of the system calls; [`FOREIGN`]; `EBADMSG` for a file that is damaged, or longer than `max_bytes`.
pub fn read<T: DeserializeOwned>(store: &OwnedFd, name: &str, max_bytes: u64) -> Result<Option<T>> {
    let file = match open_file(store, name.as_bytes()) {
        Err(Errno::NOENT) => return Ok(None),
        Err(Errno::LOOP) => return Err(Errno::BADMSG),
        file => file?,
    };
    if file_type(&fstat(&file)?) != FileType::RegularFile {
        return Err(Errno::BADMSG);
    }
    let mut bytes = Vec::new();
    let read = File::from(file).take(max_bytes + 1).read_to_end(&mut bytes);
    read.map_err(|error| errno_of(&error))?;
    if bytes.len() as u64 > max_bytes {
        return Err(Errno::BADMSG);
    }
    unseal(&bytes).map(Some)
}

/// Writes a file, in the place of an earlier one. With `sync`, the disk has it afterwards.
///
/// # Errors
/// Those of the system calls; the earlier file stays. `EFBIG` if it would have more than `max_bytes`.
pub fn write<T: Serialize>(store: &OwnedFd, name: &str, content: &T, max_bytes: u64, sync: bool) -> Result<()> {
    let bytes = seal(content)?;
    if bytes.len() as u64 > max_bytes { Err(Errno::FBIG) } else { replace(store, name, &bytes, sync) }
}

/// Writes a file of these bytes, in the place of an earlier one.
///
/// # Errors
/// Those of the system calls; the earlier file stays.
pub fn replace(store: &OwnedFd, name: &str, bytes: &[u8], sync: bool) -> Result<()> {
    let new = format!("{name}.new");
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(openat(store, &new, flags, Mode::RUSR | Mode::WUSR)?);
    file.write_all(bytes).map_err(|error| errno_of(&error))?;
    if sync {
        fsync(&file)?;
    }
    renameat(store, &new, store, name)?;
    if sync { fsync(store) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn damage_is_noticed() {
        let directory = tempfile::tempdir().unwrap();
        let store = rustix::fs::open(directory.path(), OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap();
        let read = |max| read::<Vec<String>>(&store, "note", max);
        assert_eq!(read(1000), Ok(None));
        let content = vec!["some".to_string(), "words".to_string()];
        assert_eq!(write(&store, "note", &content, 30, false), Err(Errno::FBIG));
        write(&store, "note", &content, 1000, true).unwrap();
        assert_eq!(read(1000), Ok(Some(content)));
        assert_eq!(read(30), Err(Errno::BADMSG));
        let path = directory.path().join("note");
        let whole = fs::read(&path).unwrap();
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            fs::write(&path, damaged).unwrap();
            // 1 has become 0.
            let is_version = at == TITLE.len();
            let error = if is_version { FOREIGN } else { Errno::BADMSG };
            assert_eq!(read(1000), Err(error), "byte {at}");
            fs::write(&path, &whole[..at]).unwrap();
            assert_eq!(read(1000), Err(Errno::BADMSG), "cut at {at}");
        }
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", &path).unwrap();
        assert_eq!(read(1000), Err(Errno::BADMSG));
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert_eq!(read(1000), Err(Errno::BADMSG));
    }
}
