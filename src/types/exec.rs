//! A foreground command and its result.

use super::process::{NativeDetachedProcess, NativeKilledBy, NativePty};
use super::sandbox::NativeDenial;
use nacre_core::exec::Lost;
use napi::bindgen_prelude::{Buffer, Either, Uint8Array, Uint32Array};
use napi_derive::napi;

/// Options that few commands have. Other commands omit it: reading a property costs more than passing a number.
#[napi(object)]
#[derive(Default)]
pub struct NativeExecExtras {
    /// Arguments, instead of shell text.
    pub argv: Option<Vec<String>>,
    /// For this command only.
    pub cwd: Option<String>,
    /// For this command only.
    pub env_names: Option<Vec<String>>,
    /// Null unsets.
    pub env_values: Option<Vec<Option<String>>>,
    /// `stream`: by `write` and `closeInput`.
    #[napi(ts_type = "'none' | 'bytes' | 'stream'")]
    pub input: String,
    /// The bytes, for `bytes`.
    pub input_bytes: Option<Uint8Array>,
    /// Both streams through one pipe, as stdout.
    pub merge_output: Option<bool>,
    /// The size of its terminal, if it has one.
    pub pty: Option<NativePty>,
    /// Bytes of both streams together, after which the command is killed.
    pub output_limit: Option<f64>,
    /// Milliseconds of processor time, after which the command is killed. Needs `process`.
    pub budget_cpu: Option<f64>,
    /// Send the events of its requests.
    pub traced: Option<bool>,
    /// Also send the event `start`.
    pub start: Option<bool>,
    /// Also send `start` and `output` events.
    pub events: bool,
    /// Maximum output events in flight; default: WINDOW in `src/pending.rs`.
    pub window: Option<u32>,
    /// The process that the command can become. Only for streams.
    pub process: Option<NativeDetachedProcess>,
}

/// The command that has kept another one waiting.
#[napi(object, object_from_js = false)]
pub struct NativeBlocker {
    /// The command as displayed, perhaps cut.
    pub command: String,
    /// Whether its caller holds it up by not reading its output.
    pub is_unread: bool,
    /// Milliseconds since the epoch.
    pub started_at: f64,
}

/// An item of a session's state that was lost.
#[napi(object, object_from_js = false)]
pub struct NativeLostState {
    /// What it is.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Why it is lost.
    pub reason: String,
}

impl From<Lost> for NativeLostState {
    fn from(Lost { kind, name, reason }: Lost) -> Self {
        Self { kind, name, reason }
    }
}

/// A command that runs or waits.
#[napi(object, object_from_js = false)]
pub struct NativeRunning {
    /// The id of its call.
    pub id: u32,
    /// As displayed.
    pub command: String,
    /// Milliseconds since the epoch; absent while it waits, like the rest.
    pub started_at: Option<f64>,
    /// The pid of its shell.
    pub pid: Option<i32>,
    /// Bytes.
    pub stdout_bytes: Option<f64>,
    /// Bytes.
    pub stderr_bytes: Option<f64>,
    /// Milliseconds since the epoch.
    pub last_output_at: Option<f64>,
}

/// What a command has used.
#[napi(object, object_from_js = false)]
pub struct NativeCommandUsage {
    /// Processor time in milliseconds.
    pub cpu: f64,
    /// Bytes read from disks; absent if there are none.
    pub disk_read: Option<f64>,
    /// Bytes written to disks.
    pub disk_written: Option<f64>,
    /// Bytes sent through the proxy; absent without a proxy.
    pub sent: Option<f64>,
    /// Bytes received through it.
    pub received: Option<f64>,
}

/// The result of a command. Rare properties are only present if set: each property costs time.
#[napi(object, object_from_js = false)]
pub struct NativeResult {
    /// `$?`.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// A string only with encoding utf8 and up to 1 MiB.
    pub stdout: Either<String, Buffer>,
    /// Text up to 1 MiB, else bytes.
    pub stderr: Either<String, Buffer>,
    /// Lengths in bytes of the kept runs, alternating stdout, stderr, stdout, ...; absent if there is only one stream.
    pub order: Option<Uint32Array>,
    /// The session's directory afterwards.
    pub cwd: String,
    /// Milliseconds.
    pub duration: f64,
    /// Milliseconds since the epoch.
    pub started_at: f64,
    /// Processor time in milliseconds; absent if it is unknown, like the next two.
    pub cpu: Option<f64>,
    /// Bytes read from disks; absent if there are none.
    pub disk_read: Option<f64>,
    /// Bytes written to disks.
    pub disk_written: Option<f64>,
    /// Bytes sent through the proxy; absent without a proxy.
    pub sent: Option<f64>,
    /// Bytes received through it.
    pub received: Option<f64>,
    /// Whether the timeout killed it.
    pub timed_out: Option<bool>,
    /// Whether the caller cancelled it.
    pub cancelled: Option<bool>,
    /// What has killed it.
    pub killed_by: Option<NativeKilledBy>,
    /// What ran when it timed out before its turn.
    pub waited_for: Option<NativeBlocker>,
    /// Whether it printed more than its limit.
    pub output_limited: Option<bool>,
    /// Bytes not kept.
    pub dropped_stdout: Option<f64>,
    /// Bytes not kept.
    pub dropped_stderr: Option<f64>,
    /// Whether the shell died and was replaced.
    pub session_restarted: Option<bool>,
    /// Items of the session's state that were lost before the command.
    pub lost_state: Option<Vec<NativeLostState>>,
    /// What was refused.
    pub denials: Option<Vec<NativeDenial>>,
    /// Keys of git's config that the machine's file did not get.
    pub withheld: Option<Vec<String>>,
}
