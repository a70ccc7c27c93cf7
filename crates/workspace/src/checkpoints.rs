//! The present layers of an open workspace, and its checkpoints.

use crate::failure::{Failure, while_doing};
use crate::fork::Branch;
use crate::history::{self, History};
use crate::layers::{self, Stack, Usage};
use crate::overlay::{self, Mount, Mounter};
use crate::store::Store;
use crate::tree::Tree;
use nacre_protocol::workspace::Point;
use rustix::io::{Errno, Result};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

/// Maximum layers that checkpoints make by sealing. The others are for rollbacks.
const MAX_BY_SEALING: usize = overlay::MAX_LOWERS * 4 / 5;

/// See the module.
pub struct Checkpoints {
    history: History,
    /// The mount of a checkpoint, and its layers.
    prepared: Option<(Mount, Stack)>,
    /// The forks that are being opened.
    branches: BTreeMap<u64, Branch>,
    /// Whether the store keeps what changes.
    is_named: bool,
}

impl Checkpoints {
    /// Those of a workspace that is being opened.
    pub fn new(history: History, is_named: bool) -> Self {
        Self { history, prepared: None, branches: BTreeMap::new(), is_named }
    }

    /// The present layers.
    pub fn stack(&self) -> &Stack {
        &self.history.stack
    }

    /// The checkpoints, the oldest first.
    pub fn points(&self) -> Vec<&Point> {
        self.history.points.iter().map(|moment| &moment.point).collect()
    }

    /// Measures all layers and texts. `interrupt` fails once the caller has gone.
    ///
    /// # Errors
    /// Those of the system calls.
    pub fn usage(store: &Store, interrupt: &dyn Fn() -> Result<()>) -> Result<Usage> {
        let place = store.layers().place();
        let used = layers::usage(place, interrupt)?;
        Ok(Usage { bytes: used.bytes + history::text_bytes(place)?, ..used })
    }

    /// Keeps the present files with a text, without copying them: nothing writes to their layer any more, and another one
    /// above it receives the writes. Returns the checkpoint, and the mount that takes the place of `present`, which is
    /// read-only then.
    ///
    /// `None`, with nothing changed, if that is not possible: see [`Mount::seal`].
    ///
    /// # Errors
    /// Those of [`Mount::unseal`]: `present` is read-only, although nothing has changed.
    pub fn seal(
        &mut self,
        store: &Store,
        base: &Tree,
        mounter: Mounter,
        present: &Mount,
        point: &Point,
        text: &OwnedFd,
    ) -> Result<Option<(Point, Mount)>> {
        self.seal_and(store, base, mounter, present, |history| {
            let point = history.add(point.clone(), history.stack.clone());
            history::write_text(store.layers().place(), point.number, text.try_clone().map_err(|_| Errno::MFILE)?)?;
            Ok(point)
        })
    }

    /// Seals the present files, and notes that in the history.
    fn seal_and<T>(
        &mut self,
        store: &Store,
        base: &Tree,
        mounter: Mounter,
        present: &Mount,
        note: impl FnOnce(&mut History) -> Result<T>,
    ) -> Result<Option<(T, Mount)>> {
        if self.stack().len() >= MAX_BY_SEALING || present.seal().is_err() {
            return Ok(None);
        }
        let sealed = (|| {
            let place = store.layers().place();
            let mut history = self.history.clone();
            let noted = note(&mut history)?;
            history.stack.push(store.layers().create(&layers::top(place, self.stack(), base)?)?);
            let root = base.directory(b"")?.ok_or(Errno::STALE)?;
            let mount = layers::mount(place, &history.stack, &root, mounter)?;
            // A named store has the new layers before anything is written there.
            self.keep(store, history)?;
            Ok::<_, Errno>((noted, mount))
        })();
        if sealed.is_err() {
            self.tidy(store);
            present.unseal()?;
        }
        Ok(sealed.ok())
    }

    /// Keeps the present files with a text, as a copy. Nothing writes to them.
    ///
    /// # Errors
    /// [`Failure::TooManyLayers`] if the checkpoint could not be mounted, and [`Failure::System`]. Nothing is kept then.
    pub fn make(
        &mut self,
        store: &Store,
        point: Point,
        text: OwnedFd,
        interrupt: &dyn Fn() -> Result<()>,
    ) -> std::result::Result<Point, Failure> {
        if self.stack().len() >= overlay::MAX_LOWERS {
            return Err(Failure::TooManyLayers);
        }
        let made = (|| {
            let (live, sealed) = self.stack().split_last().ok_or(Errno::INVAL)?;
            let copy = store.layers().duplicate(*live, interrupt)?;
            let mut history = self.history.clone();
            let point = history.add(point, [sealed, &[copy]].concat());
            history::write_text(store.layers().place(), point.number, text)?;
            self.keep(store, history)?;
            Ok(point)
        })();
        made.map_err(|errno| {
            self.tidy(store);
            while_doing("make a checkpoint of the workspace")(errno)
        })
    }

    /// Begins a fork of the present files, without copying them if `present` can be sealed, as in [`Checkpoints::seal`]. Nothing
    /// writes to them. Until [`Checkpoints::end_fork`], no layer is removed. Returns the number of the fork, what it begins
    /// with, and the mount that takes the place of `present` if that was sealed.
    ///
    /// # Errors
    /// [`Failure::TooManyLayers`] if the fork could not be mounted, and [`Failure::System`]. `present` may be sealed then.
    pub fn fork(
        &mut self,
        store: &Store,
        base: &Tree,
        mounter: Mounter,
        present: Option<&mut Mount>,
        interrupt: &dyn Fn() -> Result<()>,
    ) -> std::result::Result<(u64, History, bool), Failure> {
        if self.stack().len() >= overlay::MAX_LOWERS {
            return Err(Failure::TooManyLayers);
        }
        let sealed = match present {
            Some(present) => self
                .seal_and(store, base, mounter, present, |history| Ok(history.clone()))
                .map_err(while_doing("make the workspace writable again"))?
                .map(|(history, mount)| {
                    *present = mount;
                    history
                }),
            None => None,
        };
        let is_sealed = sealed.is_some();
        let forked = (|| {
            let history = sealed.map_or_else(|| self.copied(store, interrupt), Ok)?;
            let branch = Branch::new(store, &history)?;
            let number = self.branches.last_key_value().map_or(1, |(number, _)| number + 1);
            self.branches.insert(number, branch);
            Ok((number, history, is_sealed))
        })();
        forked.map_err(|errno| {
            self.tidy(store);
            while_doing("fork the workspace")(errno)
        })
    }

    /// The history with a copy of the present layer.
    fn copied(&self, store: &Store, interrupt: &dyn Fn() -> Result<()>) -> Result<History> {
        let (live, sealed) = self.stack().split_last().ok_or(Errno::INVAL)?;
        let copy = store.layers().duplicate(*live, interrupt)?;
        let mut history = self.history.clone();
        history.stack = [sealed, &[copy]].concat();
        Ok(history)
    }

    /// The mounts of the layers for one of the forks. `None` if there is no fork of this number.
    ///
    /// # Errors
    /// Those of open_tree(2).
    pub fn branch(&self, fork: u64) -> Result<Option<OwnedFd>> {
        self.branches.get(&fork).map(Branch::copy).transpose()
    }

    /// Ends the opening of forks.
    pub fn end_fork(&mut self, store: &Store, fork: u64) {
        self.branches.remove(&fork);
        self.tidy(store);
    }

    /// Deletes a checkpoint. False if there is none of this number.
    ///
    /// # Errors
    /// Those of the system calls; it stays then.
    pub fn delete(&mut self, store: &Store, number: u64) -> Result<bool> {
        if self.history.find(number).is_none() {
            return Ok(false);
        }
        let mut history = self.history.clone();
        history.points.retain(|moment| moment.point.number != number);
        self.keep(store, history).map(|()| true)
    }

    /// Deletes all checkpoints.
    ///
    /// # Errors
    /// Those of the system calls; they stay then.
    pub fn end(&mut self, store: &Store) -> Result<()> {
        if self.history.points.is_empty() {
            return Ok(());
        }
        let mut history = self.history.clone();
        history.points.clear();
        self.keep(store, history)
    }

    /// Mounts the files of a checkpoint. Nothing else changes. Returns the checkpoint and its text; `None` if there is none
    /// of this number.
    ///
    /// # Errors
    /// Those of the system calls.
    pub fn prepare(
        &mut self,
        store: &Store,
        base: &Tree,
        mounter: Mounter,
        number: u64,
    ) -> Result<Option<(Point, OwnedFd)>> {
        self.prepared = None;
        let Some(moment) = self.history.find(number) else { return Ok(None) };
        let place = store.layers().place();
        let point = moment.point.clone();
        let prepared = (|| {
            let text = history::read_text(place, number)?;
            let mut stack = moment.stack.clone();
            stack.push(store.layers().create(&layers::top(place, &stack, base)?)?);
            let root = base.directory(b"")?.ok_or(Errno::STALE)?;
            Ok((text, layers::mount(place, &stack, &root, mounter)?, stack))
        })();
        let prepared = prepared.map(|(text, mount, stack)| {
            self.prepared = Some((mount, stack));
            Some((point, text))
        });
        // What an earlier rollback has prepared, or this one in vain.
        self.tidy(store);
        prepared
    }

    /// Uses what was prepared. Returns its mount.
    ///
    /// # Errors
    /// Those of the system calls. The present layers stay then.
    pub fn switch(&mut self, store: &Store) -> Result<Mount> {
        let (mount, stack) = self.prepared.take().ok_or(Errno::INVAL)?;
        let mut history = self.history.clone();
        history.stack = stack;
        self.keep(store, history).map(|()| mount)
    }

    /// Replaces the history, in a named store too.
    fn keep(&mut self, store: &Store, history: History) -> Result<()> {
        if self.is_named {
            history.write(store.directory())?;
        }
        self.history = history;
        self.tidy(store);
        Ok(())
    }

    /// Removes the layers and texts that nothing needs. What fails is left to the next call.
    fn tidy(&self, store: &Store) {
        if !self.branches.is_empty() {
            return;
        }
        let prepared = self.prepared.iter().map(|(_, stack)| stack);
        let _ = store.layers().keep_only(self.history.stacks().chain(prepared));
        let _ = self.history.keep_only_texts(store.layers().place());
    }
}
