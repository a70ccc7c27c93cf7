//! Merges layers into one that shows the same: with new directories, and further names of the files.
//!
//! Sealed layers never change, so several can share a file. A directory that hides what is below the merged layers becomes
//! opaque. In it, marks for deleted files have no meaning, and the kernel would show them.
//!
//! A file that was copied from one of the merged layers is noted as a copy of what is below them: the merged layer does not have
//! what it was copied from.

use crate::duplicate::Directories;
use crate::handle::{Copies, Origin};
use crate::metadata::Metadata;
use crate::tree::{Tree, file_type, names, open_path, own_path, status};
use crate::walk::Walk;
use rustix::fs::{AtFlags, FileType, Mode, Stat, getxattr, linkat, mkdirat, mknodat};
use rustix::io::{Errno, Result};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

/// Why layers have not been merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// This one has a renamed directory, whose content is in the layers below.
    Redirect(usize),
    /// A system call failed.
    Failed(Errno),
}

impl From<Errno> for Refusal {
    fn from(errno: Errno) -> Self {
        Self::Failed(errno)
    }
}

/// A directory to be merged.
struct Pending {
    /// Its number in [`Directories`] is that of its parent here.
    parent: Option<usize>,
    name: Vec<u8>,
    /// The layers that have it; the newest first.
    layers: Vec<usize>,
    /// Whether one of the merged layers has something else below it, or hides what is there.
    hides: bool,
    /// Whether a directory above it hides everything below the merged layers.
    is_hidden: bool,
}

/// Fills an empty layer with what these show together; the newest first. Returns the number of entries.
///
/// # Errors
/// See [`Refusal`]. Something may have been created.
pub fn merge(
    layers: &[Tree],
    to: &Tree,
    marks: &str,
    interrupt: &dyn Fn() -> Result<()>,
) -> std::result::Result<u64, Refusal> {
    let sources: Vec<Walk<'_>> = layers.iter().map(Walk::new).collect();
    let targets = Walk::new(to);
    let copies = (marks == "trusted").then(|| Copies::of(layers, interrupt)).transpose()?;
    let mut directories = Directories::default();
    let mut entries = 0;
    let all = (0..layers.len()).collect();
    let mut pending = vec![Pending { parent: None, name: Vec::new(), layers: all, hides: false, is_hidden: false }];
    while let Some(Pending { parent, name, layers, mut hides, is_hidden }) = pending.pop() {
        let path = directories.path_of(parent, &name);
        let mut parts = Vec::new();
        for layer in layers {
            let directory = sources[layer].directory(&path)?.ok_or(Errno::STALE)?;
            let metadata = Metadata::with_marks(&directory, b".")?;
            if metadata.attribute(&format!("{marks}.overlay.redirect")).is_some() {
                return Err(Refusal::Redirect(layer));
            }
            let is_opaque = metadata.attribute(&format!("{marks}.overlay.opaque")) == Some(b"y");
            parts.push(Part { layer, directory, metadata });
            if is_opaque {
                hides = true;
                break;
            }
        }
        let target = targets.directory(&path)?.ok_or(Errno::STALE)?;
        let own = Some(directories.add(parent, name, metadata_of(&parts, marks, hides)?));
        for (name, found) in entries_of(&parts)? {
            interrupt()?;
            let Some((first, kind)) = found.first() else { continue };
            if file_type(kind) == FileType::Directory {
                let is_directory = |(_, kind): &&(usize, Stat)| file_type(kind) == FileType::Directory;
                let layers: Vec<usize> =
                    found.iter().take_while(is_directory).map(|(at, _)| parts[*at].layer).collect();
                mkdirat(&target, &name[..], Mode::RWXU)?;
                let is_cut = layers.len() < found.len();
                pending.push(Pending { parent: own, name, layers, hides: is_cut, is_hidden: is_hidden || hides });
            } else {
                let source = &parts[*first].directory;
                if (hides || is_hidden) && is_whiteout(source, &name, kind, marks)? {
                    continue;
                }
                if let Some((copies, origin)) = copies.as_ref().zip(Origin::of(source, &name)?) {
                    match copies.follow(origin.clone()) {
                        Some(below) if below == origin => {}
                        Some(below) => below.put(source, &name)?,
                        None => Origin::forget(source, &name),
                    }
                }
                link(source, &target, &name, kind)?;
            }
            entries += 1;
        }
    }
    directories.finish(&targets, interrupt)?;
    Ok(entries)
}

/// A directory of a layer.
struct Part {
    layer: usize,
    directory: OwnedFd,
    metadata: Metadata,
}

/// What the merged directory is to have: what the newest one has, with marks that hold for all of them.
fn metadata_of(parts: &[Part], marks: &str, hides: bool) -> Result<Metadata> {
    let (first, last) = parts.first().zip(parts.last()).ok_or(Errno::STALE)?;
    let [opaque, impure, origin] = ["opaque", "impure", "origin"].map(|mark| format!("{marks}.overlay.{mark}"));
    let any = |mark: &str| parts.iter().find_map(|part| part.metadata.attribute(mark));
    // Another value than `y` says that entries carry marks of their own.
    let opaque_value = if hides { Some(&b"y"[..]) } else { any(&opaque) };
    let metadata = first.metadata.clone().with_attribute(&opaque, opaque_value);
    let metadata = metadata.with_attribute(&impure, any(&impure));
    // The oldest one was copied from what is below the merged layers.
    Ok(metadata.with_attribute(&origin, last.metadata.attribute(&origin)))
}

/// The entries of a name, with the numbers of their parts; the newest first.
type Entries = Vec<(usize, Stat)>;

/// All entries by name.
fn entries_of(parts: &[Part]) -> Result<BTreeMap<Vec<u8>, Entries>> {
    let mut found: BTreeMap<_, Entries> = BTreeMap::new();
    for (at, part) in parts.iter().enumerate() {
        for name in names(&part.directory)? {
            let entry = status(Some(&part.directory), &name)?.ok_or(Errno::STALE)?;
            found.entry(name).or_default().push((at, entry));
        }
    }
    Ok(found)
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
