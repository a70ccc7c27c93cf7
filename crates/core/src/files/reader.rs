//! A file opened for reading.

use super::attributes::{self, Attributes};
use super::failure::{error, system_error};
use super::placed::Placed;
use crate::blocking::blocking;
use crate::error::{Code, Error};
use crate::sys;
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

/// See the module.
pub struct FileReader {
    file: Arc<File>,
    /// The file at the time it was opened.
    pub opened: Placed,
}

impl FileReader {
    pub(super) fn new(file: OwnedFd, opened: Placed) -> Self {
        Self { file: Arc::new(file.into()), opened }
    }

    /// Returns an error if the file has more bytes.
    pub fn check_size(&self, most: u64) -> Result<(), Error> {
        if self.opened.info.size <= most {
            return Ok(());
        }
        let what = format!("has {} bytes, more than maxBytes allows ({most})", self.opened.info.size);
        Err(error(Code::FileTooLarge, &self.opened.path, what))
    }

    /// Reads `most` bytes, or up to the end of the file.
    pub fn read(&self, position: u64, most: usize) -> impl Future<Output = Result<Vec<u8>, Error>> + Send + use<> {
        let (file, path) = (Arc::clone(&self.file), self.opened.path.clone());
        blocking(move || sys::read_at(&file, position, most).map_err(|failed| failure(&path, &failed)))
    }

    /// The extended attributes whose names begin with a prefix.
    pub fn attributes(&self, prefix: String) -> impl Future<Output = Result<Attributes, Error>> + Send + use<> {
        let (file, path) = (Arc::clone(&self.file), self.opened.path.clone());
        blocking(move || attributes::read(&file, &prefix).map_err(|errno| system_error(&path, errno.raw_os_error())))
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
                .and_then(|version| Ok((version, sys::read_at(&file, position, most)?)))
                .map_err(|failed| failure(&path, &failed))
        })
    }
}

fn failure(path: &[u8], failed: &io::Error) -> Error {
    system_error(path, failed.raw_os_error().unwrap_or(libc::EIO))
}

/// A text that changes when the path names another file, or the content changes. Programs cannot set the change time.
fn version(metadata: &Metadata) -> String {
    format!("{}-{}-{}-{}.{}", metadata.dev(), metadata.ino(), metadata.size(), metadata.ctime(), metadata.ctime_nsec(),)
}
