//! The running foreground command: its streams, its standard input, its result.

use super::busy_poll;
use super::stdin::{self, StdinEnd};
use crate::exec::{Command, ExecRequest, Input};
use crate::outbox::Descriptor;
use crate::output::capture::{Capture, Leftover};
use crate::shell::state::Ticket;
use crate::sys;
use nacre_protocol::shell::RequestFlags;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::SystemTime;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// See the module.
pub(super) struct Running {
    pub(super) ticket: Ticket,
    pub(super) request: Box<ExecRequest>,
    pub(super) capture: Capture,
    /// This process's copies of the write ends.
    pub(super) writers: [Arc<OwnedFd>; 2],
    /// Whether processes of the command may hold the pipes. Known at its end.
    pub(super) forked: bool,
    pub(super) begun: Instant,
    pub(super) started_at: SystemTime,
    /// Exit code and signal of the shell's process, if the command ended it.
    pub(super) died: Option<(Option<i32>, Option<i32>)>,
    feeder: Option<JoinHandle<()>>,
    streams_input: bool,
    is_registered: bool,
    _counted: busy_poll::Running,
}

/// Pipes for output and error, reused as long as no command leaves a process behind.
pub(super) struct OutputPipes {
    readers: [OwnedFd; 2],
    writers: [Arc<OwnedFd>; 2],
}

impl OutputPipes {
    fn open() -> io::Result<Self> {
        let ((stdout, to_stdout), (stderr, to_stderr)) = (sys::output_pipe()?, sys::output_pipe()?);
        Ok(Self { readers: [stdout, stderr], writers: [Arc::new(to_stdout), Arc::new(to_stderr)] })
    }

    /// Returns the read ends and closes the write ends.
    pub(super) fn into_readers(self) -> [OwnedFd; 2] {
        self.readers
    }
}

/// The process's ends of the three streams, and the host's.
pub(super) struct Streams {
    /// For the process: standard input, output, error.
    pub(super) theirs: Vec<Descriptor>,
    /// The pipes of output and error.
    pub(super) output: OutputPipes,
    /// The host's write end of standard input.
    pub(super) stdin: Option<StdinEnd>,
}

/// Standard input up to this length fits into a pipe, and is written in one step.
const PIPE_BYTES: usize = 64 * 1024;

impl Streams {
    /// Opens the descriptors for `input`, and pipes for output and error, which come from `spare` if possible.
    pub(super) fn open(input: &Input, spare: Option<OutputPipes>, merge_output: bool) -> io::Result<Self> {
        let output = spare.map_or_else(OutputPipes::open, Ok)?;
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
                let whole = match input {
                    Input::Bytes(bytes) if bytes.len() <= PIPE_BYTES => Some(bytes),
                    _ => None,
                };
                match whole {
                    Some(bytes) if sys::write(&ours, bytes)? == bytes.len() => (theirs.into(), None),
                    Some(_) => return Err(io::ErrorKind::WriteZero.into()),
                    None => (theirs.into(), Some(StdinEnd::Pipe(ours))),
                }
            }
        };
        Ok(Self { theirs: vec![their_stdin, their_stdout.into(), their_stderr.into()], output, stdin })
    }
}

impl Running {
    /// Creates a command whose streams are open, ready to be sent.
    pub(super) fn new(
        ticket: Ticket,
        mut request: Box<ExecRequest>,
        begun: Instant,
        output: OutputPipes,
        stdin: Option<StdinEnd>,
    ) -> Self {
        let streams_input = matches!(request.input, Input::Stream(_));
        let input = match &request.input {
            // Kept, because the command may have to be sent again.
            Input::Bytes(bytes) => Input::Bytes(Arc::clone(bytes)),
            _ => std::mem::replace(&mut request.input, Input::None),
        };
        let feeder = stdin.map(|end| stdin::feed(end, input));
        let OutputPipes { readers: [stdout, stderr], writers } = output;
        let capture = Capture::new(stdout, stderr, request.max_buffer, request.live.clone());
        Self {
            ticket,
            request,
            capture,
            writers,
            forked: true,
            begun,
            started_at: SystemTime::now(),
            died: None,
            feeder,
            streams_input,
            is_registered: false,
            _counted: busy_poll::Running::begin(),
        }
    }

    /// Waits for output and reads it. Cancel-safe.
    pub(super) async fn step(&mut self) {
        if self.is_registered {
            self.capture.step(self.request.sink.as_mut()).await;
        } else {
            std::future::pending().await
        }
    }

    /// Starts watching the pipes.
    pub(super) fn register(&mut self) -> io::Result<()> {
        self.is_registered = true;
        self.capture.register()
    }

    /// Whether the command can be sent again if the shell did not read it. Input already streamed into a pipe is lost.
    pub(super) fn is_repeatable(&self) -> bool {
        !self.streams_input
    }

    /// Stops writing to the command.
    pub(super) fn stop_input(&mut self) {
        if let Some(feeder) = self.feeder.take() {
            feeder.abort();
        }
    }

    /// Returns the request, to send it again.
    pub(super) fn into_request(mut self) -> Box<ExecRequest> {
        self.stop_input();
        self.request
    }
}

/// Keeps the pipes of an ended command for the next command, or closes them.
pub(super) fn keep_pipes(
    leftover: Leftover,
    writers: [Arc<OwnedFd>; 2],
    forked: bool,
) -> Result<OutputPipes, Box<Leftover>> {
    if forked {
        return Err(Box::new(leftover));
    }
    leftover.reclaim().map(|readers| OutputPipes { readers, writers })
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
