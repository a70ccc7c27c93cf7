//! Commits of git that leave the user's checkout, index and HEAD as they are.
//!
//! The keeper of the workspace writes the changed files as a stream, and `git fast-import` of this machine makes the objects and
//! moves the branch. No hook and no filter runs. The repository is the one of the real directory, also by a linked worktree, a
//! submodule or a directory below.

use crate::error::{Code, Error};
use crate::workspace::Workspace;
use nacre_protocol::host_programs::Changed;
use nacre_protocol::workspace::{Kind, Skipped, WorkspaceChange};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

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
/// Settings of every call: no hook runs, and no program that watches files.
const SETTINGS: [&str; 4] = ["-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false"];
const WITHHELD: &str = "programs of the machine run or obey it later: name it in `paths` to commit it";
/// Maximum bytes of a message of git in an error.
const SHOWN_BYTES: usize = 500;

/// What to commit.
#[derive(Clone, Debug)]
pub struct BranchCommit {
    /// The name of the branch, which is created if there is none.
    pub branch: String,
    /// The message of the commit.
    pub message: String,
    /// The paths, with everything below them; all by default.
    pub paths: Option<Vec<Vec<u8>>>,
    /// Whether to leave out what programs of the machine run later, unless a path names it. The sandbox decides.
    pub withholds: bool,
}

/// What was committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommittedBranch {
    /// The id of the commit. `None` if there was nothing to commit.
    pub id: Option<String>,
    /// How many changes it has.
    pub applied: u64,
    /// The changes that it does not have.
    pub skipped: Vec<Skipped>,
}

/// Commits the changes of a workspace. They stay in the workspace.
///
/// # Errors
/// Those of [`Workspace::changes`]; `FILE_NOT_FOUND` if a path names no change; `INVALID_OPTION` for a branch that cannot be used;
/// `WORKSPACE_UNSUPPORTED` without git or a repository.
pub fn commit(workspace: &Workspace, commit: BranchCommit) -> Result<CommittedBranch, Error> {
    let repository = Repository { directory: workspace.path().to_path_buf() };
    let prefix = repository.prefix()?;
    let place = repository.place(&commit.branch)?;
    let changes = workspace.changes(commit.paths.clone(), &Default::default())?.unwrap_or_default();
    let named = commit.paths.unwrap_or_default();
    let names_none = |path: &&Vec<u8>| {
        let is_within = |change: &WorkspaceChange| {
            path.as_slice() == b"."
                || change.path.strip_prefix(&path[..]).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
        };
        !changes.iter().any(is_within)
    };
    if let Some(path) = named.iter().find(names_none) {
        let path = String::from_utf8_lossy(path).into_owned();
        let message = format!("'{path}' names no change");
        return Err(Error { path: Some(path), ..Error::new(Code::FileNotFound, message) });
    }
    let nested = nested_repositories(workspace.path(), &changes);
    let ignored = repository.ignored(&changes, &nested)?;
    let counted = Changed::new(changes.iter().map(|change| change.path.as_slice()));
    let (mut chosen, mut skipped) = (Vec::new(), Vec::new());
    for change in &changes {
        let reason = if commit.withholds
            && !named.contains(&change.path)
            && counted.reason(&change.path, is_directory(change)).is_some()
        {
            Some(WITHHELD)
        } else if matches!(change.now.map(|now| now.kind), Some(Kind::Fifo | Kind::Socket | Kind::Device)) {
            Some("git has no form for it")
        } else if is_within_any(&change.path, &nested) {
            Some("it is in another repository")
        } else {
            None
        };
        match reason {
            _ if is_of_git(&change.path) || ignored.contains(&change.path) => {}
            Some(reason) => skipped.push(Skipped { path: change.path.clone(), reason: reason.into() }),
            // Git has no directories: only what was one, or becomes one, counts.
            None if change.before.is_none_or(|before| before.kind == Kind::Directory)
                && change.now.is_some_and(|now| now.kind == Kind::Directory) => {}
            None => chosen.push(change.path.clone()),
        }
    }
    if chosen.is_empty() {
        return Ok(CommittedBranch { id: None, applied: 0, skipped });
    }
    let applied = chosen.len() as u64;
    let head = place.head(&repository.identity()?, &commit.message);
    let stream = workspace.stream(chosen, prefix, head)?;
    repository.import(stream)?;
    let id = repository.id_of(&place.reference)?;
    Ok(CommittedBranch { id, applied, skipped })
}

fn is_directory(change: &WorkspaceChange) -> bool {
    change.now.or(change.before).is_some_and(|entry| entry.kind == Kind::Directory)
}

fn is_of_git(path: &[u8]) -> bool {
    path.split(|byte| *byte == b'/').any(|name| name == b".git")
}

/// The directories of changes that are repositories of their own, like submodules.
fn nested_repositories(root: &Path, changes: &[WorkspaceChange]) -> BTreeSet<Vec<u8>> {
    let mut known: BTreeMap<&[u8], bool> = BTreeMap::new();
    for change in changes {
        let mut path = &change.path[..];
        while let Some(at) = path.iter().rposition(|byte| *byte == b'/') {
            let name = &path[at + 1..];
            path = &path[..at];
            if name == b".git" {
                known.insert(path, true);
            }
            let is_real = || root.join(OsStr::from_bytes(path)).join(".git").symlink_metadata().is_ok();
            known.entry(path).or_insert_with(is_real);
        }
    }
    known.into_iter().filter(|(_, is_nested)| *is_nested).map(|(path, _)| path.to_vec()).collect()
}

fn is_within_any(path: &[u8], directories: &BTreeSet<Vec<u8>>) -> bool {
    let ends = (0..path.len()).filter(|at| path[*at] == b'/');
    ends.map(|end| &path[..end]).any(|above| directories.contains(above))
}

/// Where a commit goes.
struct BranchTarget {
    /// The branch, as `refs/heads/...`.
    reference: String,
    /// The commit before it.
    parent: Option<String>,
    /// The commit whose files the user's checkout has.
    base: Option<String>,
}

impl BranchTarget {
    /// The begin of the stream.
    fn head(&self, identity: &str, message: &str) -> Vec<u8> {
        let message = format!("{}\n", message.trim_end());
        let mut head = format!("feature done\ncommit {}\ncommitter {identity}\n", self.reference);
        head += &format!("data {}\n{message}", message.len());
        if let Some(parent) = &self.parent {
            head += &format!("from {parent}\n");
        }
        if let Some(base) = self.base.as_ref().filter(|base| Some(*base) != self.parent.as_ref()) {
            // The branch has commits of its own; the changes are those against the checkout.
            head += &format!("M 040000 {base} \"\"\n");
        }
        head.into_bytes()
    }
}

/// The repository of a directory.
struct Repository {
    directory: PathBuf,
}

impl Repository {
    /// The path of the directory in the repository: empty, or ending with `/`.
    fn prefix(&self) -> Result<Vec<u8>, Error> {
        let shown = self.run(&["rev-parse", "--is-inside-work-tree", "--show-prefix"], None);
        let shown = shown.map_err(|error| match error.code {
            Code::EngineError => {
                let message = format!("{} is in no repository of git: {}", self.directory.display(), error.message);
                Error::new(Code::WorkspaceUnsupported, message)
            }
            _ => error,
        })?;
        let prefix = shown.strip_prefix(b"true\n").ok_or_else(|| {
            let message = format!("{} is not in the checkout of a repository", self.directory.display());
            Error::new(Code::WorkspaceUnsupported, message)
        })?;
        Ok(prefix.trim_ascii_end().to_vec())
    }

    /// Checks a branch, and finds its last commit.
    fn place(&self, branch: &str) -> Result<BranchTarget, Error> {
        let refused = |why: &str| Error::new(Code::InvalidOption, format!("branch '{branch}' {why}"));
        let reference = format!("refs/heads/{branch}");
        if branch.starts_with('-') || self.run(&["check-ref-format", &reference], None).is_err() {
            return Err(refused("is no name that git allows for a branch"));
        }
        let used = self.run(&["for-each-ref", "--format=%(worktreepath)", &reference], None)?;
        if !used.trim_ascii().is_empty() {
            let place = String::from_utf8_lossy(&used);
            return Err(refused(&format!("is checked out in {}: name another one", place.trim())));
        }
        // The branch that HEAD names may have no commit yet.
        let current = self.run(&["symbolic-ref", "-q", "HEAD"], None).unwrap_or_default();
        if current.trim_ascii() == reference.as_bytes() {
            return Err(refused("is checked out: name another one"));
        }
        let (base, tip) = (self.id_of("HEAD")?, self.id_of(&reference)?);
        if let (Some(base), Some(tip)) = (&base, &tip)
            && self.run(&["merge-base", "--is-ancestor", base, tip], None).is_err()
        {
            return Err(refused("does not have the commit that is checked out: name another one, or rebase it"));
        }
        let tree = |id: &String| self.id_of_tree(id);
        let files = base.as_ref().filter(|_| tip.is_some() && tip != base).map(tree).transpose()?;
        let parent = tip.or(base);
        Ok(BranchTarget { reference, base: files, parent })
    }

    /// The id of a commit. `None` if there is none.
    fn id_of(&self, name: &str) -> Result<Option<String>, Error> {
        let name = format!("{name}^{{commit}}");
        let found = self.run(&["rev-parse", "-q", "--verify", &name], None);
        match found {
            Err(error) if error.code == Code::EngineError => Ok(None),
            found => found.map(|id| Some(String::from_utf8_lossy(&id).trim().to_owned())),
        }
    }

    fn id_of_tree(&self, commit: &str) -> Result<String, Error> {
        let tree = self.run(&["rev-parse", "-q", "--verify", &format!("{commit}^{{tree}}")], None)?;
        Ok(String::from_utf8_lossy(&tree).trim().to_owned())
    }

    /// Who commits, and when, as git writes it.
    fn identity(&self) -> Result<String, Error> {
        let identity = self.run(&["var", "GIT_COMMITTER_IDENT"], None)?;
        Ok(String::from_utf8_lossy(&identity).trim().to_owned())
    }

    /// The changes that git ignores in the real directory.
    fn ignored(&self, changes: &[WorkspaceChange], nested: &BTreeSet<Vec<u8>>) -> Result<BTreeSet<Vec<u8>>, Error> {
        let is_asked = |path: &&[u8]| *path != b"." && !is_of_git(path) && !is_within_any(path, nested);
        let present = changes.iter().filter(|change| change.now.is_some()).map(|change| &change.path[..]);
        let created: Vec<&[u8]> = present.filter(is_asked).collect();
        if created.is_empty() {
            return Ok(BTreeSet::new());
        }
        let list = created.join(&0);
        // With the index, the time would grow with the square of the files.
        let found = self.run(&["check-ignore", "--no-index", "-z", "--stdin"], Some(&list));
        let found = found.or_else(|error| match error.code {
            // It fails if nothing is ignored, too.
            Code::EngineError if error.message.ends_with(NOTHING) => Ok(Vec::new()),
            _ => Err(error),
        })?;
        let mut ignored = paths_of(&found);
        let is_old = |change: &WorkspaceChange| change.before.is_some() && ignored.contains(&change.path);
        if changes.iter().any(is_old) {
            // What has been added in spite of the rules is a file like any other.
            for path in paths_of(&self.run(&["ls-files", "-z"], None)?) {
                ignored.remove(&path);
            }
        }
        Ok(ignored)
    }

    fn import(&self, stream: File) -> Result<(), Error> {
        let mut import = self.git(&["fast-import", "--quiet", "--done"]);
        let output = import.stdin(stream).output().map_err(|error| missing(&error))?;
        checked("fast-import", &output.status, &output.stderr).map(drop)
    }

    fn run(&self, arguments: &[&str], input: Option<&[u8]>) -> Result<Vec<u8>, Error> {
        let mut git = self.git(arguments);
        let stdin = if input.is_some() { Stdio::piped() } else { Stdio::null() };
        let mut running =
            git.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(|error| missing(&error))?;
        let output = std::thread::scope(|scope| {
            if let (Some(mut pipe), Some(input)) = (running.stdin.take(), input) {
                // Git may end before it has read everything.
                scope.spawn(move || drop(pipe.write_all(input)));
            }
            running.wait_with_output()
        });
        let output = output.map_err(|error| missing(&error))?;
        checked(arguments[0], &output.status, &output.stderr)?;
        Ok(output.stdout)
    }

    fn git(&self, arguments: &[&str]) -> Command {
        let mut git = Command::new("git");
        git.arg("-C").arg(&self.directory).args(SETTINGS).args(arguments);
        ELSEWHERE.iter().for_each(|name| {
            git.env_remove(name);
        });
        git.env("LC_ALL", "C").env("GIT_OPTIONAL_LOCKS", "0").env("GIT_TERMINAL_PROMPT", "0");
        git
    }
}

/// The paths of a list with a NUL after each.
fn paths_of(list: &[u8]) -> BTreeSet<Vec<u8>> {
    list.split(|byte| *byte == 0).filter(|path| !path.is_empty()).map(<[u8]>::to_vec).collect()
}

/// How git fails without a message.
const NOTHING: &str = "without a message";

fn checked(call: &str, status: &std::process::ExitStatus, stderr: &[u8]) -> Result<(), Error> {
    if status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&stderr[..stderr.len().min(SHOWN_BYTES)]);
    let reason = text.lines().find(|line| !line.trim().is_empty()).unwrap_or(NOTHING);
    Err(Error::new(Code::EngineError, format!("git {call} has failed: {reason}")))
}

fn missing(error: &std::io::Error) -> Error {
    Error::new(Code::WorkspaceUnsupported, format!("a commit to a branch needs git on this machine: {error}"))
}
