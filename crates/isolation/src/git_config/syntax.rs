//! The syntax of git's config files (git-config(1)), as far as it takes to compare two of them and to change one.
//!
//! Includes are not followed, and nothing that a file says has an effect here.

use std::collections::BTreeMap;
use std::ops::Range;

/// The name of a variable. Only the subsection can have upper-case letters, and any character.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Like `remote`.
    pub section: String,
    /// Like `origin`.
    pub subsection: Option<String>,
    /// Like `url`.
    pub name: String,
}

/// A value; `None` for a name alone, which is true.
pub type Value = Option<String>;

/// The values of each key, in order.
pub type Values = BTreeMap<Key, Vec<Value>>;

/// A file that was read.
pub struct Config<'a> {
    text: &'a str,
    sections: Vec<Section>,
    entries: Vec<Entry>,
}

struct Section {
    section: String,
    subsection: Option<String>,
    /// `[` and the place behind `]`.
    header: Range<usize>,
}

struct Entry {
    /// The section that it is in, by its place in the list.
    at: usize,
    key: Key,
    value: Value,
    /// Its lines, or the rest of the line behind a header.
    span: Range<usize>,
}

impl<'a> Config<'a> {
    /// Reads a file. `None` for one that git refuses.
    pub fn read(text: &'a str) -> Option<Self> {
        if text.contains('\0') {
            return None;
        }
        let mut reader = Reader { text, at: text.strip_prefix('\u{feff}').map_or(0, |rest| text.len() - rest.len()) };
        let (mut sections, mut entries) = (Vec::new(), Vec::new());
        let mut line = reader.at;
        loop {
            let from = reader.at;
            match reader.next() {
                None => return Some(Self { text, sections, entries }),
                Some('\n') => line = reader.at,
                Some('#' | ';') => {
                    reader.skip_line();
                    line = reader.at;
                }
                Some('[') => {
                    let (section, subsection) = reader.header()?;
                    sections.push(Section { section, subsection, header: from..reader.at });
                    line = reader.at;
                }
                Some(first) if is_space(first) => {}
                Some(first) if first.is_ascii_alphabetic() => {
                    let at = sections.len().checked_sub(1)?;
                    let Section { section, subsection, .. } = sections.last()?;
                    let (name, value) = reader.entry(first)?;
                    let key = Key { section: section.clone(), subsection: subsection.clone(), name };
                    let is_on_header = line == sections.last()?.header.end;
                    let start = if is_on_header { from } else { line };
                    entries.push(Entry { at, key, value, span: start..reader.at });
                    line = reader.at;
                }
                Some(_) => return None,
            }
        }
    }

    /// What it says.
    pub fn values(&self) -> Values {
        let mut values = Values::new();
        for Entry { key, value, .. } in &self.entries {
            values.entry(key.clone()).or_default().push(value.clone());
        }
        values
    }

    /// The text with other values of some keys: all that each has from then on. What else is in the file stays as it is.
    /// `None` if that cannot be done. The values must be printable, and have neither `"` nor `\`.
    pub fn with(&self, changed: &Values) -> Option<String> {
        let mut edits: Vec<(Range<usize>, String)> = Vec::new();
        let mut added: BTreeMap<(&str, Option<&str>), String> = BTreeMap::new();
        let mut touched: BTreeMap<usize, bool> = BTreeMap::new();
        for entry in &self.entries {
            if changed.contains_key(&entry.key) {
                edits.push((entry.span.clone(), String::new()));
                touched.entry(entry.at).or_insert(false);
            }
        }
        for (key, values) in changed {
            let lines: String = values.iter().map(|value| line(&key.name, value)).collect();
            if lines.is_empty() {
                continue;
            }
            let is_here = |at: &usize| {
                let section = &self.sections[*at];
                section.section == key.section && section.subsection == key.subsection
            };
            let own = self.entries.iter().find(|entry| entry.key == *key);
            if let Some(entry) = own {
                touched.insert(entry.at, true);
                edits.push((entry.span.start..entry.span.start, lines));
            } else if let Some(at) = (0..self.sections.len()).rev().find(is_here) {
                let last = self.entries.iter().rev().find(|entry| entry.at == at);
                let header = self.sections[at].header.end;
                let place = last.map_or_else(|| self.end_of_line(header), |entry| entry.span.end);
                touched.insert(at, true);
                edits.push((place..place, self.on_own_line(place, lines)));
            } else {
                let named = (key.section.as_str(), key.subsection.as_deref());
                added.entry(named).or_insert_with(|| header(named)).push_str(&lines);
            }
        }
        for (at, _) in touched.iter().filter(|(_, is_kept)| !**is_kept) {
            edits.extend(self.emptied(*at, changed).map(|range| (range, String::new())));
        }
        let end = self.text.len();
        let new: String = added.into_values().collect();
        if !new.is_empty() {
            edits.push((end..end, self.on_own_line(end, new)));
        }
        let text = apply(self.text, edits);
        // Whatever the file looks like, it says what it is to say.
        let mut wanted = self.values();
        for (key, values) in changed {
            if values.is_empty() { drop(wanted.remove(key)) } else { drop(wanted.insert(key.clone(), values.clone())) }
        }
        (Config::read(&text)?.values() == wanted).then_some(text)
    }

    /// A section without anything but what is removed.
    fn emptied(&self, at: usize, changed: &Values) -> Option<Range<usize>> {
        let start = self.sections[at].header.start;
        let end = self.sections.get(at + 1).map_or(self.text.len(), |next| next.header.start);
        let mut from = self.sections[at].header.end;
        for entry in self.entries.iter().filter(|entry| entry.at == at) {
            let is_removed =
                changed.contains_key(&entry.key) && self.text.get(from..entry.span.start)?.trim().is_empty();
            from = is_removed.then_some(entry.span.end)?;
        }
        self.text.get(from..end)?.trim().is_empty().then_some(start..end)
    }

    fn end_of_line(&self, at: usize) -> usize {
        let rest = self.text.get(at..).unwrap_or_default();
        rest.find('\n').map_or(self.text.len(), |length| at + length + 1)
    }

    fn on_own_line(&self, place: usize, lines: String) -> String {
        let before = self.text.get(..place).unwrap_or_default();
        if before.is_empty() || before.ends_with('\n') { lines } else { format!("\n{lines}") }
    }
}

/// The text with its edits, which overlap only where a larger one has the others in it.
fn apply(text: &str, mut edits: Vec<(Range<usize>, String)>) -> String {
    let (mut result, mut at) = (String::with_capacity(text.len()), 0);
    // What is put in a place comes before what is taken away from it.
    edits.sort_by_key(|(range, inserted)| (range.start, inserted.is_empty(), std::cmp::Reverse(range.end)));
    for (range, inserted) in edits {
        result.push_str(text.get(at..range.start).unwrap_or_default());
        result.push_str(&inserted);
        at = at.max(range.end);
    }
    result.push_str(text.get(at..).unwrap_or_default());
    result
}

fn header((section, subsection): (&str, Option<&str>)) -> String {
    subsection.map_or_else(|| format!("[{section}]\n"), |subsection| format!("[{section} \"{subsection}\"]\n"))
}

fn line(name: &str, value: &Value) -> String {
    let is_plain = |value: &str| value.chars().all(|letter| !is_space(letter) && !"#;".contains(letter));
    match value {
        None => format!("\t{name}\n"),
        Some(value) if is_plain(value) => format!("\t{name} = {value}\n"),
        Some(value) => format!("\t{name} = \"{value}\"\n"),
    }
}

fn is_space(letter: char) -> bool {
    matches!(letter, ' ' | '\t' | '\r' | '\n')
}

fn is_of_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '-'
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<char> {
        self.text.get(self.at..)?.chars().next()
    }

    /// The next character. The end of a line is one, also with a carriage return.
    fn next(&mut self) -> Option<char> {
        let rest = self.text.get(self.at..)?;
        if rest.starts_with("\r\n") {
            self.at += 2;
            return Some('\n');
        }
        let next = rest.chars().next()?;
        self.at += next.len_utf8();
        Some(next)
    }

    fn skip_line(&mut self) {
        while self.next().is_some_and(|letter| letter != '\n') {}
    }

    /// What follows `[`, up to `]`.
    fn header(&mut self) -> Option<(String, Option<String>)> {
        let mut section = String::new();
        loop {
            match self.next()? {
                ']' => break,
                letter if is_of_name(letter) || letter == '.' => section.push(letter.to_ascii_lowercase()),
                ' ' | '\t' => return Some((section, Some(self.subsection()?))),
                _ => return None,
            }
        }
        // An old form, without upper-case letters.
        let parts = section.split_once('.').map(|(section, rest)| (section.to_string(), Some(rest.to_string())));
        Some(parts.unwrap_or((section, None)))
    }

    fn subsection(&mut self) -> Option<String> {
        while self.peek().is_some_and(|letter| matches!(letter, ' ' | '\t')) {
            self.next();
        }
        if self.next()? != '"' {
            return None;
        }
        let mut subsection = String::new();
        loop {
            match self.next()? {
                '\n' => return None,
                '"' => break,
                '\\' => subsection.push(self.next().filter(|letter| *letter != '\n')?),
                letter => subsection.push(letter),
            }
        }
        (self.next()? == ']').then_some(subsection)
    }

    /// A variable and its value, with the end of its line.
    fn entry(&mut self, first: char) -> Option<(String, Value)> {
        let mut name = String::from(first.to_ascii_lowercase());
        while let Some(letter) = self.peek().filter(|letter| is_of_name(*letter)) {
            name.push(letter.to_ascii_lowercase());
            self.next();
        }
        while self.peek().is_some_and(|letter| matches!(letter, ' ' | '\t')) {
            self.next();
        }
        match self.next() {
            None | Some('\n') => Some((name, None)),
            Some('=') => Some((name, Some(self.value()?))),
            Some(_) => None,
        }
    }

    fn value(&mut self) -> Option<String> {
        let (mut value, mut kept, mut is_quoted) = (String::new(), 0, false);
        loop {
            match self.next() {
                None | Some('\n') if is_quoted => return None,
                None | Some('\n') => break,
                Some(letter) if !is_quoted && is_space(letter) => {
                    if !value.is_empty() {
                        value.push(letter);
                    }
                    continue;
                }
                Some('#' | ';') if !is_quoted => {
                    self.skip_line();
                    break;
                }
                Some('"') => is_quoted = !is_quoted,
                Some('\\') => match self.next() {
                    None | Some('\n') => {}
                    Some('t') => value.push('\t'),
                    Some('b') => value.push('\u{8}'),
                    Some('n') => value.push('\n'),
                    Some(letter @ ('"' | '\\')) => value.push(letter),
                    Some(_) => return None,
                },
                Some(letter) => value.push(letter),
            }
            kept = value.len();
        }
        value.truncate(kept);
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> Key {
        let (section, rest) = text.split_once('.').unwrap();
        let (subsection, name) = rest.rsplit_once('.').map_or((None, rest), |(sub, name)| (Some(sub.into()), name));
        Key { section: section.into(), subsection, name: name.into() }
    }

    /// What is read, as `git config --list` prints it.
    fn list(text: &str) -> Option<String> {
        let line = |Entry { key, value, .. }: &Entry| {
            let subsection = key.subsection.as_ref().map(|subsection| format!("{subsection}.")).unwrap_or_default();
            let value = value.as_ref().map(|value| format!("={value}")).unwrap_or_default();
            format!("{}.{subsection}{}{value}\n", key.section, key.name)
        };
        Some(Config::read(text)?.entries.iter().map(line).collect())
    }

    fn changed(text: &str, changes: &[(&str, &[&str])]) -> Option<String> {
        let values = |values: &[&str]| values.iter().map(|value| Some((*value).to_string())).collect();
        Config::read(text).unwrap().with(&changes.iter().map(|(name, list)| (key(name), values(list))).collect())
    }

    #[test]
    fn a_file_is_read_as_git_reads_it() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("config");
        let texts = [
            "[core]\n\tbare = false\n\tFileMode\n",
            "[Remote \"Origin\"] URL = a b  c  # comment\n[remote.Other]url=x",
            "\u{feff}[a]b=c\r\nd = \"e # f\" g ; h\r\n",
            "[a \"b\\\"c\\\\d\\e\"]\nx = \\\"y\\\"\\\\\\t\\n|\n",
            "[a]\nx = one\\\n  two \\\n[b]\ny = 1\n",
            "[a]\nx = \"  spaces  \"  \ny =   \nz=\n[b][c]d=e\n# [x]\n; [y]\n",
            "[a]\nx = trailing  \\\n\n",
            "[a]\nx = b   \"\"\n",
            "[a]\r\n\tx = y\rz\r\n",
            "[url \"ext::sh -c \"]\ninsteadOf = https://\n",
            "[a\n]\n",
            "[a] = b\n",
            "[a]\n1x = y\n",
            "[a]\nx y\n",
            "[a]\nx = \"y\n",
            "[a]\nx = \\q\n",
            "[a \"b\nc\"]\n",
            "[a \"b\" ]\n",
            "[a b]\n",
            "[a_b]\nx = y\n",
            "",
            "\n\n  # nothing\n",
        ];
        for text in texts {
            std::fs::write(&file, text).unwrap();
            let git = std::process::Command::new("git")
                .args(["config", "--no-includes", "--list", "--file"])
                .arg(&file)
                .current_dir("/")
                .output()
                .unwrap();
            let expected = git.status.success().then(|| String::from_utf8(git.stdout).unwrap());
            assert_eq!(list(text), expected, "{text:?}");
        }
    }

    /// Keys, and their new values.
    type Changes<'a> = &'a [(&'a str, &'a [&'a str])];

    #[test]
    fn what_is_not_changed_stays_as_it_is() {
        let text = "# mine\n[core]\n\tbare = false ; yes\n[remote \"o\"] url = a\n\tfetch = b\n\n[branch \"m\"]\n\tremote = o\n\tmerge = refs/heads/m\n# end\n";
        let cases: [(Changes<'_>, &str, &str); 5] = [
            (&[("remote.o.url", &["c"])], "] url = a\n", "] \turl = c\n"),
            (&[("remote.o.fetch", &["b", "c d"])], "\tfetch = b\n", "\tfetch = b\n\tfetch = \"c d\"\n"),
            (&[("branch.m.rebase", &["true"])], "heads/m\n", "heads/m\n\trebase = true\n"),
            (&[("branch.m.remote", &[])], "\tremote = o\n", ""),
            (
                &[("branch.n.remote", &["o"]), ("branch.n.merge", &["refs/heads/n"])],
                "# end\n",
                "# end\n[branch \"n\"]\n\tmerge = refs/heads/n\n\tremote = o\n",
            ),
        ];
        for (changes, from, to) in cases {
            assert_eq!(changed(text, changes).unwrap(), text.replacen(from, to, 1));
        }
        let both: &[(&str, &[&str])] = &[("remote.o.url", &[]), ("remote.o.fetch", &[])];
        let gone = changed(text, both).unwrap();
        assert_eq!(gone, text.replacen("[remote \"o\"] url = a\n\tfetch = b\n\n", "", 1));
        assert_eq!(changed("[core]\n\tbare", &[("a.b", &["c"])]).unwrap(), "[core]\n\tbare\n[a]\n\tb = c\n");
        assert_eq!(changed("[a]", &[("a.b", &["c"])]).unwrap(), "[a]\n\tb = c\n");
        assert_eq!(changed("[a]\n\tb = c\n", &[("a.b", &[])]).unwrap(), "");
        assert_eq!(changed("[a]\n#\nb = c\n", &[("a.b", &[])]).unwrap(), "[a]\n#\n");
        // The end of the file goes on, and another header follows on the line: neither is guessed at.
        assert_eq!(changed("[a]\nx = y\\", &[("b.c", &["d"])]), None);
        assert_eq!(changed("[a][b]\nx = y\n", &[("a.c", &["d"])]), None);
    }
}
