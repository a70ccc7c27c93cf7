//! Goes through the lines of a log, turn by turn.

use super::assembler::{Assembler, Line};
use super::lines::Lines;
use super::{ProcessLog, store::BlockStore};
use crate::error::{Code, Error};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// Maximum time of a turn, and the time of one line. Other searches go on in between.
const TURN: Duration = Duration::from_millis(20);
/// Maximum searching time until the end of the log.
const MOST_TIME: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 30 });

/// For all searches of this process. Each keeps a processor busy.
static TURNS: Semaphore = Semaphore::const_new(4);

/// What a scan gives the lines to.
pub trait Taker: Send + 'static {
    /// Whether it takes lines that are too long in parts, instead of their beginning alone.
    const TAKES_PARTS: bool;

    /// Returns whether it wants more.
    fn take(&mut self, line: Line<'_>) -> bool;

    /// The option with the expression that it tests the lines with, for messages.
    fn expression(&self) -> Option<&str>;
}

/// How far a scan goes.
#[derive(Clone, Copy)]
pub struct Extent {
    /// The offset of its end.
    pub end: u64,
    /// The lines at its end.
    pub lines: Lines,
    /// Lines that have no newline there count.
    pub counts_open: bool,
}

/// A scan of the lines of a log, from one of them on.
pub struct Scan<T> {
    /// What it gives the lines to.
    pub taker: T,
    log: ProcessLog,
    assembler: Assembler,
    /// Everything before it has been read.
    cursor: u64,
    /// The first line to give.
    next: u64,
}

impl<T: Taker> Scan<T> {
    /// Begins with line `first`. `store`: of the log.
    pub fn new(log: &ProcessLog, store: &BlockStore, first: u64, taker: T) -> Self {
        let cursor = store.offset_before(first);
        Self { taker, log: log.clone(), assembler: Assembler::new(T::TAKES_PARTS), cursor, next: first }
    }

    /// Begins at an offset, as if a line began there.
    pub fn at(log: &ProcessLog, cursor: u64, taker: T) -> Self {
        Self { taker, log: log.clone(), assembler: Assembler::at(cursor, T::TAKES_PARTS), cursor, next: 0 }
    }

    /// Everything before this offset has been read.
    pub fn cursor(&self) -> u64 {
        self.cursor
    }

    /// Gives the lines to its taker, until that wants no more or the end is reached. Cancel-safe, except that the scan is
    /// lost.
    ///
    /// # Errors
    /// `INVALID_OPTION` if an expression takes too long.
    pub async fn advance(mut self, extent: Extent) -> Result<Self, Error> {
        let caller = Leaving(Arc::default());
        let mut searched = Duration::ZERO;
        loop {
            let turn = match self.taker.expression() {
                Some(option) if searched > MOST_TIME => {
                    let message = format!(
                        "{option} takes more than 30 s in this log: search for something simpler, or from a later line"
                    );
                    return Err(Error::new(Code::InvalidOption, message));
                }
                Some(_) => Some(TURNS.acquire().await.map_err(|_| Error::engine_failed())?),
                None => None,
            };
            let has_left = Arc::clone(&caller.0);
            let (is_done, time);
            let turns = self.log.turns();
            (self, is_done, time) = turns
                .run(move || {
                    let _turn = turn;
                    let begun = Instant::now();
                    let is_done = self.step(extent, begun, &has_left);
                    Ok((self, is_done, begun.elapsed()))
                })
                .await?;
            if is_done {
                return Ok(self);
            }
            searched += time;
        }
    }

    /// One turn. Returns whether there is nothing more to do. May block.
    fn step(&mut self, Extent { end, lines, counts_open }: Extent, begun: Instant, has_left: &AtomicBool) -> bool {
        let Self { taker, log, assembler, cursor, next } = self;
        while *cursor < end
            && let Some(part) = log.part(*cursor).filter(|part| part.start() < end)
        {
            let after = part.end().min(end);
            let before = assembler.clone();
            let mut is_turn_over = false;
            let goes_on = assembler.add(part, end, |line| {
                if line.number < *next {
                    return true;
                }
                let has_left = has_left.load(Ordering::Relaxed);
                // A part would be given again after a turn that ends with it. A block has few.
                let may_end = !line.is_part;
                if may_end {
                    *next = line.number + 1;
                }
                let goes_on = taker.take(line);
                is_turn_over = goes_on && (has_left || (may_end && begun.elapsed() > TURN));
                goes_on && !is_turn_over
            });
            if is_turn_over {
                // The next turn reads the block again, and goes on with the next line.
                *assembler = before;
                return false;
            }
            if !goes_on {
                return true;
            }
            *cursor = after;
        }
        *cursor = end.max(*cursor);
        if counts_open {
            // Another line may still take the number of such a line.
            assembler.finish(end, &lines, |line| line.number < *next || taker.take(line));
        }
        true
    }
}

/// Ends the turn of a caller that has gone.
struct Leaving(Arc<AtomicBool>);

impl Drop for Leaving {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
