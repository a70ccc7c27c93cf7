//! The events of a session's shell, and the actions that follow.

use super::state::{Cause, End, Kill, Shell, Ticket, Work};

/// An event of the shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A call was submitted.
    Submit(Ticket, Work),
    /// The caller cancelled a command. A running command may be cancelled with a specific signal.
    Cancel(Ticket, Option<i32>),
    /// A hold ends. One that still waits never takes effect.
    Released(Ticket),
    /// The running command is to become a background process, if [`State::can_detach`](super::state::State::can_detach).
    Detach(Ticket),
    /// The running command reached its timeout.
    TimeUp(Ticket),
    /// The running command printed more than its limit.
    OutputLimit(Ticket),
    /// The shell did not report the end of the running command in time.
    ShellOverdue(Ticket),
    /// The shell completed its handshake.
    Hello,
    /// The shell's setup is complete.
    SetUp,
    /// The shell could not be started.
    StartFailed,
    /// The foreground group holds no processes of earlier commands.
    Isolated,
    /// A command, or a change of variables, has ended.
    Done {
        /// The call.
        ticket: Ticket,
        /// `$?`.
        status: i32,
        /// Whether it would have ended an ordinary shell.
        exited: bool,
        /// The state is proven to be unchanged.
        state_kept: bool,
        /// Whether it created processes.
        forked: bool,
    },
    /// The shell refused a command.
    Refused(Ticket),
    /// The user's EXIT trap is about to run, in a command.
    TrapRuns(Ticket),
    /// A standby is ready.
    StandbyForked,
    /// The standby could not be forked, or it has ended at once.
    ForkFailed {
        /// The system refuses forks for now.
        pauses: bool,
    },
    /// Forking may be retried.
    ForkPauseOver,
    /// The session has been idle for a while.
    IdleForAWhile,
    /// The shell's process has ended. `unread`: it had not read the last request.
    ShellDied {
        /// See above.
        unread: bool,
    },
    /// The standby has ended.
    StandbyDied,
    /// The standby has become the shell.
    Promoted,
    /// All processes of the command that is being killed have exited.
    TreeGone {
        /// The command.
        ticket: Ticket,
        /// Whether SIGKILL was needed.
        escalated: bool,
    },
    /// The supervisor has ended.
    SupervisorGone {
        /// The shell had not read the last request.
        unread: bool,
        /// It ended on request and left no process.
        orderly: bool,
    },
    /// The state was saved, and the processes of a dead supervisor were killed.
    Salvaged,
    /// The session is to be closed.
    Close,
}

impl Event {
    /// Whether it ends this command, or begins to.
    pub fn ends(&self, command: Option<Ticket>) -> bool {
        match *self {
            Self::Cancel(ticket, _)
            | Self::Detach(ticket)
            | Self::TimeUp(ticket)
            | Self::OutputLimit(ticket)
            | Self::Done { ticket, .. }
            | Self::Refused(ticket) => Some(ticket) == command,
            Self::ShellDied { .. } | Self::SupervisorGone { .. } | Self::Close => true,
            _ => false,
        }
    }
}

/// The process that a background process is forked from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The idle shell.
    Shell,
    /// The standby.
    Standby,
}

/// Why a call is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The session is being closed.
    Closed,
    /// The shell has ended for good.
    Terminated(Option<i32>),
    /// No shell can be started; the actor has the reason.
    NoShell,
    /// The shell cannot be forked.
    NoFork,
    /// The standby died.
    StandbyDied,
    /// It was cancelled before it began.
    Cancelled,
    /// Its timeout ended before the shell had started.
    TimedOut,
}

/// The answer to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The shell is running, or the hold is in effect.
    Ready,
    /// The command has ended.
    Ended {
        /// How.
        end: End,
        /// The kill ladder, if there was one.
        kill: Option<Kill>,
        /// Whether the shell was replaced before or during the command.
        restarted: bool,
    },
    /// Nothing ran.
    Refused(Refusal),
}

/// An action that the state machine requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Start a supervisor and a shell.
    StartSession,
    /// Start a shell under the current supervisor.
    StartShell,
    /// Set up the shell. Answered by [`Event::SetUp`].
    SetUp,
    /// Ensure that the foreground group holds no processes of earlier commands. Answered by [`Event::Isolated`].
    Isolate,
    /// Fork a standby from the shell. Answered by [`Event::StandbyForked`] or [`Event::ForkFailed`].
    ForkStandby {
        /// A command follows immediately, so no time is spent on warming up.
        command_follows: bool,
    },
    /// Fork a background process. The process table tracks it from then on.
    ForkProcess(Ticket, Source),
    /// Send a command. Answered by [`Event::Done`] or [`Event::Refused`].
    Run(Ticket),
    /// Send variables. Answered by [`Event::Done`] or [`Event::Refused`].
    SetEnv(Ticket),
    /// Note that the state after the last finished command is lost: the next result reports it.
    LoseState,
    /// Make the standby the shell. Answered by [`Event::Promoted`].
    Promote,
    /// Make the command and its shell a background process, and the standby the shell. Answered by [`Event::Promoted`].
    Detach(Ticket),
    /// Start the kill ladder. Answered by [`Event::TreeGone`].
    Kill {
        /// Why.
        cause: Cause,
        /// Overrides the command's own signal.
        signal: Option<i32>,
    },
    /// End the grace time of the ladder.
    Insist,
    /// Notify the ladder that the shell starts no more processes.
    Settled,
    /// Notify the ladder that the user's EXIT trap runs.
    TrapRuns,
    /// Kill the shell.
    KillShell,
    /// Save the standby's state and kill the remaining processes. Answered by [`Event::Salvaged`].
    Salvage,
    /// Kill the remaining processes of a session whose supervisor was killed. Answered by [`Event::Salvaged`].
    Sweep,
    /// Answer a call.
    Answer(Ticket, Answer),
    /// End the supervisor and everything below it. Answered by [`Event::SupervisorGone`].
    Shutdown,
    /// The session is closed.
    Closed,
    /// Report a defect of nacre: this event cannot happen in this state.
    Defect(Event, Shell),
}
