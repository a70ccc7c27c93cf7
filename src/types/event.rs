//! Events from the engine.

use super::exec::{NativeResult, NativeRunning};
use super::feed::NativeFeed;
use super::file::{NativeFile, NativeFileChange};
use super::job::{NativeJob, NativeJobStatus};
use super::process::{NativeLog, NativeLogLines, NativePort, NativeProcess, NativeStats, NativeWaiting};
use super::sandbox::{NativeCapabilities, NativeQuestion};
use super::workspace::{NativeChanges, NativeCommit, NativeNamed, NativePoint, NativeRollback, NativeUsage};
use crate::piece::Piece;
use crate::socket::Socket;
use napi_derive::napi;
use std::collections::HashMap;

/// An event.
#[napi(object, object_from_js = false)]
#[derive(Default)]
pub struct NativeEvent {
    /// The id of the call.
    pub id: u32,
    /// `start`, `output`, `result`, `done` or `error`; `log` and `question` belong to no call.
    #[napi(ts_type = "'start' | 'output' | 'result' | 'done' | 'error' | 'log' | 'question'")]
    pub kind: String,
    /// In `start`: the pid of the shell.
    pub pid: Option<i32>,
    /// In `output`: 1 is stdout, 2 is stderr.
    pub stream: Option<u32>,
    /// At most 256 KiB. In `done`: a part of a job's output, or a whole patch.
    #[napi(ts_type = "Buffer")]
    pub data: Option<Piece>,
    /// In `result`; also in `error` if there is a partial result.
    pub result: Option<NativeResult>,
    /// In `error`, a code of SandboxError; in `log`, the level.
    pub code: Option<String>,
    /// In `error` and `log`: the message.
    pub message: Option<String>,
    /// In `done`; which of the following are set depends on the call.
    pub process: Option<NativeProcess>,
    /// In `done`: whether there was a process to kill.
    pub killed: Option<bool>,
    /// In `done`: the running and queued commands of a session.
    pub running: Option<Vec<NativeRunning>>,
    /// In `done`: events of the feed.
    pub feed: Option<NativeFeed>,
    /// In `done`: a part of a log.
    pub log: Option<NativeLog>,
    /// What a waitFor was for.
    #[napi(ts_type = "'exit' | 'input' | 'log' | 'idle' | 'timeout'")]
    pub first: Option<String>,
    /// In `done`: lines of a log.
    pub log_lines: Option<NativeLogLines>,
    /// In `done`: the resource usage of a process or of sessions.
    pub stats: Option<NativeStats>,
    /// In `done`: the program of a process that waits for input, if there is one.
    pub waiting: Option<NativeWaiting>,
    /// In `done`: whether a process of the tree listens.
    pub listens: Option<bool>,
    /// In `done`: where programs listen.
    pub ports: Option<Vec<NativePort>>,
    /// In `question`: a connection that waits for an answer.
    pub question: Option<NativeQuestion>,
    /// In `done`: a job that was started or found.
    pub job: Option<NativeJob>,
    /// In `done`: all jobs.
    pub jobs: Option<Vec<NativeJob>>,
    /// In `done`: the state of a job.
    pub job_status: Option<NativeJobStatus>,
    /// In `done`: the capabilities of this system.
    pub capabilities: Option<NativeCapabilities>,
    /// In `done`: a file.
    pub file: Option<NativeFile>,
    /// In `done`: the extended attributes of a file.
    pub attributes: Option<HashMap<String, String>>,
    /// In `done`: a part of a list.
    pub files: Option<Vec<NativeFile>>,
    /// In `done`: the changes that a watch has seen.
    pub changes: Option<Vec<NativeFileChange>>,
    /// In `done`: the changed paths of a workspace.
    pub workspace_changes: Option<NativeChanges>,
    /// In `done`: what the layers of a workspace take.
    pub usage: Option<NativeUsage>,
    /// In `done`: what a commit of a workspace has applied.
    pub commit: Option<NativeCommit>,
    /// In `done`: the workspaces whose layers are kept.
    pub workspaces: Option<Vec<NativeNamed>>,
    /// In `done`: checkpoints.
    pub points: Option<Vec<NativePoint>>,
    /// In `done`: what a rollback has ended.
    pub rollback: Option<NativeRollback>,
    /// In `done`: whether forks were made.
    pub forked: Option<bool>,
    /// In `done`: the number of changes that were discarded.
    pub discarded: Option<f64>,
    /// In `done`: a connected socket, which belongs to JavaScript from now on.
    #[napi(ts_type = "number")]
    pub socket: Option<Socket>,
    /// In `done`: the handle of what was opened.
    pub handle: Option<u32>,
    /// In `error`: the file concerned.
    pub path: Option<String>,
    /// In `error`: the paths in conflict, relative to the workspace.
    pub paths: Option<Vec<String>>,
    /// In `done` with `data`: whether nothing follows it.
    pub at_end: Option<bool>,
}
