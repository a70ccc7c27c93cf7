//! Performs what the machine decides: forks processes, sends their commands, and answers their callers.

use super::detached::{DetachedCommand, await_end, carry_on, show_detach};
use super::machine::{Effect, Key, ProcessEvent, Why};
use super::{Beginning, Lost, Start};
use crate::error::{Code, Error};
use crate::exec::{Input, KillPolicy, KilledBy, Outcome};
use crate::link::Descriptor;
use crate::process::messages::{self, Messages};
use crate::process::pump::Status;
use crate::process::{self, Birth, Process, StartRequest, end_after};
use crate::session::actor::Session;
use crate::session::calls::Call;
use crate::session::engine::first_letter;
use crate::session::errors;
use crate::session::foreground::Refused;
use crate::session::internal::Internal;
use crate::session::standby::request_fork;
use crate::session::stdin::{self, StdinEnd};
use crate::session::streams::{Streams, env_of, text_of};
use crate::session::supervision::Supervision;
use crate::session::timers::Timer;
use crate::shell::channel::{Channel, Received};
use crate::shell::event::Source;
use crate::shell::plain_script::{self, Plan};
use crate::shell::state::{Ticket, Work};
use crate::supervisor::PidHold;
use nacre_containment::cgroup::Group;
use nacre_containment::pid::{Identity, Pid};
use nacre_containment::proc_table::Stat;
use nacre_containment::tree::{MARK, Tree};
use nacre_protocol::shell::{Reply, Request, RequestFlags, RequestKind};
use nacre_protocol::supervisor::{Order, Report, Role};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::oneshot;
use tokio::time::Instant;

/// Time after a start at which the group for the next process is created. That takes the kernel 0.1 ms.
const NEXT_GROUP: Duration = Duration::from_millis(2);
/// How often a process is started, if its shell or its supervisor dies each time before the command begins.
const MAX_ATTEMPTS: u32 = 10;

impl Session {
    /// Passes an event to the machine, and performs what follows.
    pub fn happened_to_process(&mut self, event: ProcessEvent) {
        let mut effects = VecDeque::from(self.background.machine.step(event));
        while let Some(effect) = effects.pop_front() {
            if let Some(next) = self.perform_for_process(effect) {
                effects.extend(self.background.machine.step(next));
            }
        }
    }

    fn perform_for_process(&mut self, effect: Effect) -> Option<ProcessEvent> {
        match effect {
            Effect::Adopt(key) => {
                let order = self.background.starts.get_mut(&key).and_then(|start| start.adopt.take());
                order.iter().for_each(|order| self.supervision.ask(&mut self.cx, order));
            }
            Effect::Prepare(key) => return self.prepare_process(key),
            Effect::Begin { key, settled } => self.begin_process(key, settled),
            Effect::Listen(key) => {
                if let Some(beginning) = self.background.starts.get_mut(&key).and_then(|start| start.beginning.take()) {
                    self.report_later(key, beginning);
                }
            }
            Effect::Settle(key) => {
                if let Some(start) = self.background.starts.remove(&key) {
                    let process = self.settle_process(key, start);
                    self.kill_if_doomed(key, &process);
                }
            }
            Effect::Refuse(key, why) => {
                if let Some(mut start) = self.background.starts.remove(&key) {
                    let error = start.failure.take().unwrap_or_else(|| self.why_refused(&start.request, why));
                    start.refuse(error);
                }
            }
            Effect::Resubmit(key) => {
                if let Some(mut start) = self.background.starts.remove(&key) {
                    start.request.attempts += 1;
                    if start.request.attempts == MAX_ATTEMPTS {
                        let error = self.why_refused(&start.request, Why::Killed);
                        start.refuse(error);
                    } else {
                        start.remove_group();
                        self.submit(Call::Start(Box::new(start.request)), Work::Start);
                    }
                }
            }
            Effect::Kill(key) => self
                .supervision
                .order(&mut self.cx, &Order::KillProcess { id: 0, key, signal: libc::SIGKILL, grace_ms: 0 }),
            Effect::End(key, status) => self.background.end(key, status),
            Effect::Defect(event) => self.cx.defect(&format_args!("{event:?} of a background process")),
        }
        None
    }

    fn why_refused(&self, request: &StartRequest, why: Why) -> Error {
        let id = &request.process.id;
        match why {
            Why::NoFork => errors::no_fork(),
            Why::Killed => Error::new(Code::SpawnFailed, format!("process '{id}' was killed before it had begun")),
            Why::Failed => Error::new(Code::EngineError, format!("process '{id}' cannot be started")),
            Why::Closing => self.cx.ended_error(),
        }
    }

    /// Starts a process from the shell or from the standby.
    pub fn fork_process(&mut self, ticket: Ticket, source: Source) {
        self.start_process(ticket, |session, key, start| session.ask_for_fork(key, start, source));
    }

    /// Starts a process in a bash of its own, with the state after the last finished command.
    pub fn launch_process(&mut self, ticket: Ticket) {
        self.start_process(ticket, Self::launch);
    }

    /// `ask` asks the shell or the supervisor.
    fn start_process(
        &mut self,
        ticket: Ticket,
        ask: impl FnOnce(&mut Self, Key, &mut Start) -> Result<ProcessEvent, Error>,
    ) {
        let Some(Call::Start(request)) = self.calls.take(ticket) else { return };
        if request.process.is_doomed() {
            return request.refuse(self.cx.ended_error());
        }
        // Keys of processes and numbers of requests form one sequence, so a number identifies a fork.
        let key = self.cx.numbers.next();
        let mut start = Start::new(*request);
        match ask(self, key, &mut start) {
            Ok(event) => {
                self.background.starts.insert(key, start);
                self.happened_to_process(event);
                self.expect_forks();
            }
            Err(error) => start.refuse(error),
        }
    }

    fn ask_for_fork(&mut self, key: Key, start: &mut Start, source: Source) -> Result<ProcessEvent, Error> {
        let shell = self.shell.channel().cloned();
        if source == Source::Shell && shell.is_none() {
            // The shell is dead, and the supervisor has not reported it yet. Its death requests the process again.
            self.shell.lose_request();
            return Ok(ProcessEvent::Asked(key, source));
        }
        // Another program may have removed the empty group.
        let made = self.background.next_group.take().filter(|group| group.is_dir());
        start.group = made.or_else(|| self.supervision.make_group(&self.cx, &format!("b-{key}")));
        let mut flags = RequestFlags::BACKGROUND;
        flags.set(RequestFlags::TERMINAL, start.request.new.terminal.is_some());
        self.announce_forks(true);
        let from = if source == Source::Shell { shell.as_deref() } else { self.standbys.channel() };
        let asked = request_fork(from, &self.cx.numbers, key, flags, start.group.as_deref(), |_| {});
        start.beginning = Some(Beginning::Fork(asked.map_err(|error| not_started(&start.request, &error))?));
        Ok(ProcessEvent::Asked(key, source))
    }

    fn launch(&mut self, key: Key, start: &mut Start) -> Result<ProcessEvent, Error> {
        let (mark, streams) = (self.mark(key), self.open_streams(start));
        let Some(plain) = self.engine.plain() else { return Err(Error::engine_failed()) };
        let new = &start.request.new;
        let limits = [new.limits.inherited.open_files, new.limits.inherited.processes];
        let terminal = new.terminal.is_some();
        let make = |plan: &Plan<'_>| plain_script::process(plan, &new.command, terminal);
        let script = plain.script(&self.cx, &new.env, new.cwd.as_deref(), limits, make)?;
        let role = Role::Process { key, mark, limits: new.limits.group.clone(), terminal };
        let launched = streams
            .and_then(|streams| plain.launch(&mut self.cx, &self.supervision, &script, streams, role))
            .map_err(|error| not_started(&start.request, &error))?;
        start.beginning = Some(Beginning::Launch(launched));
        Ok(ProcessEvent::Launched(key))
    }

    /// Creates the group for the next process in advance.
    pub fn make_next_group(&mut self) {
        if self.background.next_group.is_none() && self.shell.channel().is_some() {
            let number = self.cx.numbers.next();
            self.background.next_group = self.supervision.make_group(&self.cx, &format!("b-{number}"));
        }
    }

    /// Handles the report that the shell or standby has forked the process, or failed to.
    pub fn process_forked(&mut self, key: Key, child: Result<Option<Pid>, i32>, placed: bool) {
        // A program can report forks in the name of the shell.
        let Some(start) = self.background.starts.get_mut(&key).filter(|_| self.background.machine.is_forking(key))
        else {
            return;
        };
        let pid = match child {
            Ok(Some(pid)) => pid,
            Ok(None) => return self.happened_to_process(ProcessEvent::NotForked(key, Why::Killed)),
            Err(_) => return self.happened_to_process(ProcessEvent::NotForked(key, Why::NoFork)),
        };
        let limits = start.request.new.limits.group.clone();
        if !placed {
            start.remove_group();
        }
        let group = start.group.take().map(|group| group.display().to_string());
        let supervisor = self.supervision.last().map(|supervisor| supervisor.pid().raw());
        let is_contained = group.is_some() && limits.is_empty();
        let root =
            Stat::read(pid).filter(|stat| is_contained && Some(stat.parent) == supervisor).map(|stat| stat.identity);
        let tree = root.map(|root| tree(&self.supervision, key, root, group.clone()));
        let adopt = Order::Adopt { key, pid, group, mark: self.mark(key), limits };
        if let Some(start) = self.background.starts.get_mut(&key) {
            (start.adopt, start.tree) = (Some(adopt), tree);
        }
        self.happened_to_process(ProcessEvent::Forked { key, contained: root.is_some() });
    }

    /// See [`mark`].
    fn mark(&self, key: Key) -> String {
        mark(&self.supervision, key)
    }

    /// Opens the streams of a process and writes its command down.
    fn prepare_process(&mut self, key: Key) -> Option<ProcessEvent> {
        let mut start = self.background.starts.remove(&key)?;
        let prepared = self.write_command(key, &mut start);
        let event = match prepared {
            Ok(can_fail) => ProcessEvent::Prepared { key, can_fail },
            Err(error) => {
                start.failure = Some(not_started(&start.request, &error));
                ProcessEvent::NotPrepared(key)
            }
        };
        self.background.starts.insert(key, start);
        Some(event)
    }

    /// True if the process can still refuse its directory, its variables or its limits.
    fn write_command(&mut self, key: Key, start: &mut Start) -> io::Result<bool> {
        let theirs = self.open_streams(start)?;
        let new = &start.request.new;
        let inherited = new.limits.inherited;
        let (text, mut flags) = text_of(&new.command);
        let mut env = env_of(&new.env);
        if let Some(Tree { mark, .. }) = &start.tree {
            env.extend(format!("{MARK}={mark}\0").as_bytes());
        }
        flags.set(RequestFlags::TERMINAL_STREAMS, new.terminal.is_some());
        flags.set(RequestFlags::TYPED_END, new.terminal.is_some() && start.stdin.is_none());
        let wire = Request {
            text: &text,
            cwd: new.cwd.as_ref().map(|cwd| cwd.as_os_str().as_encoded_bytes()).unwrap_or_default(),
            env: &env,
            open_files: inherited.open_files,
            processes: inherited.processes,
            flags,
            ..Request::new(RequestKind::Run, key)
        };
        start.message = Some(Channel::prepare(&wire, theirs)?);
        Ok(new.cwd.is_some() || !new.env.is_empty() || inherited.open_files.or(inherited.processes).is_some())
    }

    /// Sends the process its command. If nothing can fail any more, answers the caller first. On a busy machine, the
    /// caller would otherwise wait until the supervisor and the process have been scheduled.
    fn begin_process(&mut self, key: Key, settled: bool) {
        let Some(mut start) = self.background.starts.remove(&key) else { return };
        let (adopt, message, beginning) = (start.adopt.take(), start.message.take(), start.beginning.take());
        let process = Arc::clone(&start.request.process);
        if settled {
            self.settle_process(key, start);
        } else {
            self.background.starts.insert(key, start);
        }
        adopt.iter().for_each(|adopt| self.supervision.ask(&mut self.cx, adopt));
        self.kill_if_doomed(key, &process);
        if self.cx.config.group.is_some() {
            self.cx.timers.set(Timer::NextGroup, Instant::now() + NEXT_GROUP);
        }
        if let (Some(message), Some(Beginning::Fork(channel))) = (message, beginning) {
            channel.post(message);
            self.report_later(key, Beginning::Fork(channel));
        }
    }

    /// Reports the beginning of a process when it is known.
    fn report_later(&self, key: Key, beginning: Beginning) {
        let internal = self.cx.internal.clone();
        tokio::spawn(async move {
            let received = match beginning {
                Beginning::Fork(channel) => channel.receive().await,
                Beginning::Launch(ready) => first_letter(ready).await,
            };
            let _ = internal.send(Internal::Process(key, received));
        });
    }

    /// Opens the streams and the channel of messages, and keeps the host's ends. Returns those of the process.
    fn open_streams(&self, start: &mut Start) -> io::Result<Vec<Descriptor>> {
        let new = &start.request.new;
        start.terminal = new.terminal.map(|size| self.open_terminal(size)).transpose()?;
        let Streams { mut theirs, output, stdin } = match &start.terminal {
            Some(terminal) => Streams::of_terminal(terminal, &new.input)?,
            None => Streams::open(&new.input, None, new.merge_output)?,
        };
        (start.output, start.stdin) = (output.into_reader(), stdin);
        if new.ipc {
            let (ours, channel) = messages::pair()?;
            theirs.push(channel.into());
            start.messages = Some(ours);
        }
        Ok(theirs)
    }

    /// Completes the start of a process.
    fn settle_process(&mut self, key: Key, start: Start) -> Arc<Process> {
        let Start { request, mut output, stdin, terminal, messages, tree, .. } = start;
        if let Err(error) = output.watch() {
            // A pipe that cannot be watched is closed, which ends a process that writes to it.
            tracing::warn!(log = self.cx.config.log.id(), session = %self.cx.config.id, process = %request.process.id, "the output of a process cannot be read: {error}");
        }
        let end = self.background.receive_end(key);
        let process = Arc::clone(&request.process);
        process::pump(Arc::clone(&process), output, end);
        if let Some(terminal) = terminal {
            process.set_terminal(terminal);
        }
        match messages.map(Messages::open).transpose() {
            Ok(messages) => messages.into_iter().for_each(|messages| process.set_messages(messages)),
            Err(error) => {
                tracing::warn!(log = self.cx.config.log.id(), session = %self.cx.config.id, process = %process.id, "the channel of a process cannot be watched: {error}");
            }
        }
        if let Some(pipe) = stdin.as_ref().and_then(StdinEnd::pipe) {
            process.set_input(pipe);
        }
        if let Some(end) = stdin {
            feed_until_end(end, request.new.input, &process);
        }
        if let Some(tree) = tree {
            tracing::debug!(log = self.cx.config.log.id(), session = %self.cx.config.id, process = %process.id, pid = %tree.root.pid, "process started");
            process.born(key, Birth { pid: tree.root.pid, at: SystemTime::now(), tree });
        }
        if let Some(timeout) = request.new.timeout {
            end_after(Arc::clone(&process), timeout, request.new.kill);
        }
        request.starter.answer(Ok(()));
        process
    }

    /// Kills a process whose kill was requested before it began, now that the supervisor has adopted it.
    fn kill_if_doomed(&mut self, key: Key, process: &Process) {
        if process.is_doomed() {
            self.perform_for_process(Effect::Kill(key));
        }
    }

    /// Handles a supervisor's report about a process.
    pub fn process_report(&mut self, report: Report) {
        match report {
            Report::Adopted { key, identity, group, problem } => {
                let tree = identity.map(|root| tree(&self.supervision, key, root, group));
                if let Some(start) = self.background.starts.get_mut(&key) {
                    start.tree = start.tree.take().or(tree);
                    start.failure = problem.as_ref().map(|problem| {
                        let message = format!("process '{}' cannot be limited: {problem}", start.request.process.id);
                        Error::new(Code::LimitUnsupported, message)
                    });
                }
                let (lives, limited) = (identity.is_some(), problem.is_none());
                self.happened_to_process(ProcessEvent::Adopted { key, lives, limited });
            }
            Report::ProcessEnded { key, code, signal, out_of_memory, asked } => {
                let status = self.background.detached.ended(key, Status { code, signal, out_of_memory, asked });
                self.happened_to_process(ProcessEvent::Ended(key, status));
            }
            // In plain mode, a process is a new bash.
            Report::Started { key: Some(key), identity, group } => {
                let tree = tree(&self.supervision, key, identity, group);
                if let Some(start) = self.background.starts.get_mut(&key) {
                    start.tree = Some(tree);
                }
                self.happened_to_process(ProcessEvent::Started(key));
            }
            Report::StartFailed { key: Some(key), step, errno, detail } => {
                self.background.fails_with(key, self.start_error(step, errno, &detail));
                self.happened_to_process(ProcessEvent::NotStarted(key));
            }
            Report::ProcessKilled { id, found, .. } => {
                if let Some(reply) = self.background.kills.remove(&id) {
                    let _ = reply.send(found);
                }
            }
            _ => {}
        }
    }

    /// Handles the first message of a process.
    pub fn process_reported(&mut self, key: Key, received: Received) {
        let event = match received {
            Received::Reply(Reply::Refused { reason, errno, about, .. }) => {
                let cwd = self.background.starts.get(&key).and_then(|start| start.request.new.cwd.clone());
                let error =
                    errors::refused(&self.cx, Some(Refused { reason, errno, about }), cwd.as_deref(), "process");
                self.background.fails_with(key, error);
                ProcessEvent::Refused(key)
            }
            Received::Reply(_) => ProcessEvent::Begun(key),
            Received::Closed { .. } => ProcessEvent::Silent(key),
        };
        self.happened_to_process(event);
    }

    /// Ends a process with its tree. Replies when nothing is left: false if it had already ended.
    pub fn kill_process(&mut self, key: Key, policy: KillPolicy, reply: oneshot::Sender<bool>) {
        if !self.supervision.is_connected() {
            let _ = reply.send(false);
            return;
        }
        let id = self.cx.numbers.next();
        self.background.kills.insert(id, reply);
        let grace_ms = if policy.signal == libc::SIGKILL { 0 } else { policy.grace.as_millis() as u64 };
        self.supervision.order(&mut self.cx, &Order::KillProcess { id, key, signal: policy.signal, grace_ms });
    }

    /// Handles the death of the supervisor, and of every process with it. Returns their ends.
    pub fn lose_processes(&mut self) -> Lost {
        let lost = self.background.lose_living();
        self.background.next_group = None;
        self.happened_to_process(ProcessEvent::SupervisorGone);
        self.background.kills.clear();
        self.background.detached.lose();
        lost
    }

    /// Detaches the command if that is due, or refuses it. Returns whether anything has changed.
    pub fn detach_if_due(&mut self) -> bool {
        let Some(command) = self.background.detached.requested() else { return false };
        let ticket = self.calls.ticket_of(command);
        let (is_ending, is_settled) =
            (self.foreground.awaits_rest(), !self.awaits_forks() && self.shell.pid().is_some());
        self.background.detached.request_if_due(&mut self.cx, &self.state, ticket, is_ending, is_settled)
    }

    /// Makes the running command with its shell a process. False if it has ended meanwhile; otherwise another shell is to take
    /// the place of its own.
    pub fn detach_command(&mut self, ticket: Ticket) -> bool {
        let (Some(request), Some((mut command, older))) =
            (self.background.detached.take_request(), self.foreground.detach(ticket))
        else {
            return false;
        };
        self.clear_command_timers(ticket);
        self.calls.answered(command.request().id);
        let (channel, shell) = self.shell.leave();
        let (key, number) = (self.cx.numbers.next(), self.foreground.number());
        let order = Order::Detach {
            key,
            mark: self.mark(key),
            command: self.engine.number_in_shell(number),
            spare: older.clone(),
        };
        let ends_call = request.ends_call;
        let detached = DetachedCommand::new(request, &mut command, shell, number, older);
        let (process, report) = (Arc::clone(&detached.process), Arc::clone(&detached.report));
        tracing::debug!(log = self.cx.config.log.id(), session = %self.cx.config.id, process = %process.id, ?shell, "a command becomes a process");
        if let Some(channel) = channel {
            tokio::spawn(await_end(channel, number, Arc::clone(&report)));
        }
        self.background.detached.add(key, detached);
        let end = self.background.receive_end(key);
        self.happened_to_process(ProcessEvent::Detached(key));
        let mut outcome = Outcome { cwd: self.cx.cwd.clone(), ..Outcome::default() };
        outcome.deny(self.enclosure.denials().map(|denials| denials.take()).unwrap_or_default());
        show_detach(&self.cx, &mut command, &process.id);
        if ends_call {
            let (sink, outcome) = command.answer(outcome.clone());
            self.foreground.deliver(sink, Ok(outcome));
        }
        tokio::spawn(carry_on(command, process, report, end, outcome));
        self.supervision.ask(&mut self.cx, &order);
        true
    }

    /// Handles the supervisor's answer.
    pub fn detached(&mut self, key: Key, identity: Option<Identity>, group: Option<String>) {
        let tree = |root| tree(&self.supervision, key, root, group);
        if let Some(status) = self.background.detached.adopted(key, identity, tree) {
            self.happened_to_process(ProcessEvent::Ended(key, status));
        }
    }

    /// Kills a process that was a command, for the caller of the command.
    pub fn interrupt_detached(&mut self, request: u64, signal: Option<i32>, by: KilledBy) {
        if let Some((key, policy)) = self.background.detached.cancel(request, signal, by) {
            self.kill_process(key, policy, oneshot::channel().0);
        }
    }
}

/// Writes standard input until the process ends. Nothing else closes a terminal's side when the process is killed.
fn feed_until_end(end: StdinEnd, input: Input, process: &Arc<Process>) {
    let feeder = stdin::feed(end, input);
    let process = Arc::clone(process);
    tokio::spawn(async move {
        let abort = feeder.abort_handle();
        tokio::select! {
            _ = feeder => {}
            () = process.wait() => abort.abort(),
        }
    });
}

/// The process and its descendants.
fn tree(supervision: &Supervision, key: Key, root: Identity, group: Option<String>) -> Tree {
    let guardian = supervision.last().map_or(root.pid, PidHold::pid);
    Tree { root, group: group.map(Group::at), mark: mark(supervision, key), guardian, spare: Vec::new() }
}

/// The mark that distinguishes the process from all others below any supervisor.
fn mark(supervision: &Supervision, key: Key) -> String {
    format!("{}-{key}", supervision.last().map_or(0, |supervisor| supervisor.pid().raw()))
}

fn not_started(request: &StartRequest, error: &io::Error) -> Error {
    let message = format!("process '{}' cannot be started: {error}", request.process.id);
    Error::new(Code::SpawnFailed, message)
}
