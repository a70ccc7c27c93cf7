//! The present layers of an open workspace, and its checkpoints.

use crate::fork::Branch;
use crate::history::{self, History, Moment};
use crate::layers::{self, Stack, Usage};
use crate::merging::Merging;
use crate::overlay::{self, Mount, Mounter};
use crate::store::Store;
use crate::tree::Tree;
use nacre_protocol::workspace::Point;
use rustix::io::{Errno, Result};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

/// Maximum layers that checkpoints make by sealing. The others are for rollbacks.
const MAX_BY_SEALING: usize = overlay::MAX_LOWERS * 4 / 5;

/// A checkpoint to be made.
pub struct New<'a> {
    /// Without its number.
    pub point: Point,
    /// Its text.
    pub text: &'a OwnedFd,
    /// How many automatic checkpoints are kept.
    pub max_steps: u64,
}

/// See the module.
pub struct Checkpoints {
    history: History,
    /// The checkpoint whose files are mounted, the mount, and its layers.
    prepared: Option<(u64, Mount, Stack)>,
    /// The forks that are being opened.
    branches: BTreeMap<u64, Branch>,
    merging: Merging,
    /// The layers of the mount before the present one: a session may have changed over just now.
    leaving: Stack,
    /// Whether the store keeps what changes.
    is_named: bool,
}

impl Checkpoints {
    /// Those of a workspace that is being opened.
    pub fn new(history: History, is_named: bool) -> Self {
        let (prepared, branches, merging, leaving) = Default::default();
        Self { history, prepared, branches, merging, leaving, is_named }
    }

    /// The present layers, and the checkpoints.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// The present layers.
    pub fn stack(&self) -> &Stack {
        &self.history.stack
    }

    /// The checkpoints that are not automatic, the oldest first.
    pub fn points(&self) -> Vec<&Point> {
        self.history.points.iter().filter(|moment| !moment.is_step()).map(|moment| &moment.point).collect()
    }

    /// Whether there are too many layers for one more checkpoint by sealing. Then many are being merged, or checkpoints are
    /// between them.
    pub fn is_full(&self) -> bool {
        is_full(&self.history)
    }

    /// Begins to merge layers, if that is worth it.
    pub fn merge(&mut self, store: &Store, mounter: Mounter) {
        self.merging.begin(store, &self.history, mounter);
    }

    /// Stops merging: sealed layers are about to change, or the workspace is being closed.
    pub fn stop_merging(&mut self) {
        self.merging.stop();
    }

    /// Keeps the present files with a text, if they are those of the sealed layers: then nothing is to be done with them.
    /// `None` otherwise.
    ///
    /// # Errors
    /// Those of the system calls. Nothing is kept then.
    pub fn note(&mut self, store: &Store, base: &Tree, new: &New<'_>) -> Result<Option<Point>> {
        if !layers::is_untouched(store.layers().place(), self.stack(), base)? {
            return Ok(None);
        }
        let mut history = self.history.clone();
        let sealed = self.stack().split_last().map(|(_, sealed)| sealed.to_vec()).unwrap_or_default();
        let noted =
            self.add(store, &mut history, new, sealed).and_then(|point| self.keep(store, history).map(|()| point));
        noted.map(Some).inspect_err(|_| self.tidy(store))
    }

    /// Measures all layers and texts. `interrupt` fails once the caller has gone.
    ///
    /// # Errors
    /// Those of the system calls.
    pub fn usage(place: &OwnedFd, interrupt: &dyn Fn() -> Result<()>) -> Result<Usage> {
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
        new: &New<'_>,
        interrupt: &dyn Fn() -> Result<()>,
    ) -> Result<Option<(Point, Mount)>> {
        self.seal_and(store, base, mounter, present, interrupt, |this, history, stack| {
            this.add(store, history, new, stack)
        })
    }

    /// Seals the present files, and notes their layers in the history.
    fn seal_and<T>(
        &mut self,
        store: &Store,
        base: &Tree,
        mounter: Mounter,
        present: &Mount,
        interrupt: &dyn Fn() -> Result<()>,
        note: impl FnOnce(&Self, &mut History, Stack) -> Result<T>,
    ) -> Result<Option<(T, Mount)>> {
        if self.is_full() {
            self.merging.wait(interrupt);
        }
        let mut history = self.history.clone();
        self.merging.apply(&mut history);
        if is_full(&history) || present.seal().is_err() {
            return Ok(None);
        }
        let sealed = (|| {
            let place = store.layers().place();
            let stack = history.stack.clone();
            let top = store.layers().create(&layers::top(place, &stack, base)?)?;
            history.stack.push(top);
            let root = base.directory(b"")?.ok_or(Errno::STALE)?;
            let mount = layers::mount(place, &history.stack, &root, mounter)?;
            let noted = note(self, &mut history, stack)?;
            self.leaving = self.stack().clone();
            // A named store has the new layers before anything is written there.
            self.keep(store, history)?;
            self.merging.end();
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
    /// Those of the system calls. Nothing is kept then.
    pub fn make(&mut self, store: &Store, new: &New<'_>, interrupt: &dyn Fn() -> Result<()>) -> Result<Point> {
        let made = (|| {
            let (live, sealed) = self.stack().split_last().ok_or(Errno::INVAL)?;
            let copy = store.layers().duplicate(*live, interrupt)?;
            let mut history = self.history.clone();
            let point = self.add(store, &mut history, new, [sealed, &[copy]].concat())?;
            self.keep(store, history)?;
            Ok(point)
        })();
        made.inspect_err(|_| self.tidy(store))
    }

    /// Adds a checkpoint with these layers to a history, and keeps its text.
    fn add(&self, store: &Store, history: &mut History, new: &New<'_>, stack: Stack) -> Result<Point> {
        let place = store.layers().place();
        let earlier = history.points.last().map(|moment| moment.point.number);
        let point = history.add(new.point.clone(), stack);
        history::write_text(place, point.number, new.text.try_clone().map_err(|_| Errno::MFILE)?, earlier)?;
        if point.command.is_some() {
            history.expire_steps(place, new.max_steps)?;
        }
        Ok(point)
    }

    /// Begins a fork of the present files, without copying them if `present` can be sealed, as in [`Checkpoints::seal`]. Nothing
    /// writes to them. Until [`Checkpoints::end_fork`], no layer is removed. Returns the number of the fork, what it begins
    /// with, and the mount that takes the place of `present` if that was sealed.
    ///
    /// # Errors
    /// Those of the system calls. `present` may be sealed then.
    pub fn fork(
        &mut self,
        store: &Store,
        base: &Tree,
        mounter: Mounter,
        present: Option<&mut Mount>,
        interrupt: &dyn Fn() -> Result<()>,
    ) -> Result<(u64, History, bool)> {
        let forked = |history: &History, stack| history.without_steps(stack);
        let sealed = match present {
            Some(present) => {
                let sealed = self
                    .seal_and(store, base, mounter, present, interrupt, |_, history, stack| Ok(forked(history, stack)));
                sealed?.map(|(history, mount)| {
                    *present = mount;
                    history
                })
            }
            None => None,
        };
        let is_sealed = sealed.is_some();
        let begun = (|| {
            let history = match sealed {
                Some(history) => history,
                None => {
                    let (live, sealed) = self.stack().split_last().ok_or(Errno::INVAL)?;
                    let copy = store.layers().duplicate(*live, interrupt)?;
                    forked(&self.history, [sealed, &[copy]].concat())
                }
            };
            let branch = Branch::new(store, &history)?;
            let number = self.branches.last_key_value().map_or(1, |(number, _)| number + 1);
            self.branches.insert(number, branch);
            Ok((number, history, is_sealed))
        })();
        begun.inspect_err(|_| self.tidy(store))
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
        self.delete_all(store, |_| true)
    }

    /// Deletes all automatic checkpoints: a command was not preceded by one, and undo would take more back than that command.
    ///
    /// # Errors
    /// Those of the system calls; they stay then.
    pub fn end_steps(&mut self, store: &Store) -> Result<()> {
        self.delete_all(store, Moment::is_step)
    }

    fn delete_all(&mut self, store: &Store, which: impl Fn(&Moment) -> bool) -> Result<()> {
        let mut history = self.history.clone();
        history.points.retain(|moment| !which(moment));
        if history.points.len() == self.history.points.len() { Ok(()) } else { self.keep(store, history) }
    }

    /// Mounts the files of a checkpoint: that of this number, or the newest automatic one. Nothing else changes. Returns the
    /// checkpoint and its text; `None` if there is none.
    ///
    /// # Errors
    /// Those of the system calls.
    pub fn prepare(
        &mut self,
        store: &Store,
        base: &Tree,
        mounter: Mounter,
        number: Option<u64>,
        interrupt: &dyn Fn() -> Result<()>,
    ) -> Result<Option<(Point, OwnedFd)>> {
        self.prepared = None;
        let moment = number.map_or_else(|| self.history.last_step(), |number| self.history.find(number));
        let Some(moment) = moment else { return Ok(None) };
        let place = store.layers().place();
        let point = moment.point.clone();
        let prepared = (|| {
            let text = history::read_text(place, point.number)?;
            let stack = store.layers().above(moment.stack.clone(), base, interrupt)?;
            let root = base.directory(b"")?.ok_or(Errno::STALE)?;
            Ok((text, layers::mount(place, &stack, &root, mounter)?, stack))
        })();
        let prepared = prepared.map(|(text, mount, stack)| {
            self.prepared = Some((point.number, mount, stack));
            Some((point, text))
        });
        // What an earlier rollback has prepared, or this one in vain.
        self.tidy(store);
        prepared
    }

    /// The mount that was prepared, and its layers.
    pub fn prepared(&self) -> Option<(&Mount, &Stack)> {
        self.prepared.as_ref().map(|(_, mount, stack)| (mount, stack))
    }

    /// Uses what was prepared. Returns its mount. The automatic checkpoints from that moment on end.
    ///
    /// # Errors
    /// Those of the system calls. The present layers stay then.
    pub fn switch(&mut self, store: &Store) -> Result<Mount> {
        let (number, mount, stack) = self.prepared.take().ok_or(Errno::INVAL)?;
        let mut history = self.history.clone();
        history.stack = stack;
        history.end_steps(number);
        self.leaving.clear();
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
        let prepared = self.prepared.iter().map(|(.., stack)| stack);
        let merged = self.merging.layer().map(|layer| vec![layer]);
        let others = prepared.chain(&merged).chain([&self.leaving]);
        let _ = store.layers().keep_only(self.history.stacks().chain(others));
        let _ = self.history.keep_only_texts(store.layers().place());
    }
}

fn is_full(history: &History) -> bool {
    history.stack.len() >= MAX_BY_SEALING
}
