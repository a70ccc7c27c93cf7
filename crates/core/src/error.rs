//! The errors of all calls, as one table.

use crate::exec::Outcome;
use std::io;
use std::path::Path;

macro_rules! codes {
    ($($(#[$meaning:meta])* $name:ident = $text:literal,)*) => {
        /// The codes that JavaScript sees as `error.code`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Code {
            $($(#[$meaning])* $name,)*
        }

        impl Code {
            /// The value of `error.code`.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

codes! {
    /// A working directory does not exist, is not a directory or cannot be entered.
    CwdNotFound = "CWD_NOT_FOUND",
    /// A variable's name is invalid, or the variable is read-only in the session.
    InvalidEnvName = "INVALID_ENV_NAME",
    /// No session has this id.
    SessionNotFound = "SESSION_NOT_FOUND",
    /// A session with this id exists.
    SessionAlreadyExists = "SESSION_ALREADY_EXISTS",
    /// The session was deleted while the call was waiting or running.
    SessionDestroyed = "SESSION_DESTROYED",
    /// The session's shell has ended and `surviveExit` is off.
    SessionTerminated = "SESSION_TERMINATED",
    /// The shell or its supervisor cannot be started.
    SpawnFailed = "SPAWN_FAILED",
    /// The state directory cannot be created or written.
    StateDirUnavailable = "STATE_DIR_UNAVAILABLE",
    /// The session's shell cannot have a terminal.
    TerminalUnavailable = "TERMINAL_UNAVAILABLE",
    /// The command cannot become a process: it does not run, or its shell cannot be replaced.
    DetachFailed = "DETACH_FAILED",
    /// The session, or its sandbox, has used its budget up.
    BudgetExceeded = "BUDGET_EXCEEDED",
    /// No process has this id.
    ProcessNotFound = "PROCESS_NOT_FOUND",
    /// A process with this id exists.
    ProcessAlreadyExists = "PROCESS_ALREADY_EXISTS",
    /// The process has ended, or its input is closed.
    InputClosed = "INPUT_CLOSED",
    /// The process has ended, or its channel of messages is closed.
    ChannelClosed = "CHANNEL_CLOSED",
    /// Too many messages wait until the process reads them.
    ChannelFull = "CHANNEL_FULL",
    /// The value of an option that only the engine can check is invalid. The message begins with the option's name.
    InvalidOption = "INVALID_OPTION",
    /// A limit cannot be enforced on this system.
    LimitUnsupported = "LIMIT_UNSUPPORTED",
    /// A rule of the isolation cannot be enforced on this system.
    IsolationUnsupported = "ISOLATION_UNSUPPORTED",
    /// A copy-on-write workspace is not possible on this system, or over this directory.
    WorkspaceUnsupported = "WORKSPACE_UNSUPPORTED",
    /// The call needs a copy-on-write workspace.
    WorkspaceNotEnabled = "WORKSPACE_NOT_ENABLED",
    /// Another sandbox has opened the named workspace, or its programs are still running.
    WorkspaceInUse = "WORKSPACE_IN_USE",
    /// The layers of a named workspace are missing, damaged, or of another directory.
    WorkspaceLost = "WORKSPACE_LOST",
    /// Other programs have changed paths of the real directory that a commit would overwrite.
    WorkspaceConflict = "WORKSPACE_CONFLICT",
    /// Programs are using the workspace, and cannot be paused.
    WorkspaceBusy = "WORKSPACE_BUSY",
    /// The archive of a sandbox is damaged, foreign, too new, too large or not safe.
    ArchiveRejected = "ARCHIVE_REJECTED",
    /// There is no such checkpoint: it was deleted, or is from before a commit.
    CheckpointNotFound = "CHECKPOINT_NOT_FOUND",
    /// A rollback has ended the call.
    RolledBack = "ROLLED_BACK",
    /// No program of the session takes connections on the port.
    PortClosed = "PORT_CLOSED",
    /// No job has this id.
    JobNotFound = "JOB_NOT_FOUND",
    /// A job with this id exists.
    JobAlreadyExists = "JOB_ALREADY_EXISTS",
    /// The job is still running, so it cannot be removed; or another package started it, so it cannot be cancelled.
    JobRunning = "JOB_RUNNING",
    /// There is no such file.
    FileNotFound = "FILE_NOT_FOUND",
    /// The target path already exists.
    FileExists = "FILE_EXISTS",
    /// A part of a path that must be a directory is not one.
    NotADirectory = "NOT_A_DIRECTORY",
    /// The path names a directory, and the call needs a file or `recursive`.
    IsADirectory = "IS_A_DIRECTORY",
    /// The system denies the access.
    PermissionDenied = "PERMISSION_DENIED",
    /// The file or the list is longer than the limit.
    FileTooLarge = "FILE_TOO_LARGE",
    /// The file system or the quota is full.
    NoSpace = "NO_SPACE",
    /// The path is invalid, or leads to a file of the wrong kind.
    InvalidPath = "INVALID_PATH",
    /// The sandbox has been destroyed.
    SandboxDestroyed = "SANDBOX_DESTROYED",
    /// Another sandbox of this name is open.
    SandboxInUse = "SANDBOX_IN_USE",
    /// What a sandbox has kept is damaged, or of another version.
    SandboxLost = "SANDBOX_LOST",
    /// The engine itself failed; the message says where.
    EngineError = "ENGINE_ERROR",
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
