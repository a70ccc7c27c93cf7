//! What a session's copies of git's config files give back to the machine's.
//!
//! git writes to `.git/config` every day, and runs programs that it names. So a session has a copy of its own (see
//! [`crate::copies`]), and [`GitConfigs::write_back`] carries over what [`keys`] allows. The rest stays in the copy.
//!
//! **The copy is hostile.** It is opened below a descriptor that programs cannot replace, without following a link, and read up to a
//! bound. Nothing in it is obeyed.
//!
//! **The machine's file keeps its inode.** A session's mount is on that: a file that is renamed over it would appear in the session,
//! writable. So it is changed in place, from the first byte that differs, under git's own `config.lock`. A reader that has no lock sees
//! the old end or the new one.

mod keys;
mod syntax;

use crate::paths::open_path;
use nacre_containment::lock::Lock;
use nacre_protocol::message;
use nix::fcntl::{AtFlags, OFlag, openat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, fstatat};
use nix::unistd::{UnlinkatFlags, unlinkat};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use syntax::{Config, Key, Value, Values};

/// The name of a config file.
pub(crate) const NAME: &str = "config";
/// Maximum bytes of a config file.
pub(crate) const MAX_BYTES: u64 = 1024 * 1024;
/// Maximum keys of a file that change at once.
const MAX_KEYS: usize = 1000;
/// Maximum keys that are reported at once, and characters of each.
const MAX_REPORTED: usize = 100;
const MAX_SHOWN: usize = 200;
/// How often a lock that git has is tried, and the time between.
const ATTEMPTS: usize = 10;
const PAUSE: Duration = Duration::from_millis(5);
/// What is reported of a copy that cannot be read.
const WHOLE: &str = "*";

/// The state of a file: its inode, its size and its times.
type Stamp = [i64; 6];

/// A copy, as it was made.
#[derive(Serialize, Deserialize)]
pub(crate) struct Made {
    /// The machine's file.
    pub path: PathBuf,
    /// What both had then.
    pub text: Vec<u8>,
    /// The copy's own. `None` if there is none.
    pub stamp: Option<Stamp>,
}

/// The copies of a session. They have numbers as directories.
pub struct GitConfigs {
    directory: OwnedFd,
    configs: Lock<Vec<Own>>,
    /// Their states when they were last read.
    seen: Lock<Vec<Option<Stamp>>>,
}

struct Own {
    path: PathBuf,
    /// What has been compared already. `None` if it cannot be read.
    base: Option<Values>,
}

/// Why nothing can be written now.
enum Refused {
    /// git changes the file just now.
    Busy,
    /// It cannot be changed.
    Unchanged,
}

impl From<io::Error> for Refused {
    fn from(_: io::Error) -> Self {
        Self::Unchanged
    }
}

impl From<nix::Error> for Refused {
    fn from(_: nix::Error) -> Self {
        Self::Unchanged
    }
}

impl GitConfigs {
    /// Takes the copies of a new session from the descriptors that its supervisor has sent: a directory, and a file that says what
    /// is in it.
    pub fn take(descriptors: &mut Vec<OwnedFd>) -> Option<Self> {
        let is_socket = |file: &mut OwnedFd| {
            fstat(&*file).is_ok_and(|found| SFlag::from_bits_truncate(found.st_mode) & SFlag::S_IFMT == SFlag::S_IFSOCK)
        };
        let [directory, list] =
            descriptors.extract_if(.., |file| !is_socket(file)).collect::<Vec<_>>().try_into().ok()?;
        let mut list = File::from(list);
        list.rewind().ok()?;
        let mut bytes = Vec::new();
        list.read_to_end(&mut bytes).ok()?;
        let made: Vec<Made> = message::decode(&bytes).ok()?;
        let seen = made.iter().map(|made| made.stamp).collect();
        // A link may lead to a file of another name.
        let base = |path: &Path, text: &[u8]| path.ends_with(NAME).then(|| values(text)).flatten();
        let own = |Made { path, text, stamp }: Made| Own { base: stamp.and_then(|_| base(&path, &text)), path };
        Some(Self { directory, configs: Lock::new(made.into_iter().map(own).collect()), seen: Lock::new(seen) })
    }

    /// Whether a copy has changed since it was read. Does not block.
    pub fn have_changed(&self) -> bool {
        let seen = self.seen.lock();
        seen.iter().enumerate().any(|(number, seen)| self.stamp(number) != *seen)
    }

    /// Writes what is allowed of the changes to the machine's files. Returns the keys that are withheld, as git names them.
    pub fn write_back(&self) -> Vec<String> {
        let mut withheld = Vec::new();
        let mut configs = self.configs.lock();
        for (number, own) in configs.iter_mut().enumerate() {
            let stamp = self.stamp(number);
            let seen = || self.seen.lock();
            if seen().get(number).is_none_or(|seen| *seen == stamp) {
                continue;
            }
            match (self.read(number).ok().and_then(|text| values(&text)), &own.base) {
                (Some(new), Some(base)) => match update(&own.path, base, &new) {
                    Ok(keys) => {
                        withheld.extend(keys.iter().map(shown));
                        own.base = Some(new);
                    }
                    // Not seen: the end of the next command tries again.
                    Err(()) => continue,
                },
                _ => withheld.push(WHOLE.to_string()),
            }
            if let Some(seen) = seen().get_mut(number) {
                *seen = stamp;
            }
        }
        withheld.truncate(MAX_REPORTED);
        withheld
    }

    /// The directory of a copy. A program may have put a link there.
    fn open(&self, number: usize) -> nix::Result<OwnedFd> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        openat(&self.directory, number.to_string().as_str(), flags, Mode::empty())
    }

    fn stamp(&self, number: usize) -> Option<Stamp> {
        self.open(number).and_then(|own| fstatat(&own, NAME, AtFlags::AT_SYMLINK_NOFOLLOW)).ok().as_ref().map(stamp_of)
    }

    fn read(&self, number: usize) -> io::Result<Vec<u8>> {
        read(&mut open_file(&self.open(number)?, OFlag::O_RDONLY)?)
    }
}

/// The state of a file.
pub(crate) fn stamp_of(found: &FileStat) -> Stamp {
    [found.st_ino as i64, found.st_size, found.st_mtime, found.st_mtime_nsec, found.st_ctime, found.st_ctime_nsec]
}

fn values(text: &[u8]) -> Option<Values> {
    Config::read(std::str::from_utf8(text).ok()?).map(|config| config.values())
}

/// A pipe would block, and a link leads anywhere.
fn open_file(directory: &OwnedFd, access: OFlag) -> io::Result<File> {
    let flags = access | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let file = File::from(openat(directory, NAME, flags, Mode::empty())?);
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

fn read(file: &mut File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(bytes) }
}

/// Brings the changes from `base` to `new` to the machine's file. Returns the keys that are withheld.
///
/// # Errors
/// The file is locked.
fn update(path: &Path, base: &Values, new: &Values) -> Result<Vec<Key>, ()> {
    let mut changed: Vec<&Key> = base.keys().chain(new.keys()).filter(|key| base.get(key) != new.get(key)).collect();
    // The remote of a branch has to be there.
    changed.sort_by_key(|key| (key.section == "branch", *key));
    changed.dedup();
    let all = || changed.iter().copied().cloned().collect();
    let is_possible = |key: &&Key| keys::is_allowed(key, &[], base);
    if changed.len() > MAX_KEYS || !changed.iter().any(is_possible) {
        return Ok(all());
    }
    match try_to_update(path, &changed, base, new) {
        Ok(withheld) => Ok(withheld),
        Err(Refused::Unchanged) => Ok(all()),
        Err(Refused::Busy) => Err(()),
    }
}

fn try_to_update(path: &Path, changed: &[&Key], base: &Values, new: &Values) -> Result<Vec<Key>, Refused> {
    let directory = open_path(path.parent().ok_or(Refused::Unchanged)?)?;
    let _lock = GitLock::take(&directory)?;
    let mut file = open_file(&directory, OFlag::O_RDWR)?;
    let old = String::from_utf8(read(&mut file)?).map_err(|_| Refused::Unchanged)?;
    let config = Config::read(&old).ok_or(Refused::Unchanged)?;
    let (mut real, mut changes, mut withheld) = (config.values(), Values::new(), Vec::new());
    for key in changed.iter().copied() {
        let wanted: &[Value] = new.get(key).map_or(&[], Vec::as_slice);
        if real.get(key) == new.get(key) {
            continue;
        }
        // What something else has written meanwhile stays.
        if real.get(key) != base.get(key) || !keys::is_allowed(key, wanted, &real) {
            withheld.push(key.clone());
            continue;
        }
        changes.insert(key.clone(), wanted.to_vec());
        if wanted.is_empty() { drop(real.remove(key)) } else { drop(real.insert(key.clone(), wanted.to_vec())) }
    }
    if !changes.is_empty() {
        let text = config.with(&changes).filter(|text| text.len() as u64 <= MAX_BYTES).ok_or(Refused::Unchanged)?;
        replace(&file, old.as_bytes(), text.as_bytes()).inspect_err(|_| drop(replace(&file, &[], old.as_bytes())))?;
    }
    Ok(withheld)
}

/// Writes what differs.
fn replace(file: &File, old: &[u8], new: &[u8]) -> io::Result<()> {
    let same = old.iter().zip(new).take_while(|(old, new)| old == new).count();
    file.write_all_at(new.get(same..).unwrap_or_default(), same as u64)?;
    if new.len() < old.len() || old.is_empty() { file.set_len(new.len() as u64) } else { Ok(()) }
}

/// A key as git names it, without what a terminal obeys.
fn shown(Key { section, subsection, name }: &Key) -> String {
    let subsection = subsection.as_ref().map(|subsection| format!("{subsection}.")).unwrap_or_default();
    let replaced = |letter: char| if letter.is_control() { char::REPLACEMENT_CHARACTER } else { letter };
    format!("{section}.{subsection}{name}").chars().map(replaced).take(MAX_SHOWN).collect()
}

/// The lock that git itself takes before it changes the file.
struct GitLock<'a> {
    directory: &'a OwnedFd,
    file: OwnedFd,
}

const LOCK: &str = "config.lock";

impl<'a> GitLock<'a> {
    fn take(directory: &'a OwnedFd) -> Result<Self, Refused> {
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        for attempt in 0..ATTEMPTS {
            match openat(directory, LOCK, flags, Mode::from_bits_truncate(0o644)) {
                Ok(file) => return Ok(Self { directory, file }),
                Err(nix::Error::EEXIST) if attempt + 1 < ATTEMPTS => std::thread::sleep(PAUSE),
                Err(nix::Error::EEXIST) => break,
                Err(_) => return Err(Refused::Unchanged),
            }
        }
        Err(Refused::Busy)
    }
}

impl Drop for GitLock<'_> {
    fn drop(&mut self) {
        let found = fstatat(self.directory, LOCK, AtFlags::AT_SYMLINK_NOFOLLOW);
        if let (Ok(found), Ok(own)) = (found, fstat(self.file.as_fd()))
            && (found.st_dev, found.st_ino) == (own.st_dev, own.st_ino)
        {
            let _ = unlinkat(self.directory, LOCK, UnlinkatFlags::NoRemoveDir);
        }
    }
}

#[cfg(test)]
#[path = "write_back_tests.rs"]
mod tests;
