//! A durable job.

use super::process::NativeLimits;
use crate::piece::Piece;
use napi::bindgen_prelude::Uint8Array;
use napi_derive::napi;

/// A durable job to start.
#[napi(object)]
pub struct NativeJobStart {
    /// The job's id.
    pub job_id: String,
    /// Shell text.
    pub text: Option<String>,
    /// Arguments, instead of shell text.
    pub argv: Option<Vec<String>>,
    /// The command as displayed.
    pub command: String,
    /// Replaces the sandbox's directory; absolute.
    pub cwd: Option<String>,
    /// Changes to the sandbox's environment.
    pub env_names: Option<Vec<String>>,
    /// Null unsets.
    pub env_values: Option<Vec<Option<String>>>,
    /// A label for people.
    pub process_name: Option<String>,
    /// Milliseconds, 0 for none.
    pub timeout: f64,
    /// Milliseconds between SIGTERM and SIGKILL.
    pub grace_ms: u32,
    /// Replaces the sandbox's limits.
    pub limits: Option<NativeLimits>,
    /// Standard input.
    pub stdin: Option<Uint8Array>,
}

/// A durable job.
#[napi(object, object_from_js = false)]
pub struct NativeJob {
    /// The job's id.
    pub job_id: String,
    /// Absolute.
    pub dir: String,
    /// Absolute.
    pub output_file: String,
    /// Absolute.
    pub exit_file: String,
    /// The process group that receives signals.
    pub pgid: i32,
    /// Directory of its control group.
    pub cgroup: Option<String>,
    /// A label for people.
    pub process_name: Option<String>,
    /// ISO 8601.
    pub created_at: String,
    /// As displayed; only for jobs that nacre started.
    pub command: Option<String>,
    /// The state, in lists.
    pub status: Option<NativeJobStatus>,
}

/// The state of a durable job.
#[napi(object, object_from_js = false)]
#[derive(Default)]
pub struct NativeJobStatus {
    /// `crashed`: its supervisor was killed, or the machine was started anew.
    #[napi(ts_type = "'running' | 'exited' | 'crashed'")]
    pub state: String,
    /// Exit code, if it exited.
    pub exit_code: Option<i32>,
    /// Signal, if a signal ended it.
    pub signal: Option<i32>,
    /// `exit`, `signal`, `timeout`, `cancelled`, `oom`; for a crash `killed` or `reboot`.
    #[napi(ts_type = "'exit' | 'signal' | 'timeout' | 'cancelled' | 'oom' | 'killed' | 'reboot'")]
    pub reason: Option<String>,
    /// Whether any process of the job is running.
    pub alive: bool,
    /// ISO 8601.
    pub ended_at: Option<String>,
    /// Milliseconds.
    pub duration: Option<f64>,
    /// Whether the disk was full while it ran.
    pub output_lost: bool,
}

/// A part of a job's output.
#[napi(object, object_from_js = false)]
pub struct NativeJobOutput {
    /// The state, read before the output.
    pub status: NativeJobStatus,
    /// The bytes.
    #[napi(ts_type = "Buffer")]
    pub data: Piece,
    /// Whether nothing follows them.
    pub at_end: bool,
}
