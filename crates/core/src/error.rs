//! The errors of all calls, as one table.

use crate::exec::Outcome;
use std::io;
use std::path::Path;

/// The codes that JavaScript sees as `error.code`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// A working directory does not exist, is not a directory or cannot be entered.
    CwdNotFound,
    /// A variable's name is invalid, or the variable is read-only in the session.
    InvalidEnvName,
    /// No session has this id.
    SessionNotFound,
    /// A session with this id exists.
    SessionAlreadyExists,
    /// The session was deleted while the call was waiting or running.
    SessionDestroyed,
    /// The session's shell has ended and `surviveExit` is off.
    SessionTerminated,
    /// The shell or its supervisor cannot be started.
    SpawnFailed,
    /// The state directory cannot be created or written.
    StateDirUnavailable,
    /// The session's shell cannot have a terminal.
    TerminalUnavailable,
    /// The command cannot become a process: it does not run, or its shell cannot be replaced.
    DetachFailed,
    /// The session, or its sandbox, has used its budget up.
    BudgetExceeded,
    /// No process has this id.
    ProcessNotFound,
    /// A process with this id exists.
    ProcessAlreadyExists,
    /// The process has ended, or its input is closed.
    InputClosed,
    /// The process has ended, or its channel of messages is closed.
    ChannelClosed,
    /// Too many messages wait until the process reads them.
    ChannelFull,
    /// The value of an option that only the engine can check is invalid. The message begins with the option's name.
    InvalidOption,
    /// A limit cannot be enforced on this system.
    LimitUnsupported,
    /// A rule of the isolation cannot be enforced on this system.
    IsolationUnsupported,
    /// A copy-on-write workspace is not possible on this system, or over this directory.
    WorkspaceUnsupported,
    /// The call needs a copy-on-write workspace.
    WorkspaceNotEnabled,
    /// Another sandbox has opened the named workspace, or its programs are still running.
    WorkspaceInUse,
    /// The layers of a named workspace are missing, damaged, or of another directory.
    WorkspaceLost,
    /// Other programs have changed paths of the real directory that a commit would overwrite.
    WorkspaceConflict,
    /// Programs are using the workspace, and cannot be paused.
    WorkspaceBusy,
    /// The archive of a sandbox is damaged, foreign, too new, too large or not safe.
    ArchiveRejected,
    /// There is no such checkpoint: it was deleted, or is from before a commit.
    CheckpointNotFound,
    /// A rollback has ended the call.
    RolledBack,
    /// No program of the session takes connections on the port.
    PortClosed,
    /// No job has this id.
    JobNotFound,
    /// A job with this id exists.
    JobAlreadyExists,
    /// The job is still running, so it cannot be removed; or another package started it, so it cannot be cancelled.
    JobRunning,
    /// There is no such file.
    FileNotFound,
    /// The target path already exists.
    FileExists,
    /// A part of a path that must be a directory is not one.
    NotADirectory,
    /// The path names a directory, and the call needs a file or `recursive`.
    IsADirectory,
    /// The system denies the access.
    PermissionDenied,
    /// The file or the list is longer than the limit.
    FileTooLarge,
    /// The file system or the quota is full.
    NoSpace,
    /// The path is invalid, or leads to a file of the wrong kind.
    InvalidPath,
    /// The sandbox has been destroyed.
    SandboxDestroyed,
    /// Another sandbox of this name is open.
    SandboxInUse,
    /// What a sandbox has kept is damaged, or of another version.
    SandboxLost,
    /// The engine itself failed; the message says where.
    EngineError,
}

impl Code {
    /// The value of `error.code`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BudgetExceeded => "BUDGET_EXCEEDED",
            Self::CwdNotFound => "CWD_NOT_FOUND",
            Self::InvalidEnvName => "INVALID_ENV_NAME",
            Self::SessionNotFound => "SESSION_NOT_FOUND",
            Self::SessionAlreadyExists => "SESSION_ALREADY_EXISTS",
            Self::SessionDestroyed => "SESSION_DESTROYED",
            Self::SessionTerminated => "SESSION_TERMINATED",
            Self::SpawnFailed => "SPAWN_FAILED",
            Self::StateDirUnavailable => "STATE_DIR_UNAVAILABLE",
            Self::TerminalUnavailable => "TERMINAL_UNAVAILABLE",
            Self::DetachFailed => "DETACH_FAILED",
            Self::ProcessNotFound => "PROCESS_NOT_FOUND",
            Self::ProcessAlreadyExists => "PROCESS_ALREADY_EXISTS",
            Self::InputClosed => "INPUT_CLOSED",
            Self::ChannelClosed => "CHANNEL_CLOSED",
            Self::ChannelFull => "CHANNEL_FULL",
            Self::InvalidOption => "INVALID_OPTION",
            Self::LimitUnsupported => "LIMIT_UNSUPPORTED",
            Self::IsolationUnsupported => "ISOLATION_UNSUPPORTED",
            Self::WorkspaceUnsupported => "WORKSPACE_UNSUPPORTED",
            Self::WorkspaceNotEnabled => "WORKSPACE_NOT_ENABLED",
            Self::WorkspaceInUse => "WORKSPACE_IN_USE",
            Self::WorkspaceLost => "WORKSPACE_LOST",
            Self::WorkspaceConflict => "WORKSPACE_CONFLICT",
            Self::CheckpointNotFound => "CHECKPOINT_NOT_FOUND",
            Self::RolledBack => "ROLLED_BACK",
            Self::ArchiveRejected => "ARCHIVE_REJECTED",
            Self::WorkspaceBusy => "WORKSPACE_BUSY",
            Self::PortClosed => "PORT_CLOSED",
            Self::JobNotFound => "JOB_NOT_FOUND",
            Self::JobAlreadyExists => "JOB_ALREADY_EXISTS",
            Self::JobRunning => "JOB_RUNNING",
            Self::FileNotFound => "FILE_NOT_FOUND",
            Self::FileExists => "FILE_EXISTS",
            Self::NotADirectory => "NOT_A_DIRECTORY",
            Self::IsADirectory => "IS_A_DIRECTORY",
            Self::PermissionDenied => "PERMISSION_DENIED",
            Self::FileTooLarge => "FILE_TOO_LARGE",
            Self::NoSpace => "NO_SPACE",
            Self::InvalidPath => "INVALID_PATH",
            Self::SandboxDestroyed => "SANDBOX_DESTROYED",
            Self::SandboxInUse => "SANDBOX_IN_USE",
            Self::SandboxLost => "SANDBOX_LOST",
            Self::EngineError => "ENGINE_ERROR",
        }
    }
}

/// A failed call: a code, one sentence with the failure and its reason, and the result so far, if any.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// The kind of failure.
    pub code: Code,
    /// One sentence.
    pub message: String,
    /// The result so far, if a command ran.
    pub outcome: Option<Box<Outcome>>,
    /// The file that the error concerns.
    pub path: Option<String>,
    /// The paths in conflict, relative to the workspace.
    pub paths: Vec<Vec<u8>>,
}

impl Error {
    /// Creates an error without a result.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), outcome: None, path: None, paths: Vec::new() }
    }

    /// The error for a call of a destroyed sandbox.
    pub fn sandbox_destroyed() -> Self {
        Self::new(Code::SandboxDestroyed, "the sandbox has been destroyed; create another one")
    }

    /// The error for an unknown session id.
    pub fn session_not_found(id: &str) -> Self {
        Self::new(Code::SessionNotFound, format!("there is no session '{id}'; list the sessions to see their ids"))
    }

    /// The error for a port that no program of a session serves.
    pub fn port_closed(port: u16) -> Self {
        Self::new(
            Code::PortClosed,
            format!("no program of the session listens on port {port}; start one, and wait until it listens"),
        )
    }

    /// The error for a start that cannot do what it needs.
    pub fn cannot(doing: &str, error: &io::Error) -> Self {
        Self::new(Code::SpawnFailed, format!("cannot {doing}: {error}"))
    }

    /// The error for a call that the engine dropped.
    pub fn engine_failed() -> Self {
        let message =
            "the engine failed in the middle of the call; please report this, with the log of NACRE_LOG=debug";
        Self::new(Code::EngineError, message)
    }

    /// The error for a command that cannot become a process.
    pub fn not_detached(why: &str) -> Self {
        Self::new(Code::DetachFailed, format!("the command cannot be detached: {why}"))
    }

    /// The error for a session that was deleted during the call.
    pub fn session_destroyed(id: &str) -> Self {
        Self::new(Code::SessionDestroyed, format!("session '{id}' was deleted"))
    }

    /// The error for a rollback during the call.
    pub fn rolled_back() -> Self {
        Self::new(Code::RolledBack, "the sandbox was rolled back during the call")
    }

    /// The error for a directory in which nothing can run. The directory is not looked at: that can block.
    pub fn cwd(directory: &Path, errno: i32) -> Self {
        let reason = match errno {
            0 => "does not exist, or cannot be entered".to_string(),
            libc::ENOENT => "does not exist".to_string(),
            libc::ENOTDIR => "is not a directory".to_string(),
            _ => format!("cannot be entered: {}", io::Error::from_raw_os_error(errno)),
        };
        let remedy = match directory.iter().any(|name| name == "~") {
            true => "; `~` is not expanded here: give the path of the home directory",
            false if errno == libc::ENOTDIR => "; give the path of a directory",
            false => "; create it, or choose another directory",
        };
        Self::new(Code::CwdNotFound, format!("the working directory '{}' {reason}{remedy}", directory.display()))
    }
}
