//! Copies a process's output to its log as long as any process holds its pipes.

use super::{Hold, Process};
use crate::exec::OutputStream;
use crate::sys;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use tokio::io::unix::AsyncFd;
use tokio::sync::oneshot;

/// The end of a process as the kernel reports it.
#[derive(Clone, Copy, Debug)]
pub struct Status {
    /// Exit code, if it exited.
    pub code: Option<i32>,
    /// Signal number, if a signal killed it.
    pub signal: Option<i32>,
    /// Whether it reached its memory limit.
    pub out_of_memory: bool,
    /// The shell was signalled while it ran no foreground program.
    pub alone: bool,
}

/// Maximum bytes per read.
const READ_BYTES: usize = 64 * 1024;
/// After this many bytes a pipe is enlarged.
const LARGE_OUTPUT_BYTES: u64 = 256 * 1024;
const LARGE_PIPE_BYTES: i32 = 1 << 20;

/// After this many consecutive reads of standard output, standard error is read.
const MOST_IN_A_ROW: u32 = 16;

const STREAMS: [OutputStream; 2] = [OutputStream::Stdout, OutputStream::Stderr];

struct Pump {
    process: Arc<Process>,
    pipes: [Option<AsyncFd<OwnedFd>>; 2],
    total: [u64; 2],
    is_terminal: bool,
    buffer: Vec<u8>,
}

/// Copies output until no process can write to the pipes.
///
/// When the process itself ends, the current content of the pipes is read before the end is published, so the log is
/// complete. Later output of its descendants is logged too.
///
/// The order of writes to two pipes is unknown. If both have data, standard output is read first, because most programs
/// print their result before messages about it.
pub fn pump(process: Arc<Process>, output: [Option<OwnedFd>; 2], mut ended: oneshot::Receiver<Status>) {
    tokio::spawn(async move {
        let pipes = output.map(|fd| sys::watch(fd?).ok());
        let is_terminal = pipes[1].is_none();
        let mut pump = Pump { process, pipes, total: [0; 2], is_terminal, buffer: Vec::with_capacity(READ_BYTES) };
        let mut lives = true;
        let mut in_a_row: u32 = 0;
        while lives || pump.pipes.iter().any(Option::is_some) {
            let first = usize::from(in_a_row >= MOST_IN_A_ROW);
            let [one, other] = [first, 1 - first].map(|stream| pump.pipes[stream].as_ref());
            let end: u64 = pump.total.iter().sum();
            // After the end, no backpressure applies: a reader that waits for the end receives all output.
            let full = pump.process.hold.as_ref().filter(|hold| lives && hold.is_full(end));
            let read = tokio::select! {
                biased;
                status = &mut ended, if lives => {
                    lives = false;
                    pump.drain();
                    pump.process.ended(status.ok());
                    pump.process.log.end();
                    continue;
                }
                () = room(full, end), if full.is_some() => continue,
                () = readable(one), if full.is_none() => first,
                () = readable(other), if full.is_none() => 1 - first,
            };
            pump.read(read, READ_BYTES);
            in_a_row = if read == 0 { in_a_row.saturating_add(1) } else { 0 };
        }
    });
}

impl Pump {
    /// Reads only what the pipes contain now, so that a child that keeps printing cannot delay the end.
    fn drain(&mut self) {
        for stream in 0..2 {
            // A terminal does not always report how many bytes are waiting.
            let waiting = self.pipes[stream].as_ref().and_then(|fd| sys::bytes_in_pipe(fd).ok());
            let mut left = waiting.unwrap_or(0).max(if self.is_terminal { READ_BYTES } else { 0 });
            while left > 0 {
                match self.read(stream, left.min(READ_BYTES)) {
                    0 => break,
                    count => left -= count.min(left),
                }
            }
        }
    }

    /// Reads once, without waiting for readiness: `drain` must find bytes that the reactor has not noticed yet.
    fn read(&mut self, stream: usize, most: usize) -> usize {
        let Some(pipe) = &self.pipes[stream] else { return 0 };
        self.buffer.clear();
        match sys::read_spare(pipe, &mut self.buffer, most) {
            Ok(count) if count > 0 => {
                let before = self.total[stream];
                self.total[stream] += count as u64;
                if before <= LARGE_OUTPUT_BYTES && self.total[stream] > LARGE_OUTPUT_BYTES {
                    sys::grow_pipe(pipe, LARGE_PIPE_BYTES);
                }
                self.process.log.push(STREAMS[stream], &self.buffer);
                count
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let _ = pipe.try_io(tokio::io::Interest::READABLE, |_| Err::<(), _>(io::ErrorKind::WouldBlock.into()));
                0
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            _ => {
                self.pipes[stream] = None;
                0
            }
        }
    }
}

async fn room(full: Option<&Hold>, end: u64) {
    if let Some(hold) = full {
        hold.room(end).await;
    }
}

/// The guard is dropped without clearing: `read` clears readiness when it finds nothing.
async fn readable(pipe: Option<&AsyncFd<OwnedFd>>) {
    match pipe {
        Some(pipe) if pipe.readable().await.is_ok() => {}
        _ => std::future::pending().await,
    }
}
