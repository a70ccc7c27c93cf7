//! Which paths of a workspace a call is about: each chosen path, and everything below it.

use std::collections::BTreeSet;

/// See the module. Paths are relative to the workspace; `.` is the workspace itself.
#[derive(Clone, Debug)]
pub struct Selection(Option<BTreeSet<Vec<u8>>>);

impl Selection {
    /// Every path.
    pub fn all() -> Self {
        Self(None)
    }

    /// These paths and everything below them.
    pub fn of(paths: Vec<Vec<u8>>) -> Self {
        if paths.iter().any(|path| path == b".") { Self(None) } else { Self(Some(paths.into_iter().collect())) }
    }

    /// Whether a path is selected.
    pub fn includes(&self, path: &[u8]) -> bool {
        let Some(chosen) = &self.0 else { return true };
        let ends = (0..path.len()).filter(|at| path[*at] == b'/').chain([path.len()]);
        ends.map(|end| &path[..end]).any(|above| chosen.contains(above))
    }

    /// Whether a directory can hold selected paths: it is selected, or lies above one that is.
    pub fn reaches_into(&self, directory: &[u8]) -> bool {
        let Some(chosen) = &self.0 else { return true };
        let below = if directory.is_empty() { Vec::new() } else { [directory, b"/"].concat() };
        let is_above = chosen.range(below.clone()..).next().is_some_and(|path| path.starts_with(&below));
        is_above || self.includes(directory)
    }
}

/// Whether a path is `root` or lies below it. The empty path is the workspace.
pub fn is_within(path: &[u8], root: &[u8]) -> bool {
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
