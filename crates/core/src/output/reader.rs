//! Reads the output of a command or process: its two pipes, or its terminal.
//!
//! The bytes go wherever the caller of [`Reader::read`] and [`Reader::drain`] puts them. Backpressure is the caller's too:
//! it waits for output only while it has room for it, and the writers block when their pipe is full.
//!
//! The order of writes to two pipes is unknown. If both have data, standard output is read first, because most programs
//! print their result before messages about it.

use crate::exec::OutputStream;
use crate::sys;
use std::io;
use std::os::fd::OwnedFd;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// The streams by their number.
pub const STREAMS: [OutputStream; 2] = [OutputStream::Stdout, OutputStream::Stderr];

/// Pipes that delivered more than this are enlarged.
const LARGE_OUTPUT: u64 = 256 * 1024;
const LARGE_PIPE: i32 = 1 << 20;

/// After this many consecutive reads of standard output, standard error is read.
const MOST_IN_A_ROW: u32 = 16;

/// Bytes of discarded output to read at once.
const DISCARDED_BYTES: usize = 64 * 1024;

/// A terminal may hold this much without reporting it.
const TERMINAL_BYTES: usize = 64 * 1024;

/// See the module. By default, it has ended.
#[derive(Default)]
pub struct Reader {
    pipes: [Pipe; 2],
    /// Consecutive reads of standard output.
    in_a_row: u32,
    is_terminal: bool,
}

#[derive(Default)]
struct Pipe {
    state: ReaderState,
    total: u64,
}

#[derive(Default)]
enum ReaderState {
    /// Opened by a thread that does not run the reactor.
    Unwatched(OwnedFd),
    /// Watched by the reactor.
    Watched(AsyncFd<OwnedFd>),
    /// Read to its end, or broken.
    #[default]
    Ended,
}

impl Reader {
    /// Takes the read ends of standard output and standard error, both non-blocking.
    pub fn new(pipes: [OwnedFd; 2]) -> Self {
        let pipes = pipes.map(|fd| Pipe { state: ReaderState::Unwatched(fd), total: 0 });
        Self { pipes, in_a_row: 0, is_terminal: false }
    }

    /// Takes a non-blocking descriptor of a terminal's master.
    pub fn of_terminal(master: OwnedFd) -> Self {
        let pipes = [Pipe { state: ReaderState::Unwatched(master), total: 0 }, Pipe::default()];
        Self { pipes, in_a_row: 0, is_terminal: true }
    }

    /// Starts watching. From now on, [`Reader::ready`] completes. A pipe that cannot be watched is closed.
    pub fn watch(&mut self) -> io::Result<()> {
        let [stdout, stderr] = self.pipes.each_mut().map(Pipe::watch);
        stdout.and(stderr)
    }

    /// False once no process can write.
    pub fn is_open(&self) -> bool {
        self.pipes.iter().any(|pipe| !matches!(pipe.state, ReaderState::Ended))
    }

    /// The bytes read so far.
    pub fn total(&self) -> u64 {
        self.pipes.iter().map(|pipe| pipe.total).sum()
    }

    /// Waits until a stream may be readable for which there is room. Cancel-safe.
    pub async fn ready(&self, has_room: impl Fn(usize) -> bool) -> usize {
        let first = usize::from(self.in_a_row >= MOST_IN_A_ROW);
        let [one, other] = [first, 1 - first].map(|stream| &self.pipes[stream]);
        tokio::select! {
            biased;
            () = one.ready(), if has_room(first) => first,
            () = other.ready(), if has_room(1 - first) => 1 - first,
            else => std::future::pending().await,
        }
    }

    /// Reads a stream once. Returns 0 if it was empty or has ended. Never waits for readiness, because it must also find
    /// bytes that the reactor has not noticed yet.
    pub fn read(&mut self, stream: usize, read: impl FnOnce(&OwnedFd) -> io::Result<usize>) -> usize {
        self.in_a_row = if stream == 0 { self.in_a_row.saturating_add(1) } else { 0 };
        self.pipes[stream].read(read)
    }

    /// Whether this is one of the pipes, seen from the other end too.
    pub fn is_own(&self, inode: u64) -> bool {
        self.pipes.iter().filter_map(Pipe::fd).any(|fd| sys::inode(fd).is_ok_and(|own| own == inode))
    }

    /// Reads only what is there now, so that a process that keeps printing cannot delay the end. `read` gets the stream,
    /// its descriptor, and the number of bytes to read at most.
    pub fn drain(&mut self, mut read: impl FnMut(usize, &OwnedFd, usize) -> io::Result<usize>) {
        for stream in 0..2 {
            let least = if self.is_terminal { TERMINAL_BYTES } else { 0 };
            let mut left = self.pipes[stream].waiting().max(least);
            while left > 0 {
                match self.read(stream, |fd| read(stream, fd, left)) {
                    0 => break,
                    count => left -= count.min(left),
                }
            }
        }
    }

    /// The same pipes for the next command; `Err` if one has ended or was enlarged, and for a terminal. Call it only if
    /// nothing else may write to them.
    pub fn renew(self) -> Result<Self, Self> {
        if self.is_terminal
            || self.pipes.iter().any(|pipe| matches!(pipe.state, ReaderState::Ended) || pipe.total > LARGE_OUTPUT)
        {
            return Err(self);
        }
        Ok(Self { pipes: self.pipes.map(|pipe| Pipe { total: 0, ..pipe }), ..Self::default() })
    }

    /// Reads and drops all output until no process can write. Call it after closing the write ends in this process. If
    /// the pipe were closed instead, SIGPIPE would kill the writers; if it were not read, a full pipe would block them.
    /// Dropping the future closes the pipes.
    pub async fn discard(mut self) {
        // A pipe that cannot be watched is closed.
        let _ = self.watch();
        let mut waste = Vec::with_capacity(DISCARDED_BYTES);
        while self.is_open() {
            let stream = self.ready(|_| true).await;
            waste.clear();
            self.read(stream, |fd| sys::read_spare(fd, &mut waste, DISCARDED_BYTES));
        }
    }
}

impl Pipe {
    fn watch(&mut self) -> io::Result<()> {
        match std::mem::take(&mut self.state) {
            ReaderState::Unwatched(fd) => self.state = ReaderState::Watched(sys::watch(fd)?),
            other => self.state = other,
        }
        Ok(())
    }

    async fn ready(&self) {
        match &self.state {
            // The guard is dropped without clearing: `read` clears readiness when it finds nothing.
            ReaderState::Watched(fd) if fd.readable().await.is_ok() => {}
            _ => std::future::pending().await,
        }
    }

    fn waiting(&self) -> usize {
        self.fd().and_then(|fd| sys::bytes_in_pipe(fd).ok()).unwrap_or(0)
    }

    /// Its descriptor, until it has ended.
    fn fd(&self) -> Option<&OwnedFd> {
        match &self.state {
            ReaderState::Unwatched(fd) => Some(fd),
            ReaderState::Watched(fd) => Some(fd.get_ref()),
            ReaderState::Ended => None,
        }
    }

    fn read(&mut self, read: impl FnOnce(&OwnedFd) -> io::Result<usize>) -> usize {
        let Some(fd) = self.fd() else { return 0 };
        match read(fd) {
            Ok(count) if count > 0 => {
                let total = self.total + count as u64;
                if self.total <= LARGE_OUTPUT && total > LARGE_OUTPUT {
                    sys::grow_pipe(fd, LARGE_PIPE);
                }
                self.total = total;
                return count;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if let ReaderState::Watched(fd) = &self.state {
                    // Clears the reactor's readiness.
                    let _ = fd.try_io(Interest::READABLE, |_| Err::<(), _>(io::ErrorKind::WouldBlock.into()));
                }
            }
            _ => self.state = ReaderState::Ended,
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Write;
    use std::time::Duration;
    use tokio::time::timeout;

    fn open() -> (Reader, [File; 2]) {
        let [stdout, stderr] = [(); 2].map(|()| sys::output_pipe().unwrap());
        let mut reader = Reader::new([stdout.0, stderr.0]);
        reader.watch().unwrap();
        (reader, [stdout.1.into(), stderr.1.into()])
    }

    /// Reads once, at most `most` bytes.
    async fn read(reader: &mut Reader, most: usize) -> (usize, Vec<u8>) {
        let mut bytes = Vec::with_capacity(most);
        let stream = reader.ready(|_| true).await;
        reader.read(stream, |fd| sys::read_spare(fd, &mut bytes, most));
        (stream, bytes)
    }

    #[tokio::test]
    async fn reads_every_byte_of_both_streams_to_the_end() {
        let (mut reader, [mut stdout, mut stderr]) = open();
        let whole: Vec<u8> = (0..=250).cycle().take(5_000_000).collect();
        let (to_stdout, to_stderr) = (whole.clone(), whole.clone());
        std::thread::spawn(move || {
            stdout.write_all(&to_stdout).unwrap();
            for line in [b"one\n", b"two\n"] {
                std::thread::sleep(Duration::from_millis(5));
                stdout.write_all(line).unwrap();
            }
        });
        std::thread::spawn(move || stderr.write_all(&to_stderr).unwrap());
        let mut all = [Vec::new(), Vec::new()];
        while reader.is_open() {
            let (stream, bytes) = read(&mut reader, 64 * 1024).await;
            all[stream].extend(bytes);
        }
        assert!(all[0].starts_with(&whole) && all[0][whole.len()..] == *b"one\ntwo\n");
        assert!(all[1] == whole);
        assert_eq!(reader.total(), 2 * whole.len() as u64 + 8);
        assert!(reader.renew().is_err());
    }

    #[tokio::test]
    async fn reads_standard_output_first_but_not_for_ever() {
        let (mut reader, [mut stdout, mut stderr]) = open();
        stdout.write_all(&[b'o'; 100]).unwrap();
        stderr.write_all(b"e").unwrap();
        for _ in 0..MOST_IN_A_ROW {
            assert_eq!(read(&mut reader, 1).await, (0, b"o".into()));
        }
        assert_eq!(read(&mut reader, 1).await, (1, b"e".into()));
        assert_eq!(read(&mut reader, 1).await, (0, b"o".into()));
    }

    #[tokio::test]
    async fn waits_for_no_stream_without_room() {
        let (reader, [mut stdout, mut stderr]) = open();
        stdout.write_all(b"o").unwrap();
        stderr.write_all(b"e").unwrap();
        assert_eq!(reader.ready(|stream| stream == 1).await, 1);
        assert!(timeout(Duration::from_millis(1), reader.ready(|_| false)).await.is_err());
    }

    #[tokio::test]
    async fn drains_what_is_there_now_watched_or_not() {
        for is_watched in [false, true] {
            let (stdout, writer) = sys::output_pipe().unwrap();
            let (stderr, _held) = sys::output_pipe().unwrap();
            let mut writer = File::from(writer);
            let mut reader = Reader::new([stdout, stderr]);
            if is_watched {
                reader.watch().unwrap();
            }
            writer.write_all(b"now").unwrap();
            let mut bytes = Vec::with_capacity(64);
            reader.drain(|_, fd, most| {
                let count = sys::read_spare(fd, &mut bytes, most.min(2));
                writer.write_all(b"more").unwrap();
                count
            });
            assert_eq!(bytes, b"now");
            let mut reader = reader.renew().ok().unwrap();
            assert_eq!(reader.total(), 0);
            reader.watch().unwrap();
            assert_eq!(read(&mut reader, 64).await, (0, b"moremore".into()));
        }
    }

    #[tokio::test]
    async fn discards_output_as_long_as_a_writer_is_left() {
        let (reader, [mut stdout, stderr]) = open();
        drop(stderr);
        let discarding = tokio::spawn(reader.discard());
        tokio::task::spawn_blocking(move || stdout.write_all(&[0; 1_000_000]).unwrap()).await.unwrap();
        discarding.await.unwrap();
    }
}
