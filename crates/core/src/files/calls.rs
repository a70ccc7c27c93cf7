//! File calls that consist of one request and its reply.

use super::failure::error;
use super::helper::{Access, Connection};
use super::placed::{Found, Placed, joined};
use super::reader::FileReader;
use super::watcher::Watcher;
use super::writer::Writer;
use crate::error::{Code, Error};
use nacre_protocol::files::{Call, FilesReply, ListedEntry, MAX_ENTRIES, MAX_PATH_BYTES, Socket};
use std::os::fd::OwnedFd;

/// The result of a call. `None`: the helper had exited before, and the call can be repeated with another helper.
pub(super) type Sent<T> = Result<Option<T>, Error>;

impl Access {
    async fn call(&self, call: Call) -> Sent<Connection> {
        for path in paths_of(&call) {
            if path.is_empty() || path.contains(&0) {
                return Err(error(Code::InvalidPath, path, "is empty or has a NUL byte"));
            }
            if path.len() > MAX_PATH_BYTES {
                return Err(error(Code::InvalidPath, path, format!("has more than {MAX_PATH_BYTES} bytes")));
            }
        }
        self.send(call).await
    }

    /// Makes a call that returns nothing.
    pub async fn change(&self, call: Call) -> Sent<()> {
        let Some(connection) = self.call(call).await? else { return Ok(None) };
        match connection.reply().await? {
            (FilesReply::Done, _) => Ok(Some(())),
            _ => Err(connection.confused()),
        }
    }

    /// Describes a file. With `follow`, a symlink is followed.
    pub async fn stat(&self, path: Vec<u8>, follow: bool) -> Sent<Found> {
        let Some(connection) = self.call(Call::Stat { path: path.clone(), follow }).await? else { return Ok(None) };
        match connection.reply().await? {
            (FilesReply::Found(found), _) => Ok(Some(found.map(|info| Placed { path, info }))),
            _ => Err(connection.confused()),
        }
    }

    /// Lists a directory, sorted by path. More entries than `most` are an error, as are more than [`MAX_ENTRIES`].
    pub async fn list(&self, path: Vec<u8>, depth: u32, most: usize) -> Sent<Vec<Placed>> {
        let most = most.min(MAX_ENTRIES);
        let Some(connection) = self.call(Call::List { path: path.clone(), depth, most }).await? else {
            return Ok(None);
        };
        let mut found: Vec<ListedEntry> = Vec::new();
        loop {
            match connection.reply().await? {
                (FilesReply::Entries(entries), _) if found.len() + entries.len() <= most => found.extend(entries),
                (FilesReply::Done, _) => break,
                _ => return Err(connection.confused()),
            }
        }
        let sorted = crate::blocking::blocking(move || {
            found.sort_unstable_by(|a, b| a.path.cmp(&b.path));
            Ok(found
                .into_iter()
                .map(|ListedEntry { path: own, info }| Placed { path: joined(&path, &own), info })
                .collect())
        });
        sorted.await.map(Some)
    }

    /// Opens a file for reading.
    pub async fn read(&self, path: Vec<u8>) -> Sent<FileReader> {
        let Some(connection) = self.call(Call::Read { path: path.clone() }).await? else { return Ok(None) };
        match connection.reply().await? {
            (FilesReply::Opened(info), Some(file)) => Ok(Some(FileReader::new(file, Placed { path, info }))),
            _ => Err(connection.confused()),
        }
    }

    /// Opens a file for writing.
    pub async fn write(&self, path: Vec<u8>, mode: Option<u32>, append: bool) -> Sent<Writer> {
        let Some(connection) = self.call(Call::Write { path: path.clone(), mode, append }).await? else {
            return Ok(None);
        };
        match connection.reply().await? {
            (FilesReply::Opened(_), Some(file)) => Ok(Some(Writer::new(connection, file, path))),
            _ => Err(connection.confused()),
        }
    }

    /// Makes a socket in the session's network namespace.
    pub async fn socket(&self, socket: Socket) -> Sent<OwnedFd> {
        let Some(connection) = self.call(Call::Socket(socket)).await? else { return Ok(None) };
        match connection.reply().await? {
            (FilesReply::Socket, Some(socket)) => Ok(Some(socket)),
            _ => Err(connection.confused()),
        }
    }

    /// Starts a watch.
    pub async fn watch(&self, path: Vec<u8>, recursive: bool) -> Sent<Watcher> {
        let remounts = self.helper.remounts();
        let connection = self.start_watch(path.clone(), recursive).await?;
        Ok(connection.map(|connection| Watcher::new(self.clone(), path, recursive, connection, remounts)))
    }

    pub(super) async fn start_watch(&self, path: Vec<u8>, recursive: bool) -> Sent<Connection> {
        let Some(connection) = self.call(Call::Watch { path, recursive }).await? else { return Ok(None) };
        match connection.reply().await? {
            (FilesReply::Done, _) => Ok(Some(connection)),
            _ => Err(connection.confused()),
        }
    }
}

fn paths_of(call: &Call) -> Vec<&[u8]> {
    match call {
        Call::Read { path }
        | Call::Write { path, .. }
        | Call::List { path, .. }
        | Call::Stat { path, .. }
        | Call::MakeDirectory { path }
        | Call::SetMode { path, .. }
        | Call::Remove { path, .. }
        | Call::Watch { path, .. } => vec![path],
        Call::Socket(_) => Vec::new(),
        Call::Rename { from, to } | Call::Copy { from, to, .. } => vec![from, to],
    }
}
