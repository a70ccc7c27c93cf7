//! The lines of files, and their numbers: equal lines have the same one.

use std::collections::HashMap;
use std::ops::Range;

/// Gives numbers to lines.
#[derive(Default)]
pub struct Numbering<'a>(HashMap<&'a [u8], u32>);

impl<'a> Numbering<'a> {
    /// Splits a text into lines. Each has its newline; the last one may have none, and then differs from one that has.
    pub fn lines(&mut self, text: &'a [u8]) -> Lines<'a> {
        let mut lines = Lines { text, ends: Vec::new(), numbers: Vec::new() };
        let mut start = 0;
        while start < text.len() {
            let end = memchr::memchr(b'\n', &text[start..]).map_or(text.len(), |at| start + at + 1);
            let next = self.0.len() as u32;
            lines.numbers.push(*self.0.entry(&text[start..end]).or_insert(next));
            lines.ends.push(end as u32);
            start = end;
        }
        lines
    }

    /// How many different lines there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }
}

/// The lines of a text.
pub struct Lines<'a> {
    text: &'a [u8],
    ends: Vec<u32>,
    /// Their numbers.
    pub numbers: Vec<u32>,
}

impl<'a> Lines<'a> {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.ends.len()
    }

    /// Their text, with the newlines.
    pub fn text_of(&self, lines: Range<usize>) -> &'a [u8] {
        let start_of = |line: usize| line.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        &self.text[start_of(lines.start)..start_of(lines.end)]
    }

    /// Whether lines around this one end with CR LF. `None` if that cannot be seen: there is no line with a newline.
    pub fn has_crlf(&self, line: usize) -> Option<bool> {
        let ends_so = |line: usize| self.text_of(line..line + 1).ends_with(b"\r\n");
        match self.count() {
            0 => None,
            count if line + 1 < count || self.text_of(line..line + 1).ends_with(b"\n") => Some(ends_so(line)),
            _ => line.checked_sub(1).map(ends_so),
        }
    }
}
