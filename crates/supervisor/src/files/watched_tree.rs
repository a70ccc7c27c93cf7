//! The watched directories of a tree, and the names in them.
//!
//! inotify watches single directories. So a new directory is watched as soon as it is seen, and files that appeared
//! in it before are found by listing it. The recorded names distinguish such files from those that are reported
//! again.

use super::failure::below;
use super::temporary::is_temporary;
use nacre_protocol::files::{Change, Event, MAX_ENTRIES};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::fs::{CWD, FileType};
use rustix::io::Errno;
use std::collections::{HashMap, HashSet};
use std::os::fd::OwnedFd;

const CHANGES: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVE)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::ONLYDIR);

/// A watched directory: its path below the root, and the names in it.
struct Directory {
    path: Vec<u8>,
    names: HashSet<Vec<u8>>,
}

/// See the module.
pub struct WatchedTree {
    /// The queue of events.
    pub inotify: OwnedFd,
    /// The directories by watch descriptor.
    directories: HashMap<i32, Directory>,
    /// The watch descriptor of the root.
    pub root: i32,
    path: Vec<u8>,
    recursive: bool,
    /// The number of all names.
    known: usize,
}

impl WatchedTree {
    /// Watches a directory by its absolute path.
    pub fn new(path: Vec<u8>, recursive: bool) -> Result<Self, Errno> {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let root = inotify::add_watch(&inotify, &path[..], CHANGES)?;
        let mut tree = Self { inotify, directories: HashMap::new(), root, path, recursive, known: 0 };
        tree.add(Vec::new(), &mut None)?;
        Ok(tree)
    }

    /// Starts over after events were lost.
    pub fn renew(&mut self) -> Result<(), Errno> {
        *self = Self::new(std::mem::take(&mut self.path), self.recursive)?;
        Ok(())
    }

    /// Watches a directory and, in a recursive watch, those below it. Announces files found there as created.
    pub fn add(&mut self, first: Vec<u8>, announce: &mut Option<&mut Vec<Event>>) -> Result<(), Errno> {
        let mut waiting = vec![first];
        while let Some(path) = waiting.pop() {
            let full = below(&self.path, &path);
            let nofollow = if path.is_empty() { WatchFlags::empty() } else { WatchFlags::DONT_FOLLOW };
            let watch = match inotify::add_watch(&self.inotify, &full[..], CHANGES | nofollow) {
                // It has disappeared, or cannot be read.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS) if !path.is_empty() => continue,
                added => added?,
            };
            if self.directories.get(&watch).is_some_and(|known| known.path == path) {
                continue;
            }
            let mut names = HashSet::new();
            let left = MAX_ENTRIES.saturating_sub(self.known);
            for (index, (name, is_directory)) in list(&full, left + 1).into_iter().enumerate() {
                if index == left {
                    return Err(Errno::NOSPC);
                }
                let own = joined(&path, &name);
                if is_directory && self.recursive {
                    waiting.push(own.clone());
                }
                if !is_temporary(&name)
                    && let Some(events) = announce
                {
                    events.push(Event { change: Change::Created, path: own, old_path: None });
                }
                names.insert(name);
            }
            self.known += names.len();
            self.directories.insert(watch, Directory { path, names });
        }
        Ok(())
    }

    /// Records a name. False if it was known.
    pub fn appeared(&mut self, watch: i32, name: Vec<u8>) -> bool {
        let added = self.directories.get_mut(&watch).is_some_and(|directory| directory.names.insert(name));
        self.known += usize::from(added);
        added
    }

    /// Forgets a name. False if it was not known.
    pub fn disappeared(&mut self, watch: i32, name: &[u8]) -> bool {
        let removed = self.directories.get_mut(&watch).is_some_and(|directory| directory.names.remove(name));
        self.known -= usize::from(removed);
        removed
    }

    /// Forgets a directory that is no longer watched.
    pub fn ended(&mut self, watch: i32) {
        self.known -= self.directories.remove(&watch).map_or(0, |directory| directory.names.len());
    }

    /// The path of a file in a watched directory; `None` if that is no longer watched.
    pub fn path_of(&self, watch: i32, name: &[u8]) -> Option<Vec<u8>> {
        self.directories.get(&watch).map(|directory| joined(&directory.path, name))
    }

    /// Whether directories below the root are watched.
    pub fn is_recursive(&self) -> bool {
        self.recursive
    }

    /// Forgets a directory that was moved away, and those below it.
    pub fn forget(&mut self, path: &[u8]) {
        let inside = self.directories.iter().filter(|(_, directory)| is_within(&directory.path, path));
        for watch in inside.map(|(watch, _)| *watch).collect::<Vec<_>>() {
            let _ = inotify::remove_watch(&self.inotify, watch);
            self.ended(watch);
        }
    }

    /// Handles the rename of a directory, which also changes the paths of those below it.
    pub fn rename(&mut self, from: &[u8], to: &[u8]) {
        for directory in self.directories.values_mut().filter(|directory| is_within(&directory.path, from)) {
            directory.path = [to, &directory.path[from.len()..]].concat();
        }
    }
}

fn is_within(path: &[u8], directory: &[u8]) -> bool {
    path.strip_prefix(directory).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

/// A name in a directory of the tree.
fn joined(directory: &[u8], name: &[u8]) -> Vec<u8> {
    if directory.is_empty() { name.to_vec() } else { below(directory, name) }
}

/// The first names in a directory, and which of them are directories. Empty if it cannot be read.
fn list(path: &[u8], most: usize) -> Vec<(Vec<u8>, bool)> {
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC;
    let opened = rustix::fs::openat(CWD, path, flags, rustix::fs::Mode::empty());
    let Ok(directory) = opened.and_then(rustix::fs::Dir::new) else { return Vec::new() };
    let entries = directory.flatten().map(|entry| (entry.file_name().to_bytes().to_vec(), entry.file_type()));
    entries
        .filter(|(name, _)| name != b"." && name != b"..")
        .map(|(name, kind)| (name, kind == FileType::Directory))
        .take(most)
        .collect()
}
