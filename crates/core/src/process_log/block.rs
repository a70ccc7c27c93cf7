//! A block: a run of log bytes with the marks of its pieces. It is the unit of memory and of the file.
//!
//! A mark costs 8 bytes, so output is joined to the previous output of the same stream if that is recent. The size of
//! the block limits bytes and marks together.

use super::Piece;
use super::lines::Lines;
use crate::exec::OutputStream;

/// Size of a header: `start`, the number of marks and the number of bytes.
pub const HEADER_BYTES: usize = 16;
const MARK_BYTES: usize = 8;

/// Output of one stream within this time is one piece. Its time is that of its first byte.
const JOINED_MS: u64 = 10;

/// Unused capacity of a full block that is not worth a copy.
const LITTLE_ROOM: usize = 1024;

/// Capacity for the first bytes of a block.
const SMALLEST_ROOM: usize = 256;

/// The beginning of a piece: 46 bits of milliseconds since the epoch, 1 bit for the stream, 17 for the offset in the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark(u64);

impl Mark {
    fn new(offset: usize, stream: OutputStream, time_ms: u64) -> Self {
        Self(time_ms << 18 | u64::from(stream == OutputStream::Stderr) << 17 | offset as u64)
    }

    fn offset(self) -> usize {
        (self.0 & 0x1_ffff) as usize
    }

    fn stream(self) -> OutputStream {
        if self.0 >> 17 & 1 == 1 { OutputStream::Stderr } else { OutputStream::Stdout }
    }

    fn time_ms(self) -> u64 {
        self.0 >> 18
    }
}

/// Contiguous bytes from `start` on. The first mark is at offset 0, unless the block is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    start: u64,
    /// At its start. Not in the file.
    lines: Lines,
    bytes: Vec<u8>,
    marks: Vec<Mark>,
}

impl Block {
    /// Creates an empty block. Allocates nothing.
    pub fn new(start: u64, lines: Lines) -> Self {
        Self { start, lines, bytes: Vec::new(), marks: Vec::new() }
    }

    /// The lines of the log at its start. Unknown to a block that was read from the file.
    pub fn lines(&self) -> Lines {
        self.lines
    }

    /// Offset of the first byte in the whole log.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Offset after the last byte.
    pub fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// Appends as many bytes as fit into a block of `size` bytes, including header and marks. Returns their number.
    pub fn push(&mut self, size: usize, stream: OutputStream, bytes: &[u8], time_ms: u64) -> usize {
        let joins = self
            .marks
            .last()
            .is_some_and(|mark| mark.stream() == stream && mark.time_ms().abs_diff(time_ms) <= JOINED_MS);
        let used = self.encoded_len() + if joins { 0 } else { MARK_BYTES };
        let count = bytes.len().min(size.saturating_sub(used));
        if count > 0 {
            if !joins {
                self.marks.push(Mark::new(self.bytes.len(), stream, time_ms));
            }
            self.make_room(count, size);
            self.bytes.extend_from_slice(&bytes[..count]);
        }
        count
    }

    /// Doubles the capacity, up to the size of a block.
    fn make_room(&mut self, count: usize, size: usize) {
        let length = self.bytes.len();
        if self.bytes.capacity() - length < count {
            let doubled = (2 * self.bytes.capacity()).clamp(SMALLEST_ROOM.min(size), size);
            self.bytes.reserve_exact(doubled.max(length + count) - length);
        }
    }

    /// Releases capacity that will not be needed, unless it is little.
    pub fn seal(&mut self) {
        self.marks.shrink_to_fit();
        if self.bytes.capacity() - self.bytes.len() > LITTLE_ROOM {
            self.bytes.shrink_to_fit();
        }
    }

    /// Begins an empty block in the memory of this one.
    pub fn reuse(mut self, start: u64, lines: Lines) -> Self {
        self.bytes.clear();
        self.marks.clear();
        self.start = start;
        self.lines = lines;
        self
    }

    /// Its pieces in order, each with the offset of its first byte in the whole log.
    pub fn pieces(&self) -> impl Iterator<Item = (OutputStream, u64, &[u8])> {
        self.marks.iter().enumerate().map(|(index, mark)| {
            let end = self.marks.get(index + 1).map_or(self.bytes.len(), |next| next.offset());
            (mark.stream(), self.start + mark.offset() as u64, &self.bytes[mark.offset()..end])
        })
    }

    /// Copies at most `most` bytes from offset `from`, which lies in this block, as at most `pieces` pieces. Returns
    /// the number of bytes.
    pub fn copy(&self, from: u64, most: usize, pieces: usize, into: &mut Vec<Piece>) -> usize {
        let begin = (from - self.start) as usize;
        let until = self.bytes.len().min(begin.saturating_add(most));
        let first = self.marks.partition_point(|mark| mark.offset() <= begin) - 1;
        let mut at = begin;
        for (index, mark) in self.marks.iter().enumerate().skip(first).take(pieces) {
            if at >= until {
                break;
            }
            let end = self.marks.get(index + 1).map_or(until, |next| next.offset().min(until));
            into.push(Piece {
                stream: mark.stream(),
                cursor: self.start + at as u64,
                bytes: self.bytes[at..end].to_vec(),
                time_ms: mark.time_ms(),
            });
            at = end;
        }
        at - begin
    }

    fn encoded_len(&self) -> usize {
        HEADER_BYTES + self.marks.len() * MARK_BYTES + self.bytes.len()
    }

    /// Encodes the header and the marks, which precede the bytes in the file.
    pub fn encode_head(&self) -> Vec<u8> {
        let mut head = Vec::with_capacity(self.encoded_len() - self.bytes.len());
        head.extend_from_slice(&self.start.to_le_bytes());
        head.extend_from_slice(&(self.marks.len() as u32).to_le_bytes());
        head.extend_from_slice(&(self.bytes.len() as u32).to_le_bytes());
        for mark in &self.marks {
            head.extend_from_slice(&mark.0.to_le_bytes());
        }
        head
    }

    /// The bytes themselves.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Bytes of memory in use.
    #[cfg(test)]
    pub fn memory(&self) -> usize {
        size_of::<Self>() + self.bytes.capacity() + self.marks.capacity() * MARK_BYTES
    }
}

/// The beginning of an encoded block.
#[derive(Clone, Copy, Debug)]
pub struct Header {
    start: u64,
    marks: u32,
    bytes: u32,
}

impl Header {
    /// Decodes the header that [`Block::encode_head`] writes.
    pub fn decode(head: [u8; HEADER_BYTES]) -> Self {
        let all = u128::from_le_bytes(head);
        Self { start: all as u64, marks: (all >> 64) as u32, bytes: (all >> 96) as u32 }
    }

    /// Length of the marks and bytes that follow.
    pub fn body_len(&self) -> usize {
        self.marks as usize * MARK_BYTES + self.bytes as usize
    }

    /// Decodes the block of this header from the marks and bytes that follow it.
    pub fn block(&self, mut body: Vec<u8>) -> Block {
        let bytes = body.split_off(self.marks as usize * MARK_BYTES);
        let marks = body.chunks_exact(MARK_BYTES).map(|mark| Mark(mark.iter().rev().fold(0, join))).collect();
        Block { start: self.start, lines: Lines::default(), bytes, marks }
    }
}

fn join(number: u64, byte: &u8) -> u64 {
    number << 8 | u64::from(*byte)
}

#[cfg(test)]
mod tests {
    use super::*;
    use OutputStream::{Stderr, Stdout};

    const SIZE: usize = 1024;

    fn sample() -> Block {
        let mut block = Block::new(100, Lines::default());
        for (stream, bytes, time_ms) in [(Stdout, "ab", 5), (Stdout, "cd", 15), (Stdout, "ef", 16), (Stderr, "gh", 16)]
        {
            assert_eq!(block.push(SIZE, stream, bytes.as_bytes(), time_ms), 2);
        }
        block
    }

    fn copied(block: &Block, from: u64, most: usize, pieces: usize) -> Vec<(OutputStream, u64, String, u64)> {
        let mut copy = Vec::new();
        let count = block.copy(from, most, pieces, &mut copy);
        assert_eq!(count, copy.iter().map(|piece| piece.bytes.len()).sum::<usize>());
        copy.into_iter()
            .map(|piece| (piece.stream, piece.cursor, String::from_utf8(piece.bytes).unwrap(), piece.time_ms))
            .collect()
    }

    #[test]
    fn joins_what_comes_at_one_time_on_one_stream() {
        let all = [(Stdout, 100, "abcd".into(), 5), (Stdout, 104, "ef".into(), 16), (Stderr, 106, "gh".into(), 16)];
        assert_eq!(copied(&sample(), 100, usize::MAX, 9), all);
    }

    #[test]
    fn copies_from_the_middle_of_a_piece_and_no_more_than_asked() {
        assert_eq!(copied(&sample(), 103, 2, 9), [(Stdout, 103, "d".into(), 5), (Stdout, 104, "e".into(), 16)]);
        assert_eq!(copied(&sample(), 103, 5, 2), [(Stdout, 103, "d".into(), 5), (Stdout, 104, "ef".into(), 16)]);
        assert_eq!(copied(&sample(), 107, 5, 9), [(Stderr, 107, "h".into(), 16)]);
    }

    #[test]
    fn takes_what_fits_with_its_mark() {
        let mut block = Block::new(0, Lines::default());
        let size = HEADER_BYTES + 2 * MARK_BYTES + 5;
        assert_eq!(block.push(size, Stdout, b"abc", 1), 3);
        assert_eq!(block.push(size, Stderr, b"abc", 1), 2);
        assert_eq!(block.push(size, Stderr, b"abc", 1), 0);
        assert_eq!(block.push(size, Stdout, b"abc", 1), 0);
        assert_eq!(block.encode_head().len() + block.bytes().len(), size);
    }

    #[test]
    fn comes_back_from_its_encoding() {
        let mut block = sample();
        block.push(SIZE, Stderr, b"late", (1 << 46) - 1);
        let head = block.encode_head();
        let header = Header::decode(head[..HEADER_BYTES].try_into().unwrap());
        assert_eq!((header.start, header.start + u64::from(header.bytes)), (100, 112));
        let body = [&head[HEADER_BYTES..], block.bytes()].concat();
        assert_eq!(body.len(), header.body_len());
        assert_eq!(header.block(body), block);
    }
}
