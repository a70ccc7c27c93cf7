//! A file that is being written. Dropping it before the commit takes everything back.

use super::connection::Connection;
use super::failure::system_error;
use super::placed::Placed;
use crate::blocking::blocking;
use crate::error::Error;
use nacre_protocol::files::{Finish, Reply};
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

/// See the module.
pub struct Writer(Arc<Open>);

struct Open {
    // Dropped first, so that the helper finds no write on its way when it takes everything back.
    file: File,
    connection: Connection,
    path: Vec<u8>,
    /// Memory of pieces that were written, for the next ones: new memory costs more than the copy into it.
    spare: Mutex<Vec<Vec<u8>>>,
}

impl Writer {
    pub(super) fn new(connection: Connection, file: OwnedFd, path: Vec<u8>) -> Self {
        Self(Arc::new(Open { file: file.into(), connection, path, spare: Mutex::default() }))
    }

    /// A copy of a piece, to be written.
    pub fn piece(&self, bytes: &[u8]) -> Vec<u8> {
        let mut piece = self.0.spare.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
        piece.clear();
        piece.extend_from_slice(bytes);
        piece
    }

    /// Writes all of the bytes behind those before. Its thread holds the connection: a call that is given up meanwhile is
    /// taken back when the write has ended.
    pub fn write(&self, bytes: Vec<u8>) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        let open = Arc::clone(&self.0);
        blocking(move || {
            let written = (&open.file).write_all(&bytes);
            open.spare.lock().unwrap_or_else(PoisonError::into_inner).push(bytes);
            written.map_err(|failed| system_error(&open.path, failed.raw_os_error().unwrap_or(libc::EIO)))
        })
    }

    /// Makes what was written the file's content.
    pub async fn commit(&self) -> Result<Placed, Error> {
        let connection = &self.0.connection;
        connection.finish(Finish::Commit)?;
        match connection.reply().await? {
            (Reply::Found(Some(info)), _) => Ok(Placed { path: self.0.path.clone(), info }),
            _ => Err(connection.confused()),
        }
    }

    /// Takes everything back. Resolves when the file is as it was and nothing else is left.
    pub async fn revert(&self) {
        let connection = &self.0.connection;
        if connection.finish(Finish::Revert).is_ok() {
            let _ = connection.reply().await;
        }
    }

    /// Writes all there is and commits it.
    pub async fn write_all(&self, bytes: Vec<u8>) -> Result<Placed, Error> {
        match self.write(bytes).await {
            Ok(()) => self.commit().await,
            Err(error) => {
                self.revert().await;
                Err(error)
            }
        }
    }
}
