//! The log of a background process: its output on both streams, for any number of readers.
//!
//! A reader holds only a cursor, an offset in the whole log. A slow reader therefore costs nothing and blocks nothing,
//! and reads past and live output in the same way, without gaps or duplicates. Memory is limited to 1 MiB, and the file
//! to 1.25 times the log's limit. A slice reports how many bytes are missing.
//!
//! A slow disk slows the process down that prints, and nothing else: only threads that may block touch the file.

mod assembler;
mod block;
mod copy;
mod lines;
mod matcher;
#[cfg(test)]
mod model_tests;
mod scan;
mod search;
#[cfg(test)]
mod search_tests;
mod spill;
mod store;
mod unnamed;

use crate::blocking::Turns;
use crate::error::Error;
use crate::exec::OutputStream;
pub use copy::LogCopy;
use copy::{Frame, frames};
pub use matcher::{Match, Pattern};
use nacre_containment::lock::Lock;
pub use search::{FoundLine, FoundLines, From, LineQuery, WantedLine};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use store::{BlockBatch, BlockStore, NextPart, SHAPE, Shape, SliceReading};
use tokio::sync::watch;
pub use unnamed::StateDirectory;

/// A piece of one stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The stream.
    pub stream: OutputStream,
    /// Offset of its first byte in the whole log, counting both streams in order of arrival.
    pub cursor: u64,
    /// Never empty.
    pub bytes: Vec<u8>,
    /// When its first byte arrived, to 10 ms: wall clock, milliseconds since the epoch.
    pub time_ms: u64,
}

/// A part of the log. `next` is the cursor of the read plus the lengths of the pieces, `dropped` and `lost`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogSlice {
    /// In order. A jump in their cursors means lost bytes.
    pub pieces: Vec<Piece>,
    /// The cursor for the next read. A cursor beyond the end is set to the end.
    pub next: u64,
    /// Bytes before the first piece that were dropped because of the limit.
    pub dropped: u64,
    /// Bytes between the cursor and `next` that were lost because the disk was full.
    pub lost: u64,
    /// The process has ended and nothing follows `next`.
    pub ended: bool,
}

/// A handle to a log. Its clones share the log, and the last clone closes the file.
#[derive(Clone, Debug)]
pub struct ProcessLog {
    shared: Arc<SharedLog>,
}

#[derive(Debug)]
struct SharedLog {
    store: Lock<BlockStore>,
    directory: Arc<StateDirectory>,
    /// Updated after the store, so a reader that is notified finds the change in the store.
    progress: watch::Sender<LogProgress>,
    /// Where the output is copied to.
    copy: OnceLock<LogCopy>,
}

#[derive(Clone, Copy, Debug, Default)]
struct LogProgress {
    end: u64,
    ended: bool,
}

impl ProcessLog {
    /// Creates an empty log that keeps the last `limit` bytes; larger logs use an unnamed file in `directory`.
    /// Allocates and opens nothing.
    pub fn new(directory: &Arc<StateDirectory>, limit: u64) -> Self {
        Self::with_shape(directory, limit, SHAPE)
    }

    fn with_shape(directory: &Arc<StateDirectory>, limit: u64, shape: Shape) -> Self {
        let store = Lock::new(BlockStore::new(directory, limit, shape));
        let directory = Arc::clone(directory);
        let (progress, copy) = (watch::Sender::default(), OnceLock::new());
        Self { shared: Arc::new(SharedLog { store, directory, progress, copy }) }
    }

    /// The log of a process that has ended, with what was copied of it: an older part and a newer one. May block.
    pub fn of_copy(directory: &Arc<StateDirectory>, limit: u64, parts: &[Vec<u8>; 2]) -> Self {
        let log = Self::new(directory, limit);
        for Frame { cursor, time_ms, stream, bytes } in parts.iter().flat_map(|part| frames(part)) {
            let batch = {
                let mut store = log.shared.store.lock();
                store.go_on_at(cursor);
                store.push(stream, bytes, time_ms);
                store.next_batch()
            };
            batch.into_iter().for_each(|batch| log.write(batch));
        }
        let end = log.shared.store.lock().end();
        log.shared.progress.send_modify(|progress| *progress = LogProgress { end, ended: true });
        log
    }

    /// Copies what arrives from now on.
    pub fn copy_to(&self, copy: LogCopy) {
        let _ = self.shared.copy.set(copy);
    }

    /// Writes what waits to be copied. May block.
    pub fn write_copy(&self) {
        self.shared.copy.get().into_iter().for_each(LogCopy::write);
    }

    /// Maximum bytes kept.
    pub fn limit(&self) -> u64 {
        self.shared.store.lock().limit()
    }

    /// See [`StateDirectory::check`].
    pub async fn check_directory(&self) -> Result<(), Error> {
        self.shared.directory.check().await
    }

    /// Appends output that just arrived. Never fails: bytes that cannot be kept are counted. What does not fit into
    /// memory is written to the file, on a thread that may block.
    pub fn push(&self, stream: OutputStream, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let time_ms = now_ms();
        let (end, batch) = {
            let mut store = self.shared.store.lock();
            store.push(stream, bytes, time_ms);
            (store.end(), store.next_batch())
        };
        let frame = Frame { cursor: end - bytes.len() as u64, time_ms, stream, bytes };
        if self.shared.copy.get().is_some_and(|copy| copy.push(&frame)) {
            self.write_later(Self::write_copy);
        }
        self.shared.progress.send_modify(|progress| progress.end = progress.end.max(end));
        if let Some(batch) = batch {
            self.write_later(|log| log.write(batch));
        }
    }

    /// Writes on a thread that may block.
    fn write_later(&self, write: impl FnOnce(&Self) + Send + 'static) {
        let (log, turns) = (self.clone(), self.turns());
        let work = move || {
            write(&log);
            Ok(())
        };
        tokio::spawn(async move { turns.run(work).await });
    }

    /// Work on the file takes the turns of its directory, which may not respond.
    fn turns(&self) -> Turns {
        self.shared.directory.turns().clone()
    }

    /// Counts output that was not kept: its readers learn how many bytes are missing.
    pub fn skip(&self, count: u64) {
        let end = {
            let mut store = self.shared.store.lock();
            store.skip(count);
            store.end()
        };
        self.shared.progress.send_modify(|progress| progress.end = progress.end.max(end));
    }

    /// Writes blocks to the file until the rest fits into memory. May block.
    fn write(&self, batch: BlockBatch) {
        let mut next = Some(batch);
        while let Some(batch) = next {
            let written = batch.write();
            let mut store = self.shared.store.lock();
            store.written(written);
            next = store.next_batch();
            drop(store);
            // For `room`, which looks at the store.
            self.shared.progress.send_modify(|_| {});
        }
    }

    /// Waits while too many blocks wait for the file: the process should wait too. Cancel-safe.
    pub async fn room(&self) {
        let mut progress = self.shared.progress.subscribe();
        // The sender exists: this handle holds it.
        let _ = progress.wait_for(|_| !self.shared.store.lock().is_full()).await;
    }

    /// Whether the process has ended.
    pub fn has_ended(&self) -> bool {
        self.shared.progress.borrow().ended
    }

    /// Waits until no output has arrived for this time, from now on. Never resolves once the process has ended. Cancel-safe.
    pub async fn idle(&self, time: Duration) {
        let mut progress = self.shared.progress.subscribe();
        loop {
            let end = progress.borrow_and_update().end;
            let more = progress.wait_for(|progress| progress.end > end || progress.ended);
            if tokio::time::timeout(time, more).await.is_err() {
                return;
            }
            if self.has_ended() {
                return std::future::pending().await;
            }
        }
    }

    /// Marks the end: the process has ended and the content of its pipes has been pushed.
    pub fn end(&self) {
        self.shared.progress.send_modify(|progress| progress.ended = true);
    }

    /// When the last output arrived, by the wall clock, in milliseconds since the epoch. `None` before the first.
    pub fn last_ms(&self) -> Option<u64> {
        self.shared.store.lock().last_ms()
    }

    /// The number of bytes kept.
    pub fn kept(&self) -> u64 {
        self.shared.store.lock().kept()
    }

    /// Reads at most `most` bytes (but at least one, if available) starting at `cursor`. Waits for the file only.
    pub async fn read(&self, cursor: u64, most: usize) -> LogSlice {
        let mut reading = self.shared.store.lock().begin(cursor, most);
        loop {
            let fetch = match self.advance(reading) {
                NextPart::Done(slice) => return slice,
                NextPart::File(fetch) => fetch,
            };
            let read = self.turns().run(move || Ok(fetch.run())).await;
            // The work has no error of its own, and is never cancelled.
            reading = read.unwrap_or_else(|error| panic!("{error}"));
        }
    }

    fn advance(&self, reading: SliceReading) -> NextPart {
        // Read before the store: if the log has already ended, the store is complete.
        let ended = self.shared.progress.borrow().ended;
        let store = self.shared.store.lock();
        match store.advance(reading) {
            NextPart::Done(slice) => NextPart::Done(LogSlice { ended: ended && slice.next == store.end(), ..slice }),
            next => next,
        }
    }

    /// Waits until the log has bytes at or after `cursor`, or the process has ended. Cancel-safe.
    pub async fn wait(&self, cursor: u64) {
        let mut progress = self.shared.progress.subscribe();
        // Checks the current state first. The sender exists: this handle holds it.
        let _ = progress.wait_for(|progress| progress.end > cursor || progress.ended).await;
    }

    /// Like [`ProcessLog::read`], but waits for bytes or the end. Cancel-safe.
    pub async fn follow(&self, mut cursor: u64, most: usize) -> LogSlice {
        loop {
            let slice = self.read(cursor, most).await;
            if slice.next > cursor || slice.ended {
                return slice;
            }
            cursor = slice.next;
            self.wait(cursor).await;
        }
    }
}

/// A log with small blocks, only in memory: its directory cannot be created.
pub fn bounded_log(limit: u64, block_size: usize, memory_blocks: usize) -> ProcessLog {
    ProcessLog::with_shape(
        &Arc::new(StateDirectory::new("/dev/null/none".into())),
        limit,
        Shape { block_size, memory_blocks },
    )
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use OutputStream::{Stderr, Stdout};

    fn nowhere() -> Arc<StateDirectory> {
        Arc::new(StateDirectory::new("/dev/null/nonexistent".into()))
    }

    fn log() -> ProcessLog {
        ProcessLog::new(&nowhere(), 1 << 20)
    }

    fn text(slice: &LogSlice) -> String {
        slice.pieces.iter().map(|piece| String::from_utf8_lossy(&piece.bytes)).collect()
    }

    #[tokio::test]
    async fn a_reader_gets_each_byte_once_with_its_stream() {
        let log = log();
        log.push(Stdout, b"one\n");
        log.push(Stderr, b"two\n");
        let slice = log.read(0, 100).await;
        let streams: Vec<_> = slice.pieces.iter().map(|piece| (piece.stream, piece.cursor)).collect();
        assert_eq!((text(&slice).as_str(), slice.next, slice.ended), ("one\ntwo\n", 8, false));
        assert_eq!(streams, [(Stdout, 0), (Stderr, 4)]);
        assert!(slice.pieces[0].time_ms.abs_diff(now_ms()) < 60_000);
        log.push(Stdout, b"");
        assert_eq!(log.read(8, 100).await, LogSlice { next: 8, ..LogSlice::default() });
    }

    #[tokio::test]
    async fn a_cursor_beyond_the_end_is_put_back_to_it() {
        let log = log();
        log.push(Stdout, b"abc");
        assert_eq!(log.read(u64::MAX, 100).await, LogSlice { next: 3, ..LogSlice::default() });
    }

    #[tokio::test]
    async fn the_end_is_reported_with_the_last_piece_only() {
        let log = log();
        log.push(Stdout, b"abc");
        log.end();
        assert!(!log.read(0, 2).await.ended);
        assert!(log.read(0, 3).await.ended);
        assert!(log.read(3, 1).await.ended);
    }

    #[tokio::test]
    async fn skipped_bytes_count_as_lost_between_pieces_and_at_the_end() {
        let log = log();
        log.push(Stdout, b"abc");
        log.skip(10);
        log.skip(0);
        log.push(Stdout, b"def");
        log.skip(5);
        let slice = log.read(0, 100).await;
        let pieces: Vec<_> = slice.pieces.iter().map(|piece| (piece.cursor, piece.bytes.as_slice())).collect();
        assert_eq!(pieces, [(0, &b"abc"[..]), (13, &b"def"[..])]);
        assert_eq!((slice.next, slice.lost, slice.dropped), (21, 15, 0));
        assert_eq!(log.read(5, 100).await.lost, 13);
        log.push(Stderr, b"g");
        assert_eq!(log.read(16, 100).await.pieces[0].cursor, 21);
    }

    #[tokio::test]
    async fn a_limit_of_nothing_keeps_nothing_and_counts_it() {
        let log = ProcessLog::new(&nowhere(), 0);
        log.push(Stdout, b"abc");
        assert_eq!(log.read(0, 100).await, LogSlice { next: 3, dropped: 3, ..LogSlice::default() });
    }

    #[tokio::test]
    async fn waiting_ends_with_output_and_with_the_process() {
        let log = log();
        let writer = log.clone();
        let task = tokio::spawn(async move {
            let first = log.follow(0, 100).await;
            let far = log.follow(first.next + 1000, 100).await;
            let last = log.follow(far.next, 100).await;
            (text(&first), text(&far), last)
        });
        for bytes in ["abc", "def"] {
            tokio::task::yield_now().await;
            writer.push(Stdout, bytes.as_bytes());
        }
        tokio::task::yield_now().await;
        writer.end();
        let (first, far, last) = task.await.unwrap();
        assert_eq!((first.as_str(), far.as_str()), ("abc", "def"));
        assert_eq!(last, LogSlice { next: 6, ended: true, ..LogSlice::default() });
    }

    #[tokio::test]
    async fn a_wait_that_was_given_up_loses_nothing() {
        let log = log();
        assert!(tokio::time::timeout(Duration::from_millis(1), log.wait(0)).await.is_err());
        log.push(Stdout, b"abc");
        log.wait(0).await;
        log.wait(2).await;
        assert!(tokio::time::timeout(Duration::from_millis(1), log.wait(3)).await.is_err());
    }
}
