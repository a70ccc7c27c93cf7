//! Another workspace with which this one was one workspace before, to bring in what it has changed since then.
//!
//! Its layers are mounted in a directory of this store, only for reading: with the real directory below, as its programs see
//! them, and without those that only it has: the base of the merge, which this workspace, or one that was brought in before, saw
//! as well.

use crate::failure::{Failure, while_doing};
use crate::fork::ForkOrigin;
use crate::layers::{self, Number};
use crate::overlay::{self, Mount, Mounter};
use crate::tree::{Tree, open_directory};
use nacre_containment::file_tree::{identity, unless};
use rustix::fs::{AtFlags, Mode, fstat, mkdirat, unlinkat};
use rustix::io::{Errno, Result};
use std::os::fd::OwnedFd;

/// The directory in the store.
const PLACE: &[u8] = b"sibling";
const SEEN: &[u8] = b"seen";
const BASE: &[u8] = b"base";

/// The layers of a side, given by their devices and inodes; the oldest first.
#[derive(Clone)]
pub struct Lineage(Vec<(u64, u64)>);

impl Lineage {
    /// That of a stack in this place.
    ///
    /// # Errors
    /// Those of the system calls.
    pub fn new(place: &OwnedFd, stack: &[Number]) -> Result<Self> {
        let of = |layer: &Number| Ok(identity(&fstat(layers::directory(place, *layer)?)?));
        stack.iter().map(of).collect::<Result<_>>().map(Self)
    }

    /// How many layers two sides have in common.
    pub fn common(&self, other: &Self) -> usize {
        self.0.iter().zip(&other.0).take_while(|(one, two)| one == two).count()
    }
}

/// See the module.
pub struct Sibling {
    /// What its programs see.
    pub seen: Tree,
    /// What it saw last together with another side.
    pub base: Tree,
    /// The layers that it has since then; the newest first.
    pub layers: Vec<Tree>,
    /// Which layers it has.
    pub lineage: Lineage,
    /// Unmounts them.
    _mounts: Mounts,
}

impl Sibling {
    /// Mounts what has travelled from another workspace. `others` are the sides so far, with this one. `None` if it has no layer in
    /// common with them.
    ///
    /// # Errors
    /// [`Failure::System`], also if it is a workspace of another directory.
    pub fn open(
        store: &OwnedFd,
        others: &[Lineage],
        real: &OwnedFd,
        (origin, copy): (&[u8], &OwnedFd),
        mounter: Mounter,
    ) -> std::result::Result<Option<Self>, Failure> {
        let origin = ForkOrigin::read(origin, real, mounter)?;
        let mounted = Self::mount(Mounts::new(store), others, real, (&origin.history.stack, copy), mounter);
        mounted.map_err(while_doing("mount the layers of the other workspace"))
    }

    fn mount(
        mounts: Result<Mounts>,
        others: &[Lineage],
        real: &OwnedFd,
        (stack, copy): (&[Number], &OwnedFd),
        mounter: Mounter,
    ) -> Result<Option<Self>> {
        let mut mounts = mounts?;
        let other = open_directory(&mounts.place, b".")?;
        unless(&[Errno::EXIST], mkdirat(&other, layers::SHARED, Mode::RWXU))?;
        mounts.attached.push(overlay::attach_copy(&other, layers::SHARED, copy)?);
        let lineage = Lineage::new(&other, stack)?;
        let common = others.iter().map(|side| side.common(&lineage)).max().unwrap_or_default();
        if common == 0 {
            return Ok(None);
        }
        let mut show = |stack: &[Number], name: &[u8]| {
            let mount = layers::mount_readable(&other, stack, real, mounter, name)?;
            let tree = Tree::new(open_directory(mount.root(), b".")?);
            mounts.attached.push(mount);
            Ok::<_, Errno>(tree)
        };
        let (seen, base) = (show(stack, SEEN)?, show(&stack[..common], BASE)?);
        let layers = layers::trees(&other, &stack[common..])?;
        Ok(Some(Self { seen, base, layers, lineage, _mounts: mounts }))
    }
}

/// Mounts in a directory of the store, which is removed with them.
struct Mounts {
    attached: Vec<Mount>,
    place: OwnedFd,
    store: OwnedFd,
}

impl Mounts {
    fn new(store: &OwnedFd) -> Result<Self> {
        let store = open_directory(store, b".")?;
        unless(&[Errno::EXIST], mkdirat(&store, PLACE, Mode::RWXU))?;
        Ok(Self { attached: Vec::new(), place: open_directory(&store, PLACE)?, store })
    }
}

impl Drop for Mounts {
    fn drop(&mut self) {
        self.attached.clear();
        // What is still mounted is in the way, and must not be emptied.
        for name in [layers::SHARED, SEEN, BASE] {
            let _ = unlinkat(&self.place, name, AtFlags::REMOVEDIR);
        }
        let _ = unlinkat(&self.store, PLACE, AtFlags::REMOVEDIR);
    }
}
