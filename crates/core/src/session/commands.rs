//! Commands: sends them to the shell, ends them early, tells their processes from those of earlier commands, waits for the rest
//! of their output, and converts their ends to results.

use super::actor::Session;
use super::calls::Call;
use super::config::Opened;
use super::foreground::{EndedCommand, ForegroundCommand, Refused};
use super::loan::{Loan, Sent};
use super::mailbox::Mailbox;
use super::message::Message;
use super::observed::show_end;
use super::rest::{Rest, is_below};
use super::running::RunningCommand;
use super::streams::{OutputPipes, env_of, null_streams};
use super::timers::Timer;
use crate::error::{Code, Error};
use crate::exec::{By, ExecRequest, Outcome, SureSink};
use crate::feed::What;
use crate::output::rest::OutputSource as _;
use crate::process::Birth;
use crate::process::terminal::{Size, Terminal};
use crate::shell::channel::Channel;
use crate::shell::event::{Answer, Event, Refusal, Source};
use crate::shell::plain_state::ReadOnly;
use crate::shell::state::{Cause, End, Kill, Ticket};
use crate::supervisor::PidHold;
use nacre_containment::descent_mark;
use nacre_containment::pid::{Identity, Pid};
use nacre_containment::proc_table::{self, Stat};
use nacre_containment::rest::{RestWait, Writers};
use nacre_containment::tree::Tree;
use nacre_isolation::git_config::GitConfigs;
use nacre_protocol::shell::{Refusal as ShellRefusal, Request, RequestFlags, RequestKind};
use nacre_protocol::supervisor::{MAX_SPARED, Order};
use std::collections::HashSet;
use std::io;
use std::path::Path;
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
        let is_ready =
            self.state.is_ready() && self.foreground.knows_spared() && !self.foreground.deliveries.are_pending();
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
        Loan {
            shell,
            series: Arc::clone(self.cx.numbers.series()),
            pace: Arc::clone(&self.foreground.pace),
            pipes: self.foreground.spare_pipes.take(),
            denials: self.enclosure.denials(),
            disturbance: self.enclosure.disturbance(),
            configs: self.enclosure.configs(),
            is_whole: !self.state.restarted && !self.engine.recovery.has_lost(),
        }
    }

    /// Takes back what no caller has used.
    pub(super) fn take_back(&mut self, loan: Loan) {
        if let Some(pipes) = loan.pipes {
            let limit = self.foreground.spare_pipes.keep(pipes);
            // When the timer is due, they are closed now.
            if !self.cx.timers.is_set(Timer::SparePipes) {
                self.cx.timers.set(Timer::SparePipes, Instant::now() + limit);
            }
        }
    }

    /// Keeps the pipes of an ended command for a while.
    pub(super) fn keep_pipes(&mut self, pipes: OutputPipes) {
        let limit = self.foreground.spare_pipes.keep(pipes);
        self.cx.timers.set(Timer::SparePipes, Instant::now() + limit);
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
                Sent::to_a_dead_shell(&request.input, self.cx.numbers.series().next_command()).map_err(not_started)
            }
        };
        let mut sent = match sent {
            Ok(sent) => sent,
            Err(error) => return self.not_sent(ticket, *request, error),
        };
        self.cx.numbers.sent(sent.id);
        let (begun, early, is_answered) = (sent.begun, std::mem::take(&mut sent.early), sent.answered.is_some());
        let can_be_refused = !request.env.is_empty()
            || request.cwd.as_ref().is_some_and(|cwd| !cwd.as_os_str().is_empty())
            || request.terminal.is_some();
        let limit = self.calls.end_of_wait(ticket);
        let command = ForegroundCommand::new(ticket, request, limit, sent);
        if let Some(deadline) = command.deadline() {
            self.cx.timers.set(Timer::Timeout(ticket), deadline);
        }
        self.cx.timers.set(Timer::Unread, begun + UNREAD);
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

    /// Opens a terminal that the programs of the session can use.
    pub(super) fn open_terminal(&self, size: Size) -> io::Result<Terminal> {
        self.enclosure.open_terminal(&self.cx, size, [self.shell.pid(), self.standbys.pid()])
    }

    /// Announces that the running command has begun, or certainly will.
    pub(super) fn announce_command(&mut self) {
        let shell = self.shell.pid();
        let announced = self.foreground.announce(shell);
        let begun = announced.map(|request| (request.id, request.command.shown()));
        if let Some((id, command)) = begun {
            self.cx.happens(What::CommandStarted { id, command, pid: shell.map_or(0, Pid::raw) });
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
        show_end(&self.cx, request.id, &Outcome { cwd: self.cx.cwd.clone(), ..Outcome::default() }, [0; 2]);
        self.foreground.deliveries.deliver(request.sink, Err(error));
        self.cx.events.push_back(Event::Refused(ticket));
    }

    pub(super) fn watch_output(&mut self) {
        let Some(command) = self.foreground.command() else { return };
        if let Err(error) = command.watch() {
            // No epoll watch is available. The command's output cannot be read, so the command cannot continue.
            command.complain(&format!("nacre: the output cannot be read: {error}\n"));
            self.cx.events.push_back(Event::Cancel(command.ticket(), None));
        }
    }

    pub(super) fn send_env(&mut self, ticket: Ticket) {
        let Some(Call::SetEnv { vars, .. }) = self.calls.get(ticket) else { return };
        let env = env_of(vars);
        let id = self.cx.numbers.series().next_command();
        self.cx.numbers.sent(id);
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
        self.foreground.expect_end(ticket);
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
        if self.supervision.change_expectation(expected) {
            self.supervision.order(&mut self.cx, &Order::ExpectForks { expected });
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
            command: self.engine.number_in_shell(self.cx.numbers.command()),
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

    pub(super) fn isolate(&mut self) {
        // A failure is kept, and the next command looks again.
        let _ = self.spare_older_roots();
        if self.may_have_strangers() {
            // Moving the shell can take the kernel milliseconds, and these processes may be about to exit.
            self.cx.timers.set(Timer::Leaving, Instant::now() + LEAVING);
        } else {
            self.cx.events.push_back(Event::Isolated);
        }
    }

    pub(super) fn isolate_again(&mut self) {
        // One may have ended meanwhile, and left others.
        let _ = self.spare_older_roots();
        if self.may_have_strangers() {
            self.supervision.ask(&mut self.cx, &Order::Rotate);
        } else {
            self.cx.events.push_back(Event::Isolated);
        }
    }

    /// Whether processes of earlier commands are in the foreground group. True if that cannot be looked up: a kill of the
    /// next command would reach them.
    ///
    /// The race: a promoted standby can run a command before the report of the promotion arrives. Then its group is still
    /// unknown, and the supervisor, which knows it, leaves what the command has started there.
    pub(super) fn may_have_strangers(&mut self) -> bool {
        if self.supervision.is_group_unknown() {
            return true;
        }
        let Some(group) = self.supervision.foreground_group() else { return self.shares_mark() };
        let members = match group.members_below() {
            Ok(members) => members,
            Err(_) => return true,
        };
        self.standbys.forget_retired_except(&members);
        members.iter().any(|pid| Some(*pid) != self.shell.pid() && !self.standbys.contains(*pid))
    }

    /// Without control groups, whether an older process has the mark of the shell, and so its orphans would.
    fn shares_mark(&self) -> bool {
        let (Some(shell), Some(supervisor)) = (self.shell.pid(), self.supervision.pid()) else { return false };
        let mark = |pid| descent_mark::of(pid, supervisor).ok().flatten();
        mark(shell).is_some_and(|own| self.foreground.spared().iter().any(|root| mark(*root) == Some(own)))
    }

    /// Spares the roots of processes that earlier commands left behind: children of the shell, and orphans. With control
    /// groups, they matter only if they have left theirs.
    ///
    /// # Errors
    /// They cannot be looked up. A kill of the next command would reach them, so it must not begin.
    pub(super) fn spare_older_roots(&mut self) -> io::Result<()> {
        let (roots, outcome) = match self.older_roots() {
            Ok(roots) => (Some(roots), Ok(())),
            Err(error) => (None, Err(error)),
        };
        self.foreground.spare(roots);
        outcome
    }

    /// Looks again if the last look has failed.
    pub(super) fn spare_unknown_roots(&mut self) -> io::Result<()> {
        if self.foreground.knows_spared() { Ok(()) } else { self.spare_older_roots() }
    }

    fn older_roots(&self) -> io::Result<Vec<Pid>> {
        let init = self.enclosure.init();
        let own = [self.shell.pid(), self.standbys.pid(), init];
        let mut roots = Vec::new();
        for parent in self.shell.pid().into_iter().chain(self.supervision.pid()).chain(init) {
            roots.extend(proc_table::children(parent)?);
        }
        roots.retain(|pid| !own.contains(&Some(*pid)));
        roots.truncate(MAX_SPARED);
        Ok(roots)
    }

    /// Passes the end of the running command on, at once or when its output is complete. `may_have_rest`: it has made
    /// processes that are not its jobs. `substituted`: some may be children of its shell.
    pub(super) fn end_command(&mut self, end: Event, may_have_rest: bool, substituted: bool) {
        // An earlier event may end the command first, or be its end.
        let is_first = self.cx.events.is_empty() && self.foreground.rest.is_none();
        let rest = if may_have_rest && is_first { self.await_rest(end, substituted) } else { None };
        match rest {
            Some(rest) => {
                self.cx.timers.set(Timer::Rest, rest.wait.next().into());
                self.foreground.rest = Some(rest);
            }
            None => self.cx.events.push_back(end),
        }
    }

    fn await_rest(&mut self, end: Event, substituted: bool) -> Option<Rest> {
        // What is being killed is not waited for.
        if self.state.running().is_none_or(|run| run.kill.is_some() || run.end.is_some()) {
            return None;
        }
        if !self.foreground.command()?.read_on() {
            return None;
        }
        let writers = self.writers(substituted)?;
        let wait = RestWait::begin(self.foreground.command()?.total(), writers);
        Some(Rest { end, substituted, wait })
    }

    /// The processes of the command that may still print, apart from its jobs.
    fn writers(&mut self, substituted: bool) -> Option<Writers> {
        let (shell, init) = (self.shell.pid(), self.enclosure.init());
        let group = self.supervision.foreground_group();
        let roots: Vec<Pid> = shell.into_iter().chain(self.supervision.pid()).chain(init).collect();
        let spare: HashSet<Pid> = self.foreground.spared().into_iter().collect();
        let standbys = &self.standbys;
        let command = self.foreground.command()?;
        let list = || match &group {
            Some(group) => proc_table::read_each(group.members_if_any()?.unwrap_or_default()),
            // The shell has just died, and its children with it or to another parent.
            None if shell.is_some_and(|shell| !Stat::read(shell).is_some_and(|stat| stat.is_running())) => {
                Err(io::ErrorKind::NotFound.into())
            }
            None => proc_table::descendants(&roots, &spare),
        };
        let counts = |stat: &Stat, all: &[Stat]| {
            let pid = stat.identity.pid;
            let is_own = [shell, init].contains(&Some(pid)) || standbys.contains(pid);
            !is_own && (substituted || !is_below(shell, stat, all))
        };
        Writers::look(list, counts, |inode| command.is_own(inode))
    }

    /// Looks whether the output is complete.
    pub(super) fn check_rest(&mut self) {
        let Some(mut rest) = self.foreground.rest.take() else { return };
        let goes_on = match self.foreground.command() {
            Some(command) if command.is_held_up() => {
                rest.wait.extend();
                true
            }
            Some(command) => {
                let total = command.total();
                rest.wait.goes_on(total, self.writers(rest.substituted))
            }
            None => false,
        };
        if goes_on {
            self.cx.timers.set(Timer::Rest, rest.wait.next().into());
            self.foreground.rest = Some(rest);
        } else {
            self.cx.events.push_back(rest.end);
        }
    }

    /// Ends the wait at the end of both streams.
    pub(super) fn end_rest_if_read(&mut self) {
        if self.foreground.rest.is_some() && self.foreground.command().is_some_and(|command| !command.is_open()) {
            self.end_rest();
        }
    }

    fn end_rest(&mut self) {
        self.cx.timers.clear(Timer::Rest);
        self.cx.events.extend(self.foreground.rest.take().map(|rest| rest.end));
    }

    /// Returns the event to handle first, if this one ends the wait. A kill comes before the end of the command, so that it
    /// reaches what prints the rest.
    pub(super) fn cut_rest(&mut self, event: Event) -> Event {
        let ticket = self.state.running().map(|run| run.ticket);
        let is_cut = match event {
            Event::TimeUp(victim) | Event::Cancel(victim, _) | Event::OutputLimit(victim) => Some(victim) == ticket,
            Event::ShellDied { .. } | Event::SupervisorGone { .. } | Event::Close => true,
            _ => false,
        };
        let Some(rest) = self.foreground.rest.take_if(|_| is_cut) else { return event };
        self.cx.timers.clear(Timer::Rest);
        let (first, second) = match event {
            // What prints the rest is killed, so the output is not complete.
            Event::SupervisorGone { .. } | Event::Close => return event,
            Event::ShellDied { .. } => (rest.end, event),
            _ => (event, rest.end),
        };
        self.cx.events.push_front(second);
        first
    }

    /// The running command, and the queued ones in their order.
    pub(super) fn running(&mut self) -> Vec<RunningCommand> {
        let shown =
            |request: &ExecRequest, run| RunningCommand { id: request.id, command: request.command.shown(), run };
        let pid = self.shell.pid();
        let running = self.foreground.command().map(|command| shown(command.request(), Some(command.progress(pid))));
        let queued = self.state.queue.iter().filter_map(|(ticket, _)| match self.calls.get(*ticket) {
            Some(Call::Exec(request, _)) => Some(shown(request, None)),
            _ => None,
        });
        running.into_iter().chain(queued).collect()
    }

    /// The result of a command that has ended.
    pub(super) fn conclude(&mut self, command: ForegroundCommand, end: End, kill: Option<Kill>, restarted: bool) {
        // A refused command has no result that reports it.
        let lost_state = if end == End::Refused { Vec::new() } else { self.engine.recovery.take_lost() };
        let outcome = Outcome { restarted, lost_state, cwd: self.cx.cwd.clone(), ..Outcome::default() };
        let seen = command.seen();
        let is_held = kill.is_some() || !matches!(end, End::Done { .. });
        let EndedCommand { request, mut outcome, pipes, died, answered } = command.finish(outcome, is_held);
        let killer = self.calls.answered(request.id);
        match pipes {
            Ok(pipes) => self.keep_pipes(pipes),
            Err(leftover) => self.foreground.leave(leftover),
        }
        // Those of a command whose caller has its result belong to the next one.
        let configs = self.enclosure.configs().filter(|configs| answered.is_none() && configs.have_changed());
        match answered {
            Some(answered) => {
                (outcome.duration, outcome.dropped, outcome.denials) =
                    (answered.duration, answered.dropped, answered.denials);
            }
            None => {
                self.enclosure.looking().into_iter().for_each(|looking| looking.look(&self.cx));
                self.foreground.pace.ended(outcome.duration);
                let denials = self.enclosure.denials();
                outcome.denials = denials.map(|denials| denials.end_command()).unwrap_or_default();
            }
        }
        (outcome.exit_code, outcome.signal) = match (end, died) {
            (End::Done { status, .. }, _) => (Some(status), None),
            (End::Died, Some((code, signal))) => (code.or(signal.map(|signal| 128 + signal)), signal),
            _ => (None, None),
        };
        outcome.killed_by = match kill.map(|kill| kill.cause) {
            Some(Cause::Timeout) => Some(By::Timeout.into()),
            Some(Cause::OutputLimit) => Some(By::OutputLimit.into()),
            Some(Cause::Cancel) => killer,
            None => (end == End::Closed).then_some(By::Session.into()),
        };
        if let Some(kill) = kill {
            outcome.timed_out = kill.cause == Cause::Timeout;
            outcome.cancelled = kill.cause == Cause::Cancel;
            // A command that ended by itself at the same moment keeps its status.
            if !matches!(end, End::Done { exited: false, .. }) {
                let signal =
                    if kill.escalated || kill.shell_killed { libc::SIGKILL } else { self.foreground.kill_signal() };
                (outcome.exit_code, outcome.signal) = (None, Some(signal));
            }
        }
        self.cx.timers.clear(Timer::Output);
        show_end(&self.cx, request.id, &outcome, seen);
        tracing::debug!(
            log = self.cx.config.log.id(),
            session = %self.cx.config.id,
            duration_us = outcome.duration.as_micros() as u64,
            exit_code = ?outcome.exit_code,
            signal = ?outcome.signal,
            "command ended"
        );
        if end == End::Refused {
            let refused = self.foreground.take_refused();
            let error = self.refused(refused, request.cwd.as_deref(), "command");
            return self.foreground.deliveries.deliver(request.sink, Err(error));
        }
        let ended_session = self.ends_session(end, kill);
        let with = |error: Error, outcome| Err(Error { outcome: Some(Box::new(outcome)), ..error });
        let result = match end {
            End::SupervisorGone => {
                let message =
                    format!("the supervisor of session '{}' died; its processes were killed", self.cx.config.id);
                with(Error::new(Code::EngineError, message), outcome)
            }
            End::Closed => with(self.cx.ended_error(), outcome),
            _ if ended_session => with(terminated(&self.cx.config.id, outcome.exit_code), outcome),
            _ => Ok(outcome),
        };
        match configs {
            Some(configs) => self.write_back(configs, request.sink, result),
            None => self.foreground.deliveries.deliver(request.sink, result),
        }
    }

    /// Gives the machine's config files of git what a command has changed in the session's, and then its result.
    fn write_back(&mut self, configs: Arc<GitConfigs>, sink: SureSink, mut result: Result<Outcome, Error>) {
        let (feed, id) = (Arc::clone(&self.cx.config.feed), self.cx.config.id.clone());
        // A file may be on a disk that does not respond.
        self.foreground.deliveries.deliver_after(sink, move || {
            let withheld = configs.write_back();
            withheld.iter().for_each(|key| feed.push(&id, What::Withheld { key: key.clone() }));
            match &mut result {
                Ok(outcome) => outcome.withheld = withheld,
                Err(error) => error.outcome.iter_mut().for_each(|outcome| outcome.withheld.clone_from(&withheld)),
            }
            result
        });
    }

    pub(super) fn ends_session(&self, end: End, kill: Option<Kill>) -> bool {
        !self.cx.config.survive_exit && kill.is_none() && matches!(end, End::Died | End::Done { exited: true, .. })
    }

    /// The error for a command, process or change of variables that the shell refused.
    pub(super) fn refused(&self, refused: Option<Refused>, cwd: Option<&Path>, what: &str) -> Error {
        let Some(Refused { reason, errno, about }) = refused else {
            return Error::new(
                Code::EngineError,
                format!("the {what} cannot be started: its streams cannot be opened"),
            );
        };
        match reason {
            ShellRefusal::Cwd => Error::cwd(&self.cx.cwd.join(cwd.unwrap_or(Path::new(""))), errno),
            ShellRefusal::ReadOnly => read_only(&ReadOnly(about)),
            ShellRefusal::Limit => limit_error(&about),
            ShellRefusal::Streams => {
                let message = format!(
                    "the {what} cannot be started: an earlier command set a limit of open files (ulimit -n) below 5; \
                     delete the session, and set the limit in a subshell"
                );
                Error::new(Code::SpawnFailed, message)
            }
            ShellRefusal::Terminal => no_terminal(&about, errno),
            ShellRefusal::Unknown(_) => {
                Error::new(Code::EngineError, format!("the {what} cannot be started: the shell refused it"))
            }
        }
    }

    /// The error of a call that never ran.
    pub(super) fn refusal(&self, why: Refusal) -> Error {
        match why {
            Refusal::Closed | Refusal::Cancelled | Refusal::TimedOut => self.cx.ended_error(),
            Refusal::Terminated(code) => terminated(&self.cx.config.id, code),
            Refusal::NoShell => self.engine.failure.clone().unwrap_or_else(|| {
                let message = format!("the shell of session '{}' dies as soon as it starts", self.cx.config.id);
                Error::new(Code::SpawnFailed, message)
            }),
            Refusal::NoFork => no_fork(),
            Refusal::StandbyDied => {
                Error::new(Code::SpawnFailed, "the process cannot be started: the session's standby died")
            }
        }
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
                let status = match end {
                    End::Done { status, .. } => Some(status),
                    End::Died => command.status_of_death(),
                    _ => None,
                };
                status.into_iter().for_each(|status| self.foreground.keep_status(status));
                return self.conclude(command, end, kill, restarted);
            }
        }
        let Some(call) = self.calls.take(ticket) else { return };
        let error = match answer {
            Answer::Refused(why) => Some(self.refusal(why)),
            Answer::Ended { end: End::Refused, .. } => {
                let refused = self.foreground.take_refused();
                Some(self.refused(refused, None, "change of variables"))
            }
            Answer::Ended { end: End::Closed, .. } => Some(self.cx.ended_error()),
            _ => None,
        };
        match call {
            Call::Open(reply) => {
                let opened = Opened { engine: self.engine.kind(), version: self.engine.version.clone() };
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
                let timed_out = matches!(answer, Answer::Refused(Refusal::TimedOut));
                let killed_by = if timed_out { Some(By::Timeout.into()) } else { killer };
                let never_ran = Outcome {
                    cancelled: !timed_out,
                    timed_out,
                    duration: request.timeout.filter(|_| timed_out).unwrap_or_default(),
                    killed_by,
                    waited_for: if timed_out {
                        self.foreground.command().map(|command| command.blocker())
                    } else {
                        None
                    },
                    cwd: self.cx.cwd.clone(),
                    ..Outcome::default()
                };
                show_end(&self.cx, request.id, &never_ran, [0; 2]);
                match (answer, error) {
                    // It has not waited for its turn.
                    (Answer::Refused(Refusal::Cancelled | Refusal::TimedOut), _) => {
                        request.sink.finished(Ok(never_ran));
                    }
                    (_, error) => {
                        let error = error.unwrap_or_else(|| self.cx.ended_error());
                        self.foreground.deliveries.deliver(request.sink, Err(error));
                    }
                }
            }
            Call::Start(request) => {
                request.refuse(error.unwrap_or_else(|| self.cx.ended_error()));
            }
        }
    }
}

/// The error of a command that cannot be sent to a shell.
pub(super) fn not_started(error: io::Error) -> Error {
    Error::new(Code::EngineError, format!("the command cannot be started: {error}"))
}

/// The error of calls on a session whose shell has ended permanently.
pub(super) fn terminated(id: &str, code: Option<i32>) -> Error {
    let how = code.map_or("was killed".to_string(), |code| format!("exited with code {code}"));
    Error::new(Code::SessionTerminated, format!("the shell of session '{id}' {how}"))
}

/// The error for a process that cannot be forked.
pub(super) fn no_fork() -> Error {
    let message = "the process cannot be started: the shell cannot fork (limit of processes or memory)";
    Error::new(Code::SpawnFailed, message)
}

/// The error for a command whose shell cannot have a terminal. `process`: the pid of a process of an earlier command.
fn no_terminal(process: &str, errno: i32) -> Error {
    let reason = if process.is_empty() {
        io::Error::from_raw_os_error(errno).to_string()
    } else {
        format!(
            "process {process} of an earlier command would get its signals, like those of Ctrl-C; end it, start such \
             programs with startProcess, or use another session"
        )
    };
    Error::new(Code::TerminalUnavailable, format!("the session cannot give its command a terminal: {reason}"))
}

/// The error for a variable that is read-only in the session.
pub(super) fn read_only(refused: &ReadOnly) -> Error {
    Error::new(Code::InvalidEnvName, refused.to_string())
}

/// The error for a limit above the host's own.
pub(super) fn limit_error(limit: &str) -> Error {
    let message = format!("the limit {limit} cannot be set: it is above what the host itself may use");
    Error::new(Code::LimitUnsupported, message)
}
