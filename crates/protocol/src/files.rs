//! Messages between the host and the files helper of a session, which also makes sockets in its network namespace.
//!
//! The host sends a [`FilesRequest`] over the helper's socket, together with one end of a new connection. The rest happens
//! on that connection: the [`FilesReply`] messages of the helper, with the opened file if there is one, and the host's
//! [`Finish`]. Closing the connection cancels the call. Paths are bytes; a relative path starts at `cwd`.

use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use serde::{Deserialize, Serialize};
use std::ffi::CStr;
use std::hash::{BuildHasher, RandomState};
use std::os::fd::OwnedFd;

/// The name of a files helper's process, at most 15 characters (prctl(2), `PR_SET_NAME`).
pub const HELPER_NAME: &CStr = c"nacre-files";

/// Bytes of paths after which a batch is sent.
pub const BATCH_BYTES: usize = 16 * 1024;
/// Maximum bytes of a path in the kernel, without its NUL.
pub const MAX_PATH_BYTES: usize = 4095;

/// Maximum watches and writes of a session at a time. The helper has one thread more, for all other calls.
pub const MAX_OPEN: usize = 63;

/// Maximum entries of one list.
pub const MAX_ENTRIES: usize = 1_000_000;

/// Maximum bytes of a list: of its paths, links, and a little for each entry. Deep trees have long paths.
pub const MAX_LIST_BYTES: usize = 256 * 1024 * 1024;

const TEMPORARY_PREFIX: &[u8] = b".nacre-";
const TEMPORARY_SUFFIX: &[u8] = b".tmp";
const TEMPORARY_DIGITS: usize = 16;

/// A new random name, of a file that exists until a call has succeeded.
pub fn temporary_name() -> Vec<u8> {
    let random = format!("{:016x}", RandomState::new().hash_one(0));
    [TEMPORARY_PREFIX, random.as_bytes(), TEMPORARY_SUFFIX].concat()
}

/// True for names of [`temporary_name`]. Watches and the changes of a workspace omit them.
pub fn is_temporary(name: &[u8]) -> bool {
    let digits = name.strip_prefix(TEMPORARY_PREFIX).and_then(|rest| rest.strip_suffix(TEMPORARY_SUFFIX));
    digits.is_some_and(|digits| digits.len() == TEMPORARY_DIGITS && digits.iter().all(u8::is_ascii_hexdigit))
}

/// One call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilesRequest {
    /// The session's directory; absolute.
    pub cwd: Vec<u8>,
    /// What to do.
    pub call: Call,
    /// Whether `cwd` is a root that no path may leave, by `..` or symlinks. Calls with two paths, [`Call::SetMode`] and watches
    /// are then refused.
    pub is_rooted: bool,
}

/// The calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Call {
    /// Open a regular file for reading. Answered by [`FilesReply::Opened`].
    Read {
        /// The file.
        path: Vec<u8>,
    },
    /// Open a file for writing. Answered by [`FilesReply::Opened`]; the content only takes effect after
    /// [`Finish::Commit`], which is answered by [`FilesReply::Found`].
    Write {
        /// The file.
        path: Vec<u8>,
        /// Its permissions; by default, those of the file that it replaces, or of a new file.
        mode: Option<u32>,
        /// Append to the file instead of replacing it.
        append: bool,
    },
    /// List a directory. Answered by [`FilesReply::Entries`] and [`FilesReply::Done`].
    List {
        /// The directory.
        path: Vec<u8>,
        /// Levels to list, at least 1.
        depth: u32,
        /// Maximum entries, at most [`MAX_ENTRIES`].
        most: usize,
    },
    /// Describe a file. Answered by [`FilesReply::Found`].
    Stat {
        /// The file.
        path: Vec<u8>,
        /// Follow it if it is a symlink.
        follow: bool,
    },
    /// Create a directory and its missing parents. Answered by [`FilesReply::Done`], like the calls below.
    MakeDirectory {
        /// The directory.
        path: Vec<u8>,
    },
    /// Set the permissions of a file or a directory; a symlink is followed.
    SetMode {
        /// The file.
        path: Vec<u8>,
        /// Its permissions.
        mode: u32,
    },
    /// Rename a file or a directory.
    Rename {
        /// Its path.
        from: Vec<u8>,
        /// Its new path.
        to: Vec<u8>,
    },
    /// Copy a file, or with `recursive` any file or directory.
    Copy {
        /// The original.
        from: Vec<u8>,
        /// The copy.
        to: Vec<u8>,
        /// Copy directories with their content.
        recursive: bool,
    },
    /// Remove a file, a symlink, an empty directory, or with `recursive` any directory.
    Remove {
        /// What to remove.
        path: Vec<u8>,
        /// Remove directories with their content.
        recursive: bool,
    },
    /// Make a socket in the session's network namespace, for the host. Answered by [`FilesReply::Socket`].
    Socket(Socket),
    /// Watch a file or a directory. Answered by [`FilesReply::Done`], then [`FilesReply::Events`] until [`FilesReply::Done`].
    Watch {
        /// What to watch.
        path: Vec<u8>,
        /// Also everything below it.
        recursive: bool,
    },
}

/// How the host ends a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Finish {
    /// Everything was written.
    Commit,
    /// Writing failed: revert everything. Answered by [`FilesReply::Done`].
    Revert,
}

/// The kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symlink.
    Symlink,
    /// A FIFO.
    Fifo,
    /// A socket.
    Socket,
    /// A device.
    Device,
}

impl Kind {
    /// That of a file with this mode (`st_mode`).
    pub fn of(mode: u32) -> Self {
        match mode & libc::S_IFMT {
            libc::S_IFREG => Self::File,
            libc::S_IFDIR => Self::Directory,
            libc::S_IFLNK => Self::Symlink,
            libc::S_IFIFO => Self::Fifo,
            libc::S_IFSOCK => Self::Socket,
            _ => Self::Device,
        }
    }
}

/// The description of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Info {
    /// Its kind.
    pub kind: Kind,
    /// Bytes.
    pub size: u64,
    /// Permission bits.
    pub mode: u32,
    /// The user that owns it.
    pub uid: u32,
    /// The group that owns it.
    pub gid: u32,
    /// Modification time: seconds since the epoch, and nanoseconds.
    pub modified: (i64, u32),
    /// The target of a symlink.
    pub target: Option<Vec<u8>>,
}

/// A file in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedEntry {
    /// Path below the listed directory.
    pub path: Vec<u8>,
    /// The file; symlinks are not followed.
    pub info: Info,
}

/// A change below a watched path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// What happened.
    pub change: FileChange,
    /// Path below the watched path; empty for the watched path itself.
    pub path: Vec<u8>,
    /// The path before a rename.
    pub old_path: Option<Vec<u8>>,
}

/// The kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileChange {
    /// A file was created, or moved here from elsewhere.
    Created,
    /// Its content or its permissions have changed.
    Modified,
    /// A file was removed, or moved elsewhere.
    Deleted,
    /// A file was renamed below the watched path.
    Renamed,
    /// Changes were lost.
    Overflow,
}

/// A TCP socket, not connected. It belongs to the network namespace it was made in, wherever it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Socket {
    /// Over IPv4.
    Ipv4,
    /// Over IPv6.
    Ipv6,
}

impl Socket {
    /// Makes one in the network namespace of this process. It does not block.
    ///
    /// # Errors
    /// Those of socket(2).
    pub fn make(self) -> nix::Result<OwnedFd> {
        let family = match self {
            Self::Ipv4 => AddressFamily::Inet,
            Self::Ipv6 => AddressFamily::Inet6,
        };
        socket(family, SockType::Stream, SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK, None)
    }
}

/// A message from the helper.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FilesReply {
    /// A file is open; its descriptor travels with the message.
    Opened(Info),
    /// A socket; its descriptor travels with the message.
    Socket,
    /// The file, if there is one.
    Found(Option<Info>),
    /// A part of a list.
    Entries(Vec<ListedEntry>),
    /// A part of what a watch has seen.
    Events(Vec<Event>),
    /// The call is done. For a watch: first that it has started, then that the watched file no longer exists.
    Done,
    /// The call failed. Nothing follows.
    Failed(Failure),
}

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The reason.
    pub reason: Reason,
    /// The path concerned: as given, or below a given path.
    pub path: Vec<u8>,
}

/// The reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reason {
    /// A system call failed.
    System(i32),
    /// It is not a regular file.
    NotRegular(Kind),
    /// It is a directory, which needs `recursive`.
    NeedsRecursive,
    /// The session's directory cannot be opened.
    Cwd(i32),
    /// `.`, `..`, the root, or a directory that holds the session's directory.
    Protected,
    /// The path leads out of the root.
    Outside,
    /// The original and the copy are the same file.
    SameFile,
    /// The copy would be inside the original.
    Inside,
    /// The list has more than this many entries, or more than [`MAX_LIST_BYTES`].
    TooMany(usize),
    /// The kernel's limit of watches or of their queues (inotify(7)), or this engine's limit of names, is reached.
    WatchLimit(i32),
    /// The helper could not assume the session's user or rules.
    SetUp(i32),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_engine_are_temporary() {
        assert!(is_temporary(&temporary_name()) && is_temporary(b".nacre-0000000000000001.tmp"));
        assert_ne!(temporary_name(), temporary_name());
        for name in [&b".nacre-0123456789abcde.tmp"[..], b".nacre-0123456789abcdeg.tmp", b"a.tmp", b".nacre-.tmp"] {
            assert!(!is_temporary(name), "{}", name.escape_ascii());
        }
    }
}
