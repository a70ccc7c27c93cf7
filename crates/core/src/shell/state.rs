//! The states of a session's shell, what can happen to it, and what is done about it.
//!
//! [`super::transition`] maps a state and an event to the next state and a list of actions. It does no I/O and knows no
//! clock; the session's actor turns messages, end of file and timers into events, and carries the actions out in order.

use std::collections::VecDeque;

/// Names a call from its submission to its answer. Unique in a session.
pub type Ticket = u64;

/// What a call wants from the shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// The shell is to run.
    Open,
    /// A foreground command.
    Command,
    /// Variables to be set for good.
    SetEnv,
    /// A background process. It never waits for a command.
    Start,
}

/// The shell's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shell {
    /// There is none; the next call starts one.
    Absent,
    /// The supervisor starts it; it has not said hello.
    Starting,
    /// It takes over what it needs to know: variables withheld from its start, the state of a checkpoint.
    SettingUp,
    /// It waits for work.
    Idle,
    /// A command runs.
    Running(Run),
    /// It is dead; the standby becomes the shell.
    Promoting,
    /// The supervisor is dead: the last state is saved and what is left of the session is killed.
    Salvaging,
    /// It has ended for good (`surviveExit` off), with this code.
    Terminated(Option<i32>),
    /// The session is being closed.
    Closing,
    /// Everything is gone.
    Closed,
}

/// The running command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The call.
    pub ticket: Ticket,
    /// Command or variables.
    pub work: Work,
    /// How it ended, when it has and something else is still awaited.
    pub end: Option<End>,
    /// The kill ladder, when the command is being killed.
    pub kill: Option<Kill>,
    /// The shell died over it; the standby takes over when the command has been answered.
    pub shell_died: bool,
}

impl Run {
    /// Nothing of it has run, or running it twice does no harm: the next shell may get it.
    pub fn can_repeat(&self, unread: bool) -> bool {
        self.end.is_none() && self.kill.is_none() && (unread || self.work == Work::SetEnv)
    }
}

/// The state of a kill ladder, as the session sees it. The steps are the supervisor's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kill {
    /// Why.
    pub cause: Cause,
    /// No process of the command is left.
    pub tree_gone: bool,
    /// SIGKILL was needed.
    pub escalated: bool,
    /// The shell itself had to be killed.
    pub shell_killed: bool,
}

/// Why a command is killed. The first cause stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Its time is up.
    Timeout,
    /// The caller cancelled it.
    Cancel,
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The shell reported its end.
    Done {
        /// `$?`.
        status: i32,
        /// It would have ended an ordinary shell.
        exited: bool,
    },
    /// The shell refused it; nothing ran.
    Refused,
    /// The shell's process ended.
    Died,
    /// The supervisor died, and everything with it.
    SupervisorGone,
    /// The session was closed.
    Closed,
}

/// The standby: a fork of the shell that waits to take its place, and that background processes are forked from while a
/// command runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standby {
    /// There is one.
    pub ready: bool,
    /// A new one is being forked.
    pub forking: bool,
    /// The newest one, ready or being forked, has the state after the last finished command.
    pub fresh: bool,
    /// Forking failed a moment ago and is not tried.
    pub paused: bool,
}

/// Whether the next command's processes can be told from those of earlier commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// Nothing of an earlier command is in the foreground group.
    Isolated,
    /// The last command forked.
    Unknown,
    /// It is being looked at, and put right.
    Isolating,
}

/// Everything that decisions are made on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// The shell.
    pub shell: Shell,
    /// The standby.
    pub standby: Standby,
    /// The foreground group.
    pub isolation: Isolation,
    /// Calls that wait for the shell, in order.
    pub queue: VecDeque<(Ticket, Work)>,
    /// Background processes that wait for a fork.
    pub starts: VecDeque<Ticket>,
    /// Attempts to get a shell that can work, since the last one that did.
    pub attempts: u32,
    /// The shell was brought back and no result has said so.
    pub restarted: bool,
    /// `exit` ends the command only.
    pub survives_exit: bool,
}

/// What happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A call.
    Submit(Ticket, Work),
    /// The caller does not want it any more; with a signal of its own for a command that runs.
    Cancel(Ticket, Option<i32>),
    /// The timeout of the running command.
    TimeUp(Ticket),
    /// The running command did not give the shell back in time.
    ShellOverdue(Ticket),
    /// The shell says hello.
    Hello,
    /// The shell has taken over what it needed.
    SetUp,
    /// The shell could not be started.
    StartFailed,
    /// The foreground group holds nothing of earlier commands.
    Isolated,
    /// A command has ended.
    Done {
        /// `$?`.
        status: i32,
        /// It would have ended an ordinary shell.
        exited: bool,
        /// The state is proven to be as before.
        state_kept: bool,
        /// It made processes.
        forked: bool,
    },
    /// The shell refused a command.
    Refused,
    /// The user's EXIT trap is about to run.
    TrapRuns,
    /// A standby is there.
    StandbyForked,
    /// The standby could not be forked.
    ForkFailed,
    /// Forking may be tried again.
    ForkPauseOver,
    /// The session has been idle for a while.
    IdleForAWhile,
    /// The shell's process has ended. `unread`: it had not taken the last request.
    ShellDied {
        /// See above.
        unread: bool,
    },
    /// The standby has ended.
    StandbyDied,
    /// The standby is the shell.
    Promoted,
    /// No process of the command that is being killed is left.
    TreeGone {
        /// SIGKILL was needed.
        escalated: bool,
    },
    /// The supervisor has ended.
    SupervisorGone {
        /// The shell had not taken the last request.
        unread: bool,
        /// It was told to end and has left nothing.
        orderly: bool,
    },
    /// What a dead supervisor left has been saved and removed.
    Salvaged,
    /// The session is to be closed.
    Close,
}

/// Which process a background process is forked from.
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
    /// No shell can be started; the actor knows the reason.
    NoShell,
    /// The shell cannot be forked.
    NoFork,
    /// The standby died.
    StandbyDied,
    /// It was cancelled before it began.
    Cancelled,
}

/// The answer to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The shell runs, or the variables are set.
    Ready,
    /// The end of a command.
    Ended {
        /// How.
        end: End,
        /// The kill ladder, when there was one.
        kill: Option<Kill>,
        /// The shell was brought back before it, or is brought back after it.
        restarted: bool,
    },
    /// Nothing ran.
    Refused(Refusal),
}

/// What has to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Start a supervisor and a shell.
    StartSession,
    /// Start a shell under the present supervisor.
    StartShell,
    /// Give the shell what it needs to know. Answered by [`Event::SetUp`].
    SetUp,
    /// Make sure that the foreground group holds nothing of earlier commands. Answered by [`Event::Isolated`].
    Isolate,
    /// Fork a standby from the shell. Answered by [`Event::StandbyForked`] or [`Event::ForkFailed`].
    ForkStandby {
        /// A command follows at once, so no time is spent on warming up.
        command_follows: bool,
    },
    /// Fork a background process. The process table takes it from here.
    ForkProcess(Ticket, Source),
    /// Send a command. Answered by [`Event::Done`] or [`Event::Refused`].
    Run(Ticket),
    /// Send variables. Answered by [`Event::Done`] or [`Event::Refused`].
    SetEnv(Ticket),
    /// Make the standby the shell. Answered by [`Event::Promoted`].
    Promote,
    /// Start the kill ladder. Answered by [`Event::TreeGone`].
    Kill {
        /// Why.
        cause: Cause,
        /// Instead of the command's own signal.
        signal: Option<i32>,
    },
    /// The grace time of the ladder is over.
    Insist,
    /// Tell the ladder that the shell starts nothing more.
    Settled,
    /// Tell the ladder that the user's EXIT trap runs.
    TrapRuns,
    /// Kill the shell.
    KillShell,
    /// Save the standby's state, kill what is left. Answered by [`Event::Salvaged`].
    Salvage,
    /// Kill what is left of a session whose supervisor was killed. Answered by [`Event::Salvaged`].
    Sweep,
    /// Answer a call.
    Answer(Ticket, Answer),
    /// End the supervisor and everything below it. Answered by [`Event::SupervisorGone`].
    Shutdown,
    /// The session is closed.
    Closed,
}

impl State {
    /// A session that has not been used.
    pub fn new(survives_exit: bool) -> Self {
        Self {
            shell: Shell::Absent,
            standby: Standby { ready: false, forking: false, fresh: false, paused: false },
            isolation: Isolation::Isolated,
            queue: VecDeque::new(),
            starts: VecDeque::new(),
            attempts: 0,
            restarted: false,
            survives_exit,
        }
    }

    /// The command that runs.
    pub fn running(&self) -> Option<&Run> {
        match &self.shell {
            Shell::Running(run) => Some(run),
            _ => None,
        }
    }
}
