//! Opens the directories of a tree one after another, each from the nearest open one: a deep tree would take a time that
//! grows with the square of its depth.
//!
//! Directories that are moved meanwhile are followed, so this is only for reading.

use crate::tree::{Tree, if_directory};
use rustix::io::Result;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::os::fd::OwnedFd;

/// Bytes of a path between two directories that stay open. A name has at most 255.
const PIECE_BYTES: usize = 512;
/// Maximum directories that stay open.
const MAX_OPEN: usize = 16;

/// See the module.
pub struct Walk<'a> {
    tree: &'a Tree,
    last: RefCell<Last>,
}

/// Where a walk is.
#[derive(Default)]
struct Last {
    path: Vec<u8>,
    /// Directories above `path`, each with the bytes of its own path; the deepest one last.
    open: VecDeque<(usize, OwnedFd)>,
}

impl<'a> Walk<'a> {
    /// A walk through a tree.
    pub fn new(tree: &'a Tree) -> Self {
        Self { tree, last: RefCell::default() }
    }

    /// Opens a directory. See [`Tree::directory`].
    ///
    /// # Errors
    /// As for [`Tree::directory`].
    pub fn directory(&self, path: &[u8]) -> Result<Option<OwnedFd>> {
        if_directory(self.open(path))
    }

    /// Opens a directory. See [`Tree::open`].
    ///
    /// # Errors
    /// As for [`Tree::open`].
    pub fn open(&self, path: &[u8]) -> Result<OwnedFd> {
        let Last { path: last, open } = &mut *self.last.borrow_mut();
        let is_above = |end: usize| path.get(end) == Some(&b'/') && last.get(..end) == path.get(..end);
        while open.back().is_some_and(|(end, _)| !is_above(*end)) {
            open.pop_back();
        }
        path.clone_into(last);
        let mut from = open.back().map_or(0, |(end, _)| end + 1);
        while path.len() - from > PIECE_BYTES {
            let Some(at) = path[from..from + PIECE_BYTES].iter().rposition(|byte| *byte == b'/') else { break };
            let opened = self.open_below(open, &path[from..from + at])?;
            open.push_back((from + at, opened));
            if open.len() > MAX_OPEN {
                open.pop_front();
            }
            from += at + 1;
        }
        self.open_below(open, &path[from..])
    }

    fn open_below(&self, open: &VecDeque<(usize, OwnedFd)>, path: &[u8]) -> Result<OwnedFd> {
        self.tree.open(open.back().map(|(_, directory)| directory), path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;
    use rustix::fs::{Mode, OFlags, fstat, mkdirat, openat};

    #[test]
    fn every_order_opens_the_same_directories() {
        let place = tempfile::tempdir().unwrap();
        let open = || rustix::fs::open(place.path(), OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
        let mut paths = vec![String::new()];
        for branch in ["a", "b"] {
            let (mut deepest, mut path) = (open(), String::new());
            for depth in 0..800 {
                let name = if depth % 50 == 7 { branch.repeat(255) } else { branch.repeat(1 + depth % 9) };
                path = if path.is_empty() { name.clone() } else { format!("{path}/{name}") };
                mkdirat(&deepest, &name, Mode::RWXU).unwrap();
                deepest = openat(&deepest, &name, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
                paths.push(path.clone());
            }
        }
        let tree = Tree::new(open());
        let walk = Walk::new(&tree);
        let inode = |directory: Option<OwnedFd>| directory.map(|directory| fstat(&directory).unwrap().st_ino);
        let mut random = Random(7);
        let shuffled: Vec<&String> = (0..2000).map(|_| &paths[random.below(paths.len())]).collect();
        for path in paths.iter().chain(paths.iter().rev()).chain(shuffled) {
            let expected = inode(tree.directory(path.as_bytes()).unwrap());
            assert_eq!(inode(walk.directory(path.as_bytes()).unwrap()), expected);
            assert!(walk.last.borrow().open.len() <= MAX_OPEN);
            let missing = format!("{path}/missing/directory");
            assert!(walk.directory(missing.trim_start_matches('/').as_bytes()).unwrap().is_none());
        }
    }
}
