//! The actor that owns a session: it receives messages, runs the shell's state machine, and waits for the next event.

use super::command::Running;
use super::context::{Arrival, Call, Internal, Session};
use super::lane::Lane;
use super::timers::Timer;
use super::{Config, Message};
use crate::shell::event::Event;
use crate::shell::listener::Reconnected;
use crate::shell::state::{Shell, State, Ticket, Work};
use crate::shell::transition::step;
use crate::supervisor::PidHold;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep_until;

/// Runs a session until it is closed or every handle is dropped.
pub(super) async fn run(config: Config, mut mailbox: mpsc::UnboundedReceiver<Message>, lane: Lane) {
    let (internal, mut own_messages) = mpsc::unbounded_channel();
    let (reconnects, mut reconnected) = mpsc::unbounded_channel();
    let mut session = Session::new(config, lane, internal, reconnects);
    while session.state.shell != Shell::Closed {
        session.step_all();
        if session.state.shell == Shell::Closed {
            break;
        }
        if session.look_for_answer() {
            continue;
        }
        session.lend(&mailbox);
        let happened = match session.pace.look(|| mailbox.try_recv().ok()) {
            Some(message) => Happened::Call(Some(message)),
            None => {
                let wake_at = session.timers.next();
                tokio::select! {
                    biased;
                    arrival = session.link.next() => Happened::Arrival(arrival),
                    message = mailbox.recv(), if session.closing.is_none() => Happened::Call(message),
                    Some(message) = own_messages.recv() => Happened::Report(message),
                    Some(message) = reconnected.recv() => Happened::Reconnected(message),
                    () = step_capture(&mut session.command) => continue,
                    () = sleep_until(wake_at) => Happened::TimePassed,
                }
            }
        };
        if let Some(command) = session.take_back(&mut mailbox, matches!(happened, Happened::Call(_))) {
            session.take(command);
            session.step_all();
        }
        session.happened(happened);
    }
    // Answers calls that arrived while the session was closing.
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

/// What woke the actor up.
enum Happened {
    Arrival(Arrival),
    /// `None`: every handle was dropped.
    Call(Option<Message>),
    Report(Internal),
    Reconnected(Reconnected),
    TimePassed,
}

async fn step_capture(command: &mut Option<Running>) {
    match command {
        Some(command) => command.step().await,
        None => std::future::pending().await,
    }
}

impl Session {
    fn happened(&mut self, happened: Happened) {
        match happened {
            Happened::Arrival(arrival) => self.arrived(arrival),
            Happened::Call(Some(message)) => self.take(message),
            Happened::Call(None) => self.close(Duration::ZERO, None),
            Happened::Report(report) => self.reported(report),
            Happened::Reconnected(connection) => self.reconnected(connection),
            Happened::TimePassed => self.time_passed(),
        }
    }

    /// Passes every pending event to the state machine.
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
            while self.drains.try_join_next().is_some() {}
            leftover.let_go(&mut self.drains);
        }
    }

    /// Requeues a command that the dead shell had not read.
    pub(super) fn take_back_command(&mut self) {
        let queued = self.state.queue.front().map(|(ticket, _)| *ticket);
        if let Some(command) = self.command.take_if(|command| queued == Some(command.ticket)) {
            self.calls.insert(command.ticket, Call::Exec(command.into_request()));
        }
    }

    pub(super) fn submit(&mut self, call: Call, work: Work) -> Ticket {
        self.tickets += 1;
        self.calls.insert(self.tickets, call);
        self.events.push_back(Event::Submit(self.tickets, work));
        self.tickets
    }

    /// Drops the data of a request. A request that was cancelled, answered or never made has no ticket.
    pub(super) fn forget_request(&mut self, id: u64) {
        self.requests.remove(&id);
    }

    pub(super) fn take(&mut self, message: Message) {
        match message {
            Message::Open(reply) => drop(self.submit(Call::Open(reply), Work::Open)),
            Message::Exec { request, sent } => {
                self.sent = sent;
                self.pace.command_arrived();
                let id = request.id;
                let ticket = self.submit(Call::Exec(request), Work::Command);
                self.requests.insert(id, ticket);
            }
            Message::SetEnv { vars, reply } => drop(self.submit(Call::SetEnv { vars, reply }, Work::SetEnv)),
            Message::Start(request) => drop(self.submit(Call::Start(request), Work::Start)),
            Message::Files(reply) => self.access_files(reply),
            Message::KillProcess { key, policy, reply } => match &self.link.supervisor {
                Some(supervisor) => self.processes.kill(key, policy, reply, supervisor),
                None => drop(reply.send(false)),
            },
            Message::SignalProcess { key, signal } => {
                if let Some(supervisor) = &self.link.supervisor {
                    super::processes::Processes::signal(key, signal, supervisor);
                }
            }
            Message::Interrupt { id, signal } => {
                if let Some(ticket) = self.requests.get(&id) {
                    self.events.push_back(Event::Cancel(*ticket, signal));
                }
            }
            Message::Close { grace, reply } => self.close(grace, Some(reply)),
        }
    }

    pub(super) fn close(&mut self, grace: Duration, reply: Option<oneshot::Sender<()>>) {
        let (_, replies) = self.closing.get_or_insert((grace, Vec::new()));
        replies.extend(reply);
        if let Some(helper) = &self.link.files {
            helper.close();
        }
        self.events.push_back(Event::Close);
    }

    pub(super) fn reported(&mut self, message: Internal) {
        match message {
            Internal::Process(key, received) => self.handle_process_report(key, received),
            // Refers to an earlier supervisor: the session has started again, or was swept twice.
            Internal::Salvaged { of, .. } if of != self.last_supervisor.as_ref().map(PidHold::pid) => {}
            Internal::Salvaged { checkpoint, .. } => {
                self.last_supervisor = None;
                self.checkpoint = checkpoint.or(self.checkpoint.take());
                self.events.push_back(Event::Salvaged);
            }
            Internal::Version(version) => self.version_known(version),
        }
    }

    pub(super) fn time_passed(&mut self) {
        let now = tokio::time::Instant::now();
        for timer in self.timers.due(now) {
            match timer {
                Timer::Timeout(ticket) => self.events.push_back(Event::TimeUp(ticket)),
                Timer::Overdue(ticket) => self.events.push_back(Event::ShellOverdue(ticket)),
                Timer::Register => self.register_pipes(),
                Timer::SpareGroup => self.make_spare_group(),
                Timer::SparePipes => (self.spare_pipes, self.keeper) = (None, None),
                Timer::Idle => self.events.push_back(Event::IdleForAWhile),
                Timer::ForkPauseOver => self.events.push_back(Event::ForkPauseOver),
                Timer::Leaving => self.isolate_again(),
                Timer::Unread => self.check_unread(),
                Timer::Supervisor => self.check_supervisor(),
                Timer::Hello => self.hello_overdue(),
                Timer::Files => self.end_idle_files_helper(),
            }
        }
    }
}
