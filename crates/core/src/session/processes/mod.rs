//! The background processes of a session: starting them one after the other, taking note of their ends, killing them.
//!
//! A process is a fork of the standby that waits to be one ([`ahead`]). It is given its limits, its text and its streams
//! ([`starting`]), and says when it has taken them ([`Event::Begun`]); then the next one can begin. A process with a
//! terminal is forked when it is wanted ([`terminals`]). Nothing of it concerns the shell, so it goes on while a command
//! runs.

mod ahead;
mod starting;
mod terminals;

use super::listening::Happening;
use crate::driver::{Driver, Event};
use crate::error::{Code, Error};
use crate::exec::KillPolicy;
use crate::process::StartRequest;
use crate::process::pump::Status;
use crate::supervisor::Supervisor;
use ahead::Ahead;
use nacre_containment::pid::{Identity, Pid};
use nacre_containment::proc_table::Stat;
use nacre_containment::signal;
use nacre_containment::wire::{Order, Report};
use starting::Beginning;
use std::collections::{HashMap, VecDeque};
use std::path::Path;
use terminals::Birthing;
use tokio::sync::oneshot;

/// What a birth is done with.
pub struct Midwives<'a> {
    /// Talks to the standby.
    pub driver: &'a mut dyn Driver,
    /// Adopts the process.
    pub supervisor: &'a Supervisor,
    /// The standby, when there is one.
    pub standby: Option<Pid>,
    /// The session's directory after its last finished command.
    pub cwd: &'a Path,
    /// The user and group that processes run as, when they are not this process's.
    pub owner: Option<(u32, u32)>,
    /// Each process gets a control group.
    pub grouped: bool,
}

/// See the module.
#[derive(Default)]
pub struct Processes {
    queue: VecDeque<StartRequest>,
    ahead: Ahead,
    /// The process that has been given its text or is about to be, and has not taken it: that of the next one will be in
    /// the same place.
    beginning: Option<Beginning>,
    /// The process with a terminal that is being forked.
    birthing: Option<Birthing>,
    /// The standby that is where it can fork the next one.
    placed: Option<Pid>,
    /// The standby that is about to be replaced or to become the shell: nothing is asked of it any more.
    retiring: Option<Pid>,
    living: HashMap<u64, oneshot::Sender<Status>>,
    kills: HashMap<u64, oneshot::Sender<bool>>,
    keys: u64,
    orders: u64,
}

impl Processes {
    /// The standby is not at work on a fork.
    pub fn is_idle(&self) -> bool {
        self.birthing.is_none() && !self.ahead.is_under_way()
    }

    /// The standby is about to be replaced or to become the shell: nothing begins before the next one is in place.
    pub fn hold(&mut self, with: &mut Midwives<'_>) {
        self.retiring = with.standby;
        self.ahead.discard(with);
    }

    /// The standby stays.
    pub fn go_on(&mut self, with: &mut Midwives<'_>) {
        self.retiring = None;
        self.advance(with);
    }

    /// There is another standby.
    pub fn standby_replaced(&mut self, with: &mut Midwives<'_>) {
        // The retired one may have died before, and the new one have its number.
        (self.placed, self.retiring) = (None, None);
        self.ahead.discard(with);
        self.advance(with);
    }

    fn can_bear(&self, with: &Midwives<'_>) -> bool {
        with.standby.is_some() && self.placed == with.standby && self.retiring != with.standby
    }

    /// The fork that waits, to be killed by whoever has to do without the supervisor.
    pub fn waiting(&self) -> Option<Identity> {
        self.ahead.waiting()
    }

    /// Files a request; it begins at once when nothing else is being started.
    pub fn start(&mut self, request: StartRequest, with: &mut Midwives<'_>) {
        self.queue.push_back(request);
        self.advance(with);
    }

    /// Refuses everything that has not begun.
    pub fn refuse_queued(&mut self, error: impl Fn() -> Error) {
        self.queue.drain(..).for_each(|request| request.refuse(error()));
    }

    /// Ends a process with its tree. Told when nothing is left: false when there was nobody.
    pub fn kill(&mut self, key: u64, policy: KillPolicy, reply: oneshot::Sender<bool>, supervisor: &Supervisor) {
        self.orders += 1;
        self.kills.insert(self.orders, reply);
        let grace_ms = if policy.signal == libc::SIGKILL { 0 } else { policy.grace.as_millis() as u64 };
        supervisor.order(&Order::KillProcess { id: self.orders, key, signal: policy.signal, grace_ms });
    }

    /// Takes note of what has happened and does the next step.
    pub fn note(&mut self, happening: &Happening, with: &mut Midwives<'_>) {
        match happening {
            Happening::Shell(Event::Born { key, pid }) => {
                if !self.ahead.told(*key, *pid, with) && !self.terminal_born(*key, *pid, with) {
                    end_stray(*pid, with);
                }
            }
            Happening::Shell(Event::Begun { key }) => self.over(*key, with),
            Happening::Shell(Event::Stillborn { key, statement }) => {
                self.stillborn(*key, *statement, with);
                self.terminal_stillborn(*key, *statement, with);
            }
            Happening::Supervisor(Report::Adopted { key, identity, group }) => {
                if !self.ahead.adopted(*key, *identity, group.as_ref(), with) {
                    self.terminal_adopted(*key, *identity, group.as_ref(), with);
                }
            }
            Happening::Supervisor(Report::Limited { key, problem }) => {
                self.limited(*key, problem.as_deref(), with);
                self.terminal_limited(*key, problem.as_deref(), with);
            }
            Happening::Shell(Event::Standby { .. }) => return self.standby_replaced(with),
            // That of an earlier standby can arrive at any time.
            Happening::Supervisor(Report::StandbyPlaced { standby }) => self.placed = Some(*standby),
            Happening::Supervisor(Report::StandbyEnded { .. } | Report::Promoted { .. }) => self.standby_gone(with),
            Happening::Supervisor(Report::ProcessEnded { key, code, signal, out_of_memory, alone }) => {
                let (code, signal, out_of_memory, alone) = (*code, *signal, *out_of_memory, *alone);
                self.ended(*key, Status { code, signal, out_of_memory, alone }, with);
            }
            Happening::Supervisor(Report::ProcessKilled { id, found, .. }) => {
                if let Some(reply) = self.kills.remove(id) {
                    let _ = reply.send(*found);
                }
            }
            _ => return,
        }
        self.advance(with);
    }

    /// Does what can be done now. One at a time: a fork that has been told to begin and has not taken the byte yet waits
    /// on the same pipe as the next fork would.
    fn advance(&mut self, with: &mut Midwives<'_>) {
        while self.beginning.is_none() && self.birthing.is_none() && with.standby.is_some() {
            let Some(next) = self.queue.front() else {
                if self.ahead.is_expected() {
                    self.fork_ahead(with);
                }
                return;
            };
            let doomed = next.process.is_doomed();
            if !doomed && next.new.terminal.is_none() && self.ahead.is_missing() {
                return self.fork_ahead(with);
            }
            if doomed {
                self.queue.pop_front().into_iter().for_each(refuse_doomed);
            } else if next.new.terminal.is_some() {
                if !self.can_bear(with) {
                    return;
                }
                if let Some(request) = self.queue.pop_front() {
                    self.begin_terminal(request, with);
                }
            } else {
                let Some(fork) = self.ahead.take() else { return };
                if let Some(request) = self.queue.pop_front() {
                    self.begin(request, fork, with);
                }
            }
        }
    }

    fn fork_ahead(&mut self, with: &mut Midwives<'_>) {
        if !self.can_bear(with) || !self.ahead.is_missing() {
            return;
        }
        let key = self.next_key();
        self.placed = None;
        self.ahead.asked(key);
        if let Err(error) = with.driver.bear(key) {
            let _ = self.ahead.give_up(with.driver);
            let problem = format!("the process can not be started: {error}");
            self.refuse_queued(|| Error::new(Code::SpawnFailed, problem.clone()));
        }
    }

    fn next_key(&mut self) -> u64 {
        self.keys += 1;
        self.keys
    }

    fn ended(&mut self, key: u64, status: Status, with: &mut Midwives<'_>) {
        self.ahead.ended(key);
        self.over(key, with);
        if let Some(ended) = self.living.remove(&key) {
            let _ = ended.send(status);
        }
    }

    /// The standby does not get done with a fork, or has said on its standard error that it can not fork: bash would go on
    /// trying for a quarter of a minute. It is ended.
    pub fn fork_failed(&mut self, with: &mut Midwives<'_>) {
        if self.is_idle() {
            return;
        }
        self.placed = None;
        with.supervisor.order(&Order::DismissStandby);
        self.refuse_unborn(with, |_| no_fork());
        self.refuse_queued(no_fork);
    }

    /// The standby is gone. What it had not borne yet never will be; what it had is the supervisor's.
    fn standby_gone(&mut self, with: &mut Midwives<'_>) {
        self.placed = None;
        self.refuse_unborn(with, |id| {
            let message = format!("process '{id}' can not be started: the shell's snapshot died");
            Error::new(Code::SpawnFailed, message)
        });
    }

    /// Whoever has waited for a fork that will not come.
    fn refuse_unborn(&mut self, with: &mut Midwives<'_>, error: impl Fn(&str) -> Error) {
        if self.ahead.give_up(with.driver)
            && let Some(request) = self.queue.pop_front()
        {
            let error = error(&request.process.id);
            request.refuse(error);
        }
        self.refuse_unborn_terminal(with, error);
    }
}

fn refuse_doomed(request: StartRequest) {
    let message = format!("the session ended before process '{}' had begun", request.process.id);
    request.refuse(Error::new(Code::SessionDestroyed, message));
}

/// The error for a process that can not be forked.
pub fn no_fork() -> Error {
    let message = "the process can not be started: the shell can not be forked (limit of processes or memory)";
    Error::new(Code::SpawnFailed, message)
}

/// A fork of a standby that was given up meanwhile. It waits for a byte that is meant for another.
fn end_stray(pid: Pid, with: &Midwives<'_>) {
    let session = with.supervisor.pid().raw();
    if let Some(stat) = Stat::read(pid).filter(|stat| stat.session == session) {
        let _ = signal::send_to(stat.identity, libc::SIGKILL);
    }
}

/// Distinguishes the process from all others below any supervisor.
fn mark(key: u64, supervisor: &Supervisor) -> String {
    format!("{}-{key}", supervisor.pid())
}
