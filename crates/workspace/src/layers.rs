//! The layers of a workspace: directories `layer-N`, numbered in the order of their creation.
//!
//! Each contains `upper`, the layer itself. The one that receives the writes also has `work`, the kernel's directory for
//! it, and `mount`, over which it is mounted. All others are sealed: nothing changes in them. What they have beside `upper` is
//! left from before.

use crate::duplicate;
use crate::metadata::Metadata;
use crate::overlay::{self, Mount, Mounter};
use crate::removal;
use crate::tree::{Tree, file_type, join, names, open_directory, status};
use crate::walk::Walk;
use rustix::fs::{FileType, Mode, mkdirat};
use rustix::io::{Errno, Result};
use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::os::fd::{AsFd, OwnedFd};
use std::thread::JoinHandle;

const PREFIX: &[u8] = b"layer-";
const UPPER: &[u8] = b"upper";
const WORK: &[u8] = b"work";
const MOUNT: &[u8] = b"mount";

/// A layer, by its number.
pub type Number = u64;

/// Some layers of a mount: the oldest first.
pub type Stack = Vec<Number>;

/// The layers of a store.
pub struct Layers {
    place: OwnedFd,
    /// The last number. None is used again: the removal of a layer may still be running.
    last: Cell<Number>,
    /// Threads that remove layers.
    removals: RefCell<Vec<JoinHandle<()>>>,
}

impl Layers {
    /// Those in a directory.
    ///
    /// # Errors
    /// Those of the system calls.
    pub fn at(place: OwnedFd) -> Result<Self> {
        let last = all(&place)?.into_iter().max().unwrap_or(0);
        Ok(Self { place, last: Cell::new(last), removals: RefCell::default() })
    }

    /// The directory.
    pub fn place(&self) -> &OwnedFd {
        &self.place
    }

    /// Creates an empty layer above `below`.
    ///
    /// # Errors
    /// Those of the system calls. Nothing is left then.
    pub fn create(&self, below: &OwnedFd) -> Result<Number> {
        self.make(|directory| create(directory, below))
    }

    /// Copies a layer into a sealed one.
    ///
    /// # Errors
    /// Those of the system calls. Nothing is left then.
    pub fn duplicate(&self, layer: Number, interrupt: &dyn Fn() -> Result<()>) -> Result<Number> {
        let from = tree(&self.place, layer)?;
        self.make(|directory| {
            mkdirat(directory, UPPER, Mode::RWXU)?;
            duplicate::duplicate(&from, &Tree::new(open_directory(directory, UPPER)?), interrupt)
        })
    }

    /// Makes a layer with the next number.
    fn make(&self, fill: impl FnOnce(&OwnedFd) -> Result<()>) -> Result<Number> {
        let number = self.last.get() + 1;
        self.last.set(number);
        mkdirat(&self.place, name(number), Mode::RWXU)?;
        let filled = open_directory(&self.place, &name(number)).and_then(|directory| fill(&directory));
        filled.map(|()| number).inspect_err(|_| {
            let _ = removal::remove(&self.place, &name(number));
        })
    }

    /// Removes every layer that is in none of these stacks, in the background. What fails is left to the next call.
    ///
    /// # Errors
    /// Those of the system calls, if the layers cannot be listed.
    pub fn keep_only<'a>(&self, stacks: impl IntoIterator<Item = &'a Stack>) -> Result<()> {
        let kept: HashSet<Number> = stacks.into_iter().flatten().copied().collect();
        let unused: Vec<Number> = all(&self.place)?.into_iter().filter(|layer| !kept.contains(layer)).collect();
        if unused.is_empty() {
            return Ok(());
        }
        let place = open_directory(&self.place, b".")?;
        let removal = move || {
            for layer in unused {
                let _ = removal::remove(&place, &name(layer));
            }
        };
        let mut removals = self.removals.borrow_mut();
        removals.retain(|removal| !removal.is_finished());
        removals.extend(std::thread::Builder::new().name("layers".into()).spawn(removal));
        Ok(())
    }

    /// Waits for the layers that are being removed: another removal would stumble over this one.
    pub fn settle(&self) {
        for removal in self.removals.take() {
            let _ = removal.join();
        }
    }
}

fn create(directory: &OwnedFd, below: &OwnedFd) -> Result<()> {
    mkdirat(directory, UPPER, Mode::RWXU)?;
    // The root of the mount is that of the upper layer.
    let metadata = Metadata::of(below, b".")?;
    match metadata.apply(directory, UPPER, None) {
        // Only root can give a file away.
        Err(Errno::PERM) => {
            let own = status(Some(directory), UPPER)?.ok_or(Errno::STALE)?;
            metadata.owned_like(&own).apply(directory, UPPER, None).map(drop)
        }
        applied => applied.map(drop),
    }
}

/// The root of the uppermost layer of a stack; of `base` for an empty one.
///
/// # Errors
/// Those of the system calls.
pub fn top(place: &OwnedFd, stack: &[Number], base: &Tree) -> Result<OwnedFd> {
    match stack.last() {
        Some(layer) => upper(place, *layer),
        None => base.directory(b"")?.ok_or(Errno::STALE),
    }
}

/// Mounts a stack in the directory of its last layer, which receives the writes.
///
/// # Errors
/// Those of [`overlay::attach`].
pub fn mount(place: &OwnedFd, stack: &[Number], base: &OwnedFd, mounter: Mounter) -> Result<Mount> {
    let (live, sealed) = stack.split_last().ok_or(Errno::INVAL)?;
    let sealed = sealed.iter().rev().map(|layer| upper(place, *layer)).collect::<Result<Vec<_>>>()?;
    let directory = open_directory(place, &name(*live))?;
    for name in [WORK, MOUNT] {
        match mkdirat(&directory, name, Mode::RWXU) {
            Err(Errno::EXIST) => {}
            made => made?,
        }
    }
    // What the kernel keeps there says that the layers may be torn. They are not, because the machine has not restarted.
    let work = open_directory(&directory, WORK)?;
    removal::empty(&work)?;
    let upper = open_directory(&directory, UPPER)?;
    let layers = overlay::Layers {
        base: base.as_fd(),
        sealed: sealed.iter().map(AsFd::as_fd).collect(),
        upper: upper.as_fd(),
        work: work.as_fd(),
    };
    overlay::attach(&directory, MOUNT, &layers, mounter)
}

/// The layers of a stack as trees; the one that receives the writes first.
///
/// # Errors
/// `ENOENT` if one is missing.
pub fn trees(place: &OwnedFd, stack: &[Number]) -> Result<Vec<Tree>> {
    stack.iter().rev().map(|layer| tree(place, *layer)).collect()
}

/// Whether one of them receives the writes of a mount, in any namespace.
pub fn are_in_use(place: &OwnedFd, stack: &[Number], mounter: Mounter) -> bool {
    let is_in_use = |layer: &Number| upper(place, *layer).is_ok_and(|upper| overlay::is_in_use(&upper, place, mounter));
    stack.iter().any(is_in_use)
}

/// What all layers take together.
pub struct Usage {
    /// Allocated bytes.
    pub bytes: u64,
    /// Entries. A file with several names counts once for each of them.
    pub files: u64,
    /// Layers.
    pub layers: u64,
}

/// Measures all layers. `interrupt` fails once the caller has gone.
///
/// # Errors
/// Those of the system calls.
pub fn usage(place: &OwnedFd, interrupt: &dyn Fn() -> Result<()>) -> Result<Usage> {
    let mut found = Usage { bytes: 0, files: 0, layers: 0 };
    let mut linked = HashSet::new();
    for layer in all(place)? {
        let tree = match tree(place, layer) {
            // It is being removed.
            Err(Errno::NOENT) => continue,
            tree => tree?,
        };
        found.layers += 1;
        let walk = Walk::new(&tree);
        let mut pending = vec![Vec::new()];
        while let Some(path) = pending.pop() {
            interrupt()?;
            let Some(directory) = walk.directory(&path)? else { continue };
            for name in names(&directory)? {
                let Some(entry) = status(Some(&directory), &name)? else { continue };
                found.files += 1;
                if entry.st_nlink == 1 || linked.insert(entry.st_ino) {
                    found.bytes += entry.st_blocks as u64 * 512;
                }
                if file_type(&entry) == FileType::Directory {
                    pending.push(join(&path, &name));
                }
            }
        }
    }
    Ok(found)
}

fn all(place: &OwnedFd) -> Result<Vec<Number>> {
    let number = |name: Vec<u8>| str::from_utf8(name.strip_prefix(PREFIX)?).ok()?.parse().ok();
    Ok(names(place)?.into_iter().filter_map(number).collect())
}

fn name(layer: Number) -> Vec<u8> {
    [PREFIX, layer.to_string().as_bytes()].concat()
}

fn upper(place: &OwnedFd, layer: Number) -> Result<OwnedFd> {
    open_directory(open_directory(place, &name(layer))?, UPPER)
}

fn tree(place: &OwnedFd, layer: Number) -> Result<Tree> {
    upper(place, layer).map(Tree::new)
}
