//! The request to the supervisor of a job, and its answer.
//!
//! The request is a file in memory on descriptor 0. It is complete before the supervisor exists, so a starter that dies
//! cannot leave half a request. The command's standard input is a file on descriptor 2. The answer is one line of JSON
//! on descriptor 1. End of file without an answer means that the supervisor was killed and that nothing runs.

use crate::confinement::Confinement;
use crate::standing::{ResourceLimits, RunAs};
use nacre_containment::job::meta::Meta;
use nacre_containment::limits::Limits;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum JobProgram {
    /// Text for the shell.
    Text(String),
    /// Words that no shell parses; the first is looked up on PATH.
    Argv(Vec<String>),
}

/// A job to be started. Its environment is that of the supervisor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobRequest {
    /// The directory of all jobs; exists.
    pub root: PathBuf,
    /// The job's id.
    pub id: String,
    /// The command.
    pub program: JobProgram,
    /// The command as displayed.
    pub command: String,
    /// Absolute path of bash.
    pub shell: PathBuf,
    /// Absolute.
    pub cwd: PathBuf,
    /// A name for display.
    pub process_name: Option<String>,
    /// Milliseconds until it is ended.
    pub timeout_ms: Option<u64>,
    /// Milliseconds between SIGTERM and SIGKILL.
    pub grace_ms: u64,
    /// The user it runs as, if not the caller's.
    pub user: Option<RunAs>,
    /// The parent directory for its control group.
    pub group_parent: Option<PathBuf>,
    /// Limits of its control group.
    pub limits: Limits,
    /// Limits that its processes inherit.
    pub resources: ResourceLimits,
    /// Descriptor 2 is the command's standard input.
    pub has_stdin: bool,
    /// What confines the command.
    pub confinement: Option<Confinement>,
}

/// Why a job could not be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum JobRefusal {
    /// A job with that id exists.
    Exists,
    /// The directory of the command cannot be entered.
    Cwd,
    /// A limit cannot be enforced.
    Limit,
    /// The command cannot be confined.
    Isolation,
    /// The job's directory cannot be written.
    Directory,
    /// The process cannot be started, or not as that user.
    Spawn,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Answer {
    /// The job runs.
    Started {
        /// The supervisor's parent process, which a caller that is init or a subreaper has to reap.
        guard: i32,
        /// The content of its `meta.json`.
        meta: Box<Meta>,
    },
    /// Nothing runs and no directory is left.
    Refused {
        /// The kind of failure.
        kind: JobRefusal,
        /// One sentence.
        message: String,
    },
}
