//! Watches a file. Editors replace files, so its directory is watched, for its name. If it is a link, so are the places
//! of all links on the way to the file.

use super::connection::Connection;
use super::failure::{Stop, below};
use super::place::MAX_LINKS;
use super::watch_events::{Happened, send, wait};
use super::watched_tree::CHANGES;
use nacre_protocol::files::{Change, Event, Reply};
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
    places: Vec<Place>,
}

/// A name in a watched directory.
struct Place {
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
            places.push(Place { directory, name });
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
        connection.send(&Reply::Done)?;
        let mut missing_since = None;
        loop {
            let left = missing_since.map(|since: Instant| REPLACING.saturating_sub(since.elapsed()));
            let limit = left.map_or(PollTimeout::NONE, |left| PollTimeout::from(left.as_millis() as u16));
            let happened = wait(connection, &self.inotify, limit)?.unwrap_or_default();
            let mut changes = Vec::new();
            for event in &happened {
                let before = missing_since.is_none();
                let Some(exists) = self.exists_after(event) else { continue };
                missing_since = if exists { None } else { missing_since.or_else(|| Some(Instant::now())) };
                changes.extend(match (before, exists) {
                    _ if event.flags.contains(ReadFlags::QUEUE_OVERFLOW) => Some(Change::Overflow),
                    (true, true) if changes.last() == Some(&Change::Modified) => None,
                    (true, true) => Some(Change::Modified),
                    (true, false) => Some(Change::Deleted),
                    (false, true) => Some(Change::Created),
                    (false, false) => None,
                });
            }
            let event = |change| Event { change, path: Vec::new(), old_path: None };
            send(connection, changes.into_iter().map(event).collect())?;
            if happened.iter().any(|event| self.changes_the_way(event)) {
                match Self::new(std::mem::take(&mut self.path)) {
                    Ok(renewed) => self = renewed,
                    // A directory on the way is missing.
                    Err(_) => return connection.send(&Reply::Done),
                }
            }
            if missing_since.is_some_and(|since| since.elapsed() >= REPLACING) && !self.exists() {
                return connection.send(&Reply::Done);
            }
        }
    }

    /// Whether the file exists after an event; `None` if the event is not about it.
    fn exists_after(&self, event: &Happened) -> Option<bool> {
        if self.changes_the_way(event) {
            return Some(self.exists());
        }
        let file = self.places.last()?;
        (file.directory == event.watch && file.name == event.name)
            .then(|| !event.flags.intersects(ReadFlags::DELETE | ReadFlags::MOVED_FROM))
    }

    /// Whether the path may lead elsewhere now: a link has changed, or a directory.
    fn changes_the_way(&self, Happened { watch, flags, name, .. }: &Happened) -> bool {
        let links = self.places.split_last().map(|(_, links)| links).unwrap_or_default();
        let is_link = links.iter().any(|place| place.directory == *watch && place.name == *name);
        let gone = ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::UNMOUNT | ReadFlags::QUEUE_OVERFLOW;
        is_link || flags.intersects(gone)
    }
}
