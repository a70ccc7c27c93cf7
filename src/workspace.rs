//! The native class's methods for a copy-on-write workspace.

use crate::emitter::Settle;
use crate::piece::Piece;
use crate::sandbox::NativeSandbox;
use crate::types::{
    NativeChanges, NativeCommit, NativeEvent, NativeNamed, NativePoint, NativeRollback, NativeSkipped, NativeUsage,
    NativeWithheld,
};
use nacre_core::blocking::blocking;
use nacre_core::error::{Code, Error};
use nacre_core::runtime;
use nacre_core::sandbox::{Rollback, WhenBusy};
use nacre_core::workspace::{Commit, Named, Stop, Workspace};
use nacre_protocol::host_programs::Changed;
use nacre_protocol::workspace::{ChangedEntry, Difference, Kind, Point, Skipped, WorkspaceChange};
use napi::bindgen_prelude::{ClassInstance, Result, Uint8Array};
use napi_derive::napi;
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

type Answer = std::result::Result<NativeEvent, Error>;

#[napi]
impl NativeSandbox {
    /// Lists the changed paths: these, and everything below them; all by default. Ends with `done` and
    /// `workspaceChanges`.
    #[napi(catch_unwind)]
    pub fn workspace_changes(&self, id: u32, paths: Option<Vec<Uint8Array>>) -> Result<()> {
        let paths = copied(paths);
        let guards = self.sandbox.guards_project();
        self.compare(id, move |workspace, stop| {
            let changes = workspace.changes(paths, stop)?;
            let workspace_changes = changes.map(|changes| columns(changes, guards));
            Ok(NativeEvent { workspace_changes, ..NativeEvent::default() })
        })
    }

    /// Ends with `done` and `data`, a patch in git's format.
    #[napi(catch_unwind)]
    pub fn workspace_diff(&self, id: u32, paths: Option<Vec<Uint8Array>>, max_bytes: f64) -> Result<()> {
        let paths = copied(paths);
        self.compare(id, move |workspace, stop| {
            let mut patch = Vec::new();
            let Some(mut file) = workspace.diff(paths, max_bytes as u64, stop)? else {
                return Ok(NativeEvent::default());
            };
            file.read_to_end(&mut patch).map_err(|error| {
                Error::new(Code::EngineError, format!("the patch of the workspace cannot be read: {error}"))
            })?;
            Ok(NativeEvent { data: Some(Piece(patch)), ..NativeEvent::default() })
        })
    }

    /// Applies changes to the real directory. Its wait for a pause can be abandoned. Ends with `done` and `commit`;
    /// with `paths` in the error if there are conflicts.
    #[napi(catch_unwind)]
    pub fn workspace_commit(&self, id: u32, paths: Option<Vec<Uint8Array>>, force: bool, sync: bool) -> Result<()> {
        let committing = self.sandbox.commit(copied(paths), force, sync, self.waits.open(id).given_up());
        self.answer(id, async move {
            let commit = committing.await?.map(|Commit { applied, skipped }| {
                let skipped =
                    skipped.into_iter().map(|Skipped { path, reason }| NativeSkipped { path: Piece(path), reason });
                NativeCommit { applied: applied as f64, skipped: skipped.collect() }
            });
            Ok(NativeEvent { commit, ..NativeEvent::default() })
        })
    }

    /// Restores the real versions of changed paths. Its wait for a pause can be abandoned. Ends with `done` and
    /// `discarded`.
    #[napi(catch_unwind)]
    pub fn workspace_discard(&self, id: u32, paths: Option<Vec<Uint8Array>>) -> Result<()> {
        let discarding = self.sandbox.discard(copied(paths), self.waits.open(id).given_up());
        self.answer(id, async move {
            let discarded = discarding.await?.map(|count| count as f64);
            Ok(NativeEvent { discarded, ..NativeEvent::default() })
        })
    }

    /// Lists the workspaces whose layers are kept in a directory; by default in the state directory. Ends with `done`
    /// and `workspaces`. Null: those in the state directory, here and below.
    #[napi(catch_unwind)]
    pub fn list_workspaces(&self, id: u32, directory: Option<String>) -> Result<()> {
        let sandbox = self.sandbox.clone();
        self.answer(
            id,
            blocking(move || {
                let found = sandbox.list_workspaces(directory.map(PathBuf::from))?;
                Ok(NativeEvent { workspaces: Some(found.into_iter().map(named).collect()), ..NativeEvent::default() })
            }),
        )
    }

    /// Deletes one of them.
    #[napi(catch_unwind)]
    pub fn delete_workspace(&self, id: u32, directory: Option<String>, name: String) -> Result<()> {
        let sandbox = self.sandbox.clone();
        self.answer(
            id,
            blocking(move || {
                sandbox.delete_workspace(directory.map(PathBuf::from), &name)?;
                Ok(NativeEvent::default())
            }),
        )
    }

    /// Keeps the files and the state of every session. Its wait for a pause can be abandoned. Ends with `done` and one
    /// of `points`. `rejects`: fails if programs use the workspace, here and below.
    #[napi(catch_unwind)]
    pub fn checkpoint(&self, id: u32, name: Option<String>, rejects: bool) -> Result<()> {
        let making = self.sandbox.checkpoint(name, when_busy(rejects), self.waits.open(id).given_up());
        self.answer(id, async move {
            let points = making.await?.map(|point| vec![kept(point)]);
            Ok(NativeEvent { points, ..NativeEvent::default() })
        })
    }

    /// Lists the checkpoints. Ends with `done` and `points`.
    #[napi(catch_unwind)]
    pub fn checkpoints(&self, id: u32) -> Result<()> {
        self.on_workspace(id, |workspace| {
            let points = workspace.checkpoints()?.into_iter().map(kept).collect();
            Ok(NativeEvent { points: Some(points), ..NativeEvent::default() })
        })
    }

    /// Deletes a checkpoint.
    #[napi(catch_unwind)]
    pub fn delete_checkpoint(&self, id: u32, number: f64) -> Result<()> {
        self.on_workspace(id, move |workspace| {
            workspace.delete_checkpoint(number as u64)?;
            Ok(NativeEvent::default())
        })
    }

    /// Goes on with the files and sessions of a checkpoint; by default of the newest automatic one. Ends with `done`,
    /// one of `points` and `rollback`.
    #[napi(catch_unwind)]
    pub fn roll_back(&self, id: u32, number: Option<f64>) -> Result<()> {
        let rolling = self.sandbox.roll_back(number.map(|number| number as u64));
        self.answer(id, async move {
            let Rollback { point, ended_processes, ended_sessions, missing } = rolling.await?;
            let rollback = NativeRollback { command: point.command.clone(), ended_processes, ended_sessions, missing };
            Ok(NativeEvent { points: Some(vec![kept(point)]), rollback: Some(rollback), ..NativeEvent::default() })
        })
    }

    /// Lets other sandboxes, which have not been used, begin with the files and sessions of this one. Its wait for a
    /// pause can be abandoned.
    #[napi(catch_unwind)]
    pub fn fork(&self, id: u32, forks: Vec<ClassInstance<'_, NativeSandbox>>, rejects: bool) -> Result<()> {
        let forks = forks.iter().map(|fork| fork.sandbox.clone()).collect();
        let forking = self.sandbox.fork(forks, when_busy(rejects), self.waits.open(id).given_up());
        self.answer(id, async move {
            let forked = forking.await?.map(|()| true);
            Ok(NativeEvent { forked, ..NativeEvent::default() })
        })
    }

    /// Measures the layers. Ends with `done` and `usage`.
    #[napi(catch_unwind)]
    pub fn workspace_usage(&self, id: u32) -> Result<()> {
        self.on_workspace(id, |workspace| {
            let found = workspace.usage()?;
            let usage =
                NativeUsage { bytes: found.bytes as f64, files: found.files as f64, layers: found.layers as f64 };
            Ok(NativeEvent { usage: Some(usage), ..NativeEvent::default() })
        })
    }
}

impl NativeSandbox {
    /// Asks the keeper of the workspace, on a thread that may block.
    fn on_workspace(&self, id: u32, ask: impl FnOnce(&Workspace) -> Answer + Send + 'static) -> Result<()> {
        let sandbox = self.sandbox.clone();
        self.answer(id, blocking(move || ask(&*sandbox.workspace()?)))
    }

    /// Makes a comparison, which stops when the call is abandoned, on a thread that may block.
    fn compare(&self, id: u32, ask: impl FnOnce(&Workspace, &Stop) -> Answer + Send + 'static) -> Result<()> {
        let (sandbox, wait) = (self.sandbox.clone(), self.waits.open(id));
        self.answer(id, async move {
            let (workspace, stop) = (sandbox.workspace()?, Stop::default());
            let compared = wait.run({
                let (workspace, stop) = (Arc::clone(&workspace), stop.clone());
                blocking(move || ask(&workspace, &stop))
            });
            compared.await.unwrap_or_else(|| {
                workspace.stop(&stop);
                Ok(NativeEvent::default())
            })
        })
    }

    fn answer(&self, id: u32, answer: impl Future<Output = Answer> + Send + 'static) -> Result<()> {
        let settle = Settle::new(id, &self.emitter);
        Ok(runtime::spawn(async move { settle.answer(answer.await) })?)
    }
}

fn when_busy(rejects: bool) -> WhenBusy {
    if rejects { WhenBusy::Reject } else { WhenBusy::Copy }
}

fn kept(Point { number, name, created_at, sessions, command: _ }: Point) -> NativePoint {
    NativePoint { number: number as f64, name, created_at: created_at as f64, sessions }
}

fn named(Named { id, path, in_use, used_at }: Named) -> NativeNamed {
    let path = path.map(|path| path.to_string_lossy().into_owned());
    NativeNamed { name: id, path, in_use, used_at: used_at as f64 }
}

fn copied(paths: Option<Vec<Uint8Array>>) -> Option<Vec<Vec<u8>>> {
    paths.map(|paths| paths.iter().map(|path| path.to_vec()).collect())
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
