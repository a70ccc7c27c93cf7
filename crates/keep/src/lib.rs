//! What a sandbox keeps on the disk, so that a later one of the same name goes on with it.
//!
//! The directory `NAME` has:
//!
//! - `session-ID`: what is known of a session, a title, a checksum and `nacre_protocol::kept::SessionFile`,
//! - `process-N`: what is known of a background process, in the same form,
//! - `log-N` and, for what is older, `log-N.old`: its output, which is appended without a checksum,
//! - `host`: the pid of the program that uses it.
//!
//! It is locked (flock(2)) as long as that program lives, however it ends, and until the supervisors of its sessions have ended,
//! which share the lock: they write what the program had not written, and end its processes.
//!
//! **It owns** the files and the lock. **It must never know** what they contain, nor sessions and shells.
//!
//! A file is written under another name, brought to the disk and renamed. So at each moment, also after a power cut, a session has
//! its state before or after a change, and never a part of it. A file that is damaged all the same is noticed by its checksum.

use nacre_containment::lock::Lock;
use nacre_containment::pid::Pid;
use nacre_containment::proc_table::Stat;
use nacre_containment::{file_tree, job::lock};
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, fdatasync, fstat, fsync, mkdirat, openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;
use sha1::{Digest, Sha1};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

/// The first line of a file. Raise its number with every change of the format.
const TITLE: &[u8] = b"nacre session 2\n";
/// Bytes of the checksum, which follows and covers the rest.
const SUM_BYTES: usize = 20;
/// Maximum bytes of a file: a state of a shell has at most 64 MiB.
const MAX_BYTES: u64 = 80 << 20;
/// Maximum sessions.
const MAX_SESSIONS: usize = 10_000;
/// Maximum processes: the newest.
const MAX_PROCESSES: usize = 2000;
/// Prefixes of the files of a session, of a process, of its log, and of those that are being written.
const SESSION: &str = "session-";
const PROCESS: &str = "process-";
const LOG: &str = "log-";
const NEW: &str = "new-";
/// The least bytes of a log before its file is replaced.
const LEAST_LOG: u64 = 64 << 10;
/// Names the program that uses the directory.
const HOST: &str = "host";
/// How often a directory is opened again that another program has just removed.
const ATTEMPTS: u32 = 10;
/// How long the supervisors of a program that has ended may keep the lock.
const ENDING: Duration = Duration::from_secs(2);
/// Between two looks at the lock.
const LOOK: Duration = Duration::from_millis(5);

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
    /// The processes whose logs grow. A process that is forgotten is none of them, although its last output may still arrive.
    logs: Lock<BTreeSet<u64>>,
}

impl Kept {
    /// Opens the files of a name in a directory that only this user can write to, and creates them if there are none. Sessions
    /// are in the order of their ids, each with what was written last. Waits at most 2 s for the supervisors of a program that
    /// has ended.
    ///
    /// # Errors
    /// See [`Failure`]. Nothing has changed.
    pub fn open(parent: &Path, name: &str) -> Result<(Self, Sessions), Failure> {
        let doing = |error: Errno| Failure::System(format!("open '{name}' in {}", parent.display()), error.into());
        let place = open_directory(rustix::fs::CWD, parent.as_os_str().as_encoded_bytes()).map_err(doing)?;
        let (give_up, mut attempts) = (Instant::now() + ENDING, 0);
        loop {
            match mkdirat(&place, name, Mode::RWXU) {
                Err(Errno::EXIST) | Ok(()) => {}
                Err(errno) => return Err(doing(errno)),
            }
            match take(&place, name) {
                Err(Failure::InUse(Some(pid))) if has_ended(pid) => {
                    if Instant::now() > give_up {
                        return Err(Failure::InUse(None));
                    }
                    sleep(LOOK);
                }
                Err(failure) => return Err(failure.of(parent, name)),
                Ok(Some(directory)) => {
                    let kept = Self { directory, logs: Lock::default() };
                    let sessions = kept.sessions().map_err(|failure| failure.of(parent, name))?;
                    match kept.replace(HOST, std::process::id().to_string().as_bytes()) {
                        // A full disk does not keep a sandbox from going on: the pid is for messages.
                        Ok(()) | Err(Errno::NOSPC | Errno::DQUOT) => return Ok((kept, sessions)),
                        Err(errno) => return Err(doing(errno)),
                    }
                }
                Ok(None) if attempts < ATTEMPTS => attempts += 1,
                Ok(None) => return Err(doing(Errno::AGAIN)),
            }
        }
    }

    /// The files in a directory that another process has locked and sent. It stays locked while this process has it, too.
    pub fn shared(directory: OwnedFd) -> Self {
        Self { directory: directory.into(), logs: Lock::default() }
    }

    /// The locked directory, to send it to another process.
    ///
    /// # Errors
    /// Those of dup(2).
    pub fn share(&self) -> io::Result<OwnedFd> {
        self.directory.as_fd().try_clone_to_owned()
    }

    /// Releases the lock for every process that shares it: a child that another thread is just forking shares it, too.
    pub fn release(&self) {
        lock::release(&self.directory);
    }

    fn sessions(&self) -> Result<Sessions, Failure> {
        let unread = |errno: Errno| Failure::System("read it".into(), errno.into());
        let mut ids = self.ids(SESSION).map_err(unread)?;
        ids.truncate(MAX_SESSIONS);
        ids.sort_unstable();
        let read = |id: String| match self.read(&id) {
            Err(Errno::BADMSG) => Err(Failure::Damaged(format!("{SESSION}{id}"))),
            read => read.map(|content| (id, content)).map_err(unread),
        };
        ids.into_iter().map(read).collect()
    }

    /// What follows a prefix in the names of files.
    fn ids(&self, prefix: &str) -> rustix::io::Result<Vec<String>> {
        let names = file_tree::names(&self.directory)?;
        Ok(names.iter().filter_map(|name| Some(str::from_utf8(name).ok()?.strip_prefix(prefix)?.into())).collect())
    }

    /// What was written of processes, by their numbers, in this order. A damaged file counts as none. Removes logs without a
    /// process, and all but the newest processes.
    ///
    /// # Errors
    /// Those of the system calls.
    pub fn processes(&self) -> io::Result<Vec<(u64, Vec<u8>)>> {
        let mut numbers: Vec<u64> = self.ids(PROCESS)?.iter().filter_map(|number| number.parse().ok()).collect();
        numbers.sort_unstable();
        numbers
            .drain(..numbers.len().saturating_sub(MAX_PROCESSES))
            .for_each(|number| drop(self.remove_process(number)));
        for log in self.ids(LOG)? {
            if !log.trim_end_matches(".old").parse().is_ok_and(|number| numbers.binary_search(&number).is_ok()) {
                self.remove_file(&format!("{LOG}{log}"))?;
            }
        }
        let read = |number| Some((number, self.read_file(&format!("{PROCESS}{number}")).ok()?));
        Ok(numbers.into_iter().filter_map(read).collect())
    }

    /// Puts what is known of a process in the place of what was written before.
    ///
    /// # Errors
    /// As for [`Kept::write`].
    pub fn write_process(&self, number: u64, content: &[u8]) -> io::Result<()> {
        self.write_file(&format!("{PROCESS}{number}"), content)
    }

    /// Begins the log of a process.
    pub fn begin_log(&self, number: u64) {
        self.logs.lock().insert(number);
    }

    /// Forgets a process and its log.
    ///
    /// # Errors
    /// Those of the system calls.
    pub fn remove_process(&self, number: u64) -> io::Result<()> {
        let mut logs = self.logs.lock();
        logs.remove(&number);
        // The log last: without a process, nothing would find it.
        for name in [format!("{LOG}{number}.old"), format!("{LOG}{number}"), format!("{PROCESS}{number}")] {
            self.remove_file(&name)?;
        }
        Ok(())
    }

    /// Appends to the log of a process, unless it is forgotten. The file is replaced when it has half of `limit`, so both have at most about that.
    ///
    /// # Errors
    /// Those of the system calls. The log is as before then.
    pub fn append_log(&self, number: u64, limit: u64, bytes: &[u8]) -> io::Result<()> {
        let logs = self.logs.lock();
        if !logs.contains(&number) {
            return Ok(());
        }
        let name = format!("{LOG}{number}");
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = || openat(&self.directory, &name, flags, Mode::RUSR | Mode::WUSR).map(File::from);
        let mut file = open()?;
        let mut length = file.metadata()?.len();
        if length > (limit / 2).max(LEAST_LOG) {
            renameat(&self.directory, &name, &self.directory, format!("{name}.old"))?;
            (file, length) = (open()?, 0);
        }
        file.write_all(bytes).inspect_err(|_| drop(file.set_len(length)))
    }

    /// The log of a process, the older part first.
    pub fn read_log(&self, number: u64) -> [Vec<u8>; 2] {
        [format!("{LOG}{number}.old"), format!("{LOG}{number}")].map(|name| {
            let mut bytes = Vec::new();
            if let Ok(file) = self.open_file(&name) {
                let _ = file.take(MAX_BYTES).read_to_end(&mut bytes);
            }
            bytes
        })
    }

    /// What was written last of a session.
    ///
    /// # Errors
    /// Those of the system calls: `ENOENT` if there is nothing, and `EBADMSG` for a damaged file.
    pub fn read(&self, id: &str) -> rustix::io::Result<Vec<u8>> {
        self.read_file(&format!("{SESSION}{id}"))
    }

    fn read_file(&self, name: &str) -> rustix::io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.open_file(name)?.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(|error| errno_of(&error))?;
        unseal(&bytes).ok_or(Errno::BADMSG)
    }

    fn open_file(&self, name: &str) -> rustix::io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = match openat(&self.directory, name, flags, Mode::empty()) {
            Err(Errno::LOOP) => return Err(Errno::BADMSG),
            file => file?,
        };
        if FileType::from_raw_mode(fstat(&file)?.st_mode) != FileType::RegularFile {
            return Err(Errno::BADMSG);
        }
        Ok(file.into())
    }

    /// Puts what is known of a session in the place of what was written before. The disk has it afterwards.
    ///
    /// # Errors
    /// Those of the system calls: what was written before stays. `EFBIG` for more than 80 MiB.
    pub fn write(&self, id: &str, content: &[u8]) -> io::Result<()> {
        self.write_file(&format!("{SESSION}{id}"), content)
    }

    fn write_file(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let bytes = [TITLE, &Sha1::digest(content)[..], content].concat();
        if bytes.len() as u64 > MAX_BYTES {
            return Err(Errno::FBIG.into());
        }
        Ok(self.replace(name, &bytes)?)
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
        self.remove_file(&format!("{SESSION}{id}"))
    }

    fn remove_file(&self, name: &str) -> io::Result<()> {
        match unlinkat(&self.directory, name, AtFlags::empty()) {
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
    // A program that has opened it already finds, once it has the lock, that the name is gone: see `take`.
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
/// Another program may delete the directory after it was opened here and before it is locked. What is locked then no longer
/// has the name, which counts as none.
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

/// Whether the program that a directory names has ended. Zombies have.
fn has_ended(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::new);
    !pid.and_then(Stat::read).is_some_and(|stat| stat.is_running())
}

/// The pid of the program that uses a directory.
fn host(directory: &File) -> Option<u32> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = openat(directory, HOST, flags, Mode::empty()).ok()?;
    let mut text = String::new();
    File::from(file).take(16).read_to_string(&mut text).ok()?;
    text.parse().ok()
}

fn open_directory(parent: impl AsFd, name: &[u8]) -> rustix::io::Result<OwnedFd> {
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
    fn processes_have_logs_of_a_bounded_size() {
        let place = tempfile::tempdir().unwrap();
        let (kept, _) = Kept::open(place.path(), "one").unwrap();
        kept.write_process(10, b"later").unwrap();
        kept.write_process(9, b"first").unwrap();
        [9, 11].into_iter().for_each(|number| kept.begin_log(number));
        let limit = 4 * LEAST_LOG;
        for number in 0..9 {
            kept.append_log(9, limit, &vec![number; usize::try_from(LEAST_LOG).unwrap()]).unwrap();
        }
        let [old, new] = kept.read_log(9);
        assert_eq!((old[0], new[0], new.last()), (3, 6, Some(&8)));
        assert!(((old.len() + new.len()) as u64) <= limit + 2 * LEAST_LOG);
        kept.append_log(11, limit, b"of none").unwrap();
        assert_eq!(kept.processes().unwrap(), [(9, b"first".to_vec()), (10, b"later".to_vec())]);
        assert_eq!(kept.read_log(11), [b"", b""]);
        kept.remove_process(9).unwrap();
        kept.append_log(9, limit, b"the last output").unwrap();
        fs::write(place.path().join("one/process-10"), "damaged").unwrap();
        assert_eq!(kept.processes().unwrap(), []);
        assert_eq!(kept.read_log(9), [b"", b""]);
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
