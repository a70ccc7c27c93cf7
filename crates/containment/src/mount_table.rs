//! The mounts of a namespace, as in `/proc/self/mountinfo` (proc(5)).

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// Maximum bytes of a table.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// A mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mounted {
    /// Its number.
    pub id: u64,
    /// The number of the mount that it is in.
    pub parent: u64,
    /// Its file system: major and minor number.
    pub device: (u32, u32),
    /// The path of its root in its file system.
    pub root: PathBuf,
    /// Where it is mounted.
    pub place: PathBuf,
    /// Whether the mount is read-only.
    pub is_read_only: bool,
    /// The type of its file system.
    pub kind: Vec<u8>,
}

/// Reads the table of this process's namespace.
///
/// # Errors
/// As for [`read`].
pub fn of_this_process() -> io::Result<Vec<Mounted>> {
    read(File::open("/proc/self/mountinfo")?)
}

/// Reads a table.
///
/// # Errors
/// Those of the system calls; `InvalidData` for a line of another format, or too many lines.
pub fn read(file: File) -> io::Result<Vec<Mounted>> {
    let mut bytes = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut bytes)?;
    if bytes.len() as u64 == MAX_BYTES {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| parse(line).ok_or_else(|| io::ErrorKind::InvalidData.into())).collect()
}

/// Parses one line: `id parent device root place options ... - type source superoptions`.
pub fn parse(line: &[u8]) -> Option<Mounted> {
    let mut words = line.split(|byte| *byte == b' ');
    let mut number = || str::from_utf8(words.next()?).ok()?.parse().ok();
    let (id, parent) = (number()?, number()?);
    let (major, minor) = str::from_utf8(words.next()?).ok()?.split_once(':')?;
    let device = (major.parse().ok()?, minor.parse().ok()?);
    let (root, place) = (unescaped(words.next()?), unescaped(words.next()?));
    let is_read_only = words.next()?.split(|byte| *byte == b',').any(|option| option == b"ro");
    words.find(|word| *word == b"-")?;
    Some(Mounted { id, parent, device, root, place, is_read_only, kind: words.next()?.to_vec() })
}

/// Decodes octal escapes (`\040` for a blank).
fn unescaped(word: &[u8]) -> PathBuf {
    let mut plain = Vec::new();
    let mut rest = word;
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|_| *first == b'\\').and_then(|digits| str::from_utf8(digits).ok());
        let code = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        plain.push(code.unwrap_or(*first));
        rest = if code.is_some() { &after[3..] } else { after };
    }
    OsString::from_vec(plain).into()
}

/// Checks that there are mount namespaces. Systems without them, like gVisor before August 2023, ignore the request for one, and
/// what was to be mounted in it would be mounted for all.
///
/// # Errors
/// There are none.
pub fn has_namespaces() -> io::Result<()> {
    match std::path::Path::new("/proc/self/ns/mnt").try_exists() {
        Ok(true) => Ok(()),
        _ => Err(io::Error::other("this system has no mount namespaces (/proc/self/ns/mnt)")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_with_escapes_and_optional_fields_is_a_mount() {
        let mount = parse(b"36 35 98:0 /in /a\\040b\\134c ro,nosuid shared:4 - ext4 /dev/x rw").unwrap();
        assert_eq!((mount.id, mount.parent, mount.device), (36, 35, (98, 0)));
        assert_eq!((mount.root, mount.place), (PathBuf::from("/in"), PathBuf::from("/a b\\c")));
        assert!(mount.is_read_only && mount.kind == b"ext4");
        assert_eq!(parse(b"36 35 98:0 /in /a rw"), None);
    }
}
