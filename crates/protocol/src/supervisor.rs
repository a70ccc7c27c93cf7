//! Orders from the host to a supervisor, and the supervisor's reports.
//!
//! They are rare: an ordinary command needs none. Descriptors travel with their order.

use crate::standing::{ResourceLimits, RunAs};
use nacre_containment::limits::{EnableError, Limits};
use nacre_containment::pid::{Identity, Pid};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io;

/// Maximum processes that a kill of the foreground command spares.
pub const MAX_SPARED: usize = 4096;

/// The name of every process that the supervisor's program becomes, instead of its path.
///
/// `pkill -f my-project` kills what has this text in its arguments, and the program is often below the project's
/// directory. So no argument of such a process has a path, a user or anything else of the caller's.
pub const PROGRAM_NAME: &str = "nacre-supervisor";

/// What a session's supervisor needs from its start: the first message on its socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setup {
    /// The process whose death ends everything. It may be PID 1 of its namespace: it is watched, never signalled.
    pub host: i32,
    /// The directory where the shell starts.
    pub cwd: OsString,
    /// Absolute path of bash.
    pub shell: OsString,
    /// The directory of the session's control group, which the supervisor creates.
    pub group: Option<OsString>,
    /// The user that everything runs as.
    pub user: Option<RunAs>,
    /// Resource limits of everything that is started.
    pub limits: ResourceLimits,
    /// The mark of everything that is started ([`nacre_containment::session_mark`]).
    pub mark: Option<u64>,
    /// The commands that are functions of the host.
    pub commands: Option<HostCommands>,
    /// The id under which the session is on the disk, if it is. The locked directory travels with the message, and a file with
    /// [`SessionFile::made`](crate::kept::SessionFile::made).
    pub kept_as: Option<String>,
}

/// Commands that are functions of the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostCommands {
    /// The directory in the PATH of sessions that has them.
    pub directory: OsString,
    /// Their names.
    pub names: Vec<String>,
}

/// The foreground group at the moment of a report, and the shell in it.
///
/// The race: the shell dies, and the host orders its standby to be promoted. Reports that the supervisor sent before it
/// read the order name the group of the dead shell, and arrive after it. The host takes a group only from a report that
/// names its present shell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForegroundGroup {
    /// The shell, unless it is dead.
    pub shell: Option<Pid>,
    /// The directory of the group, if groups are used.
    pub directory: Option<String>,
}

/// The role of a started program in the session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    /// The session's shell. It starts in the foreground group.
    Shell,
    /// The bash of one command, in plain mode: the shell while the command runs.
    Command,
    /// A background process in its own group.
    Process {
        /// Identifies the process from now on.
        key: u64,
        /// The value of [`nacre_containment::tree::MARK`] in its environment.
        mark: String,
        /// Its limits.
        limits: Limits,
        /// Descriptors 0 to 2 are a terminal, which becomes its controlling terminal.
        terminal: bool,
    },
}

/// Whether a process was asked to end while it was running.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Asked {
    /// It was not.
    No,
    /// It ran no foreground program then, so an exit code of 0 is not a program's.
    Alone,
    /// It ran a foreground program then, whose exit code a shell returns.
    WithProgram,
}

/// Maximum programs that [`Report::Frozen`] and [`Report::NotFrozen`] name.
pub const MAX_PROGRAMS: usize = 8;

/// Maximum bytes of a program's command line in a report.
pub const MAX_COMMAND_BYTES: usize = 100;

/// A running program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Its process.
    pub pid: Pid,
    /// The beginning of its command line.
    pub command: String,
}

/// An order from the host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Order {
    /// Confine every program from now on. A file with the confinement travels with the order, then the mount of its
    /// workspace if it has one, then the socket for refused connections if there is one. Answered by
    /// [`Report::Confined`] or [`Report::NotConfined`]; after the latter, no program can start.
    Confine {
        /// A secret of the host and the shells: forks with this key may be born in a control group.
        fork_key: u64,
        /// The abstract address where a shell reopens a lost channel.
        channel_name: String,
        /// Whether the mount of a workspace travels with the order.
        has_workspace: bool,
    },
    /// Run the session's bash. Answered by [`Report::Started`] or [`Report::StartFailed`].
    Start {
        /// The role of the program.
        role: Role,
        /// Arguments after argv\[0\].
        arguments: Vec<String>,
        /// The number of the first descriptor that travels with the order; lower numbers are `/dev/null`.
        first_descriptor: i32,
        /// Start in `/` if the session's initial directory cannot be entered: it may have been removed meanwhile.
        anywhere: bool,
    },
    /// Start a files helper with the socket that travels with the order. Not answered: the socket shows a failure.
    Files,
    /// The shell has the state of the session. Only for one that is on the disk: the host's end of the shell's channel travels
    /// with the order, so that the supervisor can ask for the state when the host has ended.
    Ready,
    /// The session has this state now, in plain mode, whose shells do not keep it. Only for one that is on the disk: a file with
    /// what the host [has encoded](crate::kept::FileState::Encoded) travels with the order.
    Saved {
        /// The [number](crate::kept::SessionFile::number) of the state.
        number: u64,
    },
    /// The shell is about to fork a standby, whose [`Order::Standby`] follows unless the fork fails. Only for a session that is on
    /// the disk: the host's end of the standby's channel travels with the order, as with [`Order::Ready`].
    Fork {
        /// The [number](crate::kept::SessionFile::number) of its state.
        number: u64,
    },
    /// Make this fork of the shell the standby; the previous standby is killed.
    Standby {
        /// The new standby, a child of the supervisor.
        pid: Pid,
        /// The control group that it was born in.
        group: Option<String>,
    },
    /// The shell is dead: make the standby the shell, and its group the foreground group. Answered by
    /// [`Report::Promoted`].
    Promote,
    /// Make this fork of the shell or standby a background process. Answered by [`Report::Adopted`].
    Adopt {
        /// Identifies the process from now on.
        key: u64,
        /// The process, a child of the supervisor.
        pid: Pid,
        /// The control group that it was born in. Without one, it is moved to a new group if groups are used.
        group: Option<String>,
        /// The value of [`nacre_containment::tree::MARK`] in its environment.
        mark: String,
        /// Its limits.
        limits: Limits,
    },
    /// Make the shell, with the command that it runs, a background process with the foreground group, and make the standby
    /// the shell. Answered by [`Report::Detached`].
    Detach {
        /// Identifies the process from now on.
        key: u64,
        /// The value of [`nacre_containment::tree::MARK`], which no program of the process carries.
        mark: String,
        /// The number of the command in the shell's protocol, which the interrupt of a kill carries. `None` in plain mode.
        command: Option<u64>,
        /// Roots of older process trees, which are not part of it: at most [`MAX_SPARED`]. Only used without control groups.
        spare: Vec<Pid>,
    },
    /// Kill everything that the running foreground command has started: interrupt the shell, then send `signal` and
    /// SIGCONT to the command's processes, and SIGKILL after `grace_ms`. Answered by [`Report::Killed`].
    KillForeground {
        /// Echoed in the answer.
        id: u64,
        /// The number of the command in the shell's protocol, which the interrupt carries. `None` in plain mode.
        command: Option<u64>,
        /// First signal.
        signal: i32,
        /// Milliseconds until SIGKILL.
        grace_ms: u64,
        /// Roots of older process trees, which are spared: at most [`MAX_SPARED`]. Only used without control groups.
        spare: Vec<Pid>,
    },
    /// Whether forks of the shell or the standby may appear while a command is being killed. They are spared until
    /// [`Order::Standby`] or [`Order::Adopt`] names them: without a group of their own, they look like forks of the
    /// command.
    ExpectForks {
        /// From now on, until the next of these orders.
        expected: bool,
    },
    /// The user's EXIT trap is about to run in the shell: what the trap starts gets the grace time.
    TrapRuns,
    /// The shell has ended its command, or died: it starts nothing more for the command. The ladder cannot finish
    /// before.
    Settled,
    /// End the grace time of the running ladder.
    Insist,
    /// Send SIGKILL to the shell. Answered by [`Report::ShellEnded`].
    KillShell,
    /// Send SIGCONT to the shell and its standby.
    Continue,
    /// Leave earlier commands' processes in the current foreground group and move the shell to a new one. Answered by
    /// [`Report::Rotated`].
    Rotate,
    /// Kill a background process with its tree. Answered by [`Report::ProcessKilled`].
    KillProcess {
        /// Echoed in the answer.
        id: u64,
        /// The key of the process.
        key: u64,
        /// First signal.
        signal: i32,
        /// Milliseconds until SIGKILL.
        grace_ms: u64,
    },
    /// Send a signal to the process group of a background process. Not answered; no effect after its end.
    SignalProcess {
        /// The key of the process.
        key: u64,
        /// The signal.
        signal: i32,
    },
    /// Freeze every program of the session, except the shell, its standby and nacre's own processes. Everything that the
    /// host has asked to be forked is known before. Answered by [`Report::Frozen`] or [`Report::NotFrozen`].
    ///
    /// A frozen process gets its signals when it is thawed, except SIGKILL. [`Order::KillProcess`] thaws the process
    /// that it kills. [`Order::Shutdown`] thaws everything, so that programs can use their grace time.
    Freeze {
        /// Echoed in the answer.
        id: u64,
        /// Only if no program runs: otherwise none is frozen, and the answer comes at once.
        if_idle: bool,
    },
    /// Let the frozen programs go on. Not answered.
    Thaw,
    /// Change the session over to another mount of its workspace, while no program lives in it. The mount travels with the
    /// order, then a socket to each shell that has got [`Reenter`](crate::shell::RequestKind::Reenter). Answered by
    /// [`Report::Remounted`] or [`Report::NotRemounted`]. If the old mount is lost without a new one, the supervisor exits.
    Remount,
    /// Cover what programs of the machine have replaced before anything else begins. Answered by [`Report::Masked`]. If that
    /// fails, the supervisor exits.
    Mask,
    /// SIGTERM to everything, SIGKILL after `grace_ms`, remove the control groups, exit. Answered by [`Report::Ended`].
    Shutdown {
        /// Milliseconds until SIGKILL.
        grace_ms: u64,
    },
}

/// A report from the supervisor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Report {
    /// Answer to [`Order::Confine`]. Sockets of the network namespace travel with the report: one for diagnosis, the listener
    /// of a proxy, and that of its resolver, as far as there are any.
    Confined {
        /// The init of the pid namespace, if there is one.
        init: Option<Pid>,
    },
    /// Answer to [`Order::Confine`]: nothing will run.
    NotConfined {
        /// The problem: one clause.
        problem: String,
    },
    /// A confined shell reopens its channel: the host's end travels with the report, since nothing can connect to the
    /// host from inside a confinement.
    Reconnected {
        /// The process, which need not be a shell.
        pid: Pid,
    },
    /// A program of the session calls a command of the host: its connection travels with the report.
    Called,
    /// A program is running.
    Started {
        /// Its identity.
        identity: Identity,
        /// The key of a background process.
        key: Option<u64>,
        /// The directory of its control group, if groups are used.
        group: Option<String>,
    },
    /// A program could not be started.
    StartFailed {
        /// The key of a background process.
        key: Option<u64>,
        /// The step that failed.
        step: StartStep,
        /// The system's reason.
        errno: i32,
        /// Details that errno lacks.
        detail: String,
    },
    /// The shell's process has ended and was reaped.
    ShellEnded {
        /// The pid of the process.
        pid: Pid,
        /// Exit code, if it exited.
        code: Option<i32>,
        /// Signal number, if it was killed.
        signal: Option<i32>,
    },
    /// The standby has ended.
    StandbyEnded {
        /// The pid of the process.
        pid: Pid,
    },
    /// Answer to [`Order::Promote`].
    Promoted {
        /// That of the new shell; without a shell if the standby is dead too.
        foreground: ForegroundGroup,
    },
    /// Answer to [`Order::Rotate`].
    Rotated {
        /// The new foreground group.
        foreground: ForegroundGroup,
    },
    /// Answer to [`Order::Adopt`]: from now on the end of the process is reported.
    Adopted {
        /// The key from the order.
        key: u64,
        /// Its identity; `None` if it has already ended.
        identity: Option<Identity>,
        /// The directory of its control group, if groups are used.
        group: Option<String>,
        /// Why its limits could not be set.
        problem: Option<LimitProblem>,
    },
    /// Answer to [`Order::Detach`]: from now on the end of the process is reported.
    Detached {
        /// The key from the order.
        key: u64,
        /// Its identity; `None` if the shell has already ended, which was reported.
        identity: Option<Identity>,
        /// The directory of its control group, if groups are used.
        group: Option<String>,
        /// That of the new shell; without a shell if there is no standby.
        foreground: ForegroundGroup,
    },
    /// A background process has ended and was reaped. Descendants may survive.
    ProcessEnded {
        /// The key of the process.
        key: u64,
        /// Exit code, if it exited.
        code: Option<i32>,
        /// Signal number, if it was killed.
        signal: Option<i32>,
        /// Whether it reached its memory limit.
        out_of_memory: bool,
        /// Whether it had been asked to end.
        asked: Asked,
    },
    /// Answer to [`Order::KillProcess`]: all processes of the tree have exited.
    ProcessKilled {
        /// The id from the order.
        id: u64,
        /// Whether there was a process to kill.
        found: bool,
        /// Whether SIGKILL was needed.
        escalated: bool,
    },
    /// Answer to [`Order::KillForeground`]: all processes of the command have exited, except the shell.
    Killed {
        /// The id from the order.
        id: u64,
        /// Whether SIGKILL was needed.
        escalated: bool,
        /// The foreground group. SIGKILL moves the shell to a new one.
        foreground: ForegroundGroup,
    },
    /// Answer to [`Order::Freeze`]: no program of the session runs, until [`Order::Thaw`].
    Frozen {
        /// The id from the order.
        id: u64,
        /// Some of the programs, at most [`MAX_PROGRAMS`].
        programs: Vec<Program>,
        /// How many there are.
        count: u64,
        /// The foreground group: the shell has left what is frozen.
        foreground: ForegroundGroup,
    },
    /// Answer to [`Order::Freeze`]: some programs cannot be frozen, so none is.
    NotFrozen {
        /// The id from the order.
        id: u64,
        /// The foreground group.
        foreground: ForegroundGroup,
        /// Some of the programs, at most [`MAX_PROGRAMS`].
        programs: Vec<Program>,
        /// How many there are; 0 if they cannot be looked up.
        count: u64,
    },
    /// Answer to [`Order::Remount`].
    Remounted,
    /// Answer to [`Order::Remount`]: the session still has its old mount.
    NotRemounted {
        /// The problem: one clause.
        problem: String,
    },
    /// Answer to [`Order::Mask`].
    Masked,
    /// Everything has ended, and the supervisor exits. Nothing follows.
    Ended,
    /// Where the system has no child subreapers, everything is born in a pid namespace from now on.
    Orphans {
        /// Its init, which adopts orphans in the supervisor's place.
        init: Pid,
    },
}

/// Which step of starting a program failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StartStep {
    /// Pipes, fork, descriptors.
    Prepare,
    /// The control group.
    Group,
    /// A resource limit or the limits of the control group.
    Limits,
    /// The change of user.
    User,
    /// The working directory.
    Cwd,
    /// Confining the program.
    Isolation,
    /// The program itself.
    Exec,
}

/// Why limits could not be set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum LimitProblem {
    /// The process shares its control group.
    #[error("it has no control group of its own")]
    NoGroup,
    /// A controller is missing or cannot be enabled.
    #[error(transparent)]
    Controller(#[from] EnableError),
    /// The kernel refused to limit the control group.
    #[error("its control group does not take them: {}", io::Error::from_raw_os_error(*errno))]
    Refused {
        /// The system's reason.
        errno: i32,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message;

    #[test]
    fn a_limit_problem_keeps_its_cause_and_sentence() {
        let (controller, parent) = (String::from("memory"), "/g".into());
        let busy = EnableError::Refused { controller, parent, errno: libc::EBUSY };
        let sentence = "the controller 'memory' cannot be handed down from /g: Device or resource busy (os error 16) (the \
                        group has processes of its own)";
        let refused = LimitProblem::Refused { errno: libc::EINVAL };
        for (problem, sentence) in [
            (LimitProblem::NoGroup, "it has no control group of its own"),
            (LimitProblem::Controller(busy), sentence),
            (refused, "its control group does not take them: Invalid argument (os error 22)"),
        ] {
            assert_eq!(problem.to_string(), sentence);
            let bytes = message::encode(&problem).unwrap();
            assert_eq!(message::decode::<LimitProblem>(&bytes).unwrap(), problem);
        }
    }
}
