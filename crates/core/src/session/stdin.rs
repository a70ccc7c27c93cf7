//! Writes a command's standard input while the command runs.

use crate::exec::{Chunk, Input};
use crate::sys;
use std::io;
use std::os::fd::OwnedFd;
use tokio::io::unix::AsyncFd;
use tokio::task::JoinHandle;

/// The end-of-file byte of a terminal in its usual mode, at the beginning of a line (termios(3), VEOF).
const END_OF_TRANSMISSION: u8 = 4;

/// The non-blocking write end of standard input.
pub(super) enum StdinEnd {
    /// A pipe.
    Pipe(OwnedFd),
    /// The master of a terminal.
    Terminal(OwnedFd),
}

/// Writes until all input is written or no reader is left. Aborting the task closes the pipe.
pub(super) fn feed(end: StdinEnd, input: Input) -> JoinHandle<()> {
    tokio::spawn(async move {
        let (fd, is_terminal) = match end {
            StdinEnd::Pipe(fd) => (fd, false),
            StdinEnd::Terminal(fd) => (fd, true),
        };
        let mut pipe = sys::watch(fd).ok();
        match input {
            Input::None => {}
            Input::Bytes(bytes) => drop(write_all(&mut pipe, &bytes).await),
            Input::Stream(mut chunks) => {
                while let Some(Chunk { bytes, taken }) = chunks.recv().await {
                    if write_all(&mut pipe, &bytes).await.is_err() {
                        pipe = None;
                    }
                    taken();
                }
            }
        }
        if is_terminal {
            let _ = write_all(&mut pipe, &[END_OF_TRANSMISSION]).await;
        }
    })
}

async fn write_all(pipe: &mut Option<AsyncFd<OwnedFd>>, mut bytes: &[u8]) -> io::Result<()> {
    let Some(pipe) = pipe else { return Ok(()) };
    while !bytes.is_empty() {
        let mut guard = pipe.writable().await?;
        let is_closed = guard.ready().is_write_closed();
        match guard.try_io(|fd| sys::write(fd, bytes)) {
            Ok(Ok(count)) => bytes = &bytes[count..],
            Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(Err(error)) => return Err(error),
            // No process has the terminal open. It then always counts as writable, although it accepts nothing.
            Err(_would_block) if is_closed => return Err(io::ErrorKind::BrokenPipe.into()),
            Err(_would_block) => {}
        }
    }
    Ok(())
}
