//! Conversions of background processes between the core's types and JavaScript's.

use crate::text::Text;
use crate::types::{
    NativeConditions, NativeDetachedProcess, NativeFirst, NativeKilledBy, NativeLimits, NativeLineQuery, NativeLog,
    NativeLogLines, NativeLogPiece, NativeMessages, NativePort, NativeProcess, NativeProcessStart, NativePty,
    NativeRunning, NativeStats, NativeTerminal, NativeWaiting, NativeWantedLine,
};
use crate::variables::zip;
use nacre_core::error::{Code, Error};
use nacre_core::exec::{By, Command, Input, InputWriter, KillPolicy, KilledBy, OutputStream};
use nacre_core::limits::{Enforcement, Limits};
use nacre_core::process::messages::{Failure, MessageBatch, Rest};
use nacre_core::process::terminal::Size;
use nacre_core::process::{
    Conditions, DetachedProcess, First, How, NewProcess, Process, Reason, SessionStats, Stats, Waiting,
};
use nacre_core::process_log::{FoundLine, FoundLines, From, LineQuery, LogSlice, Match, Pattern, WantedLine};
use nacre_core::sandbox::OpenPort;
use nacre_core::session::RunningCommand;
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
        ipc: request.ipc,
        merge_output: request.merge_output,
        terminal: request.pty.map(|pty| size(pty.cols, pty.rows)),
        log_limit: request.log_limit as u64,
        window: request.window.map(|bytes| bytes as u64),
        auto_cleanup: request.auto_cleanup,
        is_hidden: request.hidden.unwrap_or_default(),
        definition: request.definition,
    }
}

/// Converts what a command can become.
pub fn detached(process: NativeDetachedProcess, writer: Option<InputWriter>, request: u32) -> DetachedProcess {
    DetachedProcess {
        id: process.process_id,
        shown: process.command,
        writer,
        log_limit: process.log_limit as u64,
        keeps_log: process.keeps_log,
        auto_cleanup: process.auto_cleanup,
        request: request.into(),
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

/// Converts the size of a terminal for JavaScript.
pub fn pty(size: Size) -> NativePty {
    NativePty { cols: size.cols.into(), rows: size.rows.into() }
}

/// Converts the size of a terminal. The TypeScript layer has checked the numbers.
pub fn size(cols: u32, rows: u32) -> Size {
    Size { cols: cols as u16, rows: rows as u16 }
}

/// Converts what kills for a caller.
pub fn killed_by(killer: NativeKilledBy) -> KilledBy {
    KilledBy { by: if killer.by == "abort" { By::Abort } else { By::Caller }, reason: killer.reason }
}

/// Converts what has killed.
pub fn killer(killed_by: KilledBy) -> NativeKilledBy {
    NativeKilledBy { by: killed_by.by.name().into(), reason: killed_by.reason }
}

/// The kill policy of a process.
pub fn policy(signal: i32, force_kill_after_delay: u32) -> KillPolicy {
    KillPolicy { signal, grace: Duration::from_millis(u64::from(force_kill_after_delay)) }
}

/// Converts a started process; `None` while it is starting, or is a command in the foreground.
pub fn shown(process: &Process) -> Option<NativeProcess> {
    state(process).filter(|_| !process.is_command())
}

/// Converts the state of a process that has begun.
pub fn begun(process: &Process) -> Result<NativeProcess, Error> {
    shown(process).ok_or_else(Error::engine_failed)
}

/// Converts the state of a process, or of a command; `None` if it has not begun.
pub fn state(process: &Process) -> Option<NativeProcess> {
    let life = process.life();
    let birth = life.birth?;
    let exit = life.end.map(|(exit, _)| exit);
    let state = match exit.map(|exit| exit.reason) {
        None => "running",
        Some(Reason::Lost | Reason::HostLost) => "crashed",
        Some(Reason::Killed) => "killed",
        Some(_) => "exited",
    };
    let reason = exit.and_then(|exit| reason(exit.reason));
    Some(NativeProcess {
        process_id: process.id.clone(),
        number: process.number as f64,
        session_id: process.session.id().into(),
        pid: birth.pid.raw(),
        command: process.command.clone(),
        state: state.into(),
        started_at: since_epoch(birth.at),
        ended_at: life.end.map(|(_, at)| since_epoch(at)),
        last_output_at: process.log.last_ms().map(|time| time as f64),
        last_input_at: process.last_input_ms().map(|time| time as f64),
        terminal: process.terminal().map(|(size, mode)| NativeTerminal {
            cols: size.cols.into(),
            rows: size.rows.into(),
            echo: mode.echoes,
            canonical: mode.reads_lines,
        }),
        exit_code: exit.and_then(|exit| exit.code),
        signal: exit.and_then(|exit| exit.signal),
        reason: reason.map(Into::into),
        killed_by: life.killed_by.map(killer),
        restored: process.is_restored,
        definition: process.definition.clone().filter(|_| process.is_restored),
    })
}

/// The name of the reason; `None` if the process was lost.
pub fn reason(reason: Reason) -> Option<&'static str> {
    match reason {
        Reason::Exit => Some("exit"),
        Reason::Signal => Some("signal"),
        Reason::Timeout => Some("timeout"),
        Reason::OutOfMemory => Some("oom"),
        Reason::Killed => Some("killed"),
        Reason::HostLost => Some("host-lost"),
        Reason::Lost => None,
    }
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

/// Converts messages of a process.
pub fn messages(batch: MessageBatch) -> NativeMessages {
    let MessageBatch { lines, first, is_over, rest } = batch;
    let rest = rest.map(|rest| match rest {
        Rest::TooLong => "tooLong",
        Rest::Cut => "cut",
    });
    NativeMessages { lines: Text(lines), first: first as f64, is_over, rest }
}

/// The error for a message that was not sent.
pub fn message_error(failure: Failure, process: &Process) -> Error {
    let id = &process.id;
    let (code, text) = match failure {
        Failure::Closed if process.life().end.is_some() => (Code::ChannelClosed, format!("process '{id}' has ended")),
        Failure::Closed => (Code::ChannelClosed, format!("the channel of messages with process '{id}' is closed")),
        Failure::Full => (
            Code::ChannelFull,
            format!("process '{id}' does not read its messages, and too many wait; await send before the next one"),
        ),
    };
    Error::new(code, text)
}

/// Converts what to wait for.
pub fn conditions(conditions: NativeConditions) -> Conditions {
    let time = |milliseconds: u32| Duration::from_millis(u64::from(milliseconds));
    Conditions {
        input: conditions.input,
        line: conditions.log.map(wanted_line),
        idle: conditions.idle.map(time),
        timeout: (conditions.timeout > 0).then(|| time(conditions.timeout)),
    }
}

fn wanted_line(line: NativeWantedLine) -> WantedLine {
    let NativeWantedLine { pattern, is_text, from_line, cursor } = line;
    let (option, from) = match cursor {
        Some(cursor) => ("pattern", From::Offset(cursor as u64)),
        None => ("log", From::Line(from_line.unwrap_or(1.0) as i64)),
    };
    WantedLine { pattern: if is_text { Pattern::Text(pattern) } else { Pattern::Expression(pattern) }, option, from }
}

/// Converts what came first.
pub fn first(first: First, process: &Process) -> NativeFirst {
    let (name, found, program) = match first {
        First::Exit => ("exit", None, None),
        First::Input(program) => ("input", None, Some(program)),
        First::Line(line, place) => ("log", Some((line, place)), None),
        First::Idle => ("idle", None, None),
        First::Timeout => ("timeout", None, None),
    };
    let spans = |spans: Vec<Option<(usize, usize)>>| {
        spans.into_iter().flat_map(|span| span.map_or([-1, -1], |(start, end)| [start as i32, end as i32])).collect()
    };
    let lines = |(line, place): (FoundLine, Match)| NativeLogLines {
        input: place.input,
        spans: Some(spans(place.spans)),
        ..log_lines(FoundLines { lines: vec![line], ..FoundLines::default() })
    };
    NativeFirst {
        first: name.into(),
        process: state(process),
        log_lines: found.map(lines),
        waiting: program.map(waiting),
    }
}

/// Converts a query for lines.
pub fn line_query(query: NativeLineQuery) -> LineQuery {
    LineQuery {
        from: query.from_line as i64,
        most: query.lines as usize,
        is_tail: query.tail,
        pattern: query.grep,
        context: query.context as usize,
    }
}

/// Converts lines of a log.
pub fn log_lines(found: FoundLines) -> NativeLogLines {
    let flags = |line: &FoundLine| {
        let all = [line.stream == OutputStream::Stderr, line.is_match, line.is_cut, line.is_open];
        all.into_iter().enumerate().map(|(bit, is_set)| u32::from(is_set) << bit).sum()
    };
    let lines = &found.lines;
    let mut end = 0;
    let mut add = |line: &FoundLine| {
        end += line.bytes.len() as u32;
        end
    };
    NativeLogLines {
        ends: lines.iter().map(&mut add).collect(),
        numbers: lines.iter().map(|line| line.number as f64).collect(),
        flags: lines.iter().map(flags).collect(),
        data: lines.iter().flat_map(|line| &line.bytes).copied().collect::<Vec<u8>>().into(),
        total: found.total as f64,
        first: found.first as f64,
        input: None,
        spans: None,
        matches: found.matches.map(|count| count as f64),
        next: found.next.map(|number| number as f64),
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
        open_files: None,
        terminals: None,
        sessions: None,
    }
}

/// Converts the resource usage of sessions.
pub fn session_stats(sessions: SessionStats) -> NativeStats {
    NativeStats {
        open_files: Some(sessions.open_files as f64),
        terminals: Some(sessions.terminals as u32),
        sessions: Some(sessions.sessions as u32),
        ..stats(sessions.usage)
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

/// Converts a port.
pub fn port(open: OpenPort) -> NativePort {
    let OpenPort { port, session, process } = open;
    NativePort {
        port: port.address.port().into(),
        address: port.address.ip().to_string(),
        pid: port.process.identity.pid.raw(),
        command: port.command,
        session_id: session,
        process_id: process,
    }
}

/// Converts a command that runs or waits.
pub fn running(command: RunningCommand) -> NativeRunning {
    let run = command.run.as_ref();
    NativeRunning {
        id: command.id as u32,
        command: command.command,
        started_at: run.map(|run| since_epoch(run.started_at)),
        pid: run.and_then(|run| run.pid).map(|pid| pid.raw()),
        stdout_bytes: run.map(|run| run.output_bytes[0] as f64),
        stderr_bytes: run.map(|run| run.output_bytes[1] as f64),
        last_output_at: run.and_then(|run| run.last_output_at).map(since_epoch),
    }
}

/// Milliseconds since the epoch.
pub fn since_epoch(at: SystemTime) -> f64 {
    at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64() * 1000.0
}
