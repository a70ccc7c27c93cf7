//! The actor that owns a session: it receives messages, runs the shell's state machine, and waits for the next event.

use super::Internal;
use super::Session;
use super::calls::Call;
use super::fate::Fate;
use super::mailbox::{Mailbox, Next, TakenBack};
use super::remount::Remount;
use super::timers::Timer;
use super::{Config, Message};
use crate::feed::What;
use crate::shell::channel::Received;
use crate::shell::event::{Event, Source};
use crate::shell::listener::Reconnected;
use crate::shell::state::{Shell, State, Work};
use crate::shell::transition::step;
use crate::supervisor::PidHold;
use nacre_protocol::supervisor::{Order, Report};
use std::os::fd::OwnedFd;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep_until;

/// Runs a session until it is closed or every handle is dropped.
pub(super) async fn run(config: Config, fate: Fate, mut mailbox: Mailbox<Message>) {
    let (internal, mut own_messages) = mpsc::unbounded_channel();
    let (reconnects, mut reconnected) = mpsc::unbounded_channel();
    let mut session = Session::new(config, fate, internal, reconnects);
    // A session that only tries the shell has no id.
    let is_seen = !session.config.id.is_empty();
    if is_seen {
        session.happens(What::SessionStarted);
    }
    let mut has_answered = false;
    while session.state.shell != Shell::Closed {
        session.check_output();
        session.await_masks().await;
        session.step_all();
        if session.state.shell == Shell::Closed {
            break;
        }
        if session.detach_if_due() {
            continue;
        }
        session.freeze_if_due();
        session.save_if_due();
        session.remount_if_due();
        session.answer_files_if_started();
        session.lend(&mut mailbox, std::mem::take(&mut has_answered));
        let wake_at = session.timers.next();
        let happened = tokio::select! {
            biased;
            () = session.shell.ready() => Happened::Shell,
            received = session.standbys.receive() => Happened::Standby(received),
            report = session.supervision.report() => Happened::Supervisor(report),
            () = mailbox.ready(), if session.closing.is_none() => Happened::Call,
            Some(message) = own_messages.recv() => Happened::Report(message),
            Some(message) = reconnected.recv() => Happened::Reconnected(message),
            () = session.foreground.read_output() => Happened::Output,
            () = sleep_until(wake_at) => Happened::TimePassed,
        };
        loop {
            match mailbox.take_back().await {
                TakenBack::Loan(loan) => session.take_back(loan),
                TakenBack::Sent(command) => {
                    has_answered |= command.is_answered();
                    session.take(command);
                    session.step_all();
                }
                TakenBack::Nothing => break,
            }
        }
        if matches!(happened, Happened::Supervisor(None)) {
            session.await_shells_end().await;
        }
        if !matches!(happened, Happened::Call) {
            session.happened(happened);
            continue;
        }
        match mailbox.next() {
            Next::Message(Message::Start(request)) => {
                // The calls of this session keep their order; no other session waits.
                let checked = request.process.log.check_directory().await;
                match checked {
                    Ok(()) => session.take(Message::Start(request)),
                    Err(error) => request.refuse(error),
                }
            }
            Next::Message(message) => session.take(message),
            // It was a command that a caller had sent.
            Next::Nothing => {}
            Next::Abandoned => session.close(Duration::ZERO, None),
        }
    }
    // Answers calls that arrived while the session was closing.
    for message in mailbox.close() {
        session.take(message);
        session.step_all();
    }
    session.supervision.abandoned_ended().await;
    if is_seen {
        session.happens(What::SessionEnded);
    }
    if let Some((_, replies)) = session.closing.take() {
        for reply in replies {
            let _ = reply.send(());
        }
    }
}

/// What woke the actor up.
enum Happened {
    /// The shell may have reported.
    Shell,
    Standby(Received),
    /// `None`: its connection has ended.
    Supervisor(Option<(Report, Vec<OwnedFd>)>),
    /// There is a message, or every handle was dropped.
    Call,
    Report(Internal),
    Reconnected(Reconnected),
    /// The command's output was read.
    Output,
    TimePassed,
}

impl Session {
    fn happened(&mut self, happened: Happened) {
        match happened {
            Happened::Shell => {
                if let Some(received) = self.shell.try_receive() {
                    self.handle_shell_report(received);
                }
            }
            Happened::Standby(received) => self.handle_standby_report(received),
            Happened::Supervisor(Some((report, descriptors))) => self.handle_supervisor_report(report, descriptors),
            Happened::Supervisor(None) => self.supervisor_gone(),
            Happened::Call => {}
            Happened::Report(report) => self.reported(report),
            Happened::Reconnected(connection) => self.reconnected(connection),
            Happened::Output => {
                self.expect_output();
                self.end_rest_if_read();
            }
            Happened::TimePassed => self.time_passed(),
        }
    }

    /// Passes every pending event to the state machine.
    pub(super) fn step_all(&mut self) {
        while let Some(event) = self.events.pop_front() {
            let mut event = self.cut_rest(event);
            if let Event::ShellDied { unread } | Event::SupervisorGone { unread, .. } = &mut event {
                // A command may have been sent after this event was created, but before its turn.
                *unread |= self.shell.take_lost_request() && self.foreground.is_repeatable();
            }
            if let Event::ShellDied { .. } = &event {
                // Not before: a fork that it owes is requested again, and must not be requested from it.
                self.source_gone(Source::Shell);
            }
            let before = self.state.shell;
            tracing::trace!(log = self.config.log.id(), session = %self.config.id, ?event, "event");
            let (state, actions) = step(std::mem::replace(&mut self.state, State::new(true)), event);
            self.state = state;
            if self.state.shell != before {
                tracing::debug!(log = self.config.log.id(), session = %self.config.id, from = ?before, to = ?self.state.shell, "shell");
            }
            // What an action leads to at once comes before what has arrived meanwhile.
            let later = if self.events.is_empty() { None } else { Some(std::mem::take(&mut self.events)) };
            for action in actions {
                self.perform(action);
            }
            self.events.extend(later.into_iter().flatten());
            self.take_back_command();
            self.schedule_standby();
        }
        if let Some(deadline) = self.calls.next_deadline() {
            self.timers.set(Timer::Wait, deadline);
        }
        self.expect_stall();
        self.foreground.drain_leftover();
    }

    /// Kills a command that has printed more than its limit.
    fn check_output(&mut self) {
        let Some(ticket) = self.foreground.excessive() else { return };
        if self.state.running().is_some_and(|run| run.kill.is_none() && run.end.is_none()) {
            self.events.push_back(Event::OutputLimit(ticket));
        }
    }

    /// Requeues a command that the dead shell had not read.
    pub(super) fn take_back_command(&mut self) {
        let queued = self.state.queue.front().map(|(ticket, _)| *ticket);
        if let Some(command) = queued.and_then(|ticket| self.foreground.take(ticket)) {
            let ticket = command.ticket();
            self.calls.add_again(ticket, command.into_request());
            self.calls.count_timeout(ticket);
        }
    }

    pub(super) fn submit(&mut self, call: Call, work: Work) {
        let ticket = self.calls.add(call);
        if self.state.held.is_none() {
            self.calls.count_timeout(ticket);
        }
        self.events.push_back(Event::Submit(ticket, work));
    }

    pub(super) fn take(&mut self, message: Message) {
        match message {
            Message::Open(reply) => self.submit(Call::Open(reply), Work::Open),
            Message::Exec { request, sent, after } => {
                // A session that has ended refuses the command at once.
                if let Some(hold) = after.filter(|_| !self.state.is_ending()) {
                    self.queue_hold(hold, Some(request.id));
                }
                if sent.is_none() && !self.state.is_ready() {
                    self.happens(What::CommandQueued { id: request.id, command: request.command.shown() });
                }
                self.submit(Call::Exec(request, sent), Work::Command);
            }
            Message::SetEnv { vars, reply } => self.submit(Call::SetEnv { vars, reply }, Work::SetEnv),
            Message::Start(request) => self.submit(Call::Start(request), Work::Start),
            Message::Files(reply) => self.access_files(reply),
            Message::Running(reply) => drop(reply.send(Ok(self.running()))),
            Message::Stats(reply) => self.read_stats(reply),
            Message::Network(reply) => self.network(reply),
            Message::KillProcess { key, policy, reply } => self.kill_process(key, policy, reply),
            Message::SignalProcess { key, signal } => self.order(&Order::SignalProcess { key, signal }),
            Message::Interrupt { id, signal, by, ended } => match self.calls.ticket_of(id) {
                Some(ticket) => {
                    self.calls.cancelled_by(id, by, ended);
                    self.events.push_back(Event::Cancel(ticket, signal));
                }
                None => self.interrupt_detached(id, signal, by),
            },
            Message::Detach(request) => self.detach(*request),
            Message::Hold(hold) => self.queue_hold(hold, None),
            Message::HoldIfIdle(hold) if self.state.is_idle() => self.queue_hold(hold, None),
            // Dropping it refuses it.
            Message::HoldIfIdle(_) => {}
            Message::Freeze { id, if_idle, reply } => self.freeze(id, if_idle, reply),
            Message::Save { id, reply } => self.save(id, reply),
            Message::Remount { id, mount, reply } => self.remount(id, mount, reply),
            Message::StartAgain { id } => self.start_again(id),
            Message::Release { id } => self.release(id),
            Message::Close { grace, reply } => self.close(grace, Some(reply)),
        }
    }

    pub(super) fn close(&mut self, grace: Duration, reply: Option<oneshot::Sender<()>>) {
        let (_, replies) = self.closing.get_or_insert((grace, Vec::new()));
        replies.extend(reply);
        self.files.close(self.ended_error());
        self.holds.close();
        self.saving = None;
        self.detaching = None;
        self.remount = Remount::None;
        self.events.push_back(Event::Close);
    }

    pub(super) fn reported(&mut self, message: Internal) {
        match message {
            Internal::Process(key, received) => self.process_reported(key, received),
            // Refers to an earlier supervisor: the session has started again, or was swept twice.
            Internal::Salvaged { of, .. } if of != self.supervision.last().map(PidHold::pid) => {}
            Internal::Salvaged { checkpoint, has_lost, .. } => {
                self.supervision.release();
                if has_lost {
                    self.recovery.lose_state("it could not be saved; the session has an earlier one");
                }
                self.recovery.keep_checkpoint(checkpoint);
                self.events.push_back(Event::Salvaged);
            }
            Internal::Isolated { decision, isolated } => self.isolation_decided(decision, *isolated),
        }
    }

    pub(super) fn time_passed(&mut self) {
        let now = tokio::time::Instant::now();
        for timer in self.timers.due(now) {
            match timer {
                Timer::Timeout(ticket) => self.events.push_back(Event::TimeUp(ticket)),
                Timer::Wait => self.events.extend(self.calls.take_overdue().into_iter().map(Event::TimeUp)),
                Timer::Closing => self.closing_overdue(),
                Timer::Overdue(ticket) => self.events.push_back(Event::ShellOverdue(ticket)),
                Timer::SpareGroup => self.make_spare_group(),
                Timer::SparePipes => self.spare_pipes.close(),
                Timer::Idle => self.events.push_back(Event::IdleForAWhile),
                Timer::ForkPauseOver => self.events.push_back(Event::ForkPauseOver),
                Timer::Leaving => self.isolate_again(),
                Timer::Unread | Timer::Unforked => {
                    // The time of the command may be up, too: the interrupt must reach a stopped shell before it continues.
                    self.step_all();
                    self.check_unread();
                }
                Timer::Supervisor => self.check_supervisor(),
                Timer::Promotion => self.promotion_overdue(),
                Timer::Hello => self.hello_overdue(),
                Timer::Files => self.end_idle_files_helper(),
                Timer::Rest => self.check_rest(),
                Timer::Output => self.show_output(),
                Timer::Answers => self.drain_shell(),
                Timer::Stall => self.look_for_stall(),
            }
        }
    }
}
