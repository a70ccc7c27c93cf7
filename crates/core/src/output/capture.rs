//! The two output pipes of a running command.

use super::arrival::Arrival;
use super::head_tail::HeadTail;
use super::live::{LARGEST_PIECE, Live};
use super::pipe::Pipe;
use crate::exec::{Outcome, Sink};
use crate::sys;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Reads both pipes into bounded buffers, and sends chunks at the consumer's pace.
pub struct Capture {
    pipes: [Pipe; 2],
    buffers: [HeadTail; 2],
    arrival: Arrival,
    live: Option<Live>,
    scratch: Vec<u8>,
}

impl Capture {
    /// Takes the read ends, both non-blocking.
    pub fn new(stdout: OwnedFd, stderr: OwnedFd, limit: usize, live: Option<Arc<Semaphore>>) -> Self {
        Self {
            pipes: [Pipe::new(stdout), Pipe::new(stderr)],
            buffers: [HeadTail::new(limit), HeadTail::new(limit)],
            arrival: Arrival::default(),
            live: live.map(Live::new),
            scratch: Vec::new(),
        }
    }

    /// Starts watching the pipes. Until then [`Capture::step`] never completes.
    pub fn register(&mut self) -> io::Result<()> {
        self.pipes.iter_mut().try_for_each(Pipe::watch)
    }

    /// Waits until a pipe is readable and reads it once. Cancel-safe: a cancelled step has read nothing.
    pub async fn step(&mut self, sink: &mut dyn Sink) {
        let stream = {
            let [stdout, stderr] = &self.pipes;
            let has_room = |stream| self.live.as_ref().is_none_or(|live| live.has_room(stream));
            tokio::select! {
                () = stdout.ready(), if has_room(0) => Some(0),
                () = stderr.ready(), if has_room(1) => Some(1),
                () = due(self.live.as_ref()) => None,
            }
        };
        match (stream, &mut self.live) {
            (Some(stream), _) => drop(self.read_once(stream, usize::MAX, sink)),
            (None, Some(live)) => live.send(sink),
            (None, None) => {}
        }
    }

    /// Stops backpressure from blocking a command that is being killed.
    pub fn hurry(&mut self) {
        if let Some(live) = &mut self.live {
            live.hurry();
        }
    }

    /// Reads only what the pipes contain now, so that a background process that keeps printing cannot delay the result.
    pub fn drain(&mut self, sink: &mut dyn Sink) {
        if let Some(live) = &mut self.live {
            live.end();
        }
        for stream in 0..2 {
            let mut left = self.pipes[stream].waiting();
            while left > 0 {
                match self.read_once(stream, left, sink) {
                    0 => break,
                    count => left -= count.min(left),
                }
            }
        }
    }

    /// Adds output that did not come through the pipes.
    pub fn push(&mut self, stream: usize, bytes: &[u8], sink: &mut dyn Sink) {
        if bytes.is_empty() {
            return;
        }
        self.buffers[stream].push(bytes);
        self.arrival.note(stream, bytes.len());
        if let Some(live) = &mut self.live {
            live.room(stream, sink).extend_from_slice(bytes);
            live.added(sink);
        }
    }

    /// Sets the output in the outcome.
    pub fn finish(mut self, outcome: &mut Outcome, sink: &mut dyn Sink) -> Leftover {
        if let Some(live) = &mut self.live {
            live.end();
            live.send(sink);
        }
        outcome.order = self.arrival.kept([self.buffers[0].kept(), self.buffers[1].kept()]);
        let [stdout, stderr] = self.buffers;
        let (dropped_stdout, dropped_stderr);
        (outcome.stdout, dropped_stdout) = stdout.finish();
        (outcome.stderr, dropped_stderr) = stderr.finish();
        outcome.dropped = (dropped_stdout, dropped_stderr);
        Leftover(self.pipes)
    }

    fn read_once(&mut self, stream: usize, most: usize, sink: &mut dyn Sink) -> usize {
        let (buffer, scratch) = (&mut self.buffers[stream], &mut self.scratch);
        let live = self.live.as_mut().filter(|live| !live.is_cut());
        let count = self.pipes[stream].read(|fd| match live {
            None => buffer.read_from(fd, most, scratch),
            Some(live) => {
                let piece = live.room(stream, sink);
                let before = piece.len();
                let count = sys::read_spare(fd, piece, most.min(LARGEST_PIECE - before))?;
                buffer.push(&piece[before..]);
                live.added(sink);
                Ok(count)
            }
        });
        self.arrival.note(stream, count);
        count
    }
}

async fn due(live: Option<&Live>) {
    match live {
        Some(live) => live.due().await,
        None => std::future::pending().await,
    }
}

/// The pipes of a command whose result has been delivered.
pub struct Leftover([Pipe; 2]);

impl Leftover {
    /// Returns the read ends for the next command if they were never watched. Call it only if the command left no
    /// process, because nothing else may write to the pipes.
    pub fn reclaim(self) -> Result<[OwnedFd; 2], Box<Self>> {
        let [stdout, stderr] = self.0;
        match (stdout.into_unwatched(), stderr.into_unwatched()) {
            (Ok(stdout), Ok(stderr)) => Ok([stdout, stderr]),
            (stdout, stderr) => {
                Err(Box::new(Self([stdout, stderr].map(|pipe| pipe.map_or_else(|pipe| pipe, Pipe::new)))))
            }
        }
    }

    /// Reads and drops later output of background processes. Call it after closing the write ends in this process. If
    /// the pipe were closed instead, SIGPIPE would kill the writers; if it were not read, a full pipe would block them.
    /// Dropping the set closes the pipes.
    pub fn let_go(self, drains: &mut JoinSet<()>) {
        for pipe in self.0.into_iter().filter_map(Pipe::into_open) {
            drains.spawn(drain_late(pipe));
        }
    }
}

async fn drain_late(fd: OwnedFd) {
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
}
