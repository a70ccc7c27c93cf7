//! The differences of two files, as hunks of lines.

use crate::compaction::compact;
use crate::histogram::{Changed, changed};
use std::ops::Range;

/// Lines that take the place of others; one of the two may be empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hunk {
    /// Those of the first file.
    pub before: Range<usize>,
    /// Those of the second file.
    pub after: Range<usize>,
}

/// Compares the lines of two files, by their numbers, of which there are `count`.
pub fn hunks(before: &[u32], after: &[u32], count: usize) -> Vec<Hunk> {
    let Changed { mut removed, mut added } = changed(before, after, count);
    compact(before, &mut removed, &added);
    compact(after, &mut added, &removed);
    let (mut hunks, mut old, mut new) = (Vec::new(), 0, 0);
    let is_marked = |marks: &[bool], at: usize| marks.get(at).copied().unwrap_or(false);
    while old < before.len() || new < after.len() {
        let starts = (old, new);
        while is_marked(&removed, old) {
            old += 1;
        }
        while is_marked(&added, new) {
            new += 1;
        }
        if (old, new) == starts {
            (old, new) = (old + 1, new + 1);
        } else {
            hunks.push(Hunk { before: starts.0..old, after: starts.1..new });
        }
    }
    hunks
}
