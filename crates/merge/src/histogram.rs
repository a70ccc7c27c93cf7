//! The histogram difference, as git and JGit make it.
//!
//! Of the runs of lines that both files have, the longest one is kept whose rarest line is the rarest in the first file. What is
//! before and after it is compared in the same way. Libraries that are faster differ in which of several equal runs they
//! choose, and then a merge conflicts where git's does not.

use imara_diff::{Algorithm, Diff, Token};
use std::ops::Range;

/// A line that the first file has more often begins no run.
const MAX_COUNT: u32 = 64;
/// Maximum comparisons of lines. What is left then, of files that were made for it, is compared in linear time.
const MAX_STEPS: u64 = 200_000_000;
const NONE: u32 = u32::MAX;

/// Which lines of the two files are not in the other one.
pub struct Changed {
    /// Those of the first file.
    pub removed: Vec<bool>,
    /// Those of the second file.
    pub added: Vec<bool>,
}

/// Compares the lines of two files, by their numbers, of which there are `count`.
pub fn changed(before: &[u32], after: &[u32], count: usize) -> Changed {
    let mut changed = Changed { removed: vec![false; before.len()], added: vec![false; after.len()] };
    let mut search = Search {
        before,
        after,
        first: vec![NONE; count],
        counts: vec![0; count],
        next: vec![NONE; before.len()],
        steps: 0,
    };
    let mut pending = vec![(0..before.len(), 0..after.len())];
    while let Some((old, new)) = pending.pop() {
        match search.longest(&old, &new) {
            _ if old.is_empty() || new.is_empty() => mark(&mut changed, old, new),
            Found::None => mark(&mut changed, old, new),
            Found::TooMany => changed_in_linear_time(&mut changed, (before, old), (after, new), count),
            Found::Run { before: kept_old, after: kept_new } => {
                pending.push((old.start..kept_old.start, new.start..kept_new.start));
                pending.push((kept_old.end..old.end, kept_new.end..new.end));
            }
        }
    }
    changed
}

fn mark(changed: &mut Changed, old: Range<usize>, new: Range<usize>) {
    changed.removed[old].fill(true);
    changed.added[new].fill(true);
}

fn changed_in_linear_time(
    changed: &mut Changed,
    (before, old): (&[u32], Range<usize>),
    (after, new): (&[u32], Range<usize>),
    count: usize,
) {
    let tokens = |lines: &[u32]| lines.iter().map(|line| Token(*line)).collect::<Vec<_>>();
    let mut diff = Diff::default();
    diff.compute_with(Algorithm::Myers, &tokens(&before[old.clone()]), &tokens(&after[new.clone()]), count as u32);
    for (at, line) in old.enumerate() {
        changed.removed[line] = diff.is_removed(at as u32);
    }
    for (at, line) in new.enumerate() {
        changed.added[line] = diff.is_added(at as u32);
    }
}

enum Found {
    /// Lines that both files have.
    Run { before: Range<usize>, after: Range<usize> },
    /// They have no line in common.
    None,
    /// All lines in common are too frequent, or the search takes too long.
    TooMany,
}

struct Search<'a> {
    before: &'a [u32],
    after: &'a [u32],
    /// Of each line, by its number, where the part of the first file has it first.
    first: Vec<u32>,
    /// And how often.
    counts: Vec<u32>,
    /// Of each place of the first file, the next one with the same line.
    next: Vec<u32>,
    steps: u64,
}

/// The best run so far.
struct Best {
    run: Option<(Range<usize>, Range<usize>)>,
    /// How often the first file has its rarest line.
    count: u32,
    /// Whether there is any line in common.
    has_common: bool,
}

impl Search<'_> {
    /// Finds the run to keep in a part of each file.
    fn longest(&mut self, old: &Range<usize>, new: &Range<usize>) -> Found {
        if self.steps > MAX_STEPS {
            return Found::TooMany;
        }
        for at in old.clone().rev() {
            let line = self.before[at] as usize;
            self.next[at] = std::mem::replace(&mut self.first[line], at as u32);
            self.counts[line] += 1;
        }
        let mut best = Best { run: None, count: MAX_COUNT + 1, has_common: false };
        let mut at = new.start;
        while at < new.end {
            at = self.try_from(at, old, new, &mut best);
        }
        self.steps += (old.len() + new.len()) as u64;
        for line in &self.before[old.clone()] {
            self.first[*line as usize] = NONE;
            self.counts[*line as usize] = 0;
        }
        match best.run {
            _ if best.has_common && best.count > MAX_COUNT => Found::TooMany,
            Some((before, after)) => Found::Run { before, after },
            None => Found::None,
        }
    }

    /// Tries the runs with a line of the second file. Returns the next line that can be in a better one.
    fn try_from(&mut self, at: usize, old: &Range<usize>, new: &Range<usize>, best: &mut Best) -> usize {
        let line = self.after[at] as usize;
        let mut after_run = at + 1;
        if self.counts[line] == 0 {
            return after_run;
        }
        best.has_common = true;
        if self.counts[line] > best.count {
            return after_run;
        }
        let mut place = self.first[line];
        while place != NONE {
            let (mut old_start, mut new_start) = (place as usize, at);
            let mut count = self.counts[line];
            let count_of = |place: usize| self.counts[self.before[place] as usize];
            while old_start > old.start
                && new_start > new.start
                && self.before[old_start - 1] == self.after[new_start - 1]
            {
                (old_start, new_start) = (old_start - 1, new_start - 1);
                count = count.min(count_of(old_start));
            }
            let (mut old_end, mut new_end) = (place as usize + 1, at + 1);
            while old_end < old.end && new_end < new.end && self.before[old_end] == self.after[new_end] {
                count = count.min(count_of(old_end));
                (old_end, new_end) = (old_end + 1, new_end + 1);
            }
            self.steps += (old_end - old_start) as u64;
            after_run = after_run.max(new_end);
            let length = best.run.as_ref().map_or(1, |(run, _)| run.len());
            if old_end - old_start > length || count < best.count {
                best.run = Some((old_start..old_end, new_start..new_end));
                best.count = count;
            }
            while place != NONE && (place as usize) < old_end {
                place = self.next[place as usize];
            }
        }
        after_run
    }
}
