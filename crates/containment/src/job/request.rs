//! What the starter tells the supervisor of a job, and what that answers.
//!
//! The request is a file in memory on descriptor 0, complete before the supervisor exists: a starter that dies can not
//! leave half of one. What the command is to read from its standard input is a file on descriptor 2. The answer comes
//! over descriptor 1, as one line of JSON. End of file without an answer means that the supervisor was killed, and that
//! nothing of it runs any more.

use crate::limits::Limits;
use crate::pid::Pid;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// What to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Program {
    /// Text for the shell.
    Text(String),
    /// Words that no shell parses; the first is looked up on PATH.
    Argv(Vec<String>),
}

/// Whom the command runs as.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunAs {
    /// User.
    pub uid: u32,
    /// Primary group.
    pub gid: u32,
    /// All groups.
    pub groups: Vec<u32>,
}

/// A job to be started. Its environment is that of the supervisor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// The directory of all jobs; exists.
    pub root: PathBuf,
    /// Names the job.
    pub id: String,
    /// What.
    pub program: Program,
    /// As shown.
    pub command: String,
    /// Absolute path of bash.
    pub shell: PathBuf,
    /// Absolute.
    pub cwd: PathBuf,
    /// For people.
    pub process_name: Option<String>,
    /// Milliseconds until it is ended.
    pub timeout_ms: Option<u64>,
    /// Milliseconds between SIGTERM and SIGKILL.
    pub grace_ms: u64,
    /// Whom it runs as, when that is somebody else.
    pub user: Option<RunAs>,
    /// Where its control group is to be made.
    pub group_parent: Option<PathBuf>,
    /// What it may use.
    pub limits: Limits,
    /// RLIMIT_NOFILE.
    pub open_files: Option<u64>,
    /// RLIMIT_NPROC.
    pub processes: Option<u64>,
    /// Descriptor 2 is the command's standard input.
    pub has_stdin: bool,
}

/// Why a job could not be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    /// There is a job of that id.
    Exists,
    /// The directory of the command can not be entered.
    Cwd,
    /// A limit can not be enforced.
    Limit,
    /// The job's directory can not be written.
    Directory,
    /// No process, or not as that user.
    Spawn,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Answer {
    /// It runs: everything stands in its `meta.json`.
    Started {
        /// The supervisor, and its process group.
        pid: Pid,
        /// The process above it, which an init or a subreaper that has started the job has to reap.
        guard: i32,
        /// Directory of the control group.
        cgroup: Option<PathBuf>,
    },
    /// Nothing runs and no directory is left.
    Refused {
        /// Which kind.
        kind: Refusal,
        /// One sentence.
        message: String,
    },
}
