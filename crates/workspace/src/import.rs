//! The files of an archive, unpacked into the first layer of a new workspace, before anything is mounted.
//!
//! The layer belongs to this process alone, and its directory is removed with everything in it if the archive turns out to be
//! wrong. The real directory is only read.

use crate::duplicate::Directories;
use crate::export::{base_of, path_of, real};
use crate::failure::{Failure, errno_of, while_doing};
use crate::layers::{self, Number};
use crate::metadata::Metadata;
use crate::tree::{Tree, file_type, open_directory, status};
use crate::walk::Walk;
use nacre_archive::{Archive, Base, Entry, Refused, What};
use nacre_protocol::workspace::Unpacking;
use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, SeekFrom, Timespec, Timestamps, Uid, chownat, fchmod, ftruncate, futimens,
    linkat, mkdirat, mknodat, openat, seek, symlinkat, utimensat,
};
use rustix::io::{Errno, Result};
use rustix::process::geteuid;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;

/// What unpacking does when it fails.
const UNPACK: &str = "unpack the archive";
/// Maximum number of paths in an error.
const MAX_SHOWN: usize = 20;

/// The files of an archive that have not been unpacked.
pub struct Import {
    archive: Archive,
    entries: Vec<Entry>,
    owner: Option<(u32, u32)>,
    /// The paths where the real directory is not as it was.
    differing: Vec<Vec<u8>>,
}

impl Import {
    /// Reads an archive, and compares what it was made above with this real directory.
    ///
    /// # Errors
    /// [`Failure::Rejected`], [`Failure::Differs`] and those of the system calls. Nothing has been unpacked.
    pub fn new(file: File, unpacking: &Unpacking, base: &OwnedFd) -> std::result::Result<Self, Failure> {
        let mut archive = Archive::open(file).map_err(rejected)?;
        archive.states().map_err(rejected)?;
        let entries = archive.entries(unpacking.max_bytes).map_err(rejected)?;
        let base = open_directory(base, b".").map(Tree::new);
        let differing = base.and_then(|base| differing(&entries, &base));
        let differing = differing.map_err(while_doing("compare the real directory with the archive"))?;
        if unpacking.rejects && !differing.is_empty() {
            let count = differing.len() as u64;
            return Err(Failure::Differs { paths: differing.into_iter().take(MAX_SHOWN).collect(), count });
        }
        Ok(Self { archive, entries, owner: unpacking.owner, differing })
    }

    /// Unpacks everything into a new layer in a directory of layers, which the caller removes if that fails. Returns the paths where the real directory
    /// is not as it was.
    ///
    /// # Errors
    /// [`Failure::Rejected`] and those of the system calls.
    pub fn unpack(
        self,
        place: &OwnedFd,
        layer: Number,
        base: &OwnedFd,
        marks: &str,
    ) -> std::result::Result<Vec<Vec<u8>>, Failure> {
        let Self { mut archive, entries, owner, differing } = self;
        let trees = (|| {
            let upper = layers::tree(place, layer)?;
            Ok((upper, Tree::new(open_directory(base, b".")?)))
        })();
        let (upper, base) = trees.map_err(while_doing(UNPACK))?;
        let mut target = Target::new(&upper, &base, marks, owner).map_err(while_doing(UNPACK))?;
        for number in 0..entries.len() {
            target.put(&entries, number, &mut archive)?;
        }
        archive.end().map_err(rejected)?;
        let Target { upper, directories, .. } = target;
        directories.finish(&upper, &|| Ok(())).map_err(while_doing(UNPACK))?;
        Ok(differing)
    }
}

/// An archive that cannot be used.
pub fn rejected(refused: Refused) -> Failure {
    match refused {
        Refused::Because(reason) => Failure::Rejected(reason),
        Refused::System(error) => Failure::System(errno_of(&error), "read the archive".into()),
    }
}

/// The paths where a real directory is not as it was when the archive was written.
fn differing(entries: &[Entry], base: &Tree) -> Result<Vec<Vec<u8>>> {
    let walk = Walk::new(base);
    let mut differing = Vec::new();
    let mut hidden = Vec::with_capacity(entries.len());
    let mut last: Option<(u32, Option<OwnedFd>)> = None;
    for (number, entry) in entries.iter().enumerate() {
        let is_hidden = number > 0 && hidden[entry.parent as usize];
        let hides = matches!(entry.what, What::Directory { hides: true, .. });
        hidden.push(is_hidden || hides);
        if number == 0 || is_hidden {
            continue;
        }
        if last.as_ref().is_none_or(|(parent, _)| *parent != entry.parent) {
            last = Some((entry.parent, real(&walk, &path_of(entries, entry.parent))?));
        }
        let directory = last.as_ref().and_then(|(_, directory)| directory.as_ref());
        if !is_same(entry.base.as_ref(), directory, &entry.name)? {
            differing.push(path_of(entries, number as u32));
        }
    }
    Ok(differing)
}

/// Whether a real directory has what an archive says. A file of another size is not read.
fn is_same(base: Option<&Base>, directory: Option<&OwnedFd>, name: &[u8]) -> Result<bool> {
    if let Some(Base::File(size, _)) = base
        && status(directory, name)?.is_some_and(|found| found.st_size as u64 != *size)
    {
        return Ok(false);
    }
    Ok(base_of(directory, name)?.as_ref() == base)
}

/// A layer that is being filled.
struct Target<'a> {
    upper: Walk<'a>,
    base: Walk<'a>,
    opaque: String,
    /// The user and group of what is created, if they are not those of this process.
    owner: Option<(u32, u32)>,
    directories: Directories,
    /// Of each entry that is a directory, its number there and whether something hides the real one.
    numbers: Vec<Option<(usize, bool)>>,
    /// The directory of the last entry, here and in the real directory.
    last: Option<(u32, OwnedFd, Option<OwnedFd>)>,
}

impl<'a> Target<'a> {
    fn new(upper: &'a Tree, base: &'a Tree, marks: &str, owner: Option<(u32, u32)>) -> Result<Self> {
        Ok(Self {
            upper: Walk::new(upper),
            base: Walk::new(base),
            opaque: format!("{marks}.overlay.opaque"),
            owner: owner.filter(|_| geteuid().is_root()),
            directories: Directories::default(),
            numbers: Vec::new(),
            last: None,
        })
    }

    fn put(&mut self, entries: &[Entry], number: usize, archive: &mut Archive) -> std::result::Result<(), Failure> {
        let entry = &entries[number];
        let failed = |errno| {
            let path = path_of(entries, number as u32);
            while_doing(format!("{UNPACK}, at {}", crate::failure::shown(&path)))(errno)
        };
        if number == 0 {
            let kept = self.root(entry).map_err(failed)?;
            self.numbers.push(Some((self.directories.add(None, Vec::new(), kept), false)));
            return Ok(());
        }
        self.enter(entries, entry.parent).map_err(failed)?;
        let (_, directory, base) = self.last.take().ok_or_else(|| failed(Errno::STALE))?;
        let put = self.put_in(entries, entry, archive, &directory, base.as_ref());
        self.last = Some((entry.parent, directory, base));
        match put {
            Ok(made) => {
                self.numbers.push(made);
                Ok(())
            }
            Err(Refused::System(error)) => Err(failed(errno_of(&error))),
            Err(refused) => Err(rejected(refused)),
        }
    }

    /// What the root of the layer is to have. It is like the real directory so far.
    fn root(&self, entry: &Entry) -> Result<Metadata> {
        let root = self.upper.directory(b"")?.ok_or(Errno::STALE)?;
        let own = Metadata::with_marks(&root, b".")?;
        let What::Directory { is_real: false, .. } = entry.what else { return Ok(own) };
        let mode = own.mode() & !0o1777 | u32::from(entry.mode);
        Ok(own.with_mode(mode))
    }

    /// Opens the directory of the next entries.
    fn enter(&mut self, entries: &[Entry], parent: u32) -> Result<()> {
        if self.last.as_ref().is_some_and(|(last, ..)| *last == parent) {
            return Ok(());
        }
        let (number, is_hidden) = self.numbers[parent as usize].ok_or(Errno::STALE)?;
        let directory = self.upper.directory(&self.directories.path_of(number))?.ok_or(Errno::STALE)?;
        let base = if is_hidden { None } else { real(&self.base, &path_of(entries, parent))? };
        self.last = Some((parent, directory, base));
        Ok(())
    }

    /// Returns the number of a directory.
    fn put_in(
        &mut self,
        entries: &[Entry],
        entry: &Entry,
        archive: &mut Archive,
        directory: &OwnedFd,
        base: Option<&OwnedFd>,
    ) -> std::result::Result<Option<(usize, bool)>, Refused> {
        let name = &entry.name[..];
        let there = status(base, name).map_err(io::Error::from)?;
        // An entry in the place of a real one keeps its owner, as a program's write would.
        let owner = there.as_ref().map(|found| (found.st_uid, found.st_gid)).filter(|_| geteuid().is_root());
        let owner = owner.or(self.owner);
        match &entry.what {
            What::Directory { hides, is_real } => {
                let number = self.make_directory(entry, *hides, *is_real, directory, base, owner)?;
                return Ok(Some(number));
            }
            What::File(size) => {
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let file = openat(directory, name, flags, Mode::RUSR | Mode::WUSR).map_err(io::Error::from)?;
                let mut file = File::from(file);
                archive.content(*size, |piece| write_sparse(&mut file, piece))?;
                let finish = || {
                    ftruncate(&file, *size)?;
                    give(directory, name, owner)?;
                    fchmod(&file, Mode::from_raw_mode(entry.mode.into()))?;
                    futimens(&file, &times(entry))
                };
                finish().map_err(io::Error::from)?;
            }
            What::Link(of) => {
                let Entry { parent, name: other, .. } = &entries[*of as usize];
                let link = || {
                    let (number, _) = self.numbers[*parent as usize].ok_or(Errno::STALE)?;
                    let from = self.upper.directory(&self.directories.path_of(number))?.ok_or(Errno::STALE)?;
                    linkat(&from, &other[..], directory, name, AtFlags::empty())
                };
                link().map_err(io::Error::from)?;
            }
            What::Symlink(target) => {
                let make = || {
                    symlinkat(&target[..], directory, name)?;
                    give(directory, name, owner)?;
                    utimensat(directory, name, &times(entry), AtFlags::SYMLINK_NOFOLLOW)
                };
                make().map_err(io::Error::from)?;
            }
            What::Fifo => {
                let make = || {
                    mknodat(directory, name, FileType::Fifo, Mode::from_raw_mode(entry.mode.into()), 0)?;
                    give(directory, name, owner)?;
                    let mode = Mode::from_raw_mode(entry.mode.into());
                    rustix::fs::chmodat(directory, name, mode, AtFlags::empty())?;
                    utimensat(directory, name, &times(entry), AtFlags::SYMLINK_NOFOLLOW)
                };
                make().map_err(io::Error::from)?;
            }
            // The kernel's mark. Where nothing is hidden, programs would see it.
            What::Deleted if there.is_some() => {
                mknodat(directory, name, FileType::CharacterDevice, Mode::empty(), 0).map_err(io::Error::from)?;
            }
            What::Deleted => {}
        }
        Ok(None)
    }

    fn make_directory(
        &mut self,
        entry: &Entry,
        hides: bool,
        is_real: bool,
        directory: &OwnedFd,
        base: Option<&OwnedFd>,
        owner: Option<(u32, u32)>,
    ) -> io::Result<(usize, bool)> {
        let name = &entry.name[..];
        mkdirat(directory, name, Mode::RWXU)?;
        let own = status(Some(directory), name)?.ok_or(Errno::STALE)?;
        let real = match base {
            Some(base) => {
                status(Some(base), name)?.filter(|found| file_type(found) == FileType::Directory).map(|_| base)
            }
            None => None,
        };
        let metadata = match real.filter(|_| is_real) {
            Some(base) => Metadata::of(base, name)?,
            None => {
                let metadata = Metadata::of(directory, name)?;
                let mode = metadata.mode() & !0o7777 | u32::from(entry.mode);
                metadata.with_mode(mode)
            }
        };
        let metadata = match owner {
            Some(owner) => metadata.owned_by(owner),
            None => metadata.owned_like(&own),
        };
        let metadata = metadata.modified_at((entry.modified.0, entry.modified.1.into()));
        let metadata = if hides { metadata.with_attribute(&self.opaque, Some(b"y")) } else { metadata };
        let (parent, is_hidden) = self.numbers[entry.parent as usize].ok_or(Errno::STALE)?;
        Ok((self.directories.add(Some(parent), name.to_vec(), metadata), is_hidden || hides))
    }
}

fn times(entry: &Entry) -> Timestamps {
    let time = Timespec { tv_sec: entry.modified.0, tv_nsec: entry.modified.1.into() };
    Timestamps { last_access: time, last_modification: time }
}

fn give(directory: &OwnedFd, name: &[u8], owner: Option<(u32, u32)>) -> Result<()> {
    let Some((user, group)) = owner else { return Ok(()) };
    chownat(directory, name, Some(Uid::from_raw(user)), Some(Gid::from_raw(group)), AtFlags::SYMLINK_NOFOLLOW)
}

/// Leaves a hole for a piece of zeros. The file gets its size at the end.
fn write_sparse(file: &mut File, piece: &[u8]) -> io::Result<()> {
    if piece.iter().all(|byte| *byte == 0) {
        seek(&*file, SeekFrom::Current(piece.len() as i64))?;
        return Ok(());
    }
    file.write_all(piece)
}

#[cfg(test)]
#[path = "import_tests.rs"]
mod tests;
