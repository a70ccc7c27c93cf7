//! Where two versions of a file differ from their base, from each other, and what a merge takes there.

use crate::diff::{Hunk, hunks};
use crate::lines::Lines;
use std::collections::HashMap;
use std::ops::Range;

/// Conflicts with at most so many lines between them become one: it is easier to read.
const MAX_BETWEEN: i64 = 3;

/// What a merge takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The lines of the first version.
    Ours,
    /// The lines of the second version.
    Theirs,
    /// Both versions have the same lines.
    Same,
    /// Nothing: a conflict.
    Neither,
}

/// A part of the two versions. Its lines are not numbered with `usize`: while regions are joined, a start can be negative.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// What the merge takes.
    pub choice: Choice,
    /// The lines of the first version.
    pub ours: Range<i64>,
    /// The lines of the second version.
    pub theirs: Range<i64>,
}

impl Region {
    /// The lines of the first version.
    pub fn our_lines(&self) -> Range<usize> {
        unsigned(&self.ours)
    }

    /// The lines of the second version.
    pub fn their_lines(&self) -> Range<usize> {
        unsigned(&self.theirs)
    }

    fn extend_to(&mut self, other: &Self) {
        self.ours.end = other.ours.end;
        self.theirs.end = other.theirs.end;
    }
}

fn unsigned(lines: &Range<i64>) -> Range<usize> {
    let start = lines.start.max(0) as usize;
    start..(lines.end.max(0) as usize).max(start)
}

fn signed(lines: &Range<usize>) -> Range<i64> {
    lines.start as i64..lines.end as i64
}

fn moved(lines: &Range<i64>, by: i64) -> Range<i64> {
    lines.start + by..lines.end + by
}

/// The regions of two versions, in their order. `count` is that of the different lines of all three.
pub fn regions(base: &Lines<'_>, ours: &Lines<'_>, theirs: &Lines<'_>, count: usize) -> Vec<Region> {
    let mine = hunks(&base.numbers, &ours.numbers, count);
    let other = hunks(&base.numbers, &theirs.numbers, count);
    let found = joined(&mine, &other, ours, theirs, base.count());
    simplified(found.into_iter().flat_map(|region| refined(region, ours, theirs)).collect())
}

/// Brings the hunks of two versions together. Those that touch each other are a conflict, unless they are the same.
fn joined(mine: &[Hunk], other: &[Hunk], ours: &Lines<'_>, theirs: &Lines<'_>, base: usize) -> Vec<Region> {
    let mut found = Vec::new();
    let (mut mine, mut other) = (mine.iter().peekable(), other.iter().peekable());
    // What follows the last hunk of a version is the end of the base, moved.
    let end = |lines: &Lines<'_>| lines.count() as i64 - base as i64;
    loop {
        let shift = |hunk: &Hunk| hunk.after.start as i64 - hunk.before.start as i64;
        match (mine.peek(), other.peek()) {
            (None, None) => return found,
            (Some(one), two) if two.is_none_or(|two| one.before.end < two.before.start) => {
                let by = two.map_or(end(theirs), |two| shift(two));
                add(&mut found, Choice::Ours, signed(&one.after), moved(&signed(&one.before), by));
                mine.next();
            }
            (one, Some(two)) if one.is_none_or(|one| two.before.end < one.before.start) => {
                let by = one.map_or(end(ours), |one| shift(one));
                add(&mut found, Choice::Theirs, moved(&signed(&two.before), by), signed(&two.after));
                other.next();
            }
            (Some(one), Some(two)) => {
                let is_same =
                    one.before == two.before && ours.numbers[one.after.clone()] == theirs.numbers[two.after.clone()];
                let (old, also) = (signed(&one.before), signed(&two.before));
                if !is_same {
                    // Both get the same lines of the base.
                    let all = old.start.min(also.start)..old.end.max(also.end);
                    let widened = |after: &Range<usize>, old: &Range<i64>| {
                        let after = signed(after);
                        after.start - (old.start - all.start)..after.end + (all.end - old.end)
                    };
                    add(&mut found, Choice::Neither, widened(&one.after, &old), widened(&two.after, &also));
                }
                if old.end >= also.end {
                    other.next();
                }
                if also.end >= old.end {
                    mine.next();
                }
            }
            (None, Some(_)) | (Some(_), None) => return found,
        }
    }
}

/// Adds a region, or makes one conflict of it and the last one if they touch each other.
fn add(found: &mut Vec<Region>, choice: Choice, ours: Range<i64>, theirs: Range<i64>) {
    let region = Region { choice, ours, theirs };
    match found.last_mut() {
        Some(last) if region.ours.start <= last.ours.end || region.theirs.start <= last.theirs.end => {
            if last.choice != choice {
                last.choice = Choice::Neither;
            }
            last.extend_to(&region);
        }
        _ => found.push(region),
    }
}

/// Splits a conflict where both versions have the same lines.
fn refined(region: Region, ours: &Lines<'_>, theirs: &Lines<'_>) -> Vec<Region> {
    let (our_lines, their_lines) = (region.our_lines(), region.their_lines());
    if region.choice != Choice::Neither || our_lines.is_empty() || their_lines.is_empty() {
        return vec![region];
    }
    // Numbers of their own: otherwise each of many conflicts would take the memory of the whole files.
    let mut numbers = HashMap::new();
    let mut number = |lines: &[u32]| {
        let mut numbered = Vec::with_capacity(lines.len());
        for line in lines {
            let next = numbers.len() as u32;
            numbered.push(*numbers.entry(*line).or_insert(next));
        }
        numbered
    };
    let (mine, other) = (number(&ours.numbers[our_lines]), number(&theirs.numbers[their_lines]));
    let found = hunks(&mine, &other, numbers.len());
    if found.is_empty() {
        return vec![Region { choice: Choice::Same, ..region }];
    }
    let part = |Hunk { before, after }: Hunk| Region {
        choice: Choice::Neither,
        ours: moved(&signed(&before), region.ours.start),
        theirs: moved(&signed(&after), region.theirs.start),
    };
    found.into_iter().map(part).collect()
}

fn simplified(regions: Vec<Region>) -> Vec<Region> {
    let mut simple: Vec<Region> = Vec::with_capacity(regions.len());
    for region in regions {
        match simple.last_mut() {
            Some(last)
                if last.choice == Choice::Neither
                    && region.choice == Choice::Neither
                    && region.ours.start - last.ours.end <= MAX_BETWEEN =>
            {
                last.extend_to(&region);
            }
            _ => simple.push(region),
        }
    }
    simple
}
