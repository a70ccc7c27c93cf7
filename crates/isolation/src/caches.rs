//! Private places for the caches of tools: one directory for each project.
//!
//! A sandboxed program that could write to the user's own caches would decide what tools of the machine run later. So tools in
//! a sandbox keep theirs here. Sandboxes use what is in a place; nothing else on the machine may.
//!
//! A place is a directory of nacre with a note that says whose it is, and a directory inside that programs see. Its users hold a
//! shared lock on it. Whatever removes it holds the exclusive one: the last user of a place in which nothing was kept, and a
//! sweep, once a day, for places that are not needed any more.

use crate::temporary;
use nacre_containment::job::lock;
use nacre_protocol::confinement::{CachePlace, Mount};
use nacre_protocol::message;
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder, File};
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, lchown, symlink};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime};

/// The directory of all places, in the state directory.
const DIRECTORY: &str = "caches";
/// What programs see of a place.
const FILES: &str = "files";
/// In there from the start: scripts expect that XDG_CACHE_HOME exists.
pub(crate) const CACHE_HOME: &str = "cache";
/// The note. It was last changed when a session began to use the place.
const NOTE: &str = "project";
/// Its time is that of the last sweep.
const SWEPT: &str = "swept";
/// What the names of places begin with that are being removed.
const REMOVED: &str = "removed-";
/// How long a place is kept that nothing uses.
const KEPT: Duration = Duration::from_secs(30 * 24 * 3600);
/// How often is swept.
const SWEEP_EVERY: Duration = Duration::from_secs(24 * 3600);
/// How many places are kept that nothing uses.
const MOST_PLACES: usize = 100;
/// How many entries of the directory are looked at.
const MOST_ENTRIES: usize = 10_000;
/// Maximum bytes of a note.
const MAX_NOTE_BYTES: u64 = 1024 * 1024;
/// How often a place is tried that is just being removed, or made by another session.
const ATTEMPTS: u32 = 100;
/// The pause in between.
const PAUSE: Duration = Duration::from_millis(10);

/// Whose a place is. Sessions with other rights have another one: what a program keeps there decides what others run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The directory of the sandbox.
    pub project: PathBuf,
    /// What its programs can write.
    pub write: Vec<PathBuf>,
    /// What they see elsewhere.
    pub mounts: Vec<Mount>,
    /// The user that they run as.
    pub user: u32,
    /// Whether they write to a layer, of which nothing may become real.
    pub is_layered: bool,
}

/// The place of a project in a state directory. Makes nothing.
///
/// # Errors
/// The identity cannot be written down.
pub fn place(state: &Path, identity: &Identity) -> io::Result<CachePlace> {
    let identity = message::encode(identity)?;
    // The note says which project a place belongs to, in case two get the same name.
    let mut hasher = DefaultHasher::new();
    hasher.write(&identity);
    let files = state.join(DIRECTORY).join(format!("{:016x}", hasher.finish())).join(FILES);
    Ok(CachePlace { files, identity, link: None })
}

/// A place in use.
#[derive(Debug)]
pub struct Held {
    directory: PathBuf,
    lock: File,
}

impl Held {
    /// Makes the place for a user, unless it exists.
    ///
    /// # Errors
    /// It cannot be made, it belongs to another project, or another process does not stop removing it.
    pub fn open(place: &CachePlace, owner: Option<(u32, u32)>) -> io::Result<Self> {
        let failed = |error: io::Error| {
            io::Error::new(error.kind(), format!("cannot make the caches {}: {error}", place.files.display()))
        };
        for _ in 0..ATTEMPTS {
            match Self::try_open(place, owner) {
                Ok(Some(held)) => return Ok(held),
                Ok(None) => {}
                // It was removed in between.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(failed(error)),
            }
            thread::sleep(PAUSE);
        }
        Err(failed(io::ErrorKind::WouldBlock.into()))
    }

    fn try_open(place: &CachePlace, owner: Option<(u32, u32)>) -> io::Result<Option<Self>> {
        let directory = place.files.parent().ok_or(io::ErrorKind::InvalidInput)?;
        let root = directory.parent().ok_or(io::ErrorKind::InvalidInput)?;
        make(root)?;
        // The first sweep is a day later.
        File::options().append(true).create(true).open(root.join(SWEPT))?;
        make(directory)?;
        let lock = lock::open(directory)?;
        // With the exclusive lock, no program can see the place while it is made.
        let is_alone = lock::try_lock(&lock)?;
        if !is_alone && !lock::try_share(&lock)? {
            return Ok(None);
        }
        let held = Self { directory: directory.to_path_buf(), lock };
        if !held.is_there()? {
            return Ok(None);
        }
        match held.note()? {
            None if is_alone => held.write_note(&place.identity)?,
            Some(found) if found == place.identity => {}
            Some(_) => return Err(io::Error::other("it belongs to another project")),
            None => return Ok(None),
        }
        if place.files.symlink_metadata().is_err() {
            if !is_alone {
                return Ok(None);
            }
            temporary::make(&place.files, owner)?;
            if let Some((name, target)) = &place.link {
                link(&place.files, name, target, owner)?;
            }
        }
        temporary::make(&place.files, owner)?;
        // A program may have put something else there.
        if is_alone && DirBuilder::new().mode(0o700).create(place.files.join(CACHE_HOME)).is_ok() {
            give(&place.files.join(CACHE_HOME), owner)?;
        }
        File::open(directory.join(NOTE))?.set_modified(SystemTime::now())?;
        Ok(lock::try_share(&held.lock)?.then_some(held))
    }

    /// True unless the directory was removed, or replaced by a new one, before it was locked.
    fn is_there(&self) -> io::Result<bool> {
        let (ours, found) = (self.lock.metadata()?, self.directory.symlink_metadata()?);
        Ok((ours.dev(), ours.ino()) == (found.dev(), found.ino()))
    }

    fn note(&self) -> io::Result<Option<Vec<u8>>> {
        note_of(&self.directory)
    }

    /// Whatever stops in between, the note is complete or missing.
    fn write_note(&self, identity: &[u8]) -> io::Result<()> {
        let new = self.directory.join(format!("{NOTE}.new"));
        File::create(&new)?.write_all(identity)?;
        fs::rename(new, self.directory.join(NOTE))
    }

    /// Ends the use. Without another user, a place in which nothing was kept is removed.
    pub fn release(&self) {
        let files = self.directory.join(FILES);
        let is_alone = lock::try_lock(&self.lock).unwrap_or(false);
        let is_empty = || {
            let _ = fs::remove_dir(files.join(CACHE_HOME));
            fs::remove_dir(&files).is_ok()
        };
        if is_alone && is_empty() {
            let _ = fs::remove_file(self.directory.join(NOTE));
            let _ = fs::remove_dir(&self.directory);
            self.directory.parent().into_iter().for_each(tidy);
        }
        lock::release(&self.lock);
    }
}

fn note_of(directory: &Path) -> io::Result<Option<Vec<u8>>> {
    match File::open(directory.join(NOTE)) {
        Ok(file) => {
            let mut text = Vec::new();
            file.take(MAX_NOTE_BYTES).read_to_end(&mut text)?;
            Ok(Some(text))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Makes a directory that only this user can look into.
fn make(directory: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

/// Removes a directory of places without any.
fn tidy(root: &Path) {
    let is_empty = fs::read_dir(root)
        .is_ok_and(|mut entries| entries.all(|entry| entry.is_ok_and(|entry| entry.file_name() == SWEPT)));
    if is_empty {
        let _ = fs::remove_file(root.join(SWEPT));
        let _ = fs::remove_dir(root);
    }
}

/// Makes a link in a new place, with the directories above it.
fn link(files: &Path, name: &Path, target: &Path, owner: Option<(u32, u32)>) -> io::Result<()> {
    let place = files.join(name);
    let mut above: Vec<&Path> = place.ancestors().skip(1).take_while(|path| *path != files).collect();
    above.reverse();
    for directory in above {
        make(directory)?;
        give(directory, owner)?;
    }
    symlink(target, &place)?;
    give(&place, owner)
}

fn give(path: &Path, owner: Option<(u32, u32)>) -> io::Result<()> {
    owner.map_or(Ok(()), |(uid, gid)| lchown(path, Some(uid), Some(gid)))
}

/// The directory of all places, if it is time to sweep it.
pub fn due(place: &CachePlace) -> Option<PathBuf> {
    let root = place.files.parent()?.parent()?;
    let swept = root.join(SWEPT).metadata().and_then(|found| found.modified());
    let is_due = swept.is_ok_and(|time| time.elapsed().is_ok_and(|age| age > SWEEP_EVERY));
    is_due.then(|| root.to_path_buf())
}

/// A place to be removed, with its lock: of a project that does not exist any more, that nothing has used for 30 days, or
/// beyond the 100 that were used last.
pub struct Unneeded {
    /// Its directory.
    pub directory: PathBuf,
    _lock: File,
}

/// The places to be removed in a directory of places. They have other names already: a removal can take long, and meanwhile a
/// session can make the place anew.
///
/// The directory of a project may not respond. So nothing is locked while it is looked at.
///
/// # Errors
/// The directory cannot be read.
pub fn unneeded(root: &Path) -> io::Result<Vec<Unneeded>> {
    File::options().append(true).open(root.join(SWEPT))?.set_modified(SystemTime::now())?;
    let mut kept = Vec::new();
    let mut found = Vec::new();
    for entry in fs::read_dir(root)?.take(MOST_ENTRIES).flatten() {
        let directory = entry.path();
        let used = used_at(&directory);
        match used.filter(|used| is_needed(&directory, *used)) {
            Some(used) => kept.push((used, directory)),
            None => found.push((used, directory)),
        }
    }
    kept.sort_by_key(|(used, _)| std::cmp::Reverse(*used));
    let others = kept.into_iter().skip(MOST_PLACES).map(|(used, directory)| (Some(used), directory));
    Ok(found.into_iter().chain(others).filter_map(|(used, directory)| set_aside(root, directory, used)).collect())
}

/// When a place was used. `None` while it is made, and when its removal has begun.
fn used_at(directory: &Path) -> Option<SystemTime> {
    directory.join(NOTE).symlink_metadata().and_then(|found| found.modified()).ok()
}

fn is_needed(directory: &Path, used: SystemTime) -> bool {
    let note = note_of(directory).ok().flatten();
    let Some(Identity { project, .. }) = note.and_then(|note| message::decode(&note).ok()) else { return false };
    let is_gone = project.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
    // A clock that was set back makes nothing old.
    let is_old = used.elapsed().is_ok_and(|age| age > KEPT);
    let is_removed = directory.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(REMOVED.as_bytes()));
    !is_gone && !is_old && !is_removed
}

/// Gives a place another name, unless something uses it, or has used it since it was looked at.
fn set_aside(root: &Path, directory: PathBuf, used: Option<SystemTime>) -> Option<Unneeded> {
    let lock = lock::take(&directory).ok().flatten()?;
    if used_at(&directory) != used {
        return None;
    }
    let name = directory.file_name()?.to_str()?;
    let aside = root.join(format!("{REMOVED}{name}-{}", std::process::id()));
    if name.starts_with(REMOVED) {
        return Some(Unneeded { directory, _lock: lock });
    }
    fs::rename(&directory, &aside).ok()?;
    Some(Unneeded { directory: aside, _lock: lock })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(project: &Path) -> Identity {
        let write = vec![project.to_path_buf()];
        Identity { project: project.into(), write, mounts: Vec::new(), user: 0, is_layered: false }
    }

    fn made(state: &Path, project: &Path) -> CachePlace {
        fs::create_dir_all(project).unwrap();
        place(state, &identity(project)).unwrap()
    }

    fn names(root: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(root).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn each_project_and_each_set_of_rights_has_a_place_that_stays_while_something_is_kept() {
        let state = tempfile::tempdir().unwrap();
        let [one, two] = ["one", "two"].map(|name| made(state.path(), &state.path().join(name)));
        let read_only = Identity { write: Vec::new(), ..identity(&state.path().join("one")) };
        let other = place(state.path(), &read_only).unwrap();
        assert!(one.files != two.files && one.files != other.files);
        let held = Held::open(&one, None).unwrap();
        assert_eq!(one.files.metadata().unwrap().mode() & 0o777, 0o700);
        let again = Held::open(&one, None).unwrap();
        held.release();
        assert!(one.files.is_dir(), "another session uses it");
        again.release();
        assert!(!state.path().join(DIRECTORY).exists(), "nothing was kept");
        let held = Held::open(&one, None).unwrap();
        fs::write(one.files.join("kept"), "x").unwrap();
        held.release();
        Held::open(&one, None).unwrap().release();
        assert_eq!(fs::read_to_string(one.files.join("kept")).unwrap(), "x");
    }

    #[test]
    fn a_place_of_another_project_is_refused() {
        let state = tempfile::tempdir().unwrap();
        let mine = made(state.path(), &state.path().join("mine"));
        let held = Held::open(&mine, None).unwrap();
        let theirs = CachePlace { identity: b"other".to_vec(), ..mine.clone() };
        assert!(Held::open(&theirs, None).unwrap_err().to_string().contains("another project"));
        held.release();
    }

    #[test]
    fn a_link_is_made_in_a_new_place_alone() {
        let state = tempfile::tempdir().unwrap();
        let link = Some((PathBuf::from("tool/config"), PathBuf::from("/nowhere")));
        let place = CachePlace { link, ..made(state.path(), &state.path().join("mine")) };
        Held::open(&place, None).unwrap().release();
        let linked = place.files.join("tool/config");
        assert_eq!(fs::read_link(&linked).unwrap(), Path::new("/nowhere"));
        // A program may have put a link in the place of the directory.
        fs::remove_dir_all(place.files.join("tool")).unwrap();
        let elsewhere = state.path().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        symlink(&elsewhere, place.files.join("tool")).unwrap();
        Held::open(&place, None).unwrap().release();
        assert!(names(&elsewhere).is_empty());
    }

    #[test]
    fn places_that_are_not_needed_are_found_unless_a_session_uses_them() {
        let state = tempfile::tempdir().unwrap();
        let at = |name: &str| state.path().join(name);
        let places = ["kept", "gone", "used", "old"].map(|name| made(state.path(), &at(name)));
        let held = places.each_ref().map(|place| Held::open(place, None).unwrap());
        places.iter().for_each(|place| fs::write(place.files.join("kept"), "").unwrap());
        let [kept, gone, used, old] = &places;
        let note = File::open(old.files.parent().unwrap().join(NOTE)).unwrap();
        note.set_modified(SystemTime::now() - KEPT - SWEEP_EVERY).unwrap();
        let [one, two, user, three] = held;
        [one, two, three].iter().for_each(Held::release);
        ["gone", "used"].iter().for_each(|name| fs::remove_dir(at(name)).unwrap());
        let root = state.path().join(DIRECTORY);
        assert_eq!(due(kept), None, "the first sweep is a day later");
        File::open(root.join(SWEPT)).unwrap().set_modified(SystemTime::now() - 2 * SWEEP_EVERY).unwrap();
        assert_eq!(due(kept).as_ref(), Some(&root));
        assert_eq!(unneeded(&root).unwrap().len(), 2);
        assert_eq!([kept, gone, used, old].map(|place| place.files.exists()), [true, false, true, false]);
        assert_eq!(unneeded(&root).unwrap().len(), 2, "an interrupted removal goes on");
        assert_eq!(due(used), None, "it was swept today");
        drop(user);
    }

    #[test]
    fn the_places_that_were_used_last_are_kept() {
        let state = tempfile::tempdir().unwrap();
        let project = state.path().join("project");
        fs::create_dir(&project).unwrap();
        let users = 0..MOST_PLACES as u32 + 2;
        let places: Vec<CachePlace> =
            users.map(|user| place(state.path(), &Identity { user, ..identity(&project) }).unwrap()).collect();
        for (age, place) in places.iter().enumerate() {
            let held = Held::open(place, None).unwrap();
            fs::write(place.files.join("kept"), "").unwrap();
            let note = File::open(place.files.parent().unwrap().join(NOTE)).unwrap();
            note.set_modified(SystemTime::now() - Duration::from_secs(age as u64)).unwrap();
            held.release();
        }
        assert_eq!(unneeded(&state.path().join(DIRECTORY)).unwrap().len(), 2);
        let (kept, removed) = places.split_at(MOST_PLACES);
        assert!(kept.iter().all(|place| place.files.exists()) && !removed.iter().any(|place| place.files.exists()));
    }
}
