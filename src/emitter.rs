//! Events for JavaScript: one threadsafe function per sandbox.

use crate::process;
use crate::types::{
    NativeBlocker, NativeCommandUsage, NativeDenial, NativeEvent, NativeQuestion, NativeRequest, NativeResult,
};
use crate::value::Value;
use nacre_core::error::{Code, Error};
use nacre_core::exec::{Blocker, Outcome, Usage};
use nacre_core::questions::Question;
use nacre_core::wanted::{Denial, DeniedUse, FileRefusal, PassedBytes, Request};
use napi::bindgen_prelude::{Buffer, Either, Env, Function, Result, ToNapiValue, Uint32Array};
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};
use napi::{Status, sys};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

type Callback = ThreadsafeFunction<NativeEvent, (), Converted, Status, false, true>;

/// Maximum bytes of a string. Longer text is sent as bytes and decoded in slices: one large string would stall the
/// event loop.
const LONGEST_STRING: usize = 1 << 20;

/// Sends events from any thread. Does nothing after the end of the environment.
pub struct Emitter {
    callback: Callback,
}

impl Emitter {
    /// Creates an emitter. The queue is unbounded, but the windows of commands and the limits of questions bound its content.
    pub fn new(callback: Function<'_, NativeEvent, ()>) -> Result<Self> {
        let builder = callback.build_threadsafe_function::<NativeEvent>().callee_handled::<false>().weak::<true>();
        let callback = builder.build_callback(|context| convert(context.env.raw(), context.value))?;
        Ok(Self { callback })
    }

    /// Sends an event.
    pub fn emit(&self, event: NativeEvent) {
        self.callback.call(event, ThreadsafeFunctionCallMode::NonBlocking);
    }

    /// Sends the last event of a call that is no command.
    pub fn settle(&self, id: u32, result: std::result::Result<Value, Error>) {
        self.emit(match result {
            Ok(value) => NativeEvent::Done { id, value },
            Err(error) => failed(id, error, false),
        });
    }

    /// Sets whether pending events keep the event loop alive. Only on the JavaScript thread.
    pub fn keep_alive(&self, env: &Env, on: bool) {
        // SAFETY: both calls require the environment's thread, on which this is called, and a function that has not
        // been released, which `self` guarantees.
        unsafe {
            if on {
                sys::napi_ref_threadsafe_function(env.raw(), self.callback.raw());
            } else {
                sys::napi_unref_threadsafe_function(env.raw(), self.callback.raw());
            }
        }
    }
}

/// An event as a JavaScript value.
struct Converted(sys::napi_value);

impl ToNapiValue for Converted {
    unsafe fn to_napi_value(_: sys::napi_env, Self(value): Self) -> Result<sys::napi_value> {
        Ok(value)
    }
}

/// Converts an event. Every call is answered: its last event becomes an error if it cannot be converted, for lack of memory for
/// example.
fn convert(env: sys::napi_env, event: NativeEvent) -> Result<Converted> {
    let ended = match event {
        NativeEvent::Result { id, .. } | NativeEvent::Done { id, .. } | NativeEvent::Error { id, .. } => Some(id),
        _ => None,
    };
    // SAFETY: the environment is that of this thread.
    match (unsafe { NativeEvent::to_napi_value(env, event) }, ended) {
        (Err(error), Some(id)) => {
            let message = format!("the result cannot be passed to JavaScript: {}", error.reason);
            let event = failed(id, Error::new(Code::EngineError, message), false);
            // SAFETY: as above. An exception that is pending would refuse the next value, too.
            unsafe {
                sys::napi_get_and_clear_last_exception(env, &mut std::ptr::null_mut());
                NativeEvent::to_napi_value(env, event)
            }
        }
        (converted, _) => converted,
    }
    .map(Converted)
}

/// The last event of a command.
pub fn ended(id: u32, outcome: Outcome, as_text: bool) -> NativeEvent {
    NativeEvent::Result { id, result: result(outcome, as_text) }
}

/// The last event of a failed call.
pub fn failed(id: u32, error: Error, as_text: bool) -> NativeEvent {
    NativeEvent::Error {
        id,
        code: error.code.as_str().into(),
        message: error.message,
        path: error.path,
        paths: (!error.paths.is_empty()).then(|| error.paths.iter().map(|path| text(path)).collect()),
        result: error.outcome.map(|outcome| result(*outcome, as_text)),
    }
}

fn text(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}

/// Converts what a command has used to JavaScript types.
pub fn usage(used: Usage, traffic: Option<PassedBytes>) -> NativeCommandUsage {
    NativeCommandUsage {
        cpu: used.cpu.as_secs_f64() * 1000.0,
        disk_read: (used.read > 0).then_some(used.read as f64),
        disk_written: (used.written > 0).then_some(used.written as f64),
        sent: traffic.map(|[sent, _]| sent as f64),
        received: traffic.map(|[_, received]| received as f64),
    }
}

/// Converts the result to JavaScript types.
pub fn result(outcome: Outcome, as_text: bool) -> NativeResult {
    let usage = outcome.usage.map(|used| usage(used, outcome.traffic));
    let since_epoch = outcome.started_at.and_then(|at| at.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
    NativeResult {
        exit_code: outcome.exit_code,
        signal: outcome.signal,
        // If the middle is missing, JavaScript needs the bytes on both sides of the gap.
        stdout: output(outcome.stdout, as_text && outcome.dropped.0 == 0),
        stderr: output(outcome.stderr, as_text && outcome.dropped.1 == 0),
        order: outcome.order.map(Uint32Array::from),
        cwd: outcome.cwd.to_string_lossy().into_owned(),
        duration: outcome.duration.as_secs_f64() * 1000.0,
        started_at: since_epoch.as_secs_f64() * 1000.0,
        cpu: usage.as_ref().map(|usage| usage.cpu),
        disk_read: usage.as_ref().and_then(|usage| usage.disk_read),
        disk_written: usage.as_ref().and_then(|usage| usage.disk_written),
        sent: usage.as_ref().and_then(|usage| usage.sent),
        received: usage.as_ref().and_then(|usage| usage.received),
        timed_out: outcome.timed_out.then_some(true),
        cancelled: outcome.cancelled.then_some(true),
        killed_by: outcome.killed_by.map(process::killer),
        waited_for: outcome.waited_for.map(|Blocker { command, is_unread, started_at }| NativeBlocker {
            command,
            is_unread,
            started_at: process::since_epoch(started_at),
        }),
        output_limited: outcome.output_limited.then_some(true),
        dropped_stdout: (outcome.dropped.0 > 0).then_some(outcome.dropped.0 as f64),
        dropped_stderr: (outcome.dropped.1 > 0).then_some(outcome.dropped.1 as f64),
        session_restarted: outcome.restarted.then_some(true),
        lost_state: (!outcome.lost_state.is_empty()).then(|| outcome.lost_state.into_iter().map(Into::into).collect()),
        denials: (!outcome.denials.is_empty()).then(|| outcome.denials.into_iter().map(denial).collect()),
        withheld: (!outcome.withheld.is_empty()).then_some(outcome.withheld),
    }
}

/// Converts a denial to JavaScript types.
pub fn denial(Denial { what, caller }: Denial) -> NativeDenial {
    let caller = caller.map(Arc::unwrap_or_clone);
    let shown = |path: PathBuf| path.to_string_lossy().into_owned();
    let what = match what {
        DeniedUse::Connection(wanted, cause) => NativeDenial {
            target: wanted.target,
            cause: cause.as_str().into(),
            request: wanted.request.map(request),
            reason: cause.reason().map(|reason| reason.as_str().into()),
            ..NativeDenial::default()
        },
        DeniedUse::File(FileRefusal { path, rule, tree }) => NativeDenial {
            target: shown(path),
            cause: rule.as_str().into(),
            tree: Some(shown(tree)),
            ..NativeDenial::default()
        },
        DeniedUse::Call(target) => NativeDenial { target, cause: "call".into(), ..NativeDenial::default() },
        DeniedUse::InternetSocket(target) => {
            NativeDenial { target, cause: "internet-socket".into(), ..NativeDenial::default() }
        }
        DeniedUse::Limit(name) => {
            NativeDenial { target: name.into(), cause: "limit".into(), ..NativeDenial::default() }
        }
        DeniedUse::Config(target) => NativeDenial { target, cause: "config".into(), ..NativeDenial::default() },
        DeniedUse::Appeared(target) => NativeDenial { target, cause: "appeared".into(), ..NativeDenial::default() },
    };
    NativeDenial {
        pid: caller.as_ref().map(|caller| caller.pid),
        program: caller.as_ref().and_then(|caller| caller.program.clone()),
        command: caller.and_then(|caller| caller.command),
        ..what
    }
}

/// Converts a request to JavaScript types.
pub fn request(Request { method, path }: Request) -> NativeRequest {
    NativeRequest { method, path }
}

/// Converts a question to JavaScript types.
pub fn question(question: &Question) -> NativeQuestion {
    NativeQuestion {
        id: question.id.to_string(),
        session_id: question.session.clone(),
        target: question.wanted.target.clone(),
        request: question.wanted.request.clone().map(request),
        asked_at: process::since_epoch(question.asked_at),
        expires_at: process::since_epoch(question.expires_at),
        answerer: question.answerer.clone(),
    }
}

fn output(bytes: Vec<u8>, as_text: bool) -> Either<String, Buffer> {
    if !as_text || bytes.len() > LONGEST_STRING {
        return Either::B(Buffer::from(bytes));
    }
    // Invalid UTF-8 is also decoded in JavaScript: only there the boundaries between the streams are known.
    String::from_utf8(bytes).map_or_else(|error| Either::B(Buffer::from(error.into_bytes())), Either::A)
}
