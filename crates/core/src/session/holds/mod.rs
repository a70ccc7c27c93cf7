//! The holds of a session, and what its supervisor does for the one in effect.

mod remount;
mod save;

pub(super) use remount::not_remounted;
pub(super) use save::save_before;

use super::calls::{Call, Calls};
use super::context::Context;
use super::files::Files;
use super::message::{Busy, FreezeReply, Frozen, HoldOrder, NewHold, SaveReply};
use super::supervision::Supervision;
use crate::shell::event::Event;
use crate::shell::state::{Shell, Ticket, Work};
use nacre_protocol::supervisor::Order;
use remount::Remount;
use std::collections::HashMap;
use tokio::sync::watch;

/// See the module. The state machine puts them into effect.
#[derive(Default)]
pub(in crate::session) struct Holds {
    tickets: HashMap<u64, Ticket>,
    /// Of the hold in effect, unless the session is being closed.
    granted: Option<watch::Sender<bool>>,
    freeze: Freeze,
    /// The call that waits for the state of the shell.
    saving: Option<SaveReply>,
    remount: Remount,
}

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
    pub fn grant(&mut self, grant: watch::Sender<bool>) {
        grant.send_replace(true);
        self.granted = Some(grant);
    }

    /// Reports to the holder that the session ends: nothing is frozen any more.
    pub fn close(&mut self) {
        *self = Self { tickets: std::mem::take(&mut self.tickets), ..Self::default() };
    }

    /// Handles the loss of the supervisor, which leaves no program. Those of a pending order are still dying.
    pub fn disconnect(&mut self) {
        self.freeze = match std::mem::take(&mut self.freeze) {
            Freeze::Due(id, if_idle, reply) | Freeze::Ordered(id, if_idle, reply) => Freeze::Due(id, if_idle, reply),
            Freeze::None | Freeze::Frozen(_) => Freeze::None,
        };
        // The session asks for another mount when it starts again.
        self.remounted(Ok(()));
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

    /// Queues a hold, before a request if one is given that is queued in the same step.
    pub fn queue(&mut self, cx: &mut Context, calls: &mut Calls, new: NewHold, before: Option<u64>) {
        let NewHold { id, grant } = new;
        if grant.is_closed() {
            // It has been released before it arrived.
            return;
        }
        let ticket = calls.add(Call::Hold { grant, before });
        self.tickets.insert(id, ticket);
        cx.events.push_back(Event::Submit(ticket, Work::Hold));
    }

    /// Whether this hold is in effect. `held`: the ticket of the one that is.
    pub fn is_in_effect(&self, held: Option<Ticket>, id: u64) -> bool {
        held.is_some() && held == self.tickets.get(&id).copied()
    }

    /// Takes an order for the hold in effect, which is performed as soon as that is possible. `is_held`: it still is in effect.
    pub fn take(&mut self, cx: &Context, id: u64, order: HoldOrder, is_held: bool) {
        match order {
            HoldOrder::Freeze { if_idle, reply } if is_held => self.freeze = Freeze::Due(id, if_idle, reply),
            HoldOrder::Save(reply) if is_held => self.saving = Some(reply),
            HoldOrder::Remount { mount, reply } if is_held => self.remount = Remount::Due(id, mount, reply),
            HoldOrder::Remount { reply, .. } => drop(reply.send(Err(not_remounted(cx, "it is not held")))),
            // Dropping it refuses it.
            _ => {}
        }
    }

    /// Orders the supervisor to freeze the programs if that is due. No fork is awaited.
    pub fn freeze_if_due(&mut self, cx: &mut Context, shell: Shell, supervision: &mut Supervision, files: &Files) {
        // What a dead supervisor left is being killed.
        if !matches!(self.freeze, Freeze::Due(..)) || matches!(shell, Shell::Salvaging(_)) {
            return;
        }
        let Freeze::Due(id, if_idle, reply) = std::mem::take(&mut self.freeze) else { return };
        if supervision.is_connected() {
            supervision.ask(cx, &Order::Freeze { id, if_idle });
            self.freeze = Freeze::Ordered(id, if_idle, reply);
        } else {
            let is_idle = !files.is_writing();
            let _ = reply.send(Ok(Frozen { programs: Vec::new(), count: 0, is_idle }));
        }
    }

    /// Handles the supervisor's answer.
    pub fn frozen(&mut self, answered: u64, outcome: Result<Frozen, Busy>) {
        match std::mem::take(&mut self.freeze) {
            Freeze::Ordered(id, _, reply) if id == answered => {
                if outcome.is_ok() {
                    self.freeze = Freeze::Frozen(id);
                }
                let _ = reply.send(outcome);
            }
            // The hold has ended meanwhile.
            other => self.freeze = other,
        }
    }

    /// Thaws the programs, and lets the session go on. `held`: the ticket of the hold in effect.
    pub fn release(
        &mut self,
        cx: &mut Context,
        supervision: &Supervision,
        calls: &mut Calls,
        held: Option<Ticket>,
        id: u64,
    ) {
        if self.thaw(id) {
            supervision.order(cx, &Order::Thaw);
        }
        if matches!(self.remount, Remount::Due(hold, ..) if hold == id) {
            self.remount = Remount::None;
        }
        let ticket = self.tickets.remove(&id);
        if ticket.is_some() && ticket == held {
            self.granted = None;
            calls.restart_timeouts();
        }
        cx.events.extend(ticket.map(Event::Released));
    }
}
