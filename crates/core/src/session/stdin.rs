//! Writing a command's standard input while it runs.

use crate::driver::StdinEnd;
use crate::exec::{Chunk, Input};
use crate::sys;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;
use tokio::io::unix::AsyncFd;
use tokio::task::JoinHandle;

/// What a terminal in its usual mode takes for the end of file, at the beginning of a line (termios(3), VEOF).
const END_OF_TRANSMISSION: u8 = 4;

/// Writes until everything is written or nobody reads any more. Aborting the task closes the pipe.
pub fn feed(end: StdinEnd, input: Input) -> JoinHandle<()> {
    tokio::spawn(async move {
        let mut is_terminal = false;
        let pipe = match end {
            StdinEnd::Pipe(fd) => Ok(fd),
            StdinEnd::Fifo(path) => open_fifo(path).await,
            StdinEnd::Terminal(fd) => {
                is_terminal = true;
                Ok(fd)
            }
        };
        let mut pipe = pipe.and_then(sys::watch).ok();
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
        match guard.try_io(|fd| sys::write(fd, bytes)) {
            Ok(Ok(count)) => bytes = &bytes[count..],
            Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(Err(error)) => return Err(error),
            Err(_would_block) => {}
        }
    }
    Ok(())
}

/// A FIFO can be opened for writing once the shell has opened it for reading; the shell's open waits for this one. Until
/// then the kernel answers ENXIO, and there is nothing to wait on but time.
async fn open_fifo(path: PathBuf) -> io::Result<OwnedFd> {
    loop {
        match sys::nonblocking_options(false, true).open(&path) {
            Err(error) if error.raw_os_error() == Some(libc::ENXIO) => {
                tokio::time::sleep(Duration::from_millis(1)).await
            }
            other => return other.map(OwnedFd::from),
        }
    }
}
