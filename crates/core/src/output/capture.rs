//! The output of a running command.

use super::arrival::Arrival;
use super::head_tail::HeadTail;
use super::live::{LARGEST_PIECE, Live};
use super::reader::Reader;
use crate::exec::{Outcome, Sink};
use crate::sys;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// Reads both streams into bounded buffers, and sends chunks at the consumer's pace.
pub struct Capture {
    reader: Reader,
    kept: Kept,
}

/// What becomes of the bytes.
struct Kept {
    buffers: [HeadTail; 2],
    arrival: Arrival,
    live: Option<Live>,
    scratch: Vec<u8>,
    /// Bytes that the command may still print.
    allowance: Option<u64>,
    /// It has printed more than that. The excess is dropped.
    is_excessive: bool,
}

/// Bytes of excess output to read at once.
const EXCESS: usize = 64 * 1024;

impl Capture {
    /// Keeps `limit` bytes of each stream, and accepts `allowance` bytes of both.
    pub fn new(reader: Reader, limit: usize, allowance: Option<u64>, live: Option<Arc<Semaphore>>) -> Self {
        let kept = Kept {
            allowance,
            is_excessive: false,
            buffers: [HeadTail::new(limit), HeadTail::new(limit)],
            arrival: Arrival::default(),
            live: live.map(Live::new),
            scratch: Vec::new(),
        };
        Self { reader, kept }
    }

    /// See [`Reader::watch`]. Until then [`Capture::step`] never completes.
    pub fn watch(&mut self) -> io::Result<()> {
        self.reader.watch()
    }

    /// Waits until a stream is readable and reads it once. Cancel-safe: a cancelled step has read nothing.
    pub async fn step(&mut self, sink: &mut dyn Sink) {
        let Self { reader, kept } = self;
        let live = kept.live.as_ref();
        let stream = tokio::select! {
            stream = reader.ready(|stream| live.is_none_or(|live| live.has_room(stream))) => Some(stream),
            () = due(live) => None,
        };
        match (stream, &mut kept.live) {
            (Some(stream), _) => drop(reader.read(stream, |fd| kept.read(stream, fd, usize::MAX, sink))),
            (None, Some(live)) => live.send(sink),
            (None, None) => {}
        }
    }

    /// True once the command has printed more than its allowance.
    pub fn is_excessive(&self) -> bool {
        self.kept.is_excessive
    }

    /// Stops backpressure from blocking a command that is being killed.
    pub fn hurry(&mut self) {
        if let Some(live) = &mut self.kept.live {
            live.hurry();
        }
    }

    /// See [`Reader::drain`]. The rest is sent at once.
    pub fn drain(&mut self, sink: &mut dyn Sink) {
        let Self { reader, kept } = self;
        if let Some(live) = &mut kept.live {
            live.end();
        }
        reader.drain(|stream, fd, most| kept.read(stream, fd, most, sink));
    }

    /// Adds output that did not come through the pipes.
    pub fn push(&mut self, stream: usize, bytes: &[u8], sink: &mut dyn Sink) {
        if bytes.is_empty() {
            return;
        }
        let kept = &mut self.kept;
        kept.buffers[stream].push(bytes);
        kept.arrival.note(stream, bytes.len());
        if let Some(live) = &mut kept.live {
            live.room(stream, sink).extend_from_slice(bytes);
            live.added(sink);
        }
    }

    /// Sets the output in the outcome. Returns the reader, because processes may still write.
    pub fn finish(self, outcome: &mut Outcome, sink: &mut dyn Sink) -> Reader {
        let mut kept = self.kept;
        if let Some(live) = &mut kept.live {
            live.end();
            live.send(sink);
        }
        outcome.output_limited = kept.is_excessive;
        outcome.order = kept.arrival.kept([kept.buffers[0].kept(), kept.buffers[1].kept()]);
        let [stdout, stderr] = kept.buffers;
        let (dropped_stdout, dropped_stderr);
        (outcome.stdout, dropped_stdout) = stdout.finish();
        (outcome.stderr, dropped_stderr) = stderr.finish();
        outcome.dropped = (dropped_stdout, dropped_stderr);
        self.reader
    }
}

impl Kept {
    fn read(&mut self, stream: usize, fd: &OwnedFd, most: usize, sink: &mut dyn Sink) -> io::Result<usize> {
        let (buffer, scratch) = (&mut self.buffers[stream], &mut self.scratch);
        if self.allowance == Some(0) {
            scratch.clear();
            scratch.reserve(EXCESS);
            let count = sys::read_spare(fd, scratch, most.min(EXCESS))?;
            self.is_excessive |= count > 0;
            return Ok(count);
        }
        let most = self.allowance.map_or(most, |left| most.min(usize::try_from(left).unwrap_or(usize::MAX)));
        let count = match self.live.as_mut().filter(|live| !live.is_cut()) {
            None => buffer.read_from(fd, most, scratch)?,
            Some(live) => {
                let piece = live.room(stream, sink);
                let before = piece.len();
                let count = sys::read_spare(fd, piece, most.min(LARGEST_PIECE - before))?;
                buffer.push(&piece[before..]);
                live.added(sink);
                count
            }
        };
        if let Some(left) = &mut self.allowance {
            *left -= count as u64;
        }
        self.arrival.note(stream, count);
        Ok(count)
    }
}

async fn due(live: Option<&Live>) {
    match live {
        Some(live) => live.due().await,
        None => std::future::pending().await,
    }
}
