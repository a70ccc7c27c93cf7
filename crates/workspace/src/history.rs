//! The present layers of a workspace, and its checkpoints: the layers of earlier moments, each with a text about the
//! sandbox at that moment, which only the host understands.

use crate::failure::{Failure, errno_of};
use crate::layers::{Stack, own_or_shared};
use crate::tree::{names, open_file, status};
use crate::{sealed, state};
use nacre_protocol::workspace::Point;
use rustix::fs::{AtFlags, Mode, OFlags, openat, unlinkat};
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

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    /// The layers; the last one receives the writes.
    pub stack: Stack,
    /// The checkpoints, the oldest first.
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
        sealed::write(store, NAME, self, MAX_BYTES)
    }

    /// The checkpoint with a number.
    pub fn find(&self, number: u64) -> Option<&Moment> {
        self.points.iter().find(|moment| moment.point.number == number)
    }

    /// Adds a checkpoint, and gives it a number.
    pub fn add(&mut self, point: Point, stack: Stack) -> Point {
        self.last += 1;
        let point = Point { number: self.last, ..point };
        self.points.push(Moment { point: point.clone(), stack });
        point
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
}

/// Keeps the text of a checkpoint.
///
/// # Errors
/// Those of the system calls. Nothing is left then.
pub fn write_text(place: &OwnedFd, number: u64, text: OwnedFd) -> Result<()> {
    let name = text_name(number);
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut to = File::from(openat(place, &name[..], flags, Mode::RUSR | Mode::WUSR)?);
    let mut text = File::from(text);
    let copied = text.rewind().and_then(|()| std::io::copy(&mut text, &mut to));
    copied.map(drop).map_err(|error| {
        let _ = unlinkat(place, &name[..], AtFlags::empty());
        errno_of(&error)
    })
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
    for name in names(place)?.iter().filter(|name| name.starts_with(TEXT)) {
        bytes += status(Some(place), name)?.map_or(0, |text| text.st_blocks as u64 * 512);
    }
    Ok(bytes)
}

/// The name of the text of a checkpoint.
pub fn text_name(number: u64) -> Vec<u8> {
    [TEXT, number.to_string().as_bytes()].concat()
}
