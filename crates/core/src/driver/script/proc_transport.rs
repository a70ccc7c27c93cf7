//! Channels that the shell opens as `/proc/<host pid>/fd/<n>`: anonymous pipes and memory files of this process.

use super::transport::{PIPES, Pipe, Side, Stream, TEXTS, Text, Transport};
use crate::driver::{Stdin, StdinEnd, Streams};
use crate::sys;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

/// See the module. Every descriptor closes on exec; children of the host inherit none.
pub struct ProcTransport {
    pipes: [Arc<OwnedFd>; PIPES.len()],
    texts: [OwnedFd; TEXTS.len()],
    /// Fixed numbers, by side; what they refer to changes with each command.
    streams: [[OwnedFd; 3]; 2],
    null: OwnedFd,
    prefix: String,
}

impl ProcTransport {
    /// Opens everything: 29 descriptors.
    pub fn open() -> io::Result<Self> {
        let null: OwnedFd = File::options().read(true).write(true).open("/dev/null")?.into();
        Ok(Self {
            pipes: try_array(|_| both_ends().map(Arc::new))?,
            texts: try_array(|_| sys::memory_file())?,
            streams: try_array(|_| try_array(|_| null.try_clone()))?,
            null,
            prefix: format!("/proc/{}/fd", std::process::id()),
        })
    }

    fn path(&self, fd: &impl AsRawFd) -> String {
        format!("{}/{}", self.prefix, fd.as_raw_fd())
    }

    fn own_path(fd: &impl AsRawFd) -> String {
        format!("/proc/self/fd/{}", fd.as_raw_fd())
    }
}

impl Transport for ProcTransport {
    fn pipe_path(&self, pipe: Pipe) -> String {
        self.path(&self.pipes[pipe as usize])
    }

    fn text_path(&self, text: Text) -> String {
        self.path(&self.texts[text as usize])
    }

    fn stream_path(&self, side: Side, stream: Stream) -> String {
        self.path(&self.streams[side as usize][stream as usize])
    }

    fn pipe(&self, pipe: Pipe) -> &Arc<OwnedFd> {
        &self.pipes[pipe as usize]
    }

    fn inheritable(&self, pipe: Pipe) -> io::Result<OwnedFd> {
        Ok(File::options().write(true).open(Self::own_path(self.pipe(pipe)))?.into())
    }

    fn store(&self, text: Text, bytes: &[u8]) -> io::Result<()> {
        sys::replace_contents(&self.texts[text as usize], bytes)
    }

    fn load(&self, text: Text) -> io::Result<Vec<u8>> {
        sys::contents(&self.texts[text as usize])
    }

    fn open_streams(&mut self, side: Side, stdin: Stdin<'_>) -> io::Result<Streams> {
        let (stdout, output) = sys::nonblocking_pipe()?;
        let (stderr, error) = sys::nonblocking_pipe()?;
        let stdin = if let Stdin::Whole(_) | Stdin::Streamed = stdin {
            let (input, writer) = sys::nonblocking_pipe()?;
            sys::replace_descriptor(&input, &self.streams[side as usize][Stream::Input as usize])?;
            Some(StdinEnd::Pipe(writer))
        } else {
            None
        };
        sys::replace_descriptor(&output, &self.streams[side as usize][Stream::Output as usize])?;
        sys::replace_descriptor(&error, &self.streams[side as usize][Stream::Error as usize])?;
        Ok(Streams { stdout, stderr, stdin })
    }

    fn close_streams(&mut self, side: Side) {
        for stream in &self.streams[side as usize] {
            // Can not fail: both descriptors are open and owned by this object.
            let _ = sys::replace_descriptor(&self.null, stream);
        }
    }

    fn link_name(&self, pipe: Pipe) -> io::Result<PathBuf> {
        std::fs::read_link(Self::own_path(self.pipe(pipe)))
    }

    fn scratch(&self) -> Option<PathBuf> {
        None
    }
}

/// A pipe as one descriptor that reads and writes. Opening a pipe through `/proc/self/fd` makes a new description with
/// the mode asked for, whichever end the link stands for (proc(5), pipe(7)); so the non-blocking flag set here is ours
/// alone and the shell's own opens block as usual.
fn both_ends() -> io::Result<OwnedFd> {
    let (read, _write) = sys::pipe()?;
    let both: OwnedFd = File::options().read(true).write(true).open(ProcTransport::own_path(&read))?.into();
    sys::set_nonblocking(&both)?;
    Ok(both)
}

fn try_array<T, const N: usize>(mut make: impl FnMut(usize) -> io::Result<T>) -> io::Result<[T; N]> {
    let all: Vec<T> = (0..N).map(&mut make).collect::<io::Result<_>>()?;
    all.try_into().map_err(|_| io::Error::other("an array of another length"))
}
