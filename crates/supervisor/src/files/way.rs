//! Resolves the path of a call: freely from the session's directory, or below a root.

use super::below_root::{Last, below};
use super::failure::about;
use super::place::{Origin, Place};
use nacre_protocol::files::Failure;

/// Where the path of a call starts, and what it can reach.
#[derive(Clone, Copy)]
pub enum Start<'a> {
    /// The session's directory, from which a path may lead anywhere.
    Session(&'a [u8]),
    /// A root that the path cannot leave.
    Root(&'a [u8]),
}

/// A path as passed to the kernel.
pub struct Way {
    /// Where it starts.
    pub origin: Origin,
    /// The path from there.
    pub path: Vec<u8>,
    /// Whether to follow a final symlink. Below a root, all links have already been followed.
    pub follows: bool,
}

impl Way {
    /// Resolves the path of an existing file. Without `follow`, a final symlink is kept.
    pub fn of(start: Start<'_>, path: &[u8], follow: bool) -> Result<Self, Failure> {
        match start {
            Start::Session(cwd) => Ok(Self { origin: Origin::of(cwd, path)?, path: path.to_vec(), follows: follow }),
            Start::Root(root) => {
                let last = if follow { Last::Followed } else { Last::Kept };
                let Place { parent, name, .. } = below(root, path, last, false)?;
                Ok(Self { origin: Origin::at(parent), path: name, follows: false })
            }
        }
    }
}

/// The place of a file or directory; a final symlink is not followed.
pub fn place_of(start: Start<'_>, path: &[u8], makes_parents: bool) -> Result<Place, Failure> {
    match start {
        Start::Session(cwd) => Place::of(cwd, path, makes_parents),
        Start::Root(root) => below(root, path, Last::Kept, makes_parents),
    }
}

/// The place of a file to write: a final symlink is followed, and missing parents are created.
pub fn target_of(start: Start<'_>, path: &[u8]) -> Result<Place, Failure> {
    match start {
        Start::Session(cwd) => Place::of(cwd, path, true)?.follow().map_err(about(path)),
        Start::Root(root) => below(root, path, Last::Followed, true),
    }
}
