//! A file that is open for reading.

use super::failure::{error, system_error};
use super::placed::Placed;
use crate::blocking::blocking;
use crate::error::{Code, Error};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// See the module.
pub struct Reader {
    file: Arc<File>,
    /// The file at the time it was opened.
    pub opened: Placed,
}

impl Reader {
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
        blocking(move || {
            let mut bytes = vec![0; most];
            let mut length = 0;
            while length < most {
                match file.read_at(&mut bytes[length..], position + length as u64) {
                    Ok(0) => break,
                    Ok(count) => length += count,
                    Err(failed) if failed.kind() == std::io::ErrorKind::Interrupted => {}
                    Err(failed) => return Err(system_error(&path, failed.raw_os_error().unwrap_or(libc::EIO))),
                }
            }
            bytes.truncate(length);
            Ok(bytes)
        })
    }
}
