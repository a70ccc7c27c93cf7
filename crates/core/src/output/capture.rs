//! The two output pipes of a running command.

use super::arrival::Arrival;
use super::head_tail::HeadTail;
use crate::exec::{Outcome, OutputStream, Sink};
use crate::sys;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use tokio::io::unix::AsyncFd;
use tokio::sync::Semaphore;

/// One pipe. It is registered with the reactor only when the command has run for a moment: most have ended by then, and
/// what they printed waits in the pipe.
enum Pipe {
    Unregistered(OwnedFd),
    Registered(AsyncFd<OwnedFd>),
    Ended,
}

/// Pipes that hold more than this are made larger.
const LARGE_OUTPUT: u64 = 256 * 1024;
const LARGE_PIPE: i32 = 1 << 20;

/// Reads both pipes into bounded buffers, and hands pieces on while the consumer keeps up.
pub struct Capture {
    pipes: [Pipe; 2],
    grown: [bool; 2],
    buffers: [HeadTail; 2],
    arrival: Arrival,
    live: Option<Arc<Semaphore>>,
    scratch: Vec<u8>,
}

const STREAMS: [OutputStream; 2] = [OutputStream::Stdout, OutputStream::Stderr];

impl Capture {
    /// Takes the read ends, both non-blocking.
    pub fn new(stdout: OwnedFd, stderr: OwnedFd, limit: usize, live: Option<Arc<Semaphore>>) -> Self {
        Self {
            pipes: [Pipe::Unregistered(stdout), Pipe::Unregistered(stderr)],
            grown: [false; 2],
            buffers: [HeadTail::new(limit), HeadTail::new(limit)],
            arrival: Arrival::default(),
            live,
            scratch: Vec::new(),
        }
    }

    /// Starts to listen to the pipes. Until then [`Capture::step`] never completes.
    pub fn register(&mut self) -> io::Result<()> {
        for pipe in &mut self.pipes {
            if let Pipe::Unregistered(_) = pipe {
                let Pipe::Unregistered(fd) = std::mem::replace(pipe, Pipe::Ended) else { continue };
                *pipe = Pipe::Registered(sys::watch(fd)?);
            }
        }
        Ok(())
    }

    /// Waits until a pipe has something and reads it once. Cancel-safe: a cancelled step has read nothing.
    pub async fn step(&mut self, sink: &mut dyn Sink) {
        if let Some(live) = &self.live {
            // Without a permit the pipe is left alone. The permit is taken for good; the consumer adds a new one.
            match live.acquire().await {
                Ok(permit) => drop(permit),
                Err(_) => std::future::pending().await,
            }
        }
        let stream = {
            let [stdout, stderr] = &self.pipes;
            tokio::select! {
                () = readable(stdout) => 0,
                () = readable(stderr) => 1,
            }
        };
        self.read_once(stream, usize::MAX, sink);
    }

    /// Reads what is in the pipes right now and not more, so that a background process which goes on printing can not
    /// keep the result from being given.
    pub fn drain(&mut self, sink: &mut dyn Sink) {
        for stream in 0..2 {
            let mut left = match &self.pipes[stream] {
                Pipe::Unregistered(fd) => sys::bytes_in_pipe(fd),
                Pipe::Registered(fd) => sys::bytes_in_pipe(fd),
                Pipe::Ended => Ok(0),
            }
            .unwrap_or(0);
            while left > 0 {
                match self.read_once(stream, left, sink) {
                    0 => break,
                    count => left -= count.min(left),
                }
            }
        }
    }

    /// Output that came another way than through the pipes.
    pub fn push(&mut self, stream: usize, bytes: &[u8], sink: &mut dyn Sink) {
        if bytes.is_empty() {
            return;
        }
        self.buffers[stream].push(bytes);
        self.arrival.note(stream, bytes.len());
        if self.live.is_some() {
            sink.output(STREAMS[stream], bytes);
        }
    }

    /// Fills in the output of the result, and gives back the pipes that background processes still hold.
    pub fn finish(self, outcome: &mut Outcome) -> Vec<OwnedFd> {
        outcome.order = self.arrival.kept([self.buffers[0].kept(), self.buffers[1].kept()]);
        let [stdout, stderr] = self.buffers;
        let (dropped_stdout, dropped_stderr);
        (outcome.stdout, dropped_stdout) = stdout.finish();
        (outcome.stderr, dropped_stderr) = stderr.finish();
        outcome.dropped = (dropped_stdout, dropped_stderr);
        self.pipes.into_iter().filter_map(still_open).collect()
    }

    fn read_once(&mut self, stream: usize, most: usize, sink: &mut dyn Sink) -> usize {
        let (buffer, scratch) = (&mut self.buffers[stream], &mut self.scratch);
        let live = self.live.is_some();
        let mut read = |fd: &OwnedFd| {
            if !live {
                return buffer.read_from(fd, most, scratch);
            }
            scratch.clear();
            scratch.reserve(most.min(64 * 1024));
            let count = sys::read_spare(fd, scratch, most.min(64 * 1024))?;
            buffer.push(scratch);
            Ok(count)
        };
        // The read itself never waits for readiness: `drain` must see bytes that the reactor has not noticed yet.
        let result = match &self.pipes[stream] {
            Pipe::Unregistered(fd) => read(fd),
            Pipe::Registered(fd) => read(fd.get_ref()),
            Pipe::Ended => Ok(0),
        };
        match result {
            Ok(0) => {
                self.pipes[stream] = Pipe::Ended;
                0
            }
            Ok(count) => {
                self.arrival.note(stream, count);
                if live {
                    if let Some(permits) = &self.live {
                        permits.forget_permits(1);
                    }
                    let bytes = std::mem::take(&mut self.scratch);
                    sink.output(STREAMS[stream], &bytes);
                    self.scratch = bytes;
                }
                self.grow(stream);
                count
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if let Pipe::Registered(fd) = &self.pipes[stream] {
                    let _ =
                        fd.try_io(tokio::io::Interest::READABLE, |_| Err::<(), _>(io::ErrorKind::WouldBlock.into()));
                }
                0
            }
            Err(_) => {
                self.pipes[stream] = Pipe::Ended;
                0
            }
        }
    }

    fn grow(&mut self, stream: usize) {
        if !self.grown[stream] && self.buffers[stream].total() > LARGE_OUTPUT {
            self.grown[stream] = true;
            if let Pipe::Registered(fd) = &self.pipes[stream] {
                sys::grow_pipe(fd, LARGE_PIPE);
            }
        }
    }
}

async fn readable(pipe: &Pipe) {
    match pipe {
        Pipe::Registered(fd) => match fd.readable().await {
            // The guard is dropped without clearing: `read_once` clears readiness when it finds nothing.
            Ok(_guard) => {}
            Err(_) => std::future::pending().await,
        },
        _ => std::future::pending().await,
    }
}

fn still_open(pipe: Pipe) -> Option<OwnedFd> {
    let fd = match pipe {
        Pipe::Unregistered(fd) => fd,
        Pipe::Registered(fd) => fd.into_inner(),
        Pipe::Ended => return None,
    };
    // One more look: with all writers gone, a read gives the end of file and there is nothing to look after.
    let mut nothing = Vec::with_capacity(1);
    match sys::read_spare(&fd, &mut nothing, 1) {
        Ok(0) => None,
        _ => Some(fd),
    }
}

/// Reads and forgets what background processes print after their command's result has been given. Were the pipe closed
/// instead, the next line would kill them (SIGPIPE); were it left alone, they would block when it is full.
pub fn drain_late(fd: OwnedFd) {
    tokio::spawn(async move {
        let Ok(fd) = sys::watch(fd) else { return };
        let mut waste = Vec::with_capacity(64 * 1024);
        loop {
            let Ok(mut guard) = fd.readable().await else { return };
            waste.clear();
            match guard.try_io(|fd| sys::read_spare(fd, &mut waste, usize::MAX)) {
                Ok(Ok(0)) => return,
                Ok(Err(error)) if error.kind() != io::ErrorKind::Interrupted => return,
                _ => {}
            }
        }
    });
}
