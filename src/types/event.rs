//! Events from the engine.

use super::exec::NativeResult;
use super::sandbox::NativeQuestion;
use crate::piece::Piece;
use crate::socket::Socket;
use crate::value::Value;
use napi_derive::napi;

/// An event. A call ends with one `result`, `done` or `error`.
#[napi(discriminant = "kind", discriminant_case = "lowercase", object_from_js = false)]
pub enum NativeEvent {
    /// A command has begun.
    Start {
        /// Of the call.
        id: u32,
        /// The pid of its shell.
        pid: i32,
    },
    /// A command has printed something.
    Output {
        /// Of the call.
        id: u32,
        /// 1 is stdout, 2 is stderr.
        stream: u32,
        /// At most 256 KiB.
        #[napi(ts_type = "Buffer")]
        data: Piece,
    },
    /// A command has ended.
    Result {
        /// Of the call.
        id: u32,
        /// What it returns.
        result: NativeResult,
    },
    /// Any other call has ended.
    Done {
        /// Of the call.
        id: u32,
        /// What the call returns: the `T` of its `Pending<T>`.
        #[napi(ts_type = "unknown")]
        value: Value,
    },
    /// A call has failed.
    Error {
        /// Of the call.
        id: u32,
        /// A code of SandboxError.
        code: String,
        /// In one sentence.
        message: String,
        /// The file concerned.
        path: Option<String>,
        /// The paths in conflict, relative to the workspace.
        paths: Option<Vec<String>>,
        /// Of a command: the result so far.
        result: Option<NativeResult>,
    },
    /// The engine reports something.
    Log {
        /// How much it matters.
        #[napi(ts_type = "'debug' | 'info' | 'warn' | 'error'")]
        level: String,
        /// In one line.
        message: String,
    },
    /// A program calls a command of the host.
    Called {
        /// Of the program.
        session_id: String,
        /// A connected socket, which is JavaScript's from now on.
        #[napi(ts_type = "number")]
        socket: Socket,
    },
    /// A session has ended, or its shell has exited without `surviveExit`.
    Ended {
        /// Its id.
        session_id: String,
    },
    /// A request needs a function of rules.
    Function {
        /// Of the program that sends it.
        session_id: String,
        /// Of the function.
        name: String,
        /// For `forwardRequest`.
        request: u32,
        /// Absent: it answers the request. Otherwise it knows the value for which this stands.
        placeholder: Option<String>,
        /// A connected socket, which is JavaScript's from now on.
        #[napi(ts_type = "number")]
        socket: Socket,
    },
    /// A request of a traced command begins.
    Request {
        /// Its number.
        request: f64,
        /// The id of the call of the command.
        id: u32,
        /// What it is.
        about: NativeTracedRequest,
    },
    /// It has ended.
    Reply {
        /// Its number.
        request: f64,
        /// None: it ended before a reply.
        status: Option<u32>,
        /// Why it was refused.
        #[napi(ts_type = "'rule' | 'host'")]
        denied: Option<String>,
    },
    /// A connection waits for an answer.
    Question {
        /// To which host.
        question: NativeQuestion,
    },
}

/// A request of a traced command.
#[napi(object, object_from_js = false)]
pub struct NativeTracedRequest {
    /// As it was sent.
    pub method: String,
    /// `https` or `http`.
    pub scheme: String,
    /// A name.
    pub host: String,
    /// Its port.
    pub port: u32,
    /// Without the query.
    pub path: String,
    /// The context of the trace that it names.
    pub traceparent: Option<String>,
}
