use super::*;
use std::time::{Duration, Instant};

/// A generator of numbers: xorshift64*.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % limit
    }
}

fn lines(text: &[u8]) -> Vec<&[u8]> {
    byte_lines(text).collect()
}

/// Compares two texts, and checks that the differences turn the one into the other.
fn checked(before: &[u8], after: &[u8]) -> Vec<Hunk> {
    let found = compare(before, after);
    let (old, new) = (lines(before), lines(after));
    assert_eq!((old.len(), new.len()), (count(before), count(after)));
    let (mut a, mut b) = (0, 0);
    for (number, Hunk { before, after }) in found.iter().enumerate() {
        let equal = before.start as usize - a;
        assert!(equal > 0 || number == 0, "two differences touch");
        assert!(!before.is_empty() || !after.is_empty(), "an empty difference");
        assert_eq!(after.start as usize - b, equal);
        assert!(old[a..a + equal] == new[b..b + equal], "lines differ before {before:?} {after:?}");
        (a, b) = (before.end as usize, after.end as usize);
    }
    assert!(old[a..] == new[b..], "lines differ at the end");
    found
}

/// Numbers as lines.
fn numbered(numbers: impl IntoIterator<Item = usize>) -> Vec<u8> {
    numbers.into_iter().flat_map(|number| format!("{number}\n").into_bytes()).collect()
}

fn ranges(found: &[Hunk]) -> Vec<(Range<u32>, Range<u32>)> {
    found.iter().map(|hunk| (hunk.before.clone(), hunk.after.clone())).collect()
}

#[test]
fn small_differences_are_exact() {
    assert_eq!(ranges(&checked(b"", b"a\nb")), [(0..0, 0..2)]);
    assert_eq!(ranges(&checked(b"a\nb\n", b"")), [(0..2, 0..0)]);
    assert_eq!(ranges(&checked(b"a\nb", b"a\nb\n")), [(1..2, 1..2)]);
    assert_eq!(ranges(&checked(b"a\r\nb\n", b"a\nb\n")), [(0..1, 0..1)]);
    assert_eq!(ranges(&checked(b"a\nx\n", b"a\nb\nx\n")), [(1..1, 1..2)]);
    // The new block is shown whole, although its last line is also the line before it.
    let before = b"if a {\n    b\n}\n\nif c {\n    d\n}\n";
    let after = b"if a {\n    b\n}\n\nif x {\n    y\n}\n\nif c {\n    d\n}\n";
    assert_eq!(ranges(&checked(before, after)), [(4..4, 4..8)]);
}

#[test]
fn random_texts_are_compared() {
    let mut random = Random(1);
    for round in 0..20_000 {
        let (kinds, length) = (1 + random.below(6), 1 + random.below(60));
        let text = |random: &mut Random| -> Vec<u8> {
            let length = random.below(length + 1);
            let words: [&[u8]; 6] = [b"}\n", b"\n", b"  x\n", b"\ty\n", b"a\n", b"z\r\n"];
            let mut text: Vec<u8> = (0..length).flat_map(|_| words[random.below(kinds)].to_vec()).collect();
            if random.below(3) == 0 {
                text.pop();
            }
            text
        };
        let (before, after) = (text(&mut random), text(&mut random));
        if before != after {
            assert!(!checked(&before, &after).is_empty(), "round {round}");
        }
    }
}

#[test]
fn random_large_texts_are_compared() {
    let mut random = Random(2);
    for _ in 0..40 {
        let (kinds, length) = (1 + random.below(20_000), 1 + random.below(20_000));
        let before: Vec<usize> = (0..length).map(|_| random.below(kinds)).collect();
        let mut after = before.clone();
        for _ in 0..random.below(200) {
            let at = random.below(after.len());
            let end = (at + random.below(100)).min(after.len());
            let new: Vec<_> = (0..random.below(100)).map(|_| random.below(kinds * 2)).collect();
            after.splice(at..end, new);
        }
        let (mut before, mut after) = (numbered(before), numbered(after));
        checked(&before, &after);
        before.pop();
        checked(&before, &after);
        after.pop();
        checked(&before, &after);
    }
}

#[test]
fn few_edits_of_a_large_text_are_few_differences() {
    let before = numbered(0..300_000);
    let after = numbered((0..300_000).map(|line| if line % 10_000 == 5 { line + 1_000_000 } else { line }));
    let expected: Vec<_> =
        (0..30).map(|edit| edit * 10_000 + 5..edit * 10_000 + 6).map(|line| (line.clone(), line)).collect();
    assert_eq!(ranges(&checked(&before, &after)), expected);
}

#[test]
fn the_worst_texts_take_seconds() {
    const LINES: usize = 400_000;
    let mut random = Random(3);
    let mut shuffled: Vec<usize> = (0..LINES).collect();
    for at in (1..LINES).rev() {
        shuffled.swap(at, random.below(at + 1));
    }
    let mut any = |kinds: usize| numbered((0..LINES).map(|_| random.below(kinds)).collect::<Vec<_>>());
    let texts = [
        ("other lines", numbered(0..MAX_LINES), numbered(MAX_LINES..2 * MAX_LINES)),
        ("every second line", numbered(0..LINES), numbered((0..LINES).map(|line| line + line % 2 * LINES))),
        ("reversed", numbered(0..LINES), numbered((0..LINES).rev())),
        ("shuffled", numbered(0..LINES), numbered(shuffled)),
        ("two kinds", any(2), any(2)),
        ("many kinds", any(LINES / 60), any(LINES / 60)),
        ("a period", numbered((0..LINES).map(|line| line % 62)), numbered((0..LINES).map(|line| line % 63))),
        ("too many lines", numbered(0..MAX_LINES + 1), numbered(MAX_LINES + 1..MAX_LINES + 9)),
        (
            "parts of the worst size",
            numbered((0..LINES).map(|line| if line % 2047 == 0 { line } else { line % 2 + random.below(2) })),
            numbered((0..LINES).map(|line| if line % 2047 == 0 { line } else { line % 2 + random.below(2) })),
        ),
    ];
    for (name, before, after) in texts {
        let start = Instant::now();
        let found = compare(&before, &after).len();
        let took = start.elapsed();
        println!("{name}: {found} differences, {took:?}");
        // A quadratic algorithm takes minutes.
        assert!(took < Duration::from_secs(30), "{name}: {took:?}");
    }
}
