//! When to believe that the shell is done with a command and will never report it, as after `set -n`.

use crate::driver::Suspicion;

/// So many times the shell has to be seen in its loop.
const BELIEVED: u64 = 2;
/// Processor time for a byte of a command's text before the command runs, in ticks of 10 ms: bash takes a hundredth of
/// this to read it and to expand the substitution that it is read by. All that time it looks as in an endless loop.
const BYTES_A_TICK: u64 = 4 * 1024;

/// What was seen of the shell during one command.
pub(super) struct Suspicions {
    last: Option<Suspicion>,
    /// Processor time at the first time it was seen in its loop.
    runs_since: Option<u64>,
    /// How often it was seen there, with processor time used in between.
    runs_seen: u64,
    /// How much it may use before it can be in the loop.
    reading_ticks: u64,
}

impl Suspicions {
    /// For a command with a text of this length.
    pub(super) fn new(text_bytes: usize) -> Self {
        Self { last: None, runs_since: None, runs_seen: 0, reading_ticks: text_bytes as u64 / BYTES_A_TICK }
    }

    /// Takes note of a look. True when it proves, with those before, that the report was lost.
    pub(super) fn prove(&mut self, now: Option<Suspicion>) -> bool {
        let proof = match (self.last, now) {
            (Some(Suspicion::Waits), Some(Suspicion::Waits)) => true,
            (Some(Suspicion::Runs { cpu_ticks: before }), Some(Suspicion::Runs { cpu_ticks })) => {
                self.runs_seen += u64::from(cpu_ticks > before);
                let used = cpu_ticks - self.runs_since.unwrap_or(cpu_ticks).min(cpu_ticks);
                self.runs_seen >= BELIEVED && used > self.reading_ticks
            }
            _ => false,
        };
        if let Some(Suspicion::Runs { cpu_ticks }) = now {
            self.runs_since.get_or_insert(cpu_ticks);
        }
        self.last = now.or(self.last);
        proof
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(cpu_ticks: u64) -> Option<Suspicion> {
        Some(Suspicion::Runs { cpu_ticks })
    }

    #[test]
    fn a_shell_that_waits_twice_has_lost_its_report() {
        let mut seen = Suspicions::new(0);
        assert!(!seen.prove(Some(Suspicion::Waits)));
        assert!(!seen.prove(None));
        assert!(seen.prove(Some(Suspicion::Waits)));
    }

    #[test]
    fn a_loop_is_believed_when_it_uses_processor_time() {
        let mut seen = Suspicions::new(100);
        assert!([runs(5), runs(5), runs(7)].into_iter().all(|look| !seen.prove(look)));
        assert!(seen.prove(runs(8)));
    }

    #[test]
    fn a_long_text_takes_its_time() {
        let mut seen = Suspicions::new(2 << 20);
        assert!((0..=512).all(|ticks| !seen.prove(runs(ticks))));
        assert!(seen.prove(runs(513)));
    }
}
