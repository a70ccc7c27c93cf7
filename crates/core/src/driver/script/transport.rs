//! The channels between host and shell, and the names the shell opens them by.
//!
//! The shell holds no descriptor of the engine's. It opens each channel by a path at the moment of use, so that nothing
//! a command does to descriptors can cut a channel, and no child inherits one. Where the paths lead is a [`Transport`]'s
//! business: into this process's descriptor table ([`super::proc_transport`]) or to FIFOs and files in a directory
//! ([`super::fifo_transport`]).

use crate::driver::{Stdin, Streams};
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

/// A pipe of the session. This process holds one descriptor for both ends, so it never sees an end of file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pipe {
    /// One byte starts the next command.
    Token,
    /// One byte lets a shell that has saved its state replace its image. A pipe of its own: a command's token that
    /// arrives while the shell is ending stays where it is until the shell is back.
    Resume,
    /// One byte makes the standby take over, or fork.
    StandbyToken,
    /// The same for the next one. They take turns: a shell that is killed while it makes a snapshot may leave a standby
    /// behind that nobody has heard of yet, and it must not take the byte that is meant for the one before.
    OtherStandbyToken,
    /// One byte makes the fork that an ending shell hands over to go on. A pipe of its own: what the standby before it was
    /// asked for is none of its business.
    Succession,
    /// One byte lets the fork that waits become a background process.
    Begin,
    /// The same for one with a terminal, beside which a fork can be waiting.
    TerminalBegin,
    /// What the shell tells.
    Control,
    /// What standbys and background processes that are being born tell. Apart from `Control` because they write at the same time as the shell.
    StandbyControl,
    /// Standard output of the shell itself.
    BaseOutput,
    /// Standard error of the shell itself.
    BaseError,
}

/// A text, or bytes, that one side leaves for the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Text {
    /// The command.
    Command,
    /// The loop as a builtin: an object that a new shell loads, or nothing.
    Loop,
    /// What a new shell sources first.
    Init,
    /// The EXIT trap.
    Exit,
    /// The standby's version of it.
    StandbyExit,
    /// What the standby does when it is woken.
    Errand,
    /// The same for one that waits at [`Pipe::OtherStandbyToken`].
    OtherErrand,
    /// The directory, variables and limits of a background process.
    ProcessScope,
    /// The command of a background process.
    ProcessCommand,
    /// The saved state of a background process with a terminal.
    ProcessDump,
    /// What its new shell sources first.
    ProcessInit,
    /// `return <status>`, sourced to bring `$?` back.
    Status,
    /// The saved state.
    Dump,
    /// The answer to a question of the engine's.
    Answer,
}

impl Pipe {
    /// The text that goes with a byte for a standby.
    pub fn errand(self) -> Text {
        if self == Self::OtherStandbyToken { Text::OtherErrand } else { Text::Errand }
    }
}

/// Whose streams. A background process starts while a command runs, so each has names of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The running command's.
    Foreground,
    /// Those of the background process that is being started.
    Background,
}

/// A stream of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard input.
    Input,
    /// Standard output.
    Output,
    /// Standard error.
    Error,
}

/// Every pipe, in the order of the enumeration.
pub const PIPES: [(Pipe, &str); 11] = [
    (Pipe::Token, "token"),
    (Pipe::Resume, "resume"),
    (Pipe::StandbyToken, "standby-token"),
    (Pipe::OtherStandbyToken, "other-standby-token"),
    (Pipe::Succession, "succession"),
    (Pipe::Begin, "begin"),
    (Pipe::TerminalBegin, "terminal-begin"),
    (Pipe::Control, "control"),
    (Pipe::StandbyControl, "standby-control"),
    (Pipe::BaseOutput, "base-output"),
    (Pipe::BaseError, "base-error"),
];

/// Every text, in the order of the enumeration.
pub const TEXTS: [(Text, &str); 14] = [
    (Text::Command, "command"),
    (Text::Loop, "loop"),
    (Text::Init, "init"),
    (Text::Exit, "exit"),
    (Text::StandbyExit, "standby-exit"),
    (Text::Errand, "errand"),
    (Text::OtherErrand, "other-errand"),
    (Text::ProcessScope, "process-scope"),
    (Text::ProcessCommand, "process-command"),
    (Text::ProcessDump, "process-dump"),
    (Text::ProcessInit, "process-init"),
    (Text::Status, "status"),
    (Text::Dump, "dump"),
    (Text::Answer, "answer"),
];

/// See the module.
pub trait Transport: Send {
    /// The path of a pipe, as the shell opens it.
    fn pipe_path(&self, pipe: Pipe) -> String;

    /// The path of a text, as the shell opens it.
    fn text_path(&self, text: Text) -> String;

    /// The path of a stream, as the shell opens it.
    fn stream_path(&self, side: Side, stream: Stream) -> String;

    /// This process's end of a pipe; reading does not block.
    fn pipe(&self, pipe: Pipe) -> &Arc<OwnedFd>;

    /// A blocking write end of a pipe, to be inherited as a standard descriptor.
    fn inheritable(&self, pipe: Pipe) -> io::Result<OwnedFd>;

    /// Replaces a text.
    fn store(&self, text: Text, bytes: &[u8]) -> io::Result<()>;

    /// Reads a text.
    fn load(&self, text: Text) -> io::Result<Vec<u8>>;

    /// Puts fresh streams in place for the next command.
    fn open_streams(&mut self, side: Side, stdin: Stdin<'_>) -> io::Result<Streams>;

    /// Lets go of this process's copies of the ends that belong to the command; until the next command the streams lead
    /// nowhere.
    fn close_streams(&mut self, side: Side);

    /// A path under which an open descriptor shows that it is this pipe, as in `/proc/<pid>/fd`.
    fn link_name(&self, pipe: Pipe) -> io::Result<PathBuf>;

    /// A directory to remove when the session has ended.
    fn scratch(&self) -> Option<PathBuf>;
}
