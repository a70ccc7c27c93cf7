//! Watches a file. Editors replace files, so its directory is watched, for its name. If it is a link, so are the places
//! of all links on the way to the file.

use super::connection::Connection;
use super::failure::{Stop, below};
use super::place::MAX_LINKS;
use super::watch_events::{Happened, send, wait};
use super::watched_tree::CHANGES;
use nacre_protocol::files::{Event, FileChange, FilesReply};
use nix::poll::PollTimeout;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags};
use rustix::fs::{AtFlags, CWD, readlinkat, statat};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// How long a file may be missing while an editor replaces it.
const REPLACING: Duration = Duration::from_millis(50);

/// See the module.
pub struct WatchedFile {
    inotify: OwnedFd,
    path: Vec<u8>,
    /// The links, and the file itself.
    places: Vec<WatchedFilePlace>,
}

/// A name in a watched directory.
struct WatchedFilePlace {
    directory: i32,
    name: Vec<u8>,
}

impl WatchedFile {
    /// Watches a file by its absolute path.
    pub fn new(path: Vec<u8>) -> Result<Self, Errno> {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let mut places = Vec::new();
        let mut next = path.clone();
        loop {
            let name = next.rsplit(|&byte| byte == b'/').next().unwrap_or_default().to_vec();
            let parent = &next[..next.len() - name.len()];
            let directory = inotify::add_watch(&inotify, parent, CHANGES)?;
            places.push(WatchedFilePlace { directory, name });
            if places.len() > MAX_LINKS {
                return Err(Errno::LOOP);
            }
            next = match readlinkat(CWD, &next[..], Vec::new()) {
                Ok(target) if target.as_bytes().starts_with(b"/") => target.into_bytes(),
                Ok(target) => below(parent, target.as_bytes()),
                // It is no link, or missing.
                Err(Errno::INVAL | Errno::NOENT) => break,
                Err(errno) => return Err(errno),
            };
        }
        Ok(Self { inotify, path, places })
    }

    fn exists(&self) -> bool {
        statat(CWD, &self.path[..], AtFlags::empty()).is_ok()
    }

    /// Watches until the host closes the connection, or the file has been deleted.
    pub fn watch(mut self, connection: &Connection) -> Result<(), Stop> {
        connection.send(&FilesReply::Done)?;
        let mut missing_since = None;
        loop {
            let left = missing_since.map(|since: Instant| REPLACING.saturating_sub(since.elapsed()));
            let limit = left.map_or(PollTimeout::NONE, |left| PollTimeout::from(left.as_millis() as u16));
            let happened = wait(connection, &self.inotify, limit)?.unwrap_or_default();
            let mut changes = Vec::new();
            let mut found = |exists: bool| {
                changes.extend(match (missing_since.is_none(), exists) {
                    (true, true) if changes.last() == Some(&FileChange::Modified) => None,
                    (true, true) => Some(FileChange::Modified),
                    (true, false) => Some(FileChange::Deleted),
                    (false, true) => Some(FileChange::Created),
                    (false, false) => None,
                });
                missing_since = if exists { None } else { missing_since.or_else(|| Some(Instant::now())) };
            };
            for event in happened.iter().filter(|event| self.is_about_the_file(event)) {
                found(!event.flags.intersects(ReadFlags::DELETE | ReadFlags::MOVED_FROM));
            }
            let has_led_elsewhere = happened.iter().any(|event| self.changes_the_way(event));
            if has_led_elsewhere {
                // Watch the new file before reporting, so that no later change is missed.
                found(self.renew());
            }
            let is_long_missing = missing_since.is_some_and(|since| since.elapsed() >= REPLACING);
            let is_over = is_long_missing && !self.renew();
            if is_long_missing && !is_over {
                changes.push(FileChange::Created);
                missing_since = None;
            }
            if happened.iter().any(|event| event.flags.contains(ReadFlags::QUEUE_OVERFLOW)) {
                changes.push(FileChange::Overflow);
            }
            let event = |change| Event { change, path: Vec::new(), old_path: None };
            send(connection, changes.into_iter().map(event).collect())?;
            if is_over {
                return connection.send(&FilesReply::Done);
            }
        }
    }

    /// Looks anew where the path leads. Whether there is a file.
    fn renew(&mut self) -> bool {
        match Self::new(self.path.clone()) {
            Ok(renewed) => *self = renewed,
            // A directory on the way is missing.
            Err(_) => return false,
        }
        self.exists()
    }

    fn is_about_the_file(&self, Happened { watch, name, .. }: &Happened) -> bool {
        self.places.last().is_some_and(|file| file.directory == *watch && file.name == *name)
    }

    /// Whether the path may lead elsewhere now: a link has changed, or a directory.
    fn changes_the_way(&self, Happened { watch, flags, name, .. }: &Happened) -> bool {
        let links = self.places.split_last().map(|(_, links)| links).unwrap_or_default();
        let is_link = links.iter().any(|place| place.directory == *watch && place.name == *name);
        let gone = ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::UNMOUNT | ReadFlags::QUEUE_OVERFLOW;
        is_link || flags.intersects(gone)
    }
}
