//! Whether a process waits for input.
//!
//! It is found by two looks at the system calls of its programs, see [`nacre_containment::waiting`], and costs nothing while
//! no caller asks.

use super::{Process, ProcessChange, terminal, unseen};
use crate::blocking::blocking;
use crate::error::Error;
use nacre_containment::pid::Pid;
use nacre_containment::tree::Tree;
use nacre_containment::waiting::{self, Source, State, Wait};
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::sleep;

/// Between two looks: longer than an editor or a runtime needs to handle what has just come.
const BETWEEN: Duration = Duration::from_millis(300);
/// How many pairs of looks in a row must show a program that cannot be looked at.
const LOOKS_AT_HIDDEN: u32 = 4;

/// How the input is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Lines from the terminal, with echo.
    Line,
    /// Lines from the terminal without echo, like passwords.
    Secret,
    /// Keys from the terminal.
    Keys,
    /// Bytes from the pipe that is the standard input of the process.
    Pipe,
}

/// A program of a process that waits for input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Whether it waits for other things too.
    pub is_listening: bool,
    /// False for a program that cannot be looked at: its terminal reads a line without echo, and it does nothing.
    pub is_sure: bool,
    /// How it reads.
    pub how: How,
    /// Its name, which the kernel cuts after 15 bytes.
    pub program: String,
    /// Its process.
    pub pid: Pid,
    /// Whether it goes on by itself after some time.
    pub is_timed: bool,
}

impl Process {
    /// The program that waits for input, if one does. Takes 0.3 s, and up to 1.2 s for a program that cannot be looked at.
    /// `None` also for a process that has ended.
    ///
    /// # Errors
    /// `ENGINE_ERROR` if the processes cannot be looked up.
    pub async fn waiting(&self) -> Result<Option<Waiting>, Error> {
        let mut first = self.look().await?;
        for _ in 0..LOOKS_AT_HIDDEN {
            if first.is_empty() {
                break;
            }
            sleep(BETWEEN).await;
            let second = self.look().await?;
            match waiting::compare(&first, &second) {
                Some((State::Hidden, _)) => first = second,
                found => return Ok(found.map(|(state, wait)| self.report(self.found(state, wait)))),
            }
        }
        let reads_secret = self.terminal_mode() == Some(How::Secret);
        Ok(first.first().filter(|_| reads_secret).map(|wait| self.report(self.found(State::Hidden, wait))))
    }

    /// Reports what was found to observers, once until the process gets input.
    fn report(&self, waiting: Waiting) -> Waiting {
        let found = (waiting.clone(), self.input_ms.load(Ordering::Relaxed));
        let mut reported = self.reported.lock();
        if reported.as_ref() != Some(&found) {
            *reported = Some(found);
            drop(reported);
            self.happens(ProcessChange::Waits(waiting.clone()));
        }
        waiting
    }

    async fn look(&self) -> Result<Vec<Wait>, Error> {
        tracing::trace!(process = %self.id, "looking whether a program waits for input");
        let life = self.life();
        let Some(birth) = life.birth.filter(|_| life.end.is_none()) else { return Ok(Vec::new()) };
        let input = self.input.get().copied();
        let look = move |tree: Tree| waiting::look(&tree.members()?, input);
        blocking(move || look(birth.tree).map_err(|error| unseen(&error))).await
    }

    fn found(&self, state: State, wait: &Wait) -> Waiting {
        let how = match wait.source {
            Source::Pipe => How::Pipe,
            Source::Terminal | Source::Hidden => self.terminal_mode().unwrap_or(How::Line),
        };
        Waiting {
            is_listening: state == State::Listening,
            is_sure: state != State::Hidden,
            how,
            program: wait.program.clone(),
            pid: wait.process.pid,
            is_timed: wait.is_timed,
        }
    }

    fn terminal_mode(&self) -> Option<How> {
        self.with_terminal(terminal::Terminal::mode)?.ok().map(|mode| match mode {
            terminal::Mode { reads_lines: false, .. } => How::Keys,
            terminal::Mode { echoes: false, .. } => How::Secret,
            terminal::Mode { .. } => How::Line,
        })
    }
}
