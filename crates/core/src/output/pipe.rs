//! The reading end of one output pipe, and how it becomes known that there is something to read.

use crate::sys;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// See the module.
pub struct Pipe {
    state: State,
    /// The kernel was asked for a larger one.
    grown: bool,
    is_large: bool,
    total: u64,
    /// Bytes read since then.
    recent: (Instant, u64),
}

enum State {
    /// Nobody tells. So it is in the first moment of a command: most have ended by then, and what they printed waits.
    Unwatched(OwnedFd),
    /// The reactor tells.
    Watched(AsyncFd<OwnedFd>),
    /// A torrent, read whenever the timer says so. A watched pipe wakes this thread up at each write of the command, and
    /// programs write a few KiB at a time; the waking then costs more, on both sides, than everything that is done with
    /// the bytes. Meanwhile they wait in the pipe, which has to be a large one.
    Timed { fd: OwnedFd, timer: AsyncFd<OwnedFd>, resting: bool, found: usize },
    /// Read to its end, or broken.
    Ended,
}

/// Pipes that gave more than this are made larger.
const LARGE_OUTPUT: u64 = 256 * 1024;
const LARGE_PIPE: i32 = 1 << 20;

/// LARGE_OUTPUT within this time is a torrent: 25 MB/s.
const TORRENT: Duration = Duration::from_millis(10);
/// How long a torrent is left alone. At 3 GB/s the pipe would be full by then.
const REST: Duration = Duration::from_micros(250);
/// With less than this after a rest, it is none any more.
const TRICKLE: usize = 16 * 1024;

impl Pipe {
    /// `fd` does not block.
    pub fn new(fd: OwnedFd) -> Self {
        let recent = (Instant::now(), 0);
        Self { state: State::Unwatched(fd), grown: false, is_large: false, total: 0, recent }
    }

    /// From now on [`Pipe::ready`] tells.
    pub fn watch(&mut self) -> io::Result<()> {
        match std::mem::replace(&mut self.state, State::Ended) {
            State::Unwatched(fd) | State::Timed { fd, .. } => self.state = State::Watched(sys::watch(fd)?),
            other => self.state = other,
        }
        Ok(())
    }

    /// Waits until there may be something to read. Cancel-safe.
    pub async fn ready(&self) {
        let watched = match &self.state {
            State::Watched(fd) => fd,
            State::Timed { resting: false, .. } => return,
            State::Timed { timer, .. } => timer,
            State::Unwatched(_) | State::Ended => return std::future::pending().await,
        };
        // The guard is dropped without clearing: `read` clears when it finds nothing.
        if watched.readable().await.is_err() {
            std::future::pending().await
        }
    }

    /// How many bytes it holds right now.
    pub fn waiting(&self) -> usize {
        match &self.state {
            State::Unwatched(fd) | State::Timed { fd, .. } => sys::bytes_in_pipe(fd),
            State::Watched(fd) => sys::bytes_in_pipe(fd),
            State::Ended => Ok(0),
        }
        .unwrap_or(0)
    }

    /// Reads once. 0 when there was nothing or nothing can come any more. The read itself never waits for readiness: bytes
    /// that the reactor has not noticed yet must be found as well.
    pub fn read(&mut self, read: impl FnOnce(&OwnedFd) -> io::Result<usize>) -> usize {
        let result = match &mut self.state {
            State::Unwatched(fd) => read(fd),
            State::Watched(fd) => read(fd.get_ref()),
            State::Timed { fd, timer, resting, .. } => {
                if std::mem::take(resting) {
                    clear(timer);
                }
                read(fd)
            }
            State::Ended => Ok(0),
        };
        match result {
            Ok(0) => self.state = State::Ended,
            Ok(count) => {
                self.found(count);
                return count;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.found_nothing(),
            Err(_) => self.state = State::Ended,
        }
        0
    }

    /// The descriptor, if it was never watched.
    pub fn into_unwatched(self) -> Result<OwnedFd, Self> {
        match self.state {
            State::Unwatched(fd) => Ok(fd),
            state => Err(Self { state, ..self }),
        }
    }

    /// The descriptor, if somebody may still write.
    pub fn into_open(self) -> Option<OwnedFd> {
        let fd = match self.state {
            State::Unwatched(fd) | State::Timed { fd, .. } => fd,
            State::Watched(fd) => fd.into_inner(),
            State::Ended => return None,
        };
        // One more look: with all writers gone, a read gives the end of file and there is nothing to look after.
        let mut nothing = Vec::with_capacity(1);
        match sys::read_spare(&fd, &mut nothing, 1) {
            Ok(0) => None,
            _ => Some(fd),
        }
    }

    fn found(&mut self, count: usize) {
        self.total += count as u64;
        match &mut self.state {
            State::Timed { found, .. } => *found += count,
            State::Watched(fd) => {
                if !self.grown && self.total > LARGE_OUTPUT {
                    self.grown = true;
                    self.is_large = sys::grow_pipe(fd, LARGE_PIPE);
                }
                let now = Instant::now();
                if now - self.recent.0 > TORRENT {
                    self.recent = (now, 0);
                }
                self.recent.1 += count as u64;
                if self.is_large && self.recent.1 > LARGE_OUTPUT {
                    self.time();
                }
            }
            State::Unwatched(_) | State::Ended => {}
        }
    }

    fn found_nothing(&mut self) {
        match &mut self.state {
            State::Watched(fd) => clear(fd),
            State::Timed { timer, resting, found, .. } => {
                if std::mem::take(found) >= TRICKLE && sys::set_timer(timer, REST).is_ok() {
                    *resting = true;
                } else {
                    // Without a watch nothing could be read any more; the result then has what came until here.
                    let _ = self.watch();
                }
            }
            State::Unwatched(_) | State::Ended => {}
        }
    }

    /// Leaves the reactor for a timer, if there is one to be had.
    fn time(&mut self) {
        let Ok(timer) = sys::timer().and_then(sys::watch) else { return };
        match std::mem::replace(&mut self.state, State::Ended) {
            State::Watched(fd) => {
                self.state = State::Timed { fd: fd.into_inner(), timer, resting: false, found: TRICKLE };
            }
            other => self.state = other,
        }
    }
}

/// Tells the reactor that there is nothing any more.
fn clear(fd: &AsyncFd<OwnedFd>) {
    let _ = fd.try_io(Interest::READABLE, |_| Err::<(), _>(io::ErrorKind::WouldBlock.into()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Write;

    /// Reads until the end; gives the bytes and whether they came as a torrent for some time.
    async fn read_all(pipe: &mut Pipe) -> (Vec<u8>, bool) {
        let (mut bytes, mut was_timed) = (Vec::new(), false);
        while !matches!(pipe.state, State::Ended) {
            pipe.ready().await;
            bytes.reserve(64 * 1024);
            pipe.read(|fd| sys::read_spare(fd, &mut bytes, 64 * 1024));
            was_timed |= matches!(pipe.state, State::Timed { .. });
        }
        (bytes, was_timed)
    }

    fn pipe_to(write: impl FnOnce(File) + Send + 'static) -> Pipe {
        let (reader, writer) = sys::pipe().unwrap();
        sys::set_nonblocking(&reader).unwrap();
        std::thread::spawn(move || write(File::from(writer)));
        let mut pipe = Pipe::new(reader);
        pipe.watch().unwrap();
        pipe
    }

    #[tokio::test]
    async fn reads_every_byte_of_a_torrent_and_of_the_trickle_after_it() {
        let whole: Vec<u8> = (0..=250).cycle().take(20_000_000).collect();
        let torrent = whole.clone();
        let mut pipe = pipe_to(move |mut file| {
            file.write_all(&torrent).unwrap();
            for line in [b"one\n", b"two\n"] {
                std::thread::sleep(Duration::from_millis(5));
                file.write_all(line).unwrap();
            }
        });
        let (bytes, was_timed) = read_all(&mut pipe).await;
        assert_eq!(bytes.len(), whole.len() + 8);
        assert!(bytes.starts_with(&whole) && bytes.ends_with(b"one\ntwo\n"));
        assert_eq!(was_timed, pipe.is_large, "only a large pipe may be left alone");
        assert!(pipe.into_open().is_none());
    }

    #[tokio::test]
    async fn watches_a_torrent_again_when_it_has_become_a_trickle() {
        let (go_on, wait) = std::sync::mpsc::channel::<()>();
        let mut pipe = pipe_to(move |mut file| {
            file.write_all(&[0; 4_000_000]).unwrap();
            let _ = wait.recv();
            file.write_all(b"end").unwrap();
        });
        let (mut bytes, mut scratch) = (0, Vec::with_capacity(64 * 1024));
        while bytes < 4_000_000 || matches!(pipe.state, State::Timed { .. }) {
            pipe.ready().await;
            scratch.clear();
            bytes += pipe.read(|fd| sys::read_spare(fd, &mut scratch, 64 * 1024));
        }
        assert!(matches!(pipe.state, State::Watched(_)));
        drop(go_on);
        let (rest, _) = read_all(&mut pipe).await;
        assert_eq!(rest, b"end");
    }
}
