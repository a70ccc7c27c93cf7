//! Sends commands and variables to the shell, and ends commands early.

use super::Message;
use super::Session;
use super::calls::Call;
use super::foreground::Running;
use super::loan::{Loan, Sent};
use super::mailbox::Mailbox;
use super::streams::{OutputPipes, env_of, null_streams};
use super::timers::Timer;
use crate::error::{Code, Error};
use crate::exec::{ExecRequest, Outcome};
use crate::feed::What;
use crate::process::Birth;
use crate::shell::channel::Channel;
use crate::shell::event::{Event, Source};
use crate::shell::state::{Cause, Ticket};
use crate::supervisor::PidHold;
use nacre_containment::pid::{Identity, Pid};
use nacre_containment::proc_table::{self, Stat};
use nacre_containment::tree::Tree;
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

impl Session {
    /// Lends the shell to the callers if a command could run immediately. `has_answered`: callers have just used the loan and
    /// got their answers at once. Then they do not wake this thread, which looks for itself soon.
    ///
    /// The shell does not wake it either, unless it owes a fork: a lent shell answers its caller. If it dies, the supervisor
    /// reports that.
    pub(super) fn lend(&mut self, mailbox: &mut Mailbox<Message>, has_answered: bool) {
        let is_ready = self.state.is_ready() && self.foreground.knows_spared() && !self.answers.are_pending();
        let lent = self.shell.channel().filter(|_| is_ready).cloned();
        let dozes = has_answered && lent.is_some();
        let is_silent = lent.is_some() && !self.awaits_fork_from(Source::Shell);
        if is_silent {
            self.shell.unwatch();
        }
        if dozes || !(is_silent || self.shell.watch()) {
            self.timers.set(Timer::Answers, Instant::now() + DOZE);
        }
        if let Some(shell) = lent {
            mailbox.lend(dozes, || self.loan(shell));
        }
    }

    fn loan(&mut self, shell: Arc<Channel>) -> Loan {
        Loan {
            shell,
            series: Arc::clone(self.numbers.series()),
            pace: Arc::clone(&self.pace),
            pipes: self.spare_pipes.take(),
            denials: self.enclosure.denials(),
            disturbance: self.enclosure.disturbance(),
            configs: self.enclosure.configs(),
            is_whole: !self.state.restarted && !self.recovery.has_lost(),
        }
    }

    /// Takes back what no caller has used.
    pub(super) fn take_back(&mut self, loan: Loan) {
        if let Some(pipes) = loan.pipes {
            let limit = self.spare_pipes.keep(pipes);
            // When the timer is due, they are closed now.
            if !self.timers.is_set(Timer::SparePipes) {
                self.timers.set(Timer::SparePipes, Instant::now() + limit);
            }
        }
    }

    /// Keeps the pipes of an ended command for a while.
    pub(super) fn keep_pipes(&mut self, pipes: OutputPipes) {
        let limit = self.spare_pipes.keep(pipes);
        self.timers.set(Timer::SparePipes, Instant::now() + limit);
    }

    pub(super) fn run_command(&mut self, ticket: Ticket) {
        let Some(Call::Exec(request, sent)) = self.calls.take(ticket) else { return };
        self.timers.clear(Timer::Idle);
        let sent = match (sent, self.shell.channel().cloned()) {
            (Some(sent), _) => Ok(*sent),
            (None, Some(shell)) => self.send_command(shell, &request),
            (None, None) => {
                // The shell is dead, and the supervisor has not reported it yet.
                self.shell.lose_request();
                Sent::to_a_dead_shell(&request.input, self.numbers.series().next_command()).map_err(not_started)
            }
        };
        let mut sent = match sent {
            Ok(sent) => sent,
            Err(error) => return self.not_sent(ticket, *request, error),
        };
        self.numbers.sent(sent.id);
        let (begun, early, is_answered) = (sent.begun, std::mem::take(&mut sent.early), sent.answered.is_some());
        let can_be_refused = !request.env.is_empty()
            || request.cwd.as_ref().is_some_and(|cwd| !cwd.as_os_str().is_empty())
            || request.terminal.is_some();
        let limit = self.calls.end_of_wait(ticket);
        let command = Running::new(ticket, request, limit, sent);
        if let Some(deadline) = command.deadline() {
            self.timers.set(Timer::Timeout(ticket), deadline);
        }
        self.timers.set(Timer::Unread, begun + UNREAD);
        self.foreground.begin(command);
        if !can_be_refused {
            self.announce_command();
        }
        // Its caller has read all the output of a command that is answered.
        if !is_answered {
            self.watch_output();
        }
        early.into_iter().for_each(|received| self.handle_shell_report(received));
    }

    /// Sends a command, with a terminal if it is to have one.
    fn send_command(&mut self, shell: Arc<Channel>, request: &ExecRequest) -> Result<Sent, Error> {
        self.spare_unknown_roots().map_err(not_started)?;
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

    /// Announces that the running command has begun, or certainly will.
    pub(super) fn announce_command(&mut self) {
        let shell = self.shell.pid();
        let announced = self.foreground.announce(shell);
        let begun = announced.map(|request| (request.id, request.command.shown()));
        if let Some((id, command)) = begun {
            self.happens(What::CommandStarted { id, command, pid: shell.map_or(0, Pid::raw) });
        }
        let Some(command) = self.foreground.command() else { return };
        let (Some(pid), Some(process), at) = (shell, command.process(), command.started_at()) else { return };
        if let Some(pipe) = command.input() {
            process.set_input(pipe);
        }
        let tree = Tree {
            root: Identity { pid, start_ticks: 0 },
            group: self.supervision.foreground_group(),
            // Carried by no process: the members are found by the other signs.
            mark: "-".into(),
            guardian: self.supervision.last().map_or(pid, PidHold::pid),
            spare: self.foreground.spared(),
        };
        process.command_begun(Birth { pid, at, tree });
    }

    /// Answers a command that did not reach a shell.
    pub(super) fn not_sent(&mut self, ticket: Ticket, request: ExecRequest, error: Error) {
        self.calls.answered(request.id);
        self.show_end(request.id, &Outcome { cwd: self.cwd.clone(), ..Outcome::default() }, [0; 2]);
        self.answers.deliver(request.sink, Err(error));
        self.events.push_back(Event::Refused(ticket));
    }

    pub(super) fn watch_output(&mut self) {
        let Some(command) = self.foreground.command() else { return };
        if let Err(error) = command.watch() {
            // No epoll watch is available. The command's output cannot be read, so the command cannot continue.
            command.complain(&format!("nacre: the output cannot be read: {error}\n"));
            self.events.push_back(Event::Cancel(command.ticket(), None));
        }
    }

    pub(super) fn send_env(&mut self, ticket: Ticket) {
        let Some(Call::SetEnv { vars, .. }) = self.calls.get(ticket) else { return };
        let env = env_of(vars);
        let id = self.numbers.series().next_command();
        self.numbers.sent(id);
        let sent = null_streams().and_then(|streams| {
            let request = Request { env: &env, flags: RequestFlags::KEEP_SCOPE, ..Request::new(RequestKind::Run, id) };
            self.shell.channel().map_or(Ok(()), |shell| shell.send(&request, streams))
        });
        if let Err(error) = sent {
            if let Some(Call::SetEnv { reply, .. }) = self.calls.take(ticket) {
                let message = format!("the variables cannot be set: {error}");
                let _ = reply.send(Err(Error::new(Code::EngineError, message)));
            }
            return self.events.push_back(Event::Refused(ticket));
        }
        self.foreground.expect_end(ticket);
        self.timers.set(Timer::Unread, Instant::now() + UNREAD);
    }

    /// Sets or clears the deadline for forks.
    pub(super) fn expect_forks(&mut self) {
        if !self.awaits_forks() {
            self.timers.clear(Timer::Unforked);
        } else if !self.timers.is_set(Timer::Unforked) {
            self.timers.set(Timer::Unforked, Instant::now() + UNREAD);
        }
        self.announce_forks(false);
    }

    /// Tells the supervisor, while it kills a command, whether forks may appear that it does not know. `asking`: the
    /// shell or the standby is about to be asked for one.
    pub(super) fn announce_forks(&mut self, asking: bool) {
        let expected = (asking || self.awaits_forks()) && self.state.running().is_some_and(|run| run.kill.is_some());
        if self.supervision.change_expectation(expected) {
            self.order(&Order::ExpectForks { expected });
        }
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
            self.order(&Order::Continue);
        }
        if shell_waits && runs {
            self.timers.set(Timer::Unread, Instant::now() + UNREAD);
        }
        self.expect_forks();
    }

    pub(super) fn kill(&mut self, cause: Cause, signal: Option<i32>) {
        let Some(command) = self.foreground.command() else { return };
        tracing::debug!(log = self.config.log.id(), session = %self.config.id, ?cause, "killing a command");
        let policy = command.kill_policy();
        let signal = signal.unwrap_or(policy.signal);
        let grace = if signal == libc::SIGKILL { Duration::ZERO } else { policy.grace };
        self.timers.set(Timer::Overdue(command.ticket()), Instant::now() + grace + SHELL_EXTRA);
        self.announce_forks(false);
        let id = self.numbers.next();
        let order = Order::KillForeground {
            id,
            command: (!self.plain.is_engine()).then_some(self.numbers.command()),
            signal,
            grace_ms: grace.as_millis() as u64,
            spare: self.foreground.begin_ladder(id, signal),
        };
        self.ask(&order);
    }

    /// Ends the grace time early.
    pub(super) fn insist(&mut self) {
        self.order(&Order::Insist);
        if let Some(ticket) = self.state.running().map(|run| run.ticket) {
            self.timers.set(Timer::Overdue(ticket), Instant::now() + SHELL_EXTRA);
        }
    }
}

/// The error of a command that cannot be sent to a shell.
pub(super) fn not_started(error: io::Error) -> Error {
    Error::new(Code::EngineError, format!("the command cannot be started: {error}"))
}
