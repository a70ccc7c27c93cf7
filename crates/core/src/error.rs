//! Every way a call can fail, in one table.

use crate::exec::Outcome;

/// The codes that JavaScript sees as `error.code`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// A working directory does not exist, is no directory or can not be entered.
    CwdNotFound,
    /// A variable's name is not one, or the variable is read-only in the session.
    InvalidEnvName,
    /// No session has this id.
    SessionNotFound,
    /// A session with this id exists.
    SessionAlreadyExists,
    /// The session was deleted while the call was waiting or running.
    SessionDestroyed,
    /// The session's shell has ended and `surviveExit` is off.
    SessionTerminated,
    /// The shell or its supervisor can not be started.
    SpawnFailed,
    /// The state directory can not be made or written.
    StateDirUnavailable,
    /// No process has this id.
    ProcessNotFound,
    /// A process with this id exists.
    ProcessAlreadyExists,
    /// The process has ended, or reads its input no more.
    InputClosed,
    /// A limit can not be enforced on this system.
    LimitUnsupported,
    /// No job has this id.
    JobNotFound,
    /// A job with this id exists.
    JobAlreadyExists,
    /// The job still runs.
    JobRunning,
    /// The sandbox has been destroyed.
    SandboxDestroyed,
    /// The engine itself failed; the message says where.
    EngineError,
}

impl Code {
    /// As in `error.code`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CwdNotFound => "CWD_NOT_FOUND",
            Self::InvalidEnvName => "INVALID_ENV_NAME",
            Self::SessionNotFound => "SESSION_NOT_FOUND",
            Self::SessionAlreadyExists => "SESSION_ALREADY_EXISTS",
            Self::SessionDestroyed => "SESSION_DESTROYED",
            Self::SessionTerminated => "SESSION_TERMINATED",
            Self::SpawnFailed => "SPAWN_FAILED",
            Self::StateDirUnavailable => "STATE_DIR_UNAVAILABLE",
            Self::ProcessNotFound => "PROCESS_NOT_FOUND",
            Self::ProcessAlreadyExists => "PROCESS_ALREADY_EXISTS",
            Self::InputClosed => "INPUT_CLOSED",
            Self::LimitUnsupported => "LIMIT_UNSUPPORTED",
            Self::JobNotFound => "JOB_NOT_FOUND",
            Self::JobAlreadyExists => "JOB_ALREADY_EXISTS",
            Self::JobRunning => "JOB_RUNNING",
            Self::SandboxDestroyed => "SANDBOX_DESTROYED",
            Self::EngineError => "ENGINE_ERROR",
        }
    }
}

/// A failed call: a code, one sentence that says what and why, and the run so far when there was one.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// Which kind.
    pub code: Code,
    /// One sentence.
    pub message: String,
    /// What the command had given until then.
    pub outcome: Option<Box<Outcome>>,
}

impl Error {
    /// An error without a run.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), outcome: None }
    }

    /// The session whose id is not known.
    pub fn session_not_found(id: &str) -> Self {
        Self::new(Code::SessionNotFound, format!("there is no session '{id}'"))
    }

    /// The session that went away under the call.
    pub fn session_destroyed(id: &str) -> Self {
        Self::new(Code::SessionDestroyed, format!("session '{id}' was deleted"))
    }
}
