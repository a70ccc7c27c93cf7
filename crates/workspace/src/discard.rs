//! Discards changes: copies the real version back through the merged view, so that running programs can go on.

use crate::changes::{Sides, Walks};
use crate::dates::Dates;
use crate::failure::{Trouble, at};
use crate::git_rules::GitRules;
use crate::metadata::Metadata;
use crate::omitted;
use crate::partial::Partial;
use crate::staging::{self, Source, Staging};
use crate::stamp::modified_at;
use crate::steps::new_name;
use crate::tree::{has_other_names, split, status};
use nacre_protocol::workspace::{ChangedEntry, Difference, Kind, WorkspaceChange};
use rustix::fs::{AtFlags, RenameFlags, renameat, renameat_with, unlinkat};
use rustix::io::{Errno, Result};
use std::collections::{BTreeMap, BTreeSet};

fn is_directory(entry: Option<ChangedEntry>) -> bool {
    entry.is_some_and(|entry| entry.kind == Kind::Directory)
}

/// Discards the changes of paths and everything below them, all by default, and some hunks of other files, which get their new
/// contents. Returns how many changes and files.
///
/// # Errors
/// [`Trouble::NoChange`], and those of the system calls. Some changes may have been discarded then; `EACCES`, all but those whose real version cannot
/// be read.
pub fn discard(sides: &Sides<'_>, partial: Partial, staging: &[u8]) -> std::result::Result<u64, Trouble> {
    let Partial { paths, contents } = partial;
    let is_whole = paths.as_ref().is_none_or(|paths| paths.iter().any(|path| path == b"."));
    let changes = sides.choose(paths, |change| (change.before, change.now))?;
    if changes.is_empty() && contents.is_empty() {
        return Ok(0);
    }
    staging::remove_seen(sides.merged, staging)?;
    let staging = Staging::create(sides.merged, staging)?;
    let restored = Restoration::new(sides, &staging, &changes, is_whole)
        .and_then(|restoration| restoration.run(&changes, &contents));
    let removed = staging.remove();
    restored?;
    removed?;
    Ok((changes.len() + contents.len()) as u64)
}

/// How the real version is restored.
struct Restoration<'a> {
    sides: &'a Sides<'a>,
    staging: &'a Staging,
    /// The times of what gets another content.
    dates: Dates,
    /// What is generated gets its real time, so that it is never newer than its sources.
    rules: GitRules<'a>,
    /// Everything gets its real time: nothing tells what is generated, but as everything is discarded, the times fit together.
    keeps_all: bool,
}

impl<'a> Restoration<'a> {
    fn new(
        sides: &'a Sides<'a>,
        staging: &'a Staging,
        changes: &[WorkspaceChange],
        is_whole: bool,
    ) -> std::result::Result<Self, Trouble> {
        let walks = Walks::new(sides);
        let mut old = Vec::new();
        for change in changes.iter().filter(|change| change.before.is_some()) {
            let (parent, name) = split(&change.path);
            match walks.base.directory(parent).and_then(|directory| status(directory.as_ref(), name)) {
                Err(Errno::ACCESS) => {}
                found => old.extend(found.map_err(at(&change.path))?.as_ref().map(modified_at)),
            }
        }
        let rules = GitRules::new(sides.base);
        let keeps_all = is_whole && !rules.has_rules()?;
        Ok(Self { sides, staging, dates: Dates::new(staging.directory(), old)?, rules, keeps_all })
    }

    fn run(
        self,
        changes: &[WorkspaceChange],
        contents: &BTreeMap<Vec<u8>, Vec<u8>>,
    ) -> std::result::Result<(), Trouble> {
        for change in changes.iter().rev() {
            remove(self.sides, change).map_err(at(&change.path))?;
        }
        let mut unreadable = None;
        for (number, change) in changes.iter().enumerate() {
            match self.put(change, number) {
                // The others are restored nevertheless.
                Err(Errno::ACCESS) => {
                    unreadable.get_or_insert(at(&change.path)(Errno::ACCESS));
                }
                put => put.map_err(at(&change.path))?,
            }
        }
        for (number, (path, content)) in contents.iter().enumerate() {
            self.put_content(path, content, changes.len() + number).map_err(at(path))?;
        }
        // A directory's times change with its entries.
        for change in changes.iter().rev().filter(|change| change.difference != Difference::Metadata) {
            if is_directory(change.before) {
                let is_kept = self.keeps(&change.path, true).map_err(at(&change.path))?;
                copy_metadata(self.sides, &change.path, |real| self.date(real, is_kept)).map_err(at(&change.path))?;
            }
        }
        let parents: BTreeSet<_> = changes.iter().map(|change| split(&change.path).0).collect();
        for path in parents.into_iter().filter(|path| !path.is_empty()) {
            if self.keeps(path, true).map_err(at(path))? {
                copy_times(self.sides, path).map_err(at(path))?;
            }
        }
        self.dates.pass()?;
        unreadable.map_or(Ok(()), Err)
    }

    fn put(&self, change: &WorkspaceChange, number: usize) -> Result<()> {
        if change.before.is_none() {
            return Ok(());
        }
        let Self { sides, staging, .. } = self;
        let (parent, name) = split(&change.path);
        let merged = sides.merged.directory(parent)?.ok_or(Errno::STALE)?;
        let present = status(Some(&merged), name)?;
        if change.difference == Difference::Metadata && !present.as_ref().is_some_and(has_other_names) {
            let has_real_times = self.keeps_all && !is_directory(change.before);
            let timed = |real: Metadata| if has_real_times { real } else { real.without_times() };
            return copy_metadata(sides, &change.path, timed);
        }
        let base = sides.base.directory(parent)?.ok_or(Errno::STALE)?;
        let is_kept = self.keeps(&change.path, is_directory(change.before))?;
        let (new, metadata) = (new_name(number), self.date(Metadata::of(&base, name)?, is_kept));
        let source = Source { directory: &base, name, content: None, interrupt: sides.interrupt };
        source.copy_with(metadata, staging.directory(), new.as_bytes())?;
        // Swapping is faster than replacing, for which some file systems write the content to the disk first.
        match renameat_with(staging.directory(), &new, &merged, name, RenameFlags::EXCHANGE) {
            Err(Errno::NOENT) => renameat(staging.directory(), &new, &merged, name),
            swapped => swapped,
        }
    }

    /// Gives a file another content, and a time after that of all others.
    fn put_content(&self, path: &[u8], content: &[u8], number: usize) -> Result<()> {
        let Self { sides, staging, .. } = self;
        let (parent, name) = split(path);
        let merged = sides.merged.directory(parent)?.ok_or(Errno::STALE)?;
        let metadata = Metadata::of(&merged, name)?.modified_at(self.dates.of((i64::MAX, 0)));
        let content = Some(staging::in_memory(content)?);
        let source = Source { directory: &merged, name, content, interrupt: sides.interrupt };
        let new = new_name(number);
        source.copy_with(metadata, staging.directory(), new.as_bytes())?;
        renameat_with(staging.directory(), &new, &merged, name, RenameFlags::EXCHANGE)
    }

    /// Whether an entry gets its real time.
    fn keeps(&self, path: &[u8], is_directory: bool) -> Result<bool> {
        Ok(self.keeps_all || self.rules.generated(path, is_directory)?.is_some())
    }

    fn date(&self, real: Metadata, is_kept: bool) -> Metadata {
        if is_kept { real } else { self.dates.give(real) }
    }
}

/// Removes what the real version does not have, or what is in its way.
fn remove(sides: &Sides<'_>, change: &WorkspaceChange) -> Result<()> {
    let is_in_the_way = match change.difference {
        Difference::Created => true,
        Difference::Replaced => is_directory(change.now) || is_directory(change.before),
        _ => false,
    };
    if !is_in_the_way {
        return Ok(());
    }
    let (parent, name) = split(&change.path);
    let Some(directory) = sides.merged.directory(parent)? else { return Ok(()) };
    let flags = if is_directory(change.now) { AtFlags::REMOVEDIR } else { AtFlags::empty() };
    match unlinkat(&directory, name, flags) {
        Err(Errno::NOENT) => Ok(()),
        Err(Errno::NOTEMPTY | Errno::EXIST) => omitted::remove_directory(&directory, name),
        removed => removed,
    }
}

/// Gives a directory that both sides have the times of the real one.
fn copy_times(sides: &Sides<'_>, path: &[u8]) -> Result<()> {
    let (parent, name) = split(path);
    let (Some(merged), Some(base)) = (sides.merged.directory(parent)?, sides.base.directory(parent)?) else {
        return Ok(());
    };
    match Metadata::of(&base, name) {
        Err(Errno::NOENT) => Ok(()),
        real => real?.apply_times(&merged, name),
    }
}

/// Gives an entry of the workspace the metadata of the real one, with times as `timed` says.
fn copy_metadata(sides: &Sides<'_>, path: &[u8], timed: impl FnOnce(Metadata) -> Metadata) -> Result<()> {
    let (parent, name) = split(path);
    let merged = sides.merged.directory(parent)?.ok_or(Errno::STALE)?;
    let base = sides.base.directory(parent)?.ok_or(Errno::STALE)?;
    let metadata = if path == b"." {
        // Only the mode of the workspace itself is compared.
        Metadata::of(&merged, name)?.with_mode(Metadata::of(&base, name)?.mode())
    } else {
        Metadata::of(&base, name)?
    };
    timed(metadata).apply(&merged, name, None).map(|_| ())
}
