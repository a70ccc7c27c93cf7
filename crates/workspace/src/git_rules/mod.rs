//! What `.gitignore` and `.gitattributes` of the real directory say about files of a workspace: which of them programs have
//! generated, and how they are merged. What programs in the workspace have written does not count, since it could hide a source.
//!
//! Git itself does not run: its configuration may belong to someone else.

mod pattern;

use crate::tree::{Tree, file_type, open_file, split, status};
use crate::walk::Walk;
use nacre_protocol::workspace::MergeRules;
use pattern::Pattern;
use rustix::fs::{FileType, fstat};
use rustix::io::{Errno, Result};
use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::rc::Rc;

/// Maximum bytes that are read of a file with rules.
const MAX_BYTES: u64 = 256 * 1024;
/// Maximum rules of a file. Later ones do not count.
const MAX_RULES: usize = 2000;
/// The names of the files in which package managers note exact versions.
const LOCKS: [&str; 18] = [
    "package-lock.json",
    "npm-shrinkwrap.json",
    "yarn.lock",
    "pnpm-lock.yaml",
    "bun.lock",
    "bun.lockb",
    "deno.lock",
    "Cargo.lock",
    "go.sum",
    "poetry.lock",
    "uv.lock",
    "Pipfile.lock",
    "pdm.lock",
    "composer.lock",
    "Gemfile.lock",
    "flake.lock",
    "Package.resolved",
    "packages.lock.json",
];
/// The names of directories that only programs fill.
const OUTPUTS: [&str; 15] = [
    "node_modules",
    "bower_components",
    "__pycache__",
    ".venv",
    ".tox",
    ".next",
    ".nuxt",
    ".svelte-kit",
    ".turbo",
    ".parcel-cache",
    ".gradle",
    ".pytest_cache",
    ".mypy_cache",
    ".ruff_cache",
    ".eggs",
];

/// How two versions of a file become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeRule {
    /// Line by line.
    Lines,
    /// Line by line. Where both have changed the same lines, those of both stay.
    Union,
    /// Not at all.
    Whole,
    /// By the program with this number; see [`MergeRules::drivers`].
    Driver(usize),
}

/// How long markers are by default.
const MARKER_SIZE: u32 = 7;
/// Maximum length of markers.
const MAX_MARKER_SIZE: u32 = 1000;

/// A line of `.gitignore`, or what one of `.gitattributes` says about an attribute.
struct Rule<T> {
    pattern: Pattern,
    says: T,
}

/// The rules of a directory; the last ones count first.
#[derive(Default)]
struct DirectoryRules {
    ignored: Vec<Rule<bool>>,
    generated: Vec<Rule<bool>>,
    /// `None` for the default.
    merged: Vec<Rule<Option<MergeRule>>>,
    marker_sizes: Vec<Rule<u32>>,
}

impl DirectoryRules {
    fn add_attributes(&mut self, text: &[u8], drivers: &[(String, String)]) {
        self.generated = attribute(text, generated);
        self.merged = attribute(text, |word| merged(word, drivers));
        self.marker_sizes = attribute(text, marker_size);
    }
}

/// What the last rule that matches says.
fn last<T: Copy>(rules: &[Rule<T>], path: &[u8], is_directory: bool) -> Option<T> {
    rules.iter().rev().find(|rule| rule.pattern.matches(path, is_directory)).map(|rule| rule.says)
}

/// See the module.
pub struct GitRules<'a> {
    base: Walk<'a>,
    rules: RefCell<HashMap<Vec<u8>, Rc<DirectoryRules>>>,
    /// The directories whose content git ignores, or not.
    ignored: RefCell<HashMap<Vec<u8>, bool>>,
    drivers: Vec<(String, String)>,
    /// How a file of which nothing is said is merged.
    default: MergeRule,
    /// Rules outside of the directory, with what is before each of its paths there.
    stronger: Vec<(Vec<u8>, DirectoryRules)>,
    weaker: Vec<(Vec<u8>, DirectoryRules)>,
}

impl<'a> GitRules<'a> {
    /// Those of a real directory.
    pub fn new(base: &'a Tree) -> Self {
        Self::for_merge(base, &MergeRules::default())
    }

    /// The same, with how the user's git merges files.
    pub fn for_merge(base: &'a Tree, MergeRules { drivers, default, stronger, weaker }: &MergeRules) -> Self {
        let outside = |all: &[(Vec<u8>, Vec<u8>)]| {
            let rules = |(prefix, text): &(Vec<u8>, Vec<u8>)| {
                let mut rules = DirectoryRules::default();
                rules.add_attributes(text, drivers);
                (prefix.clone(), rules)
            };
            all.iter().map(rules).collect()
        };
        Self {
            base: Walk::new(base),
            rules: RefCell::default(),
            ignored: RefCell::default(),
            default: default.as_ref().map_or(MergeRule::Lines, |name| named(name.as_bytes(), drivers)),
            stronger: outside(stronger),
            weaker: outside(weaker),
            drivers: drivers.clone(),
        }
    }

    /// Whether the real directory has rules that tell outputs from sources: it is a repository of git, or has a `.gitignore`.
    ///
    /// # Errors
    /// Those of the system calls.
    pub fn has_rules(&self) -> Result<bool> {
        let root = self.base.directory(b"")?;
        Ok(status(root.as_ref(), b".git")?.is_some() || status(root.as_ref(), b".gitignore")?.is_some())
    }

    /// How a file is merged.
    ///
    /// # Errors
    /// Those of the system calls.
    pub fn merge_of(&self, path: &[u8]) -> Result<MergeRule> {
        Ok(self.attribute_of(path, |rules| &rules.merged)?.flatten().unwrap_or(self.default))
    }

    /// The name and the command of a driver.
    pub fn driver(&self, number: usize) -> (&str, &str) {
        self.drivers.get(number).map_or(("", ""), |(name, command)| (name, command))
    }

    /// How long the markers in a file are.
    ///
    /// # Errors
    /// Those of the system calls.
    pub fn marker_size(&self, path: &[u8]) -> Result<u32> {
        Ok(self.attribute_of(path, |rules| &rules.marker_sizes)?.unwrap_or(MARKER_SIZE))
    }

    /// What is said of a file in the directory and outside of it.
    fn attribute_of<T: Copy>(&self, path: &[u8], kind: impl Fn(&DirectoryRules) -> &[Rule<T>]) -> Result<Option<T>> {
        let outside = |all: &[(Vec<u8>, DirectoryRules)]| {
            all.iter().find_map(|(prefix, rules)| last(kind(rules), &[prefix, path].concat(), false))
        };
        if let Some(says) = outside(&self.stronger) {
            return Ok(Some(says));
        }
        Ok(self.decide(path, false, &kind)?.or_else(|| outside(&self.weaker)))
    }

    /// Why a path counts as generated.
    ///
    /// # Errors
    /// Those of the system calls.
    pub fn generated(&self, path: &[u8], is_directory: bool) -> Result<Option<&'static str>> {
        let is_one_of = |names: &[&str], name: &[u8]| names.iter().any(|known| known.as_bytes() == name);
        if path.split(|byte| *byte == b'/').any(|name| name == b".git") {
            return Ok(Some("data of a repository"));
        }
        match self.decide(path, is_directory, |rules| &rules.generated)? {
            Some(true) => return Ok(Some("linguist-generated in .gitattributes")),
            Some(false) => return Ok(None),
            None => {}
        }
        let (parent, name) = split(path);
        if is_one_of(&LOCKS, name) {
            return Ok(Some("a lock file"));
        }
        let above = if is_directory { path } else { parent };
        if above.split(|byte| *byte == b'/').any(|name| is_one_of(&OUTPUTS, name)) {
            return Ok(Some("in a directory of dependencies or outputs"));
        }
        Ok(self.is_ignored(path, is_directory)?.then_some("ignored by git"))
    }

    /// Whether git ignores a path, or a directory above it, from which nothing can be excepted.
    fn is_ignored(&self, path: &[u8], is_directory: bool) -> Result<bool> {
        let (parent, _) = split(path);
        let known = self.ignored.borrow().get(parent).copied();
        let is_parent_ignored = match known {
            Some(known) => known,
            None if parent.is_empty() => false,
            None => {
                let mut is_ignored = false;
                for (end, _) in parent.iter().enumerate().filter(|(_, byte)| **byte == b'/') {
                    is_ignored = is_ignored || self.is_ignored_here(&parent[..end], true)?;
                }
                let is_ignored = is_ignored || self.is_ignored_here(parent, true)?;
                self.ignored.borrow_mut().insert(parent.to_vec(), is_ignored);
                is_ignored
            }
        };
        Ok(is_parent_ignored || self.is_ignored_here(path, is_directory)?)
    }

    fn is_ignored_here(&self, path: &[u8], is_directory: bool) -> Result<bool> {
        Ok(self.decide(path, is_directory, |rules| &rules.ignored)? == Some(true))
    }

    /// What the last rule that matches says: the rules of the nearest directory first.
    fn decide<T: Copy>(
        &self,
        path: &[u8],
        is_directory: bool,
        kind: impl Fn(&DirectoryRules) -> &[Rule<T>],
    ) -> Result<Option<T>> {
        let mut directory = split(path).0;
        loop {
            let rules = self.rules_of(directory)?;
            let below = if directory.is_empty() { path } else { &path[directory.len() + 1..] };
            if let Some(says) = last(kind(&rules), below, is_directory) {
                return Ok(Some(says));
            }
            if directory.is_empty() {
                return Ok(None);
            }
            directory = split(directory).0;
        }
    }

    fn rules_of(&self, directory: &[u8]) -> Result<Rc<DirectoryRules>> {
        if let Some(known) = self.rules.borrow().get(directory) {
            return Ok(Rc::clone(known));
        }
        let mut rules = DirectoryRules::default();
        let unless_hidden = |opened: Result<Option<OwnedFd>>| match opened {
            Err(Errno::ACCESS) => Ok(None),
            opened => opened,
        };
        if let Some(opened) = unless_hidden(self.base.directory(directory))? {
            if directory.is_empty()
                && let Some(info) = unless_hidden(self.base.directory(b".git/info"))?
            {
                rules.ignored.extend(ignored(&read(&info, b"exclude")?));
            }
            rules.ignored.extend(ignored(&read(&opened, b".gitignore")?));
            rules.add_attributes(&read(&opened, b".gitattributes")?, &self.drivers);
        }
        let rules = Rc::new(rules);
        self.rules.borrow_mut().insert(directory.to_vec(), Rc::clone(&rules));
        Ok(rules)
    }
}

/// The start of a file with rules; empty if it cannot be read.
fn read(directory: &OwnedFd, name: &[u8]) -> Result<Vec<u8>> {
    let file = match open_file(directory, name) {
        Err(Errno::NOENT | Errno::LOOP | Errno::ACCESS | Errno::NXIO | Errno::ISDIR) => return Ok(Vec::new()),
        file => file?,
    };
    let mut text = Vec::new();
    if file_type(&fstat(&file)?) == FileType::RegularFile {
        // What cannot be read has no rules.
        let _ = File::from(file).take(MAX_BYTES).read_to_end(&mut text);
    }
    Ok(text)
}

fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    text.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line))
}

/// The rules of a `.gitignore`.
fn ignored(text: &[u8]) -> Vec<Rule<bool>> {
    let rule = |line: &[u8]| {
        let mut line = line;
        while let Some(shorter) = line.strip_suffix(b" ").filter(|shorter| !shorter.ends_with(b"\\")) {
            line = shorter;
        }
        let (line, says) = match line {
            [b'#', ..] => return None,
            [b'!', rest @ ..] => (rest, false),
            line => (line, true),
        };
        Pattern::new(line).map(|pattern| Rule { pattern, says })
    };
    lines(text).filter_map(rule).take(MAX_RULES).collect()
}

/// What a `.gitattributes` says about an attribute. `read`: what a word says about it.
fn attribute<T>(text: &[u8], read: impl Fn(&[u8]) -> Option<T>) -> Vec<Rule<T>> {
    let rule = |line: &[u8]| {
        let mut words = line.split(|byte| matches!(byte, b' ' | b'\t')).filter(|word| !word.is_empty());
        let pattern = words.next().filter(|word| !word.starts_with(b"#") && !word.starts_with(b"\""))?;
        let says = words.filter_map(&read).next_back()?;
        // A pattern for directories matches no file.
        Pattern::new(pattern).map(|pattern| Rule { pattern, says })
    };
    lines(text).filter_map(rule).take(MAX_RULES).collect()
}

fn generated(word: &[u8]) -> Option<bool> {
    match word {
        b"linguist-generated" | b"linguist-generated=true" => Some(true),
        b"-linguist-generated" | b"linguist-generated=false" => Some(false),
        _ => None,
    }
}

fn merged(word: &[u8], drivers: &[(String, String)]) -> Option<Option<MergeRule>> {
    match word {
        b"-merge" | b"binary" => Some(Some(MergeRule::Whole)),
        b"merge" => Some(Some(MergeRule::Lines)),
        b"!merge" => Some(None),
        word => word.strip_prefix(b"merge=").map(|name| Some(named(name, drivers))),
    }
}

/// How a driver merges; line by line if there is none of this name.
fn named(name: &[u8], drivers: &[(String, String)]) -> MergeRule {
    match drivers.iter().position(|(driver, _)| driver.as_bytes() == name) {
        Some(number) => MergeRule::Driver(number),
        None if name == b"union" => MergeRule::Union,
        None if name == b"binary" => MergeRule::Whole,
        None => MergeRule::Lines,
    }
}

fn marker_size(word: &[u8]) -> Option<u32> {
    let size = match word {
        b"conflict-marker-size" | b"-conflict-marker-size" | b"!conflict-marker-size" => "",
        word => std::str::from_utf8(word.strip_prefix(b"conflict-marker-size=")?).ok()?,
    };
    Some(size.parse().ok().filter(|size| (1..=MAX_MARKER_SIZE).contains(size)).unwrap_or(MARKER_SIZE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::open;
    use std::fs;
    use std::path::Path;

    fn reason(root: &Path, path: &str, is_directory: bool) -> Option<&'static str> {
        let tree = Tree::new(open(root));
        GitRules::new(&tree).generated(path.as_bytes(), is_directory).unwrap()
    }

    #[test]
    fn files_are_generated_by_name_by_ignore_rules_and_by_attributes() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path();
        for directory in ["src/gen", "vendor", ".git/info"] {
            fs::create_dir_all(root.join(directory)).unwrap();
        }
        fs::write(root.join(".gitignore"), "# outputs\n/dist/\n*.log\n!keep.log\nspace\\ \r\n").unwrap();
        fs::write(root.join("src/.gitignore"), "!debug.log\n/local\n").unwrap();
        fs::write(root.join(".git/info/exclude"), "private\n").unwrap();
        fs::write(
            root.join(".gitattributes"),
            "*.pb.go linguist-generated=true\nsrc/gen/* text linguist-generated\nsrc/gen/own.ts -linguist-generated\nCargo.lock linguist-generated=false\n",
        )
        .unwrap();
        let ignored = Some("ignored by git");
        for path in ["dist/a/b.js", "x.log", "src/x.log", "src/local", "private", "dist/debug.log", "space "] {
            assert_eq!(reason(root, path, false), ignored, "{path}");
        }
        for path in ["keep.log", "src/debug.log", "a/dist/b.js", "local", "src/main.rs", "Cargo.lock", "src/gen/own.ts"]
        {
            assert_eq!(reason(root, path, false), None, "{path}");
        }
        let attribute = Some("linguist-generated in .gitattributes");
        assert_eq!([reason(root, "a/b.pb.go", false), reason(root, "src/gen/a.ts", false)], [attribute; 2]);
        assert_eq!(reason(root, "web/package-lock.json", false), Some("a lock file"));
        let outputs = Some("in a directory of dependencies or outputs");
        assert_eq!([reason(root, "a/node_modules", true), reason(root, "a/node_modules/b/c.js", false)], [outputs; 2]);
        assert_eq!(reason(root, "node_modules", false), None, "a file of this name");
        assert_eq!(reason(root, ".git/index", false), Some("data of a repository"));
    }

    #[test]
    fn the_attribute_merge_of_the_nearest_directory_counts() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path();
        fs::create_dir_all(root.join("docs")).unwrap();
        let top = "*.md merge=union\n*.lock -merge\n*.svg binary\n*.x merge=program\n*.y merge=binary\n*.y !merge\n";
        fs::write(root.join(".gitattributes"), top).unwrap();
        fs::write(root.join("docs/.gitattributes"), "api.md merge\n").unwrap();
        let tree = Tree::new(open(root));
        let rules = GitRules::new(&tree);
        for (path, expected) in [
            ("CHANGES.md", MergeRule::Union),
            ("docs/a.md", MergeRule::Union),
            ("docs/api.md", MergeRule::Lines),
            ("a/b.lock", MergeRule::Whole),
            ("logo.svg", MergeRule::Whole),
            ("a.x", MergeRule::Lines),
            ("a.y", MergeRule::Lines),
            ("a.rs", MergeRule::Lines),
        ] {
            assert_eq!(rules.merge_of(path.as_bytes()).unwrap(), expected, "{path}");
        }
    }

    #[test]
    fn drivers_and_attributes_outside_of_the_directory_count() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path();
        fs::write(root.join(".gitattributes"), "*.a merge=one conflict-marker-size=9\n*.b merge=none\n*.c !merge\n")
            .unwrap();
        let tree = Tree::new(open(root));
        let text = |prefix: &str, text: &str| (prefix.as_bytes().to_vec(), text.as_bytes().to_vec());
        let rules = MergeRules {
            drivers: ["one", "union"].map(|name| (name.into(), String::new())).into(),
            default: Some("union".into()),
            stronger: vec![text("in/", "/in/top.a merge=union\n/top.b merge=union\n")],
            weaker: vec![text("in/", "*.a -merge\n"), text("", "*.d merge=one\n")],
        };
        let rules = GitRules::for_merge(&tree, &rules);
        for (path, expected, size) in [
            ("x.a", MergeRule::Driver(0), 9),
            ("top.a", MergeRule::Driver(1), 9),
            ("top.b", MergeRule::Lines, 7),
            ("x.c", MergeRule::Driver(1), 7),
            ("x.d", MergeRule::Driver(0), 7),
            ("x.e", MergeRule::Driver(1), 7),
        ] {
            let found = (rules.merge_of(path.as_bytes()).unwrap(), rules.marker_size(path.as_bytes()).unwrap());
            assert_eq!(found, (expected, size), "{path}");
        }
    }

    #[test]
    fn rules_that_are_links_pipes_or_long_are_no_trouble() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path();
        fs::create_dir_all(root.join("pipe")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", root.join(".gitignore")).unwrap();
        fs::create_dir(root.join(".gitattributes")).unwrap();
        let pipe = open(&root.join("pipe"));
        rustix::fs::mknodat(&pipe, ".gitignore", FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
        assert_eq!([reason(root, "a", false), reason(root, "pipe/a", false)], [None, None]);
        fs::remove_file(root.join(".gitignore")).unwrap();
        fs::write(root.join(".gitignore"), "x\n".repeat(MAX_RULES) + "late\n").unwrap();
        assert_eq!([reason(root, "x", false).is_some(), reason(root, "late", false).is_some()], [true, false]);
    }
}
