//! The feed of a sandbox: what happens in it, for observers.
//!
//! Events are kept in a ring with a bounded number and size, whether or not anything reads them. Output and requests are only
//! added while something reads.

use crate::error::{Code, Error};
use crate::exec::{KilledBy, Usage};
use crate::hook::Hook;
use crate::process::terminal::Size;
use crate::process::{Exit, Process, ProcessChange, Waiting};
use crate::questions::{self, Question, QuestionAnswer};
use crate::wanted::{Denial, PassedBytes, Wanted};
use nacre_containment::lock::Lock;
use nacre_egress::Ended;
use std::collections::VecDeque;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::Notify;

/// Maximum events of the ring.
const MOST_EVENTS: usize = 10_000;
/// Maximum bytes of their texts and output.
const MOST_BYTES: usize = 4 * 1024 * 1024;
/// Maximum refusals that are kept besides.
const MOST_REFUSALS: usize = 1000;
/// Maximum bytes of one stream in one event.
pub const MOST_OUTPUT: usize = 64 * 1024;
/// How long a reader may take between two reads and still count as one.
const BETWEEN_READS: Duration = Duration::from_secs(5);

/// What has happened.
#[derive(Clone, Debug)]
pub struct FeedEvent {
    /// 1 for the first event of the sandbox, and so on.
    pub number: u64,
    /// Wall clock.
    pub at: SystemTime,
    /// The session where it has happened.
    pub session: String,
    /// What.
    pub what: What,
}

/// See [`FeedEvent`]. Commands have the ids of their requests, processes their own.
#[allow(missing_docs, reason = "the variants explain their fields")]
#[derive(Clone, Debug)]
pub enum What {
    /// The session can be used.
    SessionStarted,
    /// Everything in it has ended.
    SessionEnded,
    /// A command waits for its turn.
    CommandQueued { id: u64, command: String },
    /// A command begins.
    CommandStarted { id: u64, command: String, pid: i32 },
    /// It has printed: the bytes of both streams so far, and the newest of them.
    CommandOutput { id: u64, total: [u64; 2], newest: [Vec<u8>; 2] },
    /// A program of it waits for input.
    CommandWaiting { id: u64, waiting: Waiting },
    /// It is a process from now on.
    CommandDetached { id: u64, process: String },
    /// It has ended, or was refused or cancelled before it began.
    CommandEnded { id: u64, end: Box<CommandEnd> },
    /// A process runs.
    ProcessStarted { id: String, command: String, pid: i32, terminal: Option<Size> },
    /// Its terminal has another size.
    ProcessResized { id: String, size: Size },
    /// A program of it waits for input.
    ProcessWaiting { id: String, waiting: Waiting },
    /// It has ended.
    ProcessEnded { id: String, exit: Exit, killed_by: Option<KilledBy> },
    /// A service has been started again.
    ServiceRestarted { id: String, restarts: u32 },
    /// Something was refused.
    Denied(Denial),
    /// A request to a host with a secret or rules has ended.
    Request(Box<Ended>),
    /// A connection or request waits for an answer.
    Asked { id: u64, wanted: Wanted, expires_at: SystemTime },
    /// The answer; `None` if the time was over or nothing waits any more.
    Answered { id: u64, wanted: Wanted, answer: Option<QuestionAnswer> },
}

/// How a command has ended.
#[derive(Clone, Debug, Default)]
pub struct CommandEnd {
    /// `$?`.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// What has killed it.
    pub killed_by: Option<KilledBy>,
    /// How long it ran.
    pub duration: Duration,
    /// The bytes of both streams.
    pub total: [u64; 2],
    /// Nothing in the shell has changed but `$?`.
    pub keeps_state: bool,
    /// The directory of the session.
    pub cwd: String,
    /// What it has used, if its shell has said so.
    pub usage: Option<Usage>,
    /// Bytes sent and received, if the network goes through a proxy.
    pub traffic: Option<PassedBytes>,
}

impl What {
    /// What has happened to a process, or to a command that can become one.
    pub fn of(process: &Process, happened: ProcessChange) -> Self {
        let id = process.id.clone();
        match (happened, process.request()) {
            (ProcessChange::Started { pid, terminal }, _) => {
                Self::ProcessStarted { id, command: process.command.clone(), pid, terminal }
            }
            (ProcessChange::Resized(size), _) => Self::ProcessResized { id, size },
            (ProcessChange::Waits(waiting), Some(id)) => Self::CommandWaiting { id, waiting },
            (ProcessChange::Waits(waiting), None) => Self::ProcessWaiting { id, waiting },
            (ProcessChange::Ended(exit, killed_by), _) => Self::ProcessEnded { id, exit, killed_by },
        }
    }

    /// What has happened to a question.
    pub fn of_question(question: &Question, happened: questions::QuestionEvent) -> Self {
        let Question { id, wanted, expires_at, .. } = question.clone();
        match happened {
            questions::QuestionEvent::Asked => Self::Asked { id, wanted, expires_at },
            questions::QuestionEvent::Closed(answer) => Self::Answered { id, wanted, answer },
        }
    }

    /// Bytes that it takes, about.
    fn size(&self) -> usize {
        let reason = |killed_by: &Option<KilledBy>| {
            killed_by.as_ref().and_then(|killed_by| killed_by.reason.as_ref()).map_or(0, String::len)
        };
        let texts = match self {
            Self::CommandQueued { command, .. }
            | Self::CommandStarted { command, .. }
            | Self::ProcessStarted { command, .. } => command.len(),
            Self::CommandOutput { newest, .. } => newest.iter().map(Vec::len).sum(),
            Self::CommandEnded { end, .. } => end.cwd.len() + reason(&end.killed_by),
            Self::ProcessEnded { killed_by, .. } => reason(killed_by),
            Self::Denied(denial) => denial.size(),
            Self::Asked { wanted, .. } | Self::Answered { wanted, .. } => wanted.size(),
            Self::Request(request) => {
                let names: usize = request.secrets.iter().map(String::len).sum();
                size_of::<Ended>() + request.origin.host.len() + request.method.len() + request.path.len() + names
            }
            _ => 0,
        };
        size_of::<FeedEvent>() + texts
    }
}

/// Events that were read.
#[derive(Debug, Default)]
pub struct Batch {
    /// In order.
    pub events: Vec<FeedEvent>,
    /// How many events before them are no longer kept.
    pub lost: u64,
    /// Nothing follows: the sandbox was destroyed.
    pub is_over: bool,
}

/// See the module.
#[derive(Debug)]
pub struct Feed {
    ring: Lock<EventRing>,
    grown: Notify,
    reading: AtomicUsize,
    /// When the last read ended, in milliseconds since `made_at`, plus 1; 0 if there was none. Commands look at it each
    /// time they print, so it needs no lock.
    last_read: AtomicU64,
    made_at: Instant,
    on_event: OnceLock<Hook<FeedEvent>>,
}

impl Default for Feed {
    fn default() -> Self {
        Self {
            ring: Lock::default(),
            grown: Notify::default(),
            reading: AtomicUsize::default(),
            last_read: AtomicU64::default(),
            made_at: Instant::now(),
            on_event: OnceLock::new(),
        }
    }
}

#[derive(Debug, Default)]
struct EventRing {
    events: VecDeque<FeedEvent>,
    /// The last refusals in sessions that have not ended, however much has happened since.
    refusals: VecDeque<(String, Denial)>,
    /// Number of the last event.
    last: u64,
    bytes: usize,
    is_over: bool,
}

impl EventRing {
    fn keep_refusal(&mut self, event: &FeedEvent) {
        if let What::Denied(denial) = &event.what {
            self.refusals.push_back((event.session.clone(), denial.clone()));
            if self.refusals.len() > MOST_REFUSALS {
                self.refusals.pop_front();
            }
        } else if matches!(event.what, What::SessionEnded) {
            self.refusals.retain(|(of, _)| *of != event.session);
        }
    }
}

impl Feed {
    /// Adds an event, and drops the oldest beyond the limits.
    pub fn push(&self, session: &str, what: What) {
        let mut ring = self.ring.lock();
        ring.last += 1;
        ring.bytes += what.size();
        let event = FeedEvent { number: ring.last, at: SystemTime::now(), session: session.into(), what };
        if let Some(hook) = self.on_event.get() {
            hook.call(&event);
        }
        ring.keep_refusal(&event);
        ring.events.push_back(event);
        while ring.events.len() > MOST_EVENTS || ring.bytes > MOST_BYTES {
            let dropped = ring.events.pop_front().map_or(0, |event| event.what.size());
            ring.bytes -= dropped;
        }
        drop(ring);
        self.grown.notify_waiters();
    }

    /// What was refused in a session, the oldest first: at most the last 1000 of all sessions.
    pub fn refusals(&self, session: &str) -> Vec<Denial> {
        let ring = self.ring.lock();
        let of_session = ring.refusals.iter().filter(|(of, _)| of == session);
        of_session.map(|(_, denial)| denial.clone()).collect()
    }

    /// Calls this with each event that is added from now on. It must not add events. A second call has no effect.
    pub fn on_event(&self, hook: Hook<FeedEvent>) {
        let _ = self.on_event.set(hook);
    }

    /// Number of the last event.
    pub fn last(&self) -> u64 {
        self.ring.lock().last
    }

    /// Whether something reads.
    pub fn is_watched(&self) -> bool {
        // Acquire: the end of the last read, whose count this may see, has stored its time before.
        if self.reading.load(Ordering::Acquire) > 0 {
            return true;
        }
        let last_read = self.last_read.load(Ordering::Relaxed);
        last_read > 0 && self.age() + 1 < last_read + BETWEEN_READS.as_millis() as u64
    }

    /// Counts its caller as a reader from now on: the first read begins a little later.
    pub fn watch(&self) {
        self.last_read.fetch_max(self.age() + 1, Ordering::Relaxed);
    }

    /// Milliseconds since it was made.
    fn age(&self) -> u64 {
        self.made_at.elapsed().as_millis() as u64
    }

    /// Waits for events after the one with this number. Returns at most `most`. Cancel-safe.
    ///
    /// # Errors
    /// `INVALID_OPTION` if there has been no such event.
    pub async fn read(&self, since: u64, most: usize) -> Result<Batch, Error> {
        self.reading.fetch_add(1, Ordering::Relaxed);
        let _reading = FeedReading(self);
        loop {
            let grown = self.grown.notified();
            tokio::pin!(grown);
            grown.as_mut().enable();
            if let Some(batch) = self.ring.lock().after(since, most)? {
                return Ok(batch);
            }
            grown.await;
        }
    }

    /// Ends the feed: readers get what is kept, and then the end.
    pub fn end(&self) {
        self.ring.lock().is_over = true;
        self.grown.notify_waiters();
    }
}

impl EventRing {
    /// The events after a number; `None` if there is none yet.
    fn after(&self, since: u64, most: usize) -> Result<Option<Batch>, Error> {
        if since > self.last {
            let message = format!(
                "since is {since}, but the last event of this sandbox is {}: it belongs to another sandbox; \
                 read without since",
                self.last
            );
            return Err(Error::new(Code::InvalidOption, message));
        }
        let before = self.last - self.events.len() as u64;
        let lost = before.saturating_sub(since);
        let skipped = usize::try_from(since.saturating_sub(before)).unwrap_or(usize::MAX);
        let events: Vec<FeedEvent> = self.events.iter().skip(skipped).take(most).cloned().collect();
        let is_over = self.is_over && skipped + events.len() == self.events.len();
        Ok((!events.is_empty() || lost > 0 || is_over).then_some(Batch { events, lost, is_over }))
    }
}

/// A read that waits.
struct FeedReading<'a>(&'a Feed);

impl Drop for FeedReading<'_> {
    fn drop(&mut self) {
        self.0.watch();
        self.0.reading.fetch_sub(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denied(length: usize) -> What {
        What::Denied(Denial::new(Wanted::to("x".repeat(length)), crate::wanted::Refuser::Unlisted))
    }

    #[tokio::test]
    async fn gives_the_events_after_a_cursor_and_waits_for_more() {
        let feed = Feed::default();
        assert!(!feed.is_watched());
        feed.watch();
        assert!(feed.is_watched());
        feed.push("one", What::SessionStarted);
        feed.push("one", What::SessionEnded);
        let numbers = |batch: Batch| batch.events.iter().map(|event| event.number).collect::<Vec<_>>();
        assert_eq!(numbers(feed.read(0, 10).await.unwrap()), [1, 2]);
        assert_eq!(numbers(feed.read(0, 1).await.unwrap()), [1]);
        assert!(feed.is_watched());
        let (next, ()) = tokio::join!(feed.read(2, 10), async { feed.push("two", What::SessionStarted) });
        assert_eq!(numbers(next.unwrap()), [3]);
        assert_eq!(feed.read(4, 10).await.unwrap_err().code, Code::InvalidOption);
        feed.end();
        assert!(feed.read(3, 10).await.unwrap().is_over);
    }

    #[tokio::test]
    async fn is_watched_for_some_time_after_a_read_even_while_another_thread_has_its_ring() {
        let mut feed = Feed::default();
        feed.push("one", What::SessionStarted);
        feed.read(0, 1).await.unwrap();
        let ring = feed.ring.lock();
        assert!(feed.is_watched());
        drop(ring);
        feed.made_at = feed.made_at.checked_sub(BETWEEN_READS).unwrap();
        assert!(!feed.is_watched());
        assert!(tokio::time::timeout(Duration::ZERO, feed.read(1, 1)).await.is_err());
        assert!(feed.is_watched());
    }

    #[tokio::test]
    async fn is_bounded_and_counts_what_is_lost() {
        let feed = Feed::default();
        (0..MOST_EVENTS + 5).for_each(|_| feed.push("one", denied(1)));
        let batch = feed.read(2, 1).await.unwrap();
        assert_eq!((batch.lost, batch.events[0].number), (3, 6));
        (0..10).for_each(|_| feed.push("one", denied(MOST_BYTES / 4)));
        let batch = feed.read(feed.last() - 10, 10).await.unwrap();
        assert_eq!((batch.lost, batch.events.len()), (7, 3));
        assert!(feed.ring.lock().bytes <= MOST_BYTES);
        feed.push("one", denied(MOST_BYTES + 1));
        let batch = feed.read(feed.last() - 1, 10).await.unwrap();
        assert_eq!((batch.lost, batch.events.len()), (1, 0));
    }
}
