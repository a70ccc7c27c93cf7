//! The changes of a workspace, compared with the real directory.
//!
//! The layers only name candidates; comparing what programs see with the real directory finds the truth. So rewriting the
//! same content is no change. The real directory is never searched: only where a layer hides a whole directory
//! are all names of both sides compared.

use crate::Tree;
use crate::failure::{Trouble, at};
use crate::known::Known;
use crate::metadata::attributes;
use crate::omitted::is_omitted;
use crate::opening;
use crate::selection::{Selection, is_within};
use crate::tree::{changed_at, file_type, join, names, open_file, open_path, split, status};
use crate::walk::Walk;
use nacre_protocol::workspace::{ChangedEntry, Difference, Kind, WorkspaceChange};
use rustix::fs::{FileType, SeekFrom, Stat, fgetxattr, fstat, readlinkat, seek};
use rustix::io::{Errno, Result, pread};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::os::fd::OwnedFd;

/// Bytes of each read of a comparison.
const BLOCK: usize = 256 * 1024;
/// Maximum bytes of all paths of a comparison.
pub const MAX_PATH_BYTES: usize = 256 * 1024 * 1024;

/// What a comparison looks at.
pub struct Sides<'a> {
    /// What programs see.
    pub merged: &'a Tree,
    /// The real directory.
    pub base: &'a Tree,
    /// The layers above it; the first one receives the writes.
    pub layers: &'a [Tree],
    /// The prefix of the extended attributes with which the kernel marks layers: `trusted` or `user`.
    pub marks: &'static str,
    /// When the workspace was opened, in seconds and nanoseconds of a change time. A later change of mode or owner of a
    /// real directory is not a change of the workspace.
    pub opened: (i64, i64),
    /// What commits of the workspace have made of the real directory since then.
    pub known: &'a Known,
    /// Fails once the caller has gone. Called now and then.
    pub interrupt: &'a dyn Fn() -> Result<()>,
}

/// The sides of a comparison, for reading one directory after another.
pub struct Walks<'a> {
    /// See [`Sides::merged`].
    pub merged: Walk<'a>,
    /// See [`Sides::base`].
    pub base: Walk<'a>,
    /// See [`Sides::layers`].
    pub layers: Vec<Walk<'a>>,
}

impl<'a> Walks<'a> {
    /// New walks through all sides.
    pub fn new(sides: &Sides<'a>) -> Self {
        let layers = sides.layers.iter().map(Walk::new).collect();
        Self { merged: Walk::new(sides.merged), base: Walk::new(sides.base), layers }
    }
}

/// What a layer has at a path.
pub struct InLayer {
    /// The directory, if it is one.
    pub directory: Option<OwnedFd>,
    /// It hides what is there in the layers below and in the real directory.
    pub hides: bool,
}

/// A directory that is still to be compared.
struct UncomparedDirectory {
    path: Vec<u8>,
    /// A layer hides the real directory, so every name of both sides is compared.
    whole: bool,
    /// The real directory was made after the opening, and programs in the workspace never saw it. What only it has belongs
    /// to other programs, unless a commit put it there.
    is_foreign: bool,
    /// So does what was created there at this moment or later: a commit had made the real directory equal.
    equal_since: Option<(i64, i64)>,
}

impl Sides<'_> {
    /// The changed paths of a selection, in the order of their bytes.
    ///
    /// # Errors
    /// Those of the system calls; `EXDEV` if another file system is mounted below the workspace, and `ENAMETOOLONG` if the paths
    /// have more than [`MAX_PATH_BYTES`]: then directories are very deep.
    pub fn changes(&self, selection: &Selection) -> std::result::Result<Vec<WorkspaceChange>, Trouble> {
        let mut found = Vec::new();
        if let Some(change) = self.root()? {
            found.push(change);
        }
        let walks = Walks::new(self);
        let mut pending =
            vec![UncomparedDirectory { path: Vec::new(), whole: false, is_foreign: false, equal_since: None }];
        let mut bytes = 0;
        while let Some(directory) = pending.pop() {
            (self.interrupt)()?;
            let (had, has) = (found.len(), pending.len());
            self.compare_directory(&walks, &directory, selection, &mut found, &mut pending)?;
            let new =
                found[had..].iter().map(|change| &change.path).chain(pending[has..].iter().map(|below| &below.path));
            bytes += new.map(Vec::len).sum::<usize>();
            if bytes > MAX_PATH_BYTES {
                return Err(at(&directory.path)(Errno::NAMETOOLONG));
            }
        }
        found.retain(|change| selection.includes(&change.path));
        found.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        Ok(found)
    }

    /// The changes that a call applies: those at its paths and below, all by default, and the directories above that they
    /// need. `wanted` tells of a change which entry the call wants, and which one is there.
    ///
    /// # Errors
    /// [`Trouble::NoChange`], and those of the system calls.
    pub fn choose(
        &self,
        paths: Option<Vec<Vec<u8>>>,
        wanted: impl Fn(&WorkspaceChange) -> (Option<ChangedEntry>, Option<ChangedEntry>),
    ) -> std::result::Result<Vec<WorkspaceChange>, Trouble> {
        let selection = paths.clone().map_or_else(Selection::all, Selection::of);
        let selected = self.changes(&selection)?;
        // They are sorted.
        let first = |from: &[u8]| selected.get(selected.partition_point(|change| &change.path[..] < from));
        let names_none = |path: &Vec<u8>| {
            if path == b"." {
                return selected.is_empty();
            }
            let is_within =
                |change: Option<&WorkspaceChange>| change.is_some_and(|change| is_within(&change.path, path));
            !is_within(first(path)) && !is_within(first(&[path, &b"/"[..]].concat()))
        };
        if let Some(path) = paths.into_iter().flatten().find(names_none) {
            return Err(Trouble::NoChange(path));
        }
        let is_directory = |entry: Option<ChangedEntry>| entry.is_some_and(|entry| entry.kind == Kind::Directory);
        let becomes_directory = |change: &WorkspaceChange| {
            let (wanted, present) = wanted(change);
            is_directory(wanted) && !is_directory(present)
        };
        let mut seen = HashSet::new();
        let mut above = Vec::new();
        for change in selected.iter().filter(|change| wanted(change).0.is_some()) {
            let mut parent = split(&change.path).0;
            while !parent.is_empty() && seen.insert(parent) {
                above.extend(self.change(parent).map_err(at(parent))?.filter(becomes_directory));
                parent = split(parent).0;
            }
        }
        let all: BTreeMap<_, _> =
            selected.into_iter().chain(above).map(|change| (change.path.clone(), change)).collect();
        Ok(all.into_values().collect())
    }

    /// The mode of the workspace itself. Its owner may be another than that of the real directory, without root.
    fn root(&self) -> Result<Option<WorkspaceChange>> {
        let (Some(merged), Some(base)) = (self.merged.directory(b"")?, self.base.directory(b"")?) else {
            return Err(Errno::STALE);
        };
        let (now, before) = (fstat(&merged)?, fstat(&base)?);
        let is_changed = now.st_mode != before.st_mode && self.is_untouched(b"", &before);
        let (now, before) = (Some(entry(&now)), Some(entry(&before)));
        Ok(is_changed.then(|| WorkspaceChange { path: b".".to_vec(), difference: Difference::Metadata, now, before }))
    }

    /// The change of one path, if it differs.
    ///
    /// # Errors
    /// As for [`Sides::changes`].
    pub fn change(&self, path: &[u8]) -> Result<Option<WorkspaceChange>> {
        let (parent, name) = split(path);
        let (merged, base) = (self.merged.directory(parent)?, self.base.directory(parent)?);
        self.compare(merged.as_ref(), base.as_ref(), name, path)
    }

    fn compare_directory(
        &self,
        walks: &Walks<'_>,
        UncomparedDirectory { path, whole, is_foreign, equal_since }: &UncomparedDirectory,
        selection: &Selection,
        found: &mut Vec<WorkspaceChange>,
        pending: &mut Vec<UncomparedDirectory>,
    ) -> std::result::Result<(), Trouble> {
        let opened = || {
            let merged = walks.merged.directory(path)?;
            let base = match walks.base.directory(path) {
                // What cannot be read counts as missing.
                Err(Errno::ACCESS) => None,
                base => base?,
            };
            let layers = walks.layers.iter().map(|layer| self.look(layer, path)).collect::<Result<Vec<_>>>()?;
            let is_hidden = layers.iter().any(|layer| layer.hides);
            let layers: Vec<OwnedFd> = layers.into_iter().filter_map(|layer| layer.directory).collect();
            let whole = *whole || merged.is_none() || base.is_none() || is_hidden;
            let is_foreign = *is_foreign
                || self.known.has_made(path)
                || (is_hidden && merged.is_some() && is_new(base.as_ref(), self.opened));
            let equal_since = equal_since.or(self.known.equal_since(path)).filter(|_| merged.is_some());
            // The merged view lists nothing once the real directory was deleted, so the layers count in any case.
            let mut candidates = BTreeSet::new();
            for directory in layers.iter().chain(merged.as_ref().filter(|_| whole)) {
                candidates.extend(names(directory)?);
            }
            if let Some(base) = base.as_ref().filter(|_| whole) {
                for name in names(base)? {
                    let is_later =
                        || equal_since.is_some_and(|moment| is_new(open_path(base, &name).ok().as_ref(), moment));
                    if (!is_foreign && !is_later()) || self.known.has_put(&join(path, &name)) {
                        candidates.insert(name);
                    }
                }
            }
            Ok((merged, base, whole, is_foreign, equal_since, candidates))
        };
        let (merged, base, whole, is_foreign, equal_since, candidates) = opened().map_err(at(path))?;
        for name in candidates {
            let path = join(path, &name);
            if is_omitted(&path) || !selection.reaches_into(&path) {
                continue;
            }
            found.extend(self.compare(merged.as_ref(), base.as_ref(), &name, &path).map_err(at(&path))?);
            let is_directory = |side: Option<&OwnedFd>| {
                Ok::<_, Errno>(status(side, &name)?.is_some_and(|status| file_type(&status) == FileType::Directory))
            };
            let is_either = || {
                let is_ours = !self.known.has_removed(&path);
                Ok(is_directory(merged.as_ref())? || (is_ours && is_directory(base.as_ref())?))
            };
            if is_either().map_err(at(&path))? {
                pending.push(UncomparedDirectory { path, whole, is_foreign, equal_since });
            }
        }
        Ok(())
    }

    /// Looks what a layer has at a path.
    ///
    /// # Errors
    /// Those of the system calls.
    pub fn look(&self, layer: &Walk<'_>, path: &[u8]) -> Result<InLayer> {
        match layer.open(path) {
            Err(Errno::NOENT) => Ok(InLayer { directory: None, hides: false }),
            // A whiteout, for example.
            Err(Errno::NOTDIR | Errno::LOOP) => Ok(InLayer { directory: None, hides: true }),
            opened => {
                let directory = opened?;
                let hides = self.has_mark(&directory, "opaque")? || self.has_mark(&directory, "redirect")?;
                Ok(InLayer { directory: Some(directory), hides })
            }
        }
    }

    /// Whether the kernel has marked a directory of a layer: as `opaque`, or with a `redirect` if it was renamed.
    ///
    /// # Errors
    /// Those of fgetxattr(2).
    pub fn has_mark(&self, directory: &OwnedFd, mark: &str) -> Result<bool> {
        let mut value = [0; 1];
        match fgetxattr(directory, format!("{}.overlay.{mark}", self.marks), &mut value) {
            // `x` only says that entries may carry marks of their own.
            Ok(_) => Ok(mark != "opaque" || value != *b"x"),
            Err(Errno::RANGE) => Ok(true),
            Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(false),
            Err(errno) => Err(errno),
        }
    }

    /// The change of an entry of two directories, if it differs.
    ///
    /// # Errors
    /// Those of the system calls.
    pub fn compare(
        &self,
        merged: Option<&OwnedFd>,
        base: Option<&OwnedFd>,
        name: &[u8],
        path: &[u8],
    ) -> Result<Option<WorkspaceChange>> {
        let (now, before) = (status(merged, name)?, status(base, name)?);
        let difference = match (&now, &before) {
            (None, None) => return Ok(None),
            (Some(_), None) => Difference::Created,
            (None, Some(_)) if self.known.has_removed(path) => return Ok(None),
            (None, Some(_)) => Difference::Deleted,
            (Some(now), Some(before)) => match (merged, base) {
                (Some(merged), Some(base)) => match self.difference((merged, now), (base, before), name, path)? {
                    Some(difference) => difference,
                    None => return Ok(None),
                },
                _ => return Ok(None),
            },
        };
        let (now, before) = (now.as_ref().map(entry), before.as_ref().map(entry));
        Ok(Some(WorkspaceChange { path: path.to_vec(), difference, now, before }))
    }

    /// The directories of changes that a layer hides, or a directory above them.
    ///
    /// # Errors
    /// Those of the system calls.
    pub fn hidden_parents(&self, changes: &[WorkspaceChange]) -> Result<Vec<Vec<u8>>> {
        let layers: Vec<_> = self.layers.iter().map(Walk::new).collect();
        let mut known: HashMap<&[u8], bool> = HashMap::from([(&b""[..], false)]);
        for change in changes {
            let mut unknown = Vec::new();
            let mut parent = split(&change.path).0;
            while !known.contains_key(parent) {
                unknown.push(parent);
                parent = split(parent).0;
            }
            let mut hides = known.get(parent).copied().unwrap_or(false);
            for path in unknown.into_iter().rev() {
                for layer in &layers {
                    hides = hides || self.look(layer, path)?.hides;
                }
                known.insert(path, hides);
            }
        }
        Ok(known.into_iter().filter(|(_, hides)| *hides).map(|(path, _)| path.to_vec()).collect())
    }

    /// Whether no other program has changed the mode or owner of a real directory since the opening.
    fn is_untouched(&self, path: &[u8], found: &Stat) -> bool {
        changed_at(found) < self.opened || self.known.has_directory(path, found)
    }

    /// How two existing entries of the same name differ.
    fn difference(
        &self,
        (merged, now): (&OwnedFd, &Stat),
        (base, before): (&OwnedFd, &Stat),
        name: &[u8],
        path: &[u8],
    ) -> Result<Option<Difference>> {
        let kind = file_type(now);
        if kind != file_type(before) {
            return Ok(Some(Difference::Replaced));
        }
        let is_modified = match kind {
            FileType::RegularFile => now.st_size != before.st_size || !self.has_same_content(merged, base, name)?,
            FileType::Symlink => readlinkat(merged, name, Vec::new())? != readlinkat(base, name, Vec::new())?,
            FileType::CharacterDevice | FileType::BlockDevice => now.st_rdev != before.st_rdev,
            _ => false,
        };
        if is_modified {
            return Ok(Some(Difference::Modified));
        }
        if kind == FileType::Directory && !self.is_untouched(path, before) {
            return Ok(None);
        }
        let owned = |status: &Stat| (status.st_mode, status.st_uid, status.st_gid);
        let differs = match kind {
            FileType::Symlink => (now.st_uid, now.st_gid) != (before.st_uid, before.st_gid),
            _ => owned(now) != owned(before) || attributes(merged, name)? != attributes(base, name)?,
        };
        Ok(differs.then_some(Difference::Metadata))
    }

    /// Whether two regular files have the same content. Where both have a hole, nothing is read.
    fn has_same_content(&self, merged: &OwnedFd, base: &OwnedFd, name: &[u8]) -> Result<bool> {
        let (a, b) = match (open_file(merged, name)?, open_file(base, name)) {
            // What cannot be read counts as other content.
            (_, Err(Errno::ACCESS)) => return Ok(false),
            (a, b) => (a, b?),
        };
        let (now, before) = (fstat(&a)?, fstat(&b)?);
        let is_regular = |found: &Stat| file_type(found) == FileType::RegularFile;
        if !is_regular(&now) || !is_regular(&before) || now.st_size != before.st_size {
            return Ok(false);
        }
        is_same_content(&a, &b, now.st_size as u64, self.interrupt)
    }
}

/// Whether two files of this size have the same content. Where both have a hole, nothing is read.
///
/// # Errors
/// Those of the system calls.
pub fn is_same_content(a: &OwnedFd, b: &OwnedFd, size: u64, interrupt: &dyn Fn() -> Result<()>) -> Result<bool> {
    let length = usize::try_from(size).map_or(BLOCK, |size| size.min(BLOCK));
    let (mut left, mut right) = (vec![0; length], vec![0; length]);
    let mut at = 0;
    while at < size {
        interrupt()?;
        let next = [next_data(a, at)?, next_data(b, at)?];
        let Some(data) = next.into_iter().flatten().min() else { return Ok(true) };
        let (had, has) = (fill(a, &mut left, data)?, fill(b, &mut right, data)?);
        if left[..had] != right[..has] {
            return Ok(false);
        }
        if had < length {
            return Ok(true);
        }
        at = data + had as u64;
    }
    Ok(true)
}

/// Whether a real entry was created at this moment or later.
fn is_new(entry: Option<&OwnedFd>, moment: (i64, i64)) -> bool {
    let born = entry.and_then(opening::born);
    born.is_some_and(|(seconds, nanoseconds)| (seconds, i64::from(nanoseconds)) >= moment)
}

fn entry(status: &Stat) -> ChangedEntry {
    let kind = Kind::of(status.st_mode);
    let size = if kind == Kind::Directory { 0 } else { status.st_size as u64 };
    ChangedEntry { kind, size, mode: status.st_mode & 0o7777 }
}

/// The start of the next data of a file that is no hole. `None` if only a hole follows.
fn next_data(file: &OwnedFd, at: u64) -> Result<Option<u64>> {
    match seek(file, SeekFrom::Data(at)) {
        Err(Errno::NXIO) => Ok(None),
        // Not every file system knows its holes.
        Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok(Some(at)),
        data => data.map(Some),
    }
}

/// Reads until the buffer is full or the file ends.
fn fill(file: &OwnedFd, buffer: &mut [u8], at: u64) -> Result<usize> {
    let mut length = 0;
    while length < buffer.len() {
        match pread(file, &mut buffer[length..], at + length as u64) {
            Ok(0) => break,
            Ok(more) => length += more,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(length)
}

#[cfg(test)]
#[path = "changes_tests.rs"]
mod tests;
