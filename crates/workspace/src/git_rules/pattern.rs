//! Patterns of git for paths, as `.gitignore` and `.gitattributes` have them.
//!
//! They come from a directory that others may control, so the time of a match is bounded by the product of both lengths.

/// A pattern. Its path is relative to the directory of the file that has it.
pub struct Pattern {
    /// Its parts between slashes. A single part that is not anchored matches a name at any depth.
    parts: Vec<Vec<u8>>,
    is_anchored: bool,
    for_directories: bool,
}

impl Pattern {
    /// Reads a pattern, without the `!` of a negation. `None` for an empty one.
    pub fn new(text: &[u8]) -> Option<Self> {
        let (text, for_directories) = match text.strip_suffix(b"/") {
            Some(text) => (text, true),
            None => (text, false),
        };
        let is_anchored = text.contains(&b'/');
        let text = text.strip_prefix(b"/").unwrap_or(text);
        let parts: Vec<_> = text.split(|byte| *byte == b'/').map(<[u8]>::to_vec).collect();
        (!text.is_empty()).then_some(Self { parts, is_anchored, for_directories })
    }

    /// Whether it matches a path.
    pub fn matches(&self, path: &[u8], is_directory: bool) -> bool {
        if self.for_directories && !is_directory {
            return false;
        }
        let names: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
        if self.is_anchored {
            return self.matches_names(&names);
        }
        names.last().zip(self.parts.first()).is_some_and(|(name, part)| matches_name(part, name))
    }

    /// Matches all names: `**` stands for any number of them, at the end for at least one.
    fn matches_names(&self, names: &[&[u8]]) -> bool {
        let mut reached = vec![false; names.len() + 1];
        reached[0] = true;
        for (at, part) in self.parts.iter().enumerate() {
            let mut next = vec![false; names.len() + 1];
            if part.len() > 1 && part.iter().all(|byte| *byte == b'*') {
                let is_last = at + 1 == self.parts.len();
                let mut has_begun = false;
                for (count, next) in next.iter_mut().enumerate() {
                    *next = has_begun || (reached[count] && !is_last);
                    has_begun = has_begun || reached[count];
                }
            } else {
                for (count, name) in names.iter().enumerate() {
                    next[count + 1] = reached[count] && matches_name(part, name);
                }
            }
            reached = next;
        }
        reached[names.len()]
    }
}

/// Matches one name. A `*` is tried again only behind the last one before it: an earlier one could not match more.
fn matches_name(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut from) = (0, 0);
    let mut star = None;
    loop {
        if pattern.get(at) == Some(&b'*') {
            at += 1;
            star = Some((at, from));
            continue;
        }
        if at == pattern.len() && from == name.len() {
            return true;
        }
        let taken = name.get(from).and_then(|byte| matches_byte(&pattern[at..], *byte));
        match (taken, star) {
            (Some(length), _) => {
                at += length;
                from += 1;
            }
            (None, Some((after, start))) if start < name.len() => {
                star = Some((after, start + 1));
                (at, from) = (after, start + 1);
            }
            _ => return false,
        }
    }
}

/// How much of a pattern matches this byte. `None` if its start does not.
fn matches_byte(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [b'?', ..] => Some(1),
        [b'[', rest @ ..] => matches_set(rest, byte).map(|length| length + 1),
        [b'\\', escaped, ..] => (*escaped == byte).then_some(2),
        [literal, ..] => (*literal == byte).then_some(1),
        [] => None,
    }
}

/// How long a set is that has this byte, from behind its `[`. `None` if it does not, or does not end.
fn matches_set(set: &[u8], byte: u8) -> Option<usize> {
    let is_negated = matches!(set.first(), Some(b'!' | b'^'));
    let mut at = usize::from(is_negated);
    let first = at;
    let mut is_in = false;
    loop {
        match set.get(at..)? {
            [b']', ..] if at > first => break,
            [b'[', b':', rest @ ..] => {
                let end = rest.iter().position(|byte| *byte == b']')?;
                is_in |= is_of_class(rest[..end].strip_suffix(b":")?, byte)?;
                at += end + 3;
            }
            rest => {
                let (low, length) = literal(rest)?;
                at += length;
                match set.get(at..)? {
                    [b'-', high @ ..] if high.first().is_some_and(|high| *high != b']') => {
                        let (high, length) = literal(high)?;
                        is_in |= (low..=high).contains(&byte);
                        at += 1 + length;
                    }
                    _ => is_in |= low == byte,
                }
            }
        }
    }
    (is_in != is_negated).then_some(at + 1)
}

fn literal(set: &[u8]) -> Option<(u8, usize)> {
    match set {
        [b'\\', escaped, ..] => Some((*escaped, 2)),
        [byte, ..] => Some((*byte, 1)),
        [] => None,
    }
}

fn is_of_class(class: &[u8], byte: u8) -> Option<bool> {
    Some(match class {
        b"alnum" => byte.is_ascii_alphanumeric(),
        b"alpha" => byte.is_ascii_alphabetic(),
        b"blank" => matches!(byte, b' ' | b'\t'),
        b"cntrl" => byte.is_ascii_control(),
        b"digit" => byte.is_ascii_digit(),
        b"graph" => byte.is_ascii_graphic(),
        b"lower" => byte.is_ascii_lowercase(),
        b"print" => byte.is_ascii_graphic() || byte == b' ',
        b"punct" => byte.is_ascii_punctuation(),
        b"space" => byte.is_ascii_whitespace() || byte == 0x0b,
        b"upper" => byte.is_ascii_uppercase(),
        b"xdigit" => byte.is_ascii_hexdigit(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;
    use std::fs;
    use std::io::Write;
    use std::process::{Command, Stdio};

    fn matches(pattern: &str, path: &str) -> bool {
        Pattern::new(pattern.as_bytes()).is_some_and(|pattern| pattern.matches(path.as_bytes(), false))
    }

    #[test]
    fn a_pattern_without_a_slash_matches_at_any_depth_and_another_only_in_its_place() {
        assert!(matches("*.o", "a.o") && matches("*.o", "src/x/a.o") && !matches("*.o", "a.obj"));
        assert!(matches("/a", "a") && !matches("/a", "b/a") && matches("b/a", "b/a") && !matches("b/a", "c/b/a"));
        assert!(matches("**/b/a", "c/b/a") && matches("**/a", "a") && matches("a/**/b", "a/b"));
        assert!(matches("a/**", "a/b/c") && !matches("a/**", "a") && !matches("a/*", "a/b/c"));
        assert!(!matches("a/", "a") && Pattern::new(b"a/").unwrap().matches(b"x/a", true));
        assert!(matches("[!a-c]?[[:digit:]]", "dx7") && !matches("[!a-c]?[[:digit:]]", "bx7"));
        assert!(matches("\\*", "*") && !matches("\\*", "a") && !matches("[a", "[a") && matches("[]]", "]"));
        assert!(Pattern::new(b"/").is_none() && Pattern::new(b"").is_none());
    }

    #[test]
    fn a_hostile_pattern_takes_no_long_time() {
        let pattern = "*a".repeat(5000) + "b";
        assert!(!matches(&pattern, &"a".repeat(20_000)));
        assert!(!matches(&("**/a/".repeat(500) + "b"), &"a/".repeat(1000)));
    }

    #[test]
    fn random_patterns_match_as_in_git() {
        let place = tempfile::tempdir().unwrap();
        let git = |args: &[&str]| {
            let mut git = Command::new("git");
            git.args(args)
                .current_dir(&place)
                .env("GIT_CONFIG_GLOBAL", "/dev/null")
                .env("GIT_CONFIG_SYSTEM", "/dev/null");
            git
        };
        assert!(git(&["init", "-q"]).status().unwrap().success());
        let pieces = ["a", "b", "*", "?", "/", "**", "[ab]", "[!a]", "\\a", "[a-c]", "/**/", "."];
        for seed in crate::testing::seeds(60) {
            let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
            let text: String = (0..1 + random.below(5)).map(|_| pieces[random.below(pieces.len())]).collect();
            // Git matches the part behind a literal start alone, where `**` gets another meaning.
            if text.match_indices("**").any(|(at, _)| at > 0 && !text[..at].ends_with(['/', '*'])) {
                continue;
            }
            let name = |random: &mut Random| -> String {
                (0..1 + random.below(2)).map(|_| ["a", "b", "c", "."][random.below(4)]).collect()
            };
            let paths: Vec<String> = (0..40)
                .map(|_| (0..1 + random.below(3)).map(|_| name(&mut random)).collect::<Vec<_>>().join("/"))
                .filter(|path| path.split('/').all(|name| !matches!(name, "." | "..")))
                .collect();
            // What is below an ignored directory is ignored, too: this test is about one pattern and one path.
            fs::write(place.path().join(".gitignore"), format!("{text}\n")).unwrap();
            let mut child = git(&["check-ignore", "--no-index", "-z", "--stdin"]);
            let mut child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            child.stdin.take().unwrap().write_all((paths.join("\0") + "\0").as_bytes()).unwrap();
            let ignored = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
            let ignored: Vec<&str> = ignored.split('\0').collect();
            let pattern = Pattern::new(text.as_bytes());
            for path in &paths {
                let ends = path.match_indices('/').map(|(at, _)| (at, true)).chain([(path.len(), false)]);
                let is_ignored = pattern.as_ref().is_some_and(|pattern| {
                    ends.clone().any(|(end, is_directory)| pattern.matches(&path.as_bytes()[..end], is_directory))
                });
                assert_eq!(is_ignored, ignored.contains(&path.as_str()), "{text} {path}, seed {seed}");
            }
        }
    }
}
