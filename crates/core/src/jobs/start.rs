//! Starts a job: passes a request in memory to a small program and reads its reply.
//!
//! After the program has started, the job does not depend on this process: the request is complete, and the supervisor
//! creates the job.

use super::orphan;
use super::store::Store;
use crate::error::{Code, Error};
use crate::limits::{Enforcement, Limits};
use crate::private_directory;
use crate::sys;
use crate::user::User;
use crate::variables::EnvChange;
use crate::variables::changed;
use nacre_containment::job::meta::Meta;
use nacre_containment::job::{layout, lock};
use nacre_protocol::confinement::Confinement;
use nacre_protocol::job::{Answer, JobProgram, JobRefusal, JobRequest};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Seek, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tokio::runtime::Handle;

/// The settings that a job inherits from its sandbox.
pub struct JobLaunch {
    /// The supervisor executable.
    pub supervisor: PathBuf,
    /// Path of bash.
    pub shell: PathBuf,
    /// The complete environment.
    pub env: Vec<(OsString, OsString)>,
    /// The absolute working directory.
    pub cwd: PathBuf,
    /// The user to run as.
    pub user: Option<User>,
    /// The directory where groups can be created.
    pub group_parent: Option<PathBuf>,
    /// Its limits.
    pub limits: Enforcement,
    /// Its confinement.
    pub confinement: Option<Confinement>,
}

/// A job to start.
pub struct NewJob {
    /// The job's id.
    pub id: String,
    /// The command.
    pub program: JobProgram,
    /// The command as displayed.
    pub command: String,
    /// Replaces the sandbox's directory; absolute.
    pub cwd: Option<PathBuf>,
    /// Changes to the sandbox's environment.
    pub env: EnvChange,
    /// A label for display.
    pub process_name: Option<String>,
    /// Time limit in milliseconds.
    pub timeout_ms: Option<u64>,
    /// Milliseconds between SIGTERM and SIGKILL.
    pub grace_ms: u64,
    /// Replaces the sandbox's limits.
    pub limits: Option<Limits>,
    /// The command's standard input.
    pub stdin: Option<Vec<u8>>,
}

impl Store {
    /// Starts a job. Returns when its command may execute.
    ///
    /// # Errors
    /// `JOB_ALREADY_EXISTS`, `CWD_NOT_FOUND`, `LIMIT_UNSUPPORTED`, `STATE_DIR_UNAVAILABLE`, `SPAWN_FAILED`. After an
    /// error, nothing runs and no directory remains.
    pub fn start(&self, new: NewJob, launch: JobLaunch, engine: &Handle) -> Result<Meta, Error> {
        private_directory::create(self.root()).map_err(|reason| self.refused(&reason))?;
        let spawn_failed = |error: io::Error| {
            Error::new(Code::SpawnFailed, format!("the job's supervisor cannot be started: {error}"))
        };
        let id = new.id.clone();
        let env = changed(&launch.env, new.env.clone());
        let supervisor = launch.supervisor.clone();
        let stdin = new.stdin.as_deref().map(memory_file).transpose().map_err(spawn_failed)?;
        let request = request(self, new, launch);
        let text = serde_json::to_vec(&request).map_err(io::Error::from).map_err(spawn_failed)?;
        let text = memory_file(&text).map_err(spawn_failed)?;
        let existed = self.root().join(&id).symlink_metadata().is_ok();
        match ask(&supervisor, env, text, stdin).map_err(spawn_failed)? {
            Some(Answer::Started { guard, meta }) => {
                orphan::adopt(guard, engine);
                Ok(*meta)
            }
            Some(Answer::Refused { kind, message }) => Err(Error::new(code_of(kind), message)),
            // The supervisor was killed after the job had become visible, so the job exists and has crashed.
            None => match self.find(&id).and_then(|job| job.meta()) {
                Ok(Some(meta)) if !existed => Ok(meta),
                Err(error) if error.code != Code::JobNotFound => Err(error),
                _ => {
                    // Its guard may have been killed before it marked the directory, which is then empty.
                    let unfinished = layout::unfinished(self.root(), &id);
                    if let Ok(Some(lock)) = lock::take(&unfinished) {
                        let _ = fs::remove_dir(&unfinished);
                        lock::release(&lock);
                    }
                    Err(spawn_failed(io::Error::other("it was killed before it could reply")))
                }
            },
        }
    }
}

fn code_of(kind: JobRefusal) -> Code {
    match kind {
        JobRefusal::Exists => Code::JobAlreadyExists,
        JobRefusal::Cwd => Code::CwdNotFound,
        JobRefusal::Isolation => Code::IsolationUnsupported,
        JobRefusal::Limit => Code::LimitUnsupported,
        JobRefusal::Directory => Code::StateDirUnavailable,
        JobRefusal::Spawn => Code::SpawnFailed,
    }
}

/// Runs the supervisor until it has replied and forked into the background. Without a reply, it was killed.
///
/// The standard library spawns with `posix_spawn` here: no option needs a fork of this process, which may hold
/// gigabytes.
fn ask(
    supervisor: &Path,
    env: Vec<(OsString, OsString)>,
    request: File,
    stdin: Option<File>,
) -> io::Result<Option<Answer>> {
    let (read, write) = sys::pipe()?;
    let mut command = crate::supervisor::program(supervisor);
    command.arg("--job").envs(env).stdin(request).stdout(write);
    command.stderr(stdin.map_or_else(Stdio::null, |file| Stdio::from(OwnedFd::from(file))));
    let mut child = command.spawn()?;
    // Closes this process's last copy of the write end.
    drop(command);
    let mut line = Vec::new();
    let outcome = BufReader::new(File::from(read)).read_until(b'\n', &mut line);
    let _ = child.wait();
    outcome?;
    Ok(serde_json::from_slice(&line).ok())
}

fn request(store: &Store, new: NewJob, launch: JobLaunch) -> JobRequest {
    JobRequest {
        root: store.root().into(),
        id: new.id,
        program: new.program,
        command: new.command,
        shell: launch.shell,
        cwd: new.cwd.unwrap_or(launch.cwd),
        process_name: new.process_name,
        timeout_ms: new.timeout_ms,
        grace_ms: new.grace_ms,
        user: launch.user.map(|user| user.run_as),
        group_parent: launch.group_parent,
        limits: launch.limits.group,
        resources: launch.limits.inherited,
        has_stdin: new.stdin.is_some(),
        confinement: launch.confinement,
    }
}

fn memory_file(bytes: &[u8]) -> io::Result<File> {
    let mut file = File::from(sys::memory_file()?);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file)
}
