//! The way to the file of a call: freely from the session's directory, or below a root.

use super::below_root::{Last, below};
use super::failure::about;
use super::place::{Origin, Place};
use nacre_protocol::files::Failure;

/// Where the path of a call starts, and what it may reach.
#[derive(Clone, Copy)]
pub enum Start<'a> {
    /// The session's directory. A path may lead anywhere.
    Session(&'a [u8]),
    /// A root that the path does not leave.
    Root(&'a [u8]),
}

/// A path as the kernel gets it.
pub struct Way {
    /// Where it starts.
    pub origin: Origin,
    /// From there.
    pub path: Vec<u8>,
    /// Whether a last symlink is followed. Below a root, all links have been followed.
    pub follows: bool,
}

impl Way {
    /// The way to a file that exists.
    pub fn of(start: Start<'_>, path: &[u8]) -> Result<Self, Failure> {
        match start {
            Start::Session(cwd) => Ok(Self { origin: Origin::of(cwd, path)?, path: path.to_vec(), follows: true }),
            Start::Root(root) => {
                let Place { parent, name, .. } = below(root, path, Last::Followed, false)?;
                Ok(Self { origin: Origin::at(parent), path: name, follows: false })
            }
        }
    }
}

/// The place of a file or directory; a last symlink is not followed.
pub fn place_of(start: Start<'_>, path: &[u8], makes_parents: bool) -> Result<Place, Failure> {
    match start {
        Start::Session(cwd) => Place::of(cwd, path, makes_parents),
        Start::Root(root) => below(root, path, Last::Kept, makes_parents),
    }
}

/// The place of a file to be written: a last symlink is followed. Missing parents are made.
pub fn target_of(start: Start<'_>, path: &[u8]) -> Result<Place, Failure> {
    match start {
        Start::Session(cwd) => Place::of(cwd, path, true)?.follow().map_err(about(path)),
        Start::Root(root) => below(root, path, Last::Followed, true),
    }
}
