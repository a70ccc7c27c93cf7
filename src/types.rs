//! Every object that JavaScript sees. The same shapes stand in `lib/boundary.ts`, with their meaning.

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
    /// `fifo` forces the fallback.
    pub transport: Option<String>,
    /// `subreaper` forces the fallback.
    pub containment: Option<String>,
    /// Send `log` events.
    pub log: Option<bool>,
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
    pub data: Option<Buffer>,
    /// Of `result`, and of `error` when there is one.
    pub result: Option<NativeResult>,
    /// Of `error`; of `log` the level.
    pub code: Option<String>,
    /// Of `error`.
    pub message: Option<String>,
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
