//! The end of a foreground command before its time: what has been asked for, what is still awaited.

use std::time::Duration;
use tokio::time::Instant;

/// Who asked. The first one stays: a timeout wins over an interrupt that comes later and the other way round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The command's time is up.
    Timeout,
    /// The caller does not want it any more.
    Interrupt,
}

/// How the shell has answered the interrupt so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    None,
    /// The command had ended by itself just before; the interrupt is still to hit the waiting shell.
    CommandEnded(Instant),
    /// The shell is ending or dead: the interrupt has done its work.
    ShellEnded,
}

/// The ladder's state as the host sees it; the steps themselves are the supervisor's.
#[derive(Debug)]
pub struct Killing {
    /// Who asked.
    pub cause: Cause,
    /// First signal.
    pub signal: i32,
    id: u64,
    tree_gone: bool,
    escalated: bool,
    answer: Answer,
    shell_deadline: Instant,
    shell_killed: bool,
}

/// What the shell gets beyond the grace time, since its own children are killed only at the end of that.
const SHELL_EXTRA: Duration = Duration::from_millis(50);
/// An interrupt always reaches a shell that waits for a command, unless the user has trapped that very signal.
const INTERRUPT_LIMIT: Duration = Duration::from_millis(500);

impl Killing {
    /// The ladder begins.
    pub fn start(id: u64, cause: Cause, signal: i32, grace: Duration) -> Self {
        Self {
            cause,
            signal,
            id,
            tree_gone: false,
            escalated: false,
            answer: Answer::None,
            shell_deadline: Instant::now() + grace + SHELL_EXTRA,
            shell_killed: false,
        }
    }

    /// The grace time is over, because somebody does not want to wait for its end.
    pub fn insist(&mut self) {
        self.shell_deadline = self.shell_deadline.min(Instant::now() + SHELL_EXTRA);
    }

    /// The supervisor reports that the tree is gone.
    pub fn tree_gone(&mut self, id: u64, escalated: bool) {
        if id == self.id {
            self.tree_gone = true;
            self.escalated |= escalated;
        }
    }

    /// The shell has told that the command is over.
    pub fn command_ended(&mut self) {
        if self.answer == Answer::None {
            self.answer = Answer::CommandEnded(Instant::now());
        }
    }

    /// The shell is ending, or has died.
    pub fn shell_ended(&mut self) {
        self.answer = Answer::ShellEnded;
    }

    /// The signal that has ended the command.
    pub fn final_signal(&self) -> i32 {
        if self.escalated || self.shell_killed { libc::SIGKILL } else { self.signal }
    }

    /// True when nothing more is awaited.
    ///
    /// The race: the interrupt may reach the shell after the command has ended by itself. Then the shell is ready once,
    /// and ends a moment later. A next command sent in between could be taken and lost with it, so the end is waited for.
    pub fn is_complete(&self) -> bool {
        let answered = match self.answer {
            Answer::None => false,
            Answer::CommandEnded(at) => at.elapsed() >= INTERRUPT_LIMIT,
            Answer::ShellEnded => true,
        };
        self.tree_gone && answered
    }

    /// When to look again.
    pub fn deadline(&self) -> Option<Instant> {
        match self.answer {
            Answer::None if self.shell_killed => None,
            Answer::None => Some(self.shell_deadline),
            Answer::CommandEnded(at) => Some(at + INTERRUPT_LIMIT),
            Answer::ShellEnded => None,
        }
    }

    /// Whether the shell itself has to be killed now, because it neither ended its command nor itself. True once.
    pub fn must_kill_shell(&mut self) -> bool {
        let due = self.answer == Answer::None && !self.shell_killed && Instant::now() >= self.shell_deadline;
        self.shell_killed |= due;
        due
    }
}
