//! Which paths of a workspace a call is about: each chosen path, and everything below it.

use crate::changes::Sides;
use crate::tree::split;
use nacre_protocol::workspace::{Change, Entry, Kind};
use rustix::io::Result;
use std::collections::{BTreeMap, HashSet};

/// See the module. Paths are relative to the workspace; `.` is the workspace itself.
#[derive(Clone, Debug)]
pub struct Selection(Option<Vec<Vec<u8>>>);

impl Selection {
    /// Every path.
    pub fn all() -> Self {
        Self(None)
    }

    /// These paths and everything below them.
    pub fn of(paths: Vec<Vec<u8>>) -> Self {
        if paths.iter().any(|path| path == b".") { Self(None) } else { Self(Some(paths)) }
    }

    /// Whether a path is selected.
    pub fn includes(&self, path: &[u8]) -> bool {
        self.any(|chosen| is_within(path, chosen))
    }

    /// Whether a directory can hold selected paths: it is selected, or lies above one that is.
    pub fn reaches_into(&self, directory: &[u8]) -> bool {
        self.any(|chosen| is_within(directory, chosen) || is_within(chosen, directory))
    }

    fn any(&self, test: impl Fn(&[u8]) -> bool) -> bool {
        self.0.as_ref().is_none_or(|paths| paths.iter().any(|chosen| test(chosen)))
    }
}

/// The changes that a call applies: those at its paths and below, all by default, and the directories above that they
/// need. `wanted` tells of a change which entry the call wants, and which one is there. A path that names no change is
/// returned as the inner error.
///
/// # Errors
/// Those of the system calls.
pub fn choose(
    sides: &Sides<'_>,
    paths: Option<Vec<Vec<u8>>>,
    wanted: impl Fn(&Change) -> (Option<Entry>, Option<Entry>),
) -> Result<std::result::Result<Vec<Change>, Vec<u8>>> {
    let selection = paths.clone().map_or_else(Selection::all, Selection::of);
    let selected = sides.changes(&selection)?;
    let names_none = |path: &Vec<u8>| {
        let root = if path == b"." { &b""[..] } else { path };
        !selected.iter().any(|change| is_within(&change.path, root))
    };
    if let Some(path) = paths.into_iter().flatten().find(names_none) {
        return Ok(Err(path));
    }
    let is_directory = |entry: Option<Entry>| entry.is_some_and(|entry| entry.kind == Kind::Directory);
    let becomes_directory = |change: &Change| {
        let (wanted, present) = wanted(change);
        is_directory(wanted) && !is_directory(present)
    };
    let mut seen = HashSet::new();
    let mut above = Vec::new();
    for change in selected.iter().filter(|change| wanted(change).0.is_some()) {
        let mut parent = split(&change.path).0;
        while !parent.is_empty() && seen.insert(parent) {
            above.extend(sides.change(parent)?.filter(becomes_directory));
            parent = split(parent).0;
        }
    }
    let all: BTreeMap<_, _> = selected.into_iter().chain(above).map(|change| (change.path.clone(), change)).collect();
    Ok(Ok(all.into_values().collect()))
}

/// Whether a path is `root` or lies below it. The empty path is the workspace.
fn is_within(path: &[u8], root: &[u8]) -> bool {
    root.is_empty() || path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selection_has_its_paths_and_everything_below_them() {
        let some = Selection::of(vec![b"a/b".to_vec(), b"c".to_vec()]);
        for path in [&b"a/b"[..], b"a/b/x/y", b"c", b"c/d"] {
            assert!(some.includes(path) && some.reaches_into(path), "{path:?}");
        }
        for path in [&b"a"[..], b"a/bc", b"cc", b""] {
            assert!(!some.includes(path), "{path:?}");
        }
        assert!(some.reaches_into(b"a") && some.reaches_into(b""));
        assert!(!some.reaches_into(b"a/bc") && !some.reaches_into(b"b"));
    }

    #[test]
    fn the_workspace_itself_selects_everything() {
        for all in [Selection::all(), Selection::of(vec![b".".to_vec()])] {
            assert!(all.includes(b"a/b") && all.reaches_into(b""));
        }
    }
}
