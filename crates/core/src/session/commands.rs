//! Commands: sends them to the shell, ends them early, and converts their ends to results.

use super::actor::Session;
use super::calls::Call;
use super::config::Opened;
use super::errors::{self, not_started};
use super::foreground::{EngineProcesses, ForegroundCommand, show_end};
use super::loan::{Loan, Sent};
use super::mailbox::Mailbox;
use super::message::Message;
use super::running::RunningCommand;
use super::streams::{env_of, null_streams};
use super::timers::Timer;
use crate::error::{Code, Error};
use crate::exec::{ExecRequest, Outcome};
use crate::process::terminal::{Size, Terminal};
use crate::shell::channel::Channel;
use crate::shell::event::{Answer, Event, Source};
use crate::shell::state::{Cause, End, Ticket};
use nacre_containment::proc_table::{self, Stat};
use nacre_protocol::shell::{Request, RequestFlags, RequestKind};
use nacre_protocol::supervisor::Order;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Extra time for the shell after the grace time. Its children are killed only at the end of the grace time, and on a
/// busy machine the shell must wait for a processor.
pub(super) const SHELL_EXTRA: Duration = Duration::from_millis(200);

/// A shell or standby that has not read its request after this time may have been stopped (SIGSTOP).
const UNREAD: Duration = Duration::from_millis(100);

/// How long the session leaves its callers to themselves.
const DOZE: Duration = Duration::from_millis(10);

/// How long to wait for a command's last processes to end, before the shell is moved to another group.
pub(super) const LEAVING: Duration = Duration::from_millis(1);

impl Session {
    /// Lends the shell to the callers if a command could run immediately. `has_answered`: callers have just used the loan and
    /// got their answers at once. Then they do not wake this thread, which looks for itself soon.
    ///
    /// The shell does not wake it either, unless it owes a fork: a lent shell answers its caller. If it dies, the supervisor
    /// reports that.
    pub(super) fn lend(&mut self, mailbox: &mut Mailbox<Message>, has_answered: bool) {
        let is_ready = self.state.is_ready() && self.foreground.is_settled();
        let lent = self.shell.channel().filter(|_| is_ready).cloned();
        let dozes = has_answered && lent.is_some();
        let is_silent = lent.is_some() && !self.awaits_fork_from(Source::Shell);
        if is_silent {
            self.shell.unwatch();
        }
        if dozes || !(is_silent || self.shell.watch()) {
            self.cx.timers.set(Timer::Answers, Instant::now() + DOZE);
        }
        if let Some(shell) = lent {
            mailbox.lend(dozes, || self.loan(shell));
        }
    }

    fn loan(&mut self, shell: Arc<Channel>) -> Loan {
        let (pace, pipes) = self.foreground.lend();
        Loan {
            shell,
            numbers: Arc::clone(&self.cx.numbers),
            pace,
            pipes,
            feed: Arc::clone(&self.cx.config.feed),
            denials: self.enclosure.denials(),
            disturbance: self.enclosure.disturbance(),
            configs: self.enclosure.configs(),
            explains: self.enclosure.explains(),
            is_whole: !self.state.restarted && !self.engine.has_lost(),
        }
    }

    /// Takes back what no caller has used.
    pub(super) fn take_back(&mut self, loan: Loan) {
        loan.pipes.into_iter().for_each(|pipes| self.foreground.take_back_pipes(&mut self.cx, pipes));
    }

    pub(super) fn run_command(&mut self, ticket: Ticket) {
        let Some(Call::Exec(request, sent)) = self.calls.take(ticket) else { return };
        self.cx.timers.clear(Timer::Idle);
        let sent = match (sent, self.shell.channel().cloned()) {
            (Some(sent), _) => Ok(*sent),
            (None, Some(shell)) => self.send_command(shell, &request),
            (None, None) => {
                // The shell is dead, and the supervisor has not reported it yet.
                self.shell.lose_request();
                Sent::to_a_dead_shell(&request.input, self.cx.numbers.next_command()).map_err(not_started)
            }
        };
        let mut sent = match sent {
            Ok(sent) => sent,
            Err(error) => return self.not_sent(ticket, *request, error),
        };
        let (begun, early, is_answered) = (sent.begun, std::mem::take(&mut sent.early), sent.answered.is_some());
        let can_be_refused = !request.env.is_empty()
            || request.cwd.as_ref().is_some_and(|cwd| !cwd.as_os_str().is_empty())
            || request.terminal.is_some();
        self.begin_command(ticket, request, sent);
        self.cx.timers.set(Timer::Unread, begun + UNREAD);
        if !can_be_refused {
            self.announce_command();
        }
        // Its caller has read all the output of a command that is answered.
        if !is_answered {
            self.foreground.watch_output(&mut self.cx);
        }
        early.into_iter().for_each(|received| self.handle_shell_report(received));
    }

    /// Records a command that was sent.
    pub(super) fn begin_command(&mut self, ticket: Ticket, request: Box<ExecRequest>, sent: Sent) {
        let (limit, number) = (self.calls.end_of_wait(ticket), sent.id);
        let command = ForegroundCommand::new(ticket, request, limit, sent);
        if let Some(deadline) = command.deadline() {
            self.cx.timers.set(Timer::Timeout(ticket), deadline);
        }
        self.foreground.begin(command, number);
    }

    /// Sends a command, with a terminal if it is to have one.
    fn send_command(&mut self, shell: Arc<Channel>, request: &ExecRequest) -> Result<Sent, Error> {
        if !self.foreground.knows_older() {
            self.look_up_older().map_err(not_started)?;
        }
        let terminal = request.terminal.map(|size| self.open_terminal(size)).transpose().map_err(|error| {
            Error::new(Code::TerminalUnavailable, format!("the session cannot open a terminal: {error}"))
        })?;
        if terminal.is_some()
            && let Some(shell) = self.shell.pid().and_then(Stat::read)
        {
            self.supervision.add_leader(shell.identity);
        }
        let sent = self.loan(shell).send(request, terminal.as_ref()).map_err(not_started)?;
        if let (Some(process), Some(terminal)) = (&request.process, terminal) {
            process.set_terminal(terminal);
        }
        Ok(sent)
    }

    /// Opens a terminal that the programs of the session can use.
    pub(super) fn open_terminal(&self, size: Size) -> io::Result<Terminal> {
        self.enclosure.open_terminal(&self.cx, size, [self.shell.pid(), self.standbys.pid()])
    }

    /// Announces that the running command has begun, or certainly will.
    pub(super) fn announce_command(&mut self) {
        self.foreground.announce(&self.cx, &self.supervision, self.shell.pid());
    }

    /// Answers a command that did not reach a shell.
    pub(super) fn not_sent(&mut self, ticket: Ticket, request: ExecRequest, error: Error) {
        self.calls.answered(request.id);
        show_end(&self.cx, request.id, &Outcome { cwd: self.cx.cwd.clone(), ..Outcome::default() }, [0; 2], true);
        self.foreground.deliver(request.sink, Err(error));
        self.cx.events.push_back(Event::Refused(ticket));
    }

    pub(super) fn send_env(&mut self, ticket: Ticket) {
        let Some(Call::SetEnv { vars, .. }) = self.calls.get(ticket) else { return };
        let env = env_of(vars);
        let id = self.cx.numbers.next_command();
        let sent = null_streams().and_then(|streams| {
            let request = Request { env: &env, flags: RequestFlags::KEEP_SCOPE, ..Request::new(RequestKind::Run, id) };
            self.shell.channel().map_or(Ok(()), |shell| shell.send(&request, streams))
        });
        if let Err(error) = sent {
            if let Some(Call::SetEnv { reply, .. }) = self.calls.take(ticket) {
                let message = format!("the variables cannot be set: {error}");
                let _ = reply.send(Err(Error::new(Code::EngineError, message)));
            }
            return self.cx.events.push_back(Event::Refused(ticket));
        }
        self.foreground.expect_end(ticket, id);
        self.cx.timers.set(Timer::Unread, Instant::now() + UNREAD);
    }

    /// Sets or clears the deadline for forks.
    pub(super) fn expect_forks(&mut self) {
        if !self.awaits_forks() {
            self.cx.timers.clear(Timer::Unforked);
        } else if !self.cx.timers.is_set(Timer::Unforked) {
            self.cx.timers.set(Timer::Unforked, Instant::now() + UNREAD);
        }
        self.announce_forks(false);
    }

    /// Tells the supervisor, while it kills a command, whether forks may appear that it does not know. `asking`: the
    /// shell or the standby is about to be asked for one.
    pub(super) fn announce_forks(&mut self, asking: bool) {
        let expected = (asking || self.awaits_forks()) && self.state.running().is_some_and(|run| run.kill.is_some());
        self.supervision.expect_forks(&mut self.cx, expected);
    }

    /// Whether the shell or the standby was asked for a fork that has not arrived.
    pub(super) fn awaits_forks(&self) -> bool {
        [Source::Shell, Source::Standby].iter().any(|source| self.awaits_fork_from(*source))
    }

    fn awaits_fork_from(&self, source: Source) -> bool {
        let standby = source == Source::Shell && self.standbys.is_forking();
        standby || self.background.awaits_fork_from(source)
    }

    /// Resumes the shell and the standby if one of them was stopped before or while it received a request.
    pub(super) fn check_unread(&mut self) {
        let runs = self.state.running().is_some_and(|run| run.end.is_none());
        let (forks, standby_forks) = (self.awaits_fork_from(Source::Shell), self.awaits_fork_from(Source::Standby));
        let is_stopped = |pid| Stat::read(pid).is_some_and(|stat| stat.state == b'T');
        // A command may stop its shell, but no command calls recvmsg. An ordinary user cannot see the call, since shells
        // are not dumpable: then a shell that a command stopped is resumed, too.
        let receives = |pid| proc_table::system_call(pid).is_none_or(|call| call == libc::SYS_recvmsg);
        let shell = self.shell.channel().filter(|_| runs || forks);
        let shell_waits = shell.is_some_and(|shell| {
            let stopped = self.shell.pid().filter(|pid| is_stopped(*pid));
            shell.unread_bytes() > 0 || stopped.is_some_and(|pid| forks || receives(pid))
        });
        let standby = self.standbys.channel().filter(|_| standby_forks);
        let standby_waits =
            standby.is_some_and(|standby| standby.unread_bytes() > 0 || self.standbys.pid().is_some_and(is_stopped));
        if shell_waits || standby_waits {
            self.supervision.order(&mut self.cx, &Order::Continue);
        }
        if shell_waits && runs {
            self.cx.timers.set(Timer::Unread, Instant::now() + UNREAD);
        }
        self.expect_forks();
    }

    pub(super) fn kill(&mut self, cause: Cause, signal: Option<i32>) {
        let Some(command) = self.foreground.command() else { return };
        tracing::debug!(log = self.cx.config.log.id(), session = %self.cx.config.id, ?cause, "killing a command");
        let policy = command.kill_policy();
        let signal = signal.unwrap_or(policy.signal);
        let grace = if signal == libc::SIGKILL { Duration::ZERO } else { policy.grace };
        self.cx.timers.set(Timer::Overdue(command.ticket()), Instant::now() + grace + SHELL_EXTRA);
        self.announce_forks(false);
        let id = self.cx.numbers.next();
        let order = Order::KillForeground {
            id,
            command: self.engine.number_in_shell(self.foreground.number()),
            signal,
            grace_ms: grace.as_millis() as u64,
            spare: self.foreground.begin_ladder(id, signal),
        };
        self.supervision.ask(&mut self.cx, &order);
    }

    /// Ends the grace time early.
    pub(super) fn insist(&mut self) {
        self.supervision.order(&mut self.cx, &Order::Insist);
        if let Some(ticket) = self.state.running().map(|run| run.ticket) {
            self.cx.timers.set(Timer::Overdue(ticket), Instant::now() + SHELL_EXTRA);
        }
    }

    /// Looks whether processes of earlier commands look like programs of the next. `waits`: they get time to end first, since
    /// moving the shell can take the kernel milliseconds.
    pub(super) fn isolate(&mut self, waits: bool) {
        // A failure is kept, and the next command looks again. One may have ended meanwhile, and left others.
        let _ = self.look_up_older();
        if !self.shares_foreground() {
            self.cx.events.push_back(Event::Isolated);
        } else if waits {
            self.cx.timers.set(Timer::Leaving, Instant::now() + LEAVING);
        } else {
            self.supervision.ask(&mut self.cx, &Order::Rotate);
        }
    }

    /// Whether processes of earlier commands look like programs of the next.
    ///
    /// The race: a promoted standby can run a command before the report of the promotion arrives. Then its group is still
    /// unknown, and the supervisor, which knows it, leaves what the command has started there.
    pub(super) fn shares_foreground(&mut self) -> bool {
        let own = self.engine_processes();
        self.supervision.is_group_unknown() || self.foreground.is_shared(&own, &mut self.standbys)
    }

    /// See [`Foreground::look_up_older`](super::foreground::Foreground::look_up_older).
    pub(super) fn look_up_older(&mut self) -> io::Result<()> {
        let own = self.engine_processes();
        self.foreground.look_up_older(&own)
    }

    fn engine_processes(&self) -> EngineProcesses {
        EngineProcesses {
            shell: self.shell.pid(),
            standby: self.standbys.pid(),
            supervisor: self.supervision.pid(),
            init: self.enclosure.init(),
            group: self.supervision.foreground_group(),
        }
    }

    /// Passes the end of the running command on, at once or when its output is complete. `may_have_rest`: it has made
    /// processes that are not its jobs. `substituted`: some may be children of its shell.
    pub(super) fn end_command(&mut self, end: Event, may_have_rest: bool, substituted: bool) {
        let own = may_have_rest.then(|| self.engine_processes());
        self.foreground.end_command(&mut self.cx, self.state.running(), own, &self.standbys, end, substituted);
    }

    /// Looks whether the output of the command is complete.
    pub(super) fn check_rest(&mut self) {
        let own = self.engine_processes();
        self.foreground.check_rest(&mut self.cx, &own, &self.standbys);
    }

    /// The running command, and the queued ones in their order.
    pub(super) fn running(&self) -> Vec<RunningCommand> {
        let running = self.foreground.running(self.shell.pid());
        let queued = self.state.queue.iter().filter_map(|(ticket, _)| match self.calls.get(*ticket) {
            Some(Call::Exec(request, _)) => {
                Some(RunningCommand { id: request.id, command: request.command.shown(), run: None })
            }
            _ => None,
        });
        running.into_iter().chain(queued).collect()
    }

    /// Clears the timers of the running command, which has ended.
    pub(super) fn clear_command_timers(&mut self, ticket: Ticket) {
        for timer in [Timer::Timeout(ticket), Timer::Overdue(ticket), Timer::Unread] {
            self.cx.timers.clear(timer);
        }
    }

    pub(super) fn answer(&mut self, ticket: Ticket, answer: Answer) {
        if let Some(command) = self.foreground.take(ticket) {
            self.clear_command_timers(ticket);
            if let Answer::Ended { end, kill, restarted } = answer {
                let Self { cx, calls, engine, enclosure, .. } = self;
                return self.foreground.conclude(cx, calls, engine, enclosure, command, (end, kill, restarted));
            }
        }
        let Some(call) = self.calls.take(ticket) else { return };
        let error = match answer {
            Answer::Refused(why) => Some(errors::never_ran(&self.cx, self.engine.failure(), why)),
            Answer::Ended { end: End::Refused, .. } => {
                let refused = self.foreground.take_refused();
                Some(errors::refused(&self.cx, refused, None, "change of variables"))
            }
            Answer::Ended { end: End::Closed, .. } => Some(self.cx.ended_error()),
            _ => None,
        };
        match call {
            Call::Open(reply) => {
                let opened = Opened { engine: self.engine.kind(), version: self.engine.version().into() };
                drop(reply.send(error.map_or(Ok(opened), Err)));
            }
            Call::SetEnv { reply, .. } => drop(reply.send(error.map_or(Ok(()), Err))),
            // Dropping it reports to the holder that the session ends.
            Call::Hold { grant, before } => {
                let is_needed = before.is_none_or(|request| self.calls.ticket_of(request).is_some());
                if error.is_none() && is_needed {
                    self.calls.stop_timeouts();
                    self.holds.grant(grant);
                }
            }
            Call::Files => self.files.answer(&mut self.cx, &self.supervision, error),
            Call::Exec(request, _) => {
                let killer = self.calls.answered(request.id);
                self.foreground.conclude_unrun(&self.cx, request, killer, answer, error);
            }
            Call::Start(request) => {
                request.refuse(error.unwrap_or_else(|| self.cx.ended_error()));
            }
        }
    }
}
