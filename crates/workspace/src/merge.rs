//! Merges layers into one that shows the same: with new directories, and further names of the files.
//!
//! Sealed layers never change, so several can share a file. A directory that hides what is below the merged layers becomes
//! opaque. In it, marks for deleted files have no meaning, and the kernel would show them.
//!
//! It would also list them in a directory that was new in the oldest merged layer, and has no origin. An empty one says that it
//! may have such marks. As root, new directories are opaque.
//!
//! As root, the kernel renames a directory without its content: a `redirect` in the layer says where the layers below have
//! it. See [`Renamed`] and [`Parent::find`].
//!
//! A file that was copied from one of the merged layers is noted as a copy of what is below them: the merged layer does not have
//! what it was copied from.

use crate::duplicate::Directories;
use crate::handle::{Copies, Origin};
use crate::metadata::Metadata;
use crate::tree::{Tree, file_type, join, names, open_directory, open_path, own_path, status};
use crate::walk::Walk;
use rustix::fs::{AtFlags, FileType, Mode, Stat, getxattr, linkat, mkdirat, mknodat};
use rustix::io::{Errno, Result};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::os::fd::OwnedFd;
use std::rc::Rc;

/// The attribute that says where the layers below have a renamed directory. Only root has it.
const REDIRECT: &str = "trusted.overlay.redirect";

/// A directory that has another path in some layers, because it, or one above it, was renamed later.
#[derive(Debug, PartialEq, Eq)]
struct Renamed {
    /// Its number in [`Directories`].
    number: usize,
    /// Its path in these layers.
    path: Vec<u8>,
}

/// Where layers have a directory: at the path below that of a renamed one.
type Place = Rc<Renamed>;

/// A directory to be merged.
struct UnmergedDirectory {
    /// Its number in [`Directories`].
    number: usize,
    /// The layers that have it, and where; the newest first.
    parts: Vec<(usize, Place)>,
    /// Where it is below the merged layers. `None` if they hide what is there.
    below: Option<Place>,
}

/// A directory whose entries are being merged.
struct Parent<'a> {
    layers: &'a [Tree],
    marks: &'a str,
    /// The layers that have it; the newest first.
    parts: Vec<Part>,
    below: Option<(Place, Vec<u8>)>,
}

/// A directory of a layer.
struct Part {
    layer: usize,
    place: Place,
    path: Vec<u8>,
    directory: OwnedFd,
}

/// A directory in a directory that is being merged.
struct Child {
    parts: Vec<(usize, Place)>,
    below: Option<Place>,
    metadata: Metadata,
}

/// Fills an empty layer with what these show together; the newest first. Returns the number of entries.
///
/// # Errors
/// Those of the system calls. Something may have been created.
pub fn merge(layers: &[Tree], to: &Tree, marks: &str, interrupt: &dyn Fn() -> Result<()>) -> Result<u64> {
    let sources: Vec<Walk<'_>> = layers.iter().map(Walk::new).collect();
    let targets = Walk::new(to);
    let copies = (marks == "trusted").then(|| Copies::of(layers, interrupt)).transpose()?;
    let mut directories = Directories::default();
    let mut entries = 0;
    let root = Rc::new(Renamed { number: 0, path: Vec::new() });
    let everywhere: Vec<_> = (0..layers.len()).map(|layer| (layer, Rc::clone(&root))).collect();
    let found = everywhere.iter().map(|(layer, _)| sources[*layer].directory(b"")?.ok_or(Errno::STALE));
    let metadata = found.map(|root| Metadata::with_marks(&root?, b".")).collect::<Result<Vec<_>>>()?;
    directories.add(None, Vec::new(), joined(&metadata, marks)?);
    let mut pending = vec![UnmergedDirectory { number: 0, parts: everywhere, below: Some(root) }];
    while let Some(UnmergedDirectory { number, parts, below }) = pending.pop() {
        let target = targets.directory(&directories.path_of(number))?.ok_or(Errno::STALE)?;
        let path_at = |place: &Place| match directories.path_below(place.number, number) {
            below if below.is_empty() => place.path.clone(),
            below => join(&place.path, &below),
        };
        let parts = parts.into_iter().map(|(layer, place)| {
            let path = path_at(&place);
            let directory = sources[layer].directory(&path)?.ok_or(Errno::STALE)?;
            Ok(Part { layer, place, path, directory })
        });
        let parts = parts.collect::<Result<Vec<_>>>()?;
        let below = below.map(|place| (Rc::clone(&place), path_at(&place)));
        let parent = Parent { layers, marks, parts, below };
        for (name, (first, kind)) in parent.entries()? {
            interrupt()?;
            let source = &parent.parts[first].directory;
            if file_type(&kind) == FileType::Directory {
                mkdirat(&target, &name[..], Mode::RWXU)?;
                let Child { parts, below, metadata } = parent.find(&name, directories.next())?;
                let number = directories.add(Some(number), name, metadata);
                pending.push(UnmergedDirectory { number, parts, below });
            } else {
                if parent.below.is_none() && is_whiteout(source, &name, &kind, marks)? {
                    continue;
                }
                if let Some((copies, origin)) = copies.as_ref().zip(Origin::of(source, &name)?) {
                    match copies.follow(origin.clone()) {
                        Some(below) if below == origin => {}
                        Some(below) => below.put(source, &name)?,
                        None => Origin::forget(source, &name),
                    }
                }
                link(source, &target, &name, &kind)?;
            }
            entries += 1;
        }
    }
    directories.finish(&targets, interrupt)?;
    Ok(entries)
}

/// Where the kernel looks for a directory in the next layer.
enum Next {
    /// In the directory that contains it, by this name.
    Name(Vec<u8>),
    /// At this path from the root of the layer.
    Path(Vec<u8>),
}

/// The kernel's search for a directory through the layers (`ovl_lookup`).
struct LayerSearch<'a> {
    marks: &'a str,
    next: Next,
    /// What was found hides the layers below.
    hides: bool,
}

/// A directory of a layer, with its marks.
type Found = (OwnedFd, Metadata);

impl LayerSearch<'_> {
    /// Looks for a name in a directory, on the way of [`Next::Path`] between `before` and `after`.
    fn look(&mut self, directory: &OwnedFd, name: &[u8], before: &[u8], after: &[u8]) -> Result<Option<Found>> {
        let Some(found) = status(Some(directory), name)? else { return Ok(None) };
        if file_type(&found) != FileType::Directory {
            self.hides = true;
            return Ok(None);
        }
        let directory = open_directory(directory, name)?;
        let metadata = Metadata::with_marks(&directory, b".")?;
        if metadata.attribute(&format!("{}.overlay.opaque", self.marks)) == Some(b"y") {
            self.hides = true;
        } else if self.marks == "trusted"
            && let Some(redirect) = metadata.attribute(REDIRECT)
        {
            match (redirect, &self.next) {
                ([b'/', path @ ..], _) => {
                    // What is above it may be hidden.
                    self.hides = false;
                    self.next = Next::Path([path, after].concat());
                }
                (name, Next::Path(_)) => self.next = Next::Path([before, name, after].concat()),
                (name, Next::Name(_)) => self.next = Next::Name(name.to_vec()),
            }
        }
        Ok(Some((directory, metadata)))
    }

    /// Looks for a path in a layer. Directories on the way may have been renamed, too.
    fn look_from_root(&mut self, layer: &Tree, path: &[u8]) -> Result<Option<Found>> {
        let mut found = None;
        let mut directory = layer.directory(b"")?.ok_or(Errno::STALE)?;
        let mut start = 0;
        for name in path.split(|byte| *byte == b'/') {
            let end = start + name.len();
            let Some((next, metadata)) = self.look(&directory, name, &path[..start], &path[end..])? else {
                return Ok(None);
            };
            found = Some(metadata);
            directory = next;
            start = end + 1;
        }
        Ok(found.map(|metadata| (directory, metadata)))
    }
}

impl Parent<'_> {
    /// The entries by name: for each, the number of the newest part that has it.
    fn entries(&self) -> Result<BTreeMap<Vec<u8>, (usize, Stat)>> {
        let mut found = BTreeMap::new();
        for (at, Part { directory, .. }) in self.parts.iter().enumerate() {
            for name in names(directory)? {
                if let Entry::Vacant(free) = found.entry(name) {
                    let entry = status(Some(directory), free.key())?.ok_or(Errno::STALE)?;
                    free.insert((at, entry));
                }
            }
        }
        Ok(found)
    }

    /// Finds a directory in this one as the kernel does: an absolute redirect leads to all layers below, another one to those
    /// that have this directory. `number` is that of the directory.
    fn find(&self, name: &[u8], number: usize) -> Result<Child> {
        let mut search = LayerSearch { marks: self.marks, next: Next::Name(name.to_vec()), hides: false };
        let (mut parts, mut found) = (Vec::new(), Vec::new());
        for (layer, tree) in self.layers.iter().enumerate() {
            let part = self.parts.iter().find(|part| part.layer == layer);
            let (path, here) = match (&search.next, part) {
                (Next::Name(name), Some(part)) => {
                    let name = name.clone();
                    (join(&part.path, &name), search.look(&part.directory, &name, b"", b"")?)
                }
                (Next::Name(_), None) => continue,
                (Next::Path(path), _) => {
                    let path = path.clone();
                    let here = search.look_from_root(tree, &path)?;
                    (path, here)
                }
            };
            if let Some((_, metadata)) = here {
                found.push(metadata);
                let same = part.filter(|part| path == join(&part.path, name)).map(|part| Rc::clone(&part.place));
                parts.push((layer, same.unwrap_or_else(|| Rc::new(Renamed { number, path }))));
            }
            if search.hides {
                break;
            }
        }
        let beside = |name: &[u8]| self.below.as_ref().map(|(_, path)| join(path, name));
        let path = match search.next {
            _ if search.hides => None,
            Next::Name(name) => beside(&name),
            Next::Path(path) => Some(path),
        };
        let expected = beside(name);
        let redirect = path.as_ref().filter(|_| path != expected).map(|path| [b"/", &path[..]].concat());
        let mut metadata = joined(&found, self.marks)?.with_attribute(REDIRECT, redirect.as_deref());
        if path.is_none() && expected.is_some() {
            metadata = metadata.with_attribute(&format!("{}.overlay.opaque", self.marks), Some(b"y"));
        }
        let origin = format!("{}.overlay.origin", self.marks);
        if path.is_some() && found.len() > 1 && metadata.attribute(&origin).is_none() {
            metadata = metadata.with_attribute(&origin, Some(b""));
        }
        let same = self.below.as_ref().filter(|_| path == expected).map(|(place, _)| Rc::clone(place));
        let below = path.map(|path| same.unwrap_or_else(|| Rc::new(Renamed { number, path })));
        Ok(Child { parts, below, metadata })
    }
}

/// What a merged directory is to have: what the newest one has, with marks that hold for all of them.
fn joined(parts: &[Metadata], marks: &str) -> Result<Metadata> {
    let (first, last) = parts.first().zip(parts.last()).ok_or(Errno::STALE)?;
    let [opaque, impure, origin] = ["opaque", "impure", "origin"].map(|mark| format!("{marks}.overlay.{mark}"));
    let any = |mark: &str| parts.iter().find_map(|part| part.attribute(mark));
    // Another value than `y` says that entries carry marks of their own.
    let metadata = first.clone().with_attribute(&opaque, any(&opaque).filter(|value| value != b"y"));
    let metadata = metadata.with_attribute(&impure, any(&impure));
    // The oldest one was copied from what is below the merged layers.
    Ok(metadata.with_attribute(&origin, last.attribute(&origin)))
}

/// Whether an entry says that what is below it is deleted.
fn is_whiteout(directory: &OwnedFd, name: &[u8], entry: &Stat, marks: &str) -> Result<bool> {
    match file_type(entry) {
        FileType::CharacterDevice => Ok(entry.st_rdev == 0),
        FileType::RegularFile if entry.st_size == 0 => {
            let entry = open_path(directory, name)?;
            match getxattr(own_path(&entry), format!("{marks}.overlay.whiteout"), &mut [0; 1]) {
                Ok(_) | Err(Errno::RANGE) => Ok(true),
                Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(false),
                Err(errno) => Err(errno),
            }
        }
        _ => Ok(false),
    }
}

fn link(from: &OwnedFd, to: &OwnedFd, name: &[u8], entry: &Stat) -> Result<()> {
    match linkat(from, name, to, name, AtFlags::empty()) {
        // The kernel uses one device for all whiteouts of a layer.
        Err(Errno::MLINK) if file_type(entry) == FileType::CharacterDevice && entry.st_rdev == 0 => {
            mknodat(to, name, FileType::CharacterDevice, Mode::empty(), 0)
        }
        linked => linked,
    }
}

#[cfg(test)]
#[path = "merge_tests.rs"]
mod tests;
