//! The commit: applies changes of the workspace to the real directory.
//!
//! New contents are first copied into a staging directory beside their places, so that each step afterwards only renames.
//! Until the [`journal`] has the steps, a failure or a crash changes nothing. From then on, a failure undoes them and a
//! crash leaves them to [`crate::recovery`].

use crate::changes::{Sides, Walks};
use crate::conflicts;
use crate::dates::Dates;
use crate::failure::{Failure, Trouble, at, while_doing};
use crate::journal::{self, Direction, Journal, Skipped};
use crate::known::{Content, Known, Staged};
use crate::metadata::Metadata;
use crate::redirects;
use crate::selection::is_within;
use crate::settle;
use crate::staging::{self, Source, Staging, in_memory};
use crate::stamp::Stamp;
use crate::steps::{Action, Place, Step, new_name};
use crate::tree::{Tree, changed_at, file_type, has_other_names, open_file, split, status};
use nacre_protocol::host_programs;
use nacre_protocol::workspace::{Difference, Kind, WorkspaceChange};
use rustix::fs::{FileType, Stat, fstat, syncfs};
use rustix::io::{Errno, Result};
use std::collections::{BTreeMap, HashSet};
use std::os::fd::OwnedFd;

/// Why a change was left out that programs of the machine run later.
const WITHHELD: &str = "programs of the machine run or obey it later: name it in `paths` to commit it";

/// What a commit applies, and how.
pub struct Options {
    /// The paths, with everything below them; all by default.
    pub paths: Option<Vec<Vec<u8>>>,
    /// Overwrites what other programs have changed meanwhile.
    pub force: bool,
    /// Waits for the disk.
    pub sync: bool,
    /// Leaves out what programs of the machine run later, unless a path names it.
    pub withholds: bool,
}

/// The result of a commit.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The changes have been applied.
    Committed {
        /// How many.
        applied: u64,
        /// The changes that could not be.
        skipped: Skipped,
    },
    /// Other programs have changed these paths. Nothing has been applied.
    Conflict(Vec<Vec<u8>>),
}

/// What a commit has just done. Tests end the process there, or let it fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// The journal says that there may be a staging directory.
    Begun,
    /// One entry is staged.
    Staged,
    /// The journal has the steps.
    Planned,
    /// One step is done.
    Applied,
    /// The journal says that the steps are to be undone.
    Reversed,
    /// One step is undone.
    Undone,
    /// What is known has been kept.
    Settled,
    /// The journal is ending: it has no steps any more, or the staging directory is removed.
    Ending,
}

/// A commit of a workspace.
pub struct Commit<'a> {
    /// What programs see.
    pub merged: &'a Tree,
    /// The real directory.
    pub base: &'a Tree,
    /// See [`Sides::layers`].
    pub layers: &'a [Tree],
    /// See [`Sides::marks`].
    pub marks: &'static str,
    /// See [`Sides::opened`].
    pub opened: (i64, i64),
    /// What earlier commits have made.
    pub known: &'a mut Known,
    /// The contents of files of which only some hunks become real. They are among the chosen paths.
    pub contents: &'a BTreeMap<Vec<u8>, Vec<u8>>,
    /// Keeps what is known, once a commit has changed it and before its journal ends.
    pub keep: &'a dyn Fn(&Known) -> Result<()>,
    /// See [`Sides::interrupt`].
    pub interrupt: &'a dyn Fn() -> Result<()>,
    /// The directory of the journal.
    pub store: &'a OwnedFd,
    /// The path of the real directory.
    pub path: &'a [u8],
    /// The name of the staging directory, unique among those of the real directory.
    pub staging: &'a [u8],
}

/// The staging directory with all new contents, and the steps that put them in place.
struct Plan {
    staging: Staging,
    steps: Vec<Step>,
    staged: Staged,
}

/// What a commit is to apply.
struct Chosen {
    changes: Vec<WorkspaceChange>,
    /// What cannot be applied.
    skipped: Skipped,
    /// Renamed directories of which other programs have deleted real parts.
    deleted: Vec<Vec<u8>>,
}

impl Commit<'_> {
    /// Applies the changes.
    ///
    /// # Errors
    /// [`Failure::NoChange`] and [`Failure::System`]. The real directory is as it was, unless the text says that it could not
    /// be restored.
    pub fn run(
        mut self,
        options: Options,
        mut reached: impl FnMut(Point) -> Result<()>,
    ) -> std::result::Result<Outcome, Failure> {
        let doing = format!("commit to {}", String::from_utf8_lossy(self.path));
        let is_whole = options.paths.is_none();
        let chosen = self.choose(options.paths, options.withholds).map_err(|trouble| trouble.while_doing(&doing))?;
        let Chosen { mut changes, mut skipped, deleted } = chosen;
        if !options.force {
            let mut found = self.conflicts(&changes).map_err(|trouble| trouble.while_doing(&doing))?;
            found.extend_from_slice(&deleted);
            if !found.is_empty() {
                found.sort_unstable();
                found.dedup();
                return Ok(Outcome::Conflict(found));
            }
        }
        if let Some(path) = deleted.first() {
            return Err(at(path)(Errno::NOENT).while_doing(&doing));
        }
        if changes.is_empty() {
            return Ok(Outcome::Committed { applied: 0, skipped });
        }
        let mut journal = self.begin().map_err(while_doing(&*doing))?;
        let planned = (|| {
            reached(Point::Begun)?;
            let staging = Staging::create(self.base, &journal.staging)?;
            journal.made = Some(staging.identity()?);
            journal.write(self.store)?;
            let mut plan = self.plan(staging, &changes, &mut reached)?;
            if options.sync {
                syncfs(plan.staging.directory())?;
            }
            let tracks = self.marks == "trusted";
            journal.notes = self.known.prepare(self.base, &plan.steps, self.opened, tracks)?;
            if options.force {
                journal.notes.touch(conflicts::deleted_origins(&self.sides(), &changes)?);
            }
            if is_whole {
                let hidden = self.sides().hidden_parents(&changes)?;
                journal.notes.equal(hidden, changed_at(&fstat(plan.staging.directory())?));
            }
            // Staging and the disk can take long. What is changed from here on is noticed by the steps.
            let conflicts = if options.force { Vec::new() } else { self.conflicts(&changes)? };
            if conflicts.is_empty() {
                plan.date(&Walks::new(&self.sides()), &changes)?;
                (journal.steps, journal.staged) = (plan.steps, plan.staged);
                journal.sync = options.sync;
                journal.write(self.store)?;
            }
            Ok::<_, Trouble>((plan.staging, conflicts))
        })();
        let (staging, conflicts) = match planned {
            Ok(planned) => planned,
            Err(trouble) => {
                let _ = self.cancel(journal);
                return Err(trouble.while_doing(&doing));
            }
        };
        if !conflicts.is_empty() {
            self.cancel(journal).map_err(while_doing(&*doing))?;
            return Ok(Outcome::Conflict(conflicts));
        }
        self.known.expect(&journal.notes);
        let place = Place { base: self.base, staging: staging.directory() };
        let applied = reached(Point::Planned)
            .map_err(Trouble::from)
            .and_then(|()| journal.run(&place, !options.force, || reached(Point::Applied)));
        let cause = match applied {
            Ok(Ok(more)) => {
                skipped.extend(more);
                None
            }
            Ok(Err(path)) => Some(Ok(path)),
            Err(trouble) => Some(Err(trouble)),
        };
        if let Some(cause) = cause {
            if let Err(other) = self.undo(journal, staging, reached) {
                let state = format!(
                    "the real directory could not be restored ({}); the next commit tries it again",
                    other.errno()
                );
                return Err(cause.err().unwrap_or(other).while_doing(&format!("{doing}, and {state}")));
            }
            let path = cause.map_err(|trouble| trouble.while_doing(&doing))?;
            let mut found = self.conflicts(&changes).map_err(|trouble| trouble.while_doing(&doing))?;
            found.push(path);
            found.sort_unstable();
            found.dedup();
            return Ok(Outcome::Conflict(found));
        }
        self.settle(&journal)
            .and_then(|()| reached(Point::Settled))
            .and_then(|()| journal.end(self.store, staging, || reached(Point::Ending)))
            .map_err(while_doing(format!("end the {doing}; it has been applied")))?;
        changes.retain(|change| !skipped.contains_key(&change.path));
        Ok(Outcome::Committed { applied: changes.len() as u64, skipped })
    }

    /// Completes an earlier commit, and finds the changes.
    fn choose(&mut self, paths: Option<Vec<Vec<u8>>>, withholds: bool) -> std::result::Result<Chosen, Trouble> {
        if let Some(journal) = Journal::read(self.store)? {
            journal::complete(self.store, journal, self.base, |journal| self.settle(journal))?;
        }
        staging::remove_seen(self.merged, self.staging)?;
        let deleted = redirects::copy_renamed(&self.sides(), self.staging)?;
        let named = paths.clone().unwrap_or_default();
        let changes = self.sides().choose(paths, |change| (change.now, change.before))?;
        let counted = host_programs::Changed::new(changes.iter().map(|change| change.path.as_slice()));
        let is_withheld = |path: &[u8], is_directory| {
            withholds && counted.reason(path, is_directory).is_some() && !is_named(path, &named)
        };
        let mut skipped = Skipped::new();
        let mut kept = Vec::with_capacity(changes.len());
        let mut kept_directories = HashSet::new();
        for change in changes {
            let is_directory = change.now.or(change.before).is_some_and(|entry| entry.kind == Kind::Directory);
            let reason = match change.now.map(|now| now.kind) {
                _ if is_withheld(&change.path, is_directory) => Some(WITHHELD),
                _ if change.difference == Difference::Metadata => None,
                Some(Kind::Socket) => Some("a socket cannot be committed"),
                Some(Kind::Device) => Some("a device cannot be committed"),
                // The directory that it is in stays.
                _ if is_below(&change.path, &kept_directories) => Some("its directory is replaced by what cannot be"),
                _ => None,
            };
            match reason {
                Some(reason) => {
                    if change.before.is_some_and(|before| before.kind == Kind::Directory) {
                        kept_directories.insert(change.path.clone());
                    }
                    skipped.insert(change.path, reason);
                }
                None => kept.push(change),
            }
        }
        Ok(Chosen { changes: kept, skipped, deleted })
    }

    fn sides(&self) -> Sides<'_> {
        let Self { merged, base, layers, marks, opened, interrupt, .. } = *self;
        Sides { merged, base, layers, marks, opened, known: self.known, interrupt }
    }

    fn conflicts(&self, changes: &[WorkspaceChange]) -> std::result::Result<Vec<Vec<u8>>, Trouble> {
        conflicts::find(&self.sides(), changes)
    }

    /// Writes the journal without steps. The disk need not have it: it only tells what to remove.
    fn begin(&mut self) -> Result<Journal> {
        let root = self.base.directory(b"")?.ok_or(Errno::STALE)?;
        let journal = Journal {
            path: self.path.to_vec(),
            identity: journal::identity(&root)?,
            staging: staging::free_name(self.base, self.staging)?,
            made: None,
            direction: Direction::Forward,
            steps: Vec::new(),
            notes: self.known.prepare(self.base, &[], self.opened, false)?,
            staged: Staged::new(),
            sync: false,
        };
        journal.write(self.store)?;
        self.known.expect(&journal.notes);
        Ok(journal)
    }

    fn settle(&mut self, journal: &Journal) -> Result<()> {
        settle::settle(journal, self.base, self.layers, self.marks, self.known)?;
        (self.keep)(self.known)
    }

    /// Ends a commit that has applied nothing.
    fn cancel(&mut self, mut journal: Journal) -> Result<()> {
        journal.steps.clear();
        journal::complete(self.store, journal, self.base, |journal| self.settle(journal))
    }

    /// Stages all new contents.
    fn plan(
        &self,
        staging: Staging,
        changes: &[WorkspaceChange],
        reached: &mut impl FnMut(Point) -> Result<()>,
    ) -> std::result::Result<Plan, Trouble> {
        let sides = self.sides();
        let walks = Walks::new(&sides);
        let mut plan = Plan { staging, steps: Vec::new(), staged: Staged::new() };
        for change in changes.iter().rev() {
            plan.remove(&walks, change).map_err(at(&change.path))?;
        }
        for change in changes {
            let partial = self.contents.get(&change.path).map(Vec::as_slice);
            plan.put(&walks, change, partial, self.interrupt).map_err(at(&change.path))?;
            reached(Point::Staged)?;
        }
        Ok(plan)
    }

    /// Undoes what has been applied.
    fn undo(
        &mut self,
        mut journal: Journal,
        staging: Staging,
        mut reached: impl FnMut(Point) -> Result<()>,
    ) -> std::result::Result<(), Trouble> {
        journal.direction = Direction::Back;
        // Without space for the journal, a crash from here on completes the commit: that is consistent, too.
        let _ = journal.write(self.store);
        let place = Place { base: self.base, staging: staging.directory() };
        reached(Point::Reversed)?;
        let _ = journal.run(&place, false, || reached(Point::Undone))?;
        self.settle(&journal)?;
        reached(Point::Settled)?;
        Ok(journal.end(self.store, staging, || reached(Point::Ending))?)
    }
}

impl Plan {
    fn number(&self) -> usize {
        self.steps.len()
    }

    fn add(&mut self, path: &[u8], action: Action) {
        self.steps.push(Step { path: path.to_vec(), action });
    }

    /// Plans what must be removed before anything is put in place.
    fn remove(&mut self, walks: &Walks<'_>, change: &WorkspaceChange) -> Result<()> {
        let Some(before) = change.before else { return Ok(()) };
        let (parent, name) = split(&change.path);
        let Some(directory) = walks.base.directory(parent)? else { return Ok(()) };
        if before.kind == Kind::Directory {
            if matches!(change.difference, Difference::Deleted | Difference::Replaced) {
                let before = Metadata::of(&directory, name)?;
                self.add(&change.path, Action::RemoveDirectory { before });
            }
        } else if change.difference == Difference::Deleted
            && let Some(found) = status(Some(&directory), name)?
        {
            self.add(&change.path, Action::Remove { old: Stamp::of(&found) });
        }
        Ok(())
    }

    /// `partial`: the content with some hunks only; the mode is that of the real file then.
    fn put(
        &mut self,
        walks: &Walks<'_>,
        change: &WorkspaceChange,
        partial: Option<&[u8]>,
        interrupt: &dyn Fn() -> Result<()>,
    ) -> Result<()> {
        let Some(now) = change.now else { return Ok(()) };
        let (parent, name) = split(&change.path);
        let base = walks.base.directory(parent)?;
        let found = status(base.as_ref(), name)?;
        if change.difference == Difference::Metadata && !found.as_ref().is_some_and(has_other_names) {
            let (Some(base), Some(found)) = (&base, found) else { return Ok(()) };
            let before = Metadata::of(base, name)?;
            let merged = walks.merged.directory(parent)?.ok_or(Errno::STALE)?;
            let now = match (&change.path[..], now.kind) {
                // The root of the layer belongs to the user who mounts.
                (b".", _) => before.clone().with_mode(Metadata::of(&merged, name)?.mode()).without_times(),
                (_, Kind::Directory) => Metadata::of(&merged, name)?.without_times(),
                _ => Metadata::of(&merged, name)?,
            };
            self.add(&change.path, Action::Set { inode: found.st_ino, now, before: Some(before) });
            return Ok(());
        }
        let merged = walks.merged.directory(parent)?.ok_or(Errno::STALE)?;
        let new = new_name(self.number());
        let mut metadata = Metadata::of(&merged, name)?;
        let content = match partial {
            Some(text) => {
                metadata = metadata.with_mode(found.as_ref().ok_or(Errno::STALE)?.st_mode);
                Some(in_memory(text)?)
            }
            None => content(walks, &merged, &change.path)?,
        };
        let source = Source { directory: &merged, name, content, interrupt };
        let inode = source.copy_with(metadata, self.staging.directory(), new.as_bytes())?;
        let staged = status(Some(self.staging.directory()), new.as_bytes())?.ok_or(Errno::STALE)?;
        self.staged.insert(change.path.clone(), Content::of(&staged));
        let is_directory = |found: &Stat| file_type(found) == FileType::Directory;
        let replaces = found.filter(|found| !is_directory(found)).as_ref().map(Stamp::of);
        self.add(&change.path, Action::Put { inode, replaces });
        Ok(())
    }

    /// Gives everything that is staged a present time, and plans the final metadata of new directories. The time is that of the
    /// steps, not of the staging: a build may have read the old content meanwhile.
    fn date(&mut self, walks: &Walks<'_>, changes: &[WorkspaceChange]) -> std::result::Result<(), Trouble> {
        let staging = self.staging.directory();
        let dates = Dates::new(staging, self.staged.values().map(Content::modified).collect())?;
        for (number, step) in self.steps.iter().enumerate() {
            let Action::Put { .. } = step.action else { continue };
            let new = new_name(number);
            let dated = dates.give(Metadata::of(staging, new.as_bytes())?);
            dated.apply(staging, new.as_bytes(), None).map_err(at(&step.path))?;
            let found = status(Some(staging), new.as_bytes())?.ok_or(Errno::STALE)?;
            self.staged.insert(step.path.clone(), Content::of(&found));
        }
        for change in changes.iter().rev() {
            self.finish_directory(walks, change, &dates).map_err(at(&change.path))?;
        }
        Ok(dates.pass()?)
    }

    /// Plans the final mode and times of a new directory, once everything in it is in place.
    fn finish_directory(&mut self, walks: &Walks<'_>, change: &WorkspaceChange, dates: &Dates) -> Result<()> {
        let is_directory = change.now.is_some_and(|now| now.kind == Kind::Directory);
        let Some(staged) = self.staged.get(&change.path).filter(|_| is_directory) else { return Ok(()) };
        let (parent, name) = split(&change.path);
        let merged = walks.merged.directory(parent)?.ok_or(Errno::STALE)?;
        let now = dates.give(Metadata::of(&merged, name)?);
        let action = Action::Set { inode: staged.inode, now, before: None };
        self.add(&change.path, action);
        Ok(())
    }
}

/// Whether one of these paths names a change as it is, a listed directory that it is in, or what needs it.
fn is_named(path: &[u8], named: &[Vec<u8>]) -> bool {
    let is_listed = |name: &[u8]| host_programs::reason(name, true).is_some();
    named.iter().any(|name| name == path || (is_listed(name) && (is_within(path, name) || is_within(name, path))))
}

/// Whether a path is below one of these.
fn is_below(path: &[u8], directories: &HashSet<Vec<u8>>) -> bool {
    let mut above = split(path).0;
    while !above.is_empty() && !directories.is_empty() {
        if directories.contains(above) {
            return true;
        }
        above = split(above).0;
    }
    false
}

/// The file of the layer with the content of a file: the file system of the layer may be able to clone it.
fn content(walks: &Walks<'_>, merged: &OwnedFd, path: &[u8]) -> Result<Option<OwnedFd>> {
    let (parent, name) = split(path);
    let seen = |found: &Stat| {
        let is_file = file_type(found) == FileType::RegularFile;
        is_file.then_some((found.st_size, found.st_mtime, found.st_mtime_nsec as i64))
    };
    let Some(expected) = status(Some(merged), name)?.as_ref().and_then(seen) else { return Ok(None) };
    for layer in &walks.layers {
        let Some(directory) = layer.directory(parent)? else { continue };
        // A whiteout is no file, either.
        if let Some(found) = status(Some(&directory), name)? {
            return if seen(&found) == Some(expected) { open_file(&directory, name).map(Some) } else { Ok(None) };
        }
    }
    Ok(None)
}

#[cfg(test)]
#[path = "commit_tests.rs"]
mod tests;
