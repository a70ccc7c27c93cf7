//! Rules for the requests to a host: `GET,HEAD /repos/me/**`, `deny DELETE /**`, `ask POST /**`, `* /v1/*`.

use std::str::FromStr;

/// A longer path is refused where a host has rules.
const LONGEST_PATH: usize = 8192;
const LONGEST_METHOD: usize = 64;
const LONGEST_RULE: usize = 256;
/// Rules for one host.
const MOST_RULES: usize = 100;

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
    pattern: Vec<Token>,
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
/// What it must be instead.
pub fn check_rule(text: &str) -> Result<(), String> {
    text.parse::<Rule>().map(drop)
}

impl FromStr for Rule {
    type Err = String;

    /// Reads `[allow|deny|ask] METHOD[,METHOD]|* /path`.
    fn from_str(text: &str) -> Result<Self, String> {
        if text.len() > LONGEST_RULE {
            return Err(format!("a rule must have at most {LONGEST_RULE} bytes"));
        }
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let (verdict, rest) = match words.as_slice() {
            ["allow", rest @ ..] => (Verdict::Allow, rest),
            ["deny", rest @ ..] => (Verdict::Deny, rest),
            ["ask", rest @ ..] => (Verdict::Ask, rest),
            rest => (Verdict::Allow, rest),
        };
        let [methods, path] = rest else {
            return Err(format!("{text:?} must be methods and a path, like 'GET,HEAD /repos/**'"));
        };
        let names: Vec<String> = methods.split(',').map(str::to_owned).collect();
        let is_method =
            |name: &String| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-');
        if *methods != "*" && !names.iter().all(is_method) {
            return Err(format!("{methods:?} must be * or methods in capitals with commas between, like 'GET,HEAD'"));
        }
        if !path.starts_with('/') || !path.bytes().all(|byte| byte.is_ascii_graphic()) || path.contains(['?', '#']) {
            return Err(format!("{path:?} must be a path that begins with / and has no query, like '/repos/**'"));
        }
        if decoded(path).is_none() {
            let odd = "'.', '..' or empty segments, ';', '\\', or escapes of these, of '%' or of control characters";
            return Err(format!("{path:?} matches no request, since paths with {odd} are always refused"));
        }
        let methods = (*methods != "*").then_some(names);
        Ok(Self { verdict, methods, pattern: tokens(path), text: words.join(" ") })
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
        tokens.push(token);
        rest = next;
    }
    tokens
}

/// Whether a pattern is all of a text. The time is proportional to both.
fn matches(pattern: &[Token], text: &[u8], is_same: impl Fn(&u8, &u8) -> bool) -> bool {
    // `states[n]`: the first n tokens have matched. `**` can be passed without a byte.
    let pass = |states: &mut [bool]| {
        for (at, token) in pattern.iter().enumerate() {
            states[at + 1] |= states[at] && *token == Token::Any;
        }
    };
    let mut states = vec![false; pattern.len() + 1];
    let mut next = states.clone();
    states[0] = true;
    pass(&mut states);
    for byte in text {
        let Some(last) = states.iter().rposition(|state| *state) else { return false };
        next.fill(false);
        for (at, token) in pattern.iter().enumerate().take(last + 1).filter(|(at, _)| states[*at]) {
            match token {
                Token::Byte(own) => next[at + 1] |= is_same(own, byte),
                Token::Segment if *byte != b'/' => (next[at], next[at + 1]) = (true, true),
                Token::Segment => {}
                Token::Any => next[at] = true,
            }
        }
        pass(&mut next);
        std::mem::swap(&mut states, &mut next);
    }
    states[pattern.len()]
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
            return Err(format!("a host must have at most {MOST_RULES} rules, not {}", texts.len()));
        }
        texts.iter().map(|text| text.parse()).collect::<Result<_, _>>().map(Self)
    }

    /// Judges a request by its method and its path, without the query.
    ///
    /// Servers differ in what they take for the same: `%2f` and a slash (npm sends `@scope%2fname`), other escapes, upper and
    /// lower case, a slash at the end. The strictest reading counts. What servers read in yet other ways is refused.
    pub fn judge(&self, method: &str, path: &str) -> Verdict {
        let is_short = method.len() <= LONGEST_METHOD && path.len() <= LONGEST_PATH;
        let Some(decoded) = decoded(path).filter(|_| is_short) else { return Verdict::Deny };
        let slashes = path.replace("%2f", "/").replace("%2F", "/");
        // A server that decodes first finds a query there.
        let cut = decoded.split(['?', '#']).next().unwrap_or_default();
        let mut readings = vec![path, &slashes, &decoded, cut];
        readings.sort_unstable();
        readings.dedup();
        readings.into_iter().map(|reading| self.of(method, reading)).max().unwrap_or(Verdict::Deny)
    }

    fn of(&self, method: &str, path: &str) -> Verdict {
        let exact = self.find(method, path, u8::eq).unwrap_or(Verdict::Deny);
        // What only these match may still be allowed.
        let other = path.strip_suffix('/').map_or_else(|| format!("{path}/"), str::to_owned);
        let loose = [path, &other].map(|path| self.find(method, path, u8::eq_ignore_ascii_case));
        loose.into_iter().flatten().fold(exact, Verdict::max)
    }

    fn find(&self, method: &str, path: &str, is_same: fn(&u8, &u8) -> bool) -> Option<Verdict> {
        let is_method =
            |own: &String| own.len() == method.len() && own.bytes().zip(method.bytes()).all(|(a, b)| is_same(&a, &b));
        let applies = |rule: &&Rule| {
            rule.methods.as_ref().is_none_or(|methods| methods.iter().any(is_method))
                && matches(&rule.pattern, path.as_bytes(), is_same)
        };
        self.0.iter().find(applies).map(|rule| rule.verdict)
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
    let is_odd = text.contains(['%', '\\', ';']) || text.contains("//") || text.contains(|one: char| one.is_control());
    let has_dots = text.split('/').any(|segment| segment == "." || segment == "..");
    (!is_odd && !has_dots).then_some(text)
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
            "*",
            "",
        ] {
            assert_eq!(all.judge("GET", path), Verdict::Deny, "{path}");
        }
        assert_eq!(all.judge("GET", &format!("/a/{}", "x".repeat(9000))), Verdict::Deny);
        assert_eq!(all.judge(&"X".repeat(65), "/a/b"), Verdict::Deny);
        assert_eq!(all.judge("GET", "/a/b%2fc%20d%C3%A9"), Verdict::Allow);
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
            ("GET", "/%61dmin", Verdict::Ask),
            ("GET", "/ADMIN/", Verdict::Ask),
            ("GET", "/%41/b", Verdict::Deny),
            ("GET", "/a", Verdict::Deny),
            ("GET", "/A", Verdict::Deny),
            ("GET", "/repos/me/x", Verdict::Allow),
            ("DELETE", "/repos/me/y", Verdict::Allow),
        ] {
            assert_eq!(rules.judge(method, path), verdict, "{method} {path}");
        }
    }

    #[test]
    fn the_time_is_proportional_to_pattern_and_path() {
        let pattern = tokens(&format!("/{}b", "**a*".repeat(100)));
        assert!(!matches(&pattern, format!("/{}", "a".repeat(8000)).as_bytes(), u8::eq));
    }

    #[test]
    fn a_rule_that_cannot_be_read_says_what_it_must_be() {
        for (text, part) in [
            ("GET", "methods and a path"),
            ("get /x", "capitals"),
            ("GET, /x", "capitals"),
            ("GET x", "begins with /"),
            ("GET /x?y", "no query"),
            ("allow deny GET /x", "methods and a path"),
            ("GET /a/../b", "matches no request"),
            ("GET /a//b", "matches no request"),
            ("GET /a%2e/%2E", "matches no request"),
            (&format!("GET /{}", "x".repeat(300)), "at most 256 bytes"),
        ] {
            let error = check_rule(text).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
        assert_eq!(check_rule("deny  GET,M-SEARCH /@scope%2f*/**"), Ok(()));
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
            let pattern = tokens(&format!("/{}", random.text("ab/**", 8)));
            let text = format!("/{}", random.text("ab/", 8));
            let expected = naive(&pattern, text.as_bytes());
            assert_eq!(matches(&pattern, text.as_bytes(), u8::eq), expected, "{pattern:?} {text}");
            found[usize::from(expected)] += 1;
        }
        assert!(found.iter().all(|count| *count > 1000), "{found:?}");
    }

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
            let spell = |byte: u8| match random.below(4) {
                0 => format!("%{byte:02x}"),
                1 => format!("%{byte:02X}"),
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
