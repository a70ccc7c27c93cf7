//! Replies of a bash process.

use bitflags::bitflags;
use std::time::Duration;

/// Maximum bytes of a reply's text.
pub const LONGEST_REPLY_TEXT: usize = 16 * 1024;

/// Size of a buffer for any reply, in bytes.
pub const REPLY_BUFFER: usize = size_of::<ReplyHeader>() + LONGEST_REPLY_TEXT;

/// The header of a reply, as it is sent.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplyHeader {
    /// A `ReplyKind`.
    pub kind: u32,
    /// [`DoneFlags`] or [`ForkedFlags`].
    pub flags: u32,
    /// The id of the request.
    pub id: u64,
    /// `$?` for DONE, an errno for REFUSED and FORKED.
    pub status: i32,
    /// The terminating signal that ended the command, or 0.
    pub signal: i32,
    /// Forks that the shell itself made during the command.
    pub forks: u32,
    /// The sender's pid, or the new process's for FORKED.
    pub pid: u32,
    /// A [`Refusal`], for REFUSED.
    pub reason: u32,
    /// Bytes of the text after the header.
    pub text_length: u32,
    /// Processor time of the command in microseconds, for DONE.
    pub cpu: u64,
    /// Blocks of [`BLOCK`] bytes that it has read from disks, for DONE.
    pub read_blocks: u32,
    /// And written.
    pub written_blocks: u32,
}

/// Bytes of a block in a reply.
const BLOCK: u64 = 512;

/// What a command has used: the shell and its descendants that it, or one of them, has waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Processor time.
    pub cpu: Duration,
    /// Bytes read from disks.
    pub read: u64,
    /// Bytes written to disks, now or later.
    pub written: u64,
}

bitflags! {
    /// How a command ended.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct DoneFlags: u32 {
        /// The command ended the shell: `exit`, errexit, nounset, `${x:?}`, a failed `exec`, a terminating signal.
        const EXITED = 1;
        /// A terminating signal ended it.
        const SIGNALED = 2;
        /// The engine's interrupt ended it.
        const INTERRUPTED = 4;
        /// bash dropped functions without unwinding them: their descriptors may still be open.
        const FRAMES_DISCARDED = 8;
        /// Nothing changed except `$?`, `$_`, PIPESTATUS and the hash table of programs.
        const STATE_KEPT = 16;
        /// Every fork was for a job (`&`), and they all live.
        const ONLY_JOBS = 32;
        /// A process substitution of the shell lives.
        const SUBSTITUTED = 64;
    }
}

bitflags! {
    /// The outcome of a fork.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct ForkedFlags: u32 {
        /// The child was born in the cgroup.
        const PLACED = 1;
    }
}

/// Why a command did not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Its directory cannot be entered.
    Cwd,
    /// It would set a read-only variable, which the text names.
    ReadOnly,
    /// A limit cannot be set: the text is `openFiles` or `pids`.
    Limit,
    /// The shell's limit of descriptors is too low for its streams.
    Streams,
    /// The shell cannot have a terminal. The text is the pid of another process in its group, if that is why.
    Terminal,
    /// An unknown reason, from a newer builtin.
    Unknown(u32),
}

impl From<u32> for Refusal {
    fn from(number: u32) -> Self {
        match number {
            1 => Self::Cwd,
            2 => Self::ReadOnly,
            3 => Self::Limit,
            4 => Self::Streams,
            5 => Self::Terminal,
            other => Self::Unknown(other),
        }
    }
}

/// A message from a shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The shell is ready: at its start, or after it has reopened its channel.
    Hello {
        /// Its pid. Compare it with the channel's credentials.
        pid: u32,
        /// `$BASH_VERSION`; empty after a lost channel.
        version: String,
    },
    /// A command has ended.
    Done(Done),
    /// A command was refused: nothing ran, and nothing changed.
    Refused {
        /// The request's id.
        id: u64,
        /// The reason.
        reason: Refusal,
        /// The system's reason.
        errno: i32,
        /// The variable or the limit in question.
        about: String,
    },
    /// A fork was made, or failed.
    Forked {
        /// The request's id.
        id: u64,
        /// The child's pid, or the errno.
        result: Result<u32, i32>,
        /// The outcome.
        flags: ForkedFlags,
    },
    /// A text is about to be evaluated: by a background process, which then closes its channel, or by a shell that
    /// has entered the command's scope.
    Begun {
        /// The request's id.
        id: u64,
        /// Its pid.
        pid: u32,
    },
    /// A standby has become the shell.
    Promoted {
        /// Its pid.
        pid: u32,
    },
    /// The user's EXIT trap is about to run.
    Ending {
        /// The request's id.
        id: u64,
    },
    /// A checkpoint has been restored, except for these items.
    Restored(Vec<Lost>),
}

/// An item of a shell's state that could not be restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// What it is: `variable`, `function`, `directory`, ...
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Why it is lost.
    pub reason: String,
}

/// The result of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// The request's id.
    pub id: u64,
    /// `$?`.
    pub status: i32,
    /// The terminating signal that ended it, or 0.
    pub signal: i32,
    /// How it ended.
    pub flags: DoneFlags,
    /// Forks that the shell itself made.
    pub forks: u32,
    /// What it has used.
    pub usage: Usage,
    /// The shell's directory afterwards, which need not be UTF-8. Empty if it has no name.
    pub cwd: Vec<u8>,
}

impl Reply {
    /// Decodes a message. `None` if it is truncated or of an unknown kind.
    pub fn decode(message: &[u8]) -> Option<Self> {
        let (header, rest) = ReplyHeader::read(message)?;
        let text = rest.get(..usize::try_from(header.text_length).ok()?)?;
        let string = || String::from_utf8_lossy(text).into_owned();
        let ReplyHeader { id, pid, status, .. } = header;
        Some(match header.kind {
            1 => Self::Hello { pid, version: string() },
            2 => Self::Done(Done {
                id,
                status,
                signal: header.signal,
                flags: DoneFlags::from_bits_retain(header.flags),
                forks: header.forks,
                usage: Usage {
                    cpu: Duration::from_micros(header.cpu),
                    read: u64::from(header.read_blocks) * BLOCK,
                    written: u64::from(header.written_blocks) * BLOCK,
                },
                cwd: text.to_vec(),
            }),
            3 => Self::Refused { id, reason: header.reason.into(), errno: status, about: string() },
            4 => Self::Forked {
                id,
                result: if status == 0 { Ok(pid) } else { Err(status) },
                flags: ForkedFlags::from_bits_retain(header.flags),
            },
            5 => Self::Begun { id, pid },
            6 => Self::Promoted { pid },
            7 => Self::Ending { id },
            8 => Self::Restored(lost(text, status)),
            _ => return None,
        })
    }
}

/// The items in the text of a reply: three texts each. There may be more than it has room for.
fn lost(text: &[u8], count: i32) -> Vec<Lost> {
    let texts: Vec<String> =
        text.split(|byte| *byte == 0).map(|part| String::from_utf8_lossy(part).into_owned()).collect();
    let (items, _) = texts.as_chunks();
    let mut lost: Vec<Lost> = items.iter().cloned().map(|[kind, name, reason]| Lost { kind, name, reason }).collect();
    let unnamed = usize::try_from(count).unwrap_or_default().saturating_sub(lost.len());
    if unnamed > 0 {
        let name = format!("{unnamed} more");
        lost.push(Lost { kind: "state".into(), name, reason: "there is no room for more names".into() });
    }
    lost
}

impl ReplyHeader {
    fn read(message: &[u8]) -> Option<(Self, &[u8])> {
        let (bytes, rest) = message.split_at_checked(size_of::<Self>())?;
        let four = |at: usize| bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_ne_bytes);
        let eight = |at: usize| bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map(u64::from_ne_bytes);
        let header = Self {
            kind: four(0)?,
            flags: four(4)?,
            id: eight(8)?,
            status: four(16)?.cast_signed(),
            signal: four(20)?.cast_signed(),
            forks: four(24)?,
            pid: four(28)?,
            reason: four(32)?,
            text_length: four(36)?,
            cpu: eight(40)?,
            read_blocks: four(48)?,
            written_blocks: four(52)?,
        };
        Some((header, rest))
    }
}

const _: () = assert!(size_of::<ReplyHeader>() == 56);
