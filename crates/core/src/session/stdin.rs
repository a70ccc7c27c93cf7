//! Writes a command's standard input while the command runs.

use crate::exec::{Chunk, Input};
use crate::sys;
use rustix::fs::fstat;
use std::io;
use std::os::fd::OwnedFd;
use tokio::io::unix::AsyncFd;
use tokio::task::JoinHandle;

/// The end-of-file byte of a terminal in its usual mode, at the beginning of a line (termios(3), VEOF). Elsewhere it ends
/// only what has been typed of the line.
pub(super) const END_OF_TRANSMISSION: u8 = 4;

/// Number of Ctrl-D typed after input that is complete at the start: each read takes one.
pub(super) const TYPED_ENDS: usize = 64;

/// The usual size of a pipe. A user with many pipes gets smaller ones (pipe(7), pipe-user-pages-soft). Longer input is
/// not begun here, since it would not fit anyway.
const PIPE_BYTES: usize = 64 * 1024;

/// The non-blocking write end of standard input.
pub(super) enum StdinEnd {
    /// A pipe.
    Pipe {
        /// Its write end.
        end: OwnedFd,
        /// How many bytes have already been written.
        begun: usize,
    },
    /// The master of a terminal.
    Terminal(OwnedFd),
}

impl StdinEnd {
    /// Writes as much of the input as the pipe has room for. `None` if nothing is left to feed.
    pub(super) fn of(end: OwnedFd, input: &Input) -> io::Result<Option<Self>> {
        let begun = match input {
            Input::Bytes(bytes) if bytes.len() <= PIPE_BYTES => match sys::write(&end, bytes) {
                Ok(begun) if begun == bytes.len() => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
                begun => begun?,
            },
            _ => 0,
        };
        Ok(Some(Self::Pipe { end, begun }))
    }

    /// The inode of its pipe.
    pub(super) fn pipe(&self) -> Option<u64> {
        match self {
            Self::Pipe { end, .. } => fstat(end).ok().map(|found| found.st_ino),
            Self::Terminal(_) => None,
        }
    }
}

/// Writes until all input is written or no reader is left. Aborting the task closes the pipe.
pub(super) fn feed(end: StdinEnd, input: Input) -> JoinHandle<()> {
    tokio::spawn(async move {
        let (fd, begun, is_terminal) = match end {
            StdinEnd::Pipe { end, begun } => (end, begun, false),
            StdinEnd::Terminal(fd) => (fd, 0, true),
        };
        let mut pipe = sys::watch(fd).ok();
        let mut last = b'\n';
        let mut ends = TYPED_ENDS;
        match input {
            Input::None => {}
            Input::Bytes(bytes) => {
                last = bytes.last().copied().unwrap_or(last);
                drop(write_all(&mut pipe, &bytes[begun..]).await);
            }
            Input::Stream(mut chunks) => {
                ends = 1;
                while let Some(Chunk { bytes, taken }) = chunks.recv().await {
                    last = bytes.last().copied().unwrap_or(last);
                    if write_all(&mut pipe, &bytes).await.is_err() {
                        pipe = None;
                    }
                    taken();
                }
            }
        }
        if is_terminal {
            ends += usize::from(!matches!(last, b'\n' | b'\r' | END_OF_TRANSMISSION));
            let _ = write_all(&mut pipe, &[END_OF_TRANSMISSION; TYPED_ENDS + 1][..ends]).await;
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::sync::Arc;

    #[tokio::test]
    async fn input_that_a_small_pipe_does_not_take_at_once_arrives_whole() {
        let bytes: Vec<u8> = (0..20_000u32).flat_map(u32::to_ne_bytes).take(60_000).collect();
        let (mut reader, writer) = std::io::pipe().unwrap();
        // The size of a new pipe once its user has more than pipe-user-pages-soft.
        nix::fcntl::fcntl(&writer, nix::fcntl::FcntlArg::F_SETPIPE_SZ(8192)).unwrap();
        let writer = OwnedFd::from(writer);
        sys::set_nonblocking(&writer).unwrap();
        let input = Input::Bytes(Arc::new(bytes.clone()));
        let feeder = feed(StdinEnd::of(writer, &input).unwrap().unwrap(), input);
        let read = tokio::task::spawn_blocking(move || {
            let mut read = Vec::new();
            reader.read_to_end(&mut read).map(|_| read)
        });
        assert!(read.await.unwrap().unwrap() == bytes);
        feeder.await.unwrap();
    }
}
