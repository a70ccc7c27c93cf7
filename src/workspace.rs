//! The native class's methods for a copy-on-write workspace.

use crate::piece::Piece;
use crate::sandbox::NativeSandbox;
use crate::settle::Pending;
use crate::types::{
    NativeArchive, NativeBlame, NativeChanges, NativeCommit, NativeConflictHunk, NativeDriverRun, NativeHunk,
    NativeHunkChoice, NativeMergeConflict, NativeMerged, NativeNamed, NativePoint, NativeResumed, NativeReview,
    NativeReviewed, NativeRollback, NativeSkipped, NativeSuspended, NativeUsage, NativeWithheld,
};
use nacre_core::blocking::blocking;
use nacre_core::error::{Code, Error};
use nacre_core::git_branch::{BranchCommit, CommittedBranch};
use nacre_core::sandbox::{Entry, MergeOptions, Merged, ResumeOptions, Resumed, Rollback, Suspended, WhenBusy};
use nacre_core::workspace::{Commit, Named, Stop, Workspace};
use nacre_protocol::host_programs::Changed;
use nacre_protocol::workspace::{
    Blamed, ChangedEntry, Chosen, ConflictHunk, ConflictReason, Difference, DriverRun, HunkChoice, Joined, Kind,
    MergeConflict, Point, ReviewGroup, ReviewedChange, ReviewedHunk, Skipped, WithoutHunks, WorkspaceChange,
};
use napi::bindgen_prelude::{ClassInstance, Result, ToNapiValue, Uint8Array};
use napi_derive::napi;
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

type Answer<T> = std::result::Result<T, Error>;

#[napi]
impl NativeSandbox {
    /// Lists the changed paths: these, and everything below them; all by default.
    #[napi(catch_unwind)]
    pub fn workspace_changes(&self, id: u32, paths: Option<Vec<Uint8Array>>) -> Result<Pending<Option<NativeChanges>>> {
        let paths = copied(paths);
        let guards = self.sandbox.guards_project();
        self.compare(id, move |workspace, stop| {
            Ok(workspace.changes(paths, stop)?.map(|changes| columns(changes, guards)))
        })
    }

    /// A patch in git's format.
    #[napi(catch_unwind, ts_return_type = "Pending<Buffer | null>")]
    pub fn workspace_diff(
        &self,
        id: u32,
        paths: Option<Vec<Uint8Array>>,
        max_bytes: f64,
    ) -> Result<Pending<Option<Piece>>> {
        let paths = copied(paths);
        self.compare(id, move |workspace, stop| {
            let Some(mut file) = workspace.diff(paths, max_bytes as u64, stop)? else { return Ok(None) };
            let mut patch = Vec::new();
            file.read_to_end(&mut patch).map_err(|error| {
                Error::new(Code::EngineError, format!("the patch of the workspace cannot be read: {error}"))
            })?;
            Ok(Some(Piece(patch)))
        })
    }

    /// Lists the changed paths in groups, with hunks of so many bytes together.
    #[napi(catch_unwind)]
    pub fn workspace_review(
        &self,
        id: u32,
        paths: Option<Vec<Uint8Array>>,
        max_bytes: f64,
    ) -> Result<Pending<Option<NativeReview>>> {
        let paths = copied(paths);
        let guards = self.sandbox.guards_project();
        self.compare(id, move |workspace, stop| {
            Ok(workspace.review(paths, max_bytes as u64, stop)?.map(|changes| reviewed(changes, guards)))
        })
    }

    /// The command that has last written a path, if its step is kept.
    #[napi(catch_unwind)]
    pub fn workspace_blame(&self, id: u32, path: Uint8Array) -> Result<Pending<Option<NativeBlame>>> {
        let path = path.to_vec();
        self.on_workspace(id, move |workspace| {
            let blame = |Blamed { point, difference, steps }: Blamed| {
                let Point { created_at, command, runs_in, .. } = point;
                let kind = match difference {
                    Difference::Created => "created",
                    Difference::Deleted => "deleted",
                    Difference::Replaced => "replaced",
                    Difference::Modified | Difference::Metadata => "modified",
                };
                let command = command.unwrap_or_default();
                NativeBlame { command, sessions: runs_in, started_at: created_at as f64, kind, steps }
            };
            Ok(workspace.blame(path)?.map(blame))
        })
    }

    /// Applies changes to the real directory. Its wait for a pause can be abandoned. Has `paths` in the error if there are
    /// conflicts.
    #[napi(catch_unwind)]
    pub fn workspace_commit(
        &self,
        id: u32,
        paths: Option<Vec<Uint8Array>>,
        hunks: Vec<NativeHunkChoice>,
        force: bool,
        sync: bool,
    ) -> Result<Pending<Option<NativeCommit>>> {
        let committing = self.sandbox.commit(chosen(paths, hunks), force, sync, self.waits.open(id).given_up());
        self.settle(id, async move {
            Ok(committing.await?.map(|Commit { applied, skipped }| committed(applied, skipped, None)))
        })
    }

    /// Commits changes to a branch of git. Its wait for a pause can be abandoned.
    #[napi(catch_unwind)]
    pub fn workspace_commit_to_branch(
        &self,
        id: u32,
        paths: Option<Vec<Uint8Array>>,
        branch: String,
        message: String,
        force: bool,
    ) -> Result<Pending<Option<NativeCommit>>> {
        let commit = BranchCommit { branch, message, paths: copied(paths), force, withholds: true };
        let committing = self.sandbox.commit_to_branch(commit, self.waits.open(id).given_up());
        self.settle(id, async move {
            let done = committing.await?;
            Ok(done.map(|CommittedBranch { id, applied, skipped }| committed(applied, skipped, id)))
        })
    }

    /// Restores the real versions of changed paths, and returns their number. Its wait for a pause can be abandoned.
    #[napi(catch_unwind)]
    pub fn workspace_discard(
        &self,
        id: u32,
        paths: Option<Vec<Uint8Array>>,
        hunks: Vec<NativeHunkChoice>,
    ) -> Result<Pending<Option<f64>>> {
        let discarding = self.sandbox.discard(chosen(paths, hunks), self.waits.open(id).given_up());
        self.settle(id, async move { Ok(discarding.await?.map(|count| count as f64)) })
    }

    /// Lists the workspaces whose layers are kept in a directory. Null: those in the state directory, here and below.
    #[napi(catch_unwind)]
    pub fn list_workspaces(&self, id: u32, directory: Option<String>) -> Result<Pending<Vec<NativeNamed>>> {
        let sandbox = self.sandbox.clone();
        let list = move || {
            let found = sandbox.list_workspaces(directory.map(PathBuf::from))?;
            Ok(found.into_iter().map(named).collect())
        };
        self.settle(id, blocking(list))
    }

    /// Deletes one of them.
    #[napi(catch_unwind)]
    pub fn delete_workspace(&self, id: u32, directory: Option<String>, name: String) -> Result<Pending<()>> {
        let sandbox = self.sandbox.clone();
        self.settle(id, blocking(move || sandbox.delete_workspace(directory.map(PathBuf::from), &name)))
    }

    /// Lists the sandboxes that are kept in the state directory.
    #[napi(catch_unwind)]
    pub fn list_kept(&self, id: u32) -> Result<Pending<Vec<NativeNamed>>> {
        let sandbox = self.sandbox.clone();
        let entry = |Entry { name, in_use, used_at }: Entry| {
            let used_at = used_at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
            NativeNamed { name, path: None, in_use, used_at }
        };
        self.settle(id, blocking(move || Ok(sandbox.list_kept()?.into_iter().map(entry).collect())))
    }

    /// Deletes one of them.
    #[napi(catch_unwind)]
    pub fn delete_kept(&self, id: u32, name: String) -> Result<Pending<()>> {
        let sandbox = self.sandbox.clone();
        self.settle(id, blocking(move || sandbox.delete_kept(&name)))
    }

    /// Keeps the files and the state of every session. Its wait for a pause can be abandoned. `rejects`: fails if programs
    /// use the workspace, here and below.
    #[napi(catch_unwind)]
    pub fn checkpoint(&self, id: u32, name: Option<String>, rejects: bool) -> Result<Pending<Option<NativePoint>>> {
        let making = self.sandbox.checkpoint(name, when_busy(rejects), self.waits.open(id).given_up());
        self.settle(id, async move { Ok(making.await?.map(kept)) })
    }

    /// Lists the checkpoints.
    #[napi(catch_unwind)]
    pub fn checkpoints(&self, id: u32) -> Result<Pending<Vec<NativePoint>>> {
        self.on_workspace(id, |workspace| Ok(workspace.checkpoints()?.into_iter().map(kept).collect()))
    }

    /// Deletes a checkpoint.
    #[napi(catch_unwind)]
    pub fn delete_checkpoint(&self, id: u32, number: f64) -> Result<Pending<()>> {
        self.on_workspace(id, move |workspace| workspace.delete_checkpoint(number as u64))
    }

    /// Goes on with the files and sessions of a checkpoint; by default of the newest automatic one.
    #[napi(catch_unwind)]
    pub fn roll_back(&self, id: u32, number: Option<f64>) -> Result<Pending<NativeRollback>> {
        let rolling = self.sandbox.roll_back(number.map(|number| number as u64));
        self.settle(id, async move {
            let Rollback { point, ended_processes, ended_sessions, missing } = rolling.await?;
            let command = point.command.clone();
            Ok(NativeRollback { point: kept(point), command, ended_processes, ended_sessions, missing })
        })
    }

    /// Lets other sandboxes, which have not been used, begin with the files and sessions of this one. True, unless its wait
    /// for a pause was abandoned.
    #[napi(catch_unwind)]
    pub fn fork(
        &self,
        id: u32,
        forks: Vec<ClassInstance<'_, NativeSandbox>>,
        rejects: bool,
    ) -> Result<Pending<Option<bool>>> {
        let forks = forks.iter().map(|fork| fork.sandbox.clone()).collect();
        let forking = self.sandbox.fork(forks, when_busy(rejects), self.waits.open(id).given_up());
        self.settle(id, async move { Ok(forking.await?.map(|()| true)) })
    }

    /// Lets another sandbox, which has not been used, begin with the files and sessions of this one, and the changes of others. Its
    /// waits for pauses can be abandoned. `has_markers`: a file gets markers at its conflicts.
    #[napi(catch_unwind)]
    pub fn merge(
        &self,
        id: u32,
        others: Vec<ClassInstance<'_, NativeSandbox>>,
        into: ClassInstance<'_, NativeSandbox>,
        has_markers: bool,
        rejects: bool,
    ) -> Result<Pending<Option<NativeMerged>>> {
        let others = others.iter().map(|other| other.sandbox.clone()).collect();
        let options = MergeOptions { has_markers, when_busy: when_busy(rejects) };
        let merging = self.sandbox.merge(others, into.sandbox.clone(), options, self.waits.open(id).given_up());
        self.settle(id, async move { Ok(merging.await?.map(merged)) })
    }

    /// Writes the sandbox to a file, and lets nothing begin any more. Its wait for a pause can be abandoned.
    #[napi(catch_unwind)]
    pub fn suspend(&self, id: u32, path: String, rejects: bool) -> Result<Pending<Option<NativeSuspended>>> {
        let suspending = self.sandbox.suspend(path.into(), when_busy(rejects), self.waits.open(id).given_up());
        self.settle(id, async move {
            Ok(suspending.await?.map(|Suspended { bytes, files, sessions, missing }| NativeSuspended {
                bytes: bytes as f64,
                files: files as f64,
                sessions,
                missing,
            }))
        })
    }

    /// The directory for archives that a server writes and reads.
    #[napi(catch_unwind)]
    pub fn archives(&self, id: u32) -> Result<Pending<String>> {
        let sandbox = self.sandbox.clone();
        self.settle(id, blocking(move || Ok(sandbox.archives()?.to_string_lossy().into_owned())))
    }

    /// Reads what an archive says about itself.
    #[napi(catch_unwind)]
    pub fn read_archive(&self, id: u32, path: String) -> Result<Pending<NativeArchive>> {
        let sandbox = self.sandbox.clone();
        let read = move || {
            let about = sandbox.read_archive(path.as_ref())?;
            Ok(NativeArchive { has_files: about.workspace.is_some() })
        };
        self.settle(id, blocking(read))
    }

    /// Goes on with an archive, in a sandbox that nothing has used. `rejects`: fails if the real directory differs.
    #[napi(catch_unwind)]
    pub fn resume(&self, id: u32, path: String, rejects: bool, max_bytes: f64) -> Result<Pending<NativeResumed>> {
        let resuming = self.sandbox.resume(path.into(), ResumeOptions { rejects, max_bytes: max_bytes as u64 });
        self.settle(id, async move {
            let Resumed { missing, differing, .. } = resuming.await?;
            let differences = differing.iter().map(|path| String::from_utf8_lossy(path).into_owned()).collect();
            Ok(NativeResumed { missing, differences })
        })
    }

    /// Measures the layers.
    #[napi(catch_unwind)]
    pub fn workspace_usage(&self, id: u32) -> Result<Pending<NativeUsage>> {
        self.on_workspace(id, |workspace| {
            let found = workspace.usage()?;
            let submounts = workspace.passed_mounts()?;
            Ok(NativeUsage {
                bytes: found.bytes as f64,
                files: found.files as f64,
                layers: found.layers as f64,
                submounts: submounts.iter().map(|place| place.to_string_lossy().into_owned()).collect(),
            })
        })
    }
}

impl NativeSandbox {
    /// Asks the keeper of the workspace, on a thread that may block.
    fn on_workspace<T: ToNapiValue + Send + 'static>(
        &self,
        id: u32,
        ask: impl FnOnce(&Workspace) -> Answer<T> + Send + 'static,
    ) -> Result<Pending<T>> {
        let sandbox = self.sandbox.clone();
        self.settle(id, blocking(move || ask(&*sandbox.workspace()?)))
    }

    /// Makes a comparison, which stops when the call is abandoned, on a thread that may block.
    fn compare<T: ToNapiValue + Send + 'static>(
        &self,
        id: u32,
        ask: impl FnOnce(&Workspace, &Stop) -> Answer<Option<T>> + Send + 'static,
    ) -> Result<Pending<Option<T>>> {
        let (sandbox, wait) = (self.sandbox.clone(), self.waits.open(id));
        self.settle(id, async move {
            let (workspace, stop) = (sandbox.workspace()?, Stop::default());
            let compared = wait.run({
                let (workspace, stop) = (Arc::clone(&workspace), stop.clone());
                blocking(move || ask(&workspace, &stop))
            });
            compared.await.unwrap_or_else(|| {
                workspace.stop(&stop);
                Ok(None)
            })
        })
    }
}

fn committed(applied: u64, skipped: Vec<Skipped>, id: Option<String>) -> NativeCommit {
    let skipped = skipped.into_iter().map(|Skipped { path, reason }| NativeSkipped { path: Piece(path), reason });
    NativeCommit { applied: applied as f64, skipped: skipped.collect(), id }
}

fn when_busy(rejects: bool) -> WhenBusy {
    if rejects { WhenBusy::Reject } else { WhenBusy::Copy }
}

fn kept(Point { number, name, created_at, sessions, .. }: Point) -> NativePoint {
    NativePoint { number: number as f64, name, created_at: created_at as f64, sessions }
}

fn conflict(MergeConflict { path, reason, sides, hunks }: MergeConflict) -> NativeMergeConflict {
    let reason = match reason {
        ConflictReason::Content => "content",
        ConflictReason::Binary => "binary",
        ConflictReason::Mode => "mode",
        ConflictReason::Deleted => "deleted",
        ConflictReason::Kind => "kind",
        ConflictReason::Target => "target",
    };
    let hunk = |ConflictHunk { line, ours, theirs }: ConflictHunk| NativeConflictHunk {
        line,
        ours: Piece(ours),
        theirs: Piece(theirs),
    };
    NativeMergeConflict { path: Piece(path), reason, sides, hunks: hunks.into_iter().map(hunk).collect() }
}

fn merged(Merged { joined: Joined { conflicts, pending }, directory }: Merged) -> NativeMerged {
    let run = |DriverRun { path, sides, driver, command, result, versions }| NativeDriverRun {
        path: Piece(path),
        sides,
        driver,
        command: Piece(command),
        result,
        versions: versions.into(),
    };
    NativeMerged {
        conflicts: conflicts.into_iter().map(conflict).collect(),
        pending: pending.into_iter().map(run).collect(),
        directory: directory.to_string_lossy().into_owned(),
    }
}

fn named(Named { id, path, in_use, used_at }: Named) -> NativeNamed {
    let path = path.map(|path| path.to_string_lossy().into_owned());
    NativeNamed { name: id, path, in_use, used_at: used_at as f64 }
}

fn copied(paths: Option<Vec<Uint8Array>>) -> Option<Vec<Vec<u8>>> {
    paths.map(|paths| paths.iter().map(|path| path.to_vec()).collect())
}

fn chosen(paths: Option<Vec<Uint8Array>>, hunks: Vec<NativeHunkChoice>) -> Chosen {
    let choice = |NativeHunkChoice { path, ids }: NativeHunkChoice| HunkChoice { path: path.to_vec(), ids };
    Chosen { paths: copied(paths), hunks: hunks.into_iter().map(choice).collect() }
}

fn reviewed(found: Vec<ReviewedChange>, guards: bool) -> NativeReview {
    let hunk = |ReviewedHunk { id, before, now, added, removed, text }: ReviewedHunk| {
        let lines = vec![before.start, before.count, now.start, now.count];
        NativeHunk { id, lines, added, removed, text: Piece(text) }
    };
    let split = |ReviewedChange { change, group, reason, added, removed, hunks, without }: ReviewedChange| {
        let group = match group {
            ReviewGroup::RunsLater => "runsLater",
            ReviewGroup::Generated => "generated",
            ReviewGroup::Large => "large",
            ReviewGroup::Binary => "binary",
            ReviewGroup::Source => "source",
        };
        let without = without.map(|without| match without {
            WithoutHunks::Kind => "kind",
            WithoutHunks::Large => "large",
            WithoutHunks::Binary => "binary",
            WithoutHunks::Generated => "generated",
            WithoutHunks::MaxBytes => "maxBytes",
        });
        let hunks = hunks.into_iter().map(hunk).collect();
        let (added, removed) = (added as f64, removed as f64);
        (change, NativeReviewed { group, reason, added, removed, hunks, without })
    };
    let (changes, reviewed) = found.into_iter().map(split).unzip();
    NativeReview { changes: columns(changes, guards), reviewed }
}

fn letter_of(difference: Difference) -> u8 {
    match difference {
        Difference::Created => b'c',
        Difference::Modified => b'm',
        Difference::Deleted => b'd',
        Difference::Replaced => b'r',
        Difference::Metadata => b'a',
    }
}

fn letter_of_kind(kind: Kind) -> u8 {
    match kind {
        Kind::File => b'f',
        Kind::Directory => b'd',
        Kind::Symlink => b'l',
        Kind::Fifo => b'i',
        Kind::Socket => b's',
        Kind::Device => b'v',
    }
}

fn columns(changes: Vec<WorkspaceChange>, guards: bool) -> NativeChanges {
    let (mut paths, mut kinds, mut numbers, mut withheld) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let counted = Changed::new(changes.iter().map(|change| change.path.as_slice()));
    for (index, WorkspaceChange { path, difference, now, before }) in changes.into_iter().enumerate() {
        let is_directory = now.as_ref().or(before.as_ref()).is_some_and(|entry| entry.kind == Kind::Directory);
        if let Some(reason) = counted.reason(&path, is_directory).filter(|_| guards) {
            withheld.push(NativeWithheld { index: index as u32, reason: reason.into() });
        }
        paths.extend(path);
        paths.push(0);
        kinds.push(letter_of(difference));
        for entry in [now, before] {
            kinds.push(entry.as_ref().map_or(b'-', |entry| letter_of_kind(entry.kind)));
            numbers.extend(entry.map_or([0.0; 2], |ChangedEntry { size, mode, .. }| [size as f64, f64::from(mode)]));
        }
    }
    NativeChanges { paths: Piece(paths), kinds: Piece(kinds), numbers: numbers.into(), withheld }
}
