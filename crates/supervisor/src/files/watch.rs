//! Watches a directory or a file: turns the kernel's events into changes of paths.
//!
//! A rename is two events, and the second usually follows immediately. A first event without a second was a move out
//! of the tree, which is reported as a deletion. Temporary files of this engine are not reported, and a file that
//! they replace is reported as modified.

use super::connection::Connection;
use super::failure::{Stop, about, below, failure};
use super::info::kind_of;
use super::place::{Origin, Place};
use super::temporary::is_temporary;
use super::watched_tree::WatchedTree;
use nacre_protocol::files::{BATCH_BYTES, Change, Event, Kind, Reason, Reply};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustix::fs::inotify::{ReadFlags, Reader};
use rustix::fs::{AtFlags, statat};
use rustix::io::Errno;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;

/// Time limit for the second half of a rename.
const PAIRING_MS: u16 = 5;

/// The first half of a rename.
struct Moved {
    cookie: u32,
    path: Vec<u8>,
    is_directory: bool,
}

/// An event of the kernel.
struct Happened {
    watch: i32,
    flags: ReadFlags,
    cookie: u32,
    name: Vec<u8>,
}

struct Watch {
    tree: WatchedTree,
    moved: Vec<Moved>,
    events: Vec<Event>,
    is_over: bool,
}

/// Watches until the host closes the connection, or the watched file no longer exists.
pub fn watch(connection: &Connection, cwd: &[u8], path: &[u8], recursive: bool) -> Result<(), Stop> {
    let origin = Origin::of(cwd, path)?;
    let stat = statat(&origin, path, AtFlags::empty()).map_err(about(path))?;
    let absolute = if path.starts_with(b"/") { path.to_vec() } else { below(cwd, path) };
    // For a file, its directory is watched, since editors replace files.
    let only = match kind_of(&stat) {
        Kind::Directory => None,
        _ => Some(Place::of(cwd, path, false)?.name),
    };
    let directory = match &only {
        Some(name) => absolute[..absolute.len() - name.len()].to_vec(),
        None => absolute,
    };
    let limited = |errno: Errno| match errno {
        Errno::MFILE | Errno::NOSPC => failure(Reason::WatchLimit(errno.raw_os_error()), path),
        other => about(path)(other),
    };
    let tree = WatchedTree::new(directory, recursive && only.is_none()).map_err(limited)?;
    connection.send(&Reply::Done)?;
    let mut watch = Watch { tree, moved: Vec::new(), events: Vec::new(), is_over: false };
    loop {
        let limit = if watch.moved.is_empty() { PollTimeout::NONE } else { PollTimeout::from(PAIRING_MS) };
        let mut fds = [
            PollFd::new(watch.tree.inotify.as_fd(), PollFlags::POLLIN),
            PollFd::new(connection.socket(), PollFlags::empty()),
        ];
        let _ = poll(&mut fds, limit);
        if fds[1].any().unwrap_or(true) {
            return Err(Stop::Cancelled);
        }
        if fds[0].any().unwrap_or(true) {
            watch.read().map_err(about(path))?;
        } else {
            watch.part();
        }
        let events = std::mem::take(&mut watch.events);
        send(
            connection,
            match &only {
                Some(name) => events.into_iter().filter_map(|event| of_file(event, name)).collect(),
                None => events,
            },
        )?;
        if watch.is_over {
            return connection.send(&Reply::Done);
        }
    }
}

impl Watch {
    fn read(&mut self) -> Result<(), Errno> {
        let mut buffer = [MaybeUninit::uninit(); 16 * 1024];
        let mut happened = Vec::new();
        let mut reader = Reader::new(&self.tree.inotify, &mut buffer);
        loop {
            match reader.next() {
                Ok(event) => happened.push(Happened {
                    watch: event.wd(),
                    flags: event.events(),
                    cookie: event.cookie(),
                    name: event.file_name().map(|name| name.to_bytes().to_vec()).unwrap_or_default(),
                }),
                Err(Errno::INTR) => continue,
                Err(_) => break,
            }
            if reader.is_buffer_empty() {
                break;
            }
        }
        happened.into_iter().try_for_each(|event| self.take(event))
    }

    fn take(&mut self, Happened { watch, flags, cookie, name }: Happened) -> Result<(), Errno> {
        if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
            self.moved.clear();
            self.event(Change::Overflow, Vec::new(), None);
            // A watch ends with its root.
            self.is_over = self.tree.renew().is_err();
            return Ok(());
        }
        let gone = ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::IGNORED | ReadFlags::UNMOUNT;
        if flags.intersects(gone) {
            if watch == self.tree.root && !self.is_over {
                self.is_over = true;
                self.event(Change::Deleted, Vec::new(), None);
            }
            if flags.contains(ReadFlags::IGNORED) {
                self.tree.ended(watch);
            }
            return Ok(());
        }
        let Some(path) = self.tree.path_of(watch, &name).filter(|_| !name.is_empty()) else { return Ok(()) };
        let is_directory = flags.contains(ReadFlags::ISDIR);
        let hidden = is_temporary(&name);
        if flags.contains(ReadFlags::CREATE) {
            // Files that were listed meanwhile are already known, announced and watched.
            if !self.tree.appeared(watch, name) || hidden {
                return Ok(());
            }
            self.event(Change::Created, path.clone(), None);
            return if is_directory { self.look_into(path) } else { Ok(()) };
        }
        if flags.contains(ReadFlags::DELETE) {
            if self.tree.disappeared(watch, &name) && !hidden {
                self.event(Change::Deleted, path, None);
            }
        } else if flags.contains(ReadFlags::MOVED_FROM) {
            self.tree.disappeared(watch, &name);
            self.moved.push(Moved { cookie, path, is_directory });
        } else if flags.contains(ReadFlags::MOVED_TO) {
            let was_there = !self.tree.appeared(watch, name);
            return self.moved_to(cookie, path, is_directory, was_there, hidden);
        } else if !hidden {
            self.event(Change::Modified, path, None);
        }
        Ok(())
    }

    fn moved_to(
        &mut self,
        cookie: u32,
        path: Vec<u8>,
        is_directory: bool,
        was_there: bool,
        hidden: bool,
    ) -> Result<(), Errno> {
        let at = self.moved.iter().position(|moved| moved.cookie == cookie);
        let old = at.map(|at| self.moved.remove(at)).filter(|old| {
            let name = old.path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
            !is_temporary(name)
        });
        match old {
            _ if hidden => {}
            Some(old) => {
                if is_directory {
                    self.tree.rename(&old.path, &path);
                }
                self.event(Change::Renamed, path, Some(old.path));
                return Ok(());
            }
            None if was_there => self.event(Change::Modified, path.clone(), None),
            None => self.event(Change::Created, path.clone(), None),
        }
        if is_directory && !hidden { self.look_into(path) } else { Ok(()) }
    }

    /// Watches a new directory.
    fn look_into(&mut self, path: Vec<u8>) -> Result<(), Errno> {
        if !self.tree.is_recursive() {
            return Ok(());
        }
        let mut found = Vec::new();
        let added = self.tree.add(path, &mut Some(&mut found));
        self.events.append(&mut found);
        if added == Err(Errno::NOSPC) {
            // The limit of watches or names is reached: changes in this directory will not be seen.
            self.event(Change::Overflow, Vec::new(), None);
            return Ok(());
        }
        added
    }

    /// Reports first halves of renames without a second half as deletions.
    fn part(&mut self) {
        for Moved { path, is_directory, .. } in std::mem::take(&mut self.moved) {
            if is_directory {
                self.tree.forget(&path);
            }
            if !is_temporary(path.rsplit(|&byte| byte == b'/').next().unwrap_or_default()) {
                self.event(Change::Deleted, path, None);
            }
        }
    }

    /// Adds an event, merging consecutive changes of one file.
    fn event(&mut self, change: Change, path: Vec<u8>, old_path: Option<Vec<u8>>) {
        let event = Event { change, path, old_path };
        if change != Change::Modified || self.events.last() != Some(&event) {
            self.events.push(event);
        }
    }
}

/// Turns a directory's event into an event of the watched file; `None` if it concerns another file.
fn of_file(event: Event, name: &[u8]) -> Option<Event> {
    let whole = |change| Some(Event { change, path: Vec::new(), old_path: None });
    match event {
        Event { change: Change::Renamed, old_path: Some(old), .. } if old == name => whole(Change::Deleted),
        Event { change: Change::Renamed, path, .. } if path == name => whole(Change::Modified),
        Event { change, path, .. } if path == name || path.is_empty() => whole(change),
        _ => None,
    }
}

fn send(connection: &Connection, events: Vec<Event>) -> Result<(), Stop> {
    let mut batch = Vec::new();
    let mut bytes = 0;
    for event in events {
        bytes += 16 + event.path.len() + event.old_path.as_ref().map_or(0, Vec::len);
        batch.push(event);
        if bytes >= BATCH_BYTES {
            connection.send(&Reply::Events(std::mem::take(&mut batch)))?;
            bytes = 0;
        }
    }
    if batch.is_empty() { Ok(()) } else { connection.send(&Reply::Events(batch)) }
}
