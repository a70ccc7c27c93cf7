//! Reads a job's output, starting at a cursor.
//!
//! The status is read before the file. If no process of the job is left and a slice reaches the end of the file, no more
//! output follows. In the other order, output printed in between could be missed.

use super::status::{JobStatus, status};
use super::store::Job;
use crate::error::Error;
use crate::sys;
use nacre_containment::job::file::{self, Unreadable};
use nacre_containment::job::layout::OUTPUT;
use std::fs::File;
use std::io;

/// A part of the output.
pub struct Slice {
    /// The status from before the read.
    pub status: JobStatus,
    /// The bytes from the cursor on.
    pub bytes: Vec<u8>,
    /// True if no output follows.
    pub at_end: bool,
}

/// Reads at most `most` bytes; returns none beyond the end.
///
/// # Errors
/// `JOB_NOT_FOUND`, also if the job is removed meanwhile or the output is not a regular file; `ENGINE_ERROR` if it
/// cannot be read.
pub fn read(job: &Job, cursor: u64, most: usize) -> Result<Slice, Error> {
    let status = status(job)?;
    let (bytes, at_end) = slice(job, cursor, most).map_err(|reason| job.unreadable(OUTPUT, &reason))?;
    job.still_there()?;
    Ok(Slice { status, bytes, at_end })
}

fn slice(job: &Job, cursor: u64, most: usize) -> Result<(Vec<u8>, bool), Unreadable> {
    match file::open(&job.directory, OUTPUT)? {
        Some(output) => part(&output, cursor, most).map_err(Unreadable::Io),
        None => Ok((Vec::new(), true)),
    }
}

fn part(file: &File, cursor: u64, most: usize) -> io::Result<(Vec<u8>, bool)> {
    let left = file.metadata()?.len().saturating_sub(cursor);
    let wanted = usize::try_from(left).unwrap_or(usize::MAX).min(most);
    let bytes = sys::read_at(file, cursor, wanted)?;
    let at_end = bytes.len() as u64 >= left;
    Ok((bytes, at_end))
}

/// The length of the output in bytes.
///
/// # Errors
/// As for [`read`].
pub fn size(job: &Job) -> Result<u64, Error> {
    file::size(&job.directory, OUTPUT).map_err(|reason| job.unreadable(OUTPUT, &reason))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn gives_what_is_behind_the_cursor_and_says_whether_that_is_all() {
        let root = tempfile::tempdir().unwrap();
        let job = Job::at(root.path());
        assert_eq!(slice(&job, 0, 9).unwrap(), (vec![], true));
        fs::write(root.path().join(OUTPUT), b"0123456789").unwrap();
        assert_eq!(slice(&job, 0, 4).unwrap(), (b"0123".to_vec(), false));
        assert_eq!(slice(&job, 6, 4).unwrap(), (b"6789".to_vec(), true));
        assert_eq!(slice(&job, 8, 99).unwrap(), (b"89".to_vec(), true));
        assert_eq!(slice(&job, 10, 4).unwrap(), (vec![], true));
        assert_eq!(slice(&job, u64::MAX, 4).unwrap(), (vec![], true));
        assert_eq!(size(&job).unwrap(), 10);
    }
}
