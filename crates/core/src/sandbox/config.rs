//! What a sandbox and its sessions are made from.

use crate::limits::Limits;
use crate::log::Log;
use crate::user::UserSpec;
use crate::variables::EnvChange;
use std::ffi::OsString;
use std::path::PathBuf;

/// What all sessions of a sandbox start from.
#[derive(Clone, Debug)]
pub struct Config {
    /// Absolute.
    pub cwd: PathBuf,
    /// The whole environment.
    pub env: Vec<(OsString, OsString)>,
    /// Path of bash; otherwise the first on PATH.
    pub shell: Option<PathBuf>,
    /// Path of the supervisor executable.
    pub supervisor: PathBuf,
    /// `exit` ends the command only.
    pub survive_exit: bool,
    /// Directory for everything on disk.
    pub state_dir: PathBuf,
    /// Run each command in a bash of its own although the shell could load the builtin.
    pub force_plain: bool,
    /// Use no control groups although they work.
    pub force_subreaper: bool,
    /// What all of it together may use; descriptors: each process.
    pub limits: Limits,
    /// Whom everything runs as, when it is somebody else.
    pub user: Option<UserSpec>,
    /// Variables that the user's own (`HOME`, `USER` ...) must not replace.
    pub own_variables: Vec<String>,
    /// Where deaths and recoveries are told.
    pub log: Log,
}

/// A session to be made.
#[derive(Clone, Debug, Default)]
pub struct NewSession {
    /// Its id.
    pub id: String,
    /// Instead of the sandbox's, absolute.
    pub cwd: Option<PathBuf>,
    /// Changes to the sandbox's environment.
    pub env: EnvChange,
    /// Instead of the sandbox's.
    pub survive_exit: Option<bool>,
}
