//! Events from the engine.

use super::exec::NativeResult;
use super::file::{NativeFile, NativeFileChange};
use super::job::{NativeJob, NativeJobStatus};
use super::process::{NativeLog, NativeProcess, NativeStats};
use crate::piece::Piece;
use napi_derive::napi;

/// An event.
#[napi(object, object_from_js = false)]
#[derive(Default)]
pub struct NativeEvent {
    /// The id of the call.
    pub id: u32,
    /// `start`, `output`, `result`, `done`, `error` or `log`.
    pub kind: String,
    /// Of `start`: the pid of the shell.
    pub pid: Option<i32>,
    /// Of `output`: the stream, 1 or 2.
    pub stream: Option<u32>,
    /// Of `output`: the bytes.
    pub data: Option<Piece>,
    /// Of `result`, and of `error` when there is one.
    pub result: Option<NativeResult>,
    /// Of `error`: its code. Of `log`: the level.
    pub code: Option<String>,
    /// Of `error` and `log`: the message.
    pub message: Option<String>,
    /// Of `done`: a process that was started or has ended.
    pub process: Option<NativeProcess>,
    /// Of `done`: there was something to kill.
    pub killed: Option<bool>,
    /// Of `done`: a part of a log.
    pub log: Option<NativeLog>,
    /// Of `done`: the resource usage of a process.
    pub stats: Option<NativeStats>,
    /// Of `done`: where the tree listens on the port: `no`, `here` or `inside`.
    pub listens: Option<String>,
    /// Of `done`: a job that was started or found.
    pub job: Option<NativeJob>,
    /// Of `done`: all jobs.
    pub jobs: Option<Vec<NativeJob>>,
    /// Of `done`: the state of a job.
    pub job_status: Option<NativeJobStatus>,
    /// Of `done`: a file.
    pub file: Option<NativeFile>,
    /// Of `done`: a part of a list.
    pub files: Option<Vec<NativeFile>>,
    /// Of `done`: what a watch has seen.
    pub changes: Option<Vec<NativeFileChange>>,
    /// Of `done`: what is open now.
    pub handle: Option<u32>,
    /// Of `error`: the file that it is about.
    pub path: Option<String>,
    /// Of `done` with `data`: nothing followed it.
    pub at_end: Option<bool>,
}
