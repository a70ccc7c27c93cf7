//! A copy of a log in named files, which the next sandbox of the same name reads.
//!
//! It is written by threads that may block, right after the output has arrived, so it outlives a SIGKILL of this program. What
//! cannot be written is left out, and readers see how many bytes are missing.

use crate::exec::OutputStream;
use nacre_containment::lock::Lock;
use nacre_keep::Kept;
use std::sync::Weak;

/// Maximum bytes that wait for the disk. What arrives then is not copied.
const MOST_WAITING: usize = 1 << 20;
/// Bytes before the output of a frame: its cursor, its time, its stream and its length.
const HEADER: usize = 8 + 8 + 1 + 4;

/// See the module.
#[derive(Debug)]
pub struct LogCopy {
    files: Weak<Kept>,
    number: u64,
    limit: u64,
    queue: Lock<Queue>,
    /// Held by who appends: pieces stay in their order, and the last writer waits for the one before it.
    turn: Lock<()>,
}

#[derive(Debug, Default)]
struct Queue {
    bytes: Vec<u8>,
    is_writing: bool,
}

/// A piece of output.
#[derive(Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    pub cursor: u64,
    pub time_ms: u64,
    pub stream: OutputStream,
    pub bytes: &'a [u8],
}

impl LogCopy {
    /// The copy of a process with this number. `limit`: bytes of log that are kept.
    pub fn new(files: Weak<Kept>, number: u64, limit: u64) -> Self {
        Self { files, number, limit, queue: Lock::default(), turn: Lock::default() }
    }

    /// Takes output. True if [`LogCopy::write`] is to be called.
    pub fn push(&self, Frame { cursor, time_ms, stream, bytes }: &Frame<'_>) -> bool {
        let Ok(length) = u32::try_from(bytes.len()) else { return false };
        let mut queue = self.queue.lock();
        if queue.bytes.len() > MOST_WAITING {
            return false;
        }
        let stream = u8::from(*stream == OutputStream::Stderr);
        for part in [&cursor.to_le_bytes()[..], &time_ms.to_le_bytes(), &[stream], &length.to_le_bytes(), bytes] {
            queue.bytes.extend_from_slice(part);
        }
        !std::mem::replace(&mut queue.is_writing, true)
    }

    /// Writes what waits. May block.
    pub fn write(&self) {
        let _turn = self.turn.lock();
        loop {
            let bytes = {
                let mut queue = self.queue.lock();
                queue.is_writing = !queue.bytes.is_empty();
                std::mem::take(&mut queue.bytes)
            };
            if bytes.is_empty() {
                return;
            }
            if let Some(files) = self.files.upgrade() {
                // The next reader sees the gap.
                let _ = files.append_log(self.number, self.limit, &bytes);
            }
        }
    }
}

/// The whole frames of a file.
pub fn frames(mut bytes: &[u8]) -> impl Iterator<Item = Frame<'_>> {
    std::iter::from_fn(move || {
        let (header, rest) = bytes.split_at_checked(HEADER)?;
        let number = |at: usize| header[at..at + 8].try_into().map(u64::from_le_bytes).ok();
        let length = header[17..].try_into().map(u32::from_le_bytes).ok()?;
        let stream = if header[16] == 0 { OutputStream::Stdout } else { OutputStream::Stderr };
        let (output, rest) = rest.split_at_checked(length as usize)?;
        bytes = rest;
        Some(Frame { cursor: number(0)?, time_ms: number(8)?, stream, bytes: output })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use OutputStream::{Stderr, Stdout};
    use std::sync::Arc;

    #[test]
    fn frames_come_back_up_to_where_the_file_is_cut() {
        let place = tempfile::tempdir().unwrap();
        let (kept, _) = Kept::open(place.path(), "one").unwrap();
        let kept = Arc::new(kept);
        kept.begin_log(7);
        let copy = LogCopy::new(Arc::downgrade(&kept), 7, 1 << 20);
        let first = Frame { cursor: 3, time_ms: 5, stream: Stdout, bytes: b"abc" };
        let second = Frame { cursor: 9, time_ms: 6, stream: Stderr, bytes: b"" };
        assert!(copy.push(&first));
        assert!(!copy.push(&second), "a writer is on its way");
        copy.write();
        let [old, new] = kept.read_log(7);
        assert_eq!(old, b"");
        assert_eq!(frames(&new).collect::<Vec<_>>(), [first, second]);
        for length in 0..new.len() {
            let whole = usize::from(length >= HEADER + 3);
            assert_eq!(frames(&new[..length]).count(), whole, "{length} bytes");
        }
    }
}
