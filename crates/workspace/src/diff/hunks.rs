//! The hunks of a text patch: differing lines, with equal ones around them.

use super::lines;
use std::io::{self, Write};
use std::ops::Range;

/// Equal lines before and after a difference.
const CONTEXT: u32 = 3;

/// Writes the hunks that turn one text into another.
pub fn write(out: &mut impl Write, before: &[u8], after: &[u8]) -> io::Result<()> {
    let differences = lines::compare(before, after);
    let end = lines::count(before) as u32;
    let (mut old, mut new) = (TextLines::new(before), TextLines::new(after));
    for group in differences.chunk_by(|one, next| next.before.start - one.before.end <= 2 * CONTEXT) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
        let lead = first.before.start.min(CONTEXT);
        let trail = (end - last.before.end).min(CONTEXT);
        let removed = first.before.start - lead..last.before.end + trail;
        let added = first.after.start - lead..last.after.end + trail;
        writeln!(out, "@@ -{} +{} @@", range(&removed), range(&added))?;
        old.skip_to(removed.start);
        for difference in group {
            old.write_to(difference.before.start, b' ', out)?;
            old.write_to(difference.before.end, b'-', out)?;
            new.skip_to(difference.after.start);
            new.write_to(difference.after.end, b'+', out)?;
        }
        old.write_to(removed.end, b' ', out)?;
    }
    Ok(())
}

/// A range of lines: the number of the first one, or of the line before an empty range, and how many there are.
fn range(lines: &Range<u32>) -> String {
    match lines.len() {
        0 => format!("{},0", lines.start),
        1 => (lines.start + 1).to_string(),
        length => format!("{},{length}", lines.start + 1),
    }
}

/// A text that is read line by line.
struct TextLines<'a> {
    left: &'a [u8],
    number: u32,
}

impl<'a> TextLines<'a> {
    fn new(text: &'a [u8]) -> Self {
        Self { left: text, number: 0 }
    }

    fn next(&mut self) -> &'a [u8] {
        let length = memchr::memchr(b'\n', self.left).map_or(self.left.len(), |end| end + 1);
        let (line, left) = self.left.split_at(length);
        self.left = left;
        self.number += 1;
        line
    }

    fn skip_to(&mut self, number: u32) {
        while self.number < number {
            self.next();
        }
    }

    /// Writes the lines before a number, each after a sign.
    fn write_to(&mut self, number: u32, sign: u8, out: &mut impl Write) -> io::Result<()> {
        while self.number < number {
            let line = self.next();
            out.write_all(&[sign])?;
            out.write_all(line)?;
            if !line.ends_with(b"\n") {
                out.write_all(b"\n\\ No newline at end of file\n")?;
            }
        }
        Ok(())
    }
}
