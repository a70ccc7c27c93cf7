//! Random merges, compared with those of git.

use nacre_merge::entry::{Clash, Content, Decision, Entry, Kind, decide};
use nacre_merge::text::{AtConflict, Text, merge};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Output};

const LABELS: AtConflict<'_> = AtConflict::Markers { ours: "HEAD", theirs: "theirs" };

/// A small generator of random numbers (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }

    fn one_in(&mut self, of: usize) -> bool {
        self.below(of) == 0
    }
}

/// The number of cases and the seed: `NACRE_TEST_CASES`, `NACRE_TEST_SEED`.
fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// How lines look in a case.
struct Style {
    different: usize,
    newline: &'static str,
    /// Lines without a letter or a digit.
    has_bare: bool,
}

impl Style {
    fn random(random: &mut Random, has_bare: bool) -> Self {
        let different = [2, 4, 12, 60, 5000][random.below(5)];
        Self { different, newline: if random.one_in(6) { "\r\n" } else { "\n" }, has_bare }
    }

    fn line(&self, random: &mut Random) -> String {
        let bare = ["", "}", "    }", "*/"];
        let text = match random.below(8) {
            0 | 1 if self.has_bare => bare[random.below(bare.len())].to_string(),
            _ => format!("{}line {}", "  ".repeat(random.below(2)), random.below(self.different)),
        };
        let newline = if random.one_in(60) { "\n" } else { self.newline };
        text + newline
    }

    fn lines(&self, random: &mut Random, most: usize) -> Vec<String> {
        (0..random.below(most + 1)).map(|_| self.line(random)).collect()
    }

    fn edited(&self, random: &mut Random, base: &[String]) -> Vec<String> {
        let mut lines = base.to_vec();
        for _ in 0..random.below(5) {
            let at = random.below(lines.len() + 1);
            match random.below(4) {
                0 => drop(lines.splice(at..at, self.lines(random, 4))),
                1 => drop(lines.drain(at..(at + random.below(5)).min(lines.len()))),
                2 => drop(lines.splice(at..(at + 1 + random.below(3)).min(lines.len()).max(at), self.lines(random, 3))),
                _ if at < lines.len() => {
                    let moved = lines.remove(at);
                    let to = random.below(lines.len() + 1);
                    lines.insert(to, moved);
                }
                _ => {}
            }
        }
        lines
    }
}

fn text(random: &mut Random, lines: &[String]) -> Vec<u8> {
    let mut text = lines.concat();
    if random.one_in(4) {
        text.truncate(text.trim_end_matches(['\r', '\n']).len());
    }
    text.into_bytes()
}

/// The base and two versions.
fn versions(random: &mut Random, has_bare: bool) -> [Vec<u8>; 3] {
    let style = Style::random(random, has_bare);
    let most = [6, 30, 120][random.below(3)];
    let base = style.lines(random, most);
    let mut ours = style.edited(random, &base);
    let theirs = match random.below(5) {
        // They have some changes in common.
        0 => style.edited(random, &ours),
        _ => style.edited(random, &base),
    };
    if random.one_in(10) {
        ours = theirs.clone();
    }
    [base, ours, theirs].map(|lines| text(random, &lines))
}

fn git(directory: &Path, arguments: &[&str]) -> Output {
    let mut git = Command::new("git");
    git.current_dir(directory).args(arguments);
    for (name, value) in [
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GIT_AUTHOR_NAME", "a"),
        ("GIT_AUTHOR_EMAIL", "a@localhost"),
        ("GIT_COMMITTER_NAME", "a"),
        ("GIT_COMMITTER_EMAIL", "a@localhost"),
    ] {
        git.env(name, value);
    }
    git.output().unwrap()
}

fn output_of(directory: &Path, arguments: &[&str]) -> String {
    let output = git(directory, arguments);
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Files by their names, each with the base and two versions of it.
type Cases = BTreeMap<String, [Option<Version>; 3]>;

/// A repository with a commit of each version.
fn repository(place: &Path, cases: &Cases) {
    output_of(place, &["init", "-q", "."]);
    for (at, (branch, parent)) in [("base", ""), ("ours", "base"), ("theirs", "base")].into_iter().enumerate() {
        for (name, versions) in cases {
            write(place, name, versions[at].as_ref());
        }
        output_of(place, &["add", "-A"]);
        let tree = output_of(place, &["write-tree"]);
        let parents: &[&str] = if parent.is_empty() { &[] } else { &["-p", parent] };
        let commit = output_of(place, &[&["commit-tree", tree.trim(), "-m", branch], parents].concat());
        output_of(place, &["branch", branch, commit.trim()]);
    }
}

/// Merges the versions in the checkout, and returns the files with a conflict.
fn merge_by_git(place: &Path, options: &[&str]) -> BTreeSet<String> {
    output_of(place, &["checkout", "-q", "-f", "ours"]);
    output_of(place, &["clean", "-q", "-f", "-d"]);
    let merge = ["merge", "-q", "--no-commit", "--no-ff", "-X", "rename-threshold=100%"];
    git(place, &[&merge[..], options, &["theirs"]].concat());
    // "mode oid stage<tab>path". A file of another kind than the other one gets a suffix.
    let unmerged = output_of(place, &["ls-files", "-u", "-z"]);
    let paths = unmerged.split('\0').filter_map(|part| part.split('\t').nth(1));
    paths.filter_map(|path| path.split('~').next()).map(str::to_owned).collect()
}

#[test]
fn merged_files_are_those_of_git() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    let seed = number("NACRE_TEST_SEED", 1);
    let cases: Cases = (0..number("NACRE_TEST_CASES", 1000))
        .map(|case| {
            let mut random = Random(seed * 1_000_003 + case * 7919 + 1);
            let texts = versions(&mut random, true);
            (format!("file-{case}"), texts.map(|text| Some(Version::File(text, false))))
        })
        .collect();
    repository(place, &cases);
    let ways =
        [("merge", &[][..], LABELS), ("merge", &["-X", "ours"], AtConflict::Ours), ("union", &[], AtConflict::Both)];
    for (driver, options, at_conflict) in ways {
        let attribute = if driver == "union" { "* merge=union\n" } else { "* merge\n" };
        fs::write(place.join(".git/info/attributes"), attribute).unwrap();
        let open = merge_by_git(place, options);
        let has_markers = matches!(at_conflict, AtConflict::Markers { .. });
        assert_eq!(!open.is_empty(), has_markers);
        for (name, versions) in &cases {
            let [base, ours, theirs] = versions.each_ref().map(|version| content_of(version.as_ref()));
            let Text { content, conflicts } = merge(&base, &ours, &theirs, at_conflict);
            let expected = fs::read(place.join(name)).unwrap();
            let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            assert_eq!(shown(&content), shown(&expected), "seed {seed}, {name}");
            if !has_markers {
                continue;
            }
            let content = shown(&content);
            let lines: Vec<usize> = conflicts.iter().map(|conflict| conflict.line).collect();
            let marked = content.lines().enumerate().filter(|(_, line)| line.starts_with("<<<<<<< HEAD"));
            assert_eq!(lines, marked.map(|(at, _)| at).collect::<Vec<_>>(), "seed {seed}, {name}");
            assert_eq!(!lines.is_empty(), open.contains(name), "seed {seed}, {name}");
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Version {
    File(Vec<u8>, bool),
    Symlink(String),
}

fn content_of(version: Option<&Version>) -> Vec<u8> {
    match version {
        Some(Version::File(content, _)) => content.clone(),
        Some(Version::Symlink(target)) => target.clone().into_bytes(),
        None => Vec::new(),
    }
}

fn write(directory: &Path, name: &str, version: Option<&Version>) {
    let path = directory.join(name);
    let _ = fs::remove_file(&path);
    match version {
        None => {}
        Some(Version::Symlink(target)) => symlink(target, path).unwrap(),
        Some(Version::File(content, is_executable)) => {
            fs::write(&path, content).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(if *is_executable { 0o755 } else { 0o644 })).unwrap();
        }
    }
}

fn read(path: &Path) -> Option<Version> {
    let found = path.symlink_metadata().ok()?;
    if found.is_symlink() {
        return Some(Version::Symlink(fs::read_link(path).unwrap().to_str().unwrap().into()));
    }
    Some(Version::File(fs::read(path).unwrap(), found.permissions().mode() & 0o100 != 0))
}

/// The result, and whether it is a conflict.
fn merged(base: Option<&Version>, ours: Option<&Version>, theirs: Option<&Version>) -> (Option<Version>, bool) {
    let versions = [base, ours, theirs];
    let described = versions.map(|version| {
        let same = versions.iter().position(|other| content_of(*other) == content_of(version));
        let content = same.unwrap_or_default() as u8;
        version.map(|version| match version {
            Version::File(_, is_executable) => {
                Entry { kind: Kind::File, mode: if *is_executable { 0o755 } else { 0o644 }, content }
            }
            Version::Symlink(_) => Entry { kind: Kind::Symlink, mode: 0o777, content },
        })
    });
    let base_text = if matches!(base, Some(Version::File(..))) { content_of(base) } else { Vec::new() };
    match decide(described[0], described[1], described[2]) {
        Decision::Keep => (ours.cloned(), false),
        Decision::Take => (theirs.cloned(), false),
        Decision::Join { content, mode, is_mode_open } => {
            let (content, is_open) = match content {
                Content::Ours => (content_of(ours), false),
                Content::Theirs => (content_of(theirs), false),
                Content::Both => {
                    let text = merge(&base_text, &content_of(ours), &content_of(theirs), LABELS);
                    let is_open = !text.conflicts.is_empty();
                    (text.content, is_open)
                }
            };
            (Some(Version::File(content, mode == 0o755)), is_open || is_mode_open)
        }
        Decision::Conflict(Clash::DeletedByFirst) => (theirs.cloned(), true),
        Decision::Conflict(_) => (ours.cloned(), true),
    }
}

/// Three versions of an entry. Git looks for renames even with `no-renames`, so each new file has a line, and each new link a
/// target, that no other case has.
fn triple(random: &mut Random, case: u64) -> [Option<Version>; 3] {
    let texts = versions(random, true);
    let mut triple = texts.map(|text| Some(Version::File(text, false)));
    for version in &mut triple {
        if let Some(Version::File(_, is_executable)) = version {
            *is_executable = random.one_in(8);
        }
        match random.below(16) {
            0 => *version = None,
            1 => *version = Some(Version::Symlink(format!("target-{case}-{}", random.below(2)))),
            _ => {}
        }
    }
    if triple[0].is_none() {
        for version in &mut triple {
            if let Some(Version::File(content, _)) = version {
                content.splice(..0, format!("case {case}\n").into_bytes());
            }
        }
    }
    triple
}

#[test]
fn merged_directories_are_those_of_git() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    let seed = number("NACRE_TEST_SEED", 1);
    let mut random = Random(seed * 7_368_787 + 5);
    let cases: Cases =
        (0..number("NACRE_TEST_CASES", 1000)).map(|case| (format!("file-{case}"), triple(&mut random, case))).collect();
    repository(place, &cases);
    let conflicts = merge_by_git(place, &[]);
    for (name, [base, ours, theirs]) in &cases {
        let (result, is_conflict) = merged(base.as_ref(), ours.as_ref(), theirs.as_ref());
        assert_eq!(is_conflict, conflicts.contains(name), "seed {seed}, {name}: {base:?} {ours:?} {theirs:?}");
        let kinds_differ = matches!((ours, theirs), (Some(Version::File(..)), Some(Version::Symlink(_))))
            || matches!((ours, theirs), (Some(Version::Symlink(_)), Some(Version::File(..))));
        // git gives both of them other names.
        if !(is_conflict && kinds_differ) {
            let expected = read(&place.join(name));
            assert!(result == expected, "seed {seed}, {name}: {result:?}, and not {expected:?}");
        }
    }
    assert!(!conflicts.is_empty() && conflicts.len() < cases.len());
}
