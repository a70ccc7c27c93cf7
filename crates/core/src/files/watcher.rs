//! A running watch. Dropping it ends the watch.

use super::helper::Connection;
use super::placed::joined;
use crate::error::Error;
use nacre_protocol::files::{Change, Event, Reply};

/// A change of a path.
pub struct Seen {
    /// The kind of change.
    pub change: Change,
    /// The watched path as given, or below it.
    pub path: Vec<u8>,
    /// The path before a rename.
    pub old_path: Option<Vec<u8>>,
}

/// See the module.
pub struct Watcher {
    connection: Connection,
    path: Vec<u8>,
}

impl Watcher {
    pub(super) fn new(connection: Connection, path: Vec<u8>) -> Self {
        Self { connection, path }
    }

    /// Waits for the next changes. Empty when the watched file no longer exists. Cancel-safe.
    pub async fn next(&self) -> Result<Vec<Seen>, Error> {
        match self.connection.reply().await? {
            (Reply::Events(events), _) => Ok(events.into_iter().map(|event| self.seen(event)).collect()),
            (Reply::Done, _) => Ok(Vec::new()),
            _ => Err(self.connection.confused()),
        }
    }

    fn seen(&self, Event { change, path, old_path }: Event) -> Seen {
        let whole = |path: Vec<u8>| joined(&self.path, &path);
        Seen { change, path: whole(path), old_path: old_path.map(whole) }
    }
}
