//! Performs what the machine decides: forks processes, sends their commands, and answers their callers.

use super::detached::{DetachedCommand, DetachedEnd, await_end, carry_on};
use super::machine::{Effect, Key, ProcessEvent, Why};
use super::{Lost, Start};
use crate::error::{Code, Error};
use crate::exec::{Input, KillPolicy, KilledBy, Outcome};
use crate::feed::What;
use crate::link::Descriptor;
use crate::process::pump::Status;
use crate::process::{self, Birth, DetachRequest, Process, StartRequest, end_after};
use crate::session::actor::Session;
use crate::session::calls::Call;
use crate::session::commands::no_fork;
use crate::session::foreground::{ForegroundCommand, Refused};
use crate::session::internal::Internal;
use crate::session::observed::show_unseen;
use crate::session::plain::first_letter;
use crate::session::stdin::{self, StdinEnd};
use crate::session::streams::{Streams, env_of, text_of};
use crate::session::timers::Timer;
use crate::shell::channel::{Channel, Received};
use crate::shell::event::{self, Source};
use crate::shell::plain_script;
use crate::shell::state::{Ticket, Work};
use crate::supervisor::PidHold;
use crate::sys;
use nacre_containment::cgroup::Group;
use nacre_containment::pid::{Identity, Pid};
use nacre_containment::proc_table::Stat;
use nacre_containment::tree::{MARK, Tree};
use nacre_protocol::shell::{Reply, Request, RequestFlags, RequestKind};
use nacre_protocol::supervisor::{Asked, Order, Report, Role, StartStep};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};
use tokio::sync::oneshot;
use tokio::time::Instant;

/// Time after a start at which the group for the next process is created. That takes the kernel 0.1 ms.
const SPARE_GROUP: Duration = Duration::from_millis(2);
/// How often a process is started, if its shell or its supervisor dies each time before the command begins.
const MAX_ATTEMPTS: u32 = 10;

impl Session {
    /// Passes an event to the machine, and performs what follows.
    fn happened_to_process(&mut self, event: ProcessEvent) {
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
                if let Some(ready) = self.background.starts.get_mut(&key).and_then(|start| start.ready.take()) {
                    self.report_later(key, first_letter(ready));
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

    /// Adds a command with its shell to the processes. Returns what receives its end.
    pub(in crate::session) fn add_detached(&mut self, key: Key) -> oneshot::Receiver<Status> {
        let end = self.background.receive_end(key);
        self.happened_to_process(ProcessEvent::Detached(key));
        end
    }

    /// Reports the end of a process whose end the supervisor does not report.
    pub(in crate::session) fn end_detached(&mut self, key: Key, status: Status) {
        self.happened_to_process(ProcessEvent::Ended(key, status));
    }

    fn why_refused(&self, request: &StartRequest, why: Why) -> Error {
        let id = &request.process.id;
        match why {
            Why::NoFork => no_fork(),
            Why::Killed => Error::new(Code::SpawnFailed, format!("process '{id}' was killed before it had begun")),
            Why::Failed => Error::new(Code::EngineError, format!("process '{id}' cannot be started")),
            Why::Closing => self.cx.ended_error(),
        }
    }

    /// Starts a process from the shell or from the standby.
    pub(in crate::session) fn fork_process(&mut self, request: StartRequest, source: Source) {
        self.start_process(request, |session, key, start| session.ask_for_fork(key, start, source));
    }

    /// Starts a process in a bash of its own, with the state after the last finished command.
    pub(in crate::session) fn launch_process(&mut self, request: StartRequest) {
        self.start_process(request, Self::launch);
    }

    /// `ask` asks the shell or the supervisor.
    fn start_process(
        &mut self,
        request: StartRequest,
        ask: impl FnOnce(&mut Self, Key, &mut Start) -> Result<ProcessEvent, Error>,
    ) {
        if request.process.is_doomed() {
            return request.refuse(self.cx.ended_error());
        }
        // Keys of processes and numbers of requests form one sequence, so a number identifies a fork.
        let key = self.cx.numbers.next();
        let mut start = Start::new(request);
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
        let spare = self.background.spare_group.take().filter(|group| group.is_dir());
        start.group = spare.or_else(|| self.supervision.make_group(&self.cx, &format!("b-{key}")));
        let mut flags = RequestFlags::BACKGROUND;
        if start.request.new.terminal.is_some() {
            flags |= RequestFlags::TERMINAL;
        }
        self.announce_forks(true);
        let asked = Channel::pair().and_then(|(channel, theirs)| {
            let directory = start.group.as_deref().map(sys::open_directory).transpose()?;
            if directory.is_some() {
                flags |= RequestFlags::GROUP;
            }
            let from = if source == Source::Shell { shell.as_deref() } else { self.standbys.channel() };
            from.ok_or(io::ErrorKind::NotConnected)?.send(
                &Request { flags, fork_key: self.cx.numbers.fork_key(), ..Request::new(RequestKind::Fork, key) },
                [theirs].into_iter().chain(directory).map(Descriptor::from).collect(),
            )?;
            Ok(channel)
        });
        start.channel = Some(asked.map_err(|error| not_started(&start.request, &error))?);
        Ok(ProcessEvent::Asked(key, source))
    }

    fn launch(&mut self, key: Key, start: &mut Start) -> Result<ProcessEvent, Error> {
        let new = &start.request.new;
        let limits = [new.limits.inherited.open_files, new.limits.inherited.processes];
        let has_terminal = new.terminal.is_some();
        let script = self.plain_script(&new.env, new.cwd.as_deref(), limits, |plan| {
            plain_script::process(plan, &new.command, has_terminal)
        })?;
        let role =
            Role::Process { key, mark: self.mark(key), limits: new.limits.group.clone(), terminal: has_terminal };
        let order = Order::Start {
            role,
            arguments: plain_script::process_arguments(),
            first_descriptor: 0,
            anywhere: self.engine.has_state(),
        };
        let mut launch = || {
            let text = sys::memory_file()?;
            sys::replace_contents(&text, &script)?;
            let (ready, theirs) = sys::pipe()?;
            sys::set_nonblocking(&ready)?;
            let streams = self.open_streams(start)?;
            self.supervision.order_with(
                &mut self.cx,
                &order,
                streams.into_iter().chain([text, theirs].map(Descriptor::from)).collect(),
            );
            start.ready = Some(ready);
            Ok(ProcessEvent::Launched(key))
        };
        launch().map_err(|error| not_started(&start.request, &error))
    }

    /// Creates the group for the next process in advance.
    pub(in crate::session) fn make_spare_group(&mut self) {
        if self.background.spare_group.is_none() && self.shell.channel().is_some() {
            let number = self.cx.numbers.next();
            self.background.spare_group = self.supervision.make_group(&self.cx, &format!("b-{number}"));
        }
    }

    /// Forgets the group for the next process, which belonged to the last supervisor.
    pub(in crate::session) fn forget_spare_group(&mut self) {
        self.background.spare_group = None;
    }

    /// Handles the report that the shell or standby has forked the process, or failed to.
    pub(in crate::session) fn process_forked(&mut self, key: Key, child: Result<Option<Pid>, i32>, placed: bool) {
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
        let tree = root.map(|root| self.tree(key, root, group.clone()));
        let adopt = Order::Adopt { key, pid, group, mark: self.mark(key), limits };
        if let Some(start) = self.background.starts.get_mut(&key) {
            (start.adopt, start.tree) = (Some(adopt), tree);
        }
        self.happened_to_process(ProcessEvent::Forked { key, contained: root.is_some() });
    }

    /// The process and its descendants.
    pub(in crate::session) fn tree(&self, key: Key, root: Identity, group: Option<String>) -> Tree {
        let guardian = self.supervision.last().map_or(root.pid, PidHold::pid);
        Tree { root, group: group.map(Group::at), mark: self.mark(key), guardian, spare: Vec::new() }
    }

    /// The mark that distinguishes the process from all others below any supervisor.
    pub(in crate::session) fn mark(&self, key: Key) -> String {
        format!("{}-{key}", self.supervision.last().map_or(0, |supervisor| supervisor.pid().raw()))
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
        let (adopt, message, channel) = (start.adopt.take(), start.message.take(), start.channel.take());
        let process = Arc::clone(&start.request.process);
        if settled {
            self.settle_process(key, start);
        } else {
            self.background.starts.insert(key, start);
        }
        adopt.iter().for_each(|adopt| self.supervision.ask(&mut self.cx, adopt));
        self.kill_if_doomed(key, &process);
        if self.cx.config.group.is_some() {
            self.cx.timers.set(Timer::SpareGroup, Instant::now() + SPARE_GROUP);
        }
        if let (Some(message), Some(channel)) = (message, channel) {
            channel.post(message);
            self.report_later(key, async move { channel.receive().await });
        }
    }

    /// Reports the beginning of a process when it is known.
    fn report_later(&self, key: Key, received: impl Future<Output = Received> + Send + 'static) {
        let internal = self.cx.internal.clone();
        tokio::spawn(async move {
            let received = received.await;
            let _ = internal.send(Internal::Process(key, received));
        });
    }

    /// Opens the streams, and keeps the host's ends. Returns those of the process.
    fn open_streams(&self, start: &mut Start) -> io::Result<Vec<Descriptor>> {
        let new = &start.request.new;
        let Some(size) = new.terminal else {
            let Streams { theirs, output, stdin } = Streams::open(&new.input, None, new.merge_output)?;
            (start.output, start.stdin) = (output.into_reader(), stdin);
            return Ok(theirs);
        };
        let terminal = self.open_terminal(size)?;
        let Streams { theirs, output, stdin } = Streams::of_terminal(&terminal, &new.input)?;
        (start.output, start.stdin, start.terminal) = (output.into_reader(), stdin, Some(terminal));
        Ok(theirs)
    }

    /// Completes the start of a process.
    fn settle_process(&mut self, key: Key, start: Start) -> Arc<Process> {
        let Start { request, mut output, stdin, terminal, tree, .. } = start;
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
    pub(in crate::session) fn process_report(&mut self, report: Report) {
        match report {
            Report::Adopted { key, identity, group, problem } => {
                let tree = identity.map(|root| self.tree(key, root, group));
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
            Report::ProcessKilled { id, found, .. } => {
                if let Some(reply) = self.background.kills.remove(&id) {
                    let _ = reply.send(found);
                }
            }
            _ => {}
        }
    }

    /// Handles the start of a process's bash (plain mode), which reports when its command begins.
    pub(in crate::session) fn plain_process_started(&mut self, key: Key, root: Identity, group: Option<String>) {
        let tree = self.tree(key, root, group);
        if let Some(start) = self.background.starts.get_mut(&key) {
            start.tree = Some(tree);
        }
        self.happened_to_process(ProcessEvent::Started(key));
    }

    /// Handles a process's bash that could not be started (plain mode).
    pub(in crate::session) fn plain_process_failed(&mut self, key: Key, step: StartStep, errno: i32, detail: &str) {
        let error = self.start_error(step, errno, detail);
        self.background.fails_with(key, error);
        self.happened_to_process(ProcessEvent::NotStarted(key));
    }

    /// Handles the first message of a process.
    pub(in crate::session) fn process_reported(&mut self, key: Key, received: Received) {
        let event = match received {
            Received::Reply(Reply::Refused { reason, errno, about, .. }) => {
                let cwd = self.background.starts.get(&key).and_then(|start| start.request.new.cwd.clone());
                let error = self.refused(Some(Refused { reason, errno, about }), cwd.as_deref(), "process");
                self.background.fails_with(key, error);
                ProcessEvent::Refused(key)
            }
            Received::Reply(_) => ProcessEvent::Begun(key),
            Received::Closed { .. } => ProcessEvent::Silent(key),
        };
        self.happened_to_process(event);
    }

    /// Ends a process with its tree. Replies when nothing is left: false if it had already ended.
    pub(in crate::session) fn kill_process(&mut self, key: Key, policy: KillPolicy, reply: oneshot::Sender<bool>) {
        if !self.supervision.is_connected() {
            let _ = reply.send(false);
            return;
        }
        self.background.kill_orders += 1;
        let id = self.background.kill_orders;
        self.background.kills.insert(id, reply);
        let grace_ms = if policy.signal == libc::SIGKILL { 0 } else { policy.grace.as_millis() as u64 };
        self.supervision.order(&mut self.cx, &Order::KillProcess { id, key, signal: policy.signal, grace_ms });
    }

    /// Resubmits the starts that the dead shell or standby has not forked.
    pub(in crate::session) fn source_gone(&mut self, source: Source) {
        self.happened_to_process(ProcessEvent::SourceGone(source));
    }

    /// Moves pending forks from the standby to the shell, after its promotion.
    pub(in crate::session) fn standby_promoted(&mut self) {
        self.happened_to_process(ProcessEvent::Promoted);
    }

    /// Refuses all processes that have not begun, because the session is being closed.
    pub(in crate::session) fn refuse_starting_processes(&mut self) {
        self.happened_to_process(ProcessEvent::Closing);
    }

    /// Handles the death of the supervisor, and of every process with it. Returns their ends.
    pub(in crate::session) fn lose_processes(&mut self) -> Lost {
        let lost = self.background.lose_living();
        self.happened_to_process(ProcessEvent::SupervisorGone);
        self.background.kills.clear();
        self.background.detached.lose();
        lost
    }

    /// Makes a command a process as soon as that is possible.
    pub(in crate::session) fn detach(&mut self, request: DetachRequest) {
        if self.foreground.detaching.is_some() {
            return request
                .starter
                .answer(Err(Error::not_detached("it is already being detached: wait for the other call")));
        }
        self.foreground.detaching = Some(request);
    }

    /// Detaches the command if that is due, or refuses it. Returns whether anything has changed.
    pub(in crate::session) fn detach_if_due(&mut self) -> bool {
        let Some(DetachRequest { command, .. }) = &self.foreground.detaching else { return false };
        let ticket = self.calls.ticket_of(*command);
        let why = match (ticket, self.state.running()) {
            (None, _) => "it has already ended: its result has all of its output",
            (Some(ticket), Some(run))
                if run.ticket == ticket && (run.end.is_some() || run.shell_died || self.foreground.rest.is_some()) =>
            {
                "it has just ended: its result has all of its output"
            }
            (Some(ticket), Some(run)) if run.ticket == ticket && run.kill.is_some() => "it is being killed",
            (Some(ticket), Some(run)) if run.ticket == ticket => {
                // The standby has the state before the command only once every fork that was asked for has arrived.
                // In plain mode, the shell of the command may still be starting.
                if self.awaits_forks() || self.state.standby.forking || self.shell.pid().is_none() {
                    return false;
                }
                if self.state.can_detach(ticket) {
                    self.cx.events.push_back(event::Event::Detach(ticket));
                    return true;
                }
                "no shell can take the place of its own (limit of processes or memory): let it end, or start it with startProcess"
            }
            _ => "it has not begun: wait for the event 'start'",
        };
        if let Some(DetachRequest { starter, .. }) = self.foreground.detaching.take() {
            starter.answer(Err(Error::not_detached(why)));
        }
        true
    }

    /// Makes the running command with its shell a process. False if it has ended meanwhile; otherwise another shell is to take
    /// the place of its own.
    pub(in crate::session) fn detach_command(&mut self, ticket: Ticket) -> bool {
        let (Some(request), Some(mut command)) = (self.foreground.detaching.take(), self.foreground.take(ticket))
        else {
            return false;
        };
        let DetachRequest { process, ends_call, starter, .. } = request;
        self.foreground.take_owed();
        self.clear_command_timers(ticket);
        self.foreground.pace.ended(command.elapsed());
        self.calls.answered(command.request().id);
        let (channel, shell) = self.shell.leave();
        let key = self.cx.numbers.next();
        tracing::debug!(log = self.cx.config.log.id(), session = %self.cx.config.id, process = %process.id, ?shell, "a command becomes a process");
        let (number, report) = (self.cx.numbers.command(), Arc::new(DetachedEnd::default()));
        if let Some(channel) = channel {
            tokio::spawn(await_end(channel, number, Arc::clone(&report)));
        }
        if let Some(pipe) = command.input() {
            process.set_input(pipe);
        }
        process.detached();
        command.log_to(process.log.clone());
        let spare = self.foreground.take_spared();
        let detached = DetachedCommand {
            process: Arc::clone(&process),
            shell,
            number,
            report: Arc::clone(&report),
            request: command.request().id,
            kill: command.kill_policy(),
            started_at: command.started_at(),
            deadline: command.deadline().filter(|_| ends_call),
            spare: spare.clone(),
            died: None,
            starter: Some(starter),
        };
        self.background.detached.add(key, detached);
        let end = self.add_detached(key);
        let denials = self.enclosure.denials().map(|denials| denials.take()).unwrap_or_default();
        self.show_detach(&mut command, &process.id, &denials);
        let outcome = Outcome { cwd: self.cx.cwd.clone(), denials, ..Outcome::default() };
        if ends_call {
            let (sink, outcome) = command.answer(outcome.clone());
            self.foreground.deliveries.deliver(sink, Ok(outcome));
        }
        tokio::spawn(carry_on(command, process, report, end, outcome));
        let command = self.engine.number_in_shell(number);
        let order = Order::Detach { key, mark: self.mark(key), command, spare };
        self.supervision.ask(&mut self.cx, &order);
        true
    }

    /// Reports that a command has become a process, and before that what was not reported.
    fn show_detach(&mut self, command: &mut ForegroundCommand, process: &str, denials: &[String]) {
        if self.cx.config.feed.is_watched() {
            show_unseen(&self.cx, command);
        }
        denials.iter().for_each(|target| self.cx.happens(What::Denied { target: target.clone() }));
        self.cx.happens(What::CommandDetached { id: command.request().id, process: process.into() });
    }

    /// Handles the supervisor's answer.
    pub(in crate::session) fn detached(&mut self, key: Key, identity: Option<Identity>, group: Option<String>) {
        let Some(command) = self.background.detached.get_mut(key) else { return };
        let (starter, died, spare) = (command.starter.take(), command.died, std::mem::take(&mut command.spare));
        let (process, at) = (Arc::clone(&command.process), command.started_at);
        let (deadline, kill) = (command.deadline, command.kill);
        let known = identity.or(command.shell.map(|pid| Identity { pid, start_ticks: 0 }));
        let Some(root) = known else { return };
        let tree = Tree { spare, ..self.tree(key, root, group) };
        process.born(key, Birth { pid: root.pid, at, tree });
        if let Some(deadline) = deadline {
            end_after(Arc::clone(&process), deadline.saturating_duration_since(Instant::now()), kill);
        }
        if identity.is_none() {
            let (code, signal) = died.unwrap_or_default();
            let status = Status { code, signal, out_of_memory: false, asked: Asked::No };
            let status = self.background.detached.ended(key, status);
            self.end_detached(key, status);
        }
        if let Some(starter) = starter {
            starter.answer(Ok(()));
        }
    }

    /// Kills a process that was a command, for the caller of the command.
    pub(in crate::session) fn interrupt_detached(&mut self, request: u64, signal: Option<i32>, by: KilledBy) {
        let Some((key, command)) = self.background.detached.of_request(request) else { return };
        let policy = KillPolicy { signal: signal.unwrap_or(command.kill.signal), ..command.kill };
        command.report.is_cancelled.store(true, Ordering::Relaxed);
        command.process.doom(by, policy.signal);
        self.kill_process(key, policy, oneshot::channel().0);
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

fn not_started(request: &StartRequest, error: &io::Error) -> Error {
    let message = format!("process '{}' cannot be started: {error}", request.process.id);
    Error::new(Code::SpawnFailed, message)
}
