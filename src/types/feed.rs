//! The feed of events.

use super::exec::NativeCommandUsage;
use super::process::{NativeKilledBy, NativePty, NativeWaiting};
use super::sandbox::{NativeDenial, NativeRequest};
use napi::bindgen_prelude::Buffer;
use napi_derive::napi;

/// Events that were read.
#[napi(object, object_from_js = false)]
pub struct NativeFeed {
    /// In order.
    pub events: Vec<NativeFeedEvent>,
    /// How many events before them are no longer kept.
    pub lost: f64,
    /// Nothing follows.
    pub is_over: bool,
}

/// An event. Which members are set depends on its kind.
#[napi(object, object_from_js = false)]
#[derive(Default)]
pub struct NativeFeedEvent {
    /// Its number.
    pub cursor: f64,
    /// Milliseconds since the epoch.
    pub time: f64,
    /// Where it has happened.
    pub session_id: String,
    /// What has happened.
    #[napi(
        ts_type = "'sessionStarted' | 'sessionEnded' | 'commandQueued' | 'commandStarted' | 'commandOutput' | 'commandWaiting' | 'processWaiting' | 'commandDetached' | 'commandEnded' | 'processStarted' | 'processResized' | 'processEnded' | 'serviceRestarted' | 'denied' | 'request' | 'asked' | 'answered'"
    )]
    pub kind: String,
    /// The command or the process.
    pub id: Option<String>,
    /// As displayed.
    pub command: Option<String>,
    /// The pid.
    pub pid: Option<i32>,
    /// Bytes of both streams so far, or of the bodies of a request and its reply.
    pub total: Option<Vec<f64>>,
    /// The newest bytes of standard output.
    pub stdout: Option<Buffer>,
    /// The newest bytes of standard error.
    pub stderr: Option<Buffer>,
    /// What a program waits for.
    pub waiting: Option<NativeWaiting>,
    /// The process that a command has become.
    pub process_id: Option<String>,
    /// Exit code, if it exited.
    pub exit_code: Option<i32>,
    /// Signal, if a signal ended it.
    pub signal: Option<i32>,
    /// Why a process ended.
    #[napi(ts_type = "'exit' | 'signal' | 'timeout' | 'oom' | 'killed' | 'host-lost'")]
    pub reason: Option<String>,
    /// What has killed it.
    pub killed_by: Option<NativeKilledBy>,
    /// Milliseconds.
    pub duration: Option<f64>,
    /// The directory after a command.
    pub cwd: Option<String>,
    /// What a command has used.
    pub usage: Option<NativeCommandUsage>,
    /// The size of the terminal of a process, if it has one.
    pub terminal: Option<NativePty>,
    /// Restarts so far.
    pub restarts: Option<u32>,
    /// What was asked for.
    pub target: Option<String>,
    /// The request, also one that was asked for, if it was not the connection.
    pub request: Option<NativeRequest>,
    /// What was refused.
    pub denial: Option<NativeDenial>,
    /// Why a request was refused.
    #[napi(ts_type = "'rule' | 'host' | 'tls-name' | 'not-http' | 'untrusted'")]
    pub denied: Option<String>,
    /// The status of the reply, if there was one.
    pub status: Option<u32>,
    /// The names of the secrets of a request.
    pub secrets: Option<Vec<String>>,
    /// The protocol of a request.
    #[napi(ts_type = "'http/1.1' | 'h2'")]
    pub protocol: Option<String>,
    /// When a question is over; milliseconds since the epoch.
    pub expires_at: Option<f64>,
    /// The answer to a question, if there was one.
    #[napi(ts_type = "'once' | 'session' | 'deny'")]
    pub answer: Option<String>,
}
