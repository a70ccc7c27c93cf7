//! What the tests of several modules need.

/// The same numbers in each run.
pub struct Random(u64);

impl Random {
    pub fn new() -> Self {
        Self(0x9e37_79b9_7f4a_7c15)
    }

    /// A number below this one (xorshift64*).
    pub fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % end
    }

    /// At most so many of these letters.
    pub fn text(&mut self, letters: &str, longest: usize) -> String {
        let letters: Vec<char> = letters.chars().collect();
        (0..self.below(longest + 1)).map(|_| letters[self.below(letters.len())]).collect()
    }
}
