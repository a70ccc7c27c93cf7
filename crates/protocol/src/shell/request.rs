//! Requests of the host.

use bitflags::bitflags;

/// Maximum bytes of a payload inside a message.
pub const LONGEST_PAYLOAD: usize = 64 * 1024;

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
    /// RLIMIT_NOFILE, soft and hard. `u64::MAX` leaves it unchanged.
    pub open_files: u64,
    /// RLIMIT_NPROC, soft and hard. `u64::MAX` leaves it unchanged.
    pub processes: u64,
    /// FORK: the key that a seccomp filter requires before a child may be born in a cgroup.
    pub fork_key: u64,
    /// Zero.
    pub reserved_after: u64,
}

/// The kinds of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum RequestKind {
    /// Run a command. Descriptors: its three streams, its channel of messages if it has one, and a payload file if there is
    /// one.
    Run = 1,
    /// Fork a standby, a background process or a checkpoint. Descriptors: the child's channel, then a cgroup with
    /// [`RequestFlags::GROUP`], then a file with [`RequestFlags::CHECKPOINT`].
    Fork = 2,
    /// Make a standby the session's shell. The request's id becomes `$?`.
    Promote = 3,
    /// The abstract address, as the text, where a shell reopens a lost channel.
    Listener = 4,
    /// Restore a checkpoint, the text, in a shell that has not run anything yet. The request's id becomes `$?`.
    Restore = 5,
    /// Another mount is about to replace that of the workspace. Sends a byte on the socket that travels with the request,
    /// waits for the socket's end, and enters its directory again if its mount has been detached. Not answered.
    Reenter = 6,
}

bitflags! {
    /// Options of a request.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct RequestFlags: u32 {
        /// The payload is in a file, the last descriptor. Set by [`Request::encode`].
        const PAYLOAD_IN_FILE = 1;
        /// RUN: the text is NUL-terminated words: a program or a builtin, without expansion.
        const ARGV = 1 << 1;
        /// RUN: the engine's own text. No EXIT trap runs, and `$?` is 0 afterwards.
        const ENGINE = 1 << 2;
        /// RUN: the streams are a terminal, which becomes the controlling terminal.
        const TERMINAL_STREAMS = 1 << 4;
        /// RUN: directory and variables persist. Without a text, nothing runs.
        const KEEP_SCOPE = 1 << 5;
        /// RUN: with TERMINAL_STREAMS, the end of an empty input has been typed.
        const TYPED_END = 1 << 6;
        /// FORK: a copy that waits to be promoted or forked again.
        const STANDBY = 1 << 8;
        /// FORK: a separate shell that runs one command and exits with its status.
        const BACKGROUND = 2 << 8;
        /// FORK: with BACKGROUND, in its own session.
        const TERMINAL = 4 << 8;
        /// FORK: write the state to a file and exit.
        const CHECKPOINT = 8 << 8;
        /// FORK: do not copy the parent's pages in advance afterwards.
        const NO_WARM = 16 << 8;
        /// FORK: place the child in a cgroup at birth.
        const GROUP = 32 << 8;
    }
}

/// A request before it is encoded.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// What to do.
    pub kind: RequestKind,
    /// Options.
    pub flags: RequestFlags,
    /// An id, which the reply repeats.
    pub id: u64,
    /// The command's text, or its words with [`RequestFlags::ARGV`].
    pub text: &'a [u8],
    /// The command's directory, absolute or relative to the session's. Empty: the session's.
    pub cwd: &'a [u8],
    /// `NAME=value` sets a variable and `NAME` unsets it, each ended by NUL.
    pub env: &'a [u8],
    /// RLIMIT_NOFILE, soft and hard.
    pub open_files: Option<u64>,
    /// RLIMIT_NPROC, soft and hard.
    pub processes: Option<u64>,
    /// FORK: see [`RequestHeader::fork_key`].
    pub fork_key: u64,
}

/// An encoded request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoded {
    /// The message.
    pub message: Vec<u8>,
    /// The content of the payload's file, if it does not fit into the message.
    pub file: Option<Vec<u8>>,
}

impl<'a> Request<'a> {
    /// Creates a request without text, scope or limits.
    pub const fn new(kind: RequestKind, id: u64) -> Self {
        Self {
            kind,
            flags: RequestFlags::empty(),
            id,
            text: b"",
            cwd: b"",
            env: b"",
            open_files: None,
            processes: None,
            fork_key: 0,
        }
    }

    /// Creates a request to run a text.
    pub const fn run(id: u64, text: &'a [u8]) -> Self {
        Self { text, ..Self::new(RequestKind::Run, id) }
    }

    /// Encodes the request. `None` if a part is longer than 4 GiB.
    pub fn encode(&self) -> Option<Encoded> {
        let parts = [self.text, self.cwd, self.env];
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let in_file = length > LONGEST_PAYLOAD;
        let mut flags = self.flags;
        flags.set(RequestFlags::PAYLOAD_IN_FILE, in_file);
        let header = RequestHeader {
            kind: self.kind as u32,
            flags: flags.bits(),
            id: self.id,
            text_length: self.text.len().try_into().ok()?,
            cwd_length: self.cwd.len().try_into().ok()?,
            env_length: self.env.len().try_into().ok()?,
            reserved: 0,
            open_files: self.open_files.unwrap_or(u64::MAX),
            processes: self.processes.unwrap_or(u64::MAX),
            fork_key: self.fork_key,
            reserved_after: 0,
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
        into.extend_from_slice(&self.fork_key.to_ne_bytes());
        into.extend_from_slice(&self.reserved_after.to_ne_bytes());
    }
}

const _: () = assert!(size_of::<RequestHeader>() == 64);
