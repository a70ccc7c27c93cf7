//! Copies a process's output to its log as long as any process holds its pipes.

use super::Process;
use crate::output::reader::{Reader, STREAMS};
use crate::process_log::ProcessLog;
use crate::sys;
use nacre_protocol::supervisor::Asked;
use std::os::fd::OwnedFd;
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

/// Copies output, which is watched, until no process can write to the pipes.
///
/// When the process itself ends, the current content of the pipes is read before the end is published, so the log is
/// complete. Later output of its descendants is logged too.
pub fn pump(process: Arc<Process>, mut output: Reader, mut ended: oneshot::Receiver<Status>) {
    tokio::spawn(async move {
        let (hold, log) = (process.hold.as_ref(), &process.log);
        let mut buffer = Vec::with_capacity(READ_BYTES);
        let mut read = |stream: usize, fd: &OwnedFd, most| {
            buffer.clear();
            let count = sys::read_spare(fd, &mut buffer, most)?;
            log.push(STREAMS[stream], &buffer);
            Ok(count)
        };
        loop {
            let next = async {
                if let Some(hold) = hold {
                    hold.room(output.total()).await;
                }
                // On a slow disk the process waits, as if it wrote to the file itself.
                log.room().await;
                output.ready(|_| true).await
            };
            tokio::select! {
                biased;
                status = &mut ended => {
                    output.drain(&mut read);
                    process.ended(status.ok());
                    log.end();
                    break;
                }
                stream = next => drop(output.read(stream, |fd| read(stream, fd, READ_BYTES))),
            }
        }
        log_rest(log, output).await;
    });
}

/// Logs what descendants of an ended process print. No backpressure of a reader applies: one that waits for the end receives
/// all output.
pub async fn log_rest(log: &ProcessLog, mut output: Reader) {
    let mut buffer = Vec::with_capacity(READ_BYTES);
    while output.is_open() {
        log.room().await;
        let stream = output.ready(|_| true).await;
        output.read(stream, |fd| {
            buffer.clear();
            let count = sys::read_spare(fd, &mut buffer, READ_BYTES)?;
            log.push(STREAMS[stream], &buffer);
            Ok(count)
        });
    }
}
