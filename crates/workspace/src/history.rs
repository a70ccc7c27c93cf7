//! The present layers of a workspace, and its checkpoints: the layers of earlier moments, each with a text about the
//! sandbox at that moment, which only the host understands.

use crate::changes::is_same_content;
use crate::failure::{Failure, errno_of};
use crate::layers::{Stack, own_or_shared};
use crate::tree::{names, open_file, status};
use crate::{sealed, state};
use nacre_protocol::workspace::Point;
use rustix::fs::{AtFlags, Mode, OFlags, fstat, linkat, openat, unlinkat};
use rustix::io::Result;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::fs::File;
use std::io::Seek;
use std::os::fd::OwnedFd;

/// The file of a named workspace.
const NAME: &str = "layers";
/// What the names of texts begin with.
const TEXT: &[u8] = b"text-";
/// Maximum bytes of it.
const MAX_BYTES: u64 = 64 * 1024 * 1024;
/// Maximum bytes of the texts of all automatic checkpoints together, except that the newest one is always kept.
const MAX_STEP_TEXTS: u64 = 64 * 1024 * 1024;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    /// The layers; the last one receives the writes.
    pub stack: Stack,
    /// The checkpoints, also automatic ones; the oldest first.
    pub points: Vec<Moment>,
    /// The number of the last checkpoint.
    last: u64,
}

/// A checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    /// What the host knows of it.
    pub point: Point,
    /// Its layers. All of them are sealed.
    pub stack: Stack,
}

impl History {
    /// That of a new workspace.
    pub fn new(stack: Stack) -> Self {
        Self { stack, points: Vec::new(), last: 0 }
    }

    /// Reads that of a store. `None` if it has none.
    ///
    /// # Errors
    /// Those of the system calls; `EBADMSG` if it is damaged.
    pub fn read(store: &OwnedFd) -> Result<Option<Self>> {
        sealed::read(store, NAME, MAX_BYTES)
    }

    /// Reads that of a named store.
    ///
    /// # Errors
    /// [`Failure::Lost`] if it is missing or damaged.
    pub fn expect(store: &OwnedFd) -> std::result::Result<Self, Failure> {
        state::expected(Self::read(store), NAME)
    }

    /// Writes it to a store.
    ///
    /// # Errors
    /// Those of the system calls; the earlier one stays.
    pub fn write(&self, store: &OwnedFd) -> Result<()> {
        sealed::write(store, NAME, self, MAX_BYTES, false)
    }

    /// The checkpoint with a number that is not automatic.
    pub fn find(&self, number: u64) -> Option<&Moment> {
        self.points.iter().find(|moment| moment.point.number == number && !moment.is_step())
    }

    /// The newest automatic checkpoint.
    pub fn last_step(&self) -> Option<&Moment> {
        self.points.iter().rfind(|moment| moment.is_step())
    }

    /// Removes the oldest automatic checkpoints until there are no more than these, and until the bytes of their texts have
    /// a limit. The newest one stays.
    ///
    /// # Errors
    /// Those of the system calls.
    pub fn expire_steps(&mut self, place: &OwnedFd, max: u64) -> Result<()> {
        let (mut count, mut bytes) = (0, 0);
        let mut first = None;
        for moment in self.points.iter().rev().filter(|moment| moment.is_step()) {
            let text = status(Some(place), &text_name(moment.point.number))?;
            count += 1;
            bytes += text.map_or(0, |text| text.st_size as u64);
            if count > 1 && (count > max || bytes > MAX_STEP_TEXTS) {
                break;
            }
            first = Some(moment.point.number);
        }
        self.points.retain(|moment| !moment.is_step() || first.is_some_and(|first| moment.point.number >= first));
        Ok(())
    }

    /// Removes the automatic checkpoints from a moment on: what they precede has not happened.
    pub fn end_steps(&mut self, from: u64) {
        self.points.retain(|moment| !moment.is_step() || moment.point.number < from);
    }

    /// Adds a checkpoint, and gives it a number.
    pub fn add(&mut self, point: Point, stack: Stack) -> Point {
        self.last += 1;
        let point = Point { number: self.last, ..point };
        self.points.push(Moment { point: point.clone(), stack });
        point
    }

    /// What a fork with these layers begins with.
    pub fn without_steps(&self, stack: Stack) -> Self {
        let mut history = Self { stack, ..self.clone() };
        history.points.retain(|moment| !moment.is_step());
        history
    }

    /// Removes the texts of other checkpoints.
    ///
    /// # Errors
    /// Those of the system calls, if the texts cannot be listed.
    pub fn keep_only_texts(&self, place: &OwnedFd) -> Result<()> {
        let kept: HashSet<Vec<u8>> = self.points.iter().map(|moment| text_name(moment.point.number)).collect();
        for name in names(place)?.into_iter().filter(|name| name.starts_with(TEXT) && !kept.contains(name)) {
            let _ = unlinkat(place, &name[..], AtFlags::empty());
        }
        Ok(())
    }

    /// Every stack that is needed.
    pub fn stacks(&self) -> impl Iterator<Item = &Stack> {
        self.points.iter().map(|moment| &moment.stack).chain([&self.stack])
    }

    /// The same, to be changed.
    pub fn stacks_mut(&mut self) -> impl Iterator<Item = &mut Stack> {
        self.points.iter_mut().map(|moment| &mut moment.stack).chain([&mut self.stack])
    }
}

impl Moment {
    /// Whether it is automatic: a step for undo.
    pub fn is_step(&self) -> bool {
        self.point.command.is_some()
    }
}

/// Keeps the text of a checkpoint. It shares the file of an earlier checkpoint that has the same one.
///
/// # Errors
/// Those of the system calls. Nothing is left then.
pub fn write_text(place: &OwnedFd, number: u64, text: OwnedFd, earlier: Option<u64>) -> Result<()> {
    let name = text_name(number);
    if let Some(earlier) = earlier.map(text_name)
        && is_same_text(place, &earlier, &text).unwrap_or(false)
        && linkat(place, &earlier[..], place, &name[..], AtFlags::empty()).is_ok()
    {
        return Ok(());
    }
    // A keeper that was killed may have left one, which other checkpoints may share.
    let _ = unlinkat(place, &name[..], AtFlags::empty());
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let mut to = File::from(openat(place, &name[..], flags, Mode::RUSR | Mode::WUSR)?);
    let mut text = File::from(text);
    let copied = text.rewind().and_then(|()| std::io::copy(&mut text, &mut to));
    copied.map(drop).map_err(|error| {
        let _ = unlinkat(place, &name[..], AtFlags::empty());
        errno_of(&error)
    })
}

fn is_same_text(place: &OwnedFd, name: &[u8], text: &OwnedFd) -> Result<bool> {
    let old = open_file(place, name)?;
    let (size, other) = (fstat(&old)?.st_size, fstat(text)?.st_size);
    Ok(size == other && is_same_content(&old, text, size as u64, &|| Ok(()))?)
}

/// Opens the text of a checkpoint.
///
/// # Errors
/// Those of openat(2).
pub fn read_text(place: &OwnedFd, number: u64) -> Result<OwnedFd> {
    own_or_shared(place, &text_name(number), open_file)
}

/// The allocated bytes of all texts.
///
/// # Errors
/// Those of the system calls.
pub fn text_bytes(place: &OwnedFd) -> Result<u64> {
    let mut bytes = 0;
    let mut shared = HashSet::new();
    for name in names(place)?.iter().filter(|name| name.starts_with(TEXT)) {
        let text = status(Some(place), name)?.filter(|text| text.st_nlink == 1 || shared.insert(text.st_ino));
        bytes += text.map_or(0, |text| text.st_blocks as u64 * 512);
    }
    Ok(bytes)
}

/// The name of the text of a checkpoint.
pub fn text_name(number: u64) -> Vec<u8> {
    [TEXT, number.to_string().as_bytes()].concat()
}
