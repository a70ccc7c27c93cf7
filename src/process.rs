//! Conversions of background processes between the core's types and JavaScript's.

use crate::types::{
    NativeDetachedProcess, NativeLimits, NativeLog, NativeLogPiece, NativeProcess, NativeProcessStart, NativeStats,
    NativeWaiting,
};
use crate::variables::zip;
use nacre_core::exec::{Command, Input, InputWriter, KillPolicy, OutputStream};
use nacre_core::limits::{Enforcement, Limits};
use nacre_core::process::terminal::Size;
use nacre_core::process::{DetachedProcess, How, NewProcess, Process, Reason, Stats, Waiting};
use nacre_core::process_log::LogSlice;
use napi::bindgen_prelude::Buffer;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Converts the request for a process.
pub fn new_process(request: NativeProcessStart) -> NewProcess {
    let (input, writer) = match request.input.as_str() {
        "bytes" => (Input::Bytes(request.input_bytes.map(|bytes| bytes.to_vec()).unwrap_or_default().into()), None),
        "open" => {
            let (writer, input) = InputWriter::open();
            (input, Some(writer))
        }
        _ => (Input::None, None),
    };
    let command = match (request.text, request.argv) {
        (Some(text), _) => Command::Text(text.into_bytes()),
        (None, argv) => Command::Argv(argv.unwrap_or_default().into_iter().map(String::into_bytes).collect()),
    };
    NewProcess {
        id: request.process_id,
        shown: request.command,
        command,
        cwd: request.cwd.map(Into::into),
        env: zip(request.env_names, request.env_values),
        timeout: (request.timeout > 0).then(|| Duration::from_millis(u64::from(request.timeout))),
        kill: policy(request.kill_signal, request.force_kill_after_delay),
        input,
        writer,
        wanted_limits: request.limits.map(limits).unwrap_or_default(),
        limits: Enforcement::default(),
        merge_output: request.merge_output,
        terminal: request.pty.map(|pty| size(pty.cols, pty.rows)),
        log_limit: request.log_limit as u64,
        window: request.window.map(|bytes| bytes as u64),
        auto_cleanup: request.auto_cleanup,
    }
}

/// Converts what a command is to become.
pub fn detached(process: NativeDetachedProcess, writer: Option<InputWriter>) -> DetachedProcess {
    DetachedProcess {
        id: process.process_id,
        shown: process.command,
        writer,
        ends_call: process.ends_call,
        log_limit: process.log_limit as u64,
        auto_cleanup: process.auto_cleanup,
    }
}

/// Converts limits.
pub fn limits(limits: NativeLimits) -> Limits {
    Limits {
        memory: limits.memory.map(|bytes| bytes as u64),
        cpus: limits.cpus,
        pids: limits.pids.map(u64::from),
        open_files: limits.open_files.map(u64::from),
    }
}

/// Converts the size of a terminal. The TypeScript layer has checked the numbers.
pub fn size(cols: u32, rows: u32) -> Size {
    Size { cols: cols as u16, rows: rows as u16 }
}

/// The kill policy of a process.
pub fn policy(signal: i32, force_kill_after_delay: u32) -> KillPolicy {
    KillPolicy { signal, grace: Duration::from_millis(u64::from(force_kill_after_delay)) }
}

/// Converts a started process; `None` while it is starting.
pub fn shown(process: &Process) -> Option<NativeProcess> {
    let life = process.life();
    let birth = life.birth?;
    let exit = life.end.map(|(exit, _)| exit);
    let status = match exit.map(|exit| (exit.reason, exit.code)) {
        None => "running",
        Some((Reason::Lost, _)) => "error",
        Some((Reason::Killed, _)) => "killed",
        Some((Reason::Exit, Some(0))) => "completed",
        Some(_) => "failed",
    };
    let reason = exit.and_then(|exit| match exit.reason {
        Reason::Exit => Some("exit"),
        Reason::Signal => Some("signal"),
        Reason::Timeout => Some("timeout"),
        Reason::OutOfMemory => Some("oom"),
        Reason::Killed => Some("killed"),
        Reason::Lost => None,
    });
    Some(NativeProcess {
        process_id: process.id.clone(),
        number: process.number as f64,
        session_id: process.session.id().into(),
        pid: birth.pid.raw(),
        command: process.command.clone(),
        status: status.into(),
        started_at: since_epoch(birth.at),
        ended_at: life.end.map(|(_, at)| since_epoch(at)),
        exit_code: exit.and_then(|exit| exit.code),
        signal: exit.and_then(|exit| exit.signal),
        reason: reason.map(Into::into),
    })
}

/// Converts a part of a log.
pub fn log(slice: LogSlice) -> NativeLog {
    let piece = |piece: nacre_core::process_log::Piece| NativeLogPiece {
        stream: if piece.stream == OutputStream::Stdout { 1 } else { 2 },
        cursor: piece.cursor as f64,
        data: Buffer::from(piece.bytes),
        time: piece.time_ms as f64,
    };
    NativeLog {
        pieces: slice.pieces.into_iter().map(piece).collect(),
        next: slice.next as f64,
        dropped: slice.dropped as f64,
        lost: slice.lost as f64,
        ended: slice.ended,
    }
}

/// Converts resource usage.
pub fn stats(stats: Stats) -> NativeStats {
    NativeStats {
        cpu_time: stats.cpu_time.as_secs_f64() * 1000.0,
        memory: stats.memory as f64,
        memory_peak: stats.memory_peak as f64,
        pids: stats.pids as u32,
        io_read: stats.io_read as f64,
        io_write: stats.io_write as f64,
    }
}

/// Converts a program that waits for input.
pub fn waiting(waiting: Waiting) -> NativeWaiting {
    let how = match waiting.how {
        How::Line => "line",
        How::Secret => "secret",
        How::Keys => "keys",
        How::Pipe => "pipe",
    };
    NativeWaiting {
        listening: waiting.is_listening,
        sure: waiting.is_sure,
        how: how.into(),
        program: waiting.program,
        pid: waiting.pid.raw(),
        timed: waiting.is_timed,
    }
}

fn since_epoch(at: SystemTime) -> f64 {
    at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64() * 1000.0
}
