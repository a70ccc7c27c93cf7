//! Brings in what another workspace has changed, through what programs see, before any program runs.
//!
//! The work grows with the changes of both sides, not with their trees. Of each file that both have changed, at most three
//! versions are in memory, none longer than [`nacre_merge::text::MAX_BYTES`].

use crate::changes::{Sides, Walks};
use crate::failure::{Trouble, at, errno_of};
use crate::git_rules::{GitRules, MergeRule};
use crate::known::Known;
use crate::metadata::Metadata;
use crate::selection::Selection;
use crate::sibling::{Lineage, Sibling};
use crate::staging::{Source, in_memory};
use crate::tree::{Tree, file_type, open_directory, open_file, split, status};
use nacre_containment::file_tree::unless;
use nacre_merge::driver::{Input, command as command_of};
use nacre_merge::entry::{Clash, Content, Decision, Entry, Kind as EntryKind, decide};
use nacre_merge::text::{self, AtConflict};
use nacre_protocol::files::temporary_name;
use nacre_protocol::workspace::{
    ChangedEntry, ConflictHunk, ConflictReason, Difference, DriverRun, Joined, Kind, MergeConflict, WorkspaceChange,
};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, mkdirat, openat, unlinkat};
use rustix::io::{Errno, Result};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;

/// Maximum bytes of the text of one version in a hunk; the rest is omitted.
const MAX_HUNK_BYTES: usize = 64 * 1024;
/// Maximum bytes of the text in all conflicts of a side together; later ones have no hunks.
const MAX_TEXT_BYTES: usize = 16 << 20;
/// Maximum bytes of a version of a file that a program merges.
const MAX_DRIVER_BYTES: u64 = 512 << 20;

/// The sides so far, and which of them have changed which paths. What is not in it is as in the base of the next side.
pub struct Sources {
    sides: BTreeMap<Vec<u8>, Vec<u32>>,
    /// Their layers. This workspace is the first one.
    lineages: Vec<Lineage>,
    /// The changes of this workspace above so many of its layers are in it. `None` before the first side.
    complete: Option<usize>,
}

impl Sources {
    /// Those before the first side is brought in.
    pub fn new(own: Lineage) -> Self {
        Self { sides: BTreeMap::new(), lineages: vec![own], complete: None }
    }

    /// See [`Sources::new`], and [`Sibling::open`].
    pub fn lineages(&self) -> &[Lineage] {
        &self.lineages
    }

    fn add(&mut self, changes: &[WorkspaceChange], side: u32) {
        for change in changes {
            let sides = self.sides.entry(change.path.clone()).or_default();
            // The first side is added again if a base is older.
            if side > 0 || sides.is_empty() {
                sides.push(side);
            }
        }
    }

    /// The sides that have changed a path; otherwise what is above it, or in it.
    fn of(&self, path: &[u8]) -> Vec<u32> {
        let mut above = path;
        loop {
            match self.sides.get(above) {
                Some(sides) => return sides.clone(),
                None if above.is_empty() => break,
                None => above = split(above).0,
            }
        }
        let inner = [path, b"/"].concat();
        let first = self.sides.range(inner.clone()..).next().filter(|(below, _)| below.starts_with(&inner));
        first.map(|(_, sides)| sides.clone()).unwrap_or_default()
    }
}

/// A side that is brought in.
pub struct Joining<'a> {
    /// What programs see, which is changed.
    pub merged: &'a Tree,
    /// The layers of this workspace; the newest first.
    pub layers: &'a [Tree],
    /// The other workspace.
    pub sibling: &'a Sibling,
    /// See [`Sides::marks`].
    pub marks: &'static str,
    /// Its number.
    pub side: u32,
    /// Whether a file gets markers at its conflicts.
    pub has_markers: bool,
    /// What of the other side is generated keeps its time. All else gets the present one: outputs of this side are not built
    /// from it.
    pub rules: &'a GitRules<'a>,
    /// See [`Sides::interrupt`].
    pub interrupt: &'a dyn Fn() -> Result<()>,
}

/// A change of the other side, and what becomes of it.
struct Planned<'a> {
    change: &'a WorkspaceChange,
    decision: Decision,
}

impl Joining<'_> {
    /// Brings the side in.
    ///
    /// # Errors
    /// Those of the system calls. A part may have been brought in then.
    pub fn run(&self, sources: &mut Sources) -> std::result::Result<Joined, Trouble> {
        let known = Known::default();
        let Sibling { seen, base, layers, lineage, .. } = self.sibling;
        let sides = |merged, base, layers| Sides {
            merged,
            base,
            layers,
            marks: self.marks,
            // Neither view changes.
            opened: (i64::MAX, 0),
            known: &known,
            interrupt: self.interrupt,
        };
        let common = sources.lineages[0].common(lineage);
        if sources.complete.is_none_or(|complete| common < complete) {
            let own = &self.layers[..self.layers.len() - common];
            sources.add(&sides(self.merged, base, own).changes(&Selection::all())?, 0);
            sources.complete = Some(common);
        }
        let changes = sides(seen, base, layers).changes(&Selection::all())?;
        let (with_base, with_other) = (sides(self.merged, base, &[]), sides(self.merged, seen, &[]));
        let walks = (Walks::new(&with_base), Walks::new(&with_other));
        let mut plans = Vec::new();
        for change in &changes {
            (self.interrupt)()?;
            let is_known = sources.sides.contains_key(&change.path);
            let decision = self.decide((&with_base, &walks.0), (&with_other, &walks.1), change, is_known);
            match decision.map_err(at(&change.path))? {
                Decision::Keep => {}
                decision => plans.push(Planned { change, decision }),
            }
        }
        let mut conflicts = Conflicts { sources, side: self.side, joined: Joined::default(), text_bytes: 0 };
        self.remove(&plans, &mut conflicts)?;
        for Planned { change, decision } in &plans {
            (self.interrupt)()?;
            self.put(change, *decision, &mut conflicts).map_err(at(&change.path))?;
        }
        self.finish(&plans)?;
        let mut joined = conflicts.joined;
        joined.conflicts.sort_by(|a, b| a.path.cmp(&b.path));
        sources.add(&changes, self.side);
        sources.lineages.push(lineage.clone());
        Ok(joined)
    }

    /// Decides about a change of the other side. `is_changed_here`: this side may have changed the path, too.
    fn decide(
        &self,
        (with_base, base): (&Sides<'_>, &Walks<'_>),
        (with_other, other): (&Sides<'_>, &Walks<'_>),
        change: &WorkspaceChange,
        is_changed_here: bool,
    ) -> Result<Decision> {
        let (parent, name) = split(&change.path);
        if let Some(inner) = inner_of_repository(&change.path)
            && status(base.merged.directory(repository_of(&change.path, inner))?.as_ref(), b".git")?.is_some()
        {
            // Its files belong together: those of the first side stay, with what all sides have added to it.
            let is_addition = change.before.is_none() && !is_changed_here;
            let is_data = inner.starts_with(b"objects/") || inner.starts_with(b"refs/");
            return Ok(if is_addition && is_data { Decision::Take } else { Decision::Keep });
        }
        if !is_changed_here {
            return Ok(Decision::Take);
        }
        let own = base.merged.directory(parent)?;
        let own_change = with_base.compare(own.as_ref(), base.base.directory(parent)?.as_ref(), name, &change.path)?;
        let Some(own_change) = own_change else { return Ok(Decision::Take) };
        let difference =
            with_other.compare(own.as_ref(), other.base.directory(parent)?.as_ref(), name, &change.path)?;
        let Some(difference) = difference else { return Ok(Decision::Keep) };
        // 0 is the content of the base. The difference of two versions says whether they share theirs.
        let is_new = |difference| difference != Difference::Metadata;
        let own_content = u8::from(is_new(own_change.difference));
        let other_content = match (is_new(change.difference), is_new(difference.difference)) {
            (false, _) => 0,
            (true, false) => own_content,
            (true, true) => 2,
        };
        Ok(decide(
            described(change.before, 0),
            described(own_change.now, own_content),
            described(change.now, other_content),
        ))
    }

    /// Removes what the other side does not have, or has something else in the place of; the deepest first.
    fn remove(&self, plans: &[Planned<'_>], conflicts: &mut Conflicts<'_>) -> std::result::Result<(), Trouble> {
        for Planned { change, .. } in plans.iter().rev().filter(|plan| plan.decision == Decision::Take) {
            (self.interrupt)()?;
            let remove = || {
                let (parent, name) = split(&change.path);
                let Some(directory) = self.merged.directory(parent)? else { return Ok(true) };
                let Some(found) = status(Some(&directory), name)? else { return Ok(true) };
                let is_directory = file_type(&found) == FileType::Directory;
                let becomes_directory = change.now.is_some_and(|now| now.kind == Kind::Directory);
                if change.now.is_some() && is_directory == becomes_directory {
                    return Ok(true);
                }
                let flags = if is_directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
                match unlinkat(&directory, name, flags) {
                    // This side has put something into it.
                    Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(change.now.is_none()),
                    removed => removed.map(|()| true),
                }
            };
            if !remove().map_err(at(&change.path))? {
                conflicts.add(&change.path, ConflictReason::Kind);
            }
        }
        Ok(())
    }

    /// Makes what a decision says.
    fn put(&self, change: &WorkspaceChange, decision: Decision, conflicts: &mut Conflicts<'_>) -> Result<()> {
        let path = &change.path;
        match decision {
            Decision::Keep => Ok(()),
            Decision::Take => {
                if !self.take(change)? {
                    conflicts.add(path, ConflictReason::Kind);
                }
                Ok(())
            }
            Decision::Conflict(clash) => {
                conflicts.add(path, reason_of(clash));
                // What was changed is more than nothing.
                if clash == Clash::DeletedByFirst { self.take(change).map(drop) } else { Ok(()) }
            }
            Decision::Join { content, mode, is_mode_open } => {
                if is_mode_open {
                    conflicts.add(path, ConflictReason::Mode);
                }
                match content {
                    Content::Theirs => self.copy(path, Some(mode)),
                    Content::Ours => self.give_mode(path, mode),
                    Content::Both => self.join_lines(change, mode, conflicts),
                }
            }
        }
    }

    /// Puts the other side's version in its place. False if this side has something else there, or above it.
    fn take(&self, change: &WorkspaceChange) -> Result<bool> {
        let path = &change.path;
        let Some(now) = change.now else { return Ok(true) };
        let (parent, name) = split(path);
        let Some(directory) = self.make_parents(parent)? else { return Ok(false) };
        let there = status(Some(&directory), name)?.map(|found| Kind::of(found.st_mode));
        match there {
            // It gets its metadata at the end. One in the place of something else is a conflict already.
            Some(Kind::Directory) => {}
            Some(kind) if kind == now.kind && is_metadata(change) => self.give_metadata(path)?,
            _ => self.copy(path, None)?,
        }
        Ok(true)
    }

    /// The directory at a path. Those that this side has deleted are made again. `None` if something else is there.
    fn make_parents(&self, path: &[u8]) -> Result<Option<OwnedFd>> {
        let mut missing = Vec::new();
        let mut above = path;
        let mut directory = loop {
            match self.merged.open(None, above) {
                Err(Errno::NOENT) if !above.is_empty() => {
                    missing.push(above);
                    above = split(above).0;
                }
                Err(Errno::NOTDIR | Errno::LOOP) => return Ok(None),
                opened => break opened?,
            }
        };
        for path in missing.into_iter().rev() {
            let (_, name) = split(path);
            mkdirat(&directory, name, Mode::RWXU)?;
            self.give_metadata(path)?;
            directory = open_directory(&directory, name)?;
        }
        Ok(Some(directory))
    }

    /// Copies an entry of the other side, in the place of one that is no directory.
    fn copy(&self, path: &[u8], mode: Option<u32>) -> Result<()> {
        let (parent, name) = split(path);
        let (from, to) = self.directories(parent)?;
        unless(&[Errno::NOENT], unlinkat(&to, name, AtFlags::empty()))?;
        let mut metadata = Metadata::of(&from, name)?;
        if self.rules.generated(path, false)?.is_none() {
            metadata = metadata.without_times();
        }
        let metadata = match mode {
            Some(mode) => {
                let mode = metadata.mode() & !0o7777 | mode;
                metadata.with_mode(mode)
            }
            None => metadata,
        };
        let source = Source { directory: &from, name, content: None, interrupt: self.interrupt };
        source.copy_with(metadata, &to, name).map(drop)
    }

    fn give_metadata(&self, path: &[u8]) -> Result<()> {
        let (parent, name) = split(path);
        let (from, to) = self.directories(parent)?;
        Metadata::of(&from, name)?.apply(&to, name, None).map(drop)
    }

    fn give_mode(&self, path: &[u8], mode: u32) -> Result<()> {
        let (parent, name) = split(path);
        let directory = self.merged.directory(parent)?.ok_or(Errno::STALE)?;
        let metadata = Metadata::of(&directory, name)?;
        let mode = metadata.mode() & !0o7777 | mode;
        if mode == metadata.mode() {
            return Ok(());
        }
        metadata.with_mode(mode).apply(&directory, name, None).map(drop)
    }

    /// Merges the lines of a file that both sides have changed.
    fn join_lines(&self, change: &WorkspaceChange, mode: u32, conflicts: &mut Conflicts<'_>) -> Result<()> {
        let path = &change.path;
        let rule = self.rules.merge_of(path)?;
        if let MergeRule::Driver(driver) = rule {
            return self.leave_to_driver(driver, change, mode, conflicts);
        }
        let (parent, name) = split(path);
        let (from, to) = self.directories(parent)?;
        let base = match change.before {
            Some(before) if before.kind == Kind::File => {
                let directory = self.sibling.base.directory(parent)?.ok_or(Errno::STALE)?;
                read(&directory, name)?
            }
            _ => Some(Vec::new()),
        };
        let texts = if rule == MergeRule::Whole { None } else { base.zip(read(&to, name)?).zip(read(&from, name)?) };
        let Some(((base, ours), theirs)) = texts else {
            conflicts.add(path, ConflictReason::Binary);
            return self.give_mode(path, mode);
        };
        let labels = (conflicts.label_before(path), format!("side {}", self.side));
        let at_conflict = match (rule, self.has_markers) {
            (MergeRule::Union, _) => AtConflict::Both,
            (_, true) => AtConflict::Markers { ours: &labels.0, theirs: &labels.1 },
            (_, false) => AtConflict::Ours,
        };
        let merged = text::merge(&base, &ours, &theirs, at_conflict);
        if !merged.conflicts.is_empty() {
            conflicts.add_hunks(path, merged.conflicts);
        }
        let metadata = Metadata::of(&to, name)?.without_times();
        let mode = metadata.mode() & !0o7777 | mode;
        unlinkat(&to, name, AtFlags::empty())?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&to, name, flags, Mode::RUSR | Mode::WUSR)?;
        File::from(file).write_all(&merged.content).map_err(|error| errno_of(&error))?;
        metadata.with_mode(mode).apply(&to, name, None).map(drop)
    }

    /// Puts the versions of a file into the root of the workspace, for a program that merges them.
    fn leave_to_driver(
        &self,
        number: usize,
        change: &WorkspaceChange,
        mode: u32,
        conflicts: &mut Conflicts<'_>,
    ) -> Result<()> {
        let path = &change.path;
        self.give_mode(path, mode)?;
        let (parent, name) = split(path);
        let (from, to) = self.directories(parent)?;
        let base = match change.before {
            Some(before) if before.kind == Kind::File => {
                Some(self.sibling.base.directory(parent)?.ok_or(Errno::STALE)?)
            }
            _ => None,
        };
        let sizes = [Some(&from), Some(&to), base.as_ref()].map(|directory| status(directory, name));
        for size in sizes {
            if size?.is_some_and(|found| found.st_size as u64 > MAX_DRIVER_BYTES) {
                conflicts.add(path, ConflictReason::Binary);
                return Ok(());
            }
        }
        let root = self.merged.directory(b"")?.ok_or(Errno::STALE)?;
        // The owner of the file may read its versions.
        let metadata = Metadata::of(&to, name)?.without_times();
        let mode = metadata.mode() & !0o7777 | 0o600;
        let metadata = metadata.with_mode(mode);
        let free_name = || String::from_utf8_lossy(&temporary_name()).into_owned();
        let expose = |directory: Option<&OwnedFd>| {
            let temporary = free_name();
            let content = if directory.is_none() { Some(in_memory(b"")?) } else { None };
            let source = Source { directory: directory.unwrap_or(&to), name, content, interrupt: self.interrupt };
            source.copy_with(metadata.clone(), &root, temporary.as_bytes())?;
            Ok::<_, Errno>(temporary)
        };
        let versions = [expose(base.as_ref())?, expose(Some(&from))?];
        let (result, labels) = (free_name(), (conflicts.label_before(path), format!("side {}", self.side)));
        let (driver, command) = self.rules.driver(number);
        let input = Input {
            base: &versions[0],
            ours: &result,
            theirs: &versions[1],
            marker_size: self.rules.marker_size(path)?,
            path,
            labels: ["base", &labels.0, &labels.1],
        };
        let (command, sides) = (command_of(command, input), conflicts.sides_of(path));
        let pending = DriverRun { path: path.clone(), sides, driver: driver.into(), command, result, versions };
        conflicts.joined.pending.push(pending);
        Ok(())
    }

    /// Gives directories what they have on the other side. Until now, files were put into them.
    fn finish(&self, plans: &[Planned<'_>]) -> std::result::Result<(), Trouble> {
        let is_directory = |plan: &&Planned<'_>| {
            plan.decision == Decision::Take && plan.change.now.is_some_and(|now| now.kind == Kind::Directory)
        };
        for Planned { change, .. } in plans.iter().rev().filter(is_directory) {
            // There is none in the place of something else that this side has.
            let given = self.give_metadata(&change.path);
            unless(&[Errno::STALE, Errno::NOENT], given).map_err(at(&change.path))?;
        }
        Ok(())
    }

    /// The directory at a path, on the other side and on this one.
    fn directories(&self, path: &[u8]) -> Result<(OwnedFd, OwnedFd)> {
        let (from, to) = (self.sibling.seen.directory(path)?, self.merged.directory(path)?);
        from.zip(to).ok_or(Errno::STALE)
    }
}

/// The conflicts of a side.
struct Conflicts<'a> {
    sources: &'a Sources,
    side: u32,
    joined: Joined,
    text_bytes: usize,
}

impl Conflicts<'_> {
    fn add(&mut self, path: &[u8], reason: ConflictReason) {
        let sides = self.sides_of(path);
        self.joined.conflicts.push(MergeConflict { path: path.to_vec(), reason, sides, hunks: Vec::new() });
    }

    fn sides_of(&self, path: &[u8]) -> Vec<u32> {
        let mut sides = self.sources.of(path);
        sides.push(self.side);
        sides
    }

    fn add_hunks(&mut self, path: &[u8], conflicts: Vec<text::Conflict>) {
        self.add(path, ConflictReason::Content);
        let cut = |mut text: Vec<u8>| {
            text.truncate(MAX_HUNK_BYTES);
            text
        };
        for text::Conflict { line, our_text, their_text, .. } in conflicts {
            let hunk = ConflictHunk { line: line as u32 + 1, ours: cut(our_text), theirs: cut(their_text) };
            self.text_bytes += hunk.ours.len() + hunk.theirs.len();
            if let Some(conflict) = self.joined.conflicts.last_mut().filter(|_| self.text_bytes <= MAX_TEXT_BYTES) {
                conflict.hunks.push(hunk);
            }
        }
    }

    /// What markers say of the sides that have changed a path before.
    fn label_before(&self, path: &[u8]) -> String {
        let sides: Vec<String> = self.sources.of(path).iter().map(u32::to_string).collect();
        format!("side {}", sides.join(" and "))
    }
}

fn reason_of(clash: Clash) -> ConflictReason {
    match clash {
        Clash::DeletedByFirst | Clash::DeletedBySecond => ConflictReason::Deleted,
        Clash::Kind => ConflictReason::Kind,
        Clash::Target => ConflictReason::Target,
    }
}

fn is_metadata(change: &WorkspaceChange) -> bool {
    change.difference == Difference::Metadata
}

fn described(entry: Option<ChangedEntry>, content: u8) -> Option<Entry> {
    entry.map(|ChangedEntry { kind, mode, .. }| Entry {
        kind: match kind {
            Kind::File => EntryKind::File,
            Kind::Directory => EntryKind::Directory,
            Kind::Symlink => EntryKind::Symlink,
            _ => EntryKind::Other,
        },
        mode,
        content: if kind == Kind::Directory { 0 } else { content },
    })
}

/// The path of a file inside of a repository of git, from its `.git`. `None` outside of one.
fn inner_of_repository(path: &[u8]) -> Option<&[u8]> {
    let mut start = 0;
    loop {
        let end = path[start..].iter().position(|byte| *byte == b'/').map(|at| start + at)?;
        if &path[start..end] == b".git" {
            return Some(&path[end + 1..]);
        }
        start = end + 1;
    }
}

/// The directory that has the `.git` above this inner path.
fn repository_of<'a>(path: &'a [u8], inner: &[u8]) -> &'a [u8] {
    split(&path[..path.len() - inner.len() - 1]).0
}

/// The content of a file; `None` if it is binary, or is none any more.
fn read(directory: &OwnedFd, name: &[u8]) -> Result<Option<Vec<u8>>> {
    let file = open_file(directory, name)?;
    let found = fstat(&file)?;
    if file_type(&found) != FileType::RegularFile || found.st_size as u64 > text::MAX_BYTES {
        return Ok(None);
    }
    let mut content = Vec::new();
    let read = File::from(file).take(text::MAX_BYTES + 1).read_to_end(&mut content);
    read.map_err(|error| errno_of(&error))?;
    Ok(Some(content).filter(|content| !text::is_binary(content)))
}
