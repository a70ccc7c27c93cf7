//! Configuration of a sandbox and its sessions.

use crate::budget::Budget;
use crate::functions::OnFunction;
use crate::hook::Hook;
use crate::host_commands::Commands;
use crate::isolation::Isolation;
use crate::limits::Limits;
use crate::log::Log;
use crate::proxy::TracedRequest;
use crate::questions::Question;
use crate::user::UserSpec;
use crate::variables::EnvChange;
use crate::workspace;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Configuration shared by all sessions of a sandbox.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// Absolute.
    pub cwd: PathBuf,
    /// The whole environment.
    pub env: Vec<(OsString, OsString)>,
    /// Path of bash; otherwise the first on PATH.
    pub shell: Option<PathBuf>,
    /// Path of the supervisor executable.
    pub supervisor: PathBuf,
    /// `exit` ends only the command.
    pub survive_exit: bool,
    /// The directory for everything that the sandbox stores on disk.
    pub state_dir: PathBuf,
    /// The name under which it keeps what it is, for the next sandbox of this name.
    pub keep: Option<String>,
    /// The directory of its durable jobs, which isolated programs must not see.
    pub jobs_root: PathBuf,
    /// Runs each command in a new bash, although the shell could load the builtin.
    pub force_plain: bool,
    /// Uses no control groups, although they are available.
    pub force_subreaper: bool,
    /// Limits for the whole sandbox; `open_files` applies to each process.
    pub limits: Limits,
    /// What everything in it together may use in all.
    pub budget: Option<Duration>,
    /// The user to run as, if not this process's.
    pub user: Option<UserSpec>,
    /// What its sessions may read, write, reach and see. `None`: no restrictions.
    pub isolation: Option<Isolation>,
    /// The copy-on-write workspace. `None`: programs write to the real files.
    pub workspace: Option<workspace::Options>,
    /// Variables that the user's (`HOME`, `USER` ...) must not replace.
    pub own_variables: Vec<String>,
    /// Receives engine diagnostics.
    pub log: Log,
    /// Receives each question about a host, on the thread of the proxy.
    pub on_question: Hook<Question>,
    /// Receives the requests of commands that are traced, on the thread of the proxy.
    pub on_traced: Hook<TracedRequest>,
    /// Receives the id of each session that ends, or whose shell has exited without `survive_exit`.
    pub on_end: Hook<str>,
    /// The commands that are functions of the host.
    pub commands: Option<Commands>,
    /// Receives calls of the functions that rules for the network name.
    pub on_function: OnFunction,
}

/// A session to create.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct NewSession {
    /// Its id.
    pub id: String,
    /// Replaces the sandbox's directory; absolute.
    pub cwd: Option<PathBuf>,
    /// Changes to the sandbox's environment.
    pub env: EnvChange,
    /// Replaces the sandbox's setting.
    pub survive_exit: Option<bool>,
    /// Replaces the sandbox's rules. The caller has checked that it is at least as strict.
    pub isolation: Option<Isolation>,
    /// What it may use in all. Not kept on the disk.
    #[serde(skip)]
    pub budget: Option<Arc<Budget>>,
}
