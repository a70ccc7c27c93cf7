//! Copies a whole layer, with the kernel's marks in it.

use crate::metadata::Metadata;
use crate::staging::Source;
use crate::tree::{Tree, file_type, has_other_names, join, names, split, status};
use crate::walk::Walk;
use rustix::fs::{AtFlags, FileType, linkat};
use rustix::io::{Errno, Result};
use std::collections::HashMap;
use std::os::fd::OwnedFd;

/// Copies everything below the root of a layer to an empty one, and what the root itself has.
///
/// # Errors
/// Those of the system calls.
pub fn duplicate(from: &Tree, to: &Tree, interrupt: &dyn Fn() -> Result<()>) -> Result<()> {
    let (sources, targets) = (Walk::new(from), Walk::new(to));
    // Files with several names, by inode number: the path of their copy.
    let mut linked: HashMap<u64, Vec<u8>> = HashMap::new();
    // Copying into a directory needs the right to write there, and changes its times. So these are applied at the end.
    let mut directories = Directories::default();
    let root = sources.directory(b"")?.ok_or(Errno::STALE)?;
    let mut pending = vec![directories.add(None, Vec::new(), Metadata::with_marks(&root, b".")?)];
    while let Some(number) = pending.pop() {
        interrupt()?;
        let path = directories.path_of(number);
        let source = sources.directory(&path)?.ok_or(Errno::STALE)?;
        let target = targets.directory(&path)?.ok_or(Errno::STALE)?;
        for name in names(&source)? {
            let found = status(Some(&source), &name)?.ok_or(Errno::STALE)?;
            match linked.get(&found.st_ino).filter(|_| has_other_names(&found)) {
                Some(other) => link(&targets, other, &target, &name)?,
                None => {
                    let metadata = Metadata::with_marks(&source, &name)?;
                    let entry = Source { directory: &source, name: &name, content: None, interrupt };
                    entry.copy_with(metadata.clone(), &target, &name)?;
                    if file_type(&found) == FileType::Directory {
                        pending.push(directories.add(Some(number), name, metadata));
                    } else if has_other_names(&found) {
                        linked.insert(found.st_ino, join(&path, &name));
                    }
                }
            }
        }
    }
    directories.finish(&targets, interrupt)
}

/// The directories of a new layer, and what they are to have at the end. Each is after the one that it is in.
#[derive(Default)]
pub struct Directories(Vec<DuplicatedDirectory>);

struct DuplicatedDirectory {
    parent: Option<usize>,
    name: Vec<u8>,
    metadata: Metadata,
}

impl Directories {
    /// Adds a directory, and returns its number. The first one is the root: it has no parent, and an empty name.
    pub fn add(&mut self, parent: Option<usize>, name: Vec<u8>, metadata: Metadata) -> usize {
        self.0.push(DuplicatedDirectory { parent, name, metadata });
        self.next() - 1
    }

    /// The number of the next one.
    pub fn next(&self) -> usize {
        self.0.len()
    }

    /// The path of a directory. It is not kept: the paths of a deep tree would take much memory.
    pub fn path_of(&self, number: usize) -> Vec<u8> {
        self.path_below(0, number)
    }

    /// The path of a directory from one above it.
    pub fn path_below(&self, above: usize, mut number: usize) -> Vec<u8> {
        let mut names = Vec::new();
        while number != above
            && let Some(DuplicatedDirectory { parent: Some(parent), name, .. }) = self.0.get(number)
        {
            names.push(&name[..]);
            number = *parent;
        }
        names.reverse();
        names.join(&b'/')
    }

    /// Gives them what they are to have.
    ///
    /// # Errors
    /// Those of the system calls.
    pub fn finish(mut self, targets: &Walk<'_>, interrupt: &dyn Fn() -> Result<()>) -> Result<()> {
        while let Some(number) = self.next().checked_sub(1) {
            interrupt()?;
            let directory = targets.directory(&self.path_of(number))?.ok_or(Errno::STALE)?;
            let Some(DuplicatedDirectory { metadata, .. }) = self.0.pop() else { break };
            if !metadata.apply(&directory, b".", None)? {
                return Err(Errno::STALE);
            }
        }
        Ok(())
    }
}

fn link(targets: &Walk<'_>, other: &[u8], target: &OwnedFd, name: &[u8]) -> Result<()> {
    let (parent, other) = split(other);
    let parent = targets.directory(parent)?.ok_or(Errno::STALE)?;
    linkat(&parent, other, target, name, AtFlags::empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layers::{self, Layers};
    use crate::testing::{self, differing, open, snapshot, write};
    use std::fs;
    use std::os::fd::AsFd;
    use std::os::unix::fs::MetadataExt;
    use std::process::Command;

    fn readable(path: &std::path::Path) -> std::os::fd::OwnedFd {
        rustix::fs::open(path, rustix::fs::OFlags::RDONLY, rustix::fs::Mode::empty()).unwrap()
    }

    const EVERYTHING: &str = r#"set -e
        echo changed > a; rm gone; chmod 4711 old/b; mkdir -p new/empty; echo new > new/file; ln new/file "$(printf 'new/s\nme')"
        ln -s nowhere new/link; mkfifo new/fifo; truncate -s 5M new/sparse; printf x >> new/sparse
        rm -r old/deep; mkdir old/deep; echo other > old/deep/d; mkdir locked; touch locked/file; chmod 555 locked
        mv moved away || true; chmod 000 a; chmod 1750 .; touch -d @1 new/file new/empty"#;

    #[test]
    fn a_copy_of_a_layer_shows_the_same() {
        testing::in_namespaces("duplicate::tests::a_copy_of_a_layer_shows_the_same", |workspace| {
            let at = |name: &str| workspace.path().join(name);
            for directory in ["old/deep", "moved/inner"] {
                fs::create_dir_all(at(directory)).unwrap();
            }
            for name in ["a", "gone", "old/b", "old/deep/c", "moved/inner/e"] {
                write(at(name), name);
            }
            fs::create_dir(workspace.directory.path().join("place")).unwrap();
            let (place, base) = (readable(&workspace.directory.path().join("place")), open(&workspace.path()));
            let store = Layers::at(place.try_clone().unwrap()).unwrap();
            let first = store.create(&base).unwrap();
            let merged = workspace.mount_stack(&place, &[first], &base);
            let changed = Command::new("sh").args(["-c", EVERYTHING]).current_dir(workspace.path()).status().unwrap();
            assert!(changed.success());
            let before = snapshot(&merged);
            assert!(before.len() > 12);
            let copy = store.duplicate(first, &|| Ok(())).unwrap();
            // The next writes change only the original.
            write(at("new/file"), "later");
            write(at("later"), "");
            drop(merged);
            workspace.unmount();
            let below = layers::top(&place, &[copy], &Tree::new(base.try_clone().unwrap())).unwrap();
            let top = store.create(&below);
            let merged = workspace.mount_stack(&place, &[copy, top.unwrap()], &base);
            assert_eq!(differing(&before, &snapshot(&merged)), [""; 0]);
            let (one, two) = (fs::metadata(at("new/file")).unwrap(), fs::metadata(at("new/s\nme")).unwrap());
            assert_eq!((one.ino(), one.nlink()), (two.ino(), 2));
            let sparse = fs::metadata(at("new/sparse")).unwrap();
            assert!(sparse.len() > 5 << 20 && sparse.blocks() * 512 < 1 << 20);
            let root = rustix::fs::fstat(merged.as_fd()).unwrap();
            assert_eq!(root.st_mode & 0o7777, 0o1750);
        });
    }

    #[test]
    fn a_copy_that_is_interrupted_leaves_nothing() {
        testing::in_namespaces("duplicate::tests::a_copy_that_is_interrupted_leaves_nothing", |workspace| {
            let (place, base) = (readable(workspace.directory.path()), open(&workspace.path()));
            let store = Layers::at(place.try_clone().unwrap()).unwrap();
            let first = store.create(&base).unwrap();
            let upper = workspace.directory.path().join(format!("layer-{first}/upper"));
            fs::create_dir_all(upper.join("x/y")).unwrap();
            let left = std::cell::Cell::new(2);
            let interrupt = || match left.replace(left.get() - 1) {
                0 => Err(rustix::io::Errno::CANCELED),
                _ => Ok(()),
            };
            assert_eq!(store.duplicate(first, &interrupt), Err(rustix::io::Errno::CANCELED));
            let names: Vec<_> =
                fs::read_dir(workspace.directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            assert_eq!(names.iter().filter(|name| name.to_string_lossy().starts_with("layer-")).count(), 1);
        });
    }
}
