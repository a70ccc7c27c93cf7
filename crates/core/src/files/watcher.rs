//! A running watch. Dropping it ends the watch.
//!
//! It watches files, not paths. So when another mount replaces that of the workspace, it is started again, and reports an
//! overflow.

use super::helper::{Access, Connection};
use super::placed::joined;
use crate::error::{Code, Error};
use nacre_protocol::files::{Event, FileChange, FilesReply};
use tokio::sync::{Mutex, watch};

/// A change of a path.
pub struct Seen {
    /// The kind of change.
    pub change: FileChange,
    /// The watched path as given, or below it.
    pub path: Vec<u8>,
    /// The path before a rename.
    pub old_path: Option<Vec<u8>>,
}

/// See the module.
pub struct Watcher {
    access: Access,
    path: Vec<u8>,
    recursive: bool,
    running: Mutex<RunningWatch>,
}

struct RunningWatch {
    /// `None` while it is to be started again.
    connection: Option<Connection>,
    remounts: watch::Receiver<u64>,
}

impl Watcher {
    pub(super) fn new(
        access: Access,
        path: Vec<u8>,
        recursive: bool,
        connection: Connection,
        remounts: watch::Receiver<u64>,
    ) -> Self {
        let running = Mutex::new(RunningWatch { connection: Some(connection), remounts });
        Self { access, path, recursive, running }
    }

    /// Waits for the next changes. Empty when the watched file no longer exists. Cancel-safe.
    pub async fn next(&self) -> Result<Vec<Seen>, Error> {
        let mut running = self.running.lock().await;
        let RunningWatch { connection, remounts } = &mut *running;
        if let Some(living) = connection {
            tokio::select! {
                biased;
                reply = living.reply() => return match reply? {
                    (FilesReply::Events(events), _) => Ok(events.into_iter().map(|event| self.seen(event)).collect()),
                    (FilesReply::Done, _) => Ok(Vec::new()),
                    _ => Err(living.confused()),
                },
                Ok(()) = remounts.changed() => {}
            }
        }
        // Ends the old watch first, which gives its place back.
        *connection = None;
        match self.access.start_watch(self.path.clone(), self.recursive).await {
            Err(error) if error.code == Code::FileNotFound => Ok(Vec::new()),
            started => {
                let started = started?;
                *connection = Some(started.ok_or_else(|| self.access.helper.lost())?);
                Ok(vec![Seen { change: FileChange::Overflow, path: self.path.clone(), old_path: None }])
            }
        }
    }

    fn seen(&self, Event { change, path, old_path }: Event) -> Seen {
        let whole = |path: Vec<u8>| joined(&self.path, &path);
        Seen { change, path: whole(path), old_path: old_path.map(whole) }
    }
}
