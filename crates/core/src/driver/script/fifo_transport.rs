//! Channels that the shell opens as FIFOs and files in a private directory: where `/proc/<pid>/fd` is refused (another
//! user's shell, `hidepid`, a host that is not dumpable) or missing.

use super::transport::{Pipe, Stream, Text, Transport};
use crate::driver::{Stdin, StdinEnd, Streams};
use crate::sys;
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const PIPES: [(Pipe, &str); 7] = [
    (Pipe::Token, "token"),
    (Pipe::Resume, "resume"),
    (Pipe::StandbyToken, "standby-token"),
    (Pipe::Control, "control"),
    (Pipe::StandbyControl, "standby-control"),
    (Pipe::BaseOutput, "base-output"),
    (Pipe::BaseError, "base-error"),
];

/// See the module. The directory (mode 0700) is removed when this is dropped, and by the supervisor when the host dies.
pub struct FifoTransport {
    directory: PathBuf,
    pipes: Vec<Arc<OwnedFd>>,
    /// Our own write ends of the running command's output, which keep the readers from seeing an early end of file.
    held: Vec<OwnedFd>,
}

impl FifoTransport {
    /// Makes the directory and everything in it.
    pub fn create(directory: PathBuf) -> io::Result<Self> {
        sys::create_private_directory(&directory)?;
        let mut transport = Self { directory, pipes: Vec::new(), held: Vec::new() };
        for (_, name) in PIPES {
            let path = transport.directory.join(name);
            sys::make_fifo(&path)?;
            let options = sys::nonblocking_options(true, true);
            transport.pipes.push(Arc::new(options.open(&path)?.into()));
        }
        for text in [Text::Command, Text::Init, Text::Exit, Text::StandbyExit, Text::Status, Text::Dump, Text::Answer] {
            transport.store(text, b"")?;
        }
        transport.close_streams();
        Ok(transport)
    }

    fn stream(&self, stream: Stream) -> PathBuf {
        self.directory.join(match stream {
            Stream::Input => "stdin",
            Stream::Output => "stdout",
            Stream::Error => "stderr",
        })
    }

    fn text(&self, text: Text) -> PathBuf {
        self.directory.join(match text {
            Text::Command => "command",
            Text::Init => "init",
            Text::Exit => "exit",
            Text::StandbyExit => "standby-exit",
            Text::Status => "status",
            Text::Dump => "dump",
            Text::Answer => "answer",
        })
    }

    /// Puts something new under a stream's name. A late writer of an earlier command keeps the FIFO it has open.
    fn replace(&self, stream: Stream, make: impl Fn(&Path) -> io::Result<()>) -> io::Result<PathBuf> {
        let (path, fresh) = (self.stream(stream), self.directory.join("fresh"));
        make(&fresh)?;
        fs::rename(&fresh, &path)?;
        Ok(path)
    }

    fn fresh_output(&mut self, stream: Stream) -> io::Result<OwnedFd> {
        let path = self.replace(stream, sys::make_fifo)?;
        let reader = sys::nonblocking_options(true, false).open(&path)?;
        self.held.push(File::options().write(true).open(&path)?.into());
        Ok(reader.into())
    }
}

impl Transport for FifoTransport {
    fn pipe_path(&self, pipe: Pipe) -> String {
        self.directory.join(PIPES[pipe as usize].1).display().to_string()
    }

    fn text_path(&self, text: Text) -> String {
        self.text(text).display().to_string()
    }

    fn stream_path(&self, stream: Stream) -> String {
        self.stream(stream).display().to_string()
    }

    fn pipe(&self, pipe: Pipe) -> &Arc<OwnedFd> {
        &self.pipes[pipe as usize]
    }

    fn inheritable(&self, pipe: Pipe) -> io::Result<OwnedFd> {
        Ok(File::options().write(true).open(self.pipe_path(pipe))?.into())
    }

    fn store(&self, text: Text, bytes: &[u8]) -> io::Result<()> {
        write_private(&self.text(text), bytes)
    }

    fn load(&self, text: Text) -> io::Result<Vec<u8>> {
        fs::read(self.text(text))
    }

    fn open_streams(&mut self, stdin: Stdin<'_>) -> io::Result<Streams> {
        let stdout = self.fresh_output(Stream::Output)?;
        let stderr = self.fresh_output(Stream::Error)?;
        let stdin = match stdin {
            Stdin::Empty => None,
            // A file, so that a command may open /dev/stdin again: a FIFO without writer would make it wait for ever.
            Stdin::Whole(bytes) => {
                self.replace(Stream::Input, |path| write_private(path, bytes))?;
                None
            }
            Stdin::Streamed => Some(StdinEnd::Fifo(self.replace(Stream::Input, sys::make_fifo)?)),
        };
        Ok(Streams { stdout, stderr, stdin })
    }

    fn close_streams(&mut self) {
        self.held.clear();
        for stream in [Stream::Input, Stream::Output, Stream::Error] {
            // A name that can not be replaced keeps leading to the ended command's FIFO, which nobody reads: the next
            // command then fails to open it and says so. It needs a directory that was removed under us.
            let _ = self.replace(stream, |path| symlink("/dev/null", path));
        }
    }

    fn link_name(&self, pipe: Pipe) -> io::Result<PathBuf> {
        Ok(PathBuf::from(self.pipe_path(pipe)))
    }

    fn scratch(&self) -> Option<PathBuf> {
        Some(self.directory.clone())
    }
}

fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::options().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    io::Write::write_all(&mut file, bytes)
}

impl Drop for FifoTransport {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}
