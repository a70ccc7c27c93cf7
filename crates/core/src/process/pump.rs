//! Copies a process's output to its log as long as any process holds its pipes.

use super::Process;
use crate::output::reader::{Reader, STREAMS};
use crate::output::rest::{OutputSource, read_rest};
use crate::process_log::ProcessLog;
use crate::sys;
use nacre_protocol::supervisor::Asked;
use std::sync::Arc;
use tokio::sync::oneshot;

/// The end of a process as the kernel reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// Exit code, if it exited.
    pub code: Option<i32>,
    /// Signal number, if a signal killed it.
    pub signal: Option<i32>,
    /// Whether it reached its memory limit.
    pub out_of_memory: bool,
    /// Whether it had been asked to end.
    pub asked: Asked,
}

impl Status {
    /// Whether it can have ended because nacre sent this signal, and SIGKILL later. Otherwise it had ended by itself.
    pub(super) fn can_follow(&self, signal: i32) -> bool {
        let reported = self.signal.or(self.code.map(|code| code - 128));
        self.asked != Asked::No || self.out_of_memory || reported == Some(signal) || reported == Some(libc::SIGKILL)
    }
}

/// Maximum bytes per read.
const READ_BYTES: usize = 64 * 1024;
/// Most reads of a stream at the end of a process: as much as a large pipe holds.
const MOST_READS: usize = 17;

/// Copies output, which is watched, until no process can write to the pipes.
///
/// When the process itself ends, the rest of its output is read before the end is published, so the log is complete. Later output
/// of its descendants is logged too.
pub fn pump(process: Arc<Process>, output: Reader, mut ended: oneshot::Receiver<Status>) {
    tokio::spawn(async move {
        let mut output = Logged::new(&process.log, output);
        loop {
            let next = async {
                if let Some(hold) = &process.hold {
                    hold.room(output.total()).await;
                }
                output.step().await;
            };
            tokio::select! {
                biased;
                status = &mut ended => {
                    read_rest(process.life().birth.map(|birth| birth.tree), &mut output).await;
                    process.ended(status.ok());
                    process.log.end();
                    break;
                }
                () = next => {}
            }
        }
        output.log_rest().await;
    });
}

/// Output that is logged.
pub struct Logged<'a> {
    log: &'a ProcessLog,
    output: Reader,
    buffer: Vec<u8>,
}

impl<'a> Logged<'a> {
    /// Logs this output, which is watched.
    pub fn new(log: &'a ProcessLog, output: Reader) -> Self {
        Self { log, output, buffer: Vec::with_capacity(READ_BYTES) }
    }

    fn read(&mut self, stream: usize) -> usize {
        let Self { log, output, buffer } = self;
        output.read(stream, |fd| {
            buffer.clear();
            let count = sys::read_spare(fd, buffer, READ_BYTES)?;
            log.push(STREAMS[stream], buffer);
            Ok(count)
        })
    }

    /// Logs what descendants of an ended process print. No backpressure of a reader applies: one that waits for the end
    /// receives all output.
    pub async fn log_rest(mut self) {
        while self.is_open() {
            self.step().await;
        }
    }
}

impl OutputSource for Logged<'_> {
    fn read_on(&mut self) -> bool {
        for stream in 0..2 {
            // A process that keeps printing cannot delay the end.
            let mut left = MOST_READS;
            while left > 0 && self.read(stream) > 0 {
                left -= 1;
            }
        }
        self.is_open()
    }

    fn is_open(&self) -> bool {
        self.output.is_open()
    }

    fn is_own(&self, inode: u64) -> bool {
        self.output.is_own(inode)
    }

    fn total(&self) -> u64 {
        self.output.total()
    }

    async fn step(&mut self) {
        // On a slow disk the process waits, as if it wrote to the file itself.
        self.log.room().await;
        let stream = self.output.ready(|_| true).await;
        self.read(stream);
    }
}
