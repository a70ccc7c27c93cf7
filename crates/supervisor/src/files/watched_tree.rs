//! The watched directories of a tree: what the events so far have said about it, and the watches of its directories.
//!
//! inotify watches inodes, not paths. A new directory is watched as soon as it is seen, and files that appeared in it
//! before are found by listing it.
//!
//! The race: events tell of the past, but a look sees the present. When `a` is made and renamed, and another `a` is made,
//! a look at the first one finds the second. So every event about a directory is followed by a look at where it should be
//! now. If that finds another directory, or one that was believed to be elsewhere, the tree is in doubt, and is compared
//! with what is there once no more events come: see [`WatchedTree::compare`]. The last event about a directory is followed
//! by the last look, so no difference stays unknown.

use super::failure::below;
use nacre_protocol::files::{Event, FileChange, MAX_ENTRIES, is_temporary};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::fs::{AtFlags, CWD, FileType, statat};
use rustix::io::Errno;
use std::collections::{HashMap, HashSet};
use std::os::fd::OwnedFd;

/// Changes of the files in a directory, and the end of the directory itself.
pub const CHANGES: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVE)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::ONLYDIR);

/// Identifies a directory of the tree.
type Id = u64;

const ROOT: Id = 0;

/// A name in a directory of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchedTreePlace {
    directory: Id,
    /// The name.
    pub name: Vec<u8>,
}

impl WatchedTreePlace {
    /// Whether the other name is in the same directory.
    pub fn is_beside(&self, other: &Self) -> bool {
        self.directory == other.directory
    }
}

/// What is at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A file, or a directory that is not watched.
    File,
    /// A directory.
    Directory(Id),
}

#[derive(Default)]
struct WatchedDirectory {
    /// `None` for the root.
    place: Option<WatchedTreePlace>,
    watch: Option<i32>,
    entries: HashMap<Vec<u8>, Entry>,
}

/// Bytes of events that one look may find. Deep trees have long paths.
const MOST_FOUND_BYTES: usize = 64 * 1024 * 1024;

/// The events of a look: an overflow if they are too many.
#[derive(Default)]
pub struct Found {
    events: Vec<Event>,
    bytes: usize,
}

impl Found {
    fn push(&mut self, event: Event) {
        self.bytes += size_of::<Event>() + event.path.len();
        self.events.push(event);
        if self.bytes > MOST_FOUND_BYTES {
            self.events = vec![Event { change: FileChange::Overflow, path: Vec::new(), old_path: None }];
            self.bytes = 0;
        }
    }

    /// The events.
    pub fn take(self) -> Vec<Event> {
        self.events
    }
}

/// See the module.
pub struct WatchedTree {
    /// The queue of events.
    pub inotify: OwnedFd,
    directories: HashMap<Id, WatchedDirectory>,
    by_watch: HashMap<i32, Id>,
    /// All watches. Some are left from looks that found another directory than expected, until the next comparison.
    held: HashSet<i32>,
    next: Id,
    /// The number of all entries.
    known: usize,
    path: Vec<u8>,
    recursive: bool,
    /// Whether a look has found something that the events have not said.
    pub is_in_doubt: bool,
}

impl WatchedTree {
    /// Watches a directory by its absolute path.
    ///
    /// # Errors
    /// `NOSPC`: the limit of watches or names is reached.
    pub fn new(path: Vec<u8>, recursive: bool) -> Result<Self, Errno> {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let root = inotify::add_watch(&inotify, &path[..], CHANGES)?;
        let mut tree = Self {
            inotify,
            directories: HashMap::from([(ROOT, WatchedDirectory { watch: Some(root), ..WatchedDirectory::default() })]),
            by_watch: HashMap::new(),
            held: HashSet::new(),
            next: ROOT + 1,
            known: 0,
            path,
            recursive,
            is_in_doubt: false,
        };
        tree.compare(&mut Found::default())?;
        Ok(tree)
    }

    /// Compares the whole tree with what is there, and reports the differences. Where another directory has come, its
    /// files count as modified.
    pub fn compare(&mut self, events: &mut Found) -> Result<(), Errno> {
        self.is_in_doubt = false;
        self.by_watch.clear();
        let mut waiting = vec![ROOT];
        let mut is_limited = false;
        while let Some(id) = waiting.pop() {
            let Some(full) = self.full(id) else { continue };
            let known = self.directories.get(&id).and_then(|directory| directory.watch);
            let watch = if id == ROOT { known } else { unless_full(self.watch(&full), &mut is_limited)? };
            // A mount can show a directory twice. Otherwise it has moved since it was found at the other place.
            let other = watch.and_then(|watch| self.by_watch.get(&watch).copied());
            if let Some(other) = other {
                self.is_in_doubt |= !unless_full(self.is_there(other), &mut is_limited)?;
            }
            let watch = watch.filter(|_| other.is_none());
            self.attach(id, watch);
            if watch.is_some() {
                waiting.extend(unless_full(self.read(id, &full, known != watch, events), &mut is_limited)?);
                self.is_in_doubt |= id != ROOT && unless_full(self.watch(&full), &mut is_limited)? != watch;
            }
        }
        let left: Vec<i32> = self.held.iter().filter(|watch| !self.by_watch.contains_key(watch)).copied().collect();
        left.into_iter().for_each(|watch| self.unwatch(watch));
        if is_limited { Err(Errno::NOSPC) } else { Ok(()) }
    }

    /// Watches a directory and those below it, unless that is done. Reports files found there as created.
    pub fn look(&mut self, id: Id, events: &mut Found) -> Result<(), Errno> {
        if !self.is_there(self.parent(id))? {
            self.is_in_doubt = true;
            return Ok(());
        }
        let mut waiting = vec![id];
        while let Some(id) = waiting.pop() {
            let Some(full) = self.full(id) else { continue };
            let known = self.directories.get(&id).and_then(|directory| directory.watch);
            // It has disappeared, which an event will say, or cannot be read.
            let Some(watch) = self.watch(&full)? else { continue };
            if known == Some(watch) {
                continue;
            }
            if known.is_some() || self.by_watch.contains_key(&watch) {
                self.is_in_doubt = true;
                continue;
            }
            self.attach(id, Some(watch));
            waiting.extend(self.read(id, &full, false, events)?);
            // Otherwise the names are those of another directory.
            self.is_in_doubt |= self.watch(&full)? != Some(watch);
        }
        Ok(())
    }

    /// Compares the entries of a directory with those that are there. Returns the directories among them.
    fn read(&mut self, id: Id, full: &[u8], is_other: bool, events: &mut Found) -> Result<Vec<Id>, Errno> {
        let Some(listed) = self.list(full) else { return Ok(Vec::new()) };
        if listed.len() > MAX_ENTRIES {
            return Err(Errno::NOSPC);
        }
        let entries = self.directories.get(&id).map(|directory| directory.entries.keys().cloned().collect());
        let entries: Vec<Vec<u8>> = entries.unwrap_or_default();
        for name in entries.into_iter().filter(|name| !listed.contains_key(name)) {
            self.delete(WatchedTreePlace { directory: id, name }, events);
        }
        let mut directories = Vec::new();
        for (name, is_directory) in listed {
            let place = WatchedTreePlace { directory: id, name };
            let known = self.entry(&place);
            let is_same = known.is_some_and(|known| matches!(known, Entry::Directory(_)) == is_directory);
            if known.is_some() && !is_same {
                self.delete(place.clone(), events);
            }
            if is_same && is_other && !is_directory {
                self.report(FileChange::Modified, &place, events);
            }
            if !is_same {
                if self.is_full() {
                    return Err(Errno::NOSPC);
                }
                self.create(&place, is_directory);
                self.report(FileChange::Created, &place, events);
            }
            if let Some(Entry::Directory(child)) = self.entry(&place) {
                directories.push(child);
            }
        }
        Ok(directories)
    }

    fn delete(&mut self, place: WatchedTreePlace, events: &mut Found) {
        self.report(FileChange::Deleted, &place, events);
        if let Some(entry) = self.take(&place) {
            self.forget(entry);
        }
    }

    fn report(&self, change: FileChange, place: &WatchedTreePlace, events: &mut Found) {
        if let Some(path) = self.path_of(place).filter(|_| !is_temporary(&place.name)) {
            events.push(Event { change, path, old_path: None });
        }
    }

    /// Watches the directory at a path; `None` if there is none, or it cannot be read.
    fn watch(&mut self, full: &[u8]) -> Result<Option<i32>, Errno> {
        match inotify::add_watch(&self.inotify, full, CHANGES | WatchFlags::DONT_FOLLOW) {
            // Or its path is too long for the kernel.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS | Errno::NAMETOOLONG) => Ok(None),
            added => {
                self.held.extend(added);
                added.map(Some)
            }
        }
    }

    /// Ends a watch.
    fn unwatch(&mut self, watch: i32) {
        self.held.remove(&watch);
        // It has ended by itself, if its directory was removed.
        let _ = inotify::remove_watch(&self.inotify, watch);
    }

    /// The names in a directory, and which of them are directories to watch: no more than can be recorded, and one. `None`
    /// if it cannot be read.
    fn list(&self, path: &[u8]) -> Option<HashMap<Vec<u8>, bool>> {
        let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC;
        let opened = rustix::fs::openat(CWD, path, flags, rustix::fs::Mode::empty());
        let directory = opened.and_then(rustix::fs::Dir::new).ok()?;
        let entries = directory.flatten().map(|entry| (entry.file_name().to_bytes().to_vec(), entry.file_type()));
        let named = entries.filter(|(name, _)| name != b"." && name != b"..");
        let kinds = named.map(|(name, kind)| {
            let is_directory = || match kind {
                // Not every file system says it.
                FileType::Unknown => statat(CWD, &below(path, &name)[..], AtFlags::SYMLINK_NOFOLLOW)
                    .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory),
                kind => kind == FileType::Directory,
            };
            let is_directory = self.would_watch(&name) && is_directory();
            (name, is_directory)
        });
        Some(kinds.take(MAX_ENTRIES + 1).collect())
    }

    fn would_watch(&self, name: &[u8]) -> bool {
        self.recursive && !is_temporary(name)
    }

    /// Whether a directory is where it is believed to be.
    fn is_there(&mut self, id: Id) -> Result<bool, Errno> {
        let known = self.directories.get(&id).and_then(|directory| directory.watch);
        match self.full(id) {
            Some(full) if id != ROOT => Ok(known.is_some() && self.watch(&full)? == known),
            full => Ok(full.is_some()),
        }
    }

    fn attach(&mut self, id: Id, watch: Option<i32>) {
        if let Some(directory) = self.directories.get_mut(&id) {
            directory.watch = watch;
            self.by_watch.extend(watch.map(|watch| (watch, id)));
        }
    }

    /// Whether no more names can be recorded.
    pub fn is_full(&self) -> bool {
        self.known >= MAX_ENTRIES
    }

    /// Whether a directory is watched; true for a file.
    pub fn is_watched(&self, entry: Entry) -> bool {
        let Entry::Directory(id) = entry else { return true };
        self.directories.get(&id).is_none_or(|directory| directory.watch.is_some())
    }

    /// Whether a watch is that of the root.
    pub fn is_root(&self, watch: i32) -> bool {
        self.by_watch.get(&watch) == Some(&ROOT)
    }

    /// The place of a name that an event is about; `None` if its directory is not known any more.
    pub fn place(&self, watch: i32, name: Vec<u8>) -> Option<WatchedTreePlace> {
        self.by_watch.get(&watch).map(|id| WatchedTreePlace { directory: *id, name })
    }

    /// What is at a place, according to the events so far.
    pub fn entry(&self, place: &WatchedTreePlace) -> Option<Entry> {
        self.directories.get(&place.directory)?.entries.get(&place.name).copied()
    }

    /// Whether there is something at a place now.
    pub fn exists(&self, place: &WatchedTreePlace) -> bool {
        let full = self.path_of(place).map(|path| below(&self.path, &path));
        full.is_some_and(|full| statat(CWD, &full[..], AtFlags::SYMLINK_NOFOLLOW).is_ok())
    }

    /// Doubts what is known to be at a place, if it is of another kind.
    pub fn doubt(&mut self, place: &WatchedTreePlace, known: Entry, is_directory: bool) {
        let is_watched = matches!(known, Entry::Directory(_));
        self.is_in_doubt |= is_watched != (is_directory && self.would_watch(&place.name));
    }

    /// Records a new file or directory.
    pub fn create(&mut self, place: &WatchedTreePlace, is_directory: bool) -> Entry {
        if !is_directory || !self.would_watch(&place.name) {
            self.put(place, Entry::File);
            return Entry::File;
        }
        let id = self.next;
        self.next += 1;
        self.directories.insert(id, WatchedDirectory::default());
        self.put(place, Entry::Directory(id));
        Entry::Directory(id)
    }

    /// Puts what was elsewhere at a place, where nothing is.
    pub fn put(&mut self, place: &WatchedTreePlace, entry: Entry) {
        let Some(parent) = self.directories.get_mut(&place.directory) else { return self.forget(entry) };
        parent.entries.insert(place.name.clone(), entry);
        self.known += 1;
        if let Entry::Directory(id) = entry
            && let Some(directory) = self.directories.get_mut(&id)
        {
            directory.place = Some(place.clone());
        }
    }

    /// Takes away what is at a place. A directory keeps its path until it gets another one.
    pub fn take(&mut self, place: &WatchedTreePlace) -> Option<Entry> {
        let taken = self.directories.get_mut(&place.directory)?.entries.remove(&place.name);
        self.known -= usize::from(taken.is_some());
        taken
    }

    /// Forgets what was taken away, and ends its watches.
    pub fn forget(&mut self, entry: Entry) {
        let mut waiting = vec![entry];
        while let Some(entry) = waiting.pop() {
            let Entry::Directory(id) = entry else { continue };
            let Some(WatchedDirectory { watch, entries, .. }) = self.directories.remove(&id) else { continue };
            self.known -= entries.len();
            waiting.extend(entries.into_values());
            if let Some(watch) = watch.filter(|watch| self.by_watch.get(watch) == Some(&id)) {
                self.by_watch.remove(&watch);
                self.unwatch(watch);
            }
        }
    }

    /// Handles the end of a watch: its directory was removed or unmounted.
    pub fn ended(&mut self, watch: i32) {
        self.held.remove(&watch);
        if let Some(id) = self.by_watch.remove(&watch) {
            self.attach(id, None);
        }
    }

    /// Whether the directory that is at this place now is known to be there. A look can have found it before its rename
    /// was read.
    pub fn has_arrived(&mut self, place: &WatchedTreePlace) -> bool {
        let Some(Entry::Directory(id)) = self.entry(place) else { return false };
        self.is_there(id).unwrap_or(false)
    }

    /// Whether a directory is this one, or below it.
    pub fn is_inside(&self, place: &WatchedTreePlace, above: Entry) -> bool {
        let up = |id: &Id| Some(self.directories.get(id)?.place.as_ref()?.directory);
        std::iter::successors(Some(place.directory), up).any(|id| above == Entry::Directory(id))
    }

    fn parent(&self, id: Id) -> Id {
        self.directories.get(&id).and_then(|directory| directory.place.as_ref()).map_or(ROOT, |place| place.directory)
    }

    /// The path of a name; `None` if its directory was forgotten.
    pub fn path_of(&self, place: &WatchedTreePlace) -> Option<Vec<u8>> {
        let mut names = vec![&place.name[..]];
        let mut id = place.directory;
        while id != ROOT {
            let place = self.directories.get(&id)?.place.as_ref()?;
            names.push(&place.name);
            id = place.directory;
        }
        names.reverse();
        Some(names.join(&b'/'))
    }

    /// The absolute path of a directory.
    fn full(&self, id: Id) -> Option<Vec<u8>> {
        match &self.directories.get(&id)?.place {
            Some(place) => self.path_of(place).map(|path| below(&self.path, &path)),
            None => Some(self.path.clone()),
        }
    }
}

/// Notes that a limit is reached, and goes on without what is beyond it.
fn unless_full<T: Default>(result: Result<T, Errno>, is_limited: &mut bool) -> Result<T, Errno> {
    match result {
        Err(Errno::NOSPC) => {
            *is_limited = true;
            Ok(T::default())
        }
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;
    use std::sync::Barrier;
    use std::time::{Duration, Instant};

    /// The directory that a name in the root leads to.
    fn directory(tree: &WatchedTree, directory: Id, name: &[u8]) -> Option<Id> {
        match tree.entry(&WatchedTreePlace { directory, name: name.to_vec() }) {
            Some(Entry::Directory(id)) => Some(id),
            _ => None,
        }
    }

    #[test]
    fn a_directory_that_moves_during_a_comparison_is_watched_or_doubted() {
        for round in 0..500 {
            let temporary = tempfile::tempdir().unwrap();
            let root = temporary.path();
            std::fs::create_dir_all(root.join("t")).unwrap();
            std::fs::create_dir_all(root.join("d")).unwrap();
            let mut tree = WatchedTree::new(root.as_os_str().as_bytes().to_vec(), true).unwrap();
            let start = Barrier::new(2);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    start.wait();
                    let at = Instant::now() + Duration::from_micros(round % 100);
                    while Instant::now() < at {}
                    std::fs::rename(root.join("t"), root.join("d/c")).unwrap();
                });
                start.wait();
                tree.compare(&mut Found::default()).unwrap();
            });
            let d = directory(&tree, ROOT, b"d").unwrap();
            // Where it is not known yet, an event of its parent will tell.
            if let Some(moved) = directory(&tree, d, b"c") {
                assert!(tree.is_watched(Entry::Directory(moved)) || tree.is_in_doubt, "round {round}");
            }
        }
    }
}
