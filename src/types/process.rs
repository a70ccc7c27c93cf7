//! A background process: its start, state, log and resource usage.

use crate::text::Text;
use nacre_core::process::messages::MessageLines;
use napi::bindgen_prelude::{Buffer, Uint8Array};
use napi_derive::napi;

/// The process that a command can become.
#[napi(object)]
pub struct NativeDetachedProcess {
    /// Unique in the sandbox.
    pub process_id: String,
    /// The command as displayed.
    pub command: String,
    /// Bytes of log kept.
    pub log_limit: f64,
    /// The log begins with the command, and not when it becomes a process.
    pub keeps_log: bool,
    /// Whether it is forgotten some time after its end.
    pub auto_cleanup: bool,
}

/// A background process to start.
#[napi(object)]
pub struct NativeProcessStart {
    /// Unique in the sandbox.
    pub process_id: String,
    /// The session whose state it starts from.
    pub session_id: String,
    /// Shell text.
    pub text: Option<String>,
    /// Arguments, instead of shell text.
    pub argv: Option<Vec<String>>,
    /// The command as displayed.
    pub command: String,
    /// Replaces the session's directory.
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
    /// `open` keeps the input open for writeProcess.
    #[napi(ts_type = "'none' | 'bytes' | 'open'")]
    pub input: String,
    /// The bytes, for `bytes`.
    pub input_bytes: Option<Uint8Array>,
    /// Whether it has a channel of messages.
    pub ipc: bool,
    /// Both streams through one pipe.
    pub merge_output: bool,
    /// Bytes of log kept.
    pub log_limit: f64,
    /// Bytes of output that may wait for the reader; beyond that, the process blocks. Absent: no limit.
    pub window: Option<f64>,
    /// The size of its terminal, if it has one.
    pub pty: Option<NativePty>,
    /// Its limits.
    pub limits: Option<NativeLimits>,
    /// Whether to forget it some time after its end.
    pub auto_cleanup: bool,
    /// Whether to keep it out of the feed of events.
    pub hidden: Option<bool>,
    /// What the next sandbox of the same name gets with the process.
    pub definition: Option<String>,
}

/// The size of a terminal.
#[napi(object)]
pub struct NativePty {
    /// Columns.
    pub cols: u32,
    /// Rows.
    pub rows: u32,
}

/// The size and the mode of a terminal.
#[napi(object, object_from_js = false)]
pub struct NativeTerminal {
    /// Columns.
    pub cols: u32,
    /// Rows.
    pub rows: u32,
    /// Whether typed characters are shown.
    pub echo: bool,
    /// Whether it is read by lines.
    pub canonical: bool,
}

/// Limits of a process.
#[napi(object)]
pub struct NativeLimits {
    /// Bytes.
    pub memory: Option<f64>,
    /// Processors; may be a fraction.
    pub cpus: Option<f64>,
    /// Processes.
    pub pids: Option<u32>,
    /// Descriptors.
    pub open_files: Option<u32>,
}

/// Messages that a process has sent.
#[napi(object, object_from_js = false)]
pub struct NativeMessages {
    /// Lines of JSON.
    #[napi(ts_type = "string")]
    pub lines: Text<MessageLines>,
    /// The number of messages before them.
    pub first: f64,
    /// Nothing follows.
    pub is_over: bool,
    /// What follows instead of lines: a message that has no end.
    #[napi(ts_type = "'tooLong' | 'cut'")]
    pub rest: Option<&'static str>,
}

/// Names one process for ever: its id can belong to another process once it was forgotten.
#[napi(object, object_to_js = false)]
pub struct NativeProcessRef {
    /// For messages.
    pub process_id: String,
    /// No other process ever has it.
    pub number: f64,
}

/// The current state of a background process.
#[napi(object, object_from_js = false)]
pub struct NativeProcess {
    /// Unique in the sandbox.
    pub process_id: String,
    /// No other process ever has this number.
    pub number: f64,
    /// The session whose state it started from.
    pub session_id: String,
    /// Its pid.
    pub pid: i32,
    /// The command as displayed.
    pub command: String,
    /// `killed`: by its caller or its session.
    #[napi(ts_type = "'running' | 'exited' | 'killed' | 'crashed'")]
    pub state: String,
    /// Milliseconds since the epoch.
    pub started_at: f64,
    /// Milliseconds since the epoch.
    pub ended_at: Option<f64>,
    /// Milliseconds since the epoch.
    pub last_output_at: Option<f64>,
    /// Milliseconds since the epoch.
    pub last_input_at: Option<f64>,
    /// Its terminal, while it runs.
    pub terminal: Option<NativeTerminal>,
    /// Exit code, if it exited.
    pub exit_code: Option<i32>,
    /// Signal, if a signal ended it.
    pub signal: Option<i32>,
    /// What ended it.
    #[napi(ts_type = "'exit' | 'signal' | 'timeout' | 'oom' | 'killed' | 'host-lost'")]
    pub reason: Option<String>,
    /// What has killed it.
    pub killed_by: Option<NativeKilledBy>,
    /// It belonged to an earlier sandbox of the same name.
    pub restored: bool,
    /// What was given with the start of such a process.
    pub definition: Option<String>,
}

/// What kills a command or a process, and why.
#[napi(object)]
pub struct NativeKilledBy {
    /// What kills it.
    #[napi(ts_type = "'timeout' | 'abort' | 'caller' | 'oom' | 'outputLimit' | 'session' | 'budget'")]
    pub by: String,
    /// In the caller's words.
    pub reason: Option<String>,
}

/// A part of a log.
#[napi(object, object_from_js = false)]
pub struct NativeLog {
    /// In order.
    pub pieces: Vec<NativeLogPiece>,
    /// The cursor to continue reading at.
    pub next: f64,
    /// Bytes from `cursor` on that no longer exist: beyond `logLimit`, the oldest are dropped.
    pub dropped: f64,
    /// Bytes that could not be kept because the disk was full.
    pub lost: f64,
    /// The process has ended and nothing follows `next`.
    pub ended: bool,
}

/// A piece of one stream.
#[napi(object, object_from_js = false)]
pub struct NativeLogPiece {
    /// 1 is stdout, 2 is stderr.
    pub stream: u32,
    /// Absolute offset in bytes of `data` in the whole log, counting both streams.
    pub cursor: f64,
    /// Never empty.
    pub data: Buffer,
    /// Milliseconds since the epoch.
    pub time: f64,
}

/// Which lines of a log to read.
#[napi(object, object_to_js = false)]
pub struct NativeLineQuery {
    /// The first line; a negative number counts from the end.
    pub from_line: f64,
    /// Maximum lines of the reply.
    pub lines: u32,
    /// The last lines instead of the first.
    pub tail: bool,
    /// Only lines that match.
    pub grep: Option<String>,
    /// Lines around each match.
    pub context: u32,
}

/// Lines of a log. The arrays have an entry for each line.
#[napi(object, object_from_js = false)]
pub struct NativeLogLines {
    /// All lines without their ends, one after another.
    pub data: Buffer,
    /// Where each line ends in `data`.
    pub ends: Vec<u32>,
    /// Its number.
    pub numbers: Vec<f64>,
    /// The sum of: 1 for stderr, 2 for a match, 4 for missing bytes, 8 for a line without a newline.
    pub flags: Vec<u32>,
    /// Lines of the whole log.
    pub total: f64,
    /// The first kept line.
    pub first: f64,
    /// Of a line that a wait was for: the text that matches, if that is not the line.
    pub input: Option<String>,
    /// Of such a line: where the match and its groups begin and end in that text, in units of UTF-16; -1 for a group
    /// without part in the match.
    pub spans: Option<Vec<i32>>,
    /// How many lines match.
    pub matches: Option<f64>,
    /// The first line that was left out because of the limits.
    pub next: Option<f64>,
}

/// A line to wait for.
#[napi(object, object_to_js = false)]
pub struct NativeWantedLine {
    /// A regular expression, in the syntax of the crate regex-lite, or a text.
    pub pattern: String,
    /// The pattern is a text.
    pub is_text: bool,
    /// The first line that counts; a negative number counts from the end. Without `cursor`.
    pub from_line: Option<f64>,
    /// The offset in the log at which to begin, as if a line began there.
    pub cursor: Option<f64>,
}

/// What to wait for, besides the end of a process.
#[napi(object, object_to_js = false)]
pub struct NativeConditions {
    /// Whether a program waits for input.
    pub input: bool,
    /// A line to wait for.
    pub log: Option<NativeWantedLine>,
    /// Milliseconds without output.
    pub idle: Option<u32>,
    /// Milliseconds, 0 for none.
    pub timeout: u32,
}

/// What a wait was for, and the process then.
#[napi(object, object_from_js = false)]
pub struct NativeFirst {
    /// What came first.
    #[napi(ts_type = "'exit' | 'input' | 'log' | 'idle' | 'timeout'")]
    pub first: String,
    /// The process.
    pub process: Option<NativeProcess>,
    /// The line, for `log`.
    pub log_lines: Option<NativeLogLines>,
    /// The program, for `input`.
    pub waiting: Option<NativeWaiting>,
}

/// A program that waits for input.
#[napi(object, object_from_js = false)]
pub struct NativeWaiting {
    /// Whether it waits for other things too.
    pub listening: bool,
    /// Whether it could be looked at.
    pub sure: bool,
    /// What it reads, and how.
    #[napi(ts_type = "'line' | 'secret' | 'keys' | 'pipe'")]
    pub how: String,
    /// Its name.
    pub program: String,
    /// Its process.
    pub pid: i32,
    /// Whether it goes on by itself after some time.
    pub timed: bool,
}

/// A TCP port on which a program listens.
#[napi(object, object_from_js = false)]
pub struct NativePort {
    /// Its number.
    pub port: u32,
    /// The address, without the port.
    pub address: String,
    /// The program's process.
    pub pid: i32,
    /// The beginning of its command line.
    pub command: String,
    /// Its session.
    pub session_id: String,
    /// The background process that it belongs to.
    pub process_id: Option<String>,
}

/// Resource usage of a process and its tree, or of sessions.
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
    /// Of sessions: open descriptors of their processes.
    pub open_files: Option<f64>,
    /// Of sessions: the terminals of their processes.
    pub terminals: Option<u32>,
    /// Of sessions: how many.
    pub sessions: Option<u32>,
}
