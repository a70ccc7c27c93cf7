//! Holds: while one is in effect, no command and no process begins in the session, and its programs can be frozen.
//!
//! A hold waits in the queue like a command. It needs no shell, so it starts none. The state machine puts it into
//! effect; this module freezes the programs, which the supervisor does.

use super::calls::Call;
use super::{Handle, Message, Session, WeakHandle};
use crate::exec::ExecRequest;
use crate::shell::event::Event;
use crate::shell::state::{Shell, Ticket, Work};
use nacre_protocol::supervisor::{Order, Program, Report};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::{oneshot, watch};

/// The programs of a session that cannot be frozen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Busy {
    /// Some of them.
    pub programs: Vec<Program>,
    /// How many there are.
    pub count: u64,
    /// Whether the session has control groups. Without them, nothing can be frozen.
    pub has_groups: bool,
}

/// A session whose programs are frozen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frozen {
    /// Some of the programs.
    pub programs: Vec<Program>,
    /// How many there are.
    pub count: u64,
    /// Whether nothing but idle shells uses its files: it has no program, and no caller is writing a file.
    pub is_idle: bool,
}

/// A hold on a session, from the request on. Dropping it thaws the programs, and the session goes on.
#[must_use = "the session goes on when this is dropped"]
pub struct Hold {
    session: WeakHandle,
    id: u64,
    /// Whether it is in effect. Closed when the session begins to end.
    granted: watch::Receiver<bool>,
}

impl Hold {
    /// Waits until the hold is in effect: no command runs, and nothing begins. False if it never will be, because the session
    /// ends or refuses it.
    pub fn granted(&self) -> impl Future<Output = bool> + Send + use<> {
        let mut granted = self.granted.clone();
        async move { granted.wait_for(|granted| *granted).await.is_ok() }
    }

    /// Whether the hold has taken effect.
    pub fn is_granted(&self) -> bool {
        *self.granted.borrow()
    }

    /// Freezes the programs of the session, which is held, until the hold is dropped. Those of a session that ends are
    /// being killed. `if_idle`: fails at once if a program runs.
    ///
    /// # Errors
    /// The programs that cannot be frozen, or that run. None is frozen then.
    pub fn freeze(&self, if_idle: bool) -> impl Future<Output = Result<Frozen, Busy>> + Send + use<> {
        let frozen = self.ask(move |id, reply| Message::Freeze { id, if_idle, reply });
        // The programs of a session that ends may live for a while.
        async move { frozen.await.unwrap_or(Ok(Frozen { programs: Vec::new(), count: 0, is_idle: false })) }
    }

    /// Sends a message about this hold and waits for the answer. `None` if the session begins to end instead.
    pub(super) fn ask<T: Send, F>(&self, message: F) -> impl Future<Output = Option<T>> + Send + use<T, F>
    where
        F: FnOnce(u64, oneshot::Sender<T>) -> Message,
    {
        let (reply, answer) = oneshot::channel();
        self.send(|id| message(id, reply));
        let mut granted = self.granted.clone();
        // It receives no more messages then.
        let ended = async move { while granted.changed().await.is_ok() {} };
        async move {
            tokio::select! {
                Ok(answer) = answer => Some(answer),
                () = ended => None,
            }
        }
    }

    /// Whether a rollback has ended the session.
    pub fn is_rolled_back(&self) -> bool {
        self.session.fate.is_rolled_back()
    }

    /// The id of the session.
    pub fn session(&self) -> &str {
        &self.session.id
    }

    /// Sends a message about this hold, which is dropped if the session has ended.
    pub(super) fn send(&self, message: impl FnOnce(u64) -> Message) {
        if let Some(session) = self.session.upgrade() {
            let _ = session.send(message(self.id));
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.send(|id| Message::Release { id });
    }
}

/// A hold that a session is to put into effect.
pub(super) struct NewHold {
    id: u64,
    grant: watch::Sender<bool>,
}

impl Handle {
    /// Queues a hold. It takes effect once the calls before it have ended.
    pub fn hold(&self) -> Hold {
        let (new, hold) = self.new_hold();
        // A session that has ended drops it.
        let _ = self.send(Message::Hold(new));
        hold
    }

    /// A hold that takes effect at once, or never: if the session is not idle, or already held.
    pub fn hold_if_idle(&self) -> Hold {
        let (new, hold) = self.new_hold();
        let _ = self.send(Message::HoldIfIdle(new));
        hold
    }

    /// Queues a command, and a hold before it, which is kept before it can take effect. It never does if the command is
    /// cancelled earlier.
    pub fn exec_after_hold(&self, request: ExecRequest, keep: impl FnOnce(Hold)) {
        let (new, hold) = self.new_hold();
        keep(hold);
        self.send_exec(request, Some(new));
    }

    fn new_hold(&self) -> (NewHold, Hold) {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let id = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        let (grant, granted) = watch::channel(false);
        (NewHold { id, grant }, Hold { session: self.downgrade(), id, granted })
    }
}

/// The holds of a session, and what is frozen for the one in effect.
#[derive(Default)]
pub(super) struct Holds {
    tickets: HashMap<u64, Ticket>,
    /// Of the hold in effect, unless the session is being closed.
    granted: Option<watch::Sender<bool>>,
    freeze: Freeze,
}

pub(super) type FreezeReply = oneshot::Sender<Result<Frozen, Busy>>;

#[derive(Default)]
enum Freeze {
    #[default]
    None,
    /// To be ordered once every fork has arrived, perhaps only for an idle session.
    Due(u64, bool, FreezeReply),
    /// The supervisor has the order.
    Ordered(u64, bool, FreezeReply),
    /// For this hold.
    Frozen(u64),
}

impl Holds {
    /// Reports to the holder that the hold is in effect.
    pub(super) fn grant(&mut self, grant: watch::Sender<bool>) {
        grant.send_replace(true);
        self.granted = Some(grant);
    }

    /// Reports to the holder that the session ends: nothing is frozen any more.
    pub(super) fn close(&mut self) {
        *self = Self { tickets: std::mem::take(&mut self.tickets), ..Self::default() };
    }

    /// Handles the loss of the supervisor, which leaves no program. Those of a pending order are still dying.
    pub(super) fn disconnect(&mut self) {
        self.freeze = match std::mem::take(&mut self.freeze) {
            Freeze::Due(id, if_idle, reply) | Freeze::Ordered(id, if_idle, reply) => Freeze::Due(id, if_idle, reply),
            Freeze::None | Freeze::Frozen(_) => Freeze::None,
        };
    }

    /// Ends the freeze for a hold. True if the supervisor must thaw.
    fn thaw(&mut self, hold: u64) -> bool {
        match self.freeze {
            Freeze::Due(id, ..) if id == hold => {
                self.freeze = Freeze::None;
                false
            }
            Freeze::Ordered(id, ..) | Freeze::Frozen(id) if id == hold => {
                self.freeze = Freeze::None;
                true
            }
            _ => false,
        }
    }
}

impl Session {
    /// Queues a hold, before a request if one is given that is queued in the same step.
    pub(super) fn queue_hold(&mut self, NewHold { id, grant }: NewHold, before: Option<u64>) {
        if grant.is_closed() {
            // It has been released before it arrived.
            return;
        }
        let ticket = self.calls.add(Call::Hold { grant, before });
        self.holds.tickets.insert(id, ticket);
        self.events.push_back(Event::Submit(ticket, Work::Hold));
    }

    /// Whether this hold is in effect.
    pub(super) fn is_held_by(&self, id: u64) -> bool {
        self.state.held.is_some() && self.state.held == self.holds.tickets.get(&id).copied()
    }

    /// Freezes the programs for the hold in effect, as soon as that is possible.
    pub(super) fn freeze(&mut self, id: u64, if_idle: bool, reply: FreezeReply) {
        if self.is_held_by(id) && self.closing.is_none() {
            self.holds.freeze = Freeze::Due(id, if_idle, reply);
        }
    }

    /// Orders the supervisor to freeze the programs if that is due. It gets to know every fork before: what it does not
    /// know looks like a program, and a new process would not be frozen.
    pub(super) fn freeze_if_due(&mut self) {
        if !matches!(self.holds.freeze, Freeze::Due(..)) || self.awaits_forks() {
            return;
        }
        // What a dead supervisor left is being killed.
        if matches!(self.state.shell, Shell::Salvaging(_)) {
            return;
        }
        let Freeze::Due(id, if_idle, reply) = std::mem::take(&mut self.holds.freeze) else { return };
        if self.supervision.is_connected() {
            self.ask(&Order::Freeze { id, if_idle });
            self.holds.freeze = Freeze::Ordered(id, if_idle, reply);
        } else {
            let _ = reply.send(Ok(self.frozen(Vec::new(), 0)));
        }
    }

    fn frozen(&self, programs: Vec<Program>, count: u64) -> Frozen {
        Frozen { programs, count, is_idle: count == 0 && !self.files.is_writing() }
    }

    /// Handles the supervisor's answer.
    pub(super) fn freeze_report(&mut self, report: Report) {
        let (answered, foreground, outcome) = match report {
            Report::Frozen { id, programs, count, foreground } => (id, foreground, Ok(self.frozen(programs, count))),
            Report::NotFrozen { id, foreground, programs, count } => {
                let has_groups = foreground.directory.is_some();
                (id, foreground, Err(Busy { programs, count, has_groups }))
            }
            _ => return,
        };
        self.use_foreground_group(foreground);
        match std::mem::take(&mut self.holds.freeze) {
            Freeze::Ordered(id, _, reply) if id == answered => {
                if outcome.is_ok() {
                    self.holds.freeze = Freeze::Frozen(id);
                }
                let _ = reply.send(outcome);
            }
            // The hold has ended meanwhile.
            other => self.holds.freeze = other,
        }
    }

    /// Thaws the programs, and goes on.
    pub(super) fn release(&mut self, id: u64) {
        if self.holds.thaw(id) {
            self.order(&Order::Thaw);
        }
        self.remount.cancel(id);
        let ticket = self.holds.tickets.remove(&id);
        if ticket.is_some() && ticket == self.state.held {
            self.holds.granted = None;
            self.calls.restart_timeouts();
        }
        self.events.extend(ticket.map(Event::Released));
    }
}
