//! Messages between the host and a bash process, over one SOCK_SEQPACKET socket per process.
//!
//! `crates/shell-builtin/builtin/protocol.h` is the same in C. Numbers are in the machine's own byte order. A message is a
//! header followed by its payload. A payload above [`LONGEST_PAYLOAD`] travels in a file instead, whose descriptor is the
//! last one passed.

use std::ops::{BitOr, BitOrAssign};

/// Maximum bytes of a payload inside a message.
pub const LONGEST_PAYLOAD: usize = 64 * 1024;

/// Maximum bytes of a reply's text.
pub const LONGEST_REPLY_TEXT: usize = 16 * 1024;

/// Bytes of a buffer that holds every reply.
pub const REPLY_BUFFER: usize = size_of::<ReplyHeader>() + LONGEST_REPLY_TEXT;

/// Signal that interrupts a running command. glibc keeps it from bash, so that no trap can block it.
pub const INTERRUPT_SIGNAL: i32 = 33;

/// The header of a request, as it is sent.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestHeader {
    /// A [`RequestKind`].
    pub kind: u32,
    /// [`RequestFlags`].
    pub flags: u32,
    /// Chosen by the host. The reply repeats it.
    pub id: u64,
    /// Bytes of the payload's first part.
    pub text_length: u32,
    /// Bytes of the payload's second part.
    pub cwd_length: u32,
    /// Bytes of the payload's third part.
    pub env_length: u32,
    /// Zero.
    pub reserved: u32,
    /// RLIMIT_NOFILE, soft and hard. `u64::MAX` leaves it as it is.
    pub open_files: u64,
    /// RLIMIT_NPROC, soft and hard. `u64::MAX` leaves it as it is.
    pub processes: u64,
    /// Unused.
    pub token: [u8; 16],
}

/// The header of a reply, as it is sent.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplyHeader {
    /// A [`ReplyKind`].
    pub kind: u32,
    /// [`DoneFlags`] or [`ForkedFlags`].
    pub flags: u32,
    /// The request's.
    pub id: u64,
    /// `$?` for DONE, an errno for REFUSED and FORKED.
    pub status: i32,
    /// The terminating signal that ended the command, or 0.
    pub signal: i32,
    /// Forks that the shell itself made during the command.
    pub forks: u32,
    /// The sender's process id, or the new process's for FORKED.
    pub pid: u32,
    /// A [`Refusal`], for REFUSED.
    pub reason: u32,
    /// Bytes of the text after the header.
    pub text_length: u32,
    /// Zero.
    pub reserved: u64,
}

const _: () = assert!(size_of::<RequestHeader>() == 64 && size_of::<ReplyHeader>() == 48);

/// What the host asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum RequestKind {
    /// Run a command. Descriptors: its three streams, and a payload file if there is one.
    Run = 1,
    /// Fork a standby, a background process or a checkpoint. Descriptors: the child's channel, then a cgroup with
    /// [`RequestFlags::GROUP`], then a file with [`RequestFlags::CHECKPOINT`].
    Fork = 2,
    /// Make a standby the session's shell. The request's id becomes `$?`.
    Promote = 3,
    /// The abstract address, as the text, at which a shell opens a lost channel anew.
    Listener = 4,
}

macro_rules! flags {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $flag:ident = $value:expr;)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub struct $name(pub u32);

        impl $name {
            $($(#[$doc])* pub const $flag: Self = Self($value);)*

            /// Returns true when all of `other` are set.
            pub const fn contains(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }

            /// Returns the flags together with `other` when `condition` holds.
            #[must_use]
            pub const fn with(self, other: Self, condition: bool) -> Self {
                if condition { Self(self.0 | other.0) } else { self }
            }
        }

        impl BitOr for $name {
            type Output = Self;
            fn bitor(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }
        }

        impl BitOrAssign for $name {
            fn bitor_assign(&mut self, other: Self) {
                self.0 |= other.0;
            }
        }
    };
}

flags! {
    /// Options of a request.
    RequestFlags {
        /// The payload is in a file, the last descriptor. Set by [`Request::encode`].
        PAYLOAD_IN_FILE = 1;
        /// RUN: the text is words, each ended by NUL: a program or a builtin, nothing expanded.
        ARGV = 1 << 1;
        /// RUN: the engine's own text. No EXIT trap runs, and `$?` is 0 afterwards.
        ENGINE = 1 << 2;
        /// RUN: the streams are a terminal, which becomes the controlling terminal.
        TERMINAL_STREAMS = 1 << 4;
        /// RUN: directory and variables stay. Without a text nothing runs.
        KEEP_SCOPE = 1 << 5;
        /// FORK: a copy that waits to be promoted or forked again.
        STANDBY = 1 << 8;
        /// FORK: a shell of its own that runs one command and exits with its status.
        BACKGROUND = 2 << 8;
        /// FORK: with BACKGROUND, in a session of its own.
        TERMINAL = 4 << 8;
        /// FORK: write the state to a file and exit.
        CHECKPOINT = 8 << 8;
        /// FORK: do not copy the parent's pages in advance afterwards.
        NO_WARM = 16 << 8;
        /// FORK: place the child in a cgroup at birth.
        GROUP = 32 << 8;
    }
}

flags! {
    /// How a command ended.
    DoneFlags {
        /// It ended the shell: `exit`, errexit, nounset, `${x:?}`, a failed `exec`, a terminating signal.
        EXITED = 1;
        /// A terminating signal ended it.
        SIGNALED = 2;
        /// [`INTERRUPT_SIGNAL`] ended it.
        INTERRUPTED = 4;
        /// bash dropped functions without unwinding them: their descriptors may be left open.
        FRAMES_DISCARDED = 8;
        /// Nothing changed but `$?`, `$_`, PIPESTATUS and the hash table of programs.
        STATE_KEPT = 16;
    }
}

flags! {
    /// How a fork went.
    ForkedFlags {
        /// The child was born in the cgroup.
        PLACED = 1;
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
    /// A reason of a newer builtin.
    Unknown(u32),
}

impl From<u32> for Refusal {
    fn from(number: u32) -> Self {
        match number {
            1 => Self::Cwd,
            2 => Self::ReadOnly,
            3 => Self::Limit,
            other => Self::Unknown(other),
        }
    }
}

/// A request before it is encoded.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// What to do.
    pub kind: RequestKind,
    /// How.
    pub flags: RequestFlags,
    /// Repeated by the reply.
    pub id: u64,
    /// The command's text, or its words with [`RequestFlags::ARGV`].
    pub text: &'a [u8],
    /// The command's directory, absolute or relative to the session's. Empty: the session's.
    pub cwd: &'a [u8],
    /// `NAME=value` sets a variable and `NAME` unsets it, each ended by NUL. See [`environment`].
    pub env: &'a [u8],
    /// RLIMIT_NOFILE, soft and hard.
    pub open_files: Option<u64>,
    /// RLIMIT_NPROC, soft and hard.
    pub processes: Option<u64>,
}

/// A request as it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoded {
    /// The message.
    pub message: Vec<u8>,
    /// The content of the payload's file, when it does not fit into the message.
    pub file: Option<Vec<u8>>,
}

impl<'a> Request<'a> {
    /// Creates a request without text, scope and limits.
    pub const fn new(kind: RequestKind, id: u64) -> Self {
        Self { kind, flags: RequestFlags(0), id, text: b"", cwd: b"", env: b"", open_files: None, processes: None }
    }

    /// Creates a request to run a text.
    pub const fn run(id: u64, text: &'a [u8]) -> Self {
        Self { text, ..Self::new(RequestKind::Run, id) }
    }

    /// Encodes the request. `None` when a part is longer than 4 GiB.
    pub fn encode(&self) -> Option<Encoded> {
        let parts = [self.text, self.cwd, self.env];
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let in_file = length > LONGEST_PAYLOAD;
        let header = RequestHeader {
            kind: self.kind as u32,
            flags: self.flags.with(RequestFlags::PAYLOAD_IN_FILE, in_file).0,
            id: self.id,
            text_length: self.text.len().try_into().ok()?,
            cwd_length: self.cwd.len().try_into().ok()?,
            env_length: self.env.len().try_into().ok()?,
            reserved: 0,
            open_files: self.open_files.unwrap_or(u64::MAX),
            processes: self.processes.unwrap_or(u64::MAX),
            token: [0; 16],
        };
        let mut message = Vec::with_capacity(size_of::<RequestHeader>() + if in_file { 0 } else { length });
        header.write(&mut message);
        let file = in_file.then(|| parts.concat());
        if !in_file {
            parts.iter().for_each(|part| message.extend_from_slice(part));
        }
        Some(Encoded { message, file })
    }
}

impl RequestHeader {
    fn write(&self, into: &mut Vec<u8>) {
        let numbers = [self.text_length, self.cwd_length, self.env_length, self.reserved];
        into.extend_from_slice(&self.kind.to_ne_bytes());
        into.extend_from_slice(&self.flags.to_ne_bytes());
        into.extend_from_slice(&self.id.to_ne_bytes());
        numbers.iter().for_each(|number| into.extend_from_slice(&number.to_ne_bytes()));
        into.extend_from_slice(&self.open_files.to_ne_bytes());
        into.extend_from_slice(&self.processes.to_ne_bytes());
        into.extend_from_slice(&self.token);
    }
}

/// Encodes variables for [`Request::env`]. `None` unsets one. Names and values are cut at their first NUL.
pub fn environment<'e>(variables: impl IntoIterator<Item = (&'e [u8], Option<&'e [u8]>)>) -> Vec<u8> {
    let before_nul = |bytes: &'e [u8]| bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    let mut entries = Vec::new();
    for (name, value) in variables {
        entries.extend_from_slice(before_nul(name));
        if let Some(value) = value {
            entries.push(b'=');
            entries.extend_from_slice(before_nul(value));
        }
        entries.push(0);
    }
    entries
}

/// Encodes words for a request with [`RequestFlags::ARGV`]. `None` when a word holds NUL.
pub fn words<'w>(words: impl IntoIterator<Item = &'w [u8]>) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    for word in words {
        if word.contains(&0) {
            return None;
        }
        text.extend_from_slice(word);
        text.push(0);
    }
    Some(text)
}

/// A message from a shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The shell is ready, at its start and after it has opened its channel anew.
    Hello {
        /// Its process id. Compare it with the channel's credentials.
        pid: u32,
        /// `$BASH_VERSION`, empty after a lost channel.
        version: String,
    },
    /// A command is over.
    Done(Done),
    /// A command was refused: nothing ran, and everything is as before.
    Refused {
        /// The request's id.
        id: u64,
        /// Why.
        reason: Refusal,
        /// The system's reason.
        errno: i32,
        /// The variable or the limit in question.
        about: String,
    },
    /// A fork was made, or not.
    Forked {
        /// The request's id.
        id: u64,
        /// The child's process id, or the errno.
        result: Result<u32, i32>,
        /// How it went.
        flags: ForkedFlags,
    },
    /// A text is about to be evaluated, by a background process, which closes its channel afterwards, or by a shell that
    /// has entered the command's scope.
    Begun {
        /// The request's id.
        id: u64,
        /// Its process id.
        pid: u32,
    },
    /// A standby has become the shell.
    Promoted {
        /// Its process id.
        pid: u32,
    },
    /// The user's EXIT trap is about to run.
    Ending {
        /// The request's id.
        id: u64,
    },
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
    /// The shell's directory afterwards, which need not be UTF-8. Empty when it has no name.
    pub cwd: Vec<u8>,
}

impl Reply {
    /// Decodes a message. `None` when it is cut short or of an unknown kind.
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
                flags: DoneFlags(header.flags),
                forks: header.forks,
                cwd: text.to_vec(),
            }),
            3 => Self::Refused { id, reason: header.reason.into(), errno: status, about: string() },
            4 => Self::Forked {
                id,
                result: if status == 0 { Ok(pid) } else { Err(status) },
                flags: ForkedFlags(header.flags),
            },
            5 => Self::Begun { id, pid },
            6 => Self::Promoted { pid },
            7 => Self::Ending { id },
            _ => return None,
        })
    }
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
            reserved: eight(40)?,
        };
        Some((header, rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    fn reply(kind: u32, text: &[u8]) -> Vec<u8> {
        let mut message = vec![0; size_of::<ReplyHeader>()];
        let mut put = |at: usize, bytes: &[u8]| message[at..at + bytes.len()].copy_from_slice(bytes);
        put(offset_of!(ReplyHeader, kind), &kind.to_ne_bytes());
        put(offset_of!(ReplyHeader, flags), &17u32.to_ne_bytes());
        put(offset_of!(ReplyHeader, id), &7u64.to_ne_bytes());
        put(offset_of!(ReplyHeader, status), &143i32.to_ne_bytes());
        put(offset_of!(ReplyHeader, signal), &15i32.to_ne_bytes());
        put(offset_of!(ReplyHeader, forks), &2u32.to_ne_bytes());
        put(offset_of!(ReplyHeader, pid), &99u32.to_ne_bytes());
        put(offset_of!(ReplyHeader, reason), &2u32.to_ne_bytes());
        put(offset_of!(ReplyHeader, text_length), &u32::try_from(text.len()).unwrap().to_ne_bytes());
        message.extend_from_slice(text);
        message
    }

    #[test]
    fn encodes_a_request_in_the_order_of_the_c_structure() {
        let request = Request { flags: RequestFlags::ARGV, cwd: b"/tmp", env: b"A=1\0", ..Request::run(5, b"true\0") };
        let encoded = request.encode().unwrap();
        assert_eq!(encoded.file, None);
        assert_eq!(&encoded.message[64..], b"true\0/tmpA=1\0");
        let number = |at: usize| u32::from_ne_bytes(encoded.message[at..at + 4].try_into().unwrap());
        assert_eq!([number(0), number(4), number(8)], [1, 2, 5]);
        assert_eq!(number(offset_of!(RequestHeader, text_length)), 5);
        assert_eq!(number(offset_of!(RequestHeader, cwd_length)), 4);
        assert_eq!(number(offset_of!(RequestHeader, env_length)), 4);
        assert_eq!(encoded.message[offset_of!(RequestHeader, open_files)..][..16], [255; 16]);
    }

    #[test]
    fn puts_a_long_payload_into_a_file() {
        let text = vec![b'x'; LONGEST_PAYLOAD];
        assert_eq!(Request::run(1, &text).encode().unwrap().file, None);
        let encoded = Request { cwd: b"/", ..Request::run(1, &text) }.encode().unwrap();
        assert_eq!(encoded.message.len(), 64);
        assert_eq!(encoded.message[4], 1);
        assert_eq!(encoded.file.unwrap().len(), LONGEST_PAYLOAD + 1);
    }

    #[test]
    fn decodes_every_kind_of_reply() {
        let done = Reply::decode(&reply(2, b"/tmp")).unwrap();
        let flags = DoneFlags::EXITED | DoneFlags::STATE_KEPT;
        assert_eq!(done, Reply::Done(Done { id: 7, status: 143, signal: 15, flags, forks: 2, cwd: b"/tmp".to_vec() }));
        assert_eq!(Reply::decode(&reply(1, b"5.2")), Some(Reply::Hello { pid: 99, version: "5.2".into() }));
        assert_eq!(
            Reply::decode(&reply(3, b"UID")),
            Some(Reply::Refused { id: 7, reason: Refusal::ReadOnly, errno: 143, about: "UID".into() })
        );
        assert!(matches!(Reply::decode(&reply(4, b"")), Some(Reply::Forked { result: Err(143), .. })));
        assert_eq!(Reply::decode(&reply(5, b"")), Some(Reply::Begun { id: 7, pid: 99 }));
        assert_eq!(Reply::decode(&reply(6, b"")), Some(Reply::Promoted { pid: 99 }));
    }

    #[test]
    fn refuses_what_is_no_reply() {
        let message = reply(2, b"/tmp");
        for length in 0..message.len() {
            assert_eq!(Reply::decode(&message[..length]), None, "{length} bytes");
        }
        assert_eq!(Reply::decode(&reply(0, b"")), None);
        assert_eq!(Reply::decode(&reply(77, b"")), None);
        assert_eq!(Reply::decode(&[255; 48]), None);
    }

    #[test]
    fn encodes_variables_and_words() {
        let entries = environment([(b"A".as_slice(), Some(b"1 2".as_slice())), (b"B", None), (b"C", Some(b"x\0y"))]);
        assert_eq!(entries, b"A=1 2\0B\0C=x\0");
        assert_eq!(words([b"a b".as_slice(), b""]), Some(b"a b\0\0".to_vec()));
        assert_eq!(words([b"a\0b".as_slice()]), None);
    }
}
