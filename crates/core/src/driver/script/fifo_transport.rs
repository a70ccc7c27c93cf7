//! Channels that the shell opens as FIFOs and files in a private directory: where `/proc/<pid>/fd` is refused (another
//! user's shell, `hidepid`, a host that is not dumpable) or missing.

use super::transport::{PIPES, Pipe, Side, Stream, TEXTS, Text, Transport};
use crate::driver::{Stdin, StdinEnd, Streams};
use crate::sys;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// By side, in the order of [`Stream`].
const STREAMS: [[&str; 3]; 2] = [["stdin", "stdout", "stderr"], ["process-stdin", "process-stdout", "process-stderr"]];
/// What is about to be put under one of these names.
const FRESH: &str = "fresh";

/// See the module. The directory (mode 0700) is removed when this is dropped, and by the supervisor when the host dies.
pub struct FifoTransport {
    directory: PathBuf,
    /// The shell's user and group, when it runs as somebody else. The directory stays ours, so that nothing in it can be
    /// replaced by a link; what is in it is his.
    owner: Option<(u32, u32)>,
    pipes: Vec<Arc<OwnedFd>>,
    /// Kept open, so that a host that has run out of descriptors can still read and write them.
    texts: Vec<OwnedFd>,
    /// By side: our own write ends of the running command's output, which keep the readers from seeing an early end of
    /// file.
    held: [Vec<OwnedFd>; 2],
}

impl FifoTransport {
    /// Makes the directory and everything in it.
    pub fn create(directory: PathBuf, owner: Option<(u32, u32)>) -> io::Result<Self> {
        if let Some((uid, gid)) = owner {
            // Those above the state directory, which is ours. Asked first, so that nothing is left behind.
            directory
                .ancestors()
                .skip(2)
                .filter(|above| above.exists())
                .try_for_each(|above| may_pass(above, uid, gid))?;
        }
        sys::create_private_directory(&directory)?;
        if owner.is_some() {
            directory.ancestors().take(2).try_for_each(sys::let_others_pass)?;
        }
        let mut transport = Self { directory, owner, pipes: Vec::new(), texts: Vec::new(), held: Default::default() };
        for (_, name) in PIPES {
            let path = transport.directory.join(name);
            sys::make_fifo(&path)?;
            transport.give_away(&path)?;
            let options = sys::nonblocking_options(true, true);
            transport.pipes.push(Arc::new(options.open(&path)?.into()));
        }
        for (_, name) in TEXTS {
            let path = transport.directory.join(name);
            transport.texts.push(private_options().read(true).open(&path)?.into());
            transport.give_away(&path)?;
        }
        transport.close_streams(Side::Foreground);
        transport.close_streams(Side::Background);
        Ok(transport)
    }

    fn stream(&self, side: Side, stream: Stream) -> PathBuf {
        self.directory.join(STREAMS[side as usize][stream as usize])
    }

    /// Puts something new under a stream's name. A late writer of an earlier command keeps the FIFO it has open.
    fn replace(&self, side: Side, stream: Stream, make: impl Fn(&Path) -> io::Result<()>) -> io::Result<PathBuf> {
        let (path, fresh) = (self.stream(side, stream), self.directory.join(FRESH));
        make(&fresh)?;
        if !fresh.is_symlink() {
            self.give_away(&fresh)?;
        }
        fs::rename(&fresh, &path)?;
        Ok(path)
    }

    fn give_away(&self, path: &Path) -> io::Result<()> {
        self.owner.map_or(Ok(()), |(uid, gid)| std::os::unix::fs::chown(path, Some(uid), Some(gid)))
    }

    fn fresh_output(&mut self, side: Side, stream: Stream) -> io::Result<OwnedFd> {
        let path = self.replace(side, stream, sys::make_fifo)?;
        let reader = sys::nonblocking_options(true, false).open(&path)?;
        self.held[side as usize].push(File::options().write(true).open(&path)?.into());
        Ok(reader.into())
    }
}

impl Transport for FifoTransport {
    fn pipe_path(&self, pipe: Pipe) -> String {
        self.directory.join(PIPES[pipe as usize].1).display().to_string()
    }

    fn text_path(&self, text: Text) -> String {
        self.directory.join(TEXTS[text as usize].1).display().to_string()
    }

    fn stream_path(&self, side: Side, stream: Stream) -> String {
        self.stream(side, stream).display().to_string()
    }

    fn pipe(&self, pipe: Pipe) -> &Arc<OwnedFd> {
        &self.pipes[pipe as usize]
    }

    fn inheritable(&self, pipe: Pipe) -> io::Result<OwnedFd> {
        Ok(File::options().write(true).open(self.pipe_path(pipe))?.into())
    }

    fn store(&self, text: Text, bytes: &[u8]) -> io::Result<()> {
        sys::replace_contents(&self.texts[text as usize], bytes)
    }

    fn load(&self, text: Text) -> io::Result<Vec<u8>> {
        sys::contents(&self.texts[text as usize])
    }

    fn open_streams(&mut self, side: Side, stdin: Stdin<'_>) -> io::Result<Streams> {
        let stdout = self.fresh_output(side, Stream::Output)?;
        let stderr = self.fresh_output(side, Stream::Error)?;
        let stdin = match stdin {
            Stdin::Empty => None,
            // A file, so that a command may open /dev/stdin again: a FIFO without writer would make it wait for ever.
            Stdin::Whole(bytes) => {
                self.replace(side, Stream::Input, |path| write_private(path, bytes))?;
                None
            }
            Stdin::Streamed => Some(StdinEnd::Fifo(self.replace(side, Stream::Input, sys::make_fifo)?)),
        };
        Ok(Streams { stdout, stderr, stdin })
    }

    fn close_streams(&mut self, side: Side) {
        self.held[side as usize].clear();
        for stream in [Stream::Input, Stream::Output, Stream::Error] {
            // A name that can not be replaced keeps leading to the ended command's FIFO, which nobody reads: the next
            // command then fails to open it and says so. It needs a directory that was removed under us.
            let _ = self.replace(side, stream, |path| symlink("/dev/null", path));
        }
    }

    fn link_name(&self, pipe: Pipe) -> io::Result<PathBuf> {
        Ok(PathBuf::from(self.pipe_path(pipe)))
    }

    fn scratch(&self) -> Option<PathBuf> {
        Some(self.directory.clone())
    }
}

/// Whether a user can go through a directory, by its mode: an access list can still say otherwise.
fn may_pass(directory: &Path, uid: u32, gid: u32) -> io::Result<()> {
    let info = fs::metadata(directory)?;
    let shift = if info.uid() == uid {
        6
    } else if info.gid() == gid {
        3
    } else {
        0
    };
    if uid == 0 || (info.mode() >> shift) & 1 == 1 {
        return Ok(());
    }
    let message = format!("user {uid} can not go through '{}'", directory.display());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, message))
}

fn private_options() -> OpenOptions {
    let mut options = File::options();
    options.write(true).create(true).truncate(true).mode(0o600);
    options
}

fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = private_options().open(path)?;
    io::Write::write_all(&mut file, bytes)
}

impl Drop for FifoTransport {
    /// By name, since to list a directory takes a descriptor, and there may be none: that may be why this was not made.
    fn drop(&mut self) {
        let pipes = PIPES.map(|(_, name)| name);
        let texts = TEXTS.map(|(_, name)| name);
        for name in pipes.iter().chain(&texts).chain(STREAMS.as_flattened()).chain(&[FRESH]) {
            let _ = fs::remove_file(self.directory.join(name));
        }
        let _ = fs::remove_dir(&self.directory);
    }
}
