//! Files and their changes.

use crate::piece::Piece;
use napi::bindgen_prelude::{Buffer, Uint8Array};
use napi_derive::napi;
use std::collections::HashMap;

/// A file.
#[napi(object, object_from_js = false)]
pub struct NativeFile {
    /// The path as given, or joined to the given path.
    pub path: String,
    /// The path as bytes, if it is not UTF-8.
    pub path_bytes: Option<Buffer>,
    /// Its kind.
    #[napi(ts_type = "'file' | 'directory' | 'symlink' | 'other'")]
    pub kind: String,
    /// Bytes.
    pub size: f64,
    /// Permission bits.
    pub mode: u32,
    /// The user that owns it.
    pub uid: u32,
    /// The group that owns it.
    pub gid: u32,
    /// Milliseconds since the epoch.
    pub modified: f64,
    /// The target of a symlink.
    pub target: Option<String>,
    /// For an opened file: changes when the path names another file, or the file's content changes.
    pub version: Option<String>,
}

/// A change below a watched path.
#[napi(object, object_from_js = false)]
pub struct NativeFileChange {
    /// Its kind.
    #[napi(ts_type = "'created' | 'modified' | 'deleted' | 'renamed' | 'overflow'")]
    pub kind: String,
    /// The path, or the new one.
    pub path: String,
    /// The path, if it is not UTF-8.
    pub path_bytes: Option<Buffer>,
    /// The path before a rename.
    pub old_path: Option<String>,
    /// The path before a rename, if it is not UTF-8.
    pub old_path_bytes: Option<Buffer>,
}

/// A call that changes files and returns nothing.
#[napi(object)]
pub struct NativeFileAction {
    /// Its kind.
    #[napi(ts_type = "'mkdir' | 'chmod' | 'rename' | 'copy' | 'remove'")]
    pub kind: String,
    /// The file.
    pub path: Uint8Array,
    /// For `chmod`: the permissions.
    pub mode: Option<u32>,
    /// For `rename` and `copy`.
    pub to: Option<Uint8Array>,
    /// For `copy` and `remove`.
    pub recursive: bool,
    /// A root that the path cannot leave; not for `rename` and `copy`.
    pub root: Option<String>,
}

/// What to read when a file is opened.
#[napi(object)]
pub struct NativeFileRead {
    /// The file.
    pub path: Uint8Array,
    /// The first byte.
    pub position: f64,
    /// Bytes.
    pub length: u32,
    /// A larger file is refused.
    pub max_size: Option<f64>,
    /// A root that the path cannot leave.
    pub root: Option<String>,
}

/// How to write a file.
#[napi(object)]
pub struct NativeFileWrite {
    /// The file.
    pub path: Uint8Array,
    /// Its permissions.
    pub mode: Option<u32>,
    /// Whether to append.
    pub append: bool,
    /// Extended attributes of the new file, by their names. Not with `append`.
    pub attributes: Option<HashMap<String, String>>,
    /// A root that the path cannot leave.
    pub root: Option<String>,
}

/// The beginning of a list.
#[napi(object, object_from_js = false)]
pub struct NativeFileList {
    /// The first files.
    pub files: Vec<NativeFile>,
    /// For fileListNext; absent if these are all.
    pub handle: Option<u32>,
}

/// A file that was opened for reading.
#[napi(object, object_from_js = false)]
pub struct NativeOpenFile {
    /// The file.
    pub file: NativeFile,
    /// Its first bytes.
    #[napi(ts_type = "Buffer")]
    pub data: Piece,
    /// For fileReadAt; absent if these are all.
    pub handle: Option<u32>,
}
