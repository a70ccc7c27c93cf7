//! A file that is being written. Dropping it before the commit reverts the write.

use super::attributes::{self, Attributes};
use super::failure::system_error;
use super::helper::Connection;
use super::placed::Placed;
use crate::blocking::blocking;
use crate::error::Error;
use nacre_containment::lock::Lock;
use nacre_protocol::files::{FilesReply, Finish};
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// See the module.
pub struct Writer(Arc<OpenFile>);

struct OpenFile {
    // Dropped first, so that no write is in progress when the helper reverts.
    file: File,
    connection: Connection,
    path: Vec<u8>,
    /// Buffers of written chunks, for reuse: new memory costs more than the copy into it.
    spare: Lock<Vec<Vec<u8>>>,
}

impl Writer {
    pub(super) fn new(connection: Connection, file: OwnedFd, path: Vec<u8>) -> Self {
        Self(Arc::new(OpenFile { file: file.into(), connection, path, spare: Lock::default() }))
    }

    /// Copies a chunk into a buffer to write.
    pub fn piece(&self, bytes: &[u8]) -> Vec<u8> {
        let mut piece = self.0.spare.lock().pop().unwrap_or_default();
        piece.clear();
        piece.extend_from_slice(bytes);
        piece
    }

    /// Gives extended attributes to the new file. A file that cannot be replaced does not get them, nor does one to append to.
    pub fn set_attributes(&self, all: Attributes) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        let open = Arc::clone(&self.0);
        blocking(move || {
            attributes::write(&open.file, &all).map_err(|errno| system_error(&open.path, errno.raw_os_error()))
        })
    }

    /// Appends the bytes to those written so far. The writing thread holds the connection, so a call that is abandoned
    /// meanwhile is reverted when the write has ended.
    pub fn write(&self, bytes: Vec<u8>) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        let open = Arc::clone(&self.0);
        blocking(move || {
            let written = (&open.file).write_all(&bytes);
            open.spare.lock().push(bytes);
            written.map_err(|failed| system_error(&open.path, failed.raw_os_error().unwrap_or(libc::EIO)))
        })
    }

    /// Makes the written bytes the file's content.
    pub async fn commit(&self) -> Result<Placed, Error> {
        let connection = &self.0.connection;
        connection.finish(Finish::Commit)?;
        match connection.reply().await? {
            (FilesReply::Found(Some(info)), _) => Ok(Placed { path: self.0.path.clone(), info }),
            _ => Err(connection.confused()),
        }
    }

    /// Reverts the write. Resolves when the file is as before and no temporary file is left.
    pub async fn revert(&self) {
        let connection = &self.0.connection;
        if connection.finish(Finish::Revert).is_ok() {
            let _ = connection.reply().await;
        }
    }

    /// Writes all bytes and commits.
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
