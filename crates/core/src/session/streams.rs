//! The streams of a command or process, and its text and variables in the form of a request.

use super::stdin::{END_OF_TRANSMISSION, StdinEnd, TYPED_ENDS};
use crate::exec::{Command, Input};
use crate::link::Descriptor;
use crate::output::reader::Reader;
use crate::process::terminal::Terminal;
use crate::sys;
use nacre_protocol::shell::RequestFlags;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Pipes for output and error, reused as long as no command leaves a process behind.
pub(super) struct OutputPipes {
    reader: Reader,
    writers: [Arc<OwnedFd>; 2],
}

impl OutputPipes {
    fn open() -> io::Result<Self> {
        let ((stdout, to_stdout), (stderr, to_stderr)) = (sys::output_pipe()?, sys::output_pipe()?);
        Ok(Self { reader: Reader::new([stdout, stderr]), writers: [Arc::new(to_stdout), Arc::new(to_stderr)] })
    }

    /// Uses a terminal for both streams.
    fn of_terminal(terminal: &Terminal, other_side: &Arc<OwnedFd>) -> io::Result<Self> {
        let writers = [Arc::clone(other_side), Arc::clone(other_side)];
        Ok(Self { reader: Reader::of_terminal(terminal.side()?), writers })
    }

    /// Returns the reader, and this process's copies of the write ends.
    pub(super) fn into_parts(self) -> (Reader, [Arc<OwnedFd>; 2]) {
        (self.reader, self.writers)
    }

    /// Takes the pipes of an ended command back, unless something may still write into them.
    pub(super) fn reclaim(leftover: Reader, writers: [Arc<OwnedFd>; 2]) -> Result<Self, Reader> {
        leftover.renew().map(|reader| Self { reader, writers })
    }

    /// Returns the reader and closes the write ends.
    pub(super) fn into_reader(self) -> Reader {
        self.reader
    }
}

/// The process's ends of the three streams, and the host's.
pub(super) struct Streams {
    /// For the process: standard input, output, error.
    pub theirs: Vec<Descriptor>,
    /// The pipes of output and error.
    pub output: OutputPipes,
    /// The host's write end of standard input.
    pub stdin: Option<StdinEnd>,
}

impl Streams {
    /// Opens the descriptors for `input`, and pipes for output and error, which come from `idle` if possible.
    pub(super) fn open(input: &Input, idle: Option<OutputPipes>, merge_output: bool) -> io::Result<Self> {
        let output = idle.map_or_else(OutputPipes::open, Ok)?;
        let [their_stdout, mut their_stderr] = output.writers.clone();
        if merge_output {
            their_stderr = Arc::clone(&their_stdout);
        }
        let (their_stdin, stdin) = match input {
            Input::None => (sys::null()?.into(), None),
            Input::Bytes(bytes) if bytes.is_empty() => (sys::null()?.into(), None),
            Input::Bytes(_) | Input::Stream(_) => {
                let (theirs, ours) = sys::pipe()?;
                sys::set_nonblocking(&ours)?;
                (theirs.into(), StdinEnd::of(ours, input)?)
            }
        };
        Ok(Self { theirs: vec![their_stdin, their_stdout.into(), their_stderr.into()], output, stdin })
    }

    /// Uses a terminal for all three. The end of an empty input is typed: then there is no `stdin`, and the request needs
    /// [`RequestFlags::TYPED_END`].
    pub(super) fn of_terminal(terminal: &Terminal, input: &Input) -> io::Result<Self> {
        let other_side = Arc::new(terminal.open_other_side()?);
        let output = OutputPipes::of_terminal(terminal, &other_side)?;
        let theirs = (0..3).map(|_| Arc::clone(&other_side).into()).collect();
        let side = terminal.side()?;
        let is_empty = match input {
            Input::None => true,
            Input::Bytes(bytes) => bytes.is_empty(),
            Input::Stream(_) => false,
        };
        if is_empty {
            sys::write(&side, &[END_OF_TRANSMISSION; TYPED_ENDS])?;
        }
        Ok(Self { theirs, output, stdin: (!is_empty).then_some(StdinEnd::Terminal(side)) })
    }
}

/// The text of a command, and the flag that says how to read it.
pub(super) fn text_of(command: &Command) -> (Vec<u8>, RequestFlags) {
    match command {
        Command::Text(text) => (text.clone(), RequestFlags::default()),
        Command::Argv(words) => {
            (words.iter().flat_map(|word| [word.as_slice(), b"\0"].concat()).collect(), RequestFlags::ARGV)
        }
    }
}

/// Variables in the form of a request.
pub(super) fn env_of(vars: &[(String, Option<String>)]) -> Vec<u8> {
    let mut env = Vec::new();
    for (name, value) in vars {
        env.extend(name.as_bytes());
        if let Some(value) = value {
            env.push(b'=');
            env.extend(value.as_bytes());
        }
        env.push(0);
    }
    env
}

/// The streams of the engine's own commands.
pub(super) fn null_streams() -> io::Result<Vec<Descriptor>> {
    let null = sys::null()?;
    Ok(vec![Arc::clone(&null).into(), Arc::clone(&null).into(), null.into()])
}
