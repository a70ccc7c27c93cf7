//! The actor that owns a session: it receives messages, runs the shell's state machine, and waits for the next event.

use super::background::{Background, ProcessEvent};
use super::calls::{Call, Calls};
use super::config::SessionConfig;
use super::confinement::Enclosure;
use super::context::Context;
use super::end_reason::EndReason;
use super::engine::SessionEngine;
use super::files::Files;
use super::foreground::Foreground;
use super::holds::{Holds, save_before};
use super::internal::Internal;
use super::mailbox::{Mailbox, NextMessage, TakenBack};
use super::message::{HoldOrder, Message};
use super::salvage;
use super::shell_link::ShellLink;
use super::standby::Standbys;
use super::supervision::Supervision;
use super::timers::{Timer, Timers};
use crate::capabilities::Engine;
use crate::feed::What;
use crate::shell::channel::Received;
use crate::shell::event::{Action, Event, Source};
use crate::shell::listener::{self, Reconnected};
use crate::shell::state::{Shell, State, Work};
use crate::shell::transition::step;
use crate::supervisor::PidHold;
use nacre_containment::signal;
use nacre_protocol::supervisor::{Order, Report};
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::{self, UnboundedSender};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until, timeout_at};

/// How long the supervisor may take. It takes some milliseconds, unless a file system does not respond or the machine is busy.
const MASKING: Duration = Duration::from_secs(5);

/// Runs a session until it is closed or every handle is dropped.
pub(super) async fn run(config: SessionConfig, end_reason: EndReason, mut mailbox: Mailbox<Message>) {
    let (internal, mut own_messages) = mpsc::unbounded_channel();
    let (reconnects, mut reconnected) = mpsc::unbounded_channel();
    let mut session = Session::new(config, end_reason, internal, reconnects);
    // A session that only tries the shell has no id.
    let is_seen = !session.cx.config.id.is_empty();
    if is_seen {
        session.cx.happens(What::SessionStarted);
    }
    let (mut has_answered, mut is_over) = (false, false);
    while session.state.shell != Shell::Closed {
        session.check_output();
        session.await_masks().await;
        session.step_all();
        if !is_over && matches!(session.state.shell, Shell::Terminated(_)) {
            is_over = true;
            session.cx.config.on_end.call(&session.cx.config.id);
        }
        if session.state.shell == Shell::Closed {
            break;
        }
        if session.detach_if_due() {
            continue;
        }
        session.serve_holds();
        session.answer_files_if_started();
        session.lend(&mut mailbox, std::mem::take(&mut has_answered));
        let wake_at = session.cx.timers.next();
        let happened = tokio::select! {
            biased;
            () = session.shell.ready() => Wakeup::Shell,
            received = session.standbys.receive() => Wakeup::Standby(received),
            report = session.supervision.report() => Wakeup::Supervisor(report),
            () = mailbox.ready(), if !session.calls.is_closing() => Wakeup::Call,
            Some(message) = own_messages.recv() => Wakeup::Report(message),
            Some(message) = reconnected.recv() => Wakeup::Reconnected(message),
            () = session.foreground.read_output() => Wakeup::Output,
            () = sleep_until(wake_at) => Wakeup::TimePassed,
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
        if matches!(happened, Wakeup::Supervisor(None)) {
            session.await_shells_end().await;
        }
        if !matches!(happened, Wakeup::Call) {
            session.happened(happened);
            continue;
        }
        match mailbox.next() {
            NextMessage::Message(Message::Start(request)) => {
                // The calls of this session keep their order; no other session waits.
                let checked = request.process.log.check_directory().await;
                match checked {
                    Ok(()) => session.take(Message::Start(request)),
                    Err(error) => request.refuse(error),
                }
            }
            NextMessage::Message(message) => session.take(message),
            // It was a command that a caller had sent.
            NextMessage::Nothing => {}
            NextMessage::Abandoned => session.close(Duration::ZERO, None),
        }
    }
    // Answers calls that arrived while the session was closing.
    for message in mailbox.close() {
        session.take(message);
        session.step_all();
    }
    session.supervision.abandoned_ended().await;
    if is_seen {
        session.cx.happens(What::SessionEnded);
        // After a rollback, another session has its place, or the sandbox reports the end.
        if !session.cx.end_reason.is_rolled_back() {
            session.cx.config.on_end.call(&session.cx.config.id);
        }
    }
    session.calls.closed();
}

/// The state of a session, which its actor owns. Each part owns its state; what needs several parts is a method of this, here
/// and in the modules that [`super`] names.
pub(super) struct Session {
    pub cx: Context,
    /// The shell's state machine.
    pub state: State,
    pub calls: Calls,
    pub foreground: Foreground,
    pub background: Background,
    pub holds: Holds,
    pub supervision: Supervision,
    pub shell: ShellLink,
    pub standbys: Standbys,
    pub enclosure: Enclosure,
    pub files: Files,
    pub engine: SessionEngine,
}

/// What woke the actor up.
enum Wakeup {
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
    pub(super) fn new(
        mut config: SessionConfig,
        end_reason: EndReason,
        internal: UnboundedSender<Internal>,
        reconnects: UnboundedSender<Reconnected>,
    ) -> Self {
        let saved = config.saved.take();
        let mut session = Self {
            state: State::new(config.survive_exit),
            engine: SessionEngine::new(config.uses_builtin),
            calls: Calls::default(),
            foreground: Foreground::default(),
            background: Background::default(),
            holds: Holds::default(),
            supervision: Supervision::default(),
            shell: ShellLink::default(),
            standbys: Standbys::default(),
            enclosure: Enclosure::default(),
            files: Files::default(),
            cx: Context {
                cwd: config.cwd.clone(),
                config,
                end_reason,
                numbers: Arc::default(),
                timers: Timers::default(),
                events: VecDeque::new(),
                internal,
                reconnects,
            },
        };
        if let Some(saved) = saved {
            session.engine.lose(saved.missing());
            let ((shell, without), status, cwd) = saved.into_parts();
            session.foreground.keep_status(status);
            session.cx.cwd = cwd;
            if let Some(shell) = shell {
                session.engine.begin_with(shell, without, status);
            }
        }
        session
    }

    /// Closes every connection to the session's processes.
    pub(super) fn disconnect(&mut self) {
        self.supervision.close();
        self.shell = ShellLink::default();
        self.standbys = Standbys::default();
        self.enclosure.close();
        self.files.disconnect();
        self.holds.disconnect();
        self.engine.disconnect();
    }

    fn happened(&mut self, happened: Wakeup) {
        match happened {
            Wakeup::Shell => {
                if let Some(received) = self.shell.try_receive() {
                    self.handle_shell_report(received);
                }
            }
            Wakeup::Standby(received) => self.handle_standby_report(received),
            Wakeup::Supervisor(Some((report, descriptors))) => self.handle_supervisor_report(report, descriptors),
            Wakeup::Supervisor(None) => self.supervisor_gone(),
            Wakeup::Call => {}
            Wakeup::Report(report) => self.reported(report),
            Wakeup::Reconnected(connection) => self.reconnected(connection),
            Wakeup::Output => {
                self.foreground.expect_output(&mut self.cx);
                self.foreground.end_rest_if_read(&mut self.cx);
            }
            Wakeup::TimePassed => self.time_passed(),
        }
    }

    /// Passes every pending event to the state machine.
    pub(super) fn step_all(&mut self) {
        while let Some(event) = self.cx.events.pop_front() {
            let ticket = self.state.running().map(|run| run.ticket);
            let mut event = self.foreground.cut_rest(&mut self.cx, ticket, event);
            if let Event::ShellDied { unread } | Event::SupervisorGone { unread, .. } = &mut event {
                // A command may have been sent after this event was created, but before its turn.
                *unread |= self.shell.take_lost_request() && self.foreground.is_repeatable();
            }
            if let Event::ShellDied { .. } = &event {
                // Not before: a fork that it owes is requested again, and must not be requested from it.
                self.happened_to_process(ProcessEvent::SourceGone(Source::Shell));
            }
            let before = self.state.shell;
            tracing::trace!(log = self.cx.config.log.id(), session = %self.cx.config.id, ?event, "event");
            let (state, actions) = step(std::mem::replace(&mut self.state, State::new(true)), event);
            self.state = state;
            if self.state.shell != before {
                if let Shell::Terminated(code) = self.state.shell {
                    self.cx.end_reason.exit(code);
                }
                tracing::debug!(log = self.cx.config.log.id(), session = %self.cx.config.id, from = ?before, to = ?self.state.shell, "shell");
            }
            // What an action leads to at once comes before what has arrived meanwhile.
            let later = if self.cx.events.is_empty() { None } else { Some(std::mem::take(&mut self.cx.events)) };
            for action in actions {
                self.perform(action);
            }
            self.cx.events.extend(later.into_iter().flatten());
            self.take_back_command();
            self.schedule_standby();
        }
        if let Some(deadline) = self.calls.next_deadline() {
            self.cx.timers.set(Timer::Wait, deadline);
        }
        self.foreground.expect_stall(&mut self.cx, self.state.queue.len());
        self.foreground.drain_leftover();
    }

    /// Waits if a file that the rules protect may have been replaced. A supervisor that does not answer is killed, and the session
    /// starts again.
    pub(super) async fn await_masks(&mut self) {
        if !self.supervision.is_connected() || !self.enclosure.asks_for_masks() {
            return;
        }
        self.supervision.ask(&mut self.cx, &Order::Mask);
        let mut give_up = Instant::now() + MASKING;
        let mut is_killed = false;
        while self.enclosure.awaits_masks() {
            match timeout_at(give_up, self.supervision.report()).await {
                Ok(Some((report, descriptors))) => self.handle_supervisor_report(report, descriptors),
                Err(_) if !is_killed => {
                    let _ = self.supervision.pid().map(|pid| signal::send_to_child(pid, libc::SIGKILL));
                    (give_up, is_killed) = (give_up + MASKING, true);
                }
                // It has ended, or it hangs in the kernel. Its shell may then live, and must not run another command: what is
                // left is killed before the next start.
                Ok(None) | Err(_) => {
                    self.await_shells_end().await;
                    return self.supervisor_gone();
                }
            }
        }
    }

    /// Does for the hold in effect what is due. Not while a fork is awaited: what the supervisor does not know looks like a
    /// program, and a new process would not be frozen.
    fn serve_holds(&mut self) {
        let shell = self.state.shell;
        let is_settled = !self.awaits_forks();
        if is_settled {
            self.holds.freeze_if_due(&mut self.cx, shell, &mut self.supervision, &self.files);
        }
        self.holds.save_if_due(&mut self.cx, shell, &self.shell, &self.engine, self.foreground.status());
        if is_settled {
            let links = (&self.shell, &self.standbys);
            self.holds.remount_if_due(&mut self.cx, shell, links, &mut self.supervision, &mut self.enclosure);
        }
    }

    /// Ends the supervisor for the hold in effect.
    fn start_again(&mut self, hold: u64) {
        let is_held = self.holds.is_in_effect(self.state.held, hold);
        if let Some(pid) = self.supervision.pid().filter(|_| is_held) {
            tracing::warn!(log = self.cx.config.log.id(), session = %self.cx.config.id, "the session starts again, because it cannot change over to another mount");
            let _ = signal::send_to_child(pid, libc::SIGKILL);
        }
        self.enclosure.drop_unused_mount();
    }

    /// Gives access to the files to the calls that have waited for the start. A command that was queued before them may be
    /// running.
    fn answer_files_if_started(&mut self) {
        let is_starting = matches!(self.state.shell, Shell::Starting | Shell::SettingUp);
        if self.supervision.is_connected() && !self.calls.is_closing() && !is_starting {
            self.files.answer(&mut self.cx, &self.supervision, None);
        }
    }

    /// The supervisor does not end the session, so the host does.
    fn closing_overdue(&mut self) {
        if self.state.shell == Shell::Closing && self.supervision.is_connected() {
            tracing::error!(log = self.cx.config.log.id(), session = %self.cx.config.id, "the supervisor does not end the session and is killed");
            self.supervisor_gone();
        }
    }

    /// Kills a command that has printed more than its limit.
    fn check_output(&mut self) {
        let Some(ticket) = self.foreground.excessive() else { return };
        if self.state.running().is_some_and(|run| run.kill.is_none() && run.end.is_none()) {
            self.cx.events.push_back(Event::OutputLimit(ticket));
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
        self.cx.events.push_back(Event::Submit(ticket, work));
    }

    pub(super) fn take(&mut self, message: Message) {
        match message {
            Message::Open(reply) => self.submit(Call::Open(reply), Work::Open),
            Message::Exec { request, sent, after } => {
                // A session that has ended refuses the command at once.
                if let Some(hold) = after.filter(|_| !self.state.is_ending()) {
                    self.holds.queue(&mut self.cx, &mut self.calls, hold, Some(request.id));
                }
                if sent.is_none() && !self.state.is_ready() {
                    self.cx.happens(What::CommandQueued { id: request.id, command: request.command.shown() });
                }
                self.submit(Call::Exec(request, sent), Work::Command);
            }
            Message::SetEnv { vars, reply } => self.submit(Call::SetEnv { vars, reply }, Work::SetEnv),
            Message::Start(request) => self.submit(Call::Start(request), Work::Start),
            Message::Files(reply) => {
                self.files.wait(reply);
                self.answer_files_if_started();
                if self.files.is_awaited() {
                    self.submit(Call::Files, Work::Open);
                }
            }
            Message::Running(reply) => drop(reply.send(Ok(self.running()))),
            Message::Stats(reply) => self.supervision.read_stats(reply),
            Message::Network(reply) => drop(reply.send(Ok(self.enclosure.network(self.supervision.last())))),
            Message::Judgement(reply) => {
                drop(reply.send(Ok(self.enclosure.judgement(self.cx.config.user.as_ref()))));
            }
            Message::KillProcess { key, policy, reply } => self.kill_process(key, policy, reply),
            Message::SignalProcess { key, signal } => {
                self.supervision.order(&mut self.cx, &Order::SignalProcess { key, signal })
            }
            Message::Interrupt { id, signal, by, ended } => match self.calls.ticket_of(id) {
                Some(ticket) => {
                    self.calls.cancelled_by(id, by, ended);
                    self.cx.events.push_back(Event::Cancel(ticket, signal));
                }
                None => self.interrupt_detached(id, signal, by),
            },
            Message::Detach(request) => self.background.detached.request(*request),
            // Dropping it refuses it.
            Message::Hold { if_idle: true, .. } if !self.state.is_idle() => {}
            Message::Hold { new, .. } => self.holds.queue(&mut self.cx, &mut self.calls, new, None),
            Message::SaveBefore(reply) => {
                let (status, standby) = (self.foreground.status(), self.standbys.with_number());
                save_before(&mut self.cx, &self.state, &self.engine, standby, status, reply);
            }
            Message::Held(id, HoldOrder::Release) => {
                let held = self.state.held;
                self.holds.release(&mut self.cx, &self.supervision, &mut self.calls, held, id);
            }
            Message::Held(id, HoldOrder::StartAgain) => self.start_again(id),
            Message::Held(id, order) => {
                let is_held = self.holds.is_in_effect(self.state.held, id) && !self.calls.is_closing();
                self.holds.take(&self.cx, id, order, is_held);
            }
            Message::Close { grace, reply } => self.close(grace, Some(reply)),
        }
    }

    pub(super) fn close(&mut self, grace: Duration, reply: Option<oneshot::Sender<()>>) {
        self.calls.close(grace, reply);
        self.files.close(self.cx.ended_error());
        self.holds.close();
        drop(self.background.detached.take_request());
        self.cx.events.push_back(Event::Close);
    }

    pub(super) fn reported(&mut self, message: Internal) {
        match message {
            Internal::Process(key, received) => self.process_reported(key, received),
            // Refers to an earlier supervisor: the session has started again, or was swept twice.
            Internal::Salvaged { of, .. } if of != self.supervision.last().map(PidHold::pid) => {}
            Internal::Salvaged { checkpoint, has_lost, .. } => {
                self.supervision.release();
                if has_lost {
                    self.engine.lose_state("it could not be saved; the session has an earlier one");
                }
                self.engine.keep_checkpoint(checkpoint);
                self.cx.events.push_back(Event::Salvaged);
            }
            Internal::IsolationDecided { decision, isolation } => self.isolation_decided(decision, *isolation),
        }
    }

    pub(super) fn time_passed(&mut self) {
        let now = tokio::time::Instant::now();
        for timer in self.cx.timers.due(now) {
            match timer {
                Timer::Timeout(ticket) => self.cx.events.push_back(Event::TimeUp(ticket)),
                Timer::Wait => self.cx.events.extend(self.calls.take_overdue().into_iter().map(Event::TimeUp)),
                Timer::Closing => self.closing_overdue(),
                Timer::Overdue(ticket) => self.cx.events.push_back(Event::ShellOverdue(ticket)),
                Timer::NextGroup => self.make_next_group(),
                Timer::IdlePipes => self.foreground.close_pipes(),
                Timer::Idle => self.cx.events.push_back(Event::IdleForAWhile),
                Timer::ForkPauseOver => self.cx.events.push_back(Event::ForkPauseOver),
                Timer::Leaving => self.isolate(false),
                Timer::Unread | Timer::Unforked => {
                    // The time of the command may be up, too: the interrupt must reach a stopped shell before it continues.
                    self.step_all();
                    self.check_unread();
                }
                Timer::Supervisor => self.supervision.check(&mut self.cx),
                Timer::Promotion => self.promotion_overdue(),
                Timer::Hello => self.hello_overdue(),
                Timer::Files => self.files.end_if_idle(&mut self.cx),
                Timer::Rest => self.check_rest(),
                Timer::Output => self.foreground.show_output(&self.cx),
                Timer::Answers => self.drain_shell(),
                Timer::Stall => self.foreground.look_for_stall(&mut self.cx, self.state.queue.len()),
            }
        }
    }

    pub(super) fn perform(&mut self, action: Action) {
        match self.engine.kind() {
            Engine::Builtin => self.perform_with_builtin(action),
            Engine::Plain => self.perform_plain(action),
        }
    }

    pub(super) fn perform_with_builtin(&mut self, action: Action) {
        match action {
            Action::StartSession => self.start_session(),
            // The session has had a shell, so its directory existed.
            Action::StartShell => self.start_shell(true),
            Action::SetUp => self.set_up(),
            Action::Isolate => self.isolate(true),
            Action::ForkStandby { command_follows } => self.fork_standby(command_follows),
            Action::ForkProcess(ticket, source) => self.fork_process(ticket, source),
            Action::Run(ticket) => self.run_command(ticket),
            Action::SetEnv(ticket) => self.send_env(ticket),
            Action::LoseState => self.engine.lose_state("no standby had it when the shell died"),
            Action::Promote => self.promote(),
            Action::Detach(ticket) => {
                if self.detach_command(ticket) {
                    self.use_standby();
                }
            }
            Action::Kill { cause, signal } => self.kill(cause, signal),
            Action::Insist => self.insist(),
            Action::Settled => self.supervision.order(&mut self.cx, &Order::Settled),
            Action::TrapRuns => self.supervision.order(&mut self.cx, &Order::TrapRuns),
            Action::KillShell => {
                if self.state.running().is_some() {
                    tracing::warn!(log = self.cx.config.log.id(), session = %self.cx.config.id, "the shell did not answer an interrupt and is killed");
                }
                self.supervision.order(&mut self.cx, &Order::KillShell);
            }
            Action::Salvage => {
                tracing::error!(log = self.cx.config.log.id(), session = %self.cx.config.id, "the supervisor died; the session is being restarted");
                self.salvage();
            }
            Action::Sweep => {
                tracing::warn!(log = self.cx.config.log.id(), session = %self.cx.config.id, "the supervisor was killed while the session was ending");
                drop(self.standbys.take());
                self.salvage();
            }
            Action::Answer(ticket, answer) => self.answer(ticket, answer),
            Action::Defect(event, shell) => self.cx.defect(&format_args!("{event:?} while the shell is {shell:?}")),
            Action::Shutdown => self.shutdown(),
            Action::Closed => {
                self.abandon_supervisor();
                self.foreground.stop_drains();
            }
        }
    }

    pub(super) fn salvage(&mut self) {
        let lost = self.lose_processes();
        self.foreground.take_owed();
        self.shell.pid().into_iter().for_each(listener::forget);
        let standby = self.standbys.take();
        self.disconnect();
        salvage::start(standby, self.supervision.tree(), lost, self.cx.internal.clone());
    }

    pub(super) fn shutdown(&mut self) {
        let grace = self.calls.grace();
        // A standby that appears now is no program that needs the grace time.
        let expected = self.awaits_forks();
        self.happened_to_process(ProcessEvent::Closing);
        self.cx.timers = Timers::default();
        if !self.supervision.is_connected() {
            let orderly = self.supervision.last().is_none();
            return self.cx.events.push_back(Event::SupervisorGone { unread: false, orderly });
        }
        self.supervision.expect_forks(&mut self.cx, expected);
        self.supervision.ask(&mut self.cx, &Order::Shutdown { grace_ms: grace.as_millis() as u64 });
        self.supervision.await_ending(&mut self.cx, grace);
    }
}
