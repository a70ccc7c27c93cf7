//! Commits of git that leave the user's checkout, index and HEAD as they are.
//!
//! The keeper of the workspace writes the changed files as a stream, and `git fast-import` of this machine makes the objects and
//! moves the branch; see [`nacre_git`]. The repository is the one of the real directory.

use crate::error::{Code, Error};
use crate::workspace::Workspace;
use nacre_git::{GitError, Repository};
use nacre_protocol::host_programs::Changed;
use nacre_protocol::workspace::{Kind, Skipped, WorkspaceChange};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

const WITHHELD: &str = "programs of the machine run or obey it later: name it in `paths` to commit it";
/// What to commit.
#[derive(Clone, Debug)]
pub struct BranchCommit {
    /// The name of the branch, which is created if there is none.
    pub branch: String,
    /// The message of the commit.
    pub message: String,
    /// The paths, with everything below them; all by default.
    pub paths: Option<Vec<Vec<u8>>>,
    /// Whether the branch may have commits that are not of this workspace, whose files the new one does not have.
    pub force: bool,
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
/// `WORKSPACE_CONFLICT` for one that has commits of others;
/// `WORKSPACE_UNSUPPORTED` without git or a repository.
pub fn commit(workspace: &Workspace, commit: BranchCommit) -> Result<CommittedBranch, Error> {
    let repository = Repository::of(workspace.path())?;
    let target = repository.target(&commit.branch)?;
    let is_of_others = |tip| workspace.last_commit(&commit.branch).as_deref() != Some(tip);
    if target.others().is_some_and(is_of_others) && !commit.force {
        return Err(of_others(&commit.branch));
    }
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
    let ignored = ignored(&repository, &changes, &nested)?;
    let counted = Changed::new(changes.iter().map(|change| change.path.as_slice()));
    let (mut chosen, mut files, mut skipped) = (Vec::new(), Vec::new(), Vec::new());
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
            None => {
                files.extend(change.now.filter(|now| now.kind == Kind::File).map(|_| &change.path[..]));
                chosen.push(change.path.clone());
            }
        }
    }
    if chosen.is_empty() {
        return Ok(CommittedBranch { id: None, applied: 0, skipped });
    }
    let applied = chosen.len() as u64;
    let head = target.head(&repository.identity()?, &commit.message);
    let (head_bytes, prefix) = (head.len() as u64, repository.prefix().to_vec());
    let (stream, conversions) = std::thread::scope(|scope| {
        let conversions = scope.spawn(|| repository.conversions(&files));
        let stream = workspace.stream(chosen, prefix, head);
        (stream, conversions.join().unwrap_or_else(|_| Err(GitError::Temporary(io::ErrorKind::Other.into()))))
    });
    if let Err(error) = repository.import(&target, stream?, head_bytes, &conversions?) {
        return Err(if repository.is_as_found(&target)? { error.into() } else { of_others(&commit.branch) });
    }
    let id = repository.last(&target)?;
    if let Some(id) = &id {
        workspace.record_commit(commit.branch, id.clone());
    }
    Ok(CommittedBranch { id, applied, skipped })
}

/// A commit has the files of the checkout with the changes of its workspace, so it would take those of other commits back.
fn of_others(branch: &str) -> Error {
    let remedy = "merge the sandboxes, name another branch, or set force to go on without their files";
    Error::new(Code::WorkspaceConflict, format!("branch '{branch}' has commits that are not of this sandbox: {remedy}"))
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

/// The changes that git ignores in the real directory.
fn ignored(
    repository: &Repository,
    changes: &[WorkspaceChange],
    nested: &BTreeSet<Vec<u8>>,
) -> Result<BTreeSet<Vec<u8>>, GitError> {
    let is_asked = |path: &&[u8]| *path != b"." && !is_of_git(path) && !is_within_any(path, nested);
    let present = changes.iter().filter(|change| change.now.is_some()).map(|change| &change.path[..]);
    let paths: Vec<&[u8]> = present.filter(is_asked).collect();
    repository.ignored(&paths, |ignored| {
        changes.iter().any(|change| change.before.is_some() && ignored.contains(&change.path))
    })
}

impl From<GitError> for Error {
    fn from(error: GitError) -> Self {
        match error {
            GitError::Missing(error) => Self::new(
                Code::WorkspaceUnsupported,
                format!("a commit to a branch needs git on this machine: {error}"),
            ),
            GitError::NoRepository { .. } => Self::new(Code::WorkspaceUnsupported, error.to_string()),
            GitError::Branch { .. } => Self::new(Code::InvalidOption, error.to_string()),
            GitError::Filter { ref path, .. } => {
                Self { path: Some(path.clone()), ..Self::new(Code::EngineError, error.to_string()) }
            }
            GitError::Failed { .. } | GitError::Temporary(_) => Self::new(Code::EngineError, error.to_string()),
        }
    }
}
