//! The hunks of a text patch: differing lines, with equal ones around them.

use super::lines;
use imara_diff::Hunk as Lines;
use sha1::{Digest, Sha1};
use std::collections::HashSet;
use std::io::{self, Write};
use std::ops::Range;

/// Equal lines before and after a difference.
const CONTEXT: u32 = 3;
/// Bytes of the hash that an id has.
const ID_BYTES: usize = 8;

/// The hunks that turn one text into another.
pub struct Hunks<'a> {
    before: &'a [u8],
    after: &'a [u8],
    differences: Vec<Lines>,
    /// The number of lines of the first text.
    end: u32,
}

/// One of them.
pub struct Hunk<'a> {
    differences: &'a [Lines],
    /// The lines of the first text, with the equal ones around them.
    pub before: Range<u32>,
    /// Those of the second text.
    pub after: Range<u32>,
}

impl<'a> Hunks<'a> {
    /// Compares two texts.
    pub fn new(before: &'a [u8], after: &'a [u8]) -> Self {
        Self { before, after, differences: lines::compare(before, after), end: lines::count(before) as u32 }
    }

    /// All of them, in their order.
    pub fn iter(&self) -> impl Iterator<Item = Hunk<'_>> {
        let near = |one: &Lines, next: &Lines| next.before.start - one.before.end <= 2 * CONTEXT;
        self.differences.chunk_by(near).filter_map(|differences| {
            let (first, last) = (differences.first()?, differences.last()?);
            let lead = first.before.start.min(CONTEXT);
            let trail = (self.end - last.before.end).min(CONTEXT);
            let before = first.before.start - lead..last.before.end + trail;
            let after = first.after.start - lead..last.after.end + trail;
            Some(Hunk { differences, before, after })
        })
    }

    /// Writes all of them as a patch has them.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let mut texts = (TextLines::new(self.before), TextLines::new(self.after));
        self.iter().try_for_each(|hunk| hunk.write(&mut texts, out))
    }

    /// What names a hunk of a file: its lines and their place in the first text. So it names the same one after another
    /// hunk was taken back, and none once other lines are there.
    pub fn ids(&self, path: &[u8]) -> Vec<String> {
        let mut texts = (TextLines::new(self.before), TextLines::new(self.after));
        let ids = self.iter().map(|hunk| {
            let mut hash = Sha1::new();
            let mut add = |bytes: &[u8]| {
                hash.update((bytes.len() as u64).to_le_bytes());
                hash.update(bytes);
            };
            add(path);
            for difference in hunk.differences {
                add(&difference.before.start.to_le_bytes());
                add(texts.0.take(&difference.before));
                add(texts.1.take(&difference.after));
            }
            hash.finalize()[..ID_BYTES].iter().map(|byte| format!("{byte:02x}")).collect()
        });
        ids.collect()
    }

    /// Each as a patch has it.
    pub fn texts(&self) -> Vec<Vec<u8>> {
        let mut texts = (TextLines::new(self.before), TextLines::new(self.after));
        let written = self.iter().map(|hunk| {
            let mut out = Vec::new();
            // A list takes everything.
            let _ = hunk.write(&mut texts, &mut out);
            out
        });
        written.collect()
    }

    /// The first text with some of the hunks, given by their numbers.
    pub fn apply(&self, chosen: &HashSet<usize>) -> Vec<u8> {
        let (mut old, mut new) = (TextLines::new(self.before), TextLines::new(self.after));
        let mut result = Vec::with_capacity(self.before.len().max(self.after.len()));
        for (number, hunk) in self.iter().enumerate() {
            for difference in hunk.differences.iter().filter(|_| chosen.contains(&number)) {
                result.extend_from_slice(old.until(difference.before.start));
                old.skip_to(difference.before.end);
                result.extend_from_slice(new.take(&difference.after));
            }
        }
        result.extend_from_slice(old.left);
        result
    }
}

impl Hunk<'_> {
    /// How many lines it removes, and adds.
    pub fn counts(&self) -> (u32, u32) {
        let sum = |lines: fn(&Lines) -> &Range<u32>| self.differences.iter().map(|one| lines(one).len() as u32).sum();
        (sum(|one| &one.before), sum(|one| &one.after))
    }

    fn write(&self, (old, new): &mut (TextLines<'_>, TextLines<'_>), out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "@@ -{} +{} @@", range(&self.before), range(&self.after))?;
        old.skip_to(self.before.start);
        for difference in self.differences {
            old.write_to(difference.before.start, b' ', out)?;
            old.write_to(difference.before.end, b'-', out)?;
            new.skip_to(difference.after.start);
            new.write_to(difference.after.end, b'+', out)?;
        }
        old.write_to(self.before.end, b' ', out)
    }
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
        self.until(number);
    }

    /// The lines before a number.
    fn until(&mut self, number: u32) -> &'a [u8] {
        let start = self.left;
        while self.number < number {
            self.next();
        }
        &start[..start.len() - self.left.len()]
    }

    /// These lines, which are still to come.
    fn take(&mut self, lines: &Range<u32>) -> &'a [u8] {
        self.skip_to(lines.start);
        self.until(lines.end)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Random, seeds};

    /// A text of few different lines, with ends of all kinds.
    fn text(random: &mut Random) -> Vec<u8> {
        let lines = (0..random.below(60)).map(|_| ["a\n", "b\n", "\n", "c\r\n", "é 日\n", "d\r"][random.below(6)]);
        let mut text: String = lines.collect();
        if random.below(3) == 0 {
            text.push_str("no end");
        }
        text.into_bytes()
    }

    fn edited(random: &mut Random, text: &[u8]) -> Vec<u8> {
        let mut lines: Vec<Vec<u8>> = text.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
        for _ in 0..random.below(6) {
            let at = random.below(lines.len() + 1);
            match random.below(3) {
                0 if at < lines.len() => drop(lines.remove(at)),
                1 if at < lines.len() => lines[at] = b"changed\r\n".to_vec(),
                _ => lines.insert(at, b"new\n".to_vec()),
            }
        }
        lines.concat()
    }

    #[test]
    fn all_hunks_make_the_second_text_none_the_first_and_some_leave_the_others_their_ids() {
        for seed in seeds(300) {
            let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
            let before = text(&mut random);
            let after = edited(&mut random, &before);
            let hunks = Hunks::new(&before, &after);
            let ids = hunks.ids(b"path");
            assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len(), "seed {seed}");
            assert_eq!(hunks.apply(&(0..ids.len()).collect()), after, "seed {seed}");
            assert_eq!(hunks.apply(&HashSet::new()), before, "seed {seed}");
            // One after another, in any order.
            let (mut now, mut left) = (after.clone(), ids.len());
            while left > 0 {
                let all = Hunks::new(&before, &now);
                let count = all.iter().count();
                let taken_back = random.below(count);
                now = all.apply(&(0..count).filter(|number| *number != taken_back).collect());
                assert!(count <= left, "seed {seed}");
                left = count - 1;
            }
            assert_eq!(now, before, "seed {seed}");
        }
    }

    #[test]
    fn an_id_names_lines_at_a_place_of_a_file() {
        let line = |number: usize| format!("{number}\n");
        let before: String = (0..40).map(line).collect();
        let after = before.replace("\n5\n", "\nfive\n").replace("\n30\n", "\nthirty\n");
        let ids = Hunks::new(before.as_bytes(), after.as_bytes()).ids(b"a");
        let first = before.replace("\n5\n", "\nfive\n");
        assert_eq!(Hunks::new(before.as_bytes(), first.as_bytes()).ids(b"a"), ids[..1]);
        let second = before.replace("\n30\n", "\nthirty\n");
        assert_eq!(Hunks::new(before.as_bytes(), second.as_bytes()).ids(b"a"), ids[1..]);
        let other = before.replace("\n30\n", "\nThirty\n");
        assert_ne!(Hunks::new(before.as_bytes(), other.as_bytes()).ids(b"a"), ids[1..]);
        assert_ne!(Hunks::new(before.as_bytes(), after.as_bytes()).ids(b"b"), ids);
    }
}
