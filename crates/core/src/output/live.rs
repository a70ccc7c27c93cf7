//! Live output: sends chunks to a consumer while the command runs, at the consumer's pace.
//!
//! Permits provide backpressure. Each piece takes a permit, and the consumer returns the permit when it has taken the
//! piece. Without permits, nothing is sent, then nothing is read, and finally the command blocks on its full pipe.
//!
//! A piece costs the consumer far more than its bytes, so small output is collected: a piece that is not full waits
//! until the consumer is idle, and is sent at most once per millisecond. The first piece is sent immediately, so
//! occasional output is not delayed.

use super::reader::STREAMS;
use crate::exec::Sink;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep_until, timeout_at};

/// Maximum bytes of a piece. Larger pieces are not faster.
pub const LARGEST_PIECE: usize = 256 * 1024;
/// Minimum time between a piece and the next partial piece.
const INTERVAL: Duration = Duration::from_millis(1);
/// How long a command that is being killed waits for its consumer to take a piece.
const PATIENCE: Duration = Duration::from_millis(100);

/// See the module.
pub struct Live {
    permits: Arc<Semaphore>,
    /// The number of permits when the consumer has taken everything.
    window: u32,
    /// The next piece, from a single stream.
    piece: Vec<u8>,
    stream: usize,
    last: Option<Instant>,
    pace: ReaderPace,
}

enum ReaderPace {
    /// Each piece takes a permit.
    Consumer,
    /// The command is being killed. A consumer that does not read must not block it, because its handlers could not run
    /// with a full pipe. If no permit is returned by `until`, nothing more is sent.
    Hurried { until: Instant },
    /// The command has ended. The rest in its pipes is bounded, and is sent without permits.
    Ended,
    /// Some output was not sent, so no more is sent: a gap would be worse than an early end.
    Cut,
}

impl Live {
    /// Starts with all permits available.
    pub fn new(permits: Arc<Semaphore>) -> Self {
        let window = u32::try_from(permits.available_permits()).unwrap_or(u32::MAX);
        Self { permits, window, piece: Vec::new(), stream: 0, last: None, pace: ReaderPace::Consumer }
    }

    /// Limits the wait for the consumer, because the command is being killed.
    pub fn hurry(&mut self) {
        if matches!(self.pace, ReaderPace::Consumer) {
            self.pace = ReaderPace::Hurried { until: Instant::now() + PATIENCE };
        }
    }

    /// Marks the command as ended.
    pub fn end(&mut self) {
        if !self.is_cut() {
            self.pace = ReaderPace::Ended;
        }
    }

    /// True once no more output will be sent.
    pub fn is_cut(&self) -> bool {
        matches!(self.pace, ReaderPace::Cut)
    }

    /// True if bytes of this stream can be added.
    pub fn has_room(&self, stream: usize) -> bool {
        match self.pace {
            ReaderPace::Cut | ReaderPace::Ended => true,
            _ if self.piece.is_empty() => true,
            _ if stream == self.stream => self.piece.len() < LARGEST_PIECE,
            _ => self.permits.available_permits() > 0,
        }
    }

    /// The buffer for bytes of this stream, to be filled in its spare capacity.
    pub fn room(&mut self, stream: usize, sink: &mut dyn Sink) -> &mut Vec<u8> {
        if stream != self.stream || self.piece.len() >= LARGEST_PIECE {
            self.send(sink);
        }
        self.stream = stream;
        self.piece.reserve_exact(LARGEST_PIECE - self.piece.len());
        &mut self.piece
    }

    /// Sends the piece if it is due after bytes were added.
    pub fn added(&mut self, sink: &mut dyn Sink) {
        let permits = self.permits.available_permits();
        let is_due = if self.piece.len() >= LARGEST_PIECE {
            permits > 0
        } else {
            permits >= self.window as usize && self.last.is_none_or(|last| last.elapsed() >= INTERVAL)
        };
        if is_due {
            self.send(sink);
        }
    }

    /// Waits until the piece is due or dropped.
    pub async fn due(&self) {
        match self.pace {
            ReaderPace::Consumer if !self.piece.is_empty() => self.turn().await,
            ReaderPace::Hurried { until } if !self.piece.is_empty() => drop(timeout_at(until, self.turn()).await),
            _ => pending().await,
        }
    }

    async fn turn(&self) {
        let is_full = self.piece.len() >= LARGEST_PIECE;
        // Only checks the permits; `send` takes one.
        match self.permits.acquire_many(if is_full { 1 } else { self.window }).await {
            Ok(permits) => drop(permits),
            Err(_) => pending().await,
        }
        if let Some(last) = self.last.filter(|_| !is_full) {
            sleep_until(last + INTERVAL).await;
        }
    }

    /// Sends the current piece.
    pub fn send(&mut self, sink: &mut dyn Sink) {
        if self.piece.is_empty() || self.is_cut() {
            return;
        }
        let permits = self.permits.forget_permits(1);
        if let ReaderPace::Hurried { until } = &mut self.pace {
            if permits == 0 {
                self.pace = ReaderPace::Cut;
                self.piece = Vec::new();
                return;
            }
            *until = Instant::now() + PATIENCE;
        }
        self.last = Some(Instant::now());
        // The consumer may keep the piece for a long time, so spare capacity is released.
        let piece =
            if self.piece.len() < LARGEST_PIECE / 2 { self.piece.clone() } else { std::mem::take(&mut self.piece) };
        self.piece.clear();
        sink.output(STREAMS[self.stream], piece);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use crate::exec::{Outcome, OutputStream};
    use tokio::time::timeout;

    /// Records what it receives.
    #[derive(Default)]
    struct Pieces(Vec<(OutputStream, Vec<u8>)>);

    impl Sink for Pieces {
        fn started(&mut self, _pid: i32) {}

        fn output(&mut self, stream: OutputStream, bytes: Vec<u8>) {
            self.0.push((stream, bytes));
        }

        fn finished(self: Box<Self>, _result: Result<Outcome, Error>) {}
    }

    impl Pieces {
        fn take(&mut self) -> Vec<(OutputStream, Vec<u8>)> {
            std::mem::take(&mut self.0)
        }
    }

    fn add(live: &mut Live, stream: usize, bytes: &[u8], pieces: &mut Pieces) {
        live.room(stream, pieces).extend_from_slice(bytes);
        live.added(pieces);
    }

    fn full() -> Vec<u8> {
        vec![b'x'; LARGEST_PIECE]
    }

    async fn is_due(live: &Live, within: Duration) -> bool {
        timeout(within, live.due()).await.is_ok()
    }

    const LONG: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn sends_at_once_and_then_puts_together_until_the_consumer_has_time() {
        let permits = Arc::new(Semaphore::new(2));
        let (mut live, mut pieces) = (Live::new(Arc::clone(&permits)), Pieces::default());
        add(&mut live, 0, b"a", &mut pieces);
        assert_eq!(pieces.take(), [(OutputStream::Stdout, b"a".to_vec())]);
        add(&mut live, 0, b"b", &mut pieces);
        add(&mut live, 0, b"c", &mut pieces);
        assert!(pieces.take().is_empty());
        assert!(!is_due(&live, LONG).await, "the consumer has not taken the first piece");
        permits.add_permits(1);
        assert!(is_due(&live, LONG).await);
        live.send(&mut pieces);
        assert_eq!(pieces.take(), [(OutputStream::Stdout, b"bc".to_vec())]);
        permits.add_permits(1);
        add(&mut live, 0, b"d", &mut pieces);
        assert!(!is_due(&live, Duration::ZERO).await, "a millisecond has not passed");
        assert!(is_due(&live, INTERVAL).await);
    }

    #[tokio::test(start_paused = true)]
    async fn keeps_the_order_of_the_streams() {
        let permits = Arc::new(Semaphore::new(2));
        let (mut live, mut pieces) = (Live::new(Arc::clone(&permits)), Pieces::default());
        for (stream, bytes) in [(0, b"1"), (0, b"2"), (1, b"3")] {
            assert!(live.has_room(stream));
            add(&mut live, stream, bytes, &mut pieces);
        }
        assert_eq!(pieces.take(), [(OutputStream::Stdout, b"1".to_vec()), (OutputStream::Stdout, b"2".to_vec())]);
        assert!(live.has_room(1) && !live.has_room(0), "there is no permit for what would have to go first");
        live.end();
        add(&mut live, 0, b"4", &mut pieces);
        live.send(&mut pieces);
        assert_eq!(pieces.take(), [(OutputStream::Stderr, b"3".to_vec()), (OutputStream::Stdout, b"4".to_vec())]);
    }

    #[tokio::test(start_paused = true)]
    async fn takes_in_no_more_than_a_piece_without_permits() {
        let permits = Arc::new(Semaphore::new(1));
        let (mut live, mut pieces) = (Live::new(Arc::clone(&permits)), Pieces::default());
        add(&mut live, 0, &full(), &mut pieces);
        add(&mut live, 0, &full(), &mut pieces);
        assert_eq!(pieces.take().len(), 1);
        assert!(!live.has_room(0) && !live.has_room(1));
        assert!(!is_due(&live, LONG).await);
        permits.add_permits(1);
        assert!(is_due(&live, LONG).await);
        live.send(&mut pieces);
        assert_eq!(pieces.take().len(), 1);
        assert!(live.has_room(0) && live.has_room(1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_command_that_is_being_killed_waits_for_a_moment_only() {
        let permits = Arc::new(Semaphore::new(1));
        let (mut live, mut pieces) = (Live::new(Arc::clone(&permits)), Pieces::default());
        add(&mut live, 0, &full(), &mut pieces);
        add(&mut live, 0, &full(), &mut pieces);
        live.hurry();
        assert!(!is_due(&live, PATIENCE / 2).await);
        permits.add_permits(1);
        live.due().await;
        live.send(&mut pieces);
        assert_eq!(pieces.take().len(), 2);
        add(&mut live, 1, b"more", &mut pieces);
        assert!(!is_due(&live, PATIENCE / 2).await, "a consumer that takes a piece is waited for again");
        assert!(is_due(&live, PATIENCE).await);
        live.send(&mut pieces);
        assert!(live.is_cut() && pieces.take().is_empty());
        live.end();
        add(&mut live, 0, b"the end", &mut pieces);
        live.send(&mut pieces);
        assert!(pieces.take().is_empty(), "nothing comes after a gap");
    }
}
