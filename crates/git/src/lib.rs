//! Calls of the `git` of this machine that leave a user's checkout, index and HEAD as they are.
//!
//! No hook runs, and no program that watches files, and no prompt appears. Variables that would lead git elsewhere are removed. The
//! user's filters run for the contents of a commit, as with `git add`; see [`conversion`].
//!
//! **It must never know** workspaces or changes: it works with a directory, paths and streams.

mod attributes;
pub mod conversion;
pub mod merge;
mod stream;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output, Stdio};

/// Variables of git that would lead it elsewhere.
const ELSEWHERE: [&str; 9] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
    "GIT_CONFIG_PARAMETERS",
];
/// Settings of every call.
const SETTINGS: [&str; 4] = ["-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false"];
/// Maximum bytes of a message of git in an error.
const SHOWN_BYTES: usize = 500;

/// Why git did not do something.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// It cannot be started.
    #[error("git cannot be started: {0}")]
    Missing(#[from] std::io::Error),
    /// The directory is in no checkout of a repository.
    #[error("{}", said(.directory, .reason.as_deref()))]
    NoRepository {
        /// The directory.
        directory: PathBuf,
        /// What git says, if it says something.
        reason: Option<String>,
    },
    /// The branch cannot take a commit.
    #[error("branch '{name}' {reason}")]
    Branch {
        /// The branch.
        name: String,
        /// Why, as the end of a sentence.
        reason: String,
    },
    /// A filter that is required has failed.
    #[error(
        "'{path}' is not committed: the filter '{filter}' of git's configuration has failed ({reason}). `git add` would refuse such a \
         file, too: repair the filter, set filter.{filter}.required to false, or leave the file out with `paths`"
    )]
    Filter {
        /// The path in the repository.
        path: String,
        /// The name of the filter.
        filter: String,
        /// What was said first.
        reason: String,
    },
    /// The contents for git cannot be prepared.
    #[error("the contents for git cannot be prepared: {0}")]
    Temporary(std::io::Error),
    /// A call has failed.
    #[error("git {call} has failed: {}", .reason.as_deref().unwrap_or("without a message"))]
    Failed {
        /// The first argument.
        call: String,
        /// The first line of its message.
        reason: Option<String>,
    },
}

fn said(directory: &Path, reason: Option<&str>) -> String {
    let directory = directory.display();
    match reason {
        Some(reason) => format!("{directory} is in no repository of git: {reason}"),
        None => format!("{directory} is not in the checkout of a repository"),
    }
}

/// Where a commit goes.
#[derive(Debug)]
pub struct BranchTarget {
    /// The branch, as `refs/heads/...`.
    reference: String,
    /// The last commit of the branch.
    tip: Option<String>,
    /// The commit whose files the user's checkout has.
    head: Option<String>,
    /// The tree of the commit whose files the user's checkout has, if the branch has others.
    base: Option<String>,
}

impl BranchTarget {
    /// The last commit of the branch, if the branch has others than the one whose files the user's checkout has. A commit has no
    /// files of theirs.
    pub fn others(&self) -> Option<&str> {
        self.tip.as_deref().filter(|_| self.base.is_some())
    }

    /// The begin of a stream for [`Repository::import`]. Its rest gives the files that differ from those of the checkout's commit.
    pub fn head(&self, identity: &str, message: &str) -> Vec<u8> {
        let message = format!("{}\n", message.trim_end());
        let mut head = format!("feature done\ncommit {}\ncommitter {identity}\n", self.reference);
        head += &format!("data {}\n{message}", message.len());
        if let Some(parent) = self.tip.as_ref().or(self.head.as_ref()) {
            head += &format!("from {parent}\n");
        }
        if let Some(base) = &self.base {
            head += &format!("M 040000 {base} \"\"\n");
        }
        head.into_bytes()
    }
}

/// The repository of a directory: also of one below its top, of a linked worktree and of a submodule.
#[derive(Debug)]
pub struct Repository {
    directory: PathBuf,
    prefix: Vec<u8>,
}

impl Repository {
    /// Finds it.
    ///
    /// # Errors
    /// [`GitError::NoRepository`], and those of every call: [`GitError::Missing`], [`GitError::Failed`].
    pub fn of(directory: &Path) -> Result<Self, GitError> {
        let mut repository = Self { directory: directory.to_path_buf(), prefix: Vec::new() };
        let none = |reason| GitError::NoRepository { directory: directory.to_path_buf(), reason };
        let shown = repository.run(&["rev-parse", "--is-inside-work-tree", "--show-prefix"], None);
        let shown = shown.map_err(|error| match error {
            GitError::Failed { reason, .. } => none(Some(reason.unwrap_or_else(|| "it does not say why".into()))),
            error => error,
        })?;
        let prefix = shown.strip_prefix(b"true\n").ok_or_else(|| none(None))?;
        repository.prefix = prefix.trim_ascii_end().to_vec();
        Ok(repository)
    }

    /// The path of the directory in the repository: empty, or ending with `/`.
    pub fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    /// Checks a branch, and finds its last commit.
    ///
    /// # Errors
    /// [`GitError::Branch`] if it cannot take a commit; those of every call.
    pub fn target(&self, branch: &str) -> Result<BranchTarget, GitError> {
        let refused = |reason: String| GitError::Branch { name: branch.into(), reason };
        let reference = format!("refs/heads/{branch}");
        let format = "--format=%(refname)%00%(objectname)%00%(worktreepath)";
        // The branch, those below, and those above with all of theirs.
        let mut related = vec!["for-each-ref", format, &reference];
        related.extend(reference.match_indices('/').skip(2).map(|(at, _)| &reference[..at]));
        // The calls take their time one by one. Git takes names like @{-1} for other branches.
        let [named, listed, current, base] = self.run_all([
            &["check-ref-format", "--branch", branch],
            &related,
            &["symbolic-ref", "-q", "HEAD"],
            &["rev-parse", "-q", "--verify", "HEAD^{commit}"],
        ]);
        let is_meant = named.is_ok_and(|named| named.trim_ascii_end() == branch.as_bytes());
        if branch.starts_with("refs/") || !is_meant {
            return Err(refused("is no name that git allows for a branch".into()));
        }
        let mut tip = None;
        for line in String::from_utf8_lossy(&listed?).lines() {
            let mut fields = line.split('\0');
            let (name, id, place) =
                (fields.next().unwrap_or_default(), fields.next(), fields.next().unwrap_or_default());
            if name != reference {
                let is_below =
                    |name: &str, above: &str| name.strip_prefix(above).is_some_and(|rest| rest.starts_with('/'));
                if is_below(name, &reference) || is_below(&reference, name) {
                    let other = name.strip_prefix("refs/heads/").unwrap_or(name);
                    return Err(refused(format!("cannot be beside the branch '{other}': name another one")));
                }
                continue;
            }
            if !place.is_empty() {
                return Err(refused(format!("is checked out in {place}: name another one")));
            }
            tip = id.map(String::from);
        }
        // The branch that HEAD names may have no commit yet.
        if current.unwrap_or_default().trim_ascii() == reference.as_bytes() {
            return Err(refused("is checked out: name another one".into()));
        }
        let base = match base {
            Err(GitError::Failed { .. }) => None,
            found => Some(String::from_utf8_lossy(&found?).trim().to_owned()),
        };
        if let (Some(base), Some(tip)) = (&base, &tip)
            && self.run(&["merge-base", "--is-ancestor", base, tip], None).is_err()
        {
            return Err(refused("does not have the commit that is checked out: name another one, or rebase it".into()));
        }
        let files = base.as_ref().filter(|_| tip.is_some() && tip != base);
        let files = files.map(|commit| self.line(&["rev-parse", "-q", "--verify", &format!("{commit}^{{tree}}")]));
        Ok(BranchTarget { base: files.transpose()?, reference, tip, head: base })
    }

    /// Whether the branch is as it was found.
    ///
    /// # Errors
    /// Those of every call.
    pub fn is_as_found(&self, target: &BranchTarget) -> Result<bool, GitError> {
        Ok(self.last(target)? == target.tip)
    }

    /// The commit of a target.
    ///
    /// # Errors
    /// Those of every call.
    pub fn last(&self, target: &BranchTarget) -> Result<Option<String>, GitError> {
        self.commit(&target.reference)
    }

    /// Who commits, and when, as git writes it.
    ///
    /// # Errors
    /// Those of every call.
    pub fn identity(&self) -> Result<String, GitError> {
        self.line(&["var", "GIT_COMMITTER_IDENT"])
    }

    /// Those of the paths that git ignores, except files that have been added in spite of its rules. `may_be_added`: whether one of
    /// them may be such a file.
    ///
    /// # Errors
    /// Those of every call.
    pub fn ignored(
        &self,
        paths: &[&[u8]],
        may_be_added: impl Fn(&BTreeSet<Vec<u8>>) -> bool,
    ) -> Result<BTreeSet<Vec<u8>>, GitError> {
        if paths.is_empty() {
            return Ok(BTreeSet::new());
        }
        // With the index, the time would grow with the square of the files.
        let found = self.run(&["check-ignore", "--no-index", "-z", "--stdin"], Some(&paths.join(&0)));
        let found = found.or_else(|error| match error {
            // It fails if nothing is ignored, too.
            GitError::Failed { reason: None, .. } => Ok(Vec::new()),
            _ => Err(error),
        })?;
        let mut ignored = paths_of(&found);
        if may_be_added(&ignored) {
            for path in paths_of(&self.run(&["ls-files", "-z"], None)?) {
                ignored.remove(&path);
            }
        }
        Ok(ignored)
    }

    /// Runs `git fast-import` with a file.
    fn import_file(&self, mut stream: File) -> Result<(), GitError> {
        stream.rewind().map_err(GitError::Temporary)?;
        let output = self.git(&["fast-import", "--quiet", "--done"]).stdin(stream).output()?;
        checked("fast-import", output.status, &output.stderr)
    }

    /// The id of a commit. `None` if there is none.
    fn commit(&self, name: &str) -> Result<Option<String>, GitError> {
        match self.line(&["rev-parse", "-q", "--verify", &format!("{name}^{{commit}}")]) {
            Err(GitError::Failed { .. }) => Ok(None),
            found => found.map(Some),
        }
    }

    fn line(&self, arguments: &[&str]) -> Result<String, GitError> {
        Ok(String::from_utf8_lossy(&self.run(arguments, None)?).trim().to_owned())
    }

    /// A path that git names.
    fn place(&self, arguments: &[&str]) -> Result<PathBuf, GitError> {
        let named = self.run(arguments, None)?;
        Ok(PathBuf::from(OsStr::from_bytes(named.strip_suffix(b"\n").unwrap_or(&named))))
    }

    /// Runs several calls at the same time.
    fn run_all<const N: usize>(&self, calls: [&[&str]; N]) -> [Result<Vec<u8>, GitError>; N] {
        std::thread::scope(|scope| {
            let started = calls.map(|arguments| scope.spawn(|| self.run(arguments, None)));
            let panicked = |_| Err(GitError::Missing(std::io::ErrorKind::Other.into()));
            started.map(|call| call.join().unwrap_or_else(panicked))
        })
    }

    fn run(&self, arguments: &[&str], input: Option<&[u8]>) -> Result<Vec<u8>, GitError> {
        let output = output(self.git(arguments), input)?;
        checked(arguments[0], output.status, &output.stderr)?;
        Ok(output.stdout)
    }

    fn git(&self, arguments: &[&str]) -> Command {
        git_in(&self.directory, &[], arguments)
    }
}

fn git_in(directory: &Path, settings: &[String], arguments: &[&str]) -> Command {
    let mut git = Command::new("git");
    git.arg("-C").arg(directory).args(SETTINGS);
    for setting in settings {
        git.args(["-c", setting]);
    }
    git.args(arguments);
    for name in ELSEWHERE {
        git.env_remove(name);
    }
    git.env("LC_ALL", "C").env("GIT_OPTIONAL_LOCKS", "0").env("GIT_TERMINAL_PROMPT", "0");
    git
}

fn output(mut git: Command, input: Option<&[u8]>) -> Result<Output, GitError> {
    let stdin = if input.is_some() { Stdio::piped() } else { Stdio::null() };
    let mut running = git.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let output = std::thread::scope(|scope| {
        if let (Some(mut pipe), Some(input)) = (running.stdin.take(), input) {
            // Git may end before it has read everything.
            scope.spawn(move || drop(pipe.write_all(input)));
        }
        running.wait_with_output()
    })?;
    Ok(output)
}

/// The paths of a list with a NUL after each.
fn paths_of(list: &[u8]) -> BTreeSet<Vec<u8>> {
    list.split(|byte| *byte == 0).filter(|path| !path.is_empty()).map(<[u8]>::to_vec).collect()
}

fn checked(call: &str, status: ExitStatus, stderr: &[u8]) -> Result<(), GitError> {
    if status.success() {
        return Ok(());
    }
    Err(GitError::Failed { call: call.into(), reason: first_line(stderr) })
}

/// The first line of a message of git.
fn first_line(stderr: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(&stderr[..stderr.len().min(SHOWN_BYTES)]);
    text.lines().find(|line| !line.trim().is_empty()).map(str::to_owned)
}
