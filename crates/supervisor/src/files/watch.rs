//! Watches a directory or a file: turns the kernel's events into changes of paths.
//!
//! A rename is two events. The kernel holds the locks of both directories until it has reported both, so nothing else
//! comes to or leaves the first directory between them. A first event without a second was a move out of the tree, which
//! is reported as a deletion. Temporary files of this engine are not reported, and a file that they replace is reported
//! as modified.

use super::connection::Connection;
use super::failure::{Stop, about, below, failure};
use super::place::Origin;
use super::watch_events::{Happened, send, wait};
use super::watched_file::WatchedFile;
use super::watched_tree::{Entry, Found, WatchedTree, WatchedTreePlace};
use nacre_protocol::files::{Event, Failure, FileChange, FilesReply, Kind, Reason, is_temporary};
use nix::poll::PollTimeout;
use rustix::fs::inotify::ReadFlags;
use rustix::fs::{AtFlags, statat};
use rustix::io::Errno;
use std::time::{Duration, Instant};

/// Time limit for the second half of a rename.
const PAIRING: Duration = Duration::from_millis(5);

/// How long a tree may be in doubt while events come without a pause.
const DOUBT: Duration = Duration::from_millis(200);

/// The longest pause between two comparisons.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// How many renames by other processes may come between the two halves of an exchange.
const MOST_REPLACED: usize = 16;

/// The first half of a rename.
struct Moved {
    at: Instant,
    cookie: u32,
    from: WatchedTreePlace,
    /// `None` if nothing was known to be there.
    entry: Option<Entry>,
}

/// Since when a tree is in doubt, or when it was compared last, and how long it then stays so.
struct Doubts {
    since: Instant,
    pause: Duration,
}

struct Watch {
    tree: WatchedTree,
    moved: Vec<Moved>,
    /// The last renames onto names that were known: from and to. If the next one beside them goes back, the two were
    /// exchanged.
    replaced: Vec<(WatchedTreePlace, WatchedTreePlace)>,
    doubts: Option<Doubts>,
    events: Vec<Event>,
    is_over: bool,
}

/// Watches until the host closes the connection, or what is watched no longer exists.
pub fn watch(connection: &Connection, cwd: &[u8], path: &[u8], recursive: bool) -> Result<(), Stop> {
    let origin = Origin::of(cwd, path)?;
    let stat = statat(&origin, path, AtFlags::empty()).map_err(about(path))?;
    let absolute = if path.starts_with(b"/") { path.to_vec() } else { below(cwd, path) };
    let failed = |errno: Errno| match errno {
        Errno::MFILE | Errno::NOSPC => failure(Reason::WatchLimit(errno.raw_os_error()), path),
        other => about(path)(other),
    };
    if Kind::of(stat.st_mode) != Kind::Directory {
        return WatchedFile::new(absolute).map_err(failed)?.watch(connection);
    }
    let tree = WatchedTree::new(absolute, recursive).map_err(failed)?;
    watch_tree(connection, tree, &failed)
}

fn watch_tree(connection: &Connection, tree: WatchedTree, failed: &dyn Fn(Errno) -> Failure) -> Result<(), Stop> {
    connection.send(&FilesReply::Done)?;
    let mut watch =
        Watch { tree, moved: Vec::new(), replaced: Vec::new(), doubts: None, events: Vec::new(), is_over: false };
    loop {
        let happened = wait(connection, &watch.tree.inotify, watch.limit())?;
        let is_quiet = happened.is_none();
        for event in happened.unwrap_or_default() {
            watch.take(event).map_err(failed)?;
        }
        watch.part(|_, moved| moved.at.elapsed() >= PAIRING);
        watch.settle_doubts(is_quiet).map_err(failed)?;
        send(connection, std::mem::take(&mut watch.events))?;
        if watch.is_over {
            return connection.send(&FilesReply::Done);
        }
    }
}

impl Watch {
    /// How long to wait for events.
    fn limit(&self) -> PollTimeout {
        let pause = self.doubts.as_ref().map_or(PAIRING, |doubts| doubts.pause);
        let limit = match (self.moved.is_empty(), self.tree.is_in_doubt) {
            (false, _) => PAIRING,
            (true, true) => pause,
            (true, false) => return PollTimeout::NONE,
        };
        PollTimeout::from(limit.as_millis() as u16)
    }

    fn take(&mut self, Happened { watch, flags, cookie, name }: Happened) -> Result<(), Errno> {
        if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
            self.event(FileChange::Overflow, Vec::new(), None);
            self.tree.is_in_doubt = true;
            return Ok(());
        }
        let gone = ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::IGNORED | ReadFlags::UNMOUNT;
        if flags.intersects(gone) {
            // Below a mount, there is another directory.
            self.tree.is_in_doubt |= flags.contains(ReadFlags::UNMOUNT);
            if self.tree.is_root(watch) && !self.is_over {
                self.is_over = true;
                self.event(FileChange::Deleted, Vec::new(), None);
            }
            if flags.contains(ReadFlags::IGNORED) {
                self.tree.ended(watch);
            }
            return Ok(());
        }
        let Some(place) = self.tree.place(watch, name).filter(|place| !place.name.is_empty()) else { return Ok(()) };
        let is_directory = flags.contains(ReadFlags::ISDIR);
        let comes_or_goes = ReadFlags::CREATE | ReadFlags::DELETE | ReadFlags::MOVED_FROM | ReadFlags::MOVED_TO;
        if flags.intersects(comes_or_goes) {
            self.part(|_, moved| moved.from.is_beside(&place) && moved.cookie != cookie);
            self.replaced.retain(|(from, to)| match flags {
                _ if !from.is_beside(&place) && !to.is_beside(&place) => true,
                flags if flags.contains(ReadFlags::MOVED_FROM) => *to == place,
                flags => flags.contains(ReadFlags::MOVED_TO) && *from == place,
            });
        }
        if flags.contains(ReadFlags::CREATE) {
            // Files that were found by a look are already known, reported and watched.
            match self.tree.entry(&place) {
                None => return self.created(place, is_directory),
                Some(entry) => self.tree.doubt(&place, entry, is_directory),
            }
        } else if flags.contains(ReadFlags::DELETE) {
            let entry = self.tree.take(&place);
            self.deleted(place, entry);
        } else if flags.contains(ReadFlags::MOVED_FROM) {
            let entry = self.tree.take(&place);
            self.moved.push(Moved { at: Instant::now(), cookie, from: place, entry });
        } else if flags.contains(ReadFlags::MOVED_TO) {
            return self.moved_to(cookie, place, is_directory);
        } else if let Some(entry) = self.tree.entry(&place) {
            // Not for a file without a name (O_TMPFILE), which the kernel reports by its inode.
            self.about(FileChange::Modified, &place);
            // It may be readable now.
            return if self.tree.is_watched(entry) { Ok(()) } else { self.look(entry) };
        }
        Ok(())
    }

    fn created(&mut self, place: WatchedTreePlace, is_directory: bool) -> Result<(), Errno> {
        if self.tree.is_full() {
            return self.unless_full(Err(Errno::NOSPC));
        }
        let entry = self.tree.create(&place, is_directory);
        self.about(FileChange::Created, &place);
        self.look(entry)
    }

    fn deleted(&mut self, place: WatchedTreePlace, entry: Option<Entry>) {
        if let Some(entry) = entry {
            self.about(FileChange::Deleted, &place);
            self.tree.forget(entry);
        }
    }

    fn moved_to(&mut self, cookie: u32, to: WatchedTreePlace, is_directory: bool) -> Result<(), Errno> {
        let at = self.moved.iter().position(|moved| moved.cookie == cookie);
        let moved = at.map(|at| self.moved.remove(at));
        if let Some(Moved { from, .. }) = &moved {
            let exchanged = self.replaced.extract_if(.., |before| before.0 == to && before.1 == *from);
            self.tree.is_in_doubt |= exchanged.count() > 0;
            if self.tree.entry(&to).is_some() {
                self.replaced.truncate(MOST_REPLACED);
                self.replaced.insert(0, (from.clone(), to.clone()));
            }
        }
        let (from, entry) = match moved {
            Some(Moved { from, entry: Some(entry), .. }) if !is_temporary(&from.name) => (from, entry),
            // From elsewhere.
            _ => {
                let Some(entry) = self.tree.entry(&to) else { return self.created(to, is_directory) };
                self.about(FileChange::Modified, &to);
                self.tree.doubt(&to, entry, is_directory);
                return self.look(entry);
            }
        };
        if is_temporary(&to.name) || self.tree.has_arrived(&to) {
            self.deleted(from, Some(entry));
            return Ok(());
        }
        if self.tree.is_inside(&to, entry) {
            // What is believed is wrong: nothing is inside itself.
            self.tree.is_in_doubt = true;
            self.deleted(from, Some(entry));
            return Ok(());
        }
        let before = self.tree.take(&to);
        before.into_iter().for_each(|before| self.tree.forget(before));
        match (self.tree.path_of(&to), self.tree.path_of(&from)) {
            (Some(path), Some(old_path)) => self.event(FileChange::Renamed, path, Some(old_path)),
            // Everything that was in the directory that it has left is gone, and this may have been one above.
            (Some(path), None) => {
                self.tree.forget(entry);
                if before.is_some() {
                    self.event(FileChange::Deleted, path, None);
                }
                return self.created(to, is_directory);
            }
            (None, _) => {
                self.deleted(from, Some(entry));
                return Ok(());
            }
        }
        self.tree.put(&to, entry);
        self.look(entry)
    }

    /// Watches a directory, if it is one.
    fn look(&mut self, entry: Entry) -> Result<(), Errno> {
        let Entry::Directory(id) = entry else { return Ok(()) };
        // What has left it must be reported before what a look finds in it.
        self.part(|tree, moved| tree.is_inside(&moved.from, entry));
        self.find(|tree, found| tree.look(id, found))
    }

    /// If the limit of watches or names is reached, changes will not be seen.
    fn unless_full(&mut self, done: Result<(), Errno>) -> Result<(), Errno> {
        if done != Err(Errno::NOSPC) {
            return done;
        }
        self.event(FileChange::Overflow, Vec::new(), None);
        Ok(())
    }

    /// Compares a tree that is in doubt with what is there. Where that leaves doubts, the next time comes later each time.
    fn settle_doubts(&mut self, is_quiet: bool) -> Result<(), Errno> {
        if !self.tree.is_in_doubt {
            self.doubts = None;
            return Ok(());
        }
        let doubts = self.doubts.get_or_insert_with(|| Doubts { since: Instant::now(), pause: PAIRING });
        let patience = if is_quiet { doubts.pause } else { doubts.pause.max(DOUBT) };
        if doubts.since.elapsed() < patience {
            return Ok(());
        }
        *doubts = Doubts { since: Instant::now(), pause: (doubts.pause * 2).min(LONGEST_PAUSE) };
        self.part(|_, _| true);
        self.find(WatchedTree::compare)
    }

    /// Reports what is found in the tree.
    fn find(&mut self, by: impl FnOnce(&mut WatchedTree, &mut Found) -> Result<(), Errno>) -> Result<(), Errno> {
        let mut found = Found::default();
        let done = by(&mut self.tree, &mut found);
        for Event { change, path, old_path } in found.take() {
            self.event(change, path, old_path);
        }
        self.unless_full(done)
    }

    /// Reports these first halves of renames, which have no second half, as deletions.
    fn part(&mut self, of: impl Fn(&WatchedTree, &Moved) -> bool) {
        let parted: Vec<Moved> = self.moved.extract_if(.., |moved| of(&self.tree, moved)).collect();
        for Moved { from, entry, .. } in parted {
            // The kernel drops an event that differs from the one before only in its cookie: something else may have come.
            self.tree.is_in_doubt |= self.tree.exists(&from);
            self.deleted(from, entry);
        }
    }

    /// Reports a change of a file, unless that is temporary.
    fn about(&mut self, change: FileChange, place: &WatchedTreePlace) {
        if let Some(path) = self.tree.path_of(place).filter(|_| !is_temporary(&place.name)) {
            self.event(change, path, None);
        }
    }

    /// Adds an event, merging consecutive changes of one file, and overflows.
    fn event(&mut self, change: FileChange, path: Vec<u8>, old_path: Option<Vec<u8>>) {
        let event = Event { change, path, old_path };
        let merges = matches!(change, FileChange::Modified | FileChange::Overflow);
        if !merges || self.events.last() != Some(&event) {
            self.events.push(event);
        }
    }
}
