//! A background process: its start, its state, its log, its use of the system.

use napi::bindgen_prelude::{Buffer, Uint8Array};
use napi_derive::napi;

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
