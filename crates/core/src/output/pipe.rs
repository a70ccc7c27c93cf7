//! The read end of one output pipe, and how its readiness is detected.

use crate::sys;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// See the module.
pub struct Pipe {
    state: State,
    /// Whether a larger pipe was requested.
    grown: bool,
    is_large: bool,
    total: u64,
    /// A point in time, and the bytes read since then.
    recent: (Instant, u64),
}

enum State {
    /// Not watched, as at the start of a command: most commands end soon, and their output waits in the pipe.
    Unwatched(OwnedFd),
    /// Watched by the reactor.
    Watched(AsyncFd<OwnedFd>),
    /// High throughput, read by a timer. A watched pipe wakes this thread at each write of the command, and programs
    /// write a few KiB at a time. Waking then costs both sides more than processing the bytes. The bytes wait in the
    /// pipe, which must be large.
    Timed { fd: OwnedFd, timer: AsyncFd<OwnedFd>, resting: bool, found: usize },
    /// Read to its end, or broken.
    Ended,
}

/// Pipes that delivered more than this are enlarged.
const LARGE_OUTPUT: u64 = 256 * 1024;
const LARGE_PIPE: i32 = 1 << 20;

/// LARGE_OUTPUT within this time counts as high throughput: 25 MB/s.
const TORRENT: Duration = Duration::from_millis(10);
/// Interval between timed reads. At 3 GB/s the pipe would be full by then.
const REST: Duration = Duration::from_micros(250);
/// If an interval brings fewer bytes than this, the pipe is watched again.
const TRICKLE: usize = 16 * 1024;

impl Pipe {
    /// Takes a non-blocking read end.
    pub fn new(fd: OwnedFd) -> Self {
        let recent = (Instant::now(), 0);
        Self { state: State::Unwatched(fd), grown: false, is_large: false, total: 0, recent }
    }

    /// Starts watching. From now on, [`Pipe::ready`] completes.
    pub fn watch(&mut self) -> io::Result<()> {
        match std::mem::replace(&mut self.state, State::Ended) {
            State::Unwatched(fd) | State::Timed { fd, .. } => self.state = State::Watched(sys::watch(fd)?),
            other => self.state = other,
        }
        Ok(())
    }

    /// Waits until the pipe may be readable. Cancel-safe.
    pub async fn ready(&self) {
        let watched = match &self.state {
            State::Watched(fd) => fd,
            State::Timed { resting: false, .. } => return,
            State::Timed { timer, .. } => timer,
            State::Unwatched(_) | State::Ended => return std::future::pending().await,
        };
        // The guard is dropped without clearing: `read` clears readiness when it finds nothing.
        if watched.readable().await.is_err() {
            std::future::pending().await
        }
    }

    /// The number of bytes in the pipe now.
    pub fn waiting(&self) -> usize {
        match &self.state {
            State::Unwatched(fd) | State::Timed { fd, .. } => sys::bytes_in_pipe(fd),
            State::Watched(fd) => sys::bytes_in_pipe(fd),
            State::Ended => Ok(0),
        }
        .unwrap_or(0)
    }

    /// Reads once. Returns 0 if the pipe was empty or has ended. Never waits for readiness, because it must also find
    /// bytes that the reactor has not noticed yet.
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

    /// The descriptor, if a process may still write.
    pub fn into_open(self) -> Option<OwnedFd> {
        let fd = match self.state {
            State::Unwatched(fd) | State::Timed { fd, .. } => fd,
            State::Watched(fd) => fd.into_inner(),
            State::Ended => return None,
        };
        // Without writers, a read returns end of file, and there is nothing to drain.
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
                    // Without a watch, nothing more can be read. The result has the output so far.
                    let _ = self.watch();
                }
            }
            State::Unwatched(_) | State::Ended => {}
        }
    }

    /// Switches from the reactor to a timer, if one can be created.
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

/// Clears the reactor's readiness.
fn clear(fd: &AsyncFd<OwnedFd>) {
    let _ = fd.try_io(Interest::READABLE, |_| Err::<(), _>(io::ErrorKind::WouldBlock.into()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Write;

    /// Reads to the end. Returns the bytes, and whether the pipe was ever read by timer.
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
