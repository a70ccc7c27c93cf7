//! The foreground: the running command, the kill ladder that ends it, and what ended commands left in their pipes.

mod idle_pipes;
mod observed;
mod older;
mod pace;
mod rest;
mod results;
mod stall;

pub(super) use observed::{show_end, show_unseen};
pub(super) use older::EngineProcesses;
pub(super) use pace::Pace;

use super::context::Context;
use super::loan::{Answered, Sent};
use super::running::{Progress, RunningCommand};
use super::stdin::{self, StdinEnd};
use super::streams::OutputPipes;
use super::supervision::Supervision;
use crate::exec::{Blocker, ExecRequest, Input, KillPolicy, Outcome, Sink, SureSink};
use crate::feed::What;
use crate::output::capture::Capture;
use crate::output::reader::Reader;
use crate::output::rest::OutputSource;
use crate::process::Birth;
use crate::process_log::ProcessLog;
use crate::shell::event::Event;
use crate::shell::state::Ticket;
use crate::supervisor::PidHold;
use idle_pipes::IdlePipes;
use nacre_containment::pid::{Identity, Pid};
use nacre_containment::tree::Tree;
use nacre_protocol::shell::{Done, DoneFlags, Refusal, Usage};
use older::OlderProcesses;
use rest::HeldEnd;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::SystemTime;
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

/// See the module.
#[derive(Default)]
pub(in crate::session) struct Foreground {
    running: Option<ForegroundCommand>,
    /// The call whose end the shell owes.
    owed: Option<Ticket>,
    /// The number of the last request to the shell that has such an end.
    number: u64,
    /// The last command whose start was announced.
    announced: Ticket,
    /// Why the shell refused the last request.
    refused: Option<Refused>,
    ladder: Ladder,
    older: OlderProcesses,
    /// `$?` of the command during which the shell died, for the standby that takes over.
    status: u64,
    /// The pipes of the command that was answered last.
    leftover: Option<Reader>,
    /// Tasks that read later output of processes of earlier commands.
    drains: JoinSet<()>,
    /// The end of the command, while the rest of its output is awaited.
    held: Option<HeldEnd>,
    /// Closed when the last result that needed work, or had to wait, has been delivered.
    last_delivery: Option<oneshot::Receiver<()>>,
    pace: Arc<Pace>,
    idle_pipes: IdlePipes,
}

/// The last kill ladder.
#[derive(Default)]
struct Ladder {
    /// The number of its order.
    id: u64,
    /// The command that it ends.
    victim: Ticket,
    /// Its first signal.
    signal: i32,
}

/// Why the shell refused a request.
pub(in crate::session) struct Refused {
    pub reason: Refusal,
    /// The system's reason; 0 if unknown.
    pub errno: i32,
    /// The variable or the limit.
    pub about: String,
}

impl Foreground {
    /// Adds a command that was sent to the shell, with this number.
    pub fn begin(&mut self, command: ForegroundCommand, number: u64) {
        self.expect_end(command.ticket, number);
        self.running = Some(command);
    }

    /// Expects the end of a change of variables.
    pub fn expect_end(&mut self, ticket: Ticket, number: u64) {
        (self.owed, self.number) = (Some(ticket), number);
    }

    /// The number of the last command, or change of variables.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The call whose end the shell owes.
    pub fn owed(&self) -> Option<Ticket> {
        self.owed
    }

    /// The call whose end has arrived, or never will.
    pub fn take_owed(&mut self) -> Option<Ticket> {
        self.owed.take()
    }

    pub fn command(&mut self) -> Option<&mut ForegroundCommand> {
        self.running.as_mut()
    }

    /// Removes a command: it is being answered, or refused.
    pub fn take(&mut self, ticket: Ticket) -> Option<ForegroundCommand> {
        self.running.take_if(|command| command.ticket == ticket)
    }

    /// Lets go of the running command, which becomes a process. Returns the roots of the processes that are older, too.
    pub fn detach(&mut self, ticket: Ticket) -> Option<(ForegroundCommand, Vec<Pid>)> {
        let command = self.take(ticket)?;
        self.owed = None;
        self.pace.ended(command.begun.elapsed());
        Some((command, std::mem::take(&mut self.older.roots)))
    }

    /// Announces that the running command has begun, or certainly will. `shell`: its pid.
    pub fn announce(&mut self, cx: &Context, supervision: &Supervision, shell: Option<Pid>) {
        let Some(command) = &mut self.running else { return };
        if std::mem::replace(&mut self.announced, command.ticket) != command.ticket {
            let (pid, request) = (shell.map_or(0, Pid::raw), &mut command.request);
            request.sink.started(pid);
            cx.happens(What::CommandStarted { id: request.id, command: request.command.shown(), pid });
        }
        let (Some(pid), Some(process)) = (shell, &command.request.process) else { return };
        command.input.into_iter().for_each(|pipe| process.set_input(pipe));
        let tree = Tree {
            root: Identity { pid, start_ticks: 0 },
            group: supervision.foreground_group(),
            // Carried by no process: the members are found by the other signs.
            mark: "-".into(),
            guardian: supervision.last().map_or(pid, PidHold::pid),
            spare: self.older.roots.clone(),
        };
        process.command_begun(Birth { pid, at: command.started_at, tree });
    }

    /// Starts reading the output of the running command.
    pub fn watch_output(&mut self, cx: &mut Context) {
        let Some(command) = &mut self.running else { return };
        if let Err(error) = command.capture.watch() {
            // No epoll watch is available. The command's output cannot be read, so the command cannot continue.
            let text = format!("nacre: the output cannot be read: {error}\n");
            command.capture.push(1, text.as_bytes(), &mut command.request.sink);
            cx.events.push_back(Event::Cancel(command.ticket, None));
        }
    }

    /// The running command. `pid`: its shell.
    pub fn running(&self, pid: Option<Pid>) -> Option<RunningCommand> {
        let ForegroundCommand { request, capture, started_at, .. } = self.running.as_ref()?;
        let (output_bytes, last_output_at) = capture.so_far();
        let run = Progress { started_at: *started_at, pid, output_bytes, last_output_at };
        Some(RunningCommand { id: request.id, command: request.command.shown(), run: Some(run) })
    }

    /// Keeps the reason of a refusal until the call is answered.
    pub fn refuse(&mut self, refused: Refused) {
        self.refused = Some(refused);
    }

    pub fn take_refused(&mut self) -> Option<Refused> {
        self.refused.take()
    }

    /// The command has printed more than its limit.
    pub fn excessive(&self) -> Option<Ticket> {
        self.running.as_ref().filter(|command| command.capture.is_excessive()).map(|command| command.ticket)
    }

    /// Whether the running command, if any, can be sent again if the shell did not read it. Input already streamed into
    /// a pipe is lost.
    pub fn is_repeatable(&self) -> bool {
        self.running.as_ref().is_none_or(|command| !command.streams_input)
    }

    /// Records the end of the shell's process.
    pub fn shell_ended(&mut self, code: Option<i32>, signal: Option<i32>) {
        self.owed = None;
        if let Some(command) = &mut self.running {
            command.died = Some((code, signal));
        }
    }

    /// Keeps `$?` of the last command.
    pub fn keep_status(&mut self, status: i32) {
        self.status = status as u64;
    }

    /// `$?` of the last command, which a new shell and a standby that takes over begin with.
    pub fn status(&self) -> u64 {
        self.status
    }

    /// Whether the next command can be sent at once: nothing has to be looked up, and no result delivered, before it.
    pub fn is_settled(&mut self) -> bool {
        self.knows_older() && !self.awaits_delivery()
    }

    /// What the next command needs: how quick the commands are, and open pipes, if there are any.
    pub fn lend(&mut self) -> (Arc<Pace>, Option<OutputPipes>) {
        (Arc::clone(&self.pace), self.idle_pipes.pipes.take())
    }

    /// Begins a ladder against the running command. Returns the processes that it spares.
    pub fn begin_ladder(&mut self, id: u64, signal: i32) -> Vec<Pid> {
        if let Some(command) = &mut self.running {
            command.capture.hurry();
            self.ladder = Ladder { id, victim: command.ticket, signal };
        }
        self.older.roots.clone()
    }

    /// The command that this ladder has ended; `None` if it is not the last ladder.
    pub fn ended_by(&self, ladder: u64) -> Option<Ticket> {
        (ladder == self.ladder.id).then_some(self.ladder.victim)
    }

    /// Reads what processes of ended commands print later, so that they do not block.
    pub fn drain_leftover(&mut self) {
        if let Some(leftover) = self.leftover.take().filter(Reader::is_open) {
            while self.drains.try_join_next().is_some() {}
            self.drains.spawn(leftover.discard());
        }
    }

    /// Stops reading.
    pub fn stop_drains(&mut self) {
        self.drains.abort_all();
    }

    /// Waits for output of the running command and reads it. Cancel-safe.
    pub async fn read_output(&mut self) {
        match &mut self.running {
            Some(command) => command.step().await,
            None => std::future::pending().await,
        }
    }
}

/// A running command.
pub(in crate::session) struct ForegroundCommand {
    ticket: Ticket,
    request: Box<ExecRequest>,
    capture: Capture,
    /// This process's copies of the write ends, unless the rest of the output is awaited.
    writers: Option<[Arc<OwnedFd>; 2]>,
    /// Whether processes of the command may hold the pipes. Known at its end.
    forked: bool,
    begun: Instant,
    /// When it times out.
    deadline: Option<Instant>,
    /// Whether a warning about its unread output was logged.
    is_stall_logged: bool,
    started_at: SystemTime,
    /// Exit code and signal of the shell's process, if the command ended it.
    died: Option<(Option<i32>, Option<i32>)>,
    /// It has changed nothing in the shell but `$?`.
    keeps_state: bool,
    usage: Option<Usage>,
    feeder: Option<JoinHandle<()>>,
    /// The inode of the pipe that is its standard input.
    input: Option<u64>,
    /// Bytes of both streams that observers have seen.
    seen: [u64; 2],
    streams_input: bool,
    /// Its caller has the result.
    answered: Option<Answered>,
    _counted: Option<Arc<()>>,
}

/// What remains of an ended command.
pub(in crate::session) struct EndedCommand {
    pub request: Box<ExecRequest>,
    /// With the output and the times.
    pub outcome: Outcome,
    /// Its pipes, for the next command, or the ends that other processes may still use.
    pub pipes: Result<OutputPipes, Reader>,
    /// Exit code and signal of the shell's process, if the command ended it.
    pub died: Option<(Option<i32>, Option<i32>)>,
    /// Its caller has the result.
    pub answered: Option<Answered>,
    /// It has changed nothing in the shell but `$?`.
    pub keeps_state: bool,
}

impl ForegroundCommand {
    /// Creates a command that was sent. `limit`: when it times out, if it has waited; otherwise its timeout begins.
    pub fn new(ticket: Ticket, mut request: Box<ExecRequest>, limit: Option<Instant>, sent: Sent) -> Self {
        let Sent { begun, started_at, output, stdin, answered, .. } = sent;
        let streams_input = matches!(request.input, Input::Stream(_));
        let input = match &request.input {
            // Kept, because the command may have to be sent again.
            Input::Bytes(bytes) => Input::Bytes(Arc::clone(bytes)),
            _ => std::mem::replace(&mut request.input, Input::None),
        };
        let pipe = stdin.as_ref().and_then(StdinEnd::pipe);
        let feeder = stdin.map(|end| stdin::feed(end, input));
        let (reader, writers) = output.map(OutputPipes::into_parts).unzip();
        let reader = reader.unwrap_or_default();
        let mut capture = Capture::new(reader, request.max_buffer, request.output_limit, request.live.clone());
        for (stream, bytes) in answered.iter().flat_map(|answered| answered.output.iter().enumerate()) {
            capture.push(stream, bytes, &mut request.sink);
        }
        if let Some(process) = request.process.as_ref().filter(|process| process.keeps_log) {
            capture.keep_log(process.log.clone());
        }
        let deadline = limit.or(request.timeout.map(|timeout| begun + timeout));
        Self {
            ticket,
            request,
            capture,
            writers,
            forked: true,
            begun,
            deadline,
            is_stall_logged: false,
            started_at,
            died: None,
            keeps_state: false,
            usage: None,
            feeder,
            input: pipe,
            seen: [0; 2],
            streams_input,
            _counted: answered.is_none().then(pace::count_running),
            answered,
        }
    }

    pub fn ticket(&self) -> Ticket {
        self.ticket
    }

    /// When it times out.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// How its caller wants it to be killed.
    pub fn kill_policy(&self) -> KillPolicy {
        self.request.kill
    }

    /// The request that it was made with.
    pub fn request(&self) -> &ExecRequest {
        &self.request
    }

    /// When it started, by the wall clock.
    pub fn started_at(&self) -> SystemTime {
        self.started_at
    }

    /// The inode of the pipe that is its standard input.
    pub fn input(&self) -> Option<u64> {
        self.input
    }

    /// Logs its output, with what was kept of the output so far.
    pub fn log_to(&mut self, log: ProcessLog) {
        self.capture.log_to(log);
    }

    /// Its caller and the result so far. Later output is only logged.
    pub fn answer(&mut self, mut outcome: Outcome) -> (SureSink, Outcome) {
        let mut sink = self.request.sink.take();
        self.capture.report(&mut outcome, &mut sink);
        // The limit of the output ends with the call.
        outcome.output_limited = false;
        outcome.started_at = Some(self.started_at);
        outcome.duration = self.begun.elapsed();
        (sink, outcome)
    }

    /// Records its end.
    pub fn done(&mut self, done: &Done) {
        self.forked = done.forks > 0;
        self.keeps_state = done.flags.contains(DoneFlags::STATE_KEPT);
        self.usage = Some(done.usage);
    }

    /// Whether its caller keeps output from being read.
    pub fn is_held_up(&self) -> bool {
        self.capture.is_held_up()
    }

    /// Itself, for the commands that wait for its end.
    pub fn blocker(&self) -> Blocker {
        Blocker { command: self.request.command.shown(), is_unread: self.is_held_up(), started_at: self.started_at }
    }

    /// Ends it. `outcome` gets the output. `is_held`: other processes may hold its pipes.
    pub fn finish(mut self, mut outcome: Outcome, is_held: bool) -> EndedCommand {
        self.stop_input();
        let sink = &mut self.request.sink;
        self.capture.drain(sink);
        let leftover = self.capture.finish(&mut outcome, sink);
        let pipes = match self.writers {
            Some(writers) if !self.forked && !is_held => OutputPipes::reclaim(leftover, writers),
            _ => Err(leftover),
        };
        outcome.started_at = Some(self.started_at);
        outcome.duration = self.begun.elapsed();
        outcome.usage = self.usage;
        let Self { request, died, answered, keeps_state, .. } = self;
        EndedCommand { request, outcome, pipes, died, answered, keeps_state }
    }

    /// Returns the request, to send or to refuse it.
    pub fn into_request(mut self) -> Box<ExecRequest> {
        self.stop_input();
        self.request
    }

    /// Stops writing to the command.
    fn stop_input(&mut self) {
        if let Some(feeder) = self.feeder.take() {
            feeder.abort();
        }
    }
}

impl OutputSource for ForegroundCommand {
    /// Only other processes can write from now on.
    fn read_on(&mut self) -> bool {
        self.writers = None;
        self.capture.read_on(&mut self.request.sink)
    }

    fn is_open(&self) -> bool {
        self.capture.is_open()
    }

    fn is_own(&self, inode: u64) -> bool {
        self.input == Some(inode) || self.capture.is_own(inode)
    }

    fn total(&self) -> u64 {
        self.capture.so_far().0.iter().sum()
    }

    async fn step(&mut self) {
        self.capture.step(&mut self.request.sink).await;
    }
}
