//! The order in which the bytes of two streams arrived: the lengths of alternating runs.

use std::ops::Range;

/// Alternating runs, stdout first. Bounded: after 250,000 changes, the rest is one run per stream.
#[derive(Debug, Default)]
pub struct Arrival {
    runs: Vec<u64>,
    rest: [u64; 2],
}

const MOST_RUNS: usize = 1 << 18;

impl Arrival {
    /// Records the arrival of `count` bytes on stream 0 or 1.
    pub fn note(&mut self, stream: usize, count: usize) {
        if count == 0 {
            return;
        }
        let last = self.runs.len().wrapping_sub(1);
        if !self.runs.is_empty() && last % 2 == stream {
            self.runs[last] += count as u64;
        } else if self.runs.len() + 2 > MOST_RUNS {
            self.rest[stream] += count as u64;
        } else {
            if self.runs.len() % 2 != stream {
                self.runs.push(0);
            }
            self.runs.push(count as u64);
        }
    }

    /// The runs of the kept bytes; `None` if at most one stream has any.
    pub fn kept(&self, kept: [[Range<u64>; 2]; 2]) -> Option<Vec<u32>> {
        let mut position = [0u64; 2];
        let mut out = Arrival::default();
        let rest = self.rest.into_iter().enumerate();
        for (stream, length) in self.runs.iter().enumerate().map(|(index, length)| (index % 2, *length)).chain(rest) {
            let run = position[stream]..position[stream] + length;
            position[stream] = run.end;
            let overlap: u64 =
                kept[stream].iter().map(|part| run.end.min(part.end).saturating_sub(run.start.max(part.start))).sum();
            out.note(stream, overlap as usize);
        }
        // One run: only stdout. Two runs, the first empty: only stderr.
        let both = out.runs.len() > 2 || (out.runs.len() == 2 && out.runs[0] > 0);
        both.then(|| {
            out.runs.into_iter().chain(out.rest).map(|length| u32::try_from(length).unwrap_or(u32::MAX)).collect()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alternates_and_joins_neighbours() {
        let mut arrival = Arrival::default();
        for (stream, count) in [(1, 3), (1, 2), (0, 4), (0, 0), (1, 1)] {
            arrival.note(stream, count);
        }
        assert_eq!(arrival.kept([[0..4, 4..4], [0..6, 6..6]]), Some(vec![0, 5, 4, 1, 0, 0]));
        // Only the first two bytes and the last byte of stderr are kept.
        assert_eq!(arrival.kept([[0..4, 4..4], [0..2, 5..6]]), Some(vec![0, 2, 4, 1, 0, 0]));
        assert_eq!(arrival.kept([[0..0, 4..4], [0..2, 5..6]]), None);
    }

    #[test]
    fn one_stream_needs_no_order() {
        let mut arrival = Arrival::default();
        arrival.note(1, 7);
        assert_eq!(arrival.kept([[0..0, 0..0], [0..7, 7..7]]), None);
        assert_eq!(Arrival::default().kept([[0..0, 0..0], [0..0, 0..0]]), None);
    }
}
