//! The requests to the keeper of a copy-on-write workspace, and what it reports.

use crate::message;
use nix::sys::memfd::{MFdFlags, memfd_create};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

pub use crate::files::Kind;

/// Maximum bytes of a request in a message. A longer one is in a file that travels with [`KeeperRequest::InFile`].
const MAX_INLINE_BYTES: usize = 32 * 1024;
/// Maximum bytes of a request: some millions of paths.
pub const MAX_REQUEST_BYTES: usize = 256 * 1024 * 1024;

/// An entry of the workspace or of the real directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedEntry {
    /// What it is.
    pub kind: Kind,
    /// Bytes; 0 for a directory.
    pub size: u64,
    /// Permissions with the bits for set-user-ID, set-group-ID and sticky: 07777.
    pub mode: u32,
}

/// How an entry differs from the real directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Difference {
    /// The real directory has no such entry.
    Created,
    /// The content or the target differs.
    Modified,
    /// Only the real directory has the entry.
    Deleted,
    /// The entry is of another kind.
    Replaced,
    /// Only mode, owner or extended attributes differ.
    Metadata,
}

/// One changed path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkspaceChange {
    /// Relative to the workspace; `.` is the workspace itself.
    pub path: Vec<u8>,
    /// How it differs.
    pub difference: Difference,
    /// The entry in the workspace; `None` if it is deleted.
    pub now: Option<ChangedEntry>,
    /// The entry in the real directory; `None` if it is created.
    pub before: Option<ChangedEntry>,
}

/// Some hunks of a changed file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HunkChoice {
    /// Relative to the workspace.
    pub path: Vec<u8>,
    /// See [`ReviewedHunk::id`].
    pub ids: Vec<String>,
}

/// A change as a person reviews it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReviewedChange {
    /// The change.
    pub change: WorkspaceChange,
    /// How to look at it.
    pub group: ReviewGroup,
    /// Why it runs later or counts as generated: one clause.
    pub reason: Option<String>,
    /// The lines that it adds.
    pub added: u64,
    /// The lines that it removes.
    pub removed: u64,
    /// The differences, in their order.
    pub hunks: Vec<ReviewedHunk>,
    /// Why there are none.
    pub without: Option<WithoutHunks>,
}

/// How to look at a change. The first one that holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReviewGroup {
    /// Programs of the machine run or obey it later.
    RunsLater,
    /// Programs have generated it.
    Generated,
    /// It is too large for hunks.
    Large,
    /// It has no lines.
    Binary,
    /// All else.
    Source,
}

/// Why a change has no hunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WithoutHunks {
    /// It is not about the content of a file.
    Kind,
    /// The file is too large.
    Large,
    /// The file has no lines.
    Binary,
    /// It is generated, and created or deleted.
    Generated,
    /// The hunks of other changes have all bytes.
    MaxBytes,
}

/// Lines that differ, with equal ones around them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReviewedHunk {
    /// Names these lines at this place of this file.
    pub id: String,
    /// The lines in the real directory.
    pub before: Lines,
    /// The lines in the workspace.
    pub now: Lines,
    /// How many lines it adds.
    pub added: u32,
    /// How many lines it removes.
    pub removed: u32,
    /// As a patch has it.
    pub text: Vec<u8>,
}

/// Lines of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lines {
    /// The first one, from 1; the one before, if there are none.
    pub start: u32,
    /// How many.
    pub count: u32,
}

impl From<Range<u32>> for Lines {
    fn from(lines: Range<u32>) -> Self {
        let count = lines.end - lines.start;
        Self { start: lines.start + u32::from(count > 0), count }
    }
}

/// What a commit or a discard is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chosen {
    /// The paths, with everything below them. `None`: all, if there are no hunks.
    pub paths: Option<Vec<Vec<u8>>>,
    /// Hunks of other files.
    pub hunks: Vec<HunkChoice>,
}

impl From<Option<Vec<Vec<u8>>>> for Chosen {
    fn from(paths: Option<Vec<Vec<u8>>>) -> Self {
        Self { paths, hunks: Vec::new() }
    }
}

/// A change that a commit could not apply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// Relative to the workspace.
    pub path: Vec<u8>,
    /// Why, in one clause.
    pub reason: String,
}

/// What a machine offers to workspaces, with layers in a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// Nothing if workspaces work, or why they do not: one clause.
    pub copy_on_write: Result<(), String>,
    /// Whether programs can rename real directories. Otherwise they get EXDEV, and copy as `mv` does.
    pub directory_rename: bool,
    /// Whether large files are copied without copying their content.
    pub reflink: bool,
}

/// Where the layers of a workspace are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Storage {
    /// In a directory on disk.
    Disk,
    /// In a file system in memory, which ends with the keeper.
    Memory {
        /// Maximum bytes of all layers together. `None`: half of the machine's memory.
        max_bytes: Option<u64>,
    },
}

/// A workspace to open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opening {
    /// The real directory: absolute, without links.
    pub path: Vec<u8>,
    /// The directory of the stores of all workspaces. It is created in an existing one.
    pub stores: Vec<u8>,
    /// Whether the directory of the stores is removed with the last one.
    pub removes_stores: bool,
    /// A name that no other workspace of the machine has. It begins with a digit.
    pub unique: String,
    /// The name of a workspace that is kept when it is closed, and opened again. Not with [`Storage::Memory`].
    pub id: Option<String>,
    /// Where the layers are.
    pub storage: Storage,
    /// The file of [`KeeperReply::Forked`], for a fork, which has no name. The answer to [`KeeperRequest::Branch`] travels with the request
    /// then.
    pub fork: Option<Vec<u8>>,
    /// For a new workspace with the files of an archive, which travels with the request then. Not with `fork`.
    pub archive: Option<Unpacking>,
    /// Whether there may be mounts below the directory: sessions see them as they are.
    pub passes_mounts: bool,
}

/// How the files of an archive are unpacked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unpacking {
    /// Whether it is an error if the real directory is not as it was below the files.
    pub rejects: bool,
    /// Maximum bytes of all files.
    pub max_bytes: u64,
    /// The user and group of the sandbox. `None`: those of the keeper.
    pub owner: Option<(u32, u32)>,
}

/// A named workspace that may be closed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Named {
    /// Its name.
    pub id: String,
    /// The real directory; `None` if the note about it is damaged, or of another version.
    pub path: Option<Vec<u8>>,
    /// Whether a keeper has it open.
    pub in_use: bool,
    /// When it was last opened, committed or closed, in seconds since 1970.
    pub used_at: i64,
}

/// A checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Point {
    /// Identifies it in its workspace. The keeper chooses it.
    pub number: u64,
    /// A label.
    pub name: Option<String>,
    /// In milliseconds since 1970.
    pub created_at: i64,
    /// The ids of the sessions.
    pub sessions: Vec<String>,
    /// For an automatic checkpoint: the command that it precedes, or the start of a long one.
    pub command: Option<String>,
    /// The sessions that run this command.
    pub runs_in: Vec<String>,
}

/// The command that has last written a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blamed {
    /// The automatic checkpoint before it.
    pub point: Point,
    /// What it has done to the path.
    pub difference: Difference,
    /// How many automatic checkpoints there are from that one on.
    pub steps: u32,
}

/// What two sides of a merge have made of one path that does not go together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MergeConflict {
    /// Relative to the workspace.
    pub path: Vec<u8>,
    /// Why.
    pub reason: ConflictReason,
    /// The numbers of the sides that have changed it; the last one is that of [`KeeperRequest::Join`].
    pub sides: Vec<u32>,
    /// Where their lines differ, for [`ConflictReason::Content`].
    pub hunks: Vec<ConflictHunk>,
}

/// How files are merged apart from the rules of the merged directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MergeRules {
    /// The names and the commands of programs that merge files.
    pub drivers: Vec<(String, String)>,
    /// The name of the one for files of which nothing is said.
    pub default: Option<String>,
    /// Attributes that count more than those of the directory: what is before each of its paths there, and the text.
    pub stronger: Vec<(Vec<u8>, Vec<u8>)>,
    /// Attributes that count less; the strongest first.
    pub weaker: Vec<(Vec<u8>, Vec<u8>)>,
}

/// What a side has brought in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Joined {
    /// In the order of their paths.
    pub conflicts: Vec<MergeConflict>,
    /// In the order of their paths.
    pub pending: Vec<DriverRun>,
}

/// A file that a program has to merge. It is that of the sides before until then. All other files of the program are in the root of
/// the workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriverRun {
    /// Relative to the workspace.
    pub path: Vec<u8>,
    /// As in a [`MergeConflict`].
    pub sides: Vec<u32>,
    /// The name of the program.
    pub driver: String,
    /// What a shell runs, in the root of the workspace.
    pub command: Vec<u8>,
    /// The name under which the command expects the file, and leaves the result.
    pub result: String,
    /// The names of the version that both sides had last, and of that of the last side. They are there already.
    pub versions: [String; 2],
}

/// Why there is a [`MergeConflict`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ConflictReason {
    /// Both sides have changed the same lines.
    Content,
    /// Both sides have changed a file that has no lines.
    Binary,
    /// Both sides have changed the permissions.
    Mode,
    /// One side has deleted what the other one has changed.
    Deleted,
    /// The sides have entries of different kinds.
    Kind,
    /// Both sides have changed the target of a link.
    Target,
}

/// Lines in a [`MergeConflict`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConflictHunk {
    /// Where it begins in the merged file, from 1.
    pub line: u32,
    /// The lines of the sides before.
    pub ours: Vec<u8>,
    /// The lines of the last side.
    pub theirs: Vec<u8>,
}

/// What the host asks the keeper of a workspace. Each request but [`KeeperRequest::Stop`] and [`KeeperRequest::Close`] is answered by
/// one [`KeeperReply`], in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum KeeperRequest {
    /// List the named workspaces, without opening one. Answered by [`KeeperReply::Done`] with a file: a list of [`Named`].
    List {
        /// The directory of the stores.
        stores: Vec<u8>,
    },
    /// Delete a named workspace that is not open. Answered by [`KeeperReply::Done`].
    Delete {
        /// The directory of the stores.
        stores: Vec<u8>,
        /// The name.
        id: String,
    },
    /// Open the workspace, before all requests that follow. Answered by [`KeeperReply::Done`] with another socket, which takes
    /// [`KeeperRequest::Share`] and [`KeeperRequest::Usage`] while a request is being answered.
    Open(Opening),
    /// Hand out the mount, to be attached in a session's namespace. Answered by [`KeeperReply::Done`] with a descriptor. Only on
    /// the other socket.
    Share,
    /// Compare with the real directory. Answered by [`KeeperReply::Done`] with a file: a list of [`WorkspaceChange`].
    Changes {
        /// The paths to compare, with everything below them; all by default.
        paths: Option<Vec<Vec<u8>>>,
    },
    /// Write a patch in git's format, from the real directory to what programs see. Answered by [`KeeperReply::Done`] with a file
    /// without a name, on the disk of the layers.
    Diff {
        /// The paths to compare, with everything below them; all by default.
        paths: Option<Vec<Vec<u8>>>,
        /// Maximum bytes of the patch.
        max_bytes: u64,
    },
    /// Write what changed paths are now as `git fast-import` reads it. Answered by [`KeeperReply::Done`] with a file without a name, on
    /// the disk of the layers.
    Stream {
        /// The paths themselves, and nothing below them.
        paths: Vec<Vec<u8>>,
        /// What comes before each path: empty, or ending with `/`.
        prefix: Vec<u8>,
        /// What comes before the paths in the file.
        head: Vec<u8>,
    },
    /// Compare with the real directory, for a person. Answered by [`KeeperReply::Done`] with a file: a list of [`ReviewedChange`].
    Review {
        /// The paths to compare, with everything below them; all by default.
        paths: Option<Vec<Vec<u8>>>,
        /// Maximum bytes of all hunks.
        max_bytes: u64,
    },
    /// Find the command that has last written a path. Answered by [`KeeperReply::Done`] with a file: a [`Blamed`], or `None`.
    Blame {
        /// Relative to the workspace.
        path: Vec<u8>,
    },
    /// Apply changes to the real directory. Answered by [`KeeperReply::Committed`], [`KeeperReply::Conflict`], [`KeeperReply::NoChange`] or
    /// [`KeeperReply::NoHunk`].
    Commit {
        /// Which ones.
        chosen: Chosen,
        /// Whether to overwrite what other programs have changed meanwhile.
        force: bool,
        /// Whether to wait for the disk.
        sync: bool,
        /// Whether to leave out what programs of the machine run later, unless a path names it.
        withholds: bool,
    },
    /// Restore the real versions in the workspace. Answered by [`KeeperReply::Discarded`], [`KeeperReply::NoChange`] or
    /// [`KeeperReply::NoHunk`].
    Discard {
        /// Of what.
        chosen: Chosen,
    },
    /// Measure the layers. Answered by [`KeeperReply::Used`]. On either socket.
    Usage,
    /// Keep the present files as a checkpoint: nothing writes to them now. Travels with a file, which is kept, too.
    /// Answered by [`KeeperReply::Kept`] or [`KeeperReply::Sealed`]; for an automatic one that would need a copy, by
    /// [`KeeperReply::NoCheckpoint`].
    Checkpoint {
        /// The checkpoint, without its number.
        point: Point,
        /// Whether everything that uses the mount can change over to another one.
        may_seal: bool,
        /// How many automatic checkpoints to keep. Only an automatic one removes others.
        max_steps: u64,
    },
    /// List the checkpoints that are not automatic. Answered by [`KeeperReply::Done`] with a file: a list of [`Point`], the
    /// oldest first.
    Checkpoints,
    /// Delete a checkpoint that is not automatic. Answered by [`KeeperReply::Done`] or [`KeeperReply::NoCheckpoint`].
    DeleteCheckpoint {
        /// Its number.
        number: u64,
    },
    /// Begin forks with the present files: nothing writes to them now. Answered by [`KeeperReply::Forked`] with a file for
    /// [`Opening::fork`].
    Fork {
        /// Whether everything that uses the mount can change over to another one, as it must after an error, too.
        may_seal: bool,
    },
    /// Hand out the layers for one of the forks. Answered by [`KeeperReply::Done`] with a descriptor.
    Branch {
        /// The number of [`KeeperReply::Forked`].
        fork: u64,
    },
    /// All forks are open, or never will be. Answered by [`KeeperReply::Done`].
    EndFork {
        /// The number of [`KeeperReply::Forked`].
        fork: u64,
    },
    /// Bring in what another workspace has changed since both were one. The answer of its keeper to [`KeeperRequest::Branch`] travels
    /// with the request. Answered by [`KeeperReply::Done`] with a file: [`Joined`]; or by [`KeeperReply::Unrelated`].
    Join {
        /// The file of [`KeeperReply::Forked`].
        origin: Vec<u8>,
        /// The number of that side, from 1. This workspace is 0.
        side: u32,
        /// Whether a file gets markers at its conflicts. Otherwise it is as before there.
        has_markers: bool,
        /// How files are merged.
        rules: MergeRules,
    },
    /// Mount the files of a checkpoint beside the present ones. Answered by [`KeeperReply::Kept`] with the file of the
    /// checkpoint, or [`KeeperReply::NoCheckpoint`].
    Prepare {
        /// Its number; `None` for the newest automatic one.
        number: Option<u64>,
    },
    /// Use the mount that was prepared last, and drop the present one: all programs have ended. The automatic checkpoints
    /// from that moment on end. Answered by [`KeeperReply::Done`].
    Switch,
    /// Write an archive to the empty file that travels with the request: what programs see beside the real directory, if a
    /// workspace is open. Nothing writes to the files now. Answered by [`KeeperReply::Suspended`] with a file: a list of what the
    /// archive does not have.
    Suspend {
        /// What the archive says about itself, as JSON.
        about: Vec<u8>,
        /// The states of the shells.
        states: Vec<u8>,
        /// The user and group of the sandbox. `None`: those of the keeper.
        owner: Option<(u32, u32)>,
    },
    /// Read the archive that travels with the request, without opening a workspace. Answered by [`KeeperReply::Done`] with a file:
    /// what it says about itself, as JSON, and the states of the shells.
    ReadArchive,
    /// List the paths where the real directory is not as it was below the files of the archive. Answered by [`KeeperReply::Done`]
    /// with a file: a list of paths.
    Differing,
    /// Stop the [`KeeperRequest::Changes`], [`KeeperRequest::Diff`] or [`KeeperRequest::Review`] that is being answered: it fails with `ECANCELED`, unless it has
    /// ended. Not answered itself.
    Stop,
    /// The request is in the file in memory that travels with this message, because it is too long for one.
    InFile,
    /// Close the workspace: all programs have ended. Can be sent while another request is being answered. A commit that has
    /// changed nothing yet is cancelled then. The keeper exits without an answer.
    Close,
}

/// The answer to a [`KeeperRequest`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum KeeperReply {
    /// It is done.
    Done,
    /// The size of the layers.
    Used {
        /// Allocated bytes.
        bytes: u64,
        /// Files and directories.
        files: u64,
        /// Layers, with the one that receives the writes.
        layers: u64,
    },
    /// The changes have been applied. With a file: a list of [`Skipped`].
    Committed {
        /// How many changes.
        applied: u64,
    },
    /// Other programs have changed the real directory, and nothing has been applied. With a file: a list of paths.
    Conflict,
    /// The changes have been discarded.
    Discarded {
        /// How many changes.
        count: u64,
    },
    /// The checkpoint.
    Kept(Point),
    /// The checkpoint. The mount is read-only now: everything that uses it must change over to what [`KeeperRequest::Share`] hands
    /// out.
    Sealed(Point),
    /// Forks can be opened, until [`KeeperRequest::EndFork`].
    Forked {
        /// Identifies them.
        fork: u64,
        /// Whether the mount is read-only now, as after [`KeeperReply::Sealed`].
        is_sealed: bool,
    },
    /// The archive is on the disk.
    Suspended {
        /// Its bytes.
        bytes: u64,
        /// How many files and directories it has.
        files: u64,
    },
    /// The archive cannot be used: one clause that says why.
    Rejected(String),
    /// The real directory is not as it was below the files of the archive.
    Differs {
        /// The first paths.
        paths: Vec<Vec<u8>>,
        /// How many there are.
        count: u64,
    },
    /// There is no such checkpoint.
    NoCheckpoint,
    /// The other workspace has no layer in common with this one, and nothing has been done.
    Unrelated,
    /// A selected path names no change, and nothing has been done.
    NoChange {
        /// The path.
        path: Vec<u8>,
    },
    /// A selected hunk does not exist, and nothing has been done.
    NoHunk {
        /// The path of the file.
        path: Vec<u8>,
        /// Why: one clause.
        reason: String,
    },
    /// This machine cannot do it: one clause that says why, and what helps.
    Unsupported(String),
    /// The named workspace is in use: one clause that says by what.
    InUse(String),
    /// The named workspace cannot be opened again: one clause that says why.
    Lost(String),
    /// There is no workspace of this name.
    Missing,
    /// The patch or one of its files is too large: one clause that says which limit it exceeds.
    TooLarge(String),
    /// A system call failed.
    Failed {
        /// The number of the error.
        errno: i32,
        /// What failed.
        doing: String,
    },
}

/// Sends a request of any length, with a file if it needs one.
///
/// # Errors
/// `InvalidInput` for more than [`MAX_REQUEST_BYTES`]: nothing has been sent then. Those of [`message::send`].
pub fn send(socket: BorrowedFd<'_>, request: &KeeperRequest, file: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let bytes = message::encode(request)?;
    if bytes.len() <= MAX_INLINE_BYTES {
        return crate::socket::send(socket, &bytes, file.as_slice());
    }
    if bytes.len() > MAX_REQUEST_BYTES {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut long = File::from(memfd_create(c"nacre-request", MFdFlags::MFD_CLOEXEC)?);
    long.write_all(&bytes)?;
    let files: Vec<_> = [long.as_fd()].into_iter().chain(file).collect();
    message::send(socket, &KeeperRequest::InFile, &files)
}

/// Receives what [`send`] has sent; `None` at end of file.
///
/// # Errors
/// `InvalidData` for what is no request, and `ConnectionReset` if the host has ended.
pub fn receive(socket: BorrowedFd<'_>) -> io::Result<Option<(KeeperRequest, Option<OwnedFd>)>> {
    let Some((request, files)) = message::receive(socket)? else { return Ok(None) };
    let mut files = files.into_iter();
    let request = if request == KeeperRequest::InFile { read(files.next())? } else { request };
    Ok(Some((request, files.next())))
}

fn read(file: Option<OwnedFd>) -> io::Result<KeeperRequest> {
    let mut file = File::from(file.ok_or(io::ErrorKind::InvalidData)?);
    file.rewind()?;
    let mut bytes = Vec::new();
    file.take(MAX_REQUEST_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > MAX_REQUEST_BYTES {
        return Err(io::ErrorKind::InvalidData.into());
    }
    message::decode(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket;

    #[test]
    fn a_request_of_any_length_arrives() {
        let (a, b) = socket::pair().unwrap();
        let short = KeeperRequest::Changes { paths: Some(vec![b"short".to_vec()]) };
        let long =
            KeeperRequest::Changes { paths: Some((0..100_000).map(|at| format!("path-{at}").into_bytes()).collect()) };
        for request in [short, long] {
            for file in [None, Some(a.as_fd())] {
                send(a.as_fd(), &request, file).unwrap();
                let (received, with) = receive(b.as_fd()).unwrap().unwrap();
                assert_eq!((received, with.is_some()), (request.clone(), file.is_some()));
            }
        }
        message::send(a.as_fd(), &KeeperRequest::InFile, &[]).unwrap();
        assert_eq!(receive(b.as_fd()).unwrap_err().kind(), io::ErrorKind::InvalidData);
        drop(a);
        assert!(receive(b.as_fd()).unwrap().is_none());
    }
}
