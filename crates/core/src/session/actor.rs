//! The actor that owns a session: it turns whatever happens into events of the shell's state machine, and carries the
//! machine's actions out.

use super::command::{OutputPipes, Running};
use super::perform::Wait;
use super::plain::Plain;
use super::processes::Processes;
use super::spinning::{self, Pace};
use super::timers::{Timer, Timers};
use super::{Config, EnvChange, Message};
use crate::error::Error;
use crate::exec::ExecRequest;
use crate::output::capture::Leftover;
use crate::process::StartRequest;
use crate::shell::channel::{Channel, Received};
use crate::shell::listener::{self, Reconnected};
use crate::shell::state::{Event, Shell, State, Ticket, Work};
use crate::shell::transition::step;
use crate::supervisor::Supervisor;
use nacre_containment::pid::Pid;
use nacre_protocol::shell::{Done, DoneFlags, Reply};
use nacre_protocol::supervisor::Report;
use std::collections::{HashMap, VecDeque};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep_until;

/// A call that has not been answered.
pub(super) enum Call {
    Open(oneshot::Sender<Result<(), Error>>),
    Exec(Box<ExecRequest>),
    SetEnv { vars: EnvChange, reply: oneshot::Sender<Result<(), Error>> },
    Start(Box<StartRequest>),
}

/// What tasks of the session's own report.
pub(super) enum Internal {
    /// From the channel of a background process that is starting.
    Process(u64, Received),
    /// What could be saved after the supervisor's death.
    Salvaged(Option<Vec<u8>>),
    /// The version of a shell that never said hello; nothing when it is no bash.
    Version(Option<String>),
}

/// The session's processes, as far as they can be talked to.
#[derive(Default)]
pub(super) struct Link {
    pub(super) supervisor: Option<Supervisor>,
    pub(super) shell: Option<Channel>,
    pub(super) shell_pid: Option<Pid>,
    /// The shell said hello before the supervisor reported its start.
    pub(super) said_hello: bool,
    /// The supervisor has left nothing.
    pub(super) ended: bool,
    /// The shell's channel was closed with a request unread.
    pub(super) unread: bool,
    pub(super) standby: Option<(Channel, Pid)>,
    /// The standby that is being forked, and its group.
    pub(super) next_standby: Option<(u64, Channel, Option<PathBuf>)>,
    /// Directory of the foreground group.
    pub(super) foreground: Option<PathBuf>,
    /// Standbys that were replaced and live in the foreground group.
    pub(super) retired: Vec<Pid>,
}

enum Arrival {
    Shell(Received),
    Standby(Received),
    Supervisor(Option<Report>),
}

impl Link {
    /// The next thing that arrives. Cancel-safe.
    async fn next(&self) -> Arrival {
        let channel = async |channel: Option<&Channel>| match channel {
            Some(channel) => channel.receive().await,
            None => std::future::pending().await,
        };
        let report = async || match &self.supervisor {
            Some(supervisor) => supervisor.report().await,
            None => std::future::pending().await,
        };
        tokio::select! {
            biased;
            received = channel(self.shell.as_ref()) => Arrival::Shell(received),
            received = channel(self.standby.as_ref().map(|(channel, _)| channel)) => Arrival::Standby(received),
            report = report() => Arrival::Supervisor(report),
        }
    }
}

/// See the module.
pub(super) struct Session {
    pub(super) config: Config,
    pub(super) state: State,
    pub(super) events: VecDeque<Event>,
    pub(super) calls: HashMap<Ticket, Call>,
    pub(super) link: Link,
    pub(super) command: Option<Running>,
    pub(super) processes: Processes,
    pub(super) timers: Timers,
    pub(super) wait: Wait,
    pub(super) plain: Plain,
    pub(super) internal: mpsc::UnboundedSender<Internal>,
    pub(super) reconnects: mpsc::UnboundedSender<Reconnected>,
    /// The session's directory after the last command.
    pub(super) cwd: PathBuf,
    /// The state that a new shell starts with, as text.
    pub(super) checkpoint: Option<Vec<u8>>,
    /// Why there is no shell.
    pub(super) failure: Option<Error>,
    /// The pipes of the command that was answered last.
    pub(super) leftover: Option<Leftover>,
    /// For the next command.
    pub(super) spare_pipes: Option<OutputPipes>,
    pub(super) closing: Option<(Duration, Vec<oneshot::Sender<()>>)>,
    pub(super) pace: Pace,
    /// The last command took a fraction of a millisecond.
    pub(super) quick: bool,
    /// The supervisor that was started last.
    pub(super) last_supervisor: Option<Pid>,
    tickets: Ticket,
    requests: HashMap<u64, Ticket>,
}

/// Runs a session until it is closed or every handle is gone.
pub(super) async fn run(config: Config, mut mailbox: mpsc::UnboundedReceiver<Message>) {
    let (internal, mut own_messages) = mpsc::unbounded_channel();
    let (reconnects, mut reconnected) = mpsc::unbounded_channel();
    let mut session = Session::new(config, internal, reconnects);
    while session.state.shell != Shell::Closed {
        session.step_all();
        if session.state.shell == Shell::Closed {
            break;
        }
        if let Some(message) = session.pace.look(|| mailbox.try_recv().ok()) {
            session.take(message);
            continue;
        }
        let wake_at = session.timers.next();
        tokio::select! {
            biased;
            arrival = session.link.next() => session.arrived(arrival),
            message = mailbox.recv(), if session.closing.is_none() => match message {
                Some(message) => session.take(message),
                None => session.close(Duration::ZERO, None),
            },
            Some(message) = own_messages.recv() => session.reported(message),
            Some(message) = reconnected.recv() => session.reconnected(message),
            () = step_capture(&mut session.command) => {}
            () = sleep_until(wake_at) => session.time_passed(),
        }
    }
    // Calls that were sent while the session was being closed.
    mailbox.close();
    while let Ok(message) = mailbox.try_recv() {
        session.take(message);
        session.step_all();
    }
    if let Some((_, replies)) = session.closing.take() {
        for reply in replies {
            let _ = reply.send(());
        }
    }
}

async fn step_capture(command: &mut Option<Running>) {
    match command {
        Some(command) => command.step().await,
        None => std::future::pending().await,
    }
}

impl Session {
    fn new(
        config: Config,
        internal: mpsc::UnboundedSender<Internal>,
        reconnects: mpsc::UnboundedSender<Reconnected>,
    ) -> Self {
        Self {
            state: State::new(config.survive_exit),
            cwd: config.cwd.clone(),
            config,
            events: VecDeque::new(),
            calls: HashMap::new(),
            link: Link::default(),
            command: None,
            processes: Processes::default(),
            timers: Timers::default(),
            wait: Wait::default(),
            plain: Plain::default(),
            internal,
            reconnects,
            checkpoint: None,
            failure: None,
            leftover: None,
            spare_pipes: None,
            closing: None,
            pace: Pace::default(),
            quick: false,
            last_supervisor: None,
            tickets: 0,
            requests: HashMap::new(),
        }
    }

    /// Lets the machine take every event there is.
    pub(super) fn step_all(&mut self) {
        while let Some(event) = self.events.pop_front() {
            let before = self.state.shell;
            tracing::trace!(log = self.config.log.id(), session = %self.config.id, ?event, "event");
            let (state, actions) = step(std::mem::replace(&mut self.state, State::new(true)), event);
            self.state = state;
            if self.state.shell != before {
                tracing::debug!(log = self.config.log.id(), session = %self.config.id, from = ?before, to = ?self.state.shell, "shell");
            }
            for action in actions {
                self.perform(action);
            }
            self.take_back_command();
            self.schedule_standby();
        }
        if let Some(leftover) = self.leftover.take() {
            leftover.let_go();
        }
    }

    /// A command that the dead shell had not taken waits in the queue again.
    fn take_back_command(&mut self) {
        let queued = self.state.queue.front().map(|(ticket, _)| *ticket);
        if let Some(command) = self.command.take_if(|command| queued == Some(command.ticket)) {
            self.calls.insert(command.ticket, Call::Exec(command.into_request()));
        }
    }

    fn submit(&mut self, call: Call, work: Work) -> Ticket {
        self.tickets += 1;
        self.calls.insert(self.tickets, call);
        self.events.push_back(Event::Submit(self.tickets, work));
        self.tickets
    }

    /// A request that was cancelled, answered or never made has no ticket.
    pub(super) fn forget_request(&mut self, id: u64) {
        self.requests.remove(&id);
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Open(reply) => drop(self.submit(Call::Open(reply), Work::Open)),
            Message::Exec(request) => {
                self.pace.command_arrived();
                let id = request.id;
                let ticket = self.submit(Call::Exec(request), Work::Command);
                self.requests.insert(id, ticket);
            }
            Message::SetEnv { vars, reply } => drop(self.submit(Call::SetEnv { vars, reply }, Work::SetEnv)),
            Message::Start(request) => drop(self.submit(Call::Start(request), Work::Start)),
            Message::KillProcess { key, policy, reply } => match &self.link.supervisor {
                Some(supervisor) => self.processes.kill(key, policy, reply, supervisor),
                None => drop(reply.send(false)),
            },
            Message::Interrupt { id, signal } => {
                if let Some(ticket) = self.requests.get(&id) {
                    self.events.push_back(Event::Cancel(*ticket, signal));
                }
            }
            Message::Close { grace, reply } => self.close(grace, Some(reply)),
        }
    }

    fn close(&mut self, grace: Duration, reply: Option<oneshot::Sender<()>>) {
        let (_, replies) = self.closing.get_or_insert((grace, Vec::new()));
        replies.extend(reply);
        self.events.push_back(Event::Close);
    }

    fn arrived(&mut self, arrival: Arrival) {
        match arrival {
            Arrival::Shell(received) => self.shell_said(received),
            Arrival::Standby(received) => self.standby_said(received),
            Arrival::Supervisor(Some(report)) => self.supervisor_said(report),
            Arrival::Supervisor(None) => {
                self.drain_shell();
                self.link.supervisor = None;
                let (unread, orderly) = (self.takes_unread(), std::mem::take(&mut self.link.ended));
                self.events.push_back(Event::SupervisorGone { unread, orderly });
            }
        }
    }

    /// Takes what the shell has said until now. Before its death is believed: what it said before comes first.
    pub(super) fn drain_shell(&mut self) {
        while let Some(received) = self.link.shell.as_ref().and_then(Channel::poll) {
            self.shell_said(received);
        }
    }

    fn shell_said(&mut self, received: Received) {
        match received {
            Received::Closed { unread } => {
                // Dead, or its end was closed by a command: the supervisor or a new connection will say.
                self.link.shell = None;
                self.link.unread = unread;
            }
            // The supervisor's report, with the pid and the group, may come later: both are needed.
            Received::Reply(Reply::Hello { .. }) if self.link.shell_pid.is_none() => self.link.said_hello = true,
            Received::Reply(Reply::Hello { .. }) => self.events.push_back(Event::Hello),
            Received::Reply(
                Reply::Done(Done { id, .. }) | Reply::Refused { id, .. } | Reply::Begun { id, .. } | Reply::Ending { id },
            ) if id != self.wait.command && self.wait.setting_up == 0 => {
                tracing::warn!(log = self.config.log.id(), session = %self.config.id, "a forged report was ignored");
            }
            Received::Reply(Reply::Done(done)) => self.command_done(done),
            Received::Reply(Reply::Refused { reason, about, .. }) => {
                self.wait.refused = Some((reason, about));
                self.events.push_back(Event::Refused);
            }
            Received::Reply(Reply::Promoted { .. }) => self.events.push_back(Event::Promoted),
            Received::Reply(Reply::Ending { .. }) => self.events.push_back(Event::TrapRuns),
            Received::Reply(Reply::Forked { id, result, flags }) => self.forked(id, result, flags),
            Received::Reply(Reply::Begun { .. }) => self.announce(),
        }
    }

    fn command_done(&mut self, done: Done) {
        if self.wait.setting_up > 0 {
            self.wait.setting_up -= 1;
            if self.wait.setting_up == 0 {
                self.events.push_back(Event::SetUp);
            }
            return;
        }
        if let Some(command) = &mut self.command {
            command.forked = done.forks > 0;
        }
        let event = Event::Done {
            status: done.status,
            exited: done.flags.contains(DoneFlags::EXITED),
            state_kept: done.flags.contains(DoneFlags::STATE_KEPT),
            forked: done.forks > 0,
        };
        if done.flags.contains(DoneFlags::FRAMES_DISCARDED) {
            tracing::debug!(log = self.config.log.id(), session = %self.config.id, "bash has discarded frames without unwinding them");
        }
        if !done.cwd.is_empty() {
            self.cwd = PathBuf::from(OsString::from_vec(done.cwd));
        }
        self.events.push_back(event);
    }

    fn standby_said(&mut self, received: Received) {
        match received {
            Received::Closed { .. } => self.lose_standby(),
            Received::Reply(Reply::Forked { id, result, flags }) => self.forked(id, result, flags),
            Received::Reply(_) => {}
        }
    }

    fn lose_standby(&mut self) {
        if let Some((_, pid)) = self.link.standby.take() {
            if self.state.shell != Shell::Closing {
                tracing::warn!(log = self.config.log.id(), session = %self.config.id, %pid, "the standby died");
            }
            listener::forget(pid);
            self.events.push_back(Event::StandbyDied);
        }
        self.processes.source_died(&self.config.id, false);
    }

    fn supervisor_said(&mut self, report: Report) {
        self.wait.answered();
        match report {
            Report::Started { identity, key: None, group } => {
                self.link.shell_pid = Some(identity.pid);
                self.link.foreground = group.map(PathBuf::from);
                if !self.config.uses_builtin {
                    return self.plain_started();
                }
                listener::expect(identity.pid, self.reconnects.clone());
                if std::mem::take(&mut self.link.said_hello) {
                    self.events.push_back(Event::Hello);
                }
            }
            Report::StartFailed { key: None, step, errno } => self.plain_not_started(step, errno),
            Report::Started { key: Some(key), identity, group } => self.plain_process_started(key, identity, group),
            Report::StartFailed { key: Some(key), step, errno } => self.plain_process_failed(key, step, errno),
            Report::ShellEnded { pid, code, signal } if self.link.shell_pid == Some(pid) => {
                self.drain_shell();
                self.shell_ended(pid, code, signal);
            }
            Report::ShellEnded { .. } => {}
            Report::Ended => self.link.ended = true,
            Report::StandbyEnded { pid } => {
                if self.link.standby.as_ref().is_some_and(|(_, standby)| *standby == pid) {
                    self.lose_standby();
                }
            }
            Report::Promoted { shell: Some(_), group } => self.link.foreground = group.map(PathBuf::from),
            Report::Promoted { shell: None, .. } => {
                self.link.shell = None;
                self.events.push_back(Event::ShellDied { unread: false });
            }
            Report::Rotated { group } => {
                self.link.foreground = group.map(PathBuf::from);
                self.events.push_back(Event::Isolated);
            }
            Report::Killed { id, escalated } if id == self.wait.ladder => {
                if escalated {
                    tracing::warn!(log = self.config.log.id(), session = %self.config.id, "a command needed SIGKILL");
                }
                self.events.push_back(Event::TreeGone { escalated });
            }
            Report::Killed { .. } => {}
            Report::Adopted { .. } | Report::ProcessEnded { .. } | Report::ProcessKilled { .. } => {
                self.process_report(report);
            }
        }
    }

    fn shell_ended(&mut self, pid: Pid, code: Option<i32>, signal: Option<i32>) {
        listener::forget(pid);
        tracing::debug!(log = self.config.log.id(), session = %self.config.id, %pid, ?code, ?signal, "the shell ended");
        self.link.shell_pid = None;
        self.wait.setting_up = 0;
        self.drop_unforked_standby();
        self.processes.source_died(&self.config.id, true);
        if !self.config.uses_builtin {
            return self.plain_ended(code, signal);
        }
        if self.state.shell == Shell::Starting && signal != Some(libc::SIGKILL) {
            self.link.shell = None;
            return self.ask_version();
        }
        if let Some(command) = &mut self.command {
            command.died = Some((code, signal));
        }
        let unread = self.takes_unread();
        self.events.push_back(Event::ShellDied { unread });
    }

    /// The dead shell had not taken its command, and the next one can have it.
    ///
    /// The race: a fork that the shell made just before holds the channel until it gets its first turn. Then there is no
    /// end of file yet, and the kernel is asked what was not read.
    fn takes_unread(&mut self) -> bool {
        let unread = self.link.shell.take().is_some_and(|shell| shell.unread_bytes() > 0);
        let unread = std::mem::take(&mut self.link.unread) || unread;
        let unread = unread || !self.config.uses_builtin && self.plain_unread();
        unread && self.command.as_ref().is_none_or(Running::is_repeatable)
    }

    fn reconnected(&mut self, Reconnected { pid, socket }: Reconnected) {
        tracing::debug!(log = self.config.log.id(), session = %self.config.id, %pid, "reconnected");
        if self.link.shell_pid == Some(pid)
            && let Ok(channel) = Channel::reconnected(socket)
        {
            self.drain_shell();
            self.link.shell = Some(channel);
            self.link.unread = false;
        }
    }

    fn reported(&mut self, message: Internal) {
        match message {
            Internal::Process(key, received) => self.process_said(key, received),
            Internal::Salvaged(checkpoint) => {
                self.checkpoint = checkpoint.or(self.checkpoint.take());
                self.events.push_back(Event::Salvaged);
            }
            Internal::Version(version) => self.version_known(version),
        }
    }

    /// After a quick command: looks for the answer without going to sleep.
    pub(super) fn look_for_answer(&mut self) {
        let Some(shell) = &self.link.shell else { return };
        if let Some(received) = spinning::look(shell, self.quick) {
            self.shell_said(received);
        }
    }

    fn time_passed(&mut self) {
        let now = tokio::time::Instant::now();
        for timer in self.timers.due(now) {
            match timer {
                Timer::Timeout(ticket) => self.events.push_back(Event::TimeUp(ticket)),
                Timer::Overdue(ticket) => self.events.push_back(Event::ShellOverdue(ticket)),
                Timer::Register => self.register_pipes(),
                Timer::SparePipes => self.spare_pipes = None,
                Timer::Idle => self.events.push_back(Event::IdleForAWhile),
                Timer::ForkPauseOver => self.events.push_back(Event::ForkPauseOver),
                Timer::Leaving => self.isolate_again(),
                Timer::Unread => self.check_unread(),
                Timer::Supervisor => self.check_supervisor(),
                Timer::Hello => self.hello_overdue(),
            }
        }
    }
}
