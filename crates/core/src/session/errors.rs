//! The errors of a session's calls.

use super::context::Context;
use super::foreground::Refused;
use crate::error::{Code, Error};
use crate::shell::event::Refusal;
use crate::shell::plain_state::ReadOnly;
use nacre_protocol::shell::Refusal as ShellRefusal;
use std::io;
use std::path::Path;

/// The error of a call that never ran. `failure`: why there is no shell.
pub(super) fn never_ran(cx: &Context, failure: Option<&Error>, why: Refusal) -> Error {
    let id = &cx.config.id;
    match why {
        Refusal::Closed | Refusal::Cancelled | Refusal::TimedOut => cx.ended_error(),
        Refusal::Terminated(code) => terminated(id, code),
        Refusal::NoShell => failure.cloned().unwrap_or_else(|| {
            Error::new(Code::SpawnFailed, format!("the shell of session '{id}' dies as soon as it starts"))
        }),
        Refusal::NoFork => no_fork(),
        Refusal::StandbyDied => {
            Error::new(Code::SpawnFailed, "the process cannot be started: the session's standby died")
        }
    }
}

/// The error for a command, process or change of variables that the shell refused.
pub(super) fn refused(cx: &Context, refused: Option<Refused>, cwd: Option<&Path>, what: &str) -> Error {
    let Some(Refused { reason, errno, about }) = refused else {
        return Error::new(Code::EngineError, format!("the {what} cannot be started: its streams cannot be opened"));
    };
    match reason {
        ShellRefusal::Cwd => Error::cwd(&cx.cwd.join(cwd.unwrap_or(Path::new(""))), errno),
        ShellRefusal::ReadOnly => read_only(&ReadOnly(about)),
        ShellRefusal::Limit => {
            let message = format!("the limit {about} cannot be set: it is above what the host itself may use");
            Error::new(Code::LimitUnsupported, message)
        }
        ShellRefusal::Streams => {
            let message = format!(
                "the {what} cannot be started: an earlier command set a limit of open files (ulimit -n) below 5; \
                 delete the session, and set the limit in a subshell"
            );
            Error::new(Code::SpawnFailed, message)
        }
        ShellRefusal::Terminal => no_terminal(&about, errno),
        ShellRefusal::Unknown(_) => {
            Error::new(Code::EngineError, format!("the {what} cannot be started: the shell refused it"))
        }
    }
}

/// The error of a command that cannot be sent to a shell.
pub(super) fn not_started(error: io::Error) -> Error {
    Error::new(Code::EngineError, format!("the command cannot be started: {error}"))
}

/// The error of calls on a session whose shell has ended permanently.
pub(super) fn terminated(id: &str, code: Option<i32>) -> Error {
    let how = code.map_or("was killed".to_string(), |code| format!("exited with code {code}"));
    Error::new(Code::SessionTerminated, format!("the shell of session '{id}' {how}"))
}

/// The error for a process that cannot be forked.
pub(super) fn no_fork() -> Error {
    let message = "the process cannot be started: the shell cannot fork (limit of processes or memory)";
    Error::new(Code::SpawnFailed, message)
}

/// The error for a variable that is read-only in the session.
pub(super) fn read_only(refused: &ReadOnly) -> Error {
    Error::new(Code::InvalidEnvName, refused.to_string())
}

/// The error for a command whose shell cannot have a terminal. `process`: the pid of a process of an earlier command.
fn no_terminal(process: &str, errno: i32) -> Error {
    let reason = if process.is_empty() {
        io::Error::from_raw_os_error(errno).to_string()
    } else {
        format!(
            "process {process} of an earlier command would get its signals, like those of Ctrl-C; end it, start such \
             programs with startProcess, or use another session"
        )
    };
    Error::new(Code::TerminalUnavailable, format!("the session cannot give its command a terminal: {reason}"))
}
