//! Conversions of files and changes to JavaScript.

use crate::types::{NativeFile, NativeFileChange};
use nacre_containment::lock::Lock;
use nacre_core::files::{FileChange, Kind, Placed, Seen};
use napi::bindgen_prelude::Buffer;

/// Maximum files of a list in one event: a longer list would stall the event loop.
pub const LIST_BATCH: usize = 500;

/// The next files of a list, few enough not to stall the event loop.
pub fn batch(rest: &Lock<std::vec::IntoIter<Placed>>) -> Vec<NativeFile> {
    rest.lock().by_ref().take(LIST_BATCH).map(file).collect()
}

/// Converts a file.
pub fn file(placed: Placed) -> NativeFile {
    let (seconds, nanoseconds) = placed.info.modified;
    let is_text = std::str::from_utf8(&placed.path).is_ok();
    NativeFile {
        path: placed.shown(),
        kind: match placed.info.kind {
            Kind::File => "file",
            Kind::Directory => "directory",
            Kind::Symlink => "symlink",
            Kind::Fifo | Kind::Socket | Kind::Device => "other",
        }
        .into(),
        size: placed.info.size as f64,
        mode: placed.info.mode,
        uid: placed.info.uid,
        gid: placed.info.gid,
        modified: seconds as f64 * 1000.0 + f64::from(nanoseconds) / 1e6,
        target: placed.info.target.map(|target| String::from_utf8_lossy(&target).into_owned()),
        version: None,
        path_bytes: (!is_text).then(|| Buffer::from(placed.path)),
    }
}

/// Converts a change.
pub fn change(seen: Seen) -> NativeFileChange {
    let text = |path: &Vec<u8>| String::from_utf8_lossy(path).into_owned();
    let bytes = |path: Vec<u8>| std::str::from_utf8(&path).is_err().then(|| Buffer::from(path));
    NativeFileChange {
        kind: match seen.change {
            FileChange::Created => "created",
            FileChange::Modified => "modified",
            FileChange::Deleted => "deleted",
            FileChange::Renamed => "renamed",
            FileChange::Overflow => "overflow",
        }
        .into(),
        path: text(&seen.path),
        old_path: seen.old_path.as_ref().map(text),
        path_bytes: bytes(seen.path),
        old_path_bytes: seen.old_path.and_then(bytes),
    }
}
