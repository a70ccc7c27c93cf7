//! Tests of the search against a model that keeps everything and splits it into lines.

use super::assembler::LONGEST_LINE;
use super::model_tests::{Random, at};
use super::store::Shape;
use super::{FoundLine, FoundLines, From, LineQuery, Pattern, ProcessLog, SHAPE, WantedLine};
use crate::blocking::blocking;
use crate::error::Code;
use crate::exec::OutputStream::{self, Stderr, Stdout};
use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;
use tokio::time::timeout;

const ALL: LineQuery = LineQuery { from: 1, most: usize::MAX, is_tail: false, pattern: None, context: 0 };

/// A line with the offset of its first byte.
#[derive(Clone)]
struct Line {
    start: u64,
    end: u64,
    stream: OutputStream,
    bytes: Vec<u8>,
    is_open: bool,
}

/// Everything that was printed, byte by byte.
#[derive(Default)]
struct Model(Vec<(OutputStream, u8)>);

impl Model {
    fn lines(&self) -> Vec<Line> {
        let mut lines = Vec::new();
        let mut open: [Option<Line>; 2] = [None, None];
        for (at, (stream, byte)) in self.0.iter().enumerate() {
            let new = Line { start: at as u64, end: 0, stream: *stream, bytes: Vec::new(), is_open: true };
            let slot = &mut open[usize::from(*stream == Stderr)];
            let line = slot.get_or_insert(new);
            line.end = at as u64 + 1;
            if *byte == b'\n' {
                line.is_open = false;
                if line.bytes.last() == Some(&b'\r') {
                    line.bytes.pop();
                }
                lines.extend(slot.take());
            } else {
                line.bytes.push(*byte);
            }
        }
        let mut rest: Vec<Line> = open.into_iter().flatten().collect();
        rest.sort_by_key(|line| line.start);
        lines.extend(rest);
        lines
    }

    /// The reply to a query of a log of which everything from `first` on is kept.
    fn reply(&self, query: &LineQuery, first: u64, matches: impl Fn(&[u8]) -> bool) -> FoundLines {
        let lines = self.lines();
        let total = lines.len() as u64;
        let from = if query.from < 0 { (total as i64 + 1 + query.from).max(1) as u64 } else { query.from as u64 };
        let numbered = |(index, line): (usize, Line)| {
            // What is left of a line whose beginning was dropped.
            let is_cut = line.start < first;
            let bytes = match is_cut {
                false => line.bytes.clone(),
                true => {
                    let rest = self.0[first.min(line.end) as usize..line.end as usize].iter();
                    let mut bytes: Vec<u8> =
                        rest.filter(|(stream, _)| *stream == line.stream).map(|(_, byte)| *byte).collect();
                    if !line.is_open {
                        bytes.pop();
                        if bytes.last() == Some(&b'\r') {
                            bytes.pop();
                        }
                    }
                    bytes
                }
            };
            let is_match = query.pattern.is_some() && matches(&bytes);
            let number = index as u64 + 1;
            (line.end, FoundLine { number, stream: line.stream, bytes, is_cut, is_open: line.is_open, is_match })
        };
        let kept: Vec<FoundLine> = lines
            .into_iter()
            .enumerate()
            .map(numbered)
            .filter(|(end, line)| (*end > first || line.is_open) && line.number + query.context as u64 >= from)
            .map(|(_, line)| line)
            .collect();
        // The context of a match before `from` belongs to the reply.
        let count = kept.iter().filter(|line| line.is_match && line.number >= from).count() as u64;
        let around = |number: u64| number.saturating_sub(query.context as u64)..=number + query.context as u64;
        let near: HashSet<u64> =
            kept.iter().filter(|line| line.is_match).flat_map(|line| around(line.number)).collect();
        let is_wanted =
            |line: &&FoundLine| line.number >= from && (query.pattern.is_none() || near.contains(&line.number));
        let mut wanted: Vec<FoundLine> = kept.iter().filter(is_wanted).cloned().collect();
        let mut next = None;
        if query.is_tail {
            let last = wanted.iter().rposition(|line| line.is_match).unwrap_or(wanted.len());
            wanted.truncate(last + query.most.min(wanted.len()));
            wanted.drain(..wanted.len().saturating_sub(query.most));
        } else if let Some(line) = wanted.get(query.most) {
            next = Some(line.number);
            wanted.truncate(query.most);
        }
        let dropped = self.0[..first as usize].iter().filter(|(_, byte)| *byte == b'\n').count() as u64;
        let matches = query.pattern.is_some().then_some(count);
        FoundLines { lines: wanted, total, first: dropped + 1, matches, next }
    }
}

/// What is left of a line in which each part after a carriage return overwrites the beginning.
fn overwritten(line: &str) -> String {
    let parts: Vec<Vec<char>> = line.split('\r').map(|part| part.chars().collect()).collect();
    let longest = parts.iter().map(Vec::len).max().unwrap_or(0);
    (0..longest).filter_map(|column| parts.iter().rev().find_map(|part| part.get(column))).collect()
}

/// A reply, and the offset of the first byte that is kept. Blocks that are being written may still drop others.
async fn settled(log: &ProcessLog, query: &LineQuery) -> (u64, FoundLines) {
    let first = || {
        let store = log.shared.store.lock();
        store.end() - store.kept()
    };
    loop {
        let before = first();
        let reply = log.lines(query.clone()).await.unwrap();
        if first() == before {
            return (before, reply);
        }
    }
}

#[tokio::test]
async fn every_reply_is_what_the_model_says() {
    let directory = tempfile::tempdir().unwrap();
    for seed in 0..60 {
        let mut random = Random(seed);
        let shape = Shape { block_size: 64 + random.below(300) as usize, memory_blocks: random.below(3) as usize };
        let limit = if random.below(2) == 0 { 1 << 20 } else { random.below(2000) };
        let log = ProcessLog::with_shape(&at(directory.path()), limit, shape);
        let mut model = Model::default();
        for _ in 0..40 {
            let stream = if random.below(3) == 0 { Stderr } else { Stdout };
            let alphabet = b"ab\n\r\n\0\xff\xc3\xa9xyz      ";
            let length = random.below(120);
            let bytes: Vec<u8> = (0..length).map(|_| alphabet[random.below(alphabet.len() as u64) as usize]).collect();
            log.room().await;
            log.push(stream, &bytes);
            model.0.extend(bytes.iter().map(|byte| (stream, *byte)));
            let total = model.lines().len() as u64;
            let number = random.below(total + 3) as i64;
            let query = LineQuery {
                from: if random.below(3) == 0 { -number - 1 } else { number + 1 },
                most: if random.below(2) == 0 { 1 + random.below(10) as usize } else { usize::MAX },
                is_tail: random.below(2) == 0,
                pattern: (random.below(2) == 0).then(|| "ab".into()),
                context: random.below(4) as usize,
            };
            let (first, reply) = settled(&log, &query).await;
            let expected = model.reply(&query, first, |line| {
                let line = String::from_utf8_lossy(line);
                line.contains("ab") || overwritten(&line).contains("ab")
            });
            assert_eq!(reply, expected, "seed {seed}, {query:?}, first {first}");
        }
    }
}

#[tokio::test]
async fn a_lost_block_leaves_the_numbers_of_the_others() {
    let log =
        ProcessLog::with_shape(&at(Path::new("/dev/null/none")), 1 << 20, Shape { block_size: 64, memory_blocks: 1 });
    log.push(Stderr, b"begun");
    for number in 2..100 {
        log.room().await;
        log.push(Stdout, format!("line {number}\n").as_bytes());
    }
    log.push(Stderr, b" ended");
    // The number of a line that has no newline is the last.
    let lines = log.lines(ALL).await.unwrap();
    assert_eq!(lines.total, 99);
    assert!(lines.lines.len() < 90, "blocks were lost");
    for line in lines.lines.iter().filter(|line| line.stream == Stdout && !line.is_cut) {
        assert_eq!(line.bytes, format!("line {}", line.number + 1).into_bytes());
    }
    let last = lines.lines.last().unwrap();
    assert!(last.is_cut && last.is_open && last.bytes.ends_with(b" ended"));
}

#[tokio::test]
async fn a_reply_is_bounded_and_says_where_to_go_on() {
    let directory = tempfile::tempdir().unwrap();
    let log = ProcessLog::new(&at(directory.path()), 64 << 20);
    let long = format!("x{}", "é".repeat(100_000));
    log.push(Stdout, format!("{long}\nshort\n").as_bytes());
    let lines = log.lines(ALL).await.unwrap().lines;
    assert!(lines[0].is_cut && lines[0].bytes.len() == 65_535 && lines[1].bytes == b"short");
    let log = ProcessLog::new(&at(directory.path()), 64 << 20);
    for number in 0..40 {
        log.push(Stdout, format!("{number} {}\n", "x".repeat(50_000)).as_bytes());
    }
    let reply = log.lines(ALL).await.unwrap();
    assert_eq!((reply.lines.len(), reply.next), (20, Some(21)));
    let reply = log.lines(LineQuery { from: 21, ..ALL }).await.unwrap();
    assert_eq!((reply.lines.len(), reply.next), (20, None));
    let reply = log.lines(LineQuery { is_tail: true, ..ALL }).await.unwrap();
    assert_eq!((reply.lines[0].number, reply.lines.len(), reply.next), (21, 20, None));
}

#[tokio::test]
async fn pages_have_every_match_with_all_of_its_context() {
    let directory = tempfile::tempdir().unwrap();
    let log = ProcessLog::new(&at(directory.path()), 1 << 20);
    for number in 1..=200 {
        log.push(Stdout, format!("{number}\n").as_bytes());
    }
    let query = LineQuery { pattern: Some("7$".into()), context: 2, ..ALL };
    let all = log.lines(query.clone()).await.unwrap().lines;
    assert_eq!(all.len(), 100);
    for most in 1..12 {
        let (mut paged, mut next) = (Vec::new(), Some(1));
        while let Some(from) = next {
            let page = log.lines(LineQuery { from: from as i64, most, ..query.clone() }).await.unwrap();
            paged.extend(page.lines);
            next = page.next;
        }
        assert_eq!(paged, all, "pages of {most}");
    }
}

#[tokio::test]
async fn the_last_lines_have_the_last_match() {
    let directory = tempfile::tempdir().unwrap();
    let log = ProcessLog::new(&at(directory.path()), 64 << 20);
    log.push(Stdout, b"a\nmatch\nb\nc\nd\n");
    let query = LineQuery { pattern: Some("match".into()), context: 3, is_tail: true, ..ALL };
    for (most, expected) in [(1, 2..=2), (2, 2..=3), (4, 2..=5), (5, 1..=5)] {
        let lines = log.lines(LineQuery { most, ..query.clone() }).await.unwrap().lines;
        assert_eq!(lines.iter().map(|line| line.number).collect::<Vec<_>>(), expected.collect::<Vec<u64>>());
    }
    let long = format!("{}\n", "x".repeat(60_000));
    log.push(Stdout, format!("match\n{}", long.repeat(30)).as_bytes());
    let lines = log.lines(LineQuery { context: 100, ..query }).await.unwrap().lines;
    assert!(lines[0].is_match && lines.len() == 18, "{} lines", lines.len());
}

fn wanted(pattern: &str) -> WantedLine {
    WantedLine { pattern: Pattern::Expression(pattern.into()), option: "log", from: From::Line(1) }
}

/// A log, and an expression that takes longer in it than any test.
fn slow(directory: &Path) -> (ProcessLog, &'static str) {
    let log = ProcessLog::new(&at(directory), 64 << 20);
    let line = format!("{}\n", "a".repeat(1000));
    log.push(Stdout, line.repeat(8000).as_bytes());
    (log, "(?:.?){120}Z")
}

#[test]
fn searches_leave_threads_for_other_work_and_end_with_their_callers() {
    const THREADS: usize = 8;
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_time().max_blocking_threads(THREADS).build().unwrap();
    let directory = tempfile::tempdir().unwrap();
    runtime.block_on(async {
        let (log, pattern) = slow(directory.path());
        let query = LineQuery { pattern: Some(pattern.into()), ..ALL };
        let searches: Vec<_> = (0..2 * THREADS)
            .map(|number| {
                let (log, query) = (log.clone(), query.clone());
                tokio::spawn(async move {
                    match number % 2 {
                        0 => drop(log.find_line(&wanted(pattern)).await),
                        _ => drop(log.lines(query).await),
                    }
                })
            })
            .collect();
        tokio::time::sleep(Duration::from_millis(100)).await;
        let other = timeout(Duration::from_secs(10), blocking(|| Ok("other work"))).await;
        assert_eq!(other.expect("a thread is left").unwrap(), "other work");
        for search in &searches {
            search.abort();
        }
        // Now a quick search has its turn at once.
        let quick =
            timeout(Duration::from_secs(10), log.find_line(&wanted("^a"))).await.expect("the others have ended");
        assert_eq!(quick.unwrap().unwrap().0.number, 1);
    });
}

#[tokio::test]
async fn a_search_that_takes_too_long_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let (log, pattern) = slow(directory.path());
    let lines = log.lines(LineQuery { pattern: Some(pattern.into()), ..ALL }).await.unwrap_err();
    assert!(lines.code == Code::InvalidOption && lines.message.starts_with("grep takes more than"), "{lines}");
    let line = log.find_line(&wanted(pattern)).await.unwrap_err();
    assert!(line.code == Code::InvalidOption && line.message.starts_with("log takes more than"), "{line}");
}

#[tokio::test]
async fn an_expression_that_is_none_or_too_large_is_refused() {
    let log = ProcessLog::with_shape(&at(Path::new("/dev/null/nonexistent")), 1 << 20, SHAPE);
    for pattern in ["(", "a{3000}{300}", "(?=a)", &"(".repeat(100)] {
        let error = log.lines(LineQuery { pattern: Some(pattern.into()), ..ALL }).await.unwrap_err();
        assert!(error.code == Code::InvalidOption && error.message.starts_with("grep must be"), "{error}");
    }
}

#[tokio::test]
async fn a_wait_finds_a_place_in_a_line_of_any_length_and_from_an_offset() {
    let directory = tempfile::tempdir().unwrap();
    for before in [0, 100, LONGEST_LINE - 9, LONGEST_LINE - 1, LONGEST_LINE, 200_000] {
        let log = ProcessLog::new(&at(directory.path()), 64 << 20);
        for piece in [&("x".repeat(before) + " nee"), "dle", " ", &"y".repeat(100_000), "\nafter\n"] {
            log.push(Stdout, piece.as_bytes());
        }
        let (line, place) = log.find_line(&wanted(" need(le)")).await.unwrap().unwrap();
        let [Some((start, end)), Some(group)] = place.spans[..] else { panic!("{place:?}") };
        assert_eq!((&line.bytes[start..end], group), (&b" needle"[..], (end - 2, end)), "{before}");
        assert!(line.bytes.len() <= LONGEST_LINE && line.is_cut);
        let after = WantedLine { from: From::Offset(before as u64 + 2), ..wanted("^(eedle|after)") };
        assert!(log.find_line(&after).await.unwrap().unwrap().0.bytes.starts_with(b"eedle "));
        let after = WantedLine { from: From::Offset(before as u64 + 3), ..wanted("^(eedle|after)") };
        assert_eq!(log.find_line(&after).await.unwrap().unwrap().0.bytes, b"after");
    }
    let log = ProcessLog::new(&at(directory.path()), 64 << 20);
    log.push(Stdout, b"open");
    let late = WantedLine { from: From::Offset(6), ..wanted("") };
    assert!(timeout(Duration::from_millis(200), log.find_line(&late)).await.is_err());
    let push = async {
        log.push(Stdout, b"x\n");
        tokio::task::yield_now().await;
        log.push(Stdout, b"next\n");
    };
    let (found, ()) = tokio::join!(log.find_line(&late), push);
    assert_eq!(found.unwrap().unwrap().0.bytes, b"next");
}
