//! The conversation with one bash process that runs the builtin. The C side is `crates/shell-builtin`.
//!
//! A request is a fixed header and a payload of three parts: text, directory, variables. A reply is a fixed header and a
//! text. Both use the machine's byte order: the two ends are processes of one machine.

use std::ops::{BitOr, BitOrAssign};

/// Maximum payload bytes inside a message. A larger payload travels as a file in memory.
pub const MAX_INLINE_BYTES: usize = 64 * 1024;
/// Maximum bytes of a reply.
pub const MAX_REPLY_BYTES: usize = REPLY_BYTES + 64 * 1024;

const REQUEST_BYTES: usize = 64;
const REPLY_BYTES: usize = 48;

/// What a process is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum RequestKind {
    /// Evaluate a command.
    Run = 1,
    /// Fork a standby, a background process or a checkpoint.
    Fork = 2,
    /// The standby becomes the shell.
    Promote = 3,
    /// Names the socket to reconnect to.
    Listener = 4,
}

/// A set of request flags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestFlags(pub u32);

impl RequestFlags {
    /// The payload is in a file, the last descriptor of the message.
    pub const PAYLOAD_IN_FILE: Self = Self(1);
    /// RUN: the text is a list of words, each ended by NUL, which is executed without any parsing.
    pub const ARGV: Self = Self(2);
    /// RUN: text of the engine; no EXIT trap runs and `$?` becomes 0.
    pub const ENGINE: Self = Self(4);
    /// RUN: descriptors 0 to 2 are a terminal, which becomes the controlling terminal.
    pub const TERMINAL: Self = Self(16);
    /// RUN: directory and variables stay after the command.
    pub const KEEP_SCOPE: Self = Self(32);
    /// FORK: a standby.
    pub const STANDBY: Self = Self(1 << 8);
    /// FORK: a background process.
    pub const BACKGROUND: Self = Self(2 << 8);
    /// FORK: the background process leads a session of its own, as a terminal needs.
    pub const LEADS_SESSION: Self = Self(4 << 8);
    /// FORK: the child writes the shell's state to a file and exits.
    pub const CHECKPOINT: Self = Self(8 << 8);
    /// FORK: the parent does not prepay its page copies; a command follows at once.
    pub const NO_WARM: Self = Self(16 << 8);
    /// FORK: a directory of a control group comes with the message; the child is born in that group.
    pub const GROUP: Self = Self(32 << 8);
}

impl BitOr for RequestFlags {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for RequestFlags {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

/// A request to a bash process.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// What to do.
    pub kind: RequestKind,
    /// How.
    pub flags: RequestFlags,
    /// Echoed in the replies.
    pub id: u64,
    /// The command, or the name of the reconnect socket.
    pub text: &'a [u8],
    /// Working directory; empty for none.
    pub cwd: &'a [u8],
    /// Variables, each ended by NUL: `NAME=value` exports, `NAME` unsets.
    pub env: &'a [u8],
    /// RLIMIT_NOFILE.
    pub open_files: Option<u64>,
    /// RLIMIT_NPROC.
    pub processes: Option<u64>,
}

impl<'a> Request<'a> {
    /// A request without a payload.
    pub fn new(kind: RequestKind, flags: RequestFlags, id: u64) -> Self {
        Self { kind, flags, id, text: &[], cwd: &[], env: &[], open_files: None, processes: None }
    }

    /// The message, and what has to be put into a file when the payload is too long to be sent with it.
    pub fn encode(&self) -> (Vec<u8>, Option<Vec<u8>>) {
        let length = self.text.len() + self.cwd.len() + self.env.len();
        let in_file = length > MAX_INLINE_BYTES;
        let mut flags = self.flags;
        if in_file {
            flags |= RequestFlags::PAYLOAD_IN_FILE;
        }
        let mut message = Vec::with_capacity(REQUEST_BYTES + if in_file { 0 } else { length });
        message.extend((self.kind as u32).to_ne_bytes());
        message.extend(flags.0.to_ne_bytes());
        message.extend(self.id.to_ne_bytes());
        for part in [self.text, self.cwd, self.env] {
            message.extend((part.len() as u32).to_ne_bytes());
        }
        message.extend(0u32.to_ne_bytes());
        message.extend(self.open_files.unwrap_or(u64::MAX).to_ne_bytes());
        message.extend(self.processes.unwrap_or(u64::MAX).to_ne_bytes());
        message.extend([0; 16]);
        let payload = [self.text, self.cwd, self.env].concat();
        if in_file {
            return (message, Some(payload));
        }
        message.extend(payload);
        (message, None)
    }
}

/// Why a command or process was refused before it ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusedFor {
    /// The working directory cannot be entered.
    Cwd,
    /// A variable is read-only.
    ReadOnly,
    /// A resource limit cannot be set.
    Limit,
}

/// A reply from a bash process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The process is ready.
    Hello {
        /// Bash's version.
        version: String,
    },
    /// A command has ended.
    Done(Done),
    /// A command or process was refused; nothing ran.
    Refused {
        /// From the request.
        id: u64,
        /// Why.
        reason: RefusedFor,
        /// The system's reason.
        errno: i32,
        /// The variable or limit.
        name: String,
    },
    /// Answer to a fork.
    Forked {
        /// From the request.
        id: u64,
        /// The child's pid, or the system's reason.
        child: Result<i32, i32>,
        /// The child was born in the control group that came with the request.
        placed: bool,
    },
    /// A background process begins to evaluate its text.
    Begun {
        /// From the request.
        id: u64,
    },
    /// The standby is the shell.
    Promoted,
    /// The user's EXIT trap is about to run.
    Ending {
        /// From the request.
        id: u64,
    },
}

/// How a command ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// From the request.
    pub id: u64,
    /// `$?`.
    pub status: i32,
    /// The terminating signal that ended it, or 0.
    pub signal: i32,
    /// Forks that the shell made meanwhile.
    pub forks: u32,
    /// It would have ended an ordinary shell.
    pub exited: bool,
    /// The engine's interrupt ended it.
    pub interrupted: bool,
    /// Bash has thrown away frames without unwinding them.
    pub frames_discarded: bool,
    /// Proven: the state is as before, but for `$?`, `$_` and PIPESTATUS.
    pub state_kept: bool,
    /// The session's directory; empty when it is unknown.
    pub cwd: Vec<u8>,
}

impl Reply {
    /// Decodes a message; `None` when it is not one of ours.
    pub fn decode(message: &[u8]) -> Option<Self> {
        let word = |at: usize| Some(u32::from_ne_bytes(message.get(at..at + 4)?.try_into().ok()?));
        let (kind, flags) = (word(0)?, word(4)?);
        let id = u64::from_ne_bytes(message.get(8..16)?.try_into().ok()?);
        let (status, signal) = (word(16)? as i32, word(20)? as i32);
        let (forks, pid, reason, length) = (word(24)?, word(28)? as i32, word(32)?, word(36)? as usize);
        let text = message.get(REPLY_BYTES..REPLY_BYTES.checked_add(length)?)?;
        let lossy = || String::from_utf8_lossy(text).into_owned();
        Some(match kind {
            1 => Self::Hello { version: lossy() },
            2 => Self::Done(Done {
                id,
                status,
                signal,
                forks,
                exited: flags & 1 != 0,
                interrupted: flags & 4 != 0,
                frames_discarded: flags & 8 != 0,
                state_kept: flags & 16 != 0,
                cwd: text.to_vec(),
            }),
            3 => {
                let reason = match reason {
                    1 => RefusedFor::Cwd,
                    2 => RefusedFor::ReadOnly,
                    3 => RefusedFor::Limit,
                    _ => return None,
                };
                Self::Refused { id, reason, errno: status, name: lossy() }
            }
            4 => Self::Forked { id, child: if status == 0 { Ok(pid) } else { Err(status) }, placed: flags & 1 != 0 },
            5 => Self::Begun { id },
            6 => Self::Promoted,
            7 => Self::Ending { id },
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_payload_goes_into_a_file() {
        let mut request = Request::new(RequestKind::Run, RequestFlags::ARGV, 9);
        request.text = b"true\0";
        let (message, file) = request.encode();
        assert_eq!((message.len(), file), (REQUEST_BYTES + 5, None));
        let long = vec![b'x'; MAX_INLINE_BYTES + 1];
        request.text = &long;
        let (message, file) = request.encode();
        assert_eq!((message.len(), file.map(|bytes| bytes.len())), (REQUEST_BYTES, Some(long.len())));
        assert_eq!(message[4], 3);
    }

    #[test]
    fn refuses_what_is_cut_short_or_unknown() {
        let mut message = vec![0; REPLY_BYTES];
        message[0] = 2;
        assert!(matches!(Reply::decode(&message), Some(Reply::Done(_))));
        assert_eq!(Reply::decode(&message[..REPLY_BYTES - 1]), None);
        message[36] = 1;
        assert_eq!(Reply::decode(&message), None, "the text is missing");
        message[36] = 0;
        message[0] = 99;
        assert_eq!(Reply::decode(&message), None);
    }
}
