//! The forms in which a text appears in requests and replies.

use super::Secret;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use memchr::memmem;
use std::cmp::Reverse;
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use zeroize::Zeroizing;

/// How a text escapes what is no letter or digit. Programs differ in which characters they escape and in the case of hex digits,
/// so any of them may be escaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Escapes {
    /// Not at all.
    None,
    /// `%2F`, and `+` for a blank.
    Percent,
    /// `\/` and `\u002f`, as in JSON, and `\x2f`, as in JavaScript.
    Json,
    /// `&#47;`, `&#x2f;` and `&sol;`.
    Html,
}

const ALL: &[Escapes] = &[Escapes::None, Escapes::Percent, Escapes::Json, Escapes::Html];

/// What a page sends: HTML has turned into text there, and a JSON text has few escapes.
const OF_REQUESTS: &[Escapes] = &[Escapes::None, Escapes::Percent];

/// The longest escape, like `&equals;`.
const LONGEST_ESCAPE: usize = 8;

/// Names of characters in HTML.
const NAMES: [(u8, &str); 32] = [
    (b'!', "excl"),
    (b'"', "quot"),
    (b'#', "num"),
    (b'$', "dollar"),
    (b'%', "percnt"),
    (b'&', "amp"),
    (b'\'', "apos"),
    (b'(', "lpar"),
    (b')', "rpar"),
    (b'*', "ast"),
    (b'+', "plus"),
    (b',', "comma"),
    (b'.', "period"),
    (b'/', "sol"),
    (b':', "colon"),
    (b';', "semi"),
    (b'<', "lt"),
    (b'=', "equals"),
    (b'>', "gt"),
    (b'?', "quest"),
    (b'@', "commat"),
    (b'[', "lsqb"),
    (b'[', "lbrack"),
    (b'\\', "bsol"),
    (b']', "rsqb"),
    (b']', "rbrack"),
    (b'^', "Hat"),
    (b'_', "lowbar"),
    (b'`', "grave"),
    (b'{', "lcub"),
    (b'|', "vert"),
    (b'}', "rcub"),
];

/// Line breaks that base64 may have, at most one in so many letters (RFC 2045, section 6.8, has lines of 76; GitHub of 60).
const BREAKS: [&[&[u8]]; 4] = [
    &[b"\r\n", b"\n"],
    &[b"\r\n", b"\n", b"%0d%0a", b"%0a"],
    &[b"\r\n", b"\n", b"\\r\\n", b"\\n", b"\\u000d\\u000a", b"\\u000a"],
    &[b"\r\n", b"\n", b"&#13;&#10;", b"&#10;", b"&#xd;&#xa;", b"&#xa;"],
];
/// Letters that the end of a reply can have of a text by chance.
const FEW_LETTERS: usize = 4;
const MOST_GUESSES: usize = 3;

const SHORTEST_LINE: usize = 32;
const LONGEST_BREAK: usize = 12;

/// Each way to write a character.
fn spellings(escapes: Escapes, byte: u8) -> &'static [Vec<u8>] {
    static TABLE: OnceLock<Vec<Vec<Vec<u8>>>> = OnceLock::new();
    let table = TABLE.get_or_init(|| {
        let all = ALL.iter().flat_map(|escapes| (0..128).map(|byte| (*escapes, byte)));
        all.map(|(escapes, byte)| spell(escapes, byte)).collect()
    });
    table.get(escapes as usize * 128 + usize::from(byte)).map_or(&[], Vec::as_slice)
}

fn spell(escapes: Escapes, byte: u8) -> Vec<Vec<u8>> {
    let one = char::from(byte);
    let mut texts = match escapes {
        Escapes::None => Vec::new(),
        Escapes::Percent => vec![format!("%{byte:02x}")],
        Escapes::Json => vec![format!("\\{one}"), format!("\\u{byte:04x}"), format!("\\x{byte:02x}")],
        Escapes::Html => {
            let names = NAMES.iter().filter(|(own, _)| *own == byte).map(|(_, name)| format!("&{name};"));
            let numbers =
                [format!("&#{byte};"), format!("&#{byte:03};"), format!("&#x{byte:x};"), format!("&#x{byte:04x};")];
            names.chain(numbers).collect()
        }
    };
    let escapes_itself = match escapes {
        Escapes::None => false,
        Escapes::Percent => byte == b'%',
        Escapes::Json => byte == b'"' || byte == b'\\',
        Escapes::Html => byte == b'&',
    };
    if !escapes_itself {
        texts.push(one.to_string());
    }
    if escapes == Escapes::Percent && byte == b' ' {
        texts.push("+".to_owned());
    }
    texts.into_iter().map(String::into_bytes).collect()
}

/// How a text begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    /// With what is looked for, which has so many bytes.
    Is(usize),
    /// It ends before that can be said.
    CanBe,
    Other,
}

fn start_of(text: &[u8], spellings: impl Iterator<Item = &'static [u8]>) -> Start {
    let mut start = Start::Other;
    for spelling in spellings {
        let shown = spelling.len().min(text.len());
        if text[..shown].eq_ignore_ascii_case(&spelling[..shown]) {
            if shown == spelling.len() {
                return Start::Is(shown);
            }
            start = Start::CanBe;
        }
    }
    start
}

/// Texts, and what each becomes. Wiped when it is dropped.
#[derive(Default)]
pub struct Pairs {
    list: Vec<Pair>,
    /// See [`Pairs::guessed`].
    guesses: AtomicUsize,
}

/// A text, and what it becomes.
struct Pair {
    /// The secret's, in a request.
    name: String,
    from: Zeroizing<Vec<u8>>,
    to: Zeroizing<Vec<u8>>,
    escapes: &'static [Escapes],
    /// Letters of base64: with line breaks, and in either alphabet.
    is_base64: bool,
    /// Parts of letters and digits alone, one of which each form has as it is.
    anchors: Vec<Range<usize>>,
}

/// Where a text was found, and how it was escaped there.
#[derive(Clone, Debug)]
struct Found {
    range: Range<usize>,
    escapes: Escapes,
}

impl Pair {
    fn new(from: Vec<u8>, to: Vec<u8>, escapes: &'static [Escapes], is_base64: bool) -> Self {
        let has_marks = is_base64 || !from.iter().all(u8::is_ascii_alphanumeric);
        let escapes = if has_marks { escapes } else { &[Escapes::None] };
        // A line break is in one of two parts at most.
        let middle = if is_base64 { from.len().min(2 * SHORTEST_LINE) / 2 } else { from.len() };
        let anchors = [0..middle, middle..from.len().min(2 * middle)];
        let anchors = anchors.into_iter().filter(|part| !part.is_empty()).map(|part| longest_word(&from, part));
        let anchors = anchors.map(|word| if word.is_empty() { 0..0 } else { word }).collect();
        Self { name: String::new(), from: from.into(), to: to.into(), escapes, is_base64, anchors }
    }

    /// Whether what it becomes always has the same length.
    fn keeps_length(&self) -> bool {
        let is_kept = |(from, to): (&u8, &u8)| from == to || from.is_ascii_alphanumeric() && to.is_ascii_alphanumeric();
        self.from.len() == self.to.len() && (self.is_base64 || self.from.iter().zip(self.to.iter()).all(is_kept))
    }

    /// The most bytes that the first letters can take.
    fn longest(&self, letters: usize) -> usize {
        let of = |letter: &u8| if letter.is_ascii_alphanumeric() { 1 } else { LONGEST_ESCAPE };
        let breaks = if self.is_base64 { (1 + letters / SHORTEST_LINE) * LONGEST_BREAK } else { 0 };
        self.from[..letters].iter().map(of).sum::<usize>() + breaks
    }

    /// Whether a text begins with this one. `each` gets the spelling of each letter, and of each line break.
    fn read(&self, text: &[u8], escapes: Escapes, mut each: impl FnMut(Option<usize>, &[u8])) -> Start {
        let (mut at, mut breaks) = (0, 0);
        for (index, letter) in self.from.iter().enumerate() {
            let mut start = self.letter(*letter, escapes, &text[at..]);
            if start == Start::Other && self.is_base64 && index > 0 && breaks <= index / SHORTEST_LINE {
                let broken = start_of(&text[at..], BREAKS[escapes as usize].iter().copied());
                let Start::Is(length) = broken else { return broken };
                each(None, &text[at..at + length]);
                (at, breaks) = (at + length, breaks + 1);
                start = self.letter(*letter, escapes, &text[at..]);
            }
            let Start::Is(length) = start else { return start };
            each(Some(index), &text[at..at + length]);
            at += length;
        }
        Start::Is(at)
    }

    fn letter(&self, letter: u8, escapes: Escapes, text: &[u8]) -> Start {
        if letter.is_ascii_alphanumeric() {
            return match text.first() {
                None => Start::CanBe,
                Some(first) if *first == letter => Start::Is(1),
                Some(_) => Start::Other,
            };
        }
        let in_url = match letter {
            b'+' if self.is_base64 => b'-',
            b'/' if self.is_base64 => b'_',
            _ => letter,
        };
        let all = spellings(escapes, letter).iter().chain(spellings(escapes, in_url));
        start_of(text, all.map(Vec::as_slice))
    }

    /// The first place at or behind `from`.
    fn find(&self, text: &[u8], from: usize) -> Option<Found> {
        let of = |anchor: &Range<usize>| {
            let needle = &self.from[anchor.clone()];
            let (shortest, longest) = (anchor.start, self.longest(anchor.start));
            let mut at = from;
            while at <= text.len() {
                let hit = at + memmem::find(&text[at..], needle)?;
                let begins = hit.saturating_sub(longest).max(from)..(hit + 1).saturating_sub(shortest);
                let found = begins.into_iter().find_map(|begin| self.at(text, begin));
                if found.is_some() {
                    return found;
                }
                at = hit + 1;
            }
            None
        };
        self.anchors.iter().filter_map(of).min_by_key(|found| found.range.start)
    }

    fn at(&self, text: &[u8], begin: usize) -> Option<Found> {
        self.escapes.iter().find_map(|&escapes| match self.read(&text[begin..], escapes, |_, _| {}) {
            Start::Is(length) => Some(Found { range: begin..begin + length, escapes }),
            _ => None,
        })
    }

    /// How many letters of this text another one has, if that can be its beginning and ends before it.
    fn begun(&self, text: &[u8]) -> Option<usize> {
        let of = |escapes| {
            let mut letters = 0;
            let start = self.read(text, escapes, |index, _| letters = index.map_or(letters, |index| index + 1));
            (start == Start::CanBe).then_some(letters)
        };
        self.escapes.iter().filter_map(|&escapes| of(escapes)).max()
    }

    /// Whether so many letters at its beginning tell much of a value: few can be the same by chance.
    fn is_telling(&self, letters: usize) -> bool {
        let same = self.from.iter().zip(self.to.iter()).take_while(|(one, other)| one == other).count();
        letters > same + FEW_LETTERS.min(self.from.len() / 8)
    }

    /// Appends what a text becomes, in the same form.
    fn append(&self, text: &[u8], escapes: Escapes, made: &mut Vec<u8>) {
        let is_in_url = self.is_base64 && text.iter().any(|letter| b"-_".contains(letter));
        let letter = |letter: u8| match letter {
            b'+' if is_in_url => b'-',
            b'/' if is_in_url => b'_',
            other => other,
        };
        if self.keeps_length() {
            self.read(text, escapes, |index, spelling| {
                let changed = index.filter(|index| spelling.len() == 1 && self.from[*index] != self.to[*index]);
                match changed {
                    Some(index) => made.push(letter(self.to[index])),
                    // As it is: a line break, or an escape, which in base64 can stand for another letter than before.
                    None => made.extend_from_slice(spelling),
                }
            });
        } else if self.is_base64 {
            made.extend(self.to.iter().map(|one| letter(*one)));
        } else {
            for byte in self.to.iter() {
                made.extend_from_slice(&escaped(*byte, escapes));
            }
        }
    }
}

/// The longest part of letters and digits alone.
fn longest_word(text: &[u8], part: Range<usize>) -> Range<usize> {
    let mut longest = part.start..part.start;
    let mut begin = part.start;
    for at in part.clone() {
        if !text[at].is_ascii_alphanumeric() {
            begin = at + 1;
        } else if at + 1 - begin > longest.len() {
            longest = begin..at + 1;
        }
    }
    longest
}

/// As most programs write a character.
fn escaped(byte: u8, escapes: Escapes) -> Vec<u8> {
    let is_plain = match escapes {
        Escapes::None => true,
        Escapes::Percent => byte.is_ascii_alphanumeric() || b"-._~".contains(&byte),
        Escapes::Json => !b"\"\\".contains(&byte),
        Escapes::Html => !b"&<>\"'".contains(&byte),
    };
    match escapes {
        _ if is_plain => vec![byte],
        Escapes::Percent => format!("%{byte:02X}").into_bytes(),
        _ => spellings(escapes, byte).first().cloned().unwrap_or_default(),
    }
}

impl Pairs {
    /// Placeholders in bodies, as they are and percent-encoded, and their values.
    pub fn into_requests<'a>(secrets: impl Iterator<Item = &'a Secret>) -> Self {
        Self::of(secrets.map(|secret| {
            let bytes = |text: &str| text.as_bytes().to_vec();
            let pair = Pair::new(bytes(&secret.placeholder), bytes(secret.value.as_str()), OF_REQUESTS, false);
            Pair { name: secret.name.clone(), ..pair }
        }))
    }

    /// Values in replies in all their forms, and their placeholders in the same.
    pub fn masks<'a>(secrets: impl Iterator<Item = &'a Secret>) -> Self {
        Self::of(secrets.flat_map(|secret| {
            let (from, to) = (secret.value.as_str(), secret.placeholder.as_str());
            let plain = Pair::new(from.as_bytes().to_vec(), to.as_bytes().to_vec(), ALL, false);
            let within = |before| Pair::new(base64_within(from, before), base64_within(to, before), ALL, true);
            std::iter::once(plain).chain((0..3).map(within))
        }))
    }

    fn of(pairs: impl Iterator<Item = Pair>) -> Self {
        let mut list: Vec<Pair> = Vec::new();
        for pair in pairs {
            if !list.iter().any(|own| own.from == pair.from && own.is_base64 == pair.is_base64) {
                list.push(pair);
            }
        }
        Self { list, guesses: AtomicUsize::default() }
    }

    /// Takes note of a reply that has stalled behind much of the beginning of a text. Where a client makes a host repeat guesses, and
    /// sees which one is held back, it could find out a value letter by letter.
    pub fn guessed(&self) {
        self.guesses.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether a reply that goes on can still be such a text. If it is one, it was no guess.
    pub fn goes_on(&self, text: &[u8]) -> bool {
        if self.list.iter().any(|pair| pair.at(text, 0).is_some()) {
            self.guesses.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        self.list.iter().any(|pair| pair.begun(text).is_some())
    }

    /// Whether it was no text too often: then as much is held back of each reply that stalls.
    pub fn is_guessed(&self) -> bool {
        self.guesses.load(Ordering::Relaxed) >= MOST_GUESSES
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Whether one of the texts is in the name of a header, which is in lower case.
    pub fn are_in_name(&self, name: &str) -> bool {
        let is_in = |from: &[u8]| name.as_bytes().windows(from.len()).any(|part| part.eq_ignore_ascii_case(from));
        self.list.iter().any(|pair| is_in(&pair.from))
    }

    /// The names of the secrets whose texts are in these bytes.
    pub fn names_in<'a>(&'a self, text: &'a [u8]) -> impl Iterator<Item = &'a str> {
        self.list.iter().filter(|pair| pair.find(text, 0).is_some()).map(|pair| pair.name.as_str())
    }

    /// Whether a text keeps its length.
    pub fn keeps_lengths(&self) -> bool {
        self.list.iter().all(Pair::keeps_length)
    }

    /// Replaces each text in these bytes, from left to right. `None` if there is none.
    pub fn replaced(&self, text: &[u8]) -> Option<Vec<u8>> {
        let (mut made, done) = self.replace(text)?;
        made.extend_from_slice(&text[done..]);
        Some(made)
    }

    /// The same up to the last text, and where that ends.
    pub fn replace(&self, text: &[u8]) -> Option<(Vec<u8>, usize)> {
        // Each is looked for once behind where it was found, so the time stays linear.
        let mut next: Vec<Option<Found>> = self.list.iter().map(|pair| pair.find(text, 0)).collect();
        let (mut made, mut done) = (Vec::new(), 0);
        // Where two begin at the same place, the longer one counts.
        let order = |found: &Found| (found.range.start, Reverse(found.range.end));
        let all = |next: &[Option<Found>]| {
            let found = next.iter().zip(&self.list).filter_map(|(found, pair)| Some((found.clone()?, pair)));
            found.min_by_key(|(found, _)| order(found))
        };
        while let Some((Found { range, escapes }, pair)) = all(&next) {
            made.extend_from_slice(&text[done..range.start]);
            pair.append(&text[range.clone()], escapes, &mut made);
            done = range.end;
            for (found, pair) in next.iter_mut().zip(&self.list) {
                if found.as_ref().is_some_and(|found| found.range.start < done) {
                    *found = pair.find(text, done);
                }
            }
        }
        (done > 0).then_some((made, done))
    }

    /// The length of the longest text; 1 without one.
    pub fn longest(&self) -> usize {
        self.list.iter().map(|pair| pair.longest(pair.from.len())).max().unwrap_or(1)
    }

    /// How many bytes at the end can be the beginning of a text, and whether they tell much of it.
    pub fn uncertain_end(&self, text: &[u8]) -> (usize, bool) {
        let first = text.len().saturating_sub(self.longest());
        let begun = |begin: usize| {
            let all = self.list.iter().filter_map(|pair| Some(pair.is_telling(pair.begun(&text[begin..])?)));
            all.max().map(|is_telling| (text.len() - begin, is_telling))
        };
        (first..text.len()).find_map(begun).unwrap_or_default()
    }
}

/// The letters of base64 that depend on this text alone, if so many bytes are before it, modulo 3.
fn base64_within(text: &str, before: usize) -> Vec<u8> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(before + text.len()));
    bytes.resize(before, 0);
    bytes.extend_from_slice(text.as_bytes());
    let whole = bytes.len() * 8 / 6;
    let letters = Zeroizing::new(STANDARD_NO_PAD.encode(&*bytes));
    letters.as_bytes()[(before * 8).div_ceil(6)..whole].to_vec()
}

/// As in a query.
pub fn query_encoded(text: &str) -> String {
    let bytes = text.bytes().flat_map(|byte| escaped(byte, Escapes::Percent));
    bytes.map(char::from).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{Place, Value};
    use super::*;
    use base64::engine::general_purpose::STANDARD;

    fn secret(value: &str, placeholder: &str) -> Secret {
        Secret {
            name: "TOKEN".into(),
            value: Value::new(value.into()),
            placeholder: placeholder.into(),
            hosts: Vec::new(),
            places: vec![Place::Body],
            refresh: None,
            programs: Vec::new(),
        }
    }

    const VALUE: &str = "ab+c/d\"e\\f9 x&y<z'%_-7";
    const PLACEHOLDER: &str = "01+2/3\"4\\56 7&8<9'%_-0";

    fn masks(value: &str, placeholder: &str) -> Pairs {
        Pairs::masks([&secret(value, placeholder)].into_iter())
    }

    fn each(text: &str, spell: impl Fn(usize, char) -> String) -> String {
        text.chars().enumerate().map(|(at, one)| spell(at, one)).collect()
    }

    #[test]
    fn masks_a_value_however_it_is_escaped() {
        let percent = |at: usize, one: char| match one {
            _ if one.is_ascii_alphanumeric() => one.to_string(),
            ' ' if at.is_multiple_of(2) => "+".to_owned(),
            _ if at.is_multiple_of(2) => format!("%{:02x}", u32::from(one)),
            _ => format!("%{:02X}", u32::from(one)),
        };
        // encodeURIComponent and URLSearchParams.
        let component = |_, one: char| match one {
            '-' | '_' | '\'' => one.to_string(),
            _ => percent(1, one),
        };
        let form = |_, one: char| if one == ' ' { "+".to_owned() } else { component(0, one) };
        let json = |_, one: char| match one {
            '"' | '\\' | '/' => format!("\\{one}"),
            '&' | '<' | '\'' => format!("\\u{:04x}", u32::from(one)),
            '+' => "\\u002B".to_owned(),
            _ => one.to_string(),
        };
        let script = |_, one: char| {
            if one.is_ascii_alphanumeric() { one.to_string() } else { format!("\\x{:02X}", u32::from(one)) }
        };
        let html = |_, one: char| match one {
            '&' => "&amp;".to_owned(),
            '<' => "&lt;".to_owned(),
            '"' => "&quot;".to_owned(),
            '\'' => "&#39;".to_owned(),
            '/' => "&#x2F;".to_owned(),
            '+' => "&plus;".to_owned(),
            _ => one.to_string(),
        };
        let entities = |at: usize, one: char| match one {
            _ if one.is_ascii_alphanumeric() => one.to_string(),
            _ if at.is_multiple_of(2) => format!("&#{:03};", u32::from(one)),
            _ => format!("&#x{:04x};", u32::from(one)),
        };
        let ways: [&dyn Fn(usize, char) -> String; 7] = [&percent, &component, &form, &json, &script, &html, &entities];
        let pairs = masks(VALUE, PLACEHOLDER);
        assert!(pairs.keeps_lengths());
        for way in ways {
            let (value, placeholder) = (each(VALUE, way), each(PLACEHOLDER, way));
            let masked = pairs.replaced(format!("<{value}{value}>").as_bytes()).expect(&value);
            assert_eq!(String::from_utf8(masked).unwrap(), format!("<{placeholder}{placeholder}>"));
        }
        let plain = pairs.replaced(VALUE.as_bytes()).unwrap();
        assert_eq!(String::from_utf8(plain).unwrap(), PLACEHOLDER);
        assert_eq!(pairs.replaced(b"nothing"), None);
    }

    #[test]
    fn masks_a_value_within_base64_and_its_lines() {
        let value = format!("{VALUE}{}", "Qu5?>".repeat(12));
        let placeholder = format!("{PLACEHOLDER}{}", "012?>".repeat(12));
        let pairs = masks(&value, &placeholder);
        for before in ["", "u", "us", "us:", &"-".repeat(50)] {
            for end in ["\r\n", "\n", "\\n", "\\r\\n", "%0A", "&#10;"] {
                for width in [60, 64, 76, 1000] {
                    for in_url in [false, true] {
                        let mut letters = STANDARD.encode(format!("{before}{value} end"));
                        if in_url {
                            letters = letters.replace('+', "-").replace('/', "_");
                        }
                        let lines: Vec<String> = letters
                            .as_bytes()
                            .chunks(width)
                            .map(|line| String::from_utf8_lossy(line).into_owned())
                            .collect();
                        let masked = pairs.replaced(lines.join(end).as_bytes()).expect(end);
                        assert_eq!(masked.len(), lines.join(end).len());
                        let masked = String::from_utf8(masked).unwrap().replace(end, "");
                        let plain = STANDARD.decode(masked.replace('-', "+").replace('_', "/")).unwrap();
                        let plain = String::from_utf8_lossy(&plain);
                        let shown = &placeholder[1..placeholder.len() - 1];
                        assert!(plain.contains(shown) && plain.ends_with(" end"), "{end:?} {width} {plain}");
                    }
                }
            }
        }
        // PHP escapes slashes.
        let text = STANDARD.encode(&value).replace('/', "\\/").replace('+', "\\u002b");
        let masked = String::from_utf8(pairs.replaced(text.as_bytes()).expect("it is there")).unwrap();
        let plain = STANDARD.decode(masked.replace("\\/", "/").replace("\\u002b", "+")).unwrap();
        assert!(!String::from_utf8_lossy(&plain).contains("Qu5"), "{masked}");
    }

    #[test]
    fn another_length_or_other_marks_are_escaped_as_the_place_needs() {
        let pairs = masks("a<b&c/123", "x\"y/placeholder");
        assert!(!pairs.keeps_lengths());
        for (text, masked) in [
            ("a<b&c/123", "x\"y/placeholder"),
            ("a%3Cb%26c%2f123", "x%22y%2Fplaceholder"),
            ("a\\u003cb\\u0026c/123", "x\\\"y/placeholder"),
            ("a&lt;b&amp;c/123", "x&quot;y/placeholder"),
        ] {
            assert_eq!(String::from_utf8(pairs.replaced(text.as_bytes()).unwrap()).unwrap(), masked);
        }
        let masked = pairs.replaced(STANDARD.encode("a<b&c/123").as_bytes()).unwrap();
        assert_eq!(STANDARD.decode(&masked[..20]).unwrap(), b"x\"y/placeholder");
    }

    #[test]
    fn a_text_of_many_beginnings_takes_no_long_time() {
        let pairs = masks("--------a/////////////////b", "--------c/////////////////d");
        let text = "-a/".repeat(20_000);
        assert_eq!(pairs.replaced(text.as_bytes()), None);
        let marks = masks("!!!!////????", "abcdefghijkl");
        assert_eq!(marks.replaced("!!!!////???".repeat(10_000).as_bytes()), None);
        assert_eq!(marks.replaced(b"!!!!////????").unwrap(), b"abcdefghijkl");
    }

    #[test]
    fn puts_a_value_into_a_form_that_a_page_has_sent() {
        let pairs = Pairs::into_requests([&secret("va/lue+1", "pl/aceh+1")].into_iter());
        let made = pairs.replaced(b"a=pl%2Faceh%2B1&b=pl/aceh+1").unwrap();
        assert_eq!(made, b"a=va%2Flue%2B1&b=va/lue+1");
        assert!(!pairs.keeps_lengths());
    }
}
