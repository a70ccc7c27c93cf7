//! The layers of a workspace: directories `layer-N`, numbered in the order of their creation.
//!
//! Each contains `upper`, the layer itself. The one that receives the writes also has `work`, the kernel's directory for
//! it, and `mount`, over which it is mounted. All others are sealed: nothing changes in them. What they have beside `upper` is
//! left from before.
//!
//! A fork also uses layers of other stores: they are mounted in the directory `shared`, with the same numbers in all forks.
//! A fork locks each of them (flock(2)), and no process removes a layer that is locked.

use crate::duplicate;
use crate::metadata::Metadata;
use crate::overlay::{self, Mount, Mounter};
use crate::tree::{Tree, file_type, join, names, open_directory, status};
use crate::walk::Walk;
use nacre_containment::file_tree::{empty, remove_forced, unless};
use rustix::fs::{FileType, FlockOperation, Mode, flock, fstat, mkdirat};
use rustix::io::{Errno, Result};
use rustix::process::geteuid;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashSet};
use std::os::fd::{AsFd, OwnedFd};
use std::thread::JoinHandle;

const PREFIX: &[u8] = b"layer-";
const UPPER: &[u8] = b"upper";
const WORK: &[u8] = b"work";
const MOUNT: &[u8] = b"mount";
/// The directory with what belongs to other stores.
pub const SHARED: &[u8] = b"shared";

/// A layer, by its number.
pub type Number = u64;

/// Some layers of a mount: the oldest first.
pub type Stack = Vec<Number>;

/// The layers of a store.
pub struct Layers {
    place: OwnedFd,
    /// The last number. None is used again: the removal of a layer may still be running.
    last: Cell<Number>,
    /// The locks of layers that belong to other stores.
    shared: RefCell<BTreeMap<Number, OwnedFd>>,
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
        Ok(Self { place, last: Cell::new(last), shared: RefCell::default(), removals: RefCell::default() })
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

    /// These layers, with another one above them that receives the writes.
    ///
    /// # Errors
    /// Those of the system calls. Nothing is left then.
    pub fn above(&self, mut stack: Stack, base: &Tree, interrupt: &dyn Fn() -> Result<()>) -> Result<Stack> {
        let is_full = stack.len() >= overlay::MAX_LOWERS;
        let live = match stack.pop_if(|_| is_full) {
            // One more could not be mounted, so a copy of the uppermost one receives the writes.
            Some(top) => self.duplicate(top, interrupt)?,
            None => self.create(&top(&self.place, &stack, base)?)?,
        };
        stack.push(live);
        Ok(stack)
    }

    /// Creates an empty layer to be filled, which is sealed then. Without an entry of [`Layers::keep_only`], it is removed.
    ///
    /// # Errors
    /// Those of the system calls. Nothing is left then.
    pub fn begin(&self) -> Result<Number> {
        self.make(|directory| mkdirat(directory, UPPER, Mode::RWXU))
    }

    /// Makes a layer with the next number.
    fn make(&self, fill: impl FnOnce(&OwnedFd) -> Result<()>) -> Result<Number> {
        let number = self.last.get() + 1;
        self.last.set(number);
        mkdirat(&self.place, name(number), Mode::RWXU)?;
        let filled = open_directory(&self.place, &name(number)).and_then(|directory| fill(&directory));
        filled.map(|()| number).inspect_err(|_| {
            let _ = remove_forced(&self.place, &name(number));
        })
    }

    /// Locks layers that belong to other stores, and are mounted in [`SHARED`].
    ///
    /// # Errors
    /// Those of the system calls: `EAGAIN` and `ENOENT` if one is being removed.
    pub fn share(&self, layers: impl IntoIterator<Item = Number>) -> Result<()> {
        let mut shared = self.shared.borrow_mut();
        for layer in layers {
            let directory = directory(&self.place, layer)?;
            flock(&directory, FlockOperation::NonBlockingLockShared)?;
            // Otherwise it was removed just before.
            open_directory(&directory, UPPER)?;
            shared.insert(layer, directory);
            self.last.set(self.last.get().max(layer));
        }
        Ok(())
    }

    /// The layers that belong to other stores.
    pub fn shared(&self) -> Vec<Number> {
        self.shared.borrow().keys().copied().collect()
    }

    /// Unlocks all layers that belong to other stores.
    pub fn unshare(&self) {
        self.shared.borrow_mut().clear();
    }

    /// Removes every layer that is in none of these stacks, in the background, and unlocks those that belong to other stores.
    /// What fails, and what a fork uses, is left to the next call.
    ///
    /// # Errors
    /// Those of the system calls, if the layers cannot be listed.
    pub fn keep_only<'a>(&self, stacks: impl IntoIterator<Item = &'a Stack>) -> Result<()> {
        let kept: HashSet<Number> = stacks.into_iter().flatten().copied().collect();
        self.shared.borrow_mut().retain(|layer, _| kept.contains(layer));
        let unused: Vec<Number> = all(&self.place)?.into_iter().filter(|layer| !kept.contains(layer)).collect();
        if unused.is_empty() {
            return Ok(());
        }
        let place = open_directory(&self.place, b".")?;
        let removal = move || {
            for layer in unused {
                let _ = remove(&place, layer);
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

/// Removes a layer, unless a fork uses it. Returns whether it has done so.
fn remove(place: &OwnedFd, layer: Number) -> Result<bool> {
    let Some(_locked) = lock(place, layer)? else { return Ok(false) };
    remove_forced(place, &name(layer)).map(|()| true)
}

/// Locks a layer, so that no fork begins to use it. `None` if one uses it.
fn lock(place: &OwnedFd, layer: Number) -> Result<Option<OwnedFd>> {
    let directory = open_directory(place, &name(layer))?;
    match flock(&directory, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::AGAIN) => Ok(None),
        locked => locked.map(|()| Some(directory)),
    }
}

/// Whether a fork uses one of the layers in a directory.
///
/// # Errors
/// Those of the system calls.
pub fn are_shared(place: &OwnedFd) -> Result<bool> {
    for layer in all(place)? {
        if lock(place, layer)?.is_none() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Removes all layers in a directory, except those that forks use. Returns whether there are such layers.
///
/// # Errors
/// Those of the system calls.
pub fn remove_unused(place: &OwnedFd) -> Result<bool> {
    let mut are_shared = false;
    for layer in all(place)? {
        are_shared |= !remove(place, layer)?;
    }
    Ok(are_shared)
}

/// Whether there is a layer in a directory that no fork uses.
///
/// # Errors
/// Those of the system calls.
pub fn are_any_unused(place: &OwnedFd) -> Result<bool> {
    for layer in all(place)? {
        if lock(place, layer)?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
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

/// Whether nothing has been changed in the layer that receives the writes, except times of its root.
///
/// # Errors
/// Those of the system calls.
pub fn is_untouched(place: &OwnedFd, stack: &[Number], base: &Tree) -> Result<bool> {
    let (live, sealed) = stack.split_last().ok_or(Errno::INVAL)?;
    let upper = upper(place, *live)?;
    if !names(&upper)?.is_empty() {
        return Ok(false);
    }
    let (own, below) = (Metadata::of(&upper, b".")?, Metadata::of(&top(place, sealed, base)?, b".")?);
    // Without root, it was created with another owner, and keeps it.
    let below = if geteuid().is_root() { below } else { below.owned_like(&fstat(&upper)?) };
    Ok(own.without_times() == below.without_times())
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
        unless(&[Errno::EXIST], mkdirat(&directory, name, Mode::RWXU))?;
    }
    // What the kernel keeps there says that the layers may be torn. They are not, because the machine has not restarted.
    let work = open_directory(&directory, WORK)?;
    empty(&work)?;
    let upper = open_directory(&directory, UPPER)?;
    let layers = overlay::OverlayLayers {
        base: base.as_fd(),
        sealed: sealed.iter().map(AsFd::as_fd).collect(),
        upper: upper.as_fd(),
        work: work.as_fd(),
    };
    overlay::attach(&directory, MOUNT, &layers, mounter)
}

/// Mounts sealed layers over a directory of the place, only for reading.
///
/// # Errors
/// Those of [`overlay::attach_readable`].
pub fn mount_readable(
    place: &OwnedFd,
    stack: &[Number],
    base: &OwnedFd,
    mounter: Mounter,
    name: &[u8],
) -> Result<Mount> {
    let sealed = stack.iter().rev().map(|layer| upper(place, *layer)).collect::<Result<Vec<_>>>()?;
    let sealed: Vec<_> = sealed.iter().map(AsFd::as_fd).collect();
    unless(&[Errno::EXIST], mkdirat(place, name, Mode::RWXU))?;
    overlay::attach_readable(place, name, base.as_fd(), &sealed, mounter)
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

/// The name of the directory of a layer.
pub fn name(layer: Number) -> Vec<u8> {
    [PREFIX, layer.to_string().as_bytes()].concat()
}

/// The directory of a layer, of this or another store.
pub fn directory(place: &OwnedFd, layer: Number) -> Result<OwnedFd> {
    own_or_shared(place, &name(layer), |place, name| open_directory(place, name))
}

/// Opens something of this store; of another one if this one does not have it.
///
/// # Errors
/// Those of `open`.
pub fn own_or_shared(
    place: &OwnedFd,
    name: &[u8],
    open: impl Fn(&OwnedFd, &[u8]) -> Result<OwnedFd>,
) -> Result<OwnedFd> {
    match open(place, name) {
        Err(Errno::NOENT) => open(&open_directory(place, SHARED)?, name),
        opened => opened,
    }
}

fn upper(place: &OwnedFd, layer: Number) -> Result<OwnedFd> {
    open_directory(directory(place, layer)?, UPPER)
}

/// A layer as a tree.
///
/// # Errors
/// `ENOENT` if it is missing.
pub fn tree(place: &OwnedFd, layer: Number) -> Result<Tree> {
    upper(place, layer).map(Tree::new)
}
