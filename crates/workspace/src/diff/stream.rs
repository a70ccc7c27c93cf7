//! The changes of a workspace as `git fast-import` reads them: whole files, links and deletions.

use super::{Version, is_refused, quoted, version};
use crate::Tree;
use crate::failure::{Failure, errno_of, while_doing};
use crate::walk::Walk;
use nacre_protocol::workspace::{ChangedEntry, Kind, WorkspaceChange};
use rustix::io::Result as SystemResult;
use std::io::Write;

/// Writes what these paths are now, below `prefix` in the repository. A path with a component `.git` is omitted, as in a patch.
/// `interrupt` fails once the caller has gone.
///
/// # Errors
/// As for [`super::write`].
pub fn stream(
    merged: &Tree,
    changes: &[WorkspaceChange],
    prefix: &[u8],
    interrupt: &dyn Fn() -> SystemResult<()>,
    mut out: impl Write,
) -> Result<(), Failure> {
    let merged = Walk::new(merged);
    let failed = |error: std::io::Error| while_doing("write the changes for git")(errno_of(&error));
    let is_directory = |entry: Option<ChangedEntry>| entry.is_some_and(|entry| entry.kind == Kind::Directory);
    for WorkspaceChange { path, before, now, .. } in changes.iter().filter(|change| !is_refused(&change.path)) {
        interrupt().map_err(while_doing("write the changes for git"))?;
        let name = quoted(b"", &[prefix, path].concat());
        // What is of another kind now is not merged with what was there.
        if before.is_some() && !(is_directory(*before) && is_directory(*now)) {
            out.write_all(&[b"D ", &name[..], b"\n"].concat()).map_err(failed)?;
        }
        let Some(now) = version(&merged, path)? else { continue };
        put(&mut out, &name, &now, path, failed)?;
    }
    // Without it, git takes the stream for a part of one.
    out.write_all(b"done\n").and_then(|()| out.flush()).map_err(failed)
}

fn put(
    out: &mut impl Write,
    name: &[u8],
    now: &Version,
    path: &[u8],
    failed: impl Fn(std::io::Error) -> Failure,
) -> Result<(), Failure> {
    let head = [b"M ", now.mode().as_bytes(), b" inline ", name].concat();
    out.write_all(&head).map_err(&failed)?;
    write!(out, "\ndata {}\n", now.size()).map_err(&failed)?;
    now.read(path, |block| out.write_all(block).map_err(&failed))?;
    out.write_all(b"\n").map_err(&failed)
}
