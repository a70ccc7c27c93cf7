//! Which lines of two texts differ, in time and memory that grow with their size only.
//!
//! The histogram algorithm takes quadratic time in the worst case, so it gets small parts. Larger texts are first
//! divided at lines that occur once in both (a "patience diff"). What is still too large then counts as different.

use imara_diff::sources::byte_lines;
use imara_diff::{Algorithm, Diff, Hunk, IndentHeuristic, IndentLevel, InternedInput, Interner, Token};
use std::ops::Range;

/// Maximum lines of a part, on each side.
const MAX_PART: usize = 2048;
/// Maximum lines of a text that is divided.
const MAX_LINES: usize = 2_000_000;
/// Equal lines around the first and last difference that are compared, too: they can be the better place for it.
const MARGIN: usize = 64;
/// Columns of a tab, and the most bytes of a line that its indentation is read from.
const TAB: u8 = 8;
const MAX_INDENT: usize = 256;
/// For a place that does not exist.
const NOWHERE: u32 = u32::MAX;
/// For a line that occurs more than once.
const MANY: u32 = u32::MAX - 1;

/// The differences of two texts, as ranges of lines in their order. Each text has fewer than 2^31 lines.
pub fn compare(before: &[u8], after: &[u8]) -> Vec<Hunk> {
    let (start, end) = equal_ends(before, after);
    let (before_end, after_end) = (before.len() - end, after.len() - end);
    let first = margin_before(before, start);
    let margin = margin_after(&before[before_end..]);
    let offset = count(&before[..first]);
    let sides = (&before[first..before_end + margin], &after[first..after_end + margin]);
    if count(sides.0).max(count(sides.1)) > MAX_LINES {
        let from = offset + count(&before[first..start]);
        return vec![hunk(
            from..from + count(&before[start..before_end]),
            from..from + count(&after[start..after_end]),
            0,
        )];
    }
    let mut input = InternedInput { before: Vec::new(), after: Vec::new(), interner: Interner::new(0) };
    input.update_before(byte_lines(sides.0));
    input.update_after(byte_lines(sides.1));
    let mut found = Vec::new();
    let (mut before, mut after) = (0, 0);
    for (next_before, next_after) in divide(&input).into_iter().chain([(input.before.len(), input.after.len())]) {
        compare_part(&input, before..next_before, after..next_after, offset, &mut found);
        (before, after) = (next_before + 1, next_after + 1);
    }
    found
}

fn hunk(before: Range<usize>, after: Range<usize>, offset: usize) -> Hunk {
    let range = |lines: Range<usize>| (offset + lines.start) as u32..(offset + lines.end) as u32;
    Hunk { before: range(before), after: range(after) }
}

/// The number of lines of a text. The last one may have no end.
pub fn count(text: &[u8]) -> usize {
    memchr::memchr_iter(b'\n', text).count() + usize::from(text.last().is_some_and(|last| *last != b'\n'))
}

/// How many bytes at the start and at the end are equal, in whole lines.
fn equal_ends(before: &[u8], after: &[u8]) -> (usize, usize) {
    let equal = before.iter().zip(after).take_while(|(a, b)| a == b).count();
    let start = memchr::memrchr(b'\n', &before[..equal]).map_or(0, |end| end + 1);
    let (a, b) = (&before[start..], &after[start..]);
    let equal = a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count();
    let is_line = |text: &[u8]| text.len() == equal || text[text.len() - equal - 1] == b'\n';
    if is_line(a) && is_line(b) {
        return (start, equal);
    }
    let end = &a[a.len() - equal..];
    (start, memchr::memchr(b'\n', end).map_or(0, |at| end.len() - at - 1))
}

/// Where the lines of the margin before a line begin.
fn margin_before(text: &[u8], line: usize) -> usize {
    let mut ends = memchr::memrchr_iter(b'\n', &text[..line]);
    ends.nth(MARGIN).map_or(0, |end| end + 1)
}

/// The length of the margin at the start of a text.
fn margin_after(text: &[u8]) -> usize {
    memchr::memchr_iter(b'\n', text).nth(MARGIN - 1).map_or(text.len(), |end| end + 1)
}

/// The lines at which a large text is divided: each occurs once on both sides, in the same order.
fn divide(input: &InternedInput<&[u8]>) -> Vec<(usize, usize)> {
    if input.before.len().max(input.after.len()) <= MAX_PART {
        return Vec::new();
    }
    let places = |lines: &[Token]| {
        let mut places = vec![NOWHERE; input.interner.num_tokens() as usize];
        for (at, line) in lines.iter().enumerate() {
            let place = &mut places[line.0 as usize];
            *place = if *place == NOWHERE { at as u32 } else { MANY };
        }
        places
    };
    let (before, after) = (places(&input.before), places(&input.after));
    let unique = input.before.iter().map(|line| (before[line.0 as usize], after[line.0 as usize]));
    let pairs: Vec<_> = unique.filter(|(before, after)| *before < MANY && *after < MANY).collect();
    let chain = longest_rise(&pairs);
    chain.into_iter().map(|(before, after)| (before as usize, after as usize)).collect()
}

/// A longest part of a list whose second numbers rise.
fn longest_rise(pairs: &[(u32, u32)]) -> Vec<(u32, u32)> {
    // For each length, the pair with the lowest number that a part of this length ends with.
    let mut ends: Vec<usize> = Vec::new();
    let mut previous = Vec::with_capacity(pairs.len());
    for (at, (_, number)) in pairs.iter().enumerate() {
        let length = ends.partition_point(|end| pairs[*end].1 < *number);
        previous.push(length.checked_sub(1).map(|shorter| ends[shorter] as u32));
        match ends.get_mut(length) {
            Some(end) => *end = at,
            None => ends.push(at),
        }
    }
    let last = ends.last().map(|last| *last as u32);
    let mut chain: Vec<_> =
        std::iter::successors(last, |at| previous[*at as usize]).map(|at| pairs[at as usize]).collect();
    chain.reverse();
    chain
}

/// Compares two ranges of lines.
fn compare_part(
    input: &InternedInput<&[u8]>,
    mut before: Range<usize>,
    mut after: Range<usize>,
    offset: usize,
    found: &mut Vec<Hunk>,
) {
    let is_large = |before: &Range<usize>, after: &Range<usize>| before.len().max(after.len()) > MAX_PART;
    if is_large(&before, &after) {
        let (a, b) = (&input.before[before.clone()], &input.after[after.clone()]);
        let start = a.iter().zip(b).take_while(|(a, b)| a == b).count();
        let (a, b) = (&a[start..], &b[start..]);
        let end = a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count();
        before = before.start + start..before.end - end;
        after = after.start + start..after.end - end;
    }
    if before.is_empty() && after.is_empty() {
        return;
    }
    if before.is_empty() || after.is_empty() || is_large(&before, &after) {
        found.push(hunk(before, after, offset));
        return;
    }
    let mut part = InternedInput { before: Vec::new(), after: Vec::new(), interner: Interner::new(0) };
    part.update_before(input.before[before.clone()].iter().copied());
    part.update_after(input.after[after.clone()].iter().copied());
    let mut diff = Diff::compute(Algorithm::Histogram, &part);
    let indent = |line: Token| {
        let text = input.interner[part.interner[line]];
        IndentLevel::for_ascii_line(text.iter().copied().take(MAX_INDENT), TAB)
    };
    diff.postprocess_with_heuristic(&part, IndentHeuristic::new(indent));
    let range = |lines: Range<u32>, start: usize| start + lines.start as usize..start + lines.end as usize;
    found.extend(
        diff.hunks().map(|hunks| hunk(range(hunks.before, before.start), range(hunks.after, after.start), offset)),
    );
}

#[cfg(test)]
#[path = "lines_tests.rs"]
mod tests;
