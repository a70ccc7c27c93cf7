//! The kept part of a log: the newest blocks in memory, older blocks in a file. The oldest blocks are dropped.
//!
//! Offsets count from the start of the whole log. Bytes below `first` were dropped because of the limit. A gap
//! between two blocks is a block that could not be written when it had to leave memory. Readers detect gaps; no list
//! is kept.

use super::block::Block;
use super::spill::Spill;
use super::{LogSlice, Piece};
use crate::exec::OutputStream;
use std::collections::VecDeque;
use std::path::Path;

/// Sizes of the parts.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Bytes of a block, including its marks.
    pub block_size: usize,
    /// Full blocks in memory, in addition to the block being filled.
    pub memory_blocks: usize,
}

/// The block being filled takes 64 KiB and at worst as much again for marks, and so does a block that is being written.
/// With 12 full blocks, that is less than 1 MiB.
pub const SHAPE: Shape = Shape { block_size: 64 * 1024, memory_blocks: 12 };

/// Maximum pieces of one slice: each is an object for its reader.
const MOST_PIECES: usize = 1024;
const _: () = assert!(MOST_PIECES * size_of::<Piece>() <= 64 * 1024);

/// The log behind a [`super::ProcessLog`].
#[derive(Debug)]
pub struct Store {
    shape: Shape,
    limit: u64,
    first: u64,
    end: u64,
    recent: VecDeque<Block>,
    spill: Spill,
}

impl Store {
    /// Creates an empty log that keeps the last `limit` bytes. Allocates nothing.
    pub fn new(directory: &Path, limit: u64, shape: Shape) -> Self {
        let spill = Spill::new(directory, shape.block_size, slots(limit, shape.block_size));
        Self { shape, limit, first: 0, end: 0, recent: VecDeque::new(), spill }
    }

    /// Offset after the last byte.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// The number of bytes kept, in memory and in the file.
    pub fn kept(&self) -> u64 {
        self.end - self.first
    }

    /// Appends bytes that arrived at `time_ms`.
    pub fn push(&mut self, stream: OutputStream, mut bytes: &[u8], time_ms: u64) {
        while !bytes.is_empty() {
            let size = self.shape.block_size;
            let count = self.recent.back_mut().map_or(0, |block| block.push(size, stream, bytes, time_ms));
            if count == 0 {
                self.open_block();
            }
            bytes = &bytes[count..];
            self.end += count as u64;
            self.first = self.first.max(self.end.saturating_sub(self.limit));
        }
        while self.recent.front().is_some_and(|block| block.end() <= self.first) {
            self.recent.pop_front();
        }
    }

    fn open_block(&mut self) {
        if let Some(full) = self.recent.back_mut() {
            full.seal();
        }
        if self.recent.len() > self.shape.memory_blocks
            && let Some(oldest) = self.recent.pop_front()
        {
            self.move_to_file(&oldest);
        }
        self.recent.push_back(Block::new(self.end));
    }

    fn move_to_file(&mut self, block: &Block) {
        if let Some(forgotten) = self.spill.make_room(self.first) {
            self.first = forgotten;
        }
        if block.end() > self.first {
            // If this fails, the block is lost, and the log continues after the gap.
            let _ = self.spill.append(block);
        }
    }

    /// Reads at most `most` bytes, but at least one if available, starting at `cursor`.
    pub fn read(&self, cursor: u64, most: usize) -> LogSlice {
        if cursor >= self.end {
            return LogSlice { next: self.end, ..LogSlice::default() };
        }
        let begin = cursor.max(self.first);
        let slice = LogSlice { next: begin, dropped: begin - cursor, ..LogSlice::default() };
        let mut reading = Reading { slice, left: most.max(1) };
        if self.recent.front().is_none_or(|block| begin < block.start()) {
            for block in self.spill.blocks(begin) {
                reading.take(&block);
                if reading.is_full() {
                    return reading.slice;
                }
            }
        }
        let at = reading.slice.next;
        let first = self.recent.partition_point(|block| block.end() <= at);
        for block in self.recent.range(first..) {
            reading.take(block);
            if reading.is_full() {
                return reading.slice;
            }
        }
        // The read has reached the end. With a limit of 0 nothing is kept.
        reading.slice.next = self.end;
        reading.slice
    }

    /// Bytes of memory in use, without the allocator's overhead.
    #[cfg(test)]
    pub fn memory(&self) -> usize {
        self.recent.iter().map(Block::memory).sum::<usize>() + size_of::<Self>()
    }

    /// Pieces in memory.
    #[cfg(test)]
    pub fn pieces(&self) -> usize {
        self.recent.iter().map(Block::pieces).sum()
    }
}

/// The number of blocks that hold `limit` bytes, plus a quarter for marks.
///
/// That is enough unless pieces have less than 32 bytes each. In that case, less than the limit is kept, so that disk
/// usage stays bounded.
fn slots(limit: u64, block_size: usize) -> u64 {
    let bytes = limit.saturating_add(limit / 4);
    bytes / block_size as u64 + 2
}

/// A slice under construction.
struct Reading {
    slice: LogSlice,
    left: usize,
}

impl Reading {
    /// Adds the bytes of this block starting at `next`. Missing bytes before the block were lost.
    fn take(&mut self, block: &Block) {
        let slice = &mut self.slice;
        if block.start() > slice.next {
            slice.lost += block.start() - slice.next;
            slice.next = block.start();
        }
        let count = block.copy(slice.next, self.left, MOST_PIECES - slice.pieces.len(), &mut slice.pieces);
        slice.next += count as u64;
        self.left -= count;
    }

    fn is_full(&self) -> bool {
        self.left == 0 || self.slice.pieces.len() == MOST_PIECES
    }
}
