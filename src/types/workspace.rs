//! A copy-on-write workspace.

use crate::piece::Piece;
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
}

/// A workspace whose layers are kept.
#[napi(object, object_from_js = false)]
pub struct NativeNamed {
    /// Its name.
    pub name: String,
    /// The real directory; absent if the note about it is damaged, or of another version.
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

/// An entry of a workspace.
#[napi(object, object_from_js = false)]
pub struct NativeEntry {
    /// Its kind.
    #[napi(ts_type = "'file' | 'directory' | 'symlink' | 'fifo' | 'socket' | 'device'")]
    pub kind: String,
    /// Bytes; 0 for a directory.
    pub size: f64,
    /// Permissions: 07777.
    pub mode: u32,
}

/// A changed path.
#[napi(object, object_from_js = false)]
pub struct NativeChange {
    /// Relative to the workspace.
    #[napi(ts_type = "Buffer")]
    pub path: Piece,
    /// What has happened to it.
    #[napi(ts_type = "'created' | 'modified' | 'deleted' | 'replaced' | 'metadata'")]
    pub difference: String,
    /// In the workspace; absent if it is deleted.
    pub now: Option<NativeEntry>,
    /// In the real directory; absent if it is created.
    pub before: Option<NativeEntry>,
    /// Why a commit leaves it out unless a path names it; absent if it does not.
    pub withheld: Option<String>,
}

/// What a commit has applied.
#[napi(object, object_from_js = false)]
pub struct NativeCommit {
    /// The number of changes.
    pub applied: f64,
    /// The changes that could not be applied.
    pub skipped: Vec<NativeSkipped>,
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

/// What the layers take.
#[napi(object, object_from_js = false)]
pub struct NativeUsage {
    /// Allocated bytes.
    pub bytes: f64,
    /// Files and directories.
    pub files: f64,
    /// Layers, with the one that receives the writes.
    pub layers: f64,
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

/// What a rollback has done.
#[napi(object, object_from_js = false)]
pub struct NativeRollback {
    /// The command before which the checkpoint was made, if it is an automatic one.
    pub command: Option<String>,
    /// The ids of background processes.
    pub ended_processes: Vec<String>,
    /// The ids of sessions.
    pub ended_sessions: Vec<String>,
    /// What shells had at the checkpoint and do not have now.
    pub missing: Vec<String>,
}
