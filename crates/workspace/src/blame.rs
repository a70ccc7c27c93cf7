//! Which command has last written a path, from the automatic checkpoints that are kept.
//!
//! The layers tell where to look: most have nothing at the path. Where one does, what programs saw before it and after it is
//! mounted and compared, so that a file with the same content again does not count.

use crate::changes::Sides;
use crate::history::{History, Moment};
use crate::known::Known;
use crate::layers::{self, Number};
use crate::overlay::{Mount, Mounter};
use crate::store::Store;
use crate::tree::{Tree, open_directory, split, status};
use crate::walk::Walk;
use nacre_protocol::workspace::{Blamed, Difference};
use rustix::fs::{AtFlags, unlinkat};
use rustix::io::{Errno, Result};
use std::os::fd::OwnedFd;

/// The directories of the mounts, in the store.
const BEFORE: &[u8] = b"blame-before";
const AFTER: &[u8] = b"blame-after";

/// What is searched.
pub struct Search<'a> {
    /// The store of the workspace.
    pub store: &'a Store,
    /// Its checkpoints.
    pub history: &'a History,
    /// The real directory.
    pub base: &'a Tree,
    /// What programs see now.
    pub present: &'a Tree,
    /// Who mounts.
    pub mounter: Mounter,
    /// See [`Sides::interrupt`].
    pub interrupt: &'a dyn Fn() -> Result<()>,
}

impl Search<'_> {
    /// Finds the command. `None` if the path has not changed since the first checkpoint, or then by something without a step.
    ///
    /// # Errors
    /// Those of the system calls.
    pub fn find(&self, path: &[u8]) -> Result<Option<Blamed>> {
        let stack = &self.history.stack[..];
        let moments = self.history.points.iter().filter(|moment| stack.starts_with(&moment.stack));
        let mut after: Option<&Moment> = None;
        let mut steps = 0;
        for before in moments.rev() {
            (self.interrupt)()?;
            steps += u32::from(before.is_step());
            let next = after.map_or(stack, |after| &after.stack);
            if next.len() >= before.stack.len()
                && self.concerns(&next[before.stack.len()..], path)?
                && let Some(difference) = self.compare(&before.stack, after, path)?
            {
                let point = before.point.clone();
                return Ok(before.is_step().then_some(Blamed { point, difference, steps }));
            }
            after = Some(before);
        }
        Ok(None)
    }

    /// Whether one of these layers has or hides something at a path.
    fn concerns(&self, layers: &[Number], path: &[u8]) -> Result<bool> {
        let known = Known::default();
        let sides = self.sides(self.present, self.base, &known);
        for layer in layers::trees(self.store.layers().place(), layers)? {
            let walk = Walk::new(&layer);
            let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(end, _)| end);
            for end in ends {
                if sides.look(&walk, &path[..end])?.hides {
                    return Ok(true);
                }
            }
            let (parent, name) = split(path);
            if status(walk.directory(parent)?.as_ref(), name)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// How a path differs between a stack and a later moment; now by default.
    fn compare(&self, before: &[Number], after: Option<&Moment>, path: &[u8]) -> Result<Option<Difference>> {
        let root = self.base.directory(b"")?.ok_or(Errno::STALE)?;
        let before = MountedView::open(self, before, &root, BEFORE)?;
        let after = after.map(|after| MountedView::open(self, &after.stack, &root, AFTER)).transpose()?;
        let (parent, name) = split(path);
        let (base, merged) = (&before.tree, after.as_ref().map_or(self.present, |after| &after.tree));
        let known = Known::default();
        let (now, then) = (merged.directory(parent)?, base.directory(parent)?);
        let change = self.sides(merged, base, &known).compare(now.as_ref(), then.as_ref(), name, path)?;
        Ok(change.map(|change| change.difference).filter(|difference| *difference != Difference::Metadata))
    }

    fn sides<'a>(&'a self, merged: &'a Tree, base: &'a Tree, known: &'a Known) -> Sides<'a> {
        let (marks, interrupt) = (self.mounter.marks(), self.interrupt);
        Sides { merged, base, layers: &[], marks, opened: (i64::MAX, 0), known, interrupt }
    }
}

/// What programs saw with some sealed layers.
struct MountedView {
    tree: Tree,
    mounted: Option<(Mount, OwnedFd, &'static [u8])>,
}

impl MountedView {
    fn open(search: &Search<'_>, stack: &[Number], base: &OwnedFd, name: &'static [u8]) -> Result<Self> {
        // A single layer cannot be mounted.
        if stack.is_empty() {
            return Ok(Self { tree: Tree::new(open_directory(base, b".")?), mounted: None });
        }
        let place = search.store.layers().place();
        let mount = layers::mount_readable(place, stack, base, search.mounter, name)?;
        let tree = Tree::new(open_directory(mount.root(), b".")?);
        Ok(Self { tree, mounted: Some((mount, open_directory(place, b".")?, name)) })
    }
}

impl Drop for MountedView {
    fn drop(&mut self) {
        let Some((mount, place, name)) = self.mounted.take() else { return };
        drop(mount);
        let _ = unlinkat(&place, name, AtFlags::REMOVEDIR);
    }
}
