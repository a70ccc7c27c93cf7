//! The calls of a session that have not been answered yet.

use super::config::Opened;
use super::loan::Sent;
use crate::error::Error;
use crate::exec::{ExecRequest, KilledBy};
use crate::process::StartRequest;
use crate::shell::state::Ticket;
use crate::variables::EnvChange;
use std::collections::HashMap;
use std::time::Duration;
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

/// A call that has not been answered yet.
pub(super) enum Call {
    Open(oneshot::Sender<Result<Opened, Error>>),
    /// A command, and its record if its caller has already sent it.
    Exec(Box<ExecRequest>, Option<Box<Sent>>),
    SetEnv {
        vars: EnvChange,
        reply: oneshot::Sender<Result<(), Error>>,
    },
    Start(Box<StartRequest>),
    Hold {
        grant: watch::Sender<bool>,
        /// The request that it is for. Once that is answered, the hold takes no effect.
        before: Option<u64>,
    },
    /// The start of the session, for calls about files.
    Files,
}

/// See the module. A call is held here while it waits for the shell.
#[derive(Default)]
pub(super) struct Calls {
    waiting: HashMap<Ticket, Call>,
    last: Ticket,
    /// The commands that a caller can interrupt, by the number of the request. They are known here until they end.
    requests: HashMap<u64, Ticket>,
    /// What cancels commands, by the same numbers.
    killers: HashMap<u64, Killer>,
    /// When the timeouts of waiting commands end. None counts while the session is held.
    deadlines: HashMap<Ticket, Instant>,
    /// Not after the first of them.
    next_deadline: Option<Instant>,
    /// The calls that end the session, and the grace time of the first.
    closing: Option<(Duration, Vec<oneshot::Sender<()>>)>,
}

/// What cancels a command.
struct Killer {
    by: KilledBy,
    /// Dropped when the command is answered.
    waiting: Vec<oneshot::Sender<()>>,
}

impl Calls {
    /// Adds a call, and gives it a ticket.
    pub(super) fn add(&mut self, call: Call) -> Ticket {
        self.last += 1;
        if let Call::Exec(request, _) = &call {
            self.requests.insert(request.id, self.last);
        }
        self.waiting.insert(self.last, call);
        self.last
    }

    /// Adds a command again that the shell had not read.
    pub(super) fn add_again(&mut self, ticket: Ticket, request: Box<ExecRequest>) {
        self.waiting.insert(ticket, Call::Exec(request, None));
    }

    /// A waiting call.
    pub(super) fn get(&self, ticket: Ticket) -> Option<&Call> {
        self.waiting.get(&ticket)
    }

    /// Removes a waiting call, to perform or to answer it.
    pub(super) fn take(&mut self, ticket: Ticket) -> Option<Call> {
        self.waiting.remove(&ticket)
    }

    /// Counts the timeout of a waiting command from now on. A command that its caller has sent does not wait.
    pub(super) fn count_timeout(&mut self, ticket: Ticket) {
        if let Some(Call::Exec(request, None)) = self.waiting.get(&ticket)
            && let Some(timeout) = request.timeout
        {
            let deadline = Instant::now() + timeout;
            self.deadlines.insert(ticket, deadline);
            self.next_deadline = Some(self.next_deadline.map_or(deadline, |next| next.min(deadline)));
        }
    }

    /// Counts no timeout, since the session is held.
    pub(super) fn stop_timeouts(&mut self) {
        self.deadlines.clear();
        self.next_deadline = None;
    }

    /// Counts the timeouts of all waiting commands from now on, since the session is held no longer.
    pub(super) fn restart_timeouts(&mut self) {
        let waiting: Vec<_> = self.waiting.keys().copied().collect();
        waiting.into_iter().for_each(|ticket| self.count_timeout(ticket));
    }

    /// When to look for timeouts that have ended.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.next_deadline
    }

    /// Removes those that have ended.
    pub(super) fn take_overdue(&mut self) -> Vec<Ticket> {
        let now = Instant::now();
        let overdue = self.deadlines.extract_if(|_, at| *at <= now).map(|(ticket, _)| ticket).collect();
        self.next_deadline = self.deadlines.values().min().copied();
        overdue
    }

    /// When the timeout of a command ends that begins now, if it has waited.
    pub(super) fn end_of_wait(&mut self, ticket: Ticket) -> Option<Instant> {
        let deadline = self.deadlines.remove(&ticket);
        if self.deadlines.is_empty() {
            self.next_deadline = None;
        }
        deadline
    }

    /// The ticket of a command that waits or runs. A command that was cancelled, answered or never made has none.
    pub(super) fn ticket_of(&self, request: u64) -> Option<Ticket> {
        self.requests.get(&request).copied()
    }

    /// Records what cancels a command; the first counts. `ended` is dropped when it is answered.
    pub(super) fn cancelled_by(&mut self, request: u64, by: KilledBy, ended: Option<oneshot::Sender<()>>) {
        let killer = self.killers.entry(request).or_insert(Killer { by, waiting: Vec::new() });
        killer.waiting.extend(ended);
    }

    /// Forgets a command that is being answered. Returns what has cancelled it.
    pub(super) fn answered(&mut self, request: u64) -> Option<KilledBy> {
        if let Some(ticket) = self.requests.remove(&request) {
            self.end_of_wait(ticket);
        }
        self.killers.remove(&request).map(|killer| killer.by)
    }

    /// Adds a call that ends the session.
    pub(super) fn close(&mut self, grace: Duration, reply: Option<oneshot::Sender<()>>) {
        let (_, replies) = self.closing.get_or_insert((grace, Vec::new()));
        replies.extend(reply);
    }

    /// Whether the session is being ended.
    pub(super) fn is_closing(&self) -> bool {
        self.closing.is_some()
    }

    /// The time that programs get to end, before they are killed.
    pub(super) fn grace(&self) -> Duration {
        self.closing.as_ref().map_or(Duration::ZERO, |(grace, _)| *grace)
    }

    /// Answers the calls that end the session: nothing of it is left.
    pub(super) fn closed(&mut self) {
        for reply in self.closing.take().into_iter().flat_map(|(_, replies)| replies) {
            let _ = reply.send(());
        }
    }
}
