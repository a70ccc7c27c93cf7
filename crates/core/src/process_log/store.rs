//! The kept part of a log: the newest blocks in memory, older blocks in a file. The oldest blocks are dropped.
//!
//! Offsets count from the start of the whole log. Bytes below `first` were dropped because of the limit. A gap
//! between two blocks is a block that could not be written when it had to leave memory. Readers detect gaps; no list
//! is kept.
//!
//! Nothing here waits for the file: [`BlockBatch::write`] and [`Fetch::run`] do, and their callers hold no lock.

use super::block::Block;
use super::lines::Lines;
use super::spill::{Slot, Spill};
use super::unnamed::StateDirectory;
use super::{LogSlice, Piece};
use crate::exec::OutputStream;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

/// Sizes of the parts.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Bytes of a block, including its marks.
    pub block_size: usize,
    /// Full blocks that stay in memory, in addition to the block being filled.
    pub memory_blocks: usize,
}

/// The block being filled takes 64 KiB and at worst as much again for marks. With 4 full blocks and 8 that wait to be
/// written, that is less than 1 MiB.
pub const SHAPE: Shape = Shape { block_size: 64 * 1024, memory_blocks: 4 };

/// Full blocks beyond [`Shape::memory_blocks`] that are written together: waking another thread takes as long as writing
/// a block.
const LEAST_WRITTEN: usize = 4;

/// The number of such blocks after which no output is taken until they are written.
const MOST_UNWRITTEN: usize = 8;

/// Maximum blocks of one [`Fetch`].
const MOST_FETCHED: usize = 16;

/// Maximum pieces of one slice: each is an object for its reader.
const MOST_PIECES: usize = 1024;
const _: () = assert!(MOST_PIECES * size_of::<Piece>() <= 64 * 1024);

/// The log behind a [`super::ProcessLog`].
#[derive(Debug)]
pub struct BlockStore {
    shape: Shape,
    limit: u64,
    first: u64,
    end: u64,
    /// At the end.
    lines: Lines,
    /// When the last output arrived.
    last_ms: Option<u64>,
    /// The next byte does not follow the last block.
    has_gap: bool,
    /// In the file.
    older: VecDeque<Written>,
    /// In memory. Only the last is not full.
    recent: VecDeque<Arc<Block>>,
    /// A [`BlockBatch`] is being written.
    is_writing: bool,
    /// Memory of blocks that have been written, for the next ones: the allocator would return it to the system.
    spare: Vec<Block>,
    spill: Spill,
}

/// A block in the file.
#[derive(Clone, Debug)]
struct Written {
    start: u64,
    end: u64,
    lines: Lines,
    slot: Arc<Slot>,
}

/// A block, for a reader of lines.
pub struct Part {
    /// At its start.
    pub lines: Lines,
    /// Its bytes before this offset have been dropped.
    pub first: u64,
    block: Stored,
}

enum Stored {
    Memory(Arc<Block>),
    File(Written),
}

impl Part {
    /// The block. May block.
    pub fn read(self) -> io::Result<Arc<Block>> {
        match self.block {
            Stored::Memory(block) => Ok(block),
            Stored::File(written) => written.slot.read().map(Arc::new),
        }
    }

    /// Offset of its first byte.
    pub fn start(&self) -> u64 {
        match &self.block {
            Stored::Memory(block) => block.start(),
            Stored::File(written) => written.start,
        }
    }

    /// Offset after its last byte.
    pub fn end(&self) -> u64 {
        match &self.block {
            Stored::Memory(block) => block.end(),
            Stored::File(written) => written.end,
        }
    }
}

/// Blocks that must leave memory, with their slots. A block without a slot could not be written.
pub struct BlockBatch(Vec<(Arc<Block>, Option<Slot>)>);

/// The next part of a read.
pub enum NextPart {
    /// The read is complete.
    Done(LogSlice),
    /// It continues in the file.
    File(Fetch),
}

/// A part of a read that needs the file.
pub struct Fetch {
    reading: SliceReading,
    blocks: Vec<Written>,
}

impl BlockStore {
    /// Creates an empty log that keeps the last `limit` bytes. Allocates nothing.
    pub fn new(directory: &Arc<StateDirectory>, limit: u64, shape: Shape) -> Self {
        let spill = Spill::new(directory, shape.block_size, slots(limit, shape.block_size));
        let (older, recent, spare) = (VecDeque::new(), VecDeque::new(), Vec::new());
        Self {
            shape,
            limit,
            first: 0,
            end: 0,
            lines: Lines::default(),
            last_ms: None,
            has_gap: false,
            older,
            recent,
            is_writing: false,
            spare,
            spill,
        }
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
        self.last_ms = Some(time_ms);
        while !bytes.is_empty() {
            let size = self.shape.block_size;
            let last = self.recent.back_mut().filter(|_| !self.has_gap).and_then(Arc::get_mut);
            let count = last.map_or(0, |block| block.push(size, stream, bytes, time_ms));
            if count == 0 {
                self.open_block();
            }
            self.lines.add(stream, self.end, &bytes[..count]);
            bytes = &bytes[count..];
            self.end += count as u64;
        }
        self.first = self.first.max(self.end.saturating_sub(self.limit));
        self.drop_old();
    }

    /// Maximum bytes kept.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Goes on at this offset. What is before it was dropped, or lost if something is kept already.
    pub fn go_on_at(&mut self, cursor: u64) {
        if self.end == 0 {
            (self.first, self.end) = (cursor, cursor);
        } else {
            self.skip(cursor.saturating_sub(self.end));
        }
    }

    /// Counts bytes that are lost.
    pub fn skip(&mut self, count: u64) {
        self.end += count;
        self.has_gap |= count > 0;
        self.first = self.first.max(self.end.saturating_sub(self.limit));
        self.drop_old();
    }

    fn open_block(&mut self) {
        self.has_gap = false;
        if let Some(full) = self.recent.back_mut().and_then(Arc::get_mut) {
            full.seal();
        }
        let (end, lines) = (self.end, self.lines);
        let block = self.spare.pop().map_or_else(|| Block::new(end, lines), |block| block.reuse(end, lines));
        self.recent.push_back(Arc::new(block));
    }

    fn drop_old(&mut self) {
        while self.older.front().is_some_and(|block| block.end <= self.first) {
            self.older.pop_front();
        }
        while self.recent.front().is_some_and(|block| block.end() <= self.first) {
            self.recent.pop_front();
        }
    }

    /// True if no output should be taken until blocks have been written.
    pub fn is_full(&self) -> bool {
        self.recent.len() > self.shape.memory_blocks + 1 + MOST_UNWRITTEN
    }

    /// The blocks that must leave memory; `None` if there are none, or a batch is being written. They can be read from
    /// memory until [`BlockStore::written`].
    pub fn next_batch(&mut self) -> Option<BlockBatch> {
        let count = self.recent.len().saturating_sub(self.shape.memory_blocks + 1);
        if count < LEAST_WRITTEN || self.is_writing {
            return None;
        }
        self.is_writing = true;
        let leaving: Vec<Arc<Block>> = self.recent.iter().take(count).cloned().collect();
        let mut blocks: Vec<(Arc<Block>, Option<Slot>)> = Vec::with_capacity(count);
        // The newest first: where slots are missing, the oldest blocks are dropped.
        for block in leaving.into_iter().rev() {
            match self.take_slot() {
                Some(slot) => blocks.push((block, Some(slot))),
                None => {
                    self.first = self.first.max(block.end());
                    break;
                }
            }
        }
        self.drop_old();
        blocks.reverse();
        Some(BlockBatch(blocks))
    }

    /// A free slot. If there is none, the oldest block in the file gives its own; slots of readers are not free.
    fn take_slot(&mut self) -> Option<Slot> {
        loop {
            if let Some(slot) = self.spill.take_slot() {
                return Some(slot);
            }
            self.first = self.first.max(self.older.pop_front()?.end);
        }
    }

    /// Moves blocks out of memory once they have been written. A block that could not be written is lost, and the log
    /// continues after the gap.
    pub fn written(&mut self, BlockBatch(blocks): BlockBatch) {
        self.is_writing = false;
        for (block, slot) in blocks {
            // The limit may have dropped it meanwhile.
            if !self.recent.front().is_some_and(|front| Arc::ptr_eq(front, &block)) {
                continue;
            }
            self.recent.pop_front();
            if let Some(slot) = slot {
                let (start, end, lines) = (block.start(), block.end(), block.lines());
                self.older.push_back(Written { start, end, lines, slot: Arc::new(slot) });
            }
            if self.recent.len() + self.spare.len() <= self.shape.memory_blocks + MOST_UNWRITTEN {
                self.spare.extend(Arc::try_unwrap(block));
            }
        }
        self.drop_old();
    }

    /// Begins to read at most `most` bytes, but at least one if available, starting at `cursor`.
    pub fn begin(&self, cursor: u64, most: usize) -> SliceReading {
        if cursor >= self.end {
            return SliceReading { slice: LogSlice { next: self.end, ..LogSlice::default() }, left: 0 };
        }
        let begin = cursor.max(self.first);
        let slice = LogSlice { next: begin, dropped: begin - cursor, ..LogSlice::default() };
        SliceReading { slice, left: most.max(1) }
    }

    /// Continues a read.
    pub fn advance(&self, mut reading: SliceReading) -> NextPart {
        let at = reading.slice.next;
        // A read that went to the file may find that what follows has been dropped; the next read counts that.
        if reading.is_full() || at >= self.end || (at < self.first && reading.has_bytes()) {
            return NextPart::Done(reading.slice);
        }
        if self.recent.front().is_none_or(|block| at < block.start()) {
            let index = self.older.partition_point(|block| block.end <= at);
            let mut wanted = 0;
            let is_wanted = |block: &&Written| {
                let is_wanted = wanted < reading.left as u64;
                wanted += block.end - block.start.max(at);
                is_wanted
            };
            let blocks: Vec<Written> =
                self.older.range(index..).take(MOST_FETCHED).take_while(is_wanted).cloned().collect();
            if !blocks.is_empty() {
                return NextPart::File(Fetch { reading, blocks });
            }
        }
        let first = self.recent.partition_point(|block| block.end() <= at);
        for block in self.recent.range(first..) {
            reading.take(block);
            if reading.is_full() {
                return NextPart::Done(reading.slice);
            }
        }
        // The read has reached the end. With a limit of 0 nothing is kept.
        reading.skip(self.end);
        NextPart::Done(reading.slice)
    }

    /// When the last output arrived.
    pub fn last_ms(&self) -> Option<u64> {
        self.last_ms
    }

    /// The lines at the end.
    pub fn lines(&self) -> Lines {
        self.lines
    }

    /// The first kept block with a byte at or after this offset.
    pub fn part(&self, cursor: u64) -> Option<Part> {
        let first = self.first;
        let cursor = cursor.max(first);
        let index = self.older.partition_point(|block| block.end <= cursor);
        if let Some(written) = self.older.get(index) {
            return Some(Part { lines: written.lines, first, block: Stored::File(written.clone()) });
        }
        let index = self.recent.partition_point(|block| block.end() <= cursor);
        let block = self.recent.get(index)?;
        // The last block is copied: more output goes into it.
        let is_last = index + 1 == self.recent.len();
        let copy = if is_last { Arc::new(Block::clone(block)) } else { Arc::clone(block) };
        Some(Part { lines: copy.lines(), first, block: Stored::Memory(copy) })
    }

    /// An offset at or before the beginning of this line, from which on all lines can be told: where a block begins, if
    /// the line is not complete before it, and no line that is open there has begun earlier.
    pub fn offset_before(&self, line: u64) -> u64 {
        let is_before = |lines: Lines| lines.complete < line;
        let older = self.older.partition_point(|block| is_before(block.lines));
        let recent = self.recent.partition_point(|block| is_before(block.lines()));
        let last = match (older.checked_sub(1), recent.checked_sub(1)) {
            (_, Some(index)) => self.recent.get(index).map(|block| (block.start(), block.lines())),
            (Some(index), None) => self.older.get(index).map(|block| (block.start, block.lines)),
            (None, None) => None,
        };
        last.map_or(0, |(start, lines)| lines.open.into_iter().flatten().fold(start, u64::min))
    }

    /// Bytes of memory in use, without the allocator's overhead.
    #[cfg(test)]
    pub fn memory(&self) -> usize {
        let recent = self.recent.iter().map(|block| block.memory()).sum::<usize>()
            + self.spare.iter().map(Block::memory).sum::<usize>();
        recent + self.older.capacity() * (size_of::<Written>() + size_of::<Slot>()) + size_of::<Self>()
    }

    /// Pieces in memory.
    #[cfg(test)]
    pub fn pieces(&self) -> usize {
        self.recent.iter().map(|block| block.pieces().count()).sum()
    }
}

impl BlockBatch {
    /// Writes the blocks. Keeps those that were written. May block.
    pub fn write(self) -> Self {
        let write = |(block, slot): (Arc<Block>, Option<Slot>)| {
            let slot = slot.filter(|slot| slot.write(&block).is_ok());
            (block, slot)
        };
        Self(self.0.into_iter().map(write).collect())
    }
}

impl Fetch {
    /// Reads the blocks. Bytes that cannot be read are lost. May block.
    pub fn run(self) -> SliceReading {
        let mut reading = self.reading;
        for block in self.blocks {
            match block.slot.read() {
                Ok(block) => reading.take(&block),
                Err(_) => reading.skip(block.end),
            }
            if reading.is_full() {
                break;
            }
        }
        reading
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
pub struct SliceReading {
    slice: LogSlice,
    left: usize,
}

impl SliceReading {
    /// Adds the bytes of this block starting at `next`. Missing bytes before the block were lost.
    fn take(&mut self, block: &Block) {
        self.skip(block.start());
        let slice = &mut self.slice;
        let count = block.copy(slice.next, self.left, MOST_PIECES - slice.pieces.len(), &mut slice.pieces);
        slice.next += count as u64;
        self.left -= count;
    }

    /// Counts everything before this offset as lost.
    fn skip(&mut self, to: u64) {
        self.slice.lost += to.saturating_sub(self.slice.next);
        self.slice.next = self.slice.next.max(to);
    }

    fn has_bytes(&self) -> bool {
        !self.slice.pieces.is_empty()
    }

    fn is_full(&self) -> bool {
        self.left == 0 || self.slice.pieces.len() == MOST_PIECES
    }
}
