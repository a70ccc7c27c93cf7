//! What a sandbox keeps on the disk, so that a later one of the same name goes on with it.
//!
//! The directory `NAME` has:
//!
//! - `session-ID`: what is known of a session, see [`Kept::write`],
//! - `host`: the pid of the program that uses it.
//!
//! It is locked (flock(2)) as long as that program lives, however it ends.
//!
//! **It owns** the files and the lock. **It must never know** what they contain, nor sessions and shells.
//!
//! A file is written under another name, brought to the disk and renamed. So at each moment, also after a power cut, a session has
//! its state before or after a change, and never a part of it. A file that is damaged all the same is noticed by its checksum.

use nacre_containment::{file_tree, job::lock};
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, fdatasync, fstat, fsync, mkdirat, openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;
use sha1::{Digest, Sha1};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// The first line of a file. Raise its number with every change of the format.
const TITLE: &[u8] = b"nacre session 1\n";
/// Bytes of the checksum, which follows and covers the rest.
const SUM_BYTES: usize = 20;
/// Maximum bytes of a file: a state of a shell has at most 64 MiB.
const MAX_BYTES: u64 = 80 << 20;
/// Maximum sessions.
const MAX_SESSIONS: usize = 10_000;
/// Prefixes of the files of a session, and of those that are being written.
const SESSION: &str = "session-";
const NEW: &str = "new-";
/// Names the program that uses the directory.
const HOST: &str = "host";
/// How often a directory is opened again that another program has just removed.
const ATTEMPTS: u32 = 10;

/// Why the files cannot be used.
#[derive(Debug)]
pub enum Failure {
    /// Another sandbox uses them; the pid of its program, if it is known.
    InUse(Option<u32>),
    /// There is nothing of this name.
    Missing,
    /// This file is damaged, or of another version of nacre.
    Damaged(String),
    /// What could not be done, and why.
    System(String, io::Error),
}

/// A name under which something is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name.
    pub name: String,
    /// Whether a sandbox uses it now.
    pub in_use: bool,
    /// When it was changed last.
    pub used_at: SystemTime,
}

/// What is known of sessions, by their ids.
pub type Sessions = Vec<(String, Vec<u8>)>;

/// The files of one name, which this process has locked until this is dropped.
#[derive(Debug)]
pub struct Kept {
    directory: File,
}

impl Kept {
    /// Opens the files of a name in a directory that only this user can write to, and creates them if there are none. Sessions
    /// are in the order of their ids, each with what was written last.
    ///
    /// # Errors
    /// See [`Failure`]. Nothing has changed.
    pub fn open(parent: &Path, name: &str) -> Result<(Self, Sessions), Failure> {
        let doing = |error: Errno| Failure::System(format!("open '{name}' in {}", parent.display()), error.into());
        let place = open_directory(rustix::fs::CWD, parent.as_os_str().as_encoded_bytes()).map_err(doing)?;
        for _ in 0..ATTEMPTS {
            match mkdirat(&place, name, Mode::RWXU) {
                Err(Errno::EXIST) | Ok(()) => {}
                Err(errno) => return Err(doing(errno)),
            }
            if let Some(directory) = take(&place, name).map_err(|failure| failure.of(parent, name))? {
                let kept = Self { directory };
                let sessions = kept.sessions().map_err(|failure| failure.of(parent, name))?;
                kept.replace(HOST, std::process::id().to_string().as_bytes()).map_err(doing)?;
                return Ok((kept, sessions));
            }
        }
        Err(doing(Errno::AGAIN))
    }

    fn sessions(&self) -> Result<Sessions, Failure> {
        let unread = |errno: Errno| Failure::System("read it".into(), errno.into());
        let names = file_tree::names(&self.directory).map_err(unread)?;
        let mut ids: Vec<&str> = names
            .iter()
            .filter_map(|name| str::from_utf8(name).ok()?.strip_prefix(SESSION))
            .take(MAX_SESSIONS)
            .collect();
        ids.sort_unstable();
        let read = |id: &str| match self.read(id) {
            Err(Errno::BADMSG) => Err(Failure::Damaged(format!("{SESSION}{id}"))),
            read => read.map(|content| (id.to_string(), content)).map_err(unread),
        };
        ids.into_iter().map(read).collect()
    }

    fn read(&self, id: &str) -> rustix::io::Result<Vec<u8>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = match openat(&self.directory, format!("{SESSION}{id}"), flags, Mode::empty()) {
            Err(Errno::LOOP) => return Err(Errno::BADMSG),
            file => file?,
        };
        if FileType::from_raw_mode(fstat(&file)?.st_mode) != FileType::RegularFile {
            return Err(Errno::BADMSG);
        }
        let mut bytes = Vec::new();
        File::from(file).take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(|error| errno_of(&error))?;
        unseal(&bytes).ok_or(Errno::BADMSG)
    }

    /// Puts what is known of a session in the place of what was written before. The disk has it afterwards.
    ///
    /// # Errors
    /// Those of the system calls: what was written before stays. `EFBIG` for more than 80 MiB.
    pub fn write(&self, id: &str, content: &[u8]) -> io::Result<()> {
        let bytes = [TITLE, &Sha1::digest(content)[..], content].concat();
        if bytes.len() as u64 > MAX_BYTES {
            return Err(Errno::FBIG.into());
        }
        Ok(self.replace(&format!("{SESSION}{id}"), &bytes)?)
    }

    fn replace(&self, name: &str, bytes: &[u8]) -> rustix::io::Result<()> {
        let new = format!("{NEW}{name}");
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let written = (|| {
            let mut file = File::from(openat(&self.directory, &new, flags, Mode::RUSR | Mode::WUSR)?);
            file.write_all(bytes).map_err(|error| errno_of(&error))?;
            fdatasync(&file)?;
            renameat(&self.directory, &new, &self.directory, name)
        })();
        if written.is_err() {
            // A full disk gets the room back.
            let _ = unlinkat(&self.directory, &new, AtFlags::empty());
        }
        written?;
        fsync(&self.directory)
    }

    /// Forgets a session.
    ///
    /// # Errors
    /// Those of the system calls.
    pub fn remove(&self, id: &str) -> io::Result<()> {
        match unlinkat(&self.directory, format!("{SESSION}{id}"), AtFlags::empty()) {
            Err(Errno::NOENT) => Ok(()),
            removed => Ok(removed?),
        }
    }
}

/// The names in a directory, sorted. None if there is no such directory.
///
/// # Errors
/// [`Failure::System`].
pub fn list(parent: &Path) -> Result<Vec<Entry>, Failure> {
    let doing = |error: Errno| Failure::System(format!("list what is kept in {}", parent.display()), error.into());
    let place = match open_directory(rustix::fs::CWD, parent.as_os_str().as_encoded_bytes()) {
        Err(Errno::NOENT) => return Ok(Vec::new()),
        place => place.map_err(doing)?,
    };
    let mut names = file_tree::names(&place).map_err(doing)?;
    names.sort_unstable();
    let entry = |name: Vec<u8>| {
        let directory = File::from(open_directory(&place, &name).ok()?);
        let changed = fstat(&directory).ok()?.st_mtime;
        let used_at = SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(changed).ok()?);
        let in_use = lock::is_held(&directory).unwrap_or(false);
        Some(Entry { name: String::from_utf8(name).ok()?, in_use, used_at })
    };
    Ok(names.into_iter().filter_map(entry).collect())
}

/// Deletes what is kept under a name.
///
/// # Errors
/// See [`Failure`].
pub fn delete(parent: &Path, name: &str) -> Result<(), Failure> {
    let doing = |error: Errno| Failure::System(format!("delete '{name}' in {}", parent.display()), error.into());
    let place = match open_directory(rustix::fs::CWD, parent.as_os_str().as_encoded_bytes()) {
        Err(Errno::NOENT) => return Err(Failure::Missing),
        place => place.map_err(doing)?,
    };
    let Some(directory) = take(&place, name).map_err(|failure| failure.of(parent, name))? else {
        return Err(Failure::Missing);
    };
    for file in file_tree::names(&directory).map_err(doing)? {
        unlinkat(&directory, &file[..], AtFlags::empty()).map_err(doing)?;
    }
    // Whoever opens it from now on sees that the locked directory has lost its name.
    unlinkat(&place, name, AtFlags::REMOVEDIR).map_err(doing)
}

impl Failure {
    fn of(self, parent: &Path, name: &str) -> Self {
        match self {
            Self::System(doing, error) => Self::System(format!("{doing}: '{name}' in {}", parent.display()), error),
            Self::Damaged(file) => Self::Damaged(parent.join(name).join(file).display().to_string()),
            other => other,
        }
    }
}

/// Locks the directory of a name. `None` if there is none.
///
/// The race: another program deletes it between the opening and the lock. The locked one has no name then.
fn take(place: &OwnedFd, name: &str) -> Result<Option<File>, Failure> {
    let failed = |error: io::Error| Failure::System("lock it".into(), error);
    let directory = match open_directory(place, name.as_bytes()) {
        Err(Errno::NOENT) => return Ok(None),
        directory => File::from(directory.map_err(|errno| failed(errno.into()))?),
    };
    if !lock::try_lock(&directory).map_err(failed)? {
        return Err(Failure::InUse(host(&directory)));
    }
    let own = fstat(&directory).map_err(|errno| failed(errno.into()))?;
    let is_same = |found: rustix::fs::Stat| (found.st_dev, found.st_ino) == (own.st_dev, own.st_ino);
    match statat(place, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(found) if is_same(found) => Ok(Some(directory)),
        Ok(_) | Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(failed(errno.into())),
    }
}

/// The pid of the program that uses a directory.
fn host(directory: &File) -> Option<u32> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = openat(directory, HOST, flags, Mode::empty()).ok()?;
    let mut text = String::new();
    File::from(file).take(16).read_to_string(&mut text).ok()?;
    text.parse().ok()
}

fn open_directory(parent: impl std::os::fd::AsFd, name: &[u8]) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(parent, name, flags, Mode::empty())
}

fn unseal(bytes: &[u8]) -> Option<Vec<u8>> {
    let (sum, content) = bytes.strip_prefix(TITLE)?.split_at_checked(SUM_BYTES)?;
    (Sha1::digest(content)[..] == *sum).then(|| content.to_vec())
}

fn errno_of(error: &io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn sessions(parent: &Path) -> Sessions {
        Kept::open(parent, "one").unwrap().1
    }

    #[test]
    fn sessions_come_back_and_are_forgotten() {
        let place = tempfile::tempdir().unwrap();
        assert_eq!(list(&place.path().join("none")).unwrap(), []);
        let (kept, found) = Kept::open(place.path(), "one").unwrap();
        assert_eq!(found, []);
        kept.write("b", b"1").unwrap();
        kept.write("a.new", b"2").unwrap();
        kept.write("a", &vec![7; 1 << 20]).unwrap();
        kept.write("b", b"").unwrap();
        kept.remove("none").unwrap();
        assert_eq!(list(place.path()).unwrap().iter().map(|entry| entry.in_use).collect::<Vec<_>>(), [true]);
        drop(kept);
        let all = [("a".into(), vec![7; 1 << 20]), ("a.new".into(), b"2".to_vec()), ("b".into(), Vec::new())];
        assert_eq!(sessions(place.path()), all);
        Kept::open(place.path(), "one").unwrap().0.remove("a").unwrap();
        assert_eq!(sessions(place.path()).len(), 2);
        let [entry] = &list(place.path()).unwrap()[..] else { panic!() };
        assert_eq!((&*entry.name, entry.in_use), ("one", false));
        delete(place.path(), "one").unwrap();
        assert!(matches!(delete(place.path(), "one"), Err(Failure::Missing)));
        assert_eq!(list(place.path()).unwrap(), []);
    }

    #[test]
    fn one_program_uses_it_at_a_time() {
        let place = tempfile::tempdir().unwrap();
        let (kept, _) = Kept::open(place.path(), "one").unwrap();
        let own = std::process::id();
        assert!(matches!(Kept::open(place.path(), "one"), Err(Failure::InUse(Some(pid))) if pid == own));
        assert!(matches!(delete(place.path(), "one"), Err(Failure::InUse(Some(pid))) if pid == own));
        drop(kept);
        Kept::open(place.path(), "one").unwrap();
    }

    #[test]
    fn damage_is_noticed_and_links_are_not_followed() {
        let place = tempfile::tempdir().unwrap();
        Kept::open(place.path(), "one").unwrap().0.write("a", b"some words").unwrap();
        let file = place.path().join("one/session-a");
        let whole = fs::read(&file).unwrap();
        let is_damaged = || match Kept::open(place.path(), "one") {
            Err(Failure::Damaged(path)) => path == file.display().to_string(),
            _ => false,
        };
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            fs::write(&file, damaged).unwrap();
            assert!(is_damaged(), "byte {at}");
            fs::write(&file, &whole[..at]).unwrap();
            assert!(is_damaged(), "cut at {at}");
        }
        fs::remove_file(&file).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", &file).unwrap();
        assert!(is_damaged());
        fs::remove_file(&file).unwrap();
        fs::create_dir(&file).unwrap();
        assert!(is_damaged());
        fs::remove_dir(&file).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, &file, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        assert!(is_damaged());
    }

    #[test]
    fn a_file_that_cannot_be_written_stays_as_it_was() {
        let place = tempfile::tempdir().unwrap();
        let (kept, _) = Kept::open(place.path(), "one").unwrap();
        kept.write("a", b"old").unwrap();
        assert_eq!(kept.write("a", &vec![0; 80 << 20]).unwrap_err().raw_os_error(), Some(libc::EFBIG));
        // In the way of the new file.
        fs::create_dir(place.path().join("one/new-session-a")).unwrap();
        kept.write("a", b"new").unwrap_err();
        fs::remove_dir(place.path().join("one/new-session-a")).unwrap();
        drop(kept);
        assert_eq!(sessions(place.path()), [("a".to_string(), b"old".to_vec())]);
    }
}
