//! The numbers of lines at one offset of a log.
//!
//! Each stream has its own lines. A line gets its number when its newline arrives, counting both streams, so the number
//! of a line is the number of newlines up to its own. Lines without a newline come last.

use crate::exec::OutputStream;
use memchr::{memchr_iter, memrchr};

/// How the lines stand at one offset of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    /// Newlines before the offset, which is the number of the last complete line.
    pub complete: u64,
    /// For each stream, where the line begins that has bytes, but no newline yet.
    pub open: [Option<u64>; 2],
}

impl Lines {
    /// Adds output, which begins at offset `at` and is not empty.
    pub fn add(&mut self, stream: OutputStream, at: u64, bytes: &[u8]) {
        let open = &mut self.open[index(stream)];
        match newlines(bytes) {
            0 => drop(open.get_or_insert(at)),
            count => {
                self.complete += count;
                let next = memrchr(b'\n', bytes).map_or(0, |last| last + 1);
                *open = (next < bytes.len()).then_some(at + next as u64);
            }
        }
    }

    /// The number of lines, open ones included.
    pub fn count(&self) -> u64 {
        self.complete + self.open.iter().flatten().count() as u64
    }
}

/// The place of a stream in a pair.
pub fn index(stream: OutputStream) -> usize {
    usize::from(stream == OutputStream::Stderr)
}

/// How many newlines there are.
pub fn newlines(bytes: &[u8]) -> u64 {
    memchr_iter(b'\n', bytes).count() as u64
}
