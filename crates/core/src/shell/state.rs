//! The states of a session's shell.
//!
//! [`super::transition`] maps a state and an event to the next state and a list of actions. It does no I/O and reads
//! no clock. The session's actor turns messages, end of file and timers into events, and carries out the actions in
//! order.

use std::collections::VecDeque;

/// Identifies a call from its submission to its answer. Unique in a session.
pub type Ticket = u64;

/// A queued request to the shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Start the shell.
    Open,
    /// A foreground command.
    Command,
    /// Variables to set permanently.
    SetEnv,
    /// A background process. It never waits for a command.
    Start,
}

/// The shell's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shell {
    /// No shell runs; the next call starts one.
    Absent,
    /// The supervisor is starting it; its handshake is pending.
    Starting,
    /// It is being set up: variables withheld at its start, the state of a checkpoint.
    SettingUp,
    /// It is waiting for work.
    Idle,
    /// A command is running.
    Running(Run),
    /// It is dead; the standby is becoming the shell.
    Promoting,
    /// The supervisor is dead: the last state is being saved, and the session's remaining processes killed.
    Salvaging,
    /// It has ended permanently (`surviveExit` off), with this code.
    Terminated(Option<i32>),
    /// The session is being closed.
    Closing,
    /// Everything has ended.
    Closed,
}

/// The running command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The call.
    pub ticket: Ticket,
    /// A command, or a change of variables.
    pub work: Work,
    /// Its end, if it has ended while something else is still awaited.
    pub end: Option<End>,
    /// The kill ladder, if the command is being killed.
    pub kill: Option<Kill>,
    /// Whether the shell died during the command; the standby takes over once the command is answered.
    pub shell_died: bool,
}

impl Run {
    /// True if nothing of it has run, or running it twice is harmless: the next shell may get it.
    pub fn can_repeat(&self, unread: bool) -> bool {
        self.end.is_none() && self.kill.is_none() && (unread || self.work == Work::SetEnv)
    }
}

/// The state of a kill ladder as the session sees it. The supervisor runs its steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kill {
    /// The cause.
    pub cause: Cause,
    /// Whether all processes of the command have exited.
    pub tree_gone: bool,
    /// Whether SIGKILL was needed.
    pub escalated: bool,
    /// Whether the shell itself had to be killed.
    pub shell_killed: bool,
}

/// Why a command is being killed. The first cause stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It reached its timeout.
    Timeout,
    /// The caller cancelled it.
    Cancel,
}

/// The end of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The shell reported its end.
    Done {
        /// `$?`.
        status: i32,
        /// Whether it would have ended an ordinary shell.
        exited: bool,
    },
    /// The shell refused it; nothing ran.
    Refused,
    /// The shell's process ended.
    Died,
    /// The supervisor died, and all its processes with it.
    SupervisorGone,
    /// The session was closed.
    Closed,
}

/// The standby: a fork of the shell that waits to replace it. While a command runs, background processes are forked
/// from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standby {
    /// Whether it is ready.
    pub ready: bool,
    /// Whether a new standby is being forked.
    pub forking: bool,
    /// Whether the newest standby, ready or being forked, has the state after the last finished command.
    pub fresh: bool,
    /// Whether forking is paused after a failure.
    pub paused: bool,
}

/// Whether the next command's processes can be distinguished from those of earlier commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// The foreground group contains nothing of an earlier command.
    Isolated,
    /// The last command forked, so that is unknown.
    Unknown,
    /// The group is being checked and isolated.
    Isolating,
}

/// All data that decisions depend on.
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
    /// Attempts to start a shell since the last working shell.
    pub attempts: u32,
    /// Whether the shell was replaced, and no result has reported that yet.
    pub restarted: bool,
    /// `exit` ends only the command.
    pub survives_exit: bool,
}

impl State {
    /// The state of an unused session.
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

    /// True if a command that arrives now can run immediately, without any preparation.
    pub fn is_ready(&self) -> bool {
        self.shell == Shell::Idle
            && self.isolation == Isolation::Isolated
            && (self.standby.fresh || self.standby.paused)
            && self.queue.is_empty()
            && self.starts.is_empty()
    }

    /// The running command.
    pub fn running(&self) -> Option<&Run> {
        match &self.shell {
            Shell::Running(run) => Some(run),
            _ => None,
        }
    }
}
