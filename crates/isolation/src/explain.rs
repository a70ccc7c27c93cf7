//! Which rules have refused the files that a failed command names.
//!
//! A program prints why a system call has failed, and a path, in a form of its own. So each path near such a reason is a candidate,
//! and the rules decide: it counts only if they refuse what failed and, where programs see the files, if permissions would not. What no
//! rule explains is never claimed.

mod attempt;

pub use attempt::{AttemptJudge, RefusedAttempt, Use};
pub use nacre_protocol::refusal::{FileRefusal as Refusal, Rule};

use crate::paths::plain;
use crate::view::essentials;
use nacre_protocol::confinement::{Confinement, Filesystem, PRIVATE_TMP};
use nacre_protocol::standing::RunAs;
use rustix::fs::{StatVfsMountFlags, statvfs};
use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Maximum bytes of the end of the output that are read.
const MAX_BYTES: usize = 64 << 10;
/// Maximum bytes of a line.
const MAX_LINE: usize = 4096;
/// Maximum candidates whose files are looked at, in all.
const MAX_CANDIDATES: usize = 200;
/// Maximum refusals.
const MAX_REFUSALS: usize = 20;
/// Lines before and after a reason that may have its path.
const NEAR: usize = 4;

/// Maximum directories that a command names.
const MAX_NAMED: usize = 10;

/// The user that ran the command, and its directories.
pub struct Ran<'a> {
    /// Those where a name that it prints may be: before and after, and those that it names, as for `patch -d`.
    pub directories: Vec<PathBuf>,
    /// The user of its programs.
    pub user: u32,
    /// The groups of that user.
    pub groups: &'a [u32],
}

impl<'a> Ran<'a> {
    /// What ran as a user, wherever it did.
    pub fn as_user(user: &'a RunAs) -> Self {
        Self { directories: Vec::new(), user: user.uid, groups: &user.groups }
    }
}

/// The directories of a command: before and after, and those that its text names. Looks at files, which may block.
pub fn directories([before, after]: [PathBuf; 2], command: &str) -> Vec<PathBuf> {
    let words = command.split(|mark: char| mark.is_whitespace() || "'\"`=;|&<>()".contains(mark));
    let paths = words.filter(|word| word.contains('/')).map(|word| plain(&before.join(word)));
    let named: Vec<PathBuf> = paths.filter(|path| path.is_dir()).take(MAX_NAMED).collect();
    let mut all = vec![before, after];
    all.extend(named);
    all
}

/// Why a system call has failed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reason {
    Denied,
    ReadOnly,
    Missing,
    Directory,
}

/// As programs print them, in lower case.
const REASONS: [(&[u8], Reason); 14] = [
    (b"permission denied", Reason::Denied),
    (b"eacces", Reason::Denied),
    (b"accessdenied", Reason::Denied),
    (b"access denied", Reason::Denied),
    (b"read-only file system", Reason::ReadOnly),
    (b"erofs", Reason::ReadOnly),
    // SQLite gives no other reason.
    (b"unable to open database \"", Reason::ReadOnly),
    (b"no such file or directory", Reason::Missing),
    (b"enoent", Reason::Missing),
    (b"does not exist", Reason::Missing),
    (b"nosuchfile", Reason::Missing),
    (b"not found", Reason::Missing),
    (b"is a directory", Reason::Directory),
    (b"eisdir", Reason::Directory),
];

/// Parts of words that say that something was to be changed, in lower case. Landlock gives one reason for all.
const CHANGES: [&[u8]; 22] = [
    b"creat",
    b"writ",
    b"mkdir",
    b"remov",
    b"delet",
    b"unlink",
    b"renam",
    b"mov",
    b"touch",
    b"lock",
    b"save",
    b"append",
    b"install",
    b"link",
    b"truncat",
    b"output",
    b"update",
    b"store",
    b"add",
    b"copy",
    b"cannot set",
    b" rm",
];

/// Whether the end of an output may have a reason. Costs little, and reads no file.
pub fn may_explain(stderr: &[u8]) -> bool {
    lines(stderr).any(|line| reason_of(line).is_some())
}

/// What the rules have refused of a command that has failed with this on its standard error. Looks at files, which may block.
pub fn explain(stderr: &[u8], confinement: &Confinement, ran: &Ran<'_>) -> Vec<Refusal> {
    let Some(files) = &confinement.filesystem else { return Vec::new() };
    let lines: Vec<&[u8]> = lines(stderr).collect();
    let mut judge = Judge { confinement, files, needed: essentials(), ran, looked: 0 };
    let mut found: Vec<Refusal> = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some((reason, start)) = reason_of(line) else { continue };
        let near = at.saturating_sub(NEAR)..(at + NEAR + 1).min(lines.len());
        let others = near.filter(|other| *other != at).filter_map(|other| lines.get(other));
        // Where the program itself is.
        let others = others.filter(|line| !is_of_trace(line));
        let own = candidates(line, start);
        // Those of other lines may belong to something else: only whole paths count.
        let others = others.flat_map(|line| candidates(line, line.len()).into_iter().take(2));
        let changes = CHANGES.iter().any(|word| has(line, word));
        for class in own.into_iter().chain(others) {
            let refused = class.into_iter().filter_map(|name| judge.judge(name, reason, changes));
            let (unseen, unwritable): (Vec<_>, Vec<_>) =
                refused.partition(|refusal| matches!(refusal.rule, Rule::Read | Rule::Hide));
            // What is copied comes before the place where it is copied to.
            let refused = unseen.into_iter().chain(unwritable.into_iter().next_back()).collect::<Vec<_>>();
            let is_explained = !refused.is_empty();
            for refusal in refused {
                if !found.contains(&refusal) {
                    found.push(refusal);
                }
            }
            if is_explained {
                break;
            }
        }
        if found.len() >= MAX_REFUSALS {
            found.truncate(MAX_REFUSALS);
            break;
        }
    }
    found
}

/// The rules that keep programs from reading and from writing a path, whatever its permissions are. Looks at files, so it may
/// block.
pub fn judge(path: &Path, confinement: &Confinement, ran: &Ran<'_>) -> Vec<Refusal> {
    let Some(files) = &confinement.filesystem else { return Vec::new() };
    let judge = Judge { confinement, files, needed: essentials(), ran, looked: 0 };
    let real = crate::real(path);
    if judge.is_own(path) || judge.is_own(&real) {
        return Vec::new();
    }
    let invisible = judge.invisible(path).or_else(|| judge.invisible(&real));
    let unwritable = changed_directory(&real)
        .and_then(|directory| judge.protected(&real, directory))
        .map(|(rule, tree)| Refusal { path: real, rule, tree });
    invisible.into_iter().chain(unwritable).map(|refusal| Refusal { path: path.into(), ..refusal }).collect()
}

fn lines(stderr: &[u8]) -> impl Iterator<Item = &[u8]> {
    let end = stderr.get(stderr.len().saturating_sub(MAX_BYTES)..).unwrap_or_default();
    end.split(|byte| matches!(byte, b'\n' | b'\r')).map(|line| line.get(..MAX_LINE).unwrap_or(line))
}

/// Whether a line is of a stack trace, as Python and JavaScript print it.
fn is_of_trace(line: &[u8]) -> bool {
    let line = line.trim_ascii_start();
    line.starts_with(b"File \"") && has(line, b"\", line ") || line.starts_with(b"at ")
}

fn reason_of(line: &[u8]) -> Option<(Reason, usize)> {
    REASONS.iter().find_map(|(text, reason)| Some((*reason, find(line, text)?)))
}

/// Where a text in lower case is, in any case.
fn find(line: &[u8], text: &[u8]) -> Option<usize> {
    line.windows(text.len()).position(|part| part.eq_ignore_ascii_case(text))
}

fn has(line: &[u8], text: &[u8]) -> bool {
    find(line, text).is_some()
}

/// The names in a line whose reason starts there: whole paths in quotes, and others; what else is in quotes; other words with a slash, and what is just
/// before the reason.
fn candidates(line: &[u8], reason: usize) -> Vec<Vec<&[u8]>> {
    let quoted = quoted(line);
    let words = line.split(|byte| byte.is_ascii_whitespace() || matches!(byte, b'"' | b'\'' | b'`' | b'=' | b'\x1b'));
    let words: Vec<&[u8]> = words.map(stripped).collect();
    let is_whole = |name: &&[u8]| name.starts_with(b"/") && name.len() > 1;
    let before = line.get(..reason).unwrap_or_default().trim_ascii_end();
    let before = before.strip_suffix(b":").or(before.strip_suffix(b"(")).unwrap_or(before);
    let segment = before.rsplit(|byte| *byte == b':').next().unwrap_or_default().trim_ascii();
    let last = stripped(segment.rsplit(|byte| *byte == b' ').next().unwrap_or_default());
    let mut in_quotes: Vec<&[u8]> = quoted.iter().copied().filter(is_whole).collect();
    // As they stand in the line.
    in_quotes.sort_by_key(|name| name.as_ptr());
    let whole = words.iter().copied().filter(is_whole).collect();
    let with_slash = words.iter().copied().filter(|word| word.contains(&b'/')).chain([segment, last]).collect();
    vec![in_quotes, whole, quoted, with_slash]
}

/// What is in quotes of a kind that programs use.
fn quoted(line: &[u8]) -> Vec<&[u8]> {
    const QUOTES: [(&[u8], &[u8]); 5] =
        [(b"'", b"'"), (b"\"", b"\""), (b"`", b"`"), ("\u{2018}".as_bytes(), "\u{2019}".as_bytes()), (b"`", b"'")];
    let mut found = Vec::new();
    for (open, close) in QUOTES {
        let mut rest = line;
        while let Some(start) = rest.windows(open.len()).position(|part| part == open) {
            rest = rest.get(start + open.len()..).unwrap_or_default();
            let Some(end) = rest.windows(close.len()).position(|part| part == close) else { break };
            let (inside, after) = (rest.get(..end), rest.get(end + close.len()..));
            found.extend(inside.filter(|inside| !inside.is_empty()));
            rest = after.unwrap_or_default();
        }
    }
    found
}

fn stripped(word: &[u8]) -> &[u8] {
    let is_mark = |byte: &u8| b"()[]<>{},;:!?".contains(byte);
    let start = word.iter().position(|byte| !is_mark(byte)).unwrap_or(word.len());
    let word = word.get(start..).unwrap_or_default();
    let end = word.iter().rposition(|byte| !is_mark(byte) && *byte != b'.').map_or(0, |at| at + 1);
    // A position, like in file:12:3.
    let word = word.get(..end).unwrap_or_default();
    match word.iter().position(|byte| *byte == b':') {
        Some(at) if word.starts_with(b"/") => word.get(..at).unwrap_or_default(),
        _ => word,
    }
}

struct Judge<'a> {
    confinement: &'a Confinement,
    files: &'a Filesystem,
    /// What can be read in any case.
    needed: Vec<PathBuf>,
    ran: &'a Ran<'a>,
    looked: usize,
}

impl Judge<'_> {
    fn judge(&mut self, name: &[u8], reason: Reason, changes: bool) -> Option<Refusal> {
        if name.is_empty() || name.contains(&0) || self.looked >= MAX_CANDIDATES {
            return None;
        }
        self.looked += 1;
        // Other words of a message may look like a path.
        let is_relative = name.starts_with(b"./") || name.starts_with(b"../");
        let name = Path::new(OsStr::from_bytes(name));
        let places = match (name.is_absolute(), is_relative) {
            (true, _) => 1,
            (false, false) => 2,
            (false, true) => self.ran.directories.len(),
        };
        self.ran
            .directories
            .iter()
            .take(places)
            .find_map(|directory| self.judge_path(&plain(&directory.join(name)), reason, changes))
    }

    fn judge_path(&self, path: &Path, reason: Reason, changes: bool) -> Option<Refusal> {
        if self.is_own(path) {
            return None;
        }
        // The answer must not depend on what the machine has there: programs could ask whether a file exists.
        let has_mounts = self.confinement.namespaces.is_some();
        if let Some(refusal) = self.invisible(path) {
            return (has_mounts || reason == Reason::Denied).then_some(refusal);
        }
        let real = crate::real(path);
        let through_links = || self.invisible(&real).map(|found| Refusal { path: path.into(), ..found });
        if self.is_own(&real) {
            return None;
        }
        match reason {
            // Only a mount hides.
            Reason::Missing => through_links().filter(|_| has_mounts),
            // It is missing, and a directory keeps programs from creating it.
            Reason::Directory => {
                let is_placeholder = self.files.project.placeholders.iter().any(|found| found.path == real);
                is_placeholder.then(|| Refusal { path: real.clone(), rule: Rule::Project, tree: real })
            }
            Reason::ReadOnly => through_links().or_else(|| self.unwritable(&real)),
            // With mounts, the reason for a change would be another one. A file that can be read is perhaps no program.
            Reason::Denied => through_links().or_else(|| {
                let may_change = !has_mounts && (changes || real.symlink_metadata().is_err());
                may_change.then(|| self.unwritable(&real)).flatten()
            }),
        }
    }

    /// Whether the session has a place of its own there.
    fn is_own(&self, path: &Path) -> bool {
        let private = Path::new(PRIVATE_TMP);
        let has_private = !self.files.write.iter().any(|root| private.starts_with(root));
        let shown = |root: &PathBuf| root.starts_with(private) && path.starts_with(root);
        ["/proc", "/dev", "/sys"].iter().any(|root| path.starts_with(root))
            || path.starts_with(&self.confinement.temporary)
                && !self.files.write.iter().chain(&self.files.hide).any(shown)
            || has_private && self.confinement.namespaces.is_some() && path == private
            || self.files.covers(path)
            || self.confinement.private.iter().any(|root| path.starts_with(root))
            || self.confinement.commands.iter().any(|root| path.starts_with(root))
            || self.confinement.caches.iter().any(|caches| path.starts_with(&caches.files))
    }

    /// The rule because of which programs see nothing at a path. Looks at no file of the machine there.
    fn invisible(&self, path: &Path) -> Option<Refusal> {
        let refusal = |rule, tree: &Path| Refusal { path: path.into(), rule, tree: tree.into() };
        if let Some(root) = self.files.hide.iter().find(|root| path.starts_with(root)) {
            return Some(refusal(Rule::Hide, root));
        }
        let Filesystem { read, write, .. } = self.files;
        let listed = read.as_ref()?;
        let also = [&self.confinement.shell, &self.confinement.cwd];
        let mut shown = listed.iter().chain(write).chain(&self.needed).chain(also);
        (!shown.any(|root| path.starts_with(root) || root.starts_with(path))).then(|| refusal(Rule::Read, path))
    }

    /// The rule because of which programs cannot change a path, whatever its permissions are. `directory`: see
    /// [`changed_directory`].
    fn protected(&self, path: &Path, directory: &Path) -> Option<(Rule, PathBuf)> {
        let within = |list: &[PathBuf]| list.iter().find(|root| path.starts_with(root)).cloned();
        match (within(&self.files.write), within(&self.files.protect)) {
            (None, _) => Some((Rule::Write, directory.to_path_buf())),
            (Some(_), Some(tree)) if self.confinement.rules_file.as_ref() == Some(&tree) => Some((Rule::File, tree)),
            (Some(_), Some(tree)) if self.files.project.protect.contains(&tree) => Some((Rule::Project, tree)),
            (Some(_), Some(tree)) => Some((Rule::Protect, tree)),
            (Some(_), None) => None,
        }
    }

    fn unwritable(&self, path: &Path) -> Option<Refusal> {
        let directory = changed_directory(path)?;
        let (rule, tree) = self.protected(path, directory)?;
        let changed = match path.symlink_metadata() {
            Ok(found) if !found.is_dir() => found,
            _ => directory.metadata().ok()?,
        };
        let is_writable = statvfs(directory).is_ok_and(|system| !system.f_flag.contains(StatVfsMountFlags::RDONLY));
        (is_writable && self.may(&changed, 2) && self.may_reach(directory)).then(|| Refusal {
            path: path.into(),
            rule,
            tree,
        })
    }

    /// Whether programs keep the rights of root over the files of others: in a user namespace, they have no capabilities.
    fn is_root(&self) -> bool {
        self.ran.user == 0 && !self.confinement.namespaces.is_some_and(|namespaces| namespaces.user)
    }

    /// Whether the permissions of a file allow that, apart from the rules.
    fn may(&self, found: &Metadata, wanted: u32) -> bool {
        let shift = if found.uid() == self.ran.user {
            6
        } else if self.ran.groups.contains(&found.gid()) {
            3
        } else {
            0
        };
        self.is_root() || found.is_symlink() || (found.mode() >> shift) & wanted == wanted
    }

    fn may_reach(&self, path: &Path) -> bool {
        path.ancestors().skip(1).all(|above| above.metadata().is_ok_and(|found| self.may(&found, 1)))
    }
}

/// Where something would be created, removed or renamed.
fn changed_directory(path: &Path) -> Option<&Path> {
    let is_directory = path.symlink_metadata().is_ok_and(|found| found.is_dir());
    if is_directory { Some(path) } else { path.ancestors().skip(1).find(|above| above.is_dir()) }
}

#[cfg(test)]
#[path = "explain_tests.rs"]
mod tests;
