//! The states of a session's shell.
//!
//! [`super::transition`] maps a state and an event to the next state and a list of actions, without I/O or a clock. The
//! session's actor turns messages, ends of file and timers into events, and performs the actions in order.

use std::collections::VecDeque;

/// Identifies a call from its submission to its result. Unique in a session.
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
    /// A time in which nothing begins, until [`super::event::Event::Released`].
    Hold,
}

/// The shell's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shell {
    /// No shell runs; the next call starts one.
    Absent,
    /// The supervisor is starting it; its handshake is pending.
    Starting,
    /// It is being set up: with variables withheld from its start, and the state of a checkpoint.
    SettingUp,
    /// It is waiting for work.
    Idle,
    /// A command is running.
    Running(Run),
    /// It is dead; the standby is becoming the shell.
    Promoting,
    /// The supervisor is dead. The last state is being saved, and the remaining processes of the session are being
    /// killed. Then the command that it took down is answered.
    Salvaging(Option<Run>),
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
    /// Its end, if it has ended while something else is still pending.
    pub end: Option<End>,
    /// Whether the standby that was forked before it still has the state of the shell. Matters once it is answered: until
    /// then, processes start from the state before it.
    pub state_kept: bool,
    /// The kill ladder, if the command is being killed.
    pub kill: Option<Kill>,
    /// The shell died during the command. The standby takes over when the command has been answered.
    pub shell_died: bool,
}

impl Run {
    /// True if nothing of it has run, or it is safe to repeat, so that the next shell may run it.
    pub fn can_repeat(&self, unread: bool) -> bool {
        self.end.is_none() && self.kill.is_none() && (unread || self.work == Work::SetEnv)
    }
}

/// The session's view of a kill ladder. The supervisor performs the steps.
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

/// Why a command is killed. The first cause counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It reached its timeout.
    Timeout,
    /// The caller cancelled it.
    Cancel,
    /// It printed more than its limit.
    OutputLimit,
}

/// The end of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The shell reported its end.
    Done {
        /// `$?`.
        status: i32,
        /// The command would have ended an ordinary shell.
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

/// The standby: an idle fork of the shell, which can replace it. While a command runs, background processes are forked
/// from the standby.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standby {
    /// Whether it is ready.
    pub ready: bool,
    /// Whether a new standby is being forked.
    pub forking: bool,
    /// The newest standby, ready or being forked, has the state after the last finished command.
    pub fresh: bool,
    /// Forking failed recently and is not tried.
    pub paused: bool,
}

/// Whether the next command's processes can be distinguished from those of earlier commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForegroundIsolation {
    /// The foreground group has no processes of earlier commands.
    Isolated,
    /// The last command forked, so that is unknown.
    Unknown,
    /// It is being checked, and isolated if necessary.
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
    pub isolation: ForegroundIsolation,
    /// Calls that wait for the shell, in order.
    pub queue: VecDeque<(Ticket, Work)>,
    /// Background processes that wait for a fork.
    pub starts: VecDeque<Ticket>,
    /// The hold that is in effect: no queued call and no process begins.
    pub held: Option<Ticket>,
    /// Attempts to start a shell since the last working shell.
    pub attempts: u32,
    /// The shell was replaced, and no result has reported that yet.
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
            isolation: ForegroundIsolation::Isolated,
            queue: VecDeque::new(),
            starts: VecDeque::new(),
            held: None,
            attempts: 0,
            restarted: false,
            survives_exit,
        }
    }

    /// True if a command that arrives now can run immediately, without any preparation.
    pub fn is_ready(&self) -> bool {
        self.shell == Shell::Idle
            && self.isolation == ForegroundIsolation::Isolated
            && (self.standby.fresh || self.standby.paused)
            && self.queue.is_empty()
            && self.starts.is_empty()
            && self.held.is_none()
    }

    /// True if the command runs, and the standby has the state before it.
    pub fn can_detach(&self, ticket: Ticket) -> bool {
        let runs = |run: &Run| run.work == Work::Command && run.kill.is_none() && !run.shell_died;
        let Standby { ready, forking, fresh, .. } = self.standby;
        self.awaits_end_of(ticket) && self.running().is_some_and(runs) && ready && fresh && !forking
    }

    /// True if nothing runs or waits, and the session is not held.
    pub fn is_idle(&self) -> bool {
        matches!(self.shell, Shell::Idle | Shell::Absent | Shell::Terminated(_))
            && self.queue.is_empty()
            && self.starts.is_empty()
            && self.held.is_none()
    }

    /// True if a standby is to be forked when the session stays idle.
    pub fn lacks_standby(&self) -> bool {
        self.shell == Shell::Idle && !self.standby.fresh && !self.standby.paused && self.held.is_none()
    }

    /// Whether the call runs and has not ended.
    pub fn awaits_end_of(&self, ticket: Ticket) -> bool {
        self.running().is_some_and(|run| run.ticket == ticket && run.end.is_none())
    }

    /// Whether the command is being killed.
    pub fn kills(&self, ticket: Ticket) -> bool {
        self.running().is_some_and(|run| run.ticket == ticket && run.kill.is_some())
    }

    /// Whether the session is being closed, or has ended.
    pub fn is_ending(&self) -> bool {
        matches!(self.shell, Shell::Closing | Shell::Closed | Shell::Terminated(_))
    }

    /// The running command.
    pub fn running(&self) -> Option<&Run> {
        match &self.shell {
            Shell::Running(run) => Some(run),
            _ => None,
        }
    }
}
