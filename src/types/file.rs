//! Files and their changes.

use napi::bindgen_prelude::{Buffer, Uint8Array};
use napi_derive::napi;

/// A file.
#[napi(object, object_from_js = false)]
pub struct NativeFile {
    /// As given, or joined to what was given.
    pub path: String,
    /// The same as bytes, when it is not UTF-8.
    pub path_bytes: Option<Buffer>,
    /// `file`, `directory`, `symlink` or `other`.
    pub kind: String,
    /// Bytes.
    pub size: f64,
    /// Permission bits.
    pub mode: u32,
    /// Milliseconds since the epoch.
    pub modified: f64,
    /// What a symlink points at.
    pub target: Option<String>,
    /// Of a file that is read: what differs when the path has another file, or the file another content.
    pub version: Option<String>,
}

/// A change below a watched path.
#[napi(object, object_from_js = false)]
pub struct NativeFileChange {
    /// `created`, `modified`, `deleted`, `renamed` or `overflow`.
    pub kind: String,
    /// The path, or the new one.
    pub path: String,
    /// The path before a rename.
    pub old_path: Option<String>,
}

/// A call that changes files and gives nothing.
#[napi(object)]
pub struct NativeFileAction {
    /// `mkdir`, `rename`, `copy` or `remove`.
    pub kind: String,
    /// The file.
    pub path: Uint8Array,
    /// Of `rename` and `copy`.
    pub to: Option<Uint8Array>,
    /// Of `copy` and `remove`.
    pub recursive: bool,
    /// A root that the path does not leave; not of `rename` and `copy`.
    pub root: Option<String>,
}

/// What is read of a file when it is opened.
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
    /// A root that the path does not leave.
    pub root: Option<String>,
}

/// How a file is written.
#[napi(object)]
pub struct NativeFileWrite {
    /// The file.
    pub path: Uint8Array,
    /// Its permissions.
    pub mode: Option<u32>,
    /// Adds to it.
    pub append: bool,
    /// A root that the path does not leave.
    pub root: Option<String>,
}
