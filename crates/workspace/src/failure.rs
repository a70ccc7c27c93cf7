//! Why a request to the keeper cannot be answered.

use nacre_protocol::workspace::KeeperReply;
use rustix::io::Errno;
use std::borrow::Cow;

/// Maximum bytes of a path in a message.
const SHOWN_BYTES: usize = 1000;

/// See the module.
#[derive(Debug)]
pub enum Failure {
    /// One clause: why this machine cannot do it, and what helps.
    Unsupported(String),
    /// One clause: which limit a patch exceeds.
    TooLarge(String),
    /// One clause: what uses a named workspace.
    InUse(String),
    /// One clause: why a named workspace cannot be opened again.
    Lost(String),
    /// There is no workspace of this name.
    Missing,
    /// One clause: why an archive cannot be used.
    Rejected(String),
    /// The real directory is not as it was when an archive was written: some paths, and how many there are.
    Differs {
        /// The first ones.
        paths: Vec<Vec<u8>>,
        /// All of them.
        count: u64,
    },
    /// This path names no change.
    NoChange(Vec<u8>),
    /// A hunk of this path does not exist. One clause: why.
    NoHunk(Vec<u8>, String),
    /// A system call failed while doing this.
    System(Errno, String),
}

impl From<Failure> for KeeperReply {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Unsupported(reason) => Self::Unsupported(reason),
            Failure::TooLarge(limit) => Self::TooLarge(limit),
            Failure::InUse(user) => Self::InUse(user),
            Failure::Lost(reason) => Self::Lost(reason),
            Failure::Missing => Self::Missing,
            Failure::NoChange(path) => Self::NoChange { path },
            Failure::NoHunk(path, reason) => Self::NoHunk { path, reason },
            Failure::Rejected(reason) => Self::Rejected(reason),
            Failure::Differs { paths, count } => Self::Differs { paths, count },
            Failure::System(errno, doing) => Self::Failed { errno: errno.raw_os_error(), doing },
        }
    }
}

/// What ends a walk through the workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// A system call failed; at this path of the workspace, if it is about one.
    System(Errno, Option<Vec<u8>>),
    /// This path names no change.
    NoChange(Vec<u8>),
}

impl From<Errno> for Trouble {
    fn from(errno: Errno) -> Self {
        Self::System(errno, None)
    }
}

/// The number of an error of the standard library; `EIO` if it has none.
pub fn errno_of(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

/// Adds the path to the error of a system call.
pub fn at(path: &[u8]) -> impl FnOnce(Errno) -> Trouble {
    move |errno| Trouble::System(errno, Some(path.to_vec()))
}

/// Adds what failed to the error of a system call.
pub fn while_doing(doing: impl Into<String>) -> impl FnOnce(Errno) -> Failure {
    move |errno| Failure::System(errno, doing.into())
}

impl Trouble {
    /// The error of the system call.
    pub fn errno(&self) -> Errno {
        if let Self::System(errno, _) = self { *errno } else { Errno::INVAL }
    }

    /// Adds what failed.
    pub fn while_doing(self, doing: &str) -> Failure {
        match self {
            Self::System(errno, None) => Failure::System(errno, doing.into()),
            Self::System(errno, Some(path)) => Failure::System(errno, format!("{doing}, at {}", shown(&path))),
            Self::NoChange(path) => Failure::NoChange(path),
        }
    }
}

/// A path as text.
pub fn shown(path: &[u8]) -> Cow<'_, str> {
    match path.get(..SHOWN_BYTES) {
        None => String::from_utf8_lossy(path),
        Some(start) => format!("{}...", String::from_utf8_lossy(start)).into(),
    }
}
