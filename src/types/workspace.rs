//! A copy-on-write workspace.

use crate::piece::Piece;
use napi::bindgen_prelude::{Float64Array, Uint8Array};
use napi_derive::napi;

/// A copy-on-write workspace.
#[napi(object)]
pub struct NativeWorkspaceConfig {
    /// The directory: absolute, without links.
    pub path: String,
    /// Its name, if its layers are kept.
    pub id: Option<String>,
    /// The directory of the layers, if not the default one; absolute.
    pub directory: Option<String>,
    /// Whether the layers are in memory.
    pub memory: bool,
    /// Maximum bytes of the layers in memory.
    pub max_bytes: Option<f64>,
    /// How many automatic checkpoints to keep.
    pub undo_steps: u32,
    /// Whether mounts below the directory are there as they are.
    pub passes_mounts: bool,
}

/// A workspace whose layers are kept, or a sandbox that is kept.
#[napi(object, object_from_js = false)]
pub struct NativeNamed {
    /// Its name.
    pub name: String,
    /// The real directory; absent for a sandbox, and if the note about it is damaged, or of another version.
    pub path: Option<String>,
    /// Whether a sandbox has it open.
    pub in_use: bool,
    /// When it was last used, in seconds since 1970.
    pub used_at: f64,
}

/// What copy-on-write workspaces can do on this machine.
#[napi(object, object_from_js = false)]
pub struct NativeWorkspaceOffer {
    /// Whether they work.
    pub copy_on_write: bool,
    /// Whether programs can rename real directories.
    pub directory_rename: bool,
    /// Whether large files are copied without their content.
    pub reflink: bool,
    /// One sentence for each gap.
    pub notes: Vec<String>,
}

/// Changed paths, in columns: an object of each, made at once, would stall the event loop.
#[napi(object, object_from_js = false)]
pub struct NativeChanges {
    /// Relative to the workspace, with a NUL after each.
    #[napi(ts_type = "Buffer")]
    pub paths: Piece,
    /// Three letters of each: what has happened to it (`c`reated, `m`odified, `d`eleted, `r`eplaced, metad`a`ta), what it is in
    /// the workspace, and in the real directory (`f`ile, `d`irectory, sym`l`ink, f`i`fo, `s`ocket, de`v`ice, or `-` for nothing).
    #[napi(ts_type = "Buffer")]
    pub kinds: Piece,
    /// Four numbers of each: bytes and permissions in the workspace, then in the real directory.
    pub numbers: Float64Array,
    /// The changes that a commit leaves out unless a path names them.
    pub withheld: Vec<NativeWithheld>,
}

/// A change that a commit leaves out.
#[napi(object, object_from_js = false)]
pub struct NativeWithheld {
    /// Its index.
    pub index: u32,
    /// Why, in one clause.
    pub reason: String,
}

/// The command that has last written a path.
#[napi(object, object_from_js = false)]
pub struct NativeBlame {
    /// The command, or its start.
    pub command: String,
    /// The sessions that ran it.
    pub sessions: Vec<String>,
    /// When it began, in milliseconds since 1970.
    pub started_at: f64,
    /// What it has done to the path.
    #[napi(ts_type = "'created' | 'modified' | 'deleted' | 'replaced'")]
    pub kind: &'static str,
    /// How many steps back it is.
    pub steps: u32,
}

/// Some hunks of a changed file.
#[napi(object, object_to_js = false)]
pub struct NativeHunkChoice {
    /// Relative to the workspace.
    pub path: Uint8Array,
    /// The ids of the hunks.
    pub ids: Vec<String>,
}

/// Changed paths, and what a person needs to review them.
#[napi(object, object_from_js = false)]
pub struct NativeReview {
    /// The paths.
    pub changes: NativeChanges,
    /// What belongs to each of them.
    pub reviewed: Vec<NativeReviewed>,
}

/// What a person needs to review a change.
#[napi(object, object_from_js = false)]
pub struct NativeReviewed {
    /// The group.
    #[napi(ts_type = "'source' | 'generated' | 'runsLater' | 'large' | 'binary'")]
    pub group: &'static str,
    /// Why it is in the group, in one clause.
    pub reason: Option<String>,
    /// The lines that it adds.
    pub added: f64,
    /// The lines that it removes.
    pub removed: f64,
    /// The differences.
    pub hunks: Vec<NativeHunk>,
    /// Why there are none.
    #[napi(ts_type = "'kind' | 'large' | 'binary' | 'generated' | 'maxBytes'")]
    pub without: Option<&'static str>,
}

/// Lines that differ.
#[napi(object, object_from_js = false)]
pub struct NativeHunk {
    /// Names these lines at this place of this file.
    pub id: String,
    /// The first line in the real directory, how many there are, and the same in the workspace.
    pub lines: Vec<u32>,
    /// How many lines it adds.
    pub added: u32,
    /// How many lines it removes.
    pub removed: u32,
    /// As a patch has it.
    #[napi(ts_type = "Buffer")]
    pub text: Piece,
}

/// What a commit has applied.
#[napi(object, object_from_js = false)]
pub struct NativeCommit {
    /// The number of changes.
    pub applied: f64,
    /// The changes that could not be applied.
    pub skipped: Vec<NativeSkipped>,
    /// The id of the commit of git, for a branch.
    pub id: Option<String>,
}

/// A change that a commit could not apply.
#[napi(object, object_from_js = false)]
pub struct NativeSkipped {
    /// Relative to the workspace.
    #[napi(ts_type = "Buffer")]
    pub path: Piece,
    /// Why, in one clause.
    pub reason: String,
}

/// What two sides of a merge have made of one path that does not go together.
#[napi(object, object_from_js = false)]
pub struct NativeMergeConflict {
    /// Relative to the workspace.
    #[napi(ts_type = "Buffer")]
    pub path: Piece,
    /// Why.
    #[napi(ts_type = "'content' | 'binary' | 'mode' | 'deleted' | 'kind' | 'target'")]
    pub reason: &'static str,
    /// The numbers of the sides.
    pub sides: Vec<u32>,
    /// Where the lines differ.
    pub hunks: Vec<NativeConflictHunk>,
}

/// What a merge has made.
#[napi(object, object_from_js = false)]
pub struct NativeMerged {
    /// What does not go together.
    pub conflicts: Vec<NativeMergeConflict>,
    /// What programs have to merge, one after the other.
    pub pending: Vec<NativeDriverRun>,
    /// The root of the workspace.
    pub directory: String,
}

/// A merge driver that has to run. Its files are in the root of the workspace.
#[napi(object, object_from_js = false)]
pub struct NativeDriverRun {
    /// The file that is merged, relative to the workspace.
    #[napi(ts_type = "Buffer")]
    pub path: Piece,
    /// The numbers of the sides.
    pub sides: Vec<u32>,
    /// The name of the driver.
    pub driver: String,
    /// What a shell runs.
    #[napi(ts_type = "Buffer")]
    pub command: Piece,
    /// The name under which the command expects the file, and leaves the result.
    pub result: String,
    /// The names of the other versions.
    pub versions: Vec<String>,
}

/// Lines that two sides have changed.
#[napi(object, object_from_js = false)]
pub struct NativeConflictHunk {
    /// Where it begins in the merged file, from 1.
    pub line: u32,
    /// The lines of the sides before.
    #[napi(ts_type = "Buffer")]
    pub ours: Piece,
    /// The lines of the last side.
    #[napi(ts_type = "Buffer")]
    pub theirs: Piece,
}

/// What the layers take.
#[napi(object, object_from_js = false)]
pub struct NativeUsage {
    /// Allocated bytes.
    pub bytes: f64,
    /// Files and directories.
    pub files: f64,
    /// Layers, with the one that receives the writes.
    pub layers: f64,
    /// The mounts below the directory that are there as they are.
    pub submounts: Vec<String>,
}

/// A checkpoint.
#[napi(object, object_from_js = false)]
pub struct NativePoint {
    /// Identifies it in its workspace.
    pub number: f64,
    /// A label.
    pub name: Option<String>,
    /// In milliseconds since 1970.
    pub created_at: f64,
    /// The ids of the sessions.
    pub sessions: Vec<String>,
}

/// A sandbox that was suspended.
#[napi(object, object_from_js = false)]
pub struct NativeSuspended {
    /// The bytes of the file.
    pub bytes: f64,
    /// How many files and directories it has.
    pub files: f64,
    /// The ids of sessions.
    pub sessions: Vec<String>,
    /// What it does not have.
    pub missing: Vec<String>,
}

/// What a sandbox has gone on with.
#[napi(object, object_from_js = false)]
pub struct NativeResumed {
    /// What the sandbox had and does not have now.
    pub missing: Vec<String>,
    /// The paths where the real directory differs.
    pub differences: Vec<String>,
}

/// What an archive says about itself.
#[napi(object, object_from_js = false)]
pub struct NativeArchive {
    /// Whether it has files of a workspace.
    pub has_files: bool,
}

/// What a rollback has done.
#[napi(object, object_from_js = false)]
pub struct NativeRollback {
    /// The checkpoint.
    pub point: NativePoint,
    /// The command before which the checkpoint was made, if it is an automatic one.
    pub command: Option<String>,
    /// The ids of background processes.
    pub ended_processes: Vec<String>,
    /// The ids of sessions.
    pub ended_sessions: Vec<String>,
    /// What shells had at the checkpoint and do not have now.
    pub missing: Vec<String>,
}
