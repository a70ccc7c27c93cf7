//! Tests lines with a text or a regular expression, as they are and as a terminal shows them.
//!
//! The time of a test is at most proportional to the line times the size of the expression, whatever either is. Programs
//! print colors, links and progress bars, which an expression does not expect. So a line that does not match as it is
//! counts once more without its escape sequences, and without what a carriage return or a backspace has overwritten.

use super::assembler::Line;
use crate::error::{Code, Error};
use memchr::{memchr3, memmem};
use regex_lite::{Captures, Regex, RegexBuilder};
use std::iter::Peekable;
use std::str::Chars;

/// Maximum bytes of a compiled expression. The time of a search is proportional to it.
const MOST_BYTES: usize = 64 * 1024;
/// Maximum depth of groups in an expression.
const MOST_NESTED: u32 = 50;

const ESCAPE: char = '\x1b';
const BELL: char = '\x07';

/// What a line must contain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// This text.
    Text(String),
    /// A match of this expression, in the syntax of the crate regex-lite.
    Expression(String),
}

/// Where an expression matches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Match {
    /// The text that matches; `None` for the line as it is.
    pub input: Option<String>,
    /// The beginning and the end in that text, in units of UTF-16: of the match and of each group. `None` for a group without
    /// part in the match.
    pub spans: Vec<Option<(usize, usize)>>,
}

/// A compiled [`Pattern`].
pub enum Matcher {
    Text(String),
    Expression(Regex),
}

impl Matcher {
    /// `option`: for messages.
    ///
    /// # Errors
    /// `INVALID_OPTION` for an expression that is not one, or that is too large.
    pub fn new(pattern: &Pattern, option: &str) -> Result<Self, Error> {
        let expression = match pattern {
            Pattern::Text(text) => return Ok(Self::Text(text.clone())),
            Pattern::Expression(expression) => expression,
        };
        let built = RegexBuilder::new(expression).size_limit(MOST_BYTES).nest_limit(MOST_NESTED).build();
        built.map(Self::Expression).map_err(|error| {
            let message = format!(
                "{option} must be a regular expression without look-around and backreferences, as of the Rust crate regex-lite: {error}"
            );
            Error::new(Code::InvalidOption, message)
        })
    }

    /// Whether a line matches.
    pub fn matches(&self, line: &Line<'_>) -> bool {
        let is_match = |text: &str| match self {
            Self::Text(wanted) => memmem::find(text.as_bytes(), wanted.as_bytes()).is_some(),
            Self::Expression(expression) => expression.is_match(text),
        };
        first_of(line, |text| is_match(text).then_some(())).is_some()
    }

    /// Where a line matches, if it does.
    pub fn find(&self, line: &Line<'_>) -> Option<Match> {
        // Most lines do not match, and a test is quicker than a search.
        if !self.matches(line) {
            return None;
        }
        let Self::Expression(expression) = self else { return Some(Match::default()) };
        let (input, spans) = first_of(line, |text| expression.captures(text).map(|found| spans(text, &found)))?;
        Some(Match { input, spans })
    }
}

fn spans(text: &str, found: &Captures<'_>) -> Vec<Option<(usize, usize)>> {
    let units = |end: usize| text[..end].chars().map(char::len_utf16).sum();
    found.iter().map(|group| group.map(|group| (units(group.start()), units(group.end())))).collect()
}

/// The first result for a line: as it is, as a terminal shows it, and without what is before the last carriage return.
/// With the text, unless it is the line as it is.
fn first_of<T>(line: &Line<'_>, test: impl Fn(&str) -> Option<T>) -> Option<(Option<String>, T)> {
    let raw = String::from_utf8_lossy(whole(line));
    if let Some(found) = test(&raw) {
        return Some((None, found));
    }
    let shown = Shown::of(&raw)?;
    let texts = [Some(shown.text()), shown.last];
    texts.into_iter().flatten().find_map(|text| test(&text).map(|found| (Some(text), found)))
}

/// Without the end of a character whose beginning is missing, as readers get the line.
fn whole<'a>(line: &Line<'a>) -> &'a [u8] {
    let is_rest = |byte: &&u8| **byte & 0xc0 == 0x80;
    let rest = if line.is_cut { line.bytes.iter().take(3).take_while(is_rest).count() } else { 0 };
    &line.bytes[rest..]
}

/// A line as a terminal shows it.
#[derive(Default)]
struct Shown {
    cells: Vec<char>,
    column: usize,
    /// What followed the last carriage return before a character.
    last: Option<String>,
    /// The next character begins `last`.
    has_returned: bool,
}

impl Shown {
    /// `None` if that is the line itself.
    fn of(line: &str) -> Option<Self> {
        memchr3(ESCAPE as u8, b'\r', 0x08, line.as_bytes())?;
        let mut shown = Self::default();
        let mut rest = line.chars().peekable();
        while let Some(char) = rest.next() {
            match char {
                ESCAPE => shown.obey(&mut rest),
                '\r' => shown.go_to_begin(),
                '\x08' => shown.column = shown.column.saturating_sub(1),
                _ => shown.put(char),
            }
        }
        Some(shown)
    }

    fn text(&self) -> String {
        self.cells.iter().collect()
    }

    fn put(&mut self, char: char) {
        match self.cells.get_mut(self.column) {
            Some(cell) => *cell = char,
            None => self.cells.push(char),
        }
        self.column += 1;
        if std::mem::take(&mut self.has_returned) {
            self.last = Some(String::new());
        }
        if let Some(last) = &mut self.last {
            last.push(char);
        }
    }

    fn go_to_begin(&mut self) {
        self.column = 0;
        self.has_returned = !self.cells.is_empty();
    }

    /// Removes an escape sequence. The column stays within the cells, so that each step takes a time that the line has paid for.
    fn obey(&mut self, rest: &mut Peekable<Chars<'_>>) {
        match rest.next_if(|char| matches!(char, ' '..='~')) {
            Some('[') => {
                let parameters: String =
                    std::iter::from_fn(|| rest.next_if(|char| matches!(char, ' '..='?'))).collect();
                match (rest.next_if(|char| matches!(char, '@'..='~')), &parameters[..]) {
                    (Some('G'), "" | "0" | "1") => self.go_to_begin(),
                    (Some('K'), "" | "0") => self.cells.truncate(self.column),
                    (Some('K'), "2") => {
                        self.go_to_begin();
                        self.cells.clear();
                    }
                    _ => {}
                }
            }
            // Titles, links, and strings for devices.
            Some(']' | 'P' | 'X' | '^' | '_') => skip_string(rest),
            Some(' '..='/') => {
                while rest.next_if(|char| matches!(char, ' '..='/')).is_some() {}
                rest.next_if(|char| matches!(char, '0'..='~'));
            }
            _ => {}
        }
    }
}

/// Skips a string until BEL, or until the next escape sequence, which may be the one that ends strings.
fn skip_string(rest: &mut Peekable<Chars<'_>>) {
    while let Some(char) = rest.next_if(|char| *char != ESCAPE) {
        if char == BELL {
            return;
        }
    }
    let mut ahead = rest.clone();
    if ahead.nth(1) == Some('\\') {
        *rest = ahead;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::OutputStream;

    fn line(bytes: &[u8]) -> Line<'_> {
        Line { number: 1, stream: OutputStream::Stdout, bytes, is_cut: false, is_open: false, is_part: false }
    }

    fn shown(text: &str) -> String {
        Shown::of(text).map_or_else(|| text.into(), |shown| shown.text())
    }

    fn expression(text: &str) -> Matcher {
        Matcher::new(&Pattern::Expression(text.into()), "log").unwrap()
    }

    #[test]
    fn a_line_is_shown_without_escape_sequences() {
        for (raw, wanted) in [
            ("plain ä", "plain ä"),
            ("ready in \x1b[1m250\x1b[22m ms", "ready in 250 ms"),
            ("\x1b[38;2;1;2;3mred\x1b[0m\x1b[K", "red"),
            ("\x1b[38:5:1mred\x1b[m", "red"),
            ("\x1b[1m\x1b(Bx\x1b(B\x1b[m", "x"),
            ("\x1b]8;;http://localhost:80/\x1b\\here\x1b]8;;\x1b\\!", "here!"),
            ("\x1b]8;id=1;file:///ä\x07here\x1b]8;;\x07!", "here!"),
            ("\x1b]0;title\x07x", "x"),
            ("\x1bP1$q\x1b\\x\x1b7\x1b=y", "xy"),
            ("\x1b[?25lx\x1b[?25h", "x"),
            ("x\x1b", "x"),
            ("x\x1b[12;", "x"),
            ("x\x1b[ä", "xä"),
            ("x\x1b]0;never ends", "x"),
            ("x\x1b]0;t\x1b[1my", "xy"),
        ] {
            assert_eq!(shown(raw), wanted, "{raw:?}");
        }
    }

    #[test]
    fn a_line_is_shown_without_what_was_overwritten() {
        for (raw, wanted, last) in [
            ("10%\r100%", "100%", "100%"),
            ("10 percent\rdone", "doneercent", "done"),
            ("10 percent\r\x1b[Kdone", "done", "done"),
            ("10 percent\x1b[2K\rdone", "done", "done"),
            ("10 percent\x1b[2K\x1b[1Gdone", "done", "done"),
            ("10 percent\x1b[1G\x1b[0Kdone", "done", "done"),
            ("a\rb\rc", "c", "c"),
            ("done\r", "done", "done"),
            ("done\r\r", "done", "done"),
            ("|\x08/\x08-\x08ok", "ok", "|/-ok"),
            ("x\x1b[2K", "", "x"),
        ] {
            let shown = Shown::of(raw).unwrap();
            assert_eq!((&shown.text()[..], shown.last.as_deref().unwrap_or(last)), (wanted, last), "{raw:?}");
        }
    }

    #[test]
    fn a_line_matches_as_it_is_before_it_matches_as_it_is_shown() {
        let bold = b"ready in \x1b[1m250\x1b[22m ms";
        let found = expression(r"in (\d+) (x)?ms").find(&line(bold)).unwrap();
        let spans = vec![Some((6, 15)), Some((9, 12)), None];
        assert_eq!(found, Match { input: Some("ready in 250 ms".into()), spans });
        assert_eq!(expression(r"\x1b\[1m").find(&line(bold)).unwrap().input, None);
        assert!(Matcher::Text("in 250".into()).matches(&line(bold)));
        assert!(Matcher::Text("\x1b[1m250".into()).matches(&line(bold)));
        assert!(expression("^X$").matches(&line(b"abc\rX")));
        assert!(expression("^Xbc$").matches(&line(b"abc\rX")));
        assert!(!expression("^b$").matches(&line(b"abc\rX")));
    }

    #[test]
    fn spans_count_units_of_utf_16() {
        let found = expression("b(c)").find(&line("ä\u{1f41a}bc".as_bytes())).unwrap();
        assert_eq!(found.spans, [Some((3, 5)), Some((4, 5))]);
        let found = expression("b(c)").find(&line(b"\xff\xf0\x9f\x90bc")).unwrap();
        assert_eq!(found.spans, [Some((2, 4)), Some((3, 4))]);
        let cut = Line { is_cut: true, ..line(b"\x9f\x90bc") };
        assert_eq!(expression("b(c)").find(&cut).unwrap().spans, [Some((0, 2)), Some((1, 2))]);
    }

    #[test]
    fn a_hostile_line_takes_no_more_room_than_it_has_bytes() {
        for unit in
            ["\x1b[2Kx", "\x1b[K\r", "x\r", "\x1b]", "\x1b[", "\x1b\\", "\x08", "\x1b]\x1b", "\x1b[1G\x1b[K", "\x1b[0"]
        {
            let raw = "y".repeat(1000) + &unit.repeat(64 * 1024 / unit.len());
            assert!(Shown::of(&raw).unwrap().cells.len() <= raw.len());
        }
    }
}
