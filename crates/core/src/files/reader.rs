//! A file opened for reading.

use super::failure::{error, system_error};
use super::placed::Placed;
use crate::blocking::blocking;
use crate::error::{Code, Error};
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;

/// See the module.
pub struct Reader {
    file: Arc<File>,
    /// The file's state when it was opened.
    pub opened: Placed,
}

impl Reader {
    pub(super) fn new(file: OwnedFd, opened: Placed) -> Self {
        Self { file: Arc::new(file.into()), opened }
    }

    /// Fails if the file has more than `most` bytes.
    pub fn check_size(&self, most: u64) -> Result<(), Error> {
        if self.opened.info.size <= most {
            return Ok(());
        }
        let what = format!("has {} bytes, more than maxBytes allows ({most})", self.opened.info.size);
        Err(error(Code::FileTooLarge, &self.opened.path, what))
    }

    /// Reads until `most` bytes or the end of the file.
    pub fn read(&self, position: u64, most: usize) -> impl Future<Output = Result<Vec<u8>, Error>> + Send + use<> {
        let (file, path) = (Arc::clone(&self.file), self.opened.path.clone());
        blocking(move || read_at(&file, position, most).map_err(|failed| failure(&path, &failed)))
    }

    /// The first read, with the file's version from before it.
    pub fn read_first(
        &self,
        position: u64,
        most: usize,
    ) -> impl Future<Output = Result<(String, Vec<u8>), Error>> + Send + use<> {
        let (file, path) = (Arc::clone(&self.file), self.opened.path.clone());
        blocking(move || {
            let version = file.metadata().map(|metadata| version(&metadata));
            version
                .and_then(|version| Ok((version, read_at(&file, position, most)?)))
                .map_err(|failed| failure(&path, &failed))
        })
    }
}

fn read_at(file: &File, position: u64, most: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; most];
    let mut length = 0;
    while length < most {
        match file.read_at(&mut bytes[length..], position + length as u64) {
            Ok(0) => break,
            Ok(count) => length += count,
            Err(failed) if failed.kind() == io::ErrorKind::Interrupted => {}
            Err(failed) => return Err(failed),
        }
    }
    bytes.truncate(length);
    Ok(bytes)
}

fn failure(path: &[u8], failed: &io::Error) -> Error {
    system_error(path, failed.raw_os_error().unwrap_or(libc::EIO))
}

/// A text that changes when the path names another file, or the content changes. Programs cannot set the change time.
fn version(metadata: &Metadata) -> String {
    format!(
        "{:x}-{:x}-{:x}-{:x}.{:x}",
        metadata.dev(),
        metadata.ino(),
        metadata.size(),
        metadata.ctime(),
        metadata.ctime_nsec(),
    )
}
