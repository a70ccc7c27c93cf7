//! A bounded byte buffer: beyond the limit, it keeps the first and the last bytes and counts the dropped bytes.

use crate::sys;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;

/// Keeps up to `limit` bytes; beyond that, the first and the last half of the limit.
#[derive(Debug)]
pub struct HeadTail {
    limit: usize,
    /// Everything, until the limit is reached; then the first half.
    head: Vec<u8>,
    /// The last half, a ring once it is full.
    tail: Option<ByteRing>,
    total: u64,
}

/// Maximum bytes per read.
const LARGEST_READ: usize = 256 * 1024;
/// Capacity for the first read.
const SMALLEST_READ: usize = 16 * 1024;

impl HeadTail {
    /// Creates an empty buffer. Allocates nothing.
    pub fn new(limit: usize) -> Self {
        Self { limit, head: Vec::new(), tail: None, total: 0 }
    }

    /// Appends bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let fits = bytes.len().min(if self.tail.is_some() { 0 } else { self.limit - self.head.len() });
        self.head.extend_from_slice(&bytes[..fits]);
        if fits < bytes.len() {
            self.ring().push(&bytes[fits..]);
        }
    }

    /// Reads once from `fd`, at most `most` bytes, directly into the buffer while it is below the limit. `Ok(0)` is
    /// end of file.
    pub fn read_from(&mut self, fd: &impl AsRawFd, most: usize, scratch: &mut Vec<u8>) -> io::Result<usize> {
        let room = if self.tail.is_some() { 0 } else { self.limit - self.head.len() };
        let most = most.min(LARGEST_READ);
        if room >= most {
            self.reserve(most);
            let count = sys::read_spare(fd, &mut self.head, most)?;
            self.total += count as u64;
            return Ok(count);
        }
        scratch.clear();
        scratch.reserve(most);
        let count = sys::read_spare(fd, scratch, most)?;
        self.push(scratch);
        Ok(count)
    }

    /// Reserves room for one read. The capacity starts small, because most commands print little, and doubles up to the
    /// limit. For large blocks, this moves pages and not bytes (mremap).
    fn reserve(&mut self, most: usize) {
        let spare = self.head.capacity() - self.head.len();
        let wanted = self.head.len().clamp(SMALLEST_READ, LARGEST_READ).min(most);
        if spare < wanted {
            let grown = (self.head.len() * 2).clamp(wanted, self.limit).max(self.head.len() + wanted);
            self.head.reserve_exact(grown - self.head.len());
        }
    }

    /// Bytes so far, kept or not.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The newest bytes, at most `most`, as far as they are kept without a gap.
    pub fn newest(&self, most: usize) -> Vec<u8> {
        let Some(ring) = self.tail.as_ref().filter(|ring| ring.len() > 0) else {
            return self.head[self.head.len() - most.min(self.head.len())..].to_vec();
        };
        let (older, newer) = ring.slices();
        let skip = ring.len() - most.min(ring.len());
        older.iter().chain(newer).skip(skip).copied().collect()
    }

    /// The kept parts of the stream, as ranges of its offsets.
    pub fn kept(&self) -> [Range<u64>; 2] {
        let tail = self.tail.as_ref().map_or(0, |ring| ring.len() as u64);
        [0..self.head.len() as u64, self.total - tail..self.total]
    }

    /// Some of the kept bytes, from this position among them on; empty after the last. They do not cross the gap.
    pub fn kept_from(&self, at: usize) -> &[u8] {
        let (older, newer) = self.tail.as_ref().map_or((&[][..], &[][..]), ByteRing::slices);
        let mut at = at;
        for part in [&self.head[..], older, newer] {
            if at < part.len() {
                return &part[at..];
            }
            at -= part.len();
        }
        &[]
    }

    /// The position of the gap among the kept bytes, and the number of dropped bytes in it.
    pub fn gap(&self) -> (usize, u64) {
        let tail = self.tail.as_ref().map_or(0, ByteRing::len);
        (self.head.len(), self.total - (self.head.len() + tail) as u64)
    }

    /// Returns the kept bytes and the number of dropped bytes.
    pub fn finish(mut self) -> (Vec<u8>, u64) {
        if let Some(ring) = &self.tail {
            let (older, newer) = ring.slices();
            self.head.reserve_exact(ring.len());
            self.head.extend_from_slice(older);
            self.head.extend_from_slice(newer);
        }
        let dropped = self.total - self.head.len() as u64;
        self.head.shrink_to_fit();
        (self.head, dropped)
    }

    /// The ring. On first use, it takes the second half of the kept bytes.
    fn ring(&mut self) -> &mut ByteRing {
        let half = self.limit / 2;
        let head = &mut self.head;
        let capacity = self.limit - half;
        self.tail.get_or_insert_with(|| {
            let bytes = head.split_off(half.min(head.len()));
            ByteRing { bytes, start: 0, capacity }
        })
    }
}

#[derive(Debug)]
struct ByteRing {
    bytes: Vec<u8>,
    start: usize,
    capacity: usize,
}

impl ByteRing {
    fn len(&self) -> usize {
        self.bytes.len()
    }

    fn push(&mut self, bytes: &[u8]) {
        let mut rest = &bytes[bytes.len().saturating_sub(self.capacity)..];
        let fits = rest.len().min(self.capacity - self.bytes.len());
        self.bytes.extend_from_slice(&rest[..fits]);
        rest = &rest[fits..];
        while !rest.is_empty() {
            let run = rest.len().min(self.capacity - self.start);
            self.bytes[self.start..self.start + run].copy_from_slice(&rest[..run]);
            self.start = (self.start + run) % self.capacity;
            rest = &rest[run..];
        }
    }

    fn slices(&self) -> (&[u8], &[u8]) {
        (&self.bytes[self.start..], &self.bytes[..self.start])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A slow model of the same rule.
    fn expected(stream: &[u8], limit: usize) -> (Vec<u8>, u64) {
        if stream.len() <= limit {
            return (stream.to_vec(), 0);
        }
        let half = limit / 2;
        let kept = [&stream[..half], &stream[stream.len() - (limit - half)..]].concat();
        (kept, (stream.len() - limit) as u64)
    }

    #[test]
    fn keeps_both_ends_whatever_pieces_arrive() {
        let stream: Vec<u8> = (0..=255).cycle().take(1000).collect();
        for limit in [0, 1, 2, 7, 100, 999, 1000, 1001] {
            for piece in [1, 3, 64, 1000] {
                let mut buffer = HeadTail::new(limit);
                stream.chunks(piece).for_each(|bytes| buffer.push(bytes));
                assert_eq!(buffer.total, 1000);
                let [head, tail] = buffer.kept();
                let ranges =
                    [&stream[head.start as usize..head.end as usize], &stream[tail.start as usize..tail.end as usize]]
                        .concat();
                let (kept, dropped) = buffer.finish();
                assert_eq!(
                    (&kept, dropped),
                    (&expected(&stream, limit).0, expected(&stream, limit).1),
                    "limit {limit} piece {piece}"
                );
                assert_eq!(ranges, kept);
            }
        }
    }

    #[test]
    fn reads_a_file_in_place() {
        let bytes: Vec<u8> = (0..=255).cycle().take(1 << 20).collect();
        let mut file = tempfile::tempfile().unwrap();
        io::Write::write_all(&mut file, &bytes).unwrap();
        for limit in [1 << 21, 1 << 20, 1 << 19, 10] {
            io::Seek::seek(&mut file, io::SeekFrom::Start(0)).unwrap();
            let (mut buffer, mut scratch) = (HeadTail::new(limit), Vec::new());
            while buffer.read_from(&file, usize::MAX, &mut scratch).unwrap() > 0 {}
            assert_eq!(buffer.finish(), expected(&bytes, limit));
        }
    }
}
