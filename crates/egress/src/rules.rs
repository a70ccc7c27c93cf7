//! Rules for the requests to a host: `GET,HEAD /repos/me/**`, `deny DELETE /**`, `ask POST /**`, `* /v1/*`.

use std::ops::RangeInclusive;
use std::str::FromStr;

/// A longer path is refused where a host has rules.
const LONGEST_PATH: usize = 8192;
const LONGEST_METHOD: usize = 64;
const LONGEST_RULE: usize = 256;
/// A path that takes more steps of a [`Pattern`]'s words is refused: these take about 5 ms.
const MOST_STEPS: usize = 1_000_000;
/// Rules for one host.
const MOST_RULES: usize = 100;

/// In a reading of a path, a Latin letter with a mark. No UTF-8 has it.
const MARKED: u8 = 0xff;
/// The scripts and signs whose characters no server takes for others, but for their digits.
const OTHER_SCRIPTS: [RangeInclusive<char>; 15] = [
    // Greek and Cyrillic.
    '\u{386}'..='\u{482}',
    '\u{48a}'..='\u{52f}',
    // Armenian, Hebrew, Arabic.
    '\u{531}'..='\u{58f}',
    '\u{5d0}'..='\u{5f4}',
    '\u{620}'..='\u{64a}',
    '\u{671}'..='\u{6d3}',
    // From Devanagari to Georgian, and from Ethiopic to the syllables of Canada.
    '\u{900}'..='\u{10ff}',
    '\u{1200}'..='\u{167f}',
    // Chinese, Japanese, Korean.
    '\u{3001}'..='\u{3035}',
    '\u{3041}'..='\u{3096}',
    '\u{309d}'..='\u{312f}',
    '\u{3400}'..='\u{9fff}',
    '\u{ac00}'..='\u{d7a3}',
    '\u{20000}'..='\u{3ffff}',
    // Pictures.
    '\u{1f300}'..='\u{1faff}',
];

/// What a rule says. The later of two is the stricter one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    Allow,
    Ask,
    Deny,
}

/// A rule.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    verdict: Verdict,
    /// None: any.
    methods: Option<Vec<String>>,
    exact: Pattern,
    /// The same in lower case.
    loose: Pattern,
    text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    Byte(u8),
    /// `*`: one byte or more, but no slash.
    Segment,
    /// `**`: any text.
    Any,
}

/// Checks a rule for requests, like `GET,HEAD /repos/**`.
///
/// # Errors
/// What it must be instead, as the rest of a sentence about it.
pub fn check_rule(text: &str) -> Result<(), String> {
    text.parse::<Rule>().map(drop)
}

impl FromStr for Rule {
    type Err = String;

    /// Reads `[allow|deny|ask] METHOD[,METHOD]|* /path`.
    fn from_str(text: &str) -> Result<Self, String> {
        if text.len() > LONGEST_RULE {
            return Err(format!("must have at most {LONGEST_RULE} bytes"));
        }
        let words: Vec<&str> = text.split(' ').collect();
        let (verdict, rest) = match words.as_slice() {
            ["allow", rest @ ..] => (Verdict::Allow, rest),
            ["deny", rest @ ..] => (Verdict::Deny, rest),
            ["ask", rest @ ..] => (Verdict::Ask, rest),
            rest => (Verdict::Allow, rest),
        };
        let [methods, path] = rest else {
            return Err(format!("must be methods and a path, like 'GET,HEAD /repos/**', not {text:?}"));
        };
        let names: Vec<String> = methods.split(',').map(str::to_owned).collect();
        let is_method =
            |name: &String| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-');
        if *methods != "*" && !names.iter().all(is_method) {
            let rule = "must have * or methods in capitals with commas between them, like 'GET,HEAD'";
            return Err(format!("{rule}, not {methods:?}"));
        }
        if !path.starts_with('/') || !path.bytes().all(|byte| byte.is_ascii_graphic()) || path.contains(['?', '#']) {
            let rule = "must have a path that begins with / and has no query, like '/repos/**'";
            return Err(format!("{rule}, not {path:?}"));
        }
        if decoded(path).is_none() {
            let odd = "'.', '..' and empty segments, ';', '\\', escapes of these, of '%' and of control characters";
            let more = "and characters that servers take for others";
            return Err(format!("matches no request: write {path:?} without {odd}, {more}"));
        }
        let methods = (*methods != "*").then_some(names);
        let (exact, loose) = (Pattern::new(path), Pattern::new(&path.to_ascii_lowercase()));
        Ok(Self { verdict, methods, exact, loose, text: text.to_owned() })
    }
}

fn tokens(path: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = path.as_bytes();
    while let [first, after @ ..] = rest {
        let (token, next) = match (first, after) {
            (b'*', [b'*', after @ ..]) => (Token::Any, after),
            (b'*', _) => (Token::Segment, after),
            (byte, _) => (Token::Byte(*byte), after),
        };
        if token != Token::Any || tokens.last() != Some(&token) {
            tokens.push(token);
        }
        rest = next;
    }
    tokens
}

type Bits = [u64; LONGEST_RULE / 64];

/// A pattern as sets of places, one bit for each: so that one step takes all of them further. Programs choose paths, and all
/// sessions share a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pattern {
    /// The places where a byte is expected: a row for each byte that is in the pattern, and an empty one for all others.
    rows: Vec<Bits>,
    row_of: [u8; 128],
    segments: Bits,
    anys: Bits,
    /// The places where a letter is expected.
    letters: Bits,
    length: usize,
}

impl Pattern {
    /// Of a text that is shorter than the longest rule.
    fn new(text: &str) -> Self {
        let tokens = tokens(text);
        let (rows, none, length) = (vec![Bits::default()], Bits::default(), tokens.len());
        let mut made = Self { rows, row_of: [0; 128], segments: none, anys: none, letters: none, length };
        for (at, token) in tokens.into_iter().enumerate() {
            let row = match token {
                Token::Segment => &mut made.segments,
                Token::Any => &mut made.anys,
                Token::Byte(byte) => {
                    if byte.is_ascii_alphabetic() {
                        made.letters[at / 64] |= 1 << (at % 64);
                    }
                    let row = &mut made.row_of[usize::from(byte & 127)];
                    if *row == 0 {
                        *row = made.rows.len() as u8;
                        made.rows.push(none);
                    }
                    &mut made.rows[usize::from(*row)]
                }
            };
            row[at / 64] |= 1 << (at % 64);
        }
        made
    }

    fn words(&self) -> usize {
        self.length / 64 + 1
    }

    /// Whether the pattern is all of a text, and all of it with a slash behind it.
    fn matches(&self, text: &[u8]) -> [bool; 2] {
        self.matches_by(text, |places, byte| self.step(places, byte))
    }

    /// The same, for servers that take a marked letter for one or two without marks.
    fn can_match(&self, text: &[u8]) -> [bool; 2] {
        self.matches_by(text, |places, byte| {
            if byte != MARKED {
                return self.step(places, byte);
            }
            let one = self.advance(places, &self.letters, &self.segments);
            let mut two = *places;
            self.advance(&mut two, &self.letters, &self.segments);
            places.iter_mut().zip(two).for_each(|(word, more)| *word |= more);
            one
        })
    }

    fn matches_by(&self, text: &[u8], step: impl Fn(&mut Bits, u8) -> u64) -> [bool; 2] {
        let mut places = Bits::default();
        places[0] = 1;
        for byte in text {
            if step(&mut places, *byte) == 0 {
                return [false; 2];
            }
        }
        let is_end = |places: &Bits| places[self.length / 64] >> (self.length % 64) & 1 == 1;
        let whole = is_end(&places);
        self.step(&mut places, b'/');
        [whole, is_end(&places)]
    }

    /// Takes all places further. Returns 0 if there are none any more.
    fn step(&self, places: &mut Bits, byte: u8) -> u64 {
        let row = &self.rows[self.row_of.get(usize::from(byte)).map_or(0, |row| usize::from(*row))];
        self.advance(places, row, if byte == b'/' { &[0; _] } else { &self.segments })
    }

    /// The same, from the places in `row`, and within `segments`.
    fn advance(&self, places: &mut Bits, row: &Bits, segments: &Bits) -> u64 {
        let (mut moved_over, mut passed_over, mut all) = (0, 0, 0);
        for word in 0..self.words() {
            let here = places[word];
            let within = here & segments[word];
            let moved = here & row[word] | within;
            let mut next = moved << 1 | moved_over | within | here & self.anys[word] | passed_over;
            // `**` can be passed without a byte. Another one never follows it.
            let passed = next & self.anys[word];
            next |= passed << 1;
            (moved_over, passed_over) = (moved >> 63, passed >> 63);
            places[word] = next;
            all |= next;
        }
        all
    }
}

impl Rule {
    fn takes(&self, method: &str, is_same: fn(&str, &str) -> bool) -> bool {
        self.methods.as_ref().is_none_or(|methods| methods.iter().any(|own| is_same(own, method)))
    }
}

/// The rules for a host, of which the first that matches decides. What none matches is refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules(Vec<Rule>);

impl Rules {
    /// Reads the rules of a host.
    ///
    /// # Errors
    /// One cannot be read, or there are too many.
    pub fn read(texts: &[String]) -> Result<Self, String> {
        if texts.len() > MOST_RULES {
            return Err(format!("is one of {}: a host must have at most {MOST_RULES}", texts.len()));
        }
        texts.iter().map(|text| text.parse()).collect::<Result<_, _>>().map(Self)
    }

    /// Judges a request by its method and its path, without the query.
    ///
    /// Servers differ in what they take for the same: `%2f` and a slash (npm sends `@scope%2fname`), other escapes, upper and
    /// lower case, a slash, dots or blanks at the end, letters with marks and without. The strictest reading counts. What servers
    /// read in yet other ways is refused.
    pub fn judge(&self, method: &str, path: &str) -> Verdict {
        let is_short = method.len() <= LONGEST_METHOD && path.len() <= LONGEST_PATH;
        let Some(decoded) = decoded(path).filter(|_| is_short) else { return Verdict::Deny };
        let slashes = path.replace("%2f", "/").replace("%2F", "/");
        // A server that decodes first finds a query there.
        let cut = decoded.split(['?', '#']).next().unwrap_or_default();
        // Windows has no names with these at the end.
        let ends: Vec<&str> = cut.split('/').map(|segment| segment.trim_end_matches(['.', ' '])).collect();
        let ends = ends.join("/");
        let mut readings = vec![path, &slashes, &decoded, cut, &ends];
        readings.sort_unstable();
        readings.dedup();
        let marked = ends.contains(is_marked).then(|| marked(&ends));
        let words: usize = self.0.iter().map(|rule| rule.exact.words() + rule.loose.words()).sum();
        if words * (readings.len() + 4 * usize::from(marked.is_some())) * path.len() > MOST_STEPS {
            return Verdict::Deny;
        }
        let verdicts = readings.into_iter().map(|reading| self.of(method, reading));
        let verdict = verdicts.max().unwrap_or(Verdict::Deny);
        marked.map_or(verdict, |marked| verdict.max(self.of_marked(method, &marked)))
    }

    /// The strictest verdict about what a path with marked letters can be for a server.
    fn of_marked(&self, method: &str, path: &[u8]) -> Verdict {
        let stem = path.strip_suffix(b"/").unwrap_or(path);
        let has_slash = usize::from(stem.len() < path.len());
        let rules = || self.0.iter().filter(|rule| rule.takes(method, str::eq_ignore_ascii_case));
        let mut strictest = Verdict::Allow;
        for form in 0..2 {
            let can_match = |rule: &&Rule| rule.loose.can_match(stem)[form];
            // Whatever the letters are.
            let matches = |rule: &Rule| rule.takes(method, str::eq) && rule.loose.matches(stem)[form];
            let sure = rules().position(matches);
            let possible = rules().take(sure.map_or(usize::MAX, |at| at + 1)).filter(can_match);
            strictest = possible.map(|rule| rule.verdict).fold(strictest, Verdict::max);
            if sure.is_none() && form == has_slash {
                return Verdict::Deny;
            }
        }
        strictest
    }

    fn of(&self, method: &str, path: &str) -> Verdict {
        let stem = path.strip_suffix('/').unwrap_or(path);
        let has_slash = usize::from(stem.len() < path.len());
        let own = |rule: &&Rule| rule.takes(method, str::eq) && rule.exact.matches(stem.as_bytes())[has_slash];
        let exact = self.0.iter().find(own).map_or(Verdict::Deny, |rule| rule.verdict);
        // What only these match may still be allowed.
        let lower = stem.to_ascii_lowercase();
        let mut loose = [None; 2];
        for rule in self.0.iter().filter(|rule| rule.takes(method, str::eq_ignore_ascii_case)) {
            for (found, matches) in loose.iter_mut().zip(rule.loose.matches(lower.as_bytes())) {
                *found = found.or(matches.then_some(rule.verdict));
            }
            if loose.iter().all(Option::is_some) {
                break;
            }
        }
        loose.into_iter().flatten().fold(exact, Verdict::max)
    }

    /// Whether a rule asks.
    pub fn can_ask(&self) -> bool {
        self.0.iter().any(|rule| rule.verdict == Verdict::Ask)
    }

    /// What is allowed, or asked for, as the rules say it.
    pub fn allowed(&self) -> String {
        let allowed: Vec<&str> =
            self.0.iter().filter(|rule| rule.verdict != Verdict::Deny).map(|rule| rule.text.as_str()).collect();
        if allowed.is_empty() { "nothing".to_owned() } else { allowed.join(", ") }
    }
}

/// A path without escapes. `None` if servers may read it as yet another one.
fn decoded(path: &str) -> Option<String> {
    let bytes = path.as_bytes();
    let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_hexdigit);
    let is_broken = |(at, byte): (usize, &u8)| *byte == b'%' && !(is_digit(at + 1) && is_digit(at + 2));
    if !path.starts_with('/') || bytes.iter().enumerate().any(is_broken) {
        return None;
    }
    let text = String::from_utf8(super::credentials::decode(path)).ok()?;
    let is_odd = text.contains(['%', '\\', ';']) || text.contains("//") || text.contains(is_odd);
    let has_dots = text.split('/').any(|segment| segment == "." || segment == "..");
    (!is_odd && !has_dots).then_some(text)
}

/// Whether some servers take a character for others: full-width letters, ligatures and digits of other scripts for those of ASCII,
/// and marks and what has no width for nothing.
fn is_odd(one: char) -> bool {
    let is_plain = is_marked(one) || !one.is_numeric() && OTHER_SCRIPTS.iter().any(|script| script.contains(&one));
    one.is_control() || !one.is_ascii() && !is_plain
}

fn is_marked(one: char) -> bool {
    ('\u{c0}'..='\u{24f}').contains(&one) || ('\u{1e00}'..='\u{1eff}').contains(&one)
}

/// A path in lower case, with [`MARKED`] for each marked letter.
fn marked(path: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(path.len());
    for one in path.chars() {
        if is_marked(one) {
            bytes.push(MARKED)
        } else {
            bytes.extend(one.to_ascii_lowercase().encode_utf8(&mut [0; 4]).bytes())
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(list: &[&str]) -> Rules {
        Rules::read(&list.iter().map(ToString::to_string).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let rules =
            rules(&["GET,HEAD /repos/me/x/**", "deny DELETE /repos/**", "ask POST /repos/me/*/pulls", "* /v1/*"]);
        for (method, path, verdict) in [
            ("GET", "/repos/me/x/", Verdict::Allow),
            ("HEAD", "/repos/me/x/a/b", Verdict::Allow),
            ("GET", "/repos/me/x", Verdict::Deny),
            ("GET", "/repos/me/y/", Verdict::Deny),
            ("get", "/repos/me/x/", Verdict::Deny),
            ("DELETE", "/repos/me/x/", Verdict::Deny),
            ("POST", "/repos/me/x/pulls", Verdict::Ask),
            ("POST", "/repos/me/x/y/pulls", Verdict::Deny),
            ("POST", "/repos/me//pulls", Verdict::Deny),
            ("PATCH", "/v1/a", Verdict::Allow),
            ("PATCH", "/v1/", Verdict::Deny),
            ("PATCH", "/v1/a/b", Verdict::Deny),
        ] {
            assert_eq!(rules.judge(method, path), verdict, "{method} {path}");
        }
        assert_eq!(rules.allowed(), "GET,HEAD /repos/me/x/**, ask POST /repos/me/*/pulls, * /v1/*");
    }

    #[test]
    fn what_servers_may_read_in_another_way_is_refused() {
        let all = rules(&["* /a/**", "* /@scope%2fname"]);
        for path in [
            "/a/../b",
            "/a/./b",
            "/a//b",
            "/a/%2e%2E/b",
            "/a/.%2e",
            "/a/%2f../b",
            "/a/..%2fb",
            "/a/%2f",
            "/a\\b",
            "/a/%5Cb",
            "/a/%00",
            "/a/%0a",
            "/a/b;x=1",
            "/a/b%3bx=1",
            "/a/%252e",
            "/a/%",
            "/a/%2",
            "/a/%zz",
            "/a/%u002e",
            "/a/%c0%af",
            "/a/%EF%BC%8E%EF%BC%8E/b",
            "/a/.%E2%80%8B./b",
            "/a/%E2%80%A5/b",
            "/a/%CD%BE",
            "/a/%D9%A3",
            "/a/e%CC%81",
            "*",
            "",
        ] {
            assert_eq!(all.judge("GET", path), Verdict::Deny, "{path}");
        }
        assert_eq!(all.judge("GET", &format!("/a/{}", "x".repeat(9000))), Verdict::Deny);
        assert_eq!(all.judge(&"X".repeat(65), "/a/b"), Verdict::Deny);
        assert_eq!(all.judge("GET", "/a/b%2fc%20d%C3%A9"), Verdict::Allow);
        for text in ["日本語", "ひらがな", "한국어", "русский", "ελληνικά", "हिन्दी", "עברית", "العربية", "😀"]
        {
            let escaped: String = text.bytes().map(|byte| format!("%{byte:02x}")).collect();
            assert_eq!(all.judge("GET", &format!("/a/{escaped}")), Verdict::Allow, "{text}");
        }
        // One reading is not in the rules.
        assert_eq!(all.judge("GET", "/@scope%2fname"), Verdict::Deny);
        assert_eq!(rules(&["* /@scope%2fname", "* /@scope/name"]).judge("GET", "/@scope%2fname"), Verdict::Allow);
    }

    #[test]
    fn another_spelling_does_not_evade_a_rule() {
        let list = ["deny DELETE /repos/me/x", "ask * /admin", "deny * /a/**", "* /**"];
        let rules = rules(&list);
        for (method, path, verdict) in [
            ("DELETE", "/repos/me/x", Verdict::Deny),
            ("DELETE", "/repos/%6de/x", Verdict::Deny),
            ("DELETE", "/repos/Me/X", Verdict::Deny),
            ("delete", "/repos/me/x", Verdict::Deny),
            ("DELETE", "/repos/me/x/", Verdict::Deny),
            ("DELETE", "/repos%2fme/x", Verdict::Deny),
            ("DELETE", "/repos/me/x%3fy", Verdict::Deny),
            ("DELETE", "/repos/me/x%23y", Verdict::Deny),
            ("DELETE", "/repos/me./x%20.", Verdict::Deny),
            ("GET", "/%61dmin", Verdict::Ask),
            ("GET", "/ADMIN/", Verdict::Ask),
            ("GET", "/%41/b", Verdict::Deny),
            ("GET", "/a", Verdict::Deny),
            ("GET", "/A", Verdict::Deny),
            ("GET", "/repos/me/x", Verdict::Allow),
            ("DELETE", "/repos/me/y", Verdict::Allow),
            ("GET", "/%C3%A1dm%C4%B1n", Verdict::Ask),
            ("GET", "/%C3%81/b", Verdict::Deny),
            ("DELETE", "/repos/m%C3%A9/X", Verdict::Deny),
            ("DELETE", "/repos/m%C3%A9/y", Verdict::Allow),
            ("GET", "/%C3%A9t%C3%A9", Verdict::Allow),
        ] {
            assert_eq!(rules.judge(method, path), verdict, "{method} {path}");
        }
        let users = self::rules(&["deny * /users/strasse", "GET /users/*"]);
        assert_eq!(users.judge("GET", "/users/%C3%A9mile"), Verdict::Allow);
        assert_eq!(users.judge("GET", "/users/Stra%C3%9Fe"), Verdict::Deny);
    }

    #[test]
    fn a_path_is_refused_that_takes_too_many_steps() {
        let long = format!("* /{}b", "**a*".repeat(62));
        let path = |length: usize| format!("/{}%2f%3f%61", "a".repeat(length));
        let few = rules(&[&long, "* /**"]);
        assert_eq!(few.judge("GET", &path(8000)), Verdict::Allow);
        let mut many = vec![long.as_str(); 99];
        many.push("* /**");
        let many = rules(&many);
        assert_eq!(many.judge("GET", &path(400)), Verdict::Allow);
        assert_eq!(many.judge("GET", &path(450)), Verdict::Deny);
        assert_eq!(many.judge("GET", &format!("/{}", "a".repeat(1600))), Verdict::Allow);
    }

    #[test]
    fn a_rule_that_cannot_be_read_says_what_it_must_be() {
        for (text, part) in [
            ("GET", "methods and a path"),
            ("get /x", "capitals"),
            ("GET, /x", "capitals"),
            ("* /x /y", "methods and a path"),
            (" GET /x", "methods and a path"),
            ("ask  GET /x", "methods and a path"),
            ("GET x", "begins with /"),
            ("GET /x?y", "no query"),
            ("allow deny GET /x", "methods and a path"),
            ("GET /a/../b", "matches no request"),
            ("GET /a//b", "matches no request"),
            ("GET /a;b", "matches no request"),
            ("GET /a%2e/%2E", "matches no request"),
            (&format!("GET /{}", "x".repeat(300)), "at most 256 bytes"),
        ] {
            let error = check_rule(text).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
        assert_eq!(check_rule("deny GET,M-SEARCH /@scope%2f*/**"), Ok(()));
        let many = vec!["GET /".to_owned(); MOST_RULES + 1];
        assert!(Rules::read(&many).unwrap_err().contains("at most 100"));
    }

    /// All that a pattern can be of a text, tried out.
    fn naive(pattern: &[Token], text: &[u8]) -> bool {
        match (pattern, text) {
            ([], rest) => rest.is_empty(),
            ([Token::Any, after @ ..], rest) => (0..=rest.len()).any(|length| naive(after, &rest[length..])),
            ([Token::Segment, after @ ..], rest) => {
                let end = rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len());
                (1..=end).any(|length| naive(after, &rest[length..]))
            }
            ([Token::Byte(own), after @ ..], [byte, rest @ ..]) => own == byte && naive(after, rest),
            ([Token::Byte(_), ..], []) => false,
        }
    }

    #[test]
    fn random_patterns_match_what_they_are() {
        let mut random = crate::testing::Random::new();
        let mut found = [0; 2];
        for _ in 0..20_000 {
            // Its places are in one word, or in the last of one and the first of the next.
            let before = "c".repeat([0, 55, 60, 190][random.below(4)]);
            let pattern = format!("/{before}{}", random.text("ab/**", 8));
            let text = format!("/{before}{}", random.text("ab/", 8));
            let expected = [&text, &format!("{text}/")].map(|text| naive(&tokens(&pattern), text.as_bytes()));
            assert_eq!(Pattern::new(&pattern).matches(text.as_bytes()), expected, "{pattern} {text}");
            found[usize::from(expected[0])] += 1;
        }
        assert!(found.iter().all(|count| *count > 1000), "{found:?}");
    }

    /// Zero-width spaces and joiners, marks, variation selectors, fillers, tags.
    const WIDTHLESS: [char; 9] =
        ['\u{200b}', '\u{200d}', '\u{2060}', '\u{feff}', '\u{ad}', '\u{301}', '\u{fe0f}', '\u{3164}', '\u{e0041}'];

    #[test]
    fn no_random_spelling_is_judged_more_leniently_than_what_it_spells() {
        let mut random = crate::testing::Random::new();
        let mut stricter = 0;
        for _ in 0..20_000 {
            let list: Vec<String> = (0..3)
                .map(|_| {
                    let verdict = ["allow", "deny", "ask"][random.below(3)];
                    format!("{verdict} * /{}", random.text("abA/**", 5))
                })
                .filter(|rule| check_rule(rule).is_ok())
                .collect();
            let rules = Rules::read(&list).unwrap();
            let path = format!("/{}", random.text("abA/.", 6));
            let escaped = |text: String| text.bytes().map(|byte| format!("%{byte:02x}")).collect::<String>();
            let spell = |byte: u8| match random.below(8) {
                0 => format!("%{byte:02x}"),
                1 => format!("%{byte:02X}"),
                // A full-width character, one with nothing before it, and one with a mark.
                2 => escaped(char::from_u32(0xfee0 + u32::from(byte)).unwrap().to_string()),
                3 => escaped(format!("{}{}", WIDTHLESS[random.below(WIDTHLESS.len())], char::from(byte))),
                4 if byte != b'/' && byte != b'.' => escaped(if byte == b'b' { "ƀ" } else { "á" }.to_owned()),
                _ => char::from(byte).to_string(),
            };
            let spelled = format!("/{}", path.bytes().skip(1).map(spell).collect::<String>());
            let verdicts = (rules.judge("GET", &path), rules.judge("GET", &spelled));
            assert!(verdicts.1 >= verdicts.0, "{list:?}: {path} {spelled}");
            stricter += usize::from(verdicts.1 > verdicts.0);
        }
        assert!(stricter > 0);
    }
}
