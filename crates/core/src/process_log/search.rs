//! Reads a log by lines: from a number on, at the end, or those that match an expression.
//!
//! A search runs on a thread that may block, reads one block after another, and ends when its caller has gone.

use super::lines::{Assembler, LONGEST_LINE, Line, Lines, first_line};
use super::{ProcessLog, store::Part};
use crate::blocking::blocking;
use crate::error::{Code, Error};
use crate::exec::OutputStream;
use regex_lite::{Regex, RegexBuilder};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// Maximum bytes of all lines of a reply.
const MOST_BYTES: usize = 1 << 20;
/// Maximum bytes of a compiled expression. The time of a search is proportional to it.
const MOST_PATTERN_BYTES: usize = 64 * 1024;
/// Maximum depth of groups in an expression.
const MOST_NESTED: u32 = 50;
/// Maximum time of a search.
const MOST_TIME: Duration = Duration::from_secs(30);

/// Time without output after which a line without a newline counts for [`ProcessLog::find_line`].
const QUIET: Duration = Duration::from_millis(50);

/// Which lines to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineQuery {
    /// The number of the first line; a negative one counts from the end. Not 0.
    pub from: i64,
    /// Maximum lines of the reply.
    pub most: usize,
    /// The last lines instead of the first.
    pub is_tail: bool,
    /// Only lines that match this expression.
    pub pattern: Option<String>,
    /// Lines before and after each match.
    pub context: usize,
}

/// A line of a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundLine {
    /// Its number, from 1.
    pub number: u64,
    /// Its stream.
    pub stream: OutputStream,
    /// Without its line ending.
    pub bytes: Vec<u8>,
    /// Bytes are missing: they were dropped or lost, or the line is too long.
    pub is_cut: bool,
    /// It has no newline yet.
    pub is_open: bool,
    /// It matches. False for context, and without an expression.
    pub is_match: bool,
}

/// The reply to a query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundLines {
    /// In order.
    pub lines: Vec<FoundLine>,
    /// The number of lines of the whole log.
    pub total: u64,
    /// The first line of which something is kept.
    pub first: u64,
    /// How many lines from `from` on match; `None` without an expression.
    pub matches: Option<u64>,
    /// The first line that was left out because of the limits. `None` for the last lines.
    pub next: Option<u64>,
}

impl ProcessLog {
    /// Reads lines of the log as it is now.
    ///
    /// # Errors
    /// `INVALID_OPTION` for an expression that is not one, that is too large, or whose search takes too long.
    pub async fn lines(&self, query: LineQuery) -> Result<FoundLines, Error> {
        let caller = Arc::new(AtomicBool::new(true));
        let (log, present) = (self.clone(), Arc::clone(&caller));
        let _leaving = Leaving(caller);
        blocking(move || Search::new(&log, &query)?.run(&present)).await
    }

    /// Waits for a line that matches an expression, from line `from` on; `None` when the log has ended without. A line
    /// without a newline counts at the end, and when no output has followed it for a moment. Cancel-safe.
    ///
    /// # Errors
    /// `INVALID_OPTION` for an expression that is not one, or that is too large.
    pub async fn find_line(&self, pattern: &str, from: i64) -> Result<Option<FoundLine>, Error> {
        let pattern = compile(pattern, "log")?;
        let mut follower = {
            let store = self.store();
            let from = first_wanted(from, store.lines().count());
            Follower { assembler: Assembler::new(), cursor: store.offset_before(from), from, pattern }
        };
        let mut is_quiet = false;
        loop {
            // Read before the store: if the log has already ended, the store is complete.
            let has_ended = self.has_ended();
            let log = self.clone();
            let found;
            (follower, found) = blocking(move || {
                let found = follower.advance(&log, is_quiet || has_ended);
                Ok((follower, found))
            })
            .await?;
            if found.is_some() || has_ended {
                return Ok(found);
            }
            let more = self.wait(follower.cursor);
            is_quiet = match is_quiet {
                true => {
                    more.await;
                    false
                }
                false => timeout(QUIET, more).await.is_err(),
            };
        }
    }

    fn part(&self, cursor: u64) -> Option<Part> {
        self.store().part(cursor)
    }
}

/// The number of the first line that a caller wants of so many lines. A negative number counts from the end.
fn first_wanted(from: i64, total: u64) -> u64 {
    u64::try_from(from).unwrap_or_else(|_| (total + 1).saturating_sub(from.unsigned_abs()).max(1))
}

/// Looks for a line in a log that grows.
struct Follower {
    assembler: Assembler,
    cursor: u64,
    from: u64,
    pattern: Regex,
}

impl Follower {
    /// The first line that matches in what is new. May block.
    fn advance(&mut self, log: &ProcessLog, counts_open: bool) -> Option<FoundLine> {
        let (lines, end) = {
            let store = log.store();
            (store.lines(), store.end())
        };
        let mut match_found = None;
        let mut take = |line: Line<'_>| {
            if line.number >= self.from && self.pattern.is_match(&String::from_utf8_lossy(line.bytes)) {
                match_found = Some(found(line, true));
            }
            match_found.is_none()
        };
        let mut goes_on = true;
        while goes_on && let Some(part) = log.part(self.cursor).filter(|part| part.start() < end) {
            self.cursor = part.end().min(end);
            goes_on = self.assembler.add(part, end, &mut take);
            if self.cursor == end {
                break;
            }
        }
        self.cursor = end;
        if goes_on && counts_open {
            self.assembler.finish(end, &lines, &mut take);
        }
        match_found
    }
}

/// Ends the search of a caller that has gone.
struct Leaving(Arc<AtomicBool>);

impl Drop for Leaving {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

struct Search<'a> {
    log: &'a ProcessLog,
    cursor: u64,
    end: u64,
    lines: Lines,
    selection: Selection,
}

impl<'a> Search<'a> {
    fn new(log: &'a ProcessLog, query: &LineQuery) -> Result<Self, Error> {
        let pattern = query.pattern.as_deref().map(|pattern| compile(pattern, "grep")).transpose()?;
        let store = log.store();
        let (lines, end) = (store.lines(), store.end());
        let total = lines.count();
        let mut from = first_wanted(query.from, total);
        if query.is_tail && pattern.is_none() {
            from = from.max((total + 1).saturating_sub(query.most as u64));
        }
        let cursor = store.offset_before(from);
        drop(store);
        let matches = pattern.is_some().then_some(0);
        let reply = FoundLines { total, matches, ..FoundLines::default() };
        let selection = Selection {
            from,
            most: query.most,
            is_tail: query.is_tail,
            pattern,
            context: query.context,
            before: VecDeque::new(),
            after: 0,
            found: VecDeque::new(),
            bytes: 0,
            reply,
        };
        Ok(Self { log, cursor, end, lines, selection })
    }

    fn run(mut self, is_wanted: &AtomicBool) -> Result<FoundLines, Error> {
        self.selection.reply.first = match self.log.part(0) {
            Some(part) => first_line(part),
            None => self.lines.complete + 1,
        };
        let begun = Instant::now();
        let mut assembler = Assembler::new();
        while let Some(part) = self.log.part(self.cursor).filter(|part| part.start() < self.end) {
            self.cursor = part.end();
            if !assembler.add(part, self.end, |line| self.selection.take(line)) {
                return Ok(self.selection.finish());
            }
            if !is_wanted.load(Ordering::Relaxed) {
                break;
            }
            if self.selection.pattern.is_some() && begun.elapsed() > MOST_TIME {
                let message =
                    "grep takes more than 30 s in this log: search for something simpler, or from a later line";
                return Err(Error::new(Code::InvalidOption, message));
            }
        }
        assembler.finish(self.end, &self.lines, |line| self.selection.take(line));
        Ok(self.selection.finish())
    }
}

/// Takes lines that a query asks for.
struct Selection {
    from: u64,
    most: usize,
    is_tail: bool,
    pattern: Option<Regex>,
    context: usize,
    /// The last lines, in case that the next one matches.
    before: VecDeque<FoundLine>,
    /// How many lines after the last match are still to come.
    after: usize,
    found: VecDeque<FoundLine>,
    bytes: usize,
    reply: FoundLines,
}

impl Selection {
    /// Returns whether there is more to do.
    fn take(&mut self, line: Line<'_>) -> bool {
        if line.number < self.from {
            return true;
        }
        let Some(pattern) = &self.pattern else {
            self.keep(found(line, false));
            return self.reply.next.is_none();
        };
        if pattern.is_match(&String::from_utf8_lossy(line.bytes)) {
            self.reply.matches = self.reply.matches.map(|count| count + 1);
            for line in std::mem::take(&mut self.before) {
                self.keep(line);
            }
            self.keep(found(line, true));
            self.after = self.context;
        } else if self.after > 0 {
            self.after -= 1;
            self.keep(found(line, false));
        } else if self.context > 0 && self.reply.next.is_none() {
            if self.before.len() == self.context {
                self.before.pop_front();
            }
            self.before.push_back(found(line, false));
        }
        // The matches are counted to the end.
        true
    }

    fn keep(&mut self, line: FoundLine) {
        if self.reply.next.is_some() {
            return;
        }
        let is_over = |found: &VecDeque<_>, bytes| found.len() > self.most || bytes > MOST_BYTES;
        let number = line.number;
        self.bytes += line.bytes.len();
        self.found.push_back(line);
        if !self.is_tail {
            if is_over(&self.found, self.bytes) {
                self.found.pop_back();
                self.reply.next = Some(number);
            }
            return;
        }
        while is_over(&self.found, self.bytes) {
            self.bytes -= self.found.pop_front().map_or(0, |line| line.bytes.len());
        }
    }

    fn finish(self) -> FoundLines {
        FoundLines { lines: self.found.into(), ..self.reply }
    }
}

fn found(line: Line<'_>, is_match: bool) -> FoundLine {
    let Line { number, stream, bytes, is_cut, is_open } = line;
    let kept = if bytes.len() < LONGEST_LINE { bytes } else { whole_characters(bytes) };
    FoundLine { number, stream, bytes: kept.to_vec(), is_cut, is_open, is_match }
}

/// The bytes without a character of UTF-8 at their end of which a part is missing.
fn whole_characters(bytes: &[u8]) -> &[u8] {
    let most = bytes.len().min(4);
    let start = (1..=most).find(|back| bytes[bytes.len() - back] & 0xc0 != 0x80).map_or(0, |back| bytes.len() - back);
    match std::str::from_utf8(&bytes[start..]) {
        Err(error) if error.error_len().is_none() => &bytes[..start],
        _ => bytes,
    }
}

/// `option`: for messages.
fn compile(pattern: &str, option: &str) -> Result<Regex, Error> {
    let built = RegexBuilder::new(pattern).size_limit(MOST_PATTERN_BYTES).nest_limit(MOST_NESTED).build();
    built.map_err(|error| {
        let message = format!(
            "{option} must be a regular expression without look-around and backreferences, as of the Rust crate regex: {error}"
        );
        Error::new(Code::InvalidOption, message)
    })
}
