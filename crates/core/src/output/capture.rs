//! The output of a running command.

use super::arrival::Arrival;
use super::head_tail::HeadTail;
use super::live::{LARGEST_PIECE, Live};
use super::reader::{Reader, STREAMS};
use crate::exec::{Outcome, Sink};
use crate::process_log::ProcessLog;
use crate::sys;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::SystemTime;
use tokio::sync::Semaphore;

/// Reads both streams into bounded buffers, and sends chunks at the consumer's pace.
pub struct Capture {
    reader: Reader,
    kept: KeptOutput,
}

/// What becomes of the bytes.
struct KeptOutput {
    buffers: [HeadTail; 2],
    arrival: Arrival,
    /// When the last bytes were read.
    last_at: Option<SystemTime>,
    live: Option<Live>,
    scratch: Vec<u8>,
    /// Receives everything, too.
    log: Option<ProcessLog>,
    /// Bytes that the command may still print.
    allowance: Option<u64>,
    /// It has printed more than that. The excess is dropped.
    is_excessive: bool,
}

/// Bytes to read at once of output that is not read into its buffer.
const AT_ONCE: usize = 64 * 1024;

/// Reads of a stream before other events are handled.
const MOST_IN_A_ROW: u32 = 16;

impl Capture {
    /// Keeps `limit` bytes of each stream, and accepts `allowance` bytes of both.
    pub fn new(reader: Reader, limit: usize, allowance: Option<u64>, live: Option<Arc<Semaphore>>) -> Self {
        Self { reader, kept: KeptOutput::new(limit, allowance, live) }
    }

    /// See [`Reader::watch`]. Until then [`Capture::step`] never completes.
    pub fn watch(&mut self) -> io::Result<()> {
        self.reader.watch()
    }

    /// Logs all output.
    pub fn keep_log(&mut self, log: ProcessLog) {
        self.kept.log = Some(log);
    }

    /// Logs what was kept so far, unless that is in the log, and all later output. The allowance ends.
    pub fn log_to(&mut self, log: ProcessLog) {
        self.kept.allowance = None;
        if self.kept.log.is_none() {
            self.kept.log_kept(&log);
            self.kept.log = Some(log);
        }
    }

    /// Waits until a stream is readable and reads it once. Cancel-safe: a cancelled step has read nothing.
    pub async fn step(&mut self, sink: &mut dyn Sink) {
        let Self { reader, kept } = self;
        if let Some(log) = &kept.log {
            // On a slow disk the command waits, as if it wrote to the file itself.
            log.room().await;
        }
        let live = kept.live.as_ref();
        let stream = tokio::select! {
            stream = reader.ready(|stream| live.is_none_or(|live| live.has_room(stream))) => Some(stream),
            () = due(live) => None,
        };
        match (stream, &mut kept.live) {
            (Some(stream), _) => drop(reader.read(stream, |fd| kept.read(stream, fd, usize::MAX, sink))),
            (None, Some(live)) => live.send(sink),
            (None, None) => {}
        }
    }

    /// True once the command has printed more than its allowance.
    pub fn is_excessive(&self) -> bool {
        self.kept.is_excessive
    }

    /// Bytes of both streams so far, and when the last ones were read (wall clock).
    pub fn so_far(&self) -> ([u64; 2], Option<SystemTime>) {
        (self.kept.buffers.each_ref().map(HeadTail::total), self.kept.last_at)
    }

    /// The newest bytes of both streams since they had printed `seen`, at most `most` of each.
    pub fn newest(&self, seen: [u64; 2], most: usize) -> [Vec<u8>; 2] {
        [0, 1].map(|stream| {
            let buffer = &self.kept.buffers[stream];
            let unseen = usize::try_from(buffer.total() - seen[stream]).unwrap_or(usize::MAX);
            buffer.newest(unseen.min(most))
        })
    }

    /// Stops backpressure from blocking a command that is being killed.
    pub fn hurry(&mut self) {
        if let Some(live) = &mut self.kept.live {
            live.hurry();
        }
    }

    /// Reads what is there, as far as the consumer has room. Returns false at the end of both streams.
    pub fn read_on(&mut self, sink: &mut dyn Sink) -> bool {
        let Self { reader, kept } = self;
        for stream in [0, 1] {
            for _ in 0..MOST_IN_A_ROW {
                let has_room = kept.live.as_ref().is_none_or(|live| live.has_room(stream));
                if !has_room || reader.read(stream, |fd| kept.read(stream, fd, usize::MAX, sink)) == 0 {
                    break;
                }
            }
        }
        reader.is_open()
    }

    /// Whether a process may still write.
    pub fn is_open(&self) -> bool {
        self.reader.is_open()
    }

    /// Whether the consumer keeps output from being read.
    pub fn is_held_up(&self) -> bool {
        self.kept.live.as_ref().is_some_and(|live| (0..2).any(|stream| !live.has_room(stream)))
    }

    /// See [`Reader::is_own`].
    pub fn is_own(&self, inode: u64) -> bool {
        self.reader.is_own(inode)
    }

    /// See [`Reader::drain`]. The rest is sent at once.
    pub fn drain(&mut self, sink: &mut dyn Sink) {
        let Self { reader, kept } = self;
        if let Some(live) = &mut kept.live {
            live.end();
        }
        reader.drain(|stream, fd, most| kept.read(stream, fd, most, sink));
    }

    /// Adds output that did not come through the pipes.
    pub fn push(&mut self, stream: usize, bytes: &[u8], sink: &mut dyn Sink) {
        if bytes.is_empty() {
            return;
        }
        let kept = &mut self.kept;
        kept.buffers[stream].push(bytes);
        kept.arrival.note(stream, bytes.len());
        if let Some(log) = &kept.log {
            log.push(STREAMS[stream], bytes);
        }
        if let Some(live) = &mut kept.live {
            live.room(stream, sink).extend_from_slice(bytes);
            live.added(sink);
        }
    }

    /// Sets the output so far in the outcome. Later output is only logged.
    pub fn report(&mut self, outcome: &mut Outcome, sink: &mut dyn Sink) {
        let rest = KeptOutput { log: self.kept.log.take(), ..KeptOutput::new(0, None, None) };
        std::mem::replace(&mut self.kept, rest).finish(outcome, sink);
    }

    /// Sets the output in the outcome. Returns the reader, because processes may still write.
    pub fn finish(self, outcome: &mut Outcome, sink: &mut dyn Sink) -> Reader {
        self.kept.finish(outcome, sink);
        self.reader
    }
}

impl KeptOutput {
    fn new(limit: usize, allowance: Option<u64>, live: Option<Arc<Semaphore>>) -> Self {
        Self {
            log: None,
            allowance,
            is_excessive: false,
            buffers: [HeadTail::new(limit), HeadTail::new(limit)],
            arrival: Arrival::default(),
            last_at: None,
            live: live.map(Live::new),
            scratch: Vec::new(),
        }
    }

    fn finish(mut self, outcome: &mut Outcome, sink: &mut dyn Sink) {
        if let Some(live) = &mut self.live {
            live.end();
            live.send(sink);
        }
        outcome.output_limited = self.is_excessive;
        outcome.order = self.arrival.kept([self.buffers[0].kept(), self.buffers[1].kept()]);
        let [stdout, stderr] = self.buffers;
        let (dropped_stdout, dropped_stderr);
        (outcome.stdout, dropped_stdout) = stdout.finish();
        (outcome.stderr, dropped_stderr) = stderr.finish();
        outcome.dropped = (dropped_stdout, dropped_stderr);
    }

    /// Logs the kept bytes in the order of their arrival.
    fn log_kept(&self, log: &ProcessLog) {
        let kept = [self.buffers[0].kept(), self.buffers[1].kept()];
        let lengths = kept.each_ref().map(|parts| parts.iter().map(|part| part.end - part.start).sum::<u64>() as u32);
        let mut gaps = self.buffers.each_ref().map(HeadTail::gap);
        let mut at = [0; 2];
        let mut skip = |stream: usize, at: usize| {
            if gaps[stream].0 <= at {
                log.skip(std::mem::take(&mut gaps[stream].1));
            }
        };
        for (index, run) in self.arrival.kept(kept).unwrap_or(lengths.into()).into_iter().enumerate() {
            let (stream, end) = (index % 2, at[index % 2] + run as usize);
            while at[stream] < end {
                skip(stream, at[stream]);
                let bytes = self.buffers[stream].kept_from(at[stream]);
                let bytes = &bytes[..bytes.len().min(end - at[stream])];
                log.push(STREAMS[stream], bytes);
                at[stream] += bytes.len();
            }
        }
        skip(0, usize::MAX);
        skip(1, usize::MAX);
    }

    fn read(&mut self, stream: usize, fd: &OwnedFd, most: usize, sink: &mut dyn Sink) -> io::Result<usize> {
        let (buffer, scratch) = (&mut self.buffers[stream], &mut self.scratch);
        if self.allowance == Some(0) {
            scratch.clear();
            scratch.reserve(AT_ONCE);
            let count = sys::read_spare(fd, scratch, most.min(AT_ONCE))?;
            self.is_excessive |= count > 0;
            return Ok(count);
        }
        let most = self.allowance.map_or(most, |left| most.min(usize::try_from(left).unwrap_or(usize::MAX)));
        let count = match self.live.as_mut().filter(|live| !live.is_cut()) {
            None => match &self.log {
                None => buffer.read_from(fd, most, scratch)?,
                Some(log) => {
                    scratch.clear();
                    scratch.reserve(AT_ONCE);
                    let count = sys::read_spare(fd, scratch, most.min(AT_ONCE))?;
                    buffer.push(scratch);
                    log.push(STREAMS[stream], scratch);
                    count
                }
            },
            Some(live) => {
                let piece = live.room(stream, sink);
                let before = piece.len();
                let count = sys::read_spare(fd, piece, most.min(LARGEST_PIECE - before))?;
                buffer.push(&piece[before..]);
                if let Some(log) = &self.log {
                    log.push(STREAMS[stream], &piece[before..]);
                }
                live.added(sink);
                count
            }
        };
        if let Some(left) = &mut self.allowance {
            *left -= count as u64;
        }
        self.arrival.note(stream, count);
        if count > 0 {
            self.last_at = Some(SystemTime::now());
        }
        Ok(count)
    }
}

async fn due(live: Option<&Live>) {
    match live {
        Some(live) => live.due().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use crate::exec::OutputStream;
    use crate::process_log::StateDirectory;

    struct Nothing;

    impl Sink for Nothing {
        fn started(&mut self, _: i32) {}
        fn output(&mut self, _: OutputStream, _: Vec<u8>) {}
        fn finished(self: Box<Self>, _: Result<Outcome, Error>) {}
    }

    /// The pieces of a log into which output goes after `before` has been pushed: stream, cursor, bytes.
    async fn logged(limit: usize, before: &[(usize, &[u8])]) -> (Vec<(usize, u64, Vec<u8>)>, u64) {
        let log = ProcessLog::new(&Arc::new(StateDirectory::new("/dev/null/nonexistent".into())), 1 << 20);
        let mut capture = Capture::new(Reader::default(), limit, None, None);
        before.iter().for_each(|(stream, bytes)| capture.push(*stream, bytes, &mut Nothing));
        capture.log_to(log.clone());
        let slice = log.read(0, usize::MAX).await;
        let number = |stream| STREAMS.iter().position(|known| *known == stream).unwrap();
        (slice.pieces.into_iter().map(|piece| (number(piece.stream), piece.cursor, piece.bytes)).collect(), slice.lost)
    }

    #[tokio::test]
    async fn logs_what_was_kept_in_its_order_and_counts_the_rest() {
        let piece = |stream, cursor, bytes: &[u8]| (stream, cursor, bytes.to_vec());
        let both = logged(100, &[(0, b"one"), (1, b"two"), (0, b"three")]).await;
        assert_eq!(both, (vec![piece(0, 0, b"one"), piece(1, 3, b"two"), piece(0, 6, b"three")], 0));
        assert_eq!(logged(100, &[(1, b"only")]).await, (vec![piece(1, 0, b"only")], 0));
        let cut = logged(4, &[(0, b"abcdefgh"), (1, b"x"), (0, b"ij")]).await;
        assert_eq!(cut, (vec![piece(0, 0, b"ab"), piece(1, 2, b"x"), piece(0, 9, b"ij")], 6));
        assert_eq!(logged(0, &[(0, b"abc"), (1, b"de")]).await, (vec![], 5));
        assert_eq!(logged(100, &[]).await, (vec![], 0));
    }

    #[tokio::test]
    async fn a_report_has_the_output_so_far_and_the_rest_is_only_logged() {
        let log = ProcessLog::new(&Arc::new(StateDirectory::new("/dev/null/nonexistent".into())), 1 << 20);
        let mut capture = Capture::new(Reader::default(), 4, None, None);
        capture.push(0, b"abcdef", &mut Nothing);
        capture.push(1, b"x", &mut Nothing);
        capture.log_to(log.clone());
        let (mut outcome, mut end) = (Outcome::default(), Outcome::default());
        capture.report(&mut outcome, &mut Nothing);
        assert_eq!((&outcome.stdout[..], &outcome.stderr[..], outcome.dropped), (&b"abef"[..], &b"x"[..], (2, 0)));
        capture.push(0, b"later", &mut Nothing);
        capture.finish(&mut end, &mut Nothing);
        assert_eq!((&end.stdout[..], end.dropped), (&b""[..], (5, 0)));
    }
}
