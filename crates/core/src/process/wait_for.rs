//! Waits for the first of several things that a process can do.

use super::{Process, Waiting};
use crate::error::Error;
use crate::process_log::{FoundLine, Match, WantedLine};
use std::time::Duration;
use tokio::time::sleep;

/// Between two looks at what a process waits for.
const INTERVAL: Duration = Duration::from_millis(250);

/// What to wait for, besides the end of the process.
#[derive(Clone, Debug, Default)]
pub struct Conditions {
    /// That a program waits for input, and for nothing else.
    pub input: bool,
    /// A line that matches.
    pub line: Option<WantedLine>,
    /// No output for this time, from now on.
    pub idle: Option<Duration>,
    /// The time of the wait.
    pub timeout: Option<Duration>,
}

/// What came first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum First {
    /// The process has ended.
    Exit,
    /// A program waits for input.
    Input(Waiting),
    /// A line matches.
    Line(FoundLine, Match),
    /// No output came.
    Idle,
    /// The time is up.
    Timeout,
}

impl Process {
    /// Waits for the first of the conditions, or the end of the process. Cancel-safe.
    ///
    /// # Errors
    /// `INVALID_OPTION` for a bad expression; `ENGINE_ERROR` if the processes cannot be looked up.
    pub async fn wait_for(&self, conditions: Conditions) -> Result<First, Error> {
        let Conditions { input, line, idle, timeout } = conditions;
        // The last line of a process that has ended counts.
        let line_or_end = async {
            if let Some(wanted) = &line
                && let Some((found, place)) = self.log.find_line(wanted).await?
            {
                return Ok(First::Line(found, place));
            }
            self.wait().await;
            Ok(First::Exit)
        };
        tokio::select! {
            biased;
            first = line_or_end => first,
            found = self.reads_input(), if input => Ok(First::Input(found?)),
            () = self.log.idle(idle.unwrap_or_default()), if idle.is_some() => Ok(First::Idle),
            () = sleep(timeout.unwrap_or_default()), if timeout.is_some() => Ok(First::Timeout),
        }
    }

    /// Waits until a program waits for input, and for nothing else. Looks again and again, because the kernel reports no such
    /// event. Never resolves once the process has ended.
    async fn reads_input(&self) -> Result<Waiting, Error> {
        while self.life().end.is_none() {
            if let Some(waiting) = self.waiting().await?.filter(|waiting| !waiting.is_listening) {
                return Ok(waiting);
            }
            sleep(INTERVAL).await;
        }
        std::future::pending().await
    }
}
