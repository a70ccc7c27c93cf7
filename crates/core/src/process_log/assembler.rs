//! The lines of a log, from its blocks. See [`Lines`] for their numbers.

use super::block::Block;
use super::lines::{Lines, index, newlines};
use super::store::Part;
use crate::exec::OutputStream;
use memchr::memchr;

/// Maximum bytes of a line that count at once: an expression may take long to test them.
pub const LONGEST_LINE: usize = 64 * 1024;
/// Bytes of a part that the next part repeats, for a match across the cut.
const OVERLAP: usize = 8 * 1024;

/// A line of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// Its number, from 1.
    pub number: u64,
    /// Its stream.
    pub stream: OutputStream,
    /// Without its line ending.
    pub bytes: &'a [u8],
    /// Bytes are missing: they were dropped or lost, or the line is too long.
    pub is_cut: bool,
    /// It has no newline yet.
    pub is_open: bool,
    /// More of the same line follows, which is too long.
    pub is_part: bool,
}

/// Makes lines from the blocks of a log, which must be given in order.
#[derive(Clone)]
pub struct Assembler {
    /// The offset after the last block.
    at: Option<u64>,
    complete: u64,
    open: [OpenLine; 2],
    /// Lines that are too long are given in parts; otherwise their beginning alone.
    gives_parts: bool,
}

/// The line of a stream that is not complete.
#[derive(Clone, Default)]
struct OpenLine {
    bytes: Vec<u8>,
    /// It has a byte, kept or not.
    has_begun: bool,
    is_cut: bool,
}

impl Assembler {
    /// Begins with the block that is given first.
    pub fn new(gives_parts: bool) -> Self {
        Self { at: None, complete: 0, open: Default::default(), gives_parts }
    }

    /// Begins at this offset, as if a line began there. The numbers of the lines have no meaning.
    pub fn at(offset: u64, gives_parts: bool) -> Self {
        Self { at: Some(offset), ..Self::new(gives_parts) }
    }

    /// Hands the lines that end in what is new of this part, before offset `end` to `take`, until it returns false. Returns whether it
    /// never did. May block.
    pub fn add(&mut self, part: Part, end: u64, mut take: impl FnMut(Line<'_>) -> bool) -> bool {
        let (first, lines, start, until) = (part.first, part.lines, part.start(), part.end().min(end));
        // A block that cannot be read is a gap.
        let Ok(block) = part.read() else { return true };
        self.begin(start, &lines);
        let from = self.at.unwrap_or(start).max(start);
        for (stream, cursor, bytes) in block.pieces() {
            let within = |offset: u64| bytes.len().min(offset.saturating_sub(cursor) as usize);
            let until = within(until);
            let known = within(from).min(until);
            let (dropped, kept) = bytes[known..until].split_at(within(first).clamp(known, until) - known);
            self.drop_bytes(stream, dropped);
            if !self.split(stream, kept, &mut take) {
                return false;
            }
        }
        self.at = Some(until);
        true
    }

    /// Hands the lines that have no newline at the end of the log, at offset `end`, to `take`, in the order in which they
    /// began.
    pub fn finish(&mut self, end: u64, lines: &Lines, mut take: impl FnMut(Line<'_>) -> bool) {
        self.begin(end, lines);
        let mut order = [OutputStream::Stdout, OutputStream::Stderr];
        order.sort_by_key(|stream| lines.open[index(*stream)]);
        let open = order.into_iter().filter(|stream| lines.open[index(*stream)].is_some());
        for (number, stream) in (lines.complete + 1..).zip(open) {
            let OpenLine { bytes, is_cut, .. } = &self.open[index(stream)];
            if !take(Line { number, stream, bytes, is_cut: *is_cut, is_open: true, is_part: false }) {
                return;
            }
        }
    }

    /// Goes on in a block that begins at offset `start`. If that is after the last known byte, bytes are missing.
    fn begin(&mut self, start: u64, lines: &Lines) {
        if self.at.is_some_and(|at| at >= start) {
            return;
        }
        let before = self.at.unwrap_or(start);
        self.complete = lines.complete;
        for (open, begun) in self.open.iter_mut().zip(lines.open) {
            if !begun.is_some_and(|begun| begun < before && open.has_begun) {
                open.bytes.clear();
            }
            open.has_begun = begun.is_some();
            open.is_cut = begun.is_some();
        }
    }

    /// Bytes that no longer count, except for the numbers of the lines.
    fn drop_bytes(&mut self, stream: OutputStream, bytes: &[u8]) {
        let Some(last) = bytes.last() else { return };
        self.complete += newlines(bytes);
        let open = &mut self.open[index(stream)];
        open.bytes.clear();
        (open.has_begun, open.is_cut) = (*last != b'\n', *last != b'\n');
    }

    fn split(&mut self, stream: OutputStream, mut bytes: &[u8], take: &mut impl FnMut(Line<'_>) -> bool) -> bool {
        let gives_parts = self.gives_parts;
        let open = &mut self.open[index(stream)];
        while let Some(end) = memchr(b'\n', bytes) {
            let (line, rest) = (&bytes[..end], &bytes[end + 1..]);
            bytes = rest;
            let number = self.complete + 1;
            let (is_open, is_part) = (false, false);
            // Most lines lie in one piece, and need no copy.
            let goes_on = if open.has_begun || (gives_parts && line.len() > LONGEST_LINE) {
                let part = |bytes: &[u8]| take(Line { number, stream, bytes, is_cut: true, is_open, is_part: true });
                if !open.push(line, gives_parts, part) {
                    return false;
                }
                take(Line { number, stream, bytes: trimmed(&open.bytes), is_cut: open.is_cut, is_open, is_part })
            } else {
                let is_cut = line.len() > LONGEST_LINE;
                let line = &line[..line.len().min(LONGEST_LINE)];
                take(Line { number, stream, bytes: trimmed(line), is_cut, is_open, is_part })
            };
            self.complete += 1;
            open.bytes.clear();
            (open.has_begun, open.is_cut) = (false, false);
            if !goes_on {
                return false;
            }
        }
        let number = self.complete + 1;
        let mut part = |bytes: &[u8]| take(Line { number, stream, bytes, is_cut: true, is_open: true, is_part: true });
        bytes.is_empty() || open.push(bytes, gives_parts, &mut part)
    }
}

impl OpenLine {
    /// Adds bytes. Of a line that becomes too long, it gives a part and goes on with the end of it, or ignores the rest.
    /// Returns whether `part` has never returned false.
    fn push(&mut self, mut bytes: &[u8], gives_parts: bool, mut part: impl FnMut(&[u8]) -> bool) -> bool {
        self.has_begun = true;
        loop {
            let kept = bytes.len().min(LONGEST_LINE - self.bytes.len());
            self.bytes.extend_from_slice(&bytes[..kept]);
            bytes = &bytes[kept..];
            if bytes.is_empty() {
                return true;
            }
            self.is_cut = true;
            if !gives_parts {
                return true;
            }
            if !part(&self.bytes) {
                return false;
            }
            self.bytes.drain(..LONGEST_LINE - OVERLAP);
        }
    }
}

/// The number of the first line of which something is kept, from the first part. May block.
pub fn first_line(part: Part) -> u64 {
    let (first, before) = (part.first, part.lines.complete);
    let dropped = |block: &Block| {
        let before = |cursor: u64, bytes: &[u8]| bytes.len().min(first.saturating_sub(cursor) as usize);
        block.pieces().map(|(_, cursor, bytes)| newlines(&bytes[..before(cursor, bytes)])).sum::<u64>()
    };
    // Only a block of which a part was dropped must be read.
    let count = if part.start() < first { part.read().map_or(0, |block| dropped(&block)) } else { 0 };
    before + count + 1
}

/// A carriage return before the newline belongs to the line ending.
fn trimmed(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}
