//! Every object that JavaScript sees. The same shapes stand in `lib/boundary.ts`, with their meaning.

use crate::piece::Piece;
use napi::bindgen_prelude::{Buffer, Either, Uint8Array, Uint32Array};
use napi_derive::napi;

/// Configuration of a sandbox.
#[napi(object)]
pub struct NativeConfig {
    /// Absolute.
    pub cwd: String,
    /// The complete environment, two lists of one length.
    pub env_names: Vec<String>,
    /// See `env_names`.
    pub env_values: Vec<String>,
    /// Path of bash.
    pub shell: Option<String>,
    /// Absolute path of the supervisor.
    pub supervisor: String,
    /// `exit` ends the command only.
    pub survive_exit: bool,
    /// Directory for everything on disk.
    pub state_dir: String,
    /// Directory of the durable jobs.
    pub jobs_root: String,
    /// What all of it together may use.
    pub limits: Option<NativeLimits>,
    /// Whom everything runs as.
    pub user: Option<NativeUser>,
    /// Variables that the user's own do not replace.
    pub own_variables: Option<Vec<String>>,
    /// `fifo` forces the fallback.
    pub transport: Option<String>,
    /// `subreaper` forces the fallback.
    pub containment: Option<String>,
    /// Send `log` events.
    pub log: Option<bool>,
}

/// A user: a name, or both numbers.
#[napi(object)]
pub struct NativeUser {
    /// In the user database.
    pub name: Option<String>,
    /// User.
    pub uid: Option<u32>,
    /// Primary group.
    pub gid: Option<u32>,
}

/// A session to be made.
#[napi(object)]
pub struct NativeSession {
    /// Its id.
    pub session_id: String,
    /// Absolute.
    pub cwd: Option<String>,
    /// Changes to the sandbox's environment.
    pub env_names: Option<Vec<String>>,
    /// Null unsets.
    pub env_values: Option<Vec<Option<String>>>,
    /// Instead of the sandbox's.
    pub survive_exit: Option<bool>,
}

/// A foreground command.
#[napi(object)]
pub struct NativeExec {
    /// Where it runs.
    pub session_id: String,
    /// Shell text.
    pub text: Option<String>,
    /// Or words.
    pub argv: Option<Vec<String>>,
    /// For this command only.
    pub cwd: Option<String>,
    /// For this command only.
    pub env_names: Option<Vec<String>>,
    /// Null unsets.
    pub env_values: Option<Vec<Option<String>>>,
    /// Milliseconds, 0 for none.
    pub timeout: u32,
    /// First signal of the ladder.
    pub kill_signal: i32,
    /// Milliseconds until SIGKILL.
    pub force_kill_after_delay: u32,
    /// Bytes kept of each stream.
    pub max_buffer: f64,
    /// `utf8` or `buffer`.
    pub encoding: String,
    /// `none`, `bytes` or `stream`.
    pub input: String,
    /// For `bytes`.
    pub input_bytes: Option<Uint8Array>,
    /// Also send `start` and `output`.
    pub events: bool,
}

/// Something that has happened.
#[napi(object, object_from_js = false)]
#[derive(Default)]
pub struct NativeEvent {
    /// Of the call.
    pub id: u32,
    /// `start`, `output`, `result`, `done`, `error` or `log`.
    pub kind: String,
    /// Of `start`.
    pub pid: Option<i32>,
    /// Of `output`: 1 or 2.
    pub stream: Option<u32>,
    /// Of `output`.
    pub data: Option<Piece>,
    /// Of `result`, and of `error` when there is one.
    pub result: Option<NativeResult>,
    /// Of `error`; of `log` the level.
    pub code: Option<String>,
    /// Of `error`.
    pub message: Option<String>,
    /// Of `done`: a process that was started or has ended.
    pub process: Option<NativeProcess>,
    /// Of `done`: there was something to kill.
    pub killed: Option<bool>,
    /// Of `done`: a part of a log.
    pub log: Option<NativeLog>,
    /// Of `done`: what a process uses.
    pub stats: Option<NativeStats>,
    /// Of `done`: the tree listens on the port.
    pub listens: Option<bool>,
    /// Of `done`: a job that was started or found.
    pub job: Option<NativeJob>,
    /// Of `done`: all jobs.
    pub jobs: Option<Vec<NativeJob>>,
    /// Of `done`: the state of a job.
    pub job_status: Option<NativeJobStatus>,
    /// Of `done` with `data`: there was nothing after it.
    pub at_end: Option<bool>,
}

/// A background process to be started.
#[napi(object)]
pub struct NativeProcessStart {
    /// Unique in the sandbox.
    pub process_id: String,
    /// Whose state it starts from.
    pub session_id: String,
    /// Shell text.
    pub text: Option<String>,
    /// Or words.
    pub argv: Option<Vec<String>>,
    /// As shown.
    pub command: String,
    /// Instead of the session's.
    pub cwd: Option<String>,
    /// Changes to the session's variables.
    pub env_names: Option<Vec<String>>,
    /// Null unsets.
    pub env_values: Option<Vec<Option<String>>>,
    /// Milliseconds, 0 for none.
    pub timeout: u32,
    /// First signal of the ladder, for the timeout.
    pub kill_signal: i32,
    /// Milliseconds until SIGKILL.
    pub force_kill_after_delay: u32,
    /// `none`, `bytes` or `open`.
    pub input: String,
    /// For `bytes`.
    pub input_bytes: Option<Uint8Array>,
    /// Bytes of log kept.
    pub log_limit: f64,
    /// A terminal of this size.
    pub pty: Option<NativePty>,
    /// What it may use.
    pub limits: Option<NativeLimits>,
    /// Forgotten some time after its end.
    pub auto_cleanup: bool,
}

/// The size of a terminal.
#[napi(object)]
pub struct NativePty {
    /// Columns.
    pub cols: u32,
    /// Rows.
    pub rows: u32,
}

/// What a process may use.
#[napi(object)]
pub struct NativeLimits {
    /// Bytes.
    pub memory: Option<f64>,
    /// Processors.
    pub cpus: Option<f64>,
    /// Processes.
    pub pids: Option<u32>,
    /// Descriptors.
    pub open_files: Option<u32>,
}

/// A background process as it is now.
#[napi(object, object_from_js = false)]
pub struct NativeProcess {
    /// Unique in the sandbox.
    pub process_id: String,
    /// Whose state it started from.
    pub session_id: String,
    /// Its number.
    pub pid: i32,
    /// As shown.
    pub command: String,
    /// `running`, `completed`, `failed`, `killed` or `error`.
    pub status: String,
    /// Milliseconds since the epoch.
    pub started_at: f64,
    /// Milliseconds since the epoch.
    pub ended_at: Option<f64>,
    /// When it exited.
    pub exit_code: Option<i32>,
    /// When one ended it.
    pub signal: Option<i32>,
    /// `exit`, `signal`, `timeout`, `oom` or `killed`.
    pub reason: Option<String>,
}

/// A part of a log.
#[napi(object, object_from_js = false)]
pub struct NativeLog {
    /// In order.
    pub pieces: Vec<NativeLogPiece>,
    /// Where to go on.
    pub next: f64,
    /// Bytes that are not there any more.
    pub dropped: f64,
    /// Bytes for which there was no room on the disk.
    pub lost: f64,
    /// Nothing will come behind `next`.
    pub ended: bool,
}

/// A piece of one stream.
#[napi(object, object_from_js = false)]
pub struct NativeLogPiece {
    /// 1 or 2.
    pub stream: u32,
    /// Offset in the whole log.
    pub cursor: f64,
    /// Never empty.
    pub data: Buffer,
    /// Milliseconds since the epoch.
    pub time: f64,
}

/// What a process and its tree use.
#[napi(object, object_from_js = false)]
pub struct NativeStats {
    /// Milliseconds.
    pub cpu_time: f64,
    /// Bytes.
    pub memory: f64,
    /// Bytes.
    pub memory_peak: f64,
    /// Processes.
    pub pids: u32,
    /// Bytes.
    pub io_read: f64,
    /// Bytes.
    pub io_write: f64,
}

/// What a command has given.
#[napi(object, object_from_js = false)]
pub struct NativeResult {
    /// `$?`.
    pub exit_code: Option<i32>,
    /// What ended it.
    pub signal: Option<i32>,
    /// Text up to 1 MiB, else bytes.
    pub stdout: Either<String, Buffer>,
    /// Text up to 1 MiB, else bytes.
    pub stderr: Either<String, Buffer>,
    /// Runs in order of arrival.
    pub order: Option<Uint32Array>,
    /// Afterwards.
    pub cwd: String,
    /// Milliseconds.
    pub duration: f64,
    /// Milliseconds since the epoch.
    pub started_at: f64,
    /// The timeout ended it.
    pub timed_out: bool,
    /// An interrupt ended it.
    pub is_canceled: bool,
    /// Bytes not kept.
    pub dropped_stdout: f64,
    /// Bytes not kept.
    pub dropped_stderr: f64,
    /// The shell was brought back.
    pub session_restarted: bool,
}

/// What this system offers.
#[napi(object, object_from_js = false)]
pub struct NativeCapabilities {
    /// `v2` or `none`.
    pub cgroup: String,
    /// Whole trees die by one write.
    pub cgroup_kill: bool,
    /// Enabled controllers.
    pub controllers: Vec<String>,
    /// pidfd_open works.
    pub pidfd: bool,
    /// `/proc/<pid>/fd` works.
    pub proc_fd: bool,
    /// Path of bash.
    pub shell: Option<String>,
    /// Its version.
    pub shell_version: Option<String>,
    /// What is missing, and what is used instead.
    pub notes: Vec<String>,
}

/// A durable job to be started.
#[napi(object)]
pub struct NativeJobStart {
    /// Names it.
    pub job_id: String,
    /// Shell text.
    pub text: Option<String>,
    /// Or words.
    pub argv: Option<Vec<String>>,
    /// As shown.
    pub command: String,
    /// Absolute, instead of the sandbox's.
    pub cwd: Option<String>,
    /// Changes to the sandbox's environment.
    pub env_names: Option<Vec<String>>,
    /// Null unsets.
    pub env_values: Option<Vec<Option<String>>>,
    /// For people.
    pub process_name: Option<String>,
    /// Milliseconds, 0 for none.
    pub timeout: f64,
    /// Milliseconds between SIGTERM and SIGKILL.
    pub grace_ms: u32,
    /// Instead of the sandbox's.
    pub limits: Option<NativeLimits>,
    /// What the command reads.
    pub stdin: Option<Uint8Array>,
}

/// A durable job.
#[napi(object, object_from_js = false)]
pub struct NativeJob {
    /// Names it.
    pub job_id: String,
    /// Absolute.
    pub dir: String,
    /// Absolute.
    pub output_file: String,
    /// Absolute.
    pub exit_file: String,
    /// The process group that takes signals.
    pub pgid: i32,
    /// Directory of its control group.
    pub cgroup: Option<String>,
    /// For people.
    pub process_name: Option<String>,
    /// ISO 8601.
    pub created_at: String,
    /// As shown; only of jobs of ours.
    pub command: Option<String>,
    /// In a list.
    pub status: Option<NativeJobStatus>,
}

/// The state of a durable job.
#[napi(object, object_from_js = false)]
#[derive(Default)]
pub struct NativeJobStatus {
    /// `running`, `exited` or `crashed`.
    pub state: String,
    /// When it exited.
    pub exit_code: Option<i32>,
    /// When one ended it.
    pub signal: Option<i32>,
    /// `exit`, `signal`, `timeout`, `cancelled`, `oom`; of a crash `killed` or `reboot`.
    pub reason: Option<String>,
    /// Something of it runs.
    pub alive: bool,
    /// ISO 8601.
    pub ended_at: Option<String>,
    /// Milliseconds.
    pub duration: Option<f64>,
    /// The disk was full while it ran.
    pub output_lost: bool,
}
