//! Reads a log by lines: from a number on, at the end, or those that match an expression.
//!
//! See [`Scan`] for what a search costs others.

use super::assembler::{LONGEST_LINE, Line, first_line};
use super::matcher::{Match, Matcher, Pattern};
use super::scan::{Extent, Scan, Taker};
use super::{ProcessLog, store::Part};
use crate::blocking::blocking;
use crate::error::Error;
use crate::exec::OutputStream;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::time::timeout;

/// Maximum bytes of all lines of a reply.
const MOST_BYTES: usize = 1 << 20;

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
    /// Lines before and after each match, also after matches before `from`.
    pub context: usize,
}

/// A line to wait for.
#[derive(Clone, Debug)]
pub struct WantedLine {
    /// What it contains.
    pub pattern: Pattern,
    /// The option with the pattern, for messages.
    pub option: &'static str,
    /// Where to begin.
    pub from: From,
}

/// Where a search begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// With this line; see [`LineQuery::from`].
    Line(i64),
    /// At this offset in the log, as if a line began there.
    Offset(u64),
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
        let log = self.clone();
        let (scan, extent) = blocking(move || Selection::of(&log, &query)).await?;
        Ok(scan.advance(extent).await?.taker.finish())
    }

    /// Waits for a line that matches; `None` when the log has ended without. A line without a newline counts at the end, and
    /// when no output has followed it for a moment. Cancel-safe.
    ///
    /// # Errors
    /// `INVALID_OPTION` for an expression that is not one, that is too large, or whose search takes too long: a search
    /// that has reached the end of the log, and waits for more, has all of its time again.
    pub async fn find_line(&self, wanted: &WantedLine) -> Result<Option<(FoundLine, Match)>, Error> {
        let WantedLine { pattern, option, from } = wanted;
        let first = FirstMatch { matcher: Matcher::new(pattern, option)?, option, found: None };
        let mut scan = match from {
            From::Offset(offset) => Scan::at(self, *offset, first),
            From::Line(line) => {
                let store = self.shared.store.lock();
                Scan::new(self, &store, first_wanted(*line, store.lines().count()), first)
            }
        };
        let mut is_quiet = false;
        loop {
            // Read before the store: if the log has already ended, the store is complete.
            let has_ended = self.has_ended();
            let extent = self.extent(is_quiet || has_ended);
            scan = scan.advance(extent).await?;
            if scan.taker.found.is_some() || has_ended {
                return Ok(scan.taker.found);
            }
            let more = self.wait(scan.cursor());
            is_quiet = match is_quiet {
                true => {
                    more.await;
                    false
                }
                false => timeout(QUIET, more).await.is_err(),
            };
        }
    }

    /// The whole log as it is now.
    fn extent(&self, counts_open: bool) -> Extent {
        let store = self.shared.store.lock();
        Extent { end: store.end(), lines: store.lines(), counts_open }
    }

    pub(super) fn part(&self, cursor: u64) -> Option<Part> {
        self.shared.store.lock().part(cursor)
    }
}

/// The number of the first line that a caller wants of so many lines. A negative number counts from the end.
fn first_wanted(from: i64, total: u64) -> u64 {
    u64::try_from(from).unwrap_or_else(|_| (total + 1).saturating_sub(from.unsigned_abs()).max(1))
}

/// Takes lines until one matches.
struct FirstMatch {
    matcher: Matcher,
    option: &'static str,
    found: Option<(FoundLine, Match)>,
}

impl Taker for FirstMatch {
    const TAKES_PARTS: bool = true;

    fn take(&mut self, line: Line<'_>) -> bool {
        // Of a line that began before the offset of the search, nothing may have arrived since.
        if !(line.is_open && line.bytes.is_empty()) {
            self.found = self.matcher.find(&line).map(|place| (found(line, true), place));
        }
        self.found.is_none()
    }

    fn expression(&self) -> Option<&str> {
        Some(self.option)
    }
}

/// Takes lines that a query asks for.
struct Selection {
    from: u64,
    most: usize,
    is_tail: bool,
    matcher: Option<Matcher>,
    context: usize,
    /// The last lines, in case that the next one matches.
    before: VecDeque<FoundLine>,
    /// How many lines after the last match are still to come.
    after: usize,
    found: VecDeque<FoundLine>,
    /// How many of the last lines found begin with the last match.
    since_match: usize,
    bytes: usize,
    reply: FoundLines,
}

impl Selection {
    /// The scan for a query. May block.
    fn of(log: &ProcessLog, query: &LineQuery) -> Result<(Scan<Self>, Extent), Error> {
        let pattern = query.pattern.clone().map(Pattern::Expression);
        let matcher = pattern.map(|pattern| Matcher::new(&pattern, "grep")).transpose()?;
        let oldest = log.part(0).map(first_line);
        let store = log.shared.store.lock();
        let (lines, end) = (store.lines(), store.end());
        let total = lines.count();
        let mut from = first_wanted(query.from, total);
        if query.is_tail && matcher.is_none() {
            from = from.max((total + 1).saturating_sub(query.most as u64));
        }
        // Lines of the context of an earlier match belong to the reply, as in a reply that goes on after another.
        let begin = from.saturating_sub(if matcher.is_some() { query.context as u64 } else { 0 }).max(1);
        let matches = matcher.is_some().then_some(0);
        let first = oldest.unwrap_or(lines.complete + 1);
        let selection = Self {
            from,
            most: query.most,
            is_tail: query.is_tail,
            matcher,
            context: query.context,
            before: VecDeque::new(),
            after: 0,
            found: VecDeque::new(),
            since_match: 0,
            bytes: 0,
            reply: FoundLines { total, first, matches, ..FoundLines::default() },
        };
        Ok((Scan::new(log, &store, begin, selection), Extent { end, lines, counts_open: true }))
    }

    fn keep(&mut self, line: FoundLine) {
        if self.reply.next.is_some() || line.number < self.from {
            return;
        }
        let number = line.number;
        self.bytes += line.bytes.len();
        if line.is_match {
            self.since_match = 1;
        } else if self.since_match > 0 {
            self.since_match += 1;
        }
        self.found.push_back(line);
        if self.is_tail {
            // The last match stays, whatever its context is.
            while self.is_over() && self.found.len() > self.since_match {
                self.bytes -= self.found.pop_front().map_or(0, |line| line.bytes.len());
            }
        } else if self.is_over() {
            self.found.pop_back();
            self.reply.next = Some(number);
        }
    }

    fn is_over(&self) -> bool {
        self.found.len() > self.most || self.bytes > MOST_BYTES
    }

    fn finish(mut self) -> FoundLines {
        while self.is_tail && self.is_over() {
            self.bytes -= self.found.pop_back().map_or(0, |line| line.bytes.len());
        }
        FoundLines { lines: self.found.into(), ..self.reply }
    }
}

impl Taker for Selection {
    const TAKES_PARTS: bool = false;

    fn take(&mut self, line: Line<'_>) -> bool {
        let Some(matcher) = &self.matcher else {
            self.keep(found(line, false));
            return self.reply.next.is_none();
        };
        if matcher.matches(&line) {
            if line.number >= self.from {
                self.reply.matches = self.reply.matches.map(|count| count + 1);
            }
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

    fn expression(&self) -> Option<&str> {
        self.matcher.as_ref().map(|_| "grep")
    }
}

fn found(line: Line<'_>, is_match: bool) -> FoundLine {
    let Line { number, stream, bytes, is_cut, is_open, .. } = line;
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
