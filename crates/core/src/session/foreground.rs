//! The foreground: the running command, the kill ladder that ends it, and what ended commands left in their pipes.

use super::deliveries::Deliveries;
use super::loan::{Answered, Sent};
use super::pace::{self, Pace};
use super::rest::Rest;
use super::running::Progress;
use super::spare_pipes::SparePipes;
use super::stdin;
use super::stdin::StdinEnd;
use super::streams::OutputPipes;
use crate::exec::{Blocker, ExecRequest, Input, KillPolicy, Outcome, Sink, SureSink};
use crate::feed::MOST_OUTPUT;
use crate::output::capture::Capture;
use crate::output::reader::Reader;
use crate::output::rest::OutputSource;
use crate::process::{DetachRequest, Process};
use crate::process_log::ProcessLog;
use crate::shell::state::Ticket;
use nacre_containment::pid::Pid;
use nacre_protocol::shell::Refusal;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

/// See the module.
#[derive(Default)]
pub(super) struct Foreground {
    running: Option<ForegroundCommand>,
    /// The call whose end the shell owes.
    owed: Option<Ticket>,
    /// The last command whose start was announced.
    announced: Ticket,
    /// Why the shell refused the last request.
    refused: Option<Refused>,
    ladder: Ladder,
    /// Roots of older processes, which the ladder spares. Only used without control groups.
    spare: Vec<Pid>,
    /// The last look for them has failed.
    is_spare_unknown: bool,
    /// `$?` of the command during which the shell died, for the standby that takes over.
    status: u64,
    /// The pipes of the command that was answered last.
    leftover: Option<Reader>,
    /// Tasks that read later output of processes of earlier commands.
    drains: JoinSet<()>,
    /// The call that makes the running command a process.
    pub detaching: Option<DetachRequest>,
    /// The end of the command, while the rest of its output is awaited.
    pub rest: Option<Rest>,
    /// The results of commands that have ended.
    pub deliveries: Deliveries,
    pub pace: Arc<Pace>,
    pub spare_pipes: SparePipes,
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
pub(super) struct Refused {
    pub reason: Refusal,
    /// The system's reason; 0 if unknown.
    pub errno: i32,
    /// The variable or the limit.
    pub about: String,
}

impl Foreground {
    /// Adds a command that was sent to the shell.
    pub(super) fn begin(&mut self, command: ForegroundCommand) {
        self.owed = Some(command.ticket);
        self.running = Some(command);
    }

    /// Expects the end of a change of variables.
    pub(super) fn expect_end(&mut self, ticket: Ticket) {
        self.owed = Some(ticket);
    }

    /// The call whose end the shell owes.
    pub(super) fn owed(&self) -> Option<Ticket> {
        self.owed
    }

    /// The call whose end has arrived, or never will.
    pub(super) fn take_owed(&mut self) -> Option<Ticket> {
        self.owed.take()
    }

    pub(super) fn command(&mut self) -> Option<&mut ForegroundCommand> {
        self.running.as_mut()
    }

    /// Removes a command: it is being answered, or refused.
    pub(super) fn take(&mut self, ticket: Ticket) -> Option<ForegroundCommand> {
        self.running.take_if(|command| command.ticket == ticket)
    }

    /// Announces that the command has begun, or certainly will, with the pid of its shell.
    /// Returns it if that was not announced before.
    pub(super) fn announce(&mut self, shell: Option<Pid>) -> Option<&ExecRequest> {
        let command = self.running.as_mut()?;
        if std::mem::replace(&mut self.announced, command.ticket) == command.ticket {
            return None;
        }
        command.request.sink.started(shell.map_or(0, Pid::raw));
        Some(&command.request)
    }

    /// Keeps the reason of a refusal until the call is answered.
    pub(super) fn refuse(&mut self, refused: Refused) {
        self.refused = Some(refused);
    }

    pub(super) fn take_refused(&mut self) -> Option<Refused> {
        self.refused.take()
    }

    /// The command has printed more than its limit.
    pub(super) fn excessive(&self) -> Option<Ticket> {
        self.running.as_ref().filter(|command| command.capture.is_excessive()).map(|command| command.ticket)
    }

    /// Whether the running command, if any, can be sent again if the shell did not read it. Input already streamed into
    /// a pipe is lost.
    pub(super) fn is_repeatable(&self) -> bool {
        self.running.as_ref().is_none_or(|command| !command.streams_input)
    }

    /// Records the end of the shell's process.
    pub(super) fn shell_ended(&mut self, code: Option<i32>, signal: Option<i32>) {
        self.owed = None;
        if let Some(command) = &mut self.running {
            command.died = Some((code, signal));
        }
    }

    /// Keeps `$?` of the last command.
    pub(super) fn keep_status(&mut self, status: i32) {
        self.status = status as u64;
    }

    /// `$?` of the last command, which a new shell and a standby that takes over begin with.
    pub(super) fn status(&self) -> u64 {
        self.status
    }

    /// Spares these processes from the next ladders. `None`: they could not be looked up.
    pub(super) fn spare(&mut self, roots: Option<Vec<Pid>>) {
        self.is_spare_unknown = roots.is_none();
        self.spare = roots.unwrap_or_default();
    }

    /// The processes that are older than the running command.
    pub(super) fn spared(&self) -> Vec<Pid> {
        self.spare.clone()
    }

    /// Takes the processes that are older than the running command.
    pub(super) fn take_spared(&mut self) -> Vec<Pid> {
        std::mem::take(&mut self.spare)
    }

    /// Whether the processes that the next ladder must spare are known.
    pub(super) fn knows_spared(&self) -> bool {
        !self.is_spare_unknown
    }

    /// Begins a ladder against the running command. Returns the processes that it spares.
    pub(super) fn begin_ladder(&mut self, id: u64, signal: i32) -> Vec<Pid> {
        if let Some(command) = &mut self.running {
            command.capture.hurry();
            self.ladder = Ladder { id, victim: command.ticket, signal };
        }
        self.spare.clone()
    }

    /// The command that this ladder has ended; `None` if it is not the last ladder.
    pub(super) fn ended_by(&self, ladder: u64) -> Option<Ticket> {
        (ladder == self.ladder.id).then_some(self.ladder.victim)
    }

    /// The first signal of the last ladder.
    pub(super) fn kill_signal(&self) -> i32 {
        self.ladder.signal
    }

    /// Keeps pipes that processes of an ended command hold.
    pub(super) fn leave(&mut self, leftover: Reader) {
        self.leftover = Some(leftover);
    }

    /// Reads what processes of ended commands print later, so that they do not block.
    pub(super) fn drain_leftover(&mut self) {
        if let Some(leftover) = self.leftover.take().filter(Reader::is_open) {
            while self.drains.try_join_next().is_some() {}
            self.drains.spawn(leftover.discard());
        }
    }

    /// Stops reading.
    pub(super) fn stop_drains(&mut self) {
        self.drains.abort_all();
    }

    /// Waits for output of the running command and reads it. Cancel-safe.
    pub(super) async fn read_output(&mut self) {
        match &mut self.running {
            Some(command) => command.step().await,
            None => std::future::pending().await,
        }
    }
}

/// A running command.
pub(super) struct ForegroundCommand {
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
    feeder: Option<JoinHandle<()>>,
    /// The inode of the pipe that is its standard input.
    input: Option<u64>,
    /// Bytes of both streams that observers have seen.
    seen: [u64; 2],
    streams_input: bool,
    /// Its caller has the result.
    answered: Option<Answered>,
    _counted: Option<pace::RunningCount>,
}

/// What remains of an ended command.
pub(super) struct EndedCommand {
    pub request: Box<ExecRequest>,
    /// With the output and the times.
    pub outcome: Outcome,
    /// Its pipes, for the next command, or the ends that other processes may still use.
    pub pipes: Result<OutputPipes, Reader>,
    /// Exit code and signal of the shell's process, if the command ended it.
    pub died: Option<(Option<i32>, Option<i32>)>,
    /// Its caller has the result.
    pub answered: Option<Answered>,
}

impl ForegroundCommand {
    /// Creates a command that was sent. `limit`: when it times out, if it has waited; otherwise its timeout begins.
    pub(super) fn new(ticket: Ticket, mut request: Box<ExecRequest>, limit: Option<Instant>, sent: Sent) -> Self {
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
            feeder,
            input: pipe,
            seen: [0; 2],
            streams_input,
            _counted: answered.is_none().then(pace::RunningCount::begin),
            answered,
        }
    }

    pub(super) fn ticket(&self) -> Ticket {
        self.ticket
    }

    /// When it times out.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Whether its caller reads the output while it runs.
    pub(super) fn is_live(&self) -> bool {
        self.request.live.is_some()
    }

    /// How its caller wants it to be killed.
    pub(super) fn kill_policy(&self) -> KillPolicy {
        self.request.kill
    }

    /// How long it has run.
    pub(super) fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// The status that a shell passes on, if the command ended its process.
    pub(super) fn status_of_death(&self) -> Option<i32> {
        self.died.map(|(code, signal)| code.or(signal.map(|signal| 128 + signal)).unwrap_or(0))
    }

    /// The request that it was made with.
    pub(super) fn request(&self) -> &ExecRequest {
        &self.request
    }

    /// The process that it can become.
    pub(super) fn process(&self) -> Option<Arc<Process>> {
        self.request.process.clone()
    }

    /// When it started, by the wall clock.
    pub(super) fn started_at(&self) -> SystemTime {
        self.started_at
    }

    /// Its id, and the output that observers have not seen. From now on they have.
    pub(super) fn unseen_output(&mut self) -> (u64, [u64; 2], [Vec<u8>; 2]) {
        let (total, _) = self.capture.so_far();
        let newest = self.capture.newest(self.seen, MOST_OUTPUT);
        self.seen = total;
        (self.request.id, total, newest)
    }

    /// Bytes of both streams that observers have seen.
    pub(super) fn seen(&self) -> [u64; 2] {
        self.seen
    }

    /// Its progress. `pid`: its shell.
    pub(super) fn progress(&self, pid: Option<Pid>) -> Progress {
        let (output_bytes, last_output_at) = self.capture.so_far();
        Progress { started_at: self.started_at, pid, output_bytes, last_output_at }
    }

    /// The inode of the pipe that is its standard input.
    pub(super) fn input(&self) -> Option<u64> {
        self.input
    }

    /// Logs its output, with what was kept of the output so far.
    pub(super) fn log_to(&mut self, log: ProcessLog) {
        self.capture.log_to(log);
    }

    /// Its caller and the result so far. Later output is only logged.
    pub(super) fn answer(&mut self, mut outcome: Outcome) -> (SureSink, Outcome) {
        let mut sink = self.request.sink.take();
        self.capture.report(&mut outcome, &mut sink);
        // The limit of the output ends with the call.
        outcome.output_limited = false;
        outcome.started_at = Some(self.started_at);
        outcome.duration = self.begun.elapsed();
        (sink, outcome)
    }

    /// Records its end. `forked`: its processes may hold the pipes.
    pub(super) fn done(&mut self, forked: bool) {
        self.forked = forked;
    }

    /// Whether its caller keeps output from being read.
    pub(super) fn is_held_up(&self) -> bool {
        self.capture.is_held_up()
    }

    /// Whether its caller can keep its output from being read, and was not warned.
    pub(super) fn can_stall(&self) -> bool {
        self.is_live() && !self.is_stall_logged
    }

    /// How long its caller has kept its output from being read.
    pub(super) fn stalled_for(&self) -> Duration {
        let last_read = self.capture.so_far().1.filter(|_| self.is_held_up());
        last_read.and_then(|at| at.elapsed().ok()).unwrap_or_default()
    }

    /// Records that its caller was warned.
    pub(super) fn stall_logged(&mut self) {
        self.is_stall_logged = true;
    }

    /// Itself, for the commands that wait for its end.
    pub(super) fn blocker(&self) -> Blocker {
        Blocker { command: self.request.command.shown(), is_unread: self.is_held_up(), started_at: self.started_at }
    }

    /// Starts watching the pipes.
    pub(super) fn watch(&mut self) -> io::Result<()> {
        self.capture.watch()
    }

    /// Adds a message of nacre to its standard error.
    pub(super) fn complain(&mut self, text: &str) {
        self.capture.push(1, text.as_bytes(), &mut self.request.sink);
    }

    /// Ends it. `outcome` gets the output. `is_held`: other processes may hold its pipes.
    pub(super) fn finish(mut self, mut outcome: Outcome, is_held: bool) -> EndedCommand {
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
        EndedCommand { request: self.request, outcome, pipes, died: self.died, answered: self.answered }
    }

    /// Returns the request, to send or to refuse it.
    pub(super) fn into_request(mut self) -> Box<ExecRequest> {
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
