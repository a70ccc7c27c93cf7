//! The mailbox of a session: its queue of calls, and the loan with which a caller sends a command itself.
//!
//! Waking an idle thread takes longer than `true`. While the shell is idle and a command could run immediately, the
//! session therefore lends everything needed to send it. A caller that finds the loan sends its command, and the
//! session wakes up in parallel with the shell instead of before it.
//!
//! This does not change the order of calls, because the queue and the loan are one state under one lock:
//! - Every message ends the loan, and the session lends only while the queue is empty. A sent command is therefore the
//!   first message of the queue.
//! - A command is sent and queued in one step. When the session takes the loan back, it also receives the command that
//!   was sent with it, and handles it before any later event, such as the shell's reply.
//!
//! `fuzz/tests/mailbox_model.rs` explores the schedules of callers and a session.

use super::sync::{Mutex, MutexGuard};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, PoisonError, Weak};
use std::task::{Poll, Waker};
use tokio::task::coop::cooperative;

/// A message that may be a command.
pub(super) trait Letter {
    /// Everything needed to send one command.
    type Loan;

    /// Sends the message if it is a command, and records that it was sent.
    fn send_with(&mut self, loan: Self::Loan);

    /// Whether the message was sent.
    fn is_sent(&self) -> bool;
}

struct State<M: Letter> {
    queue: VecDeque<M>,
    loan: Option<M::Loan>,
    /// The session, while it waits for a message.
    waiting: Option<Waker>,
    /// The session receives no more messages.
    is_closed: bool,
    /// Every sender was dropped.
    is_abandoned: bool,
}

struct Shared<M: Letter>(Mutex<State<M>>);

impl<M: Letter> Shared<M> {
    fn lock(&self) -> MutexGuard<'_, State<M>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes the session after the lock is released, so that it does not wait for the lock.
fn wake<M: Letter>(mut state: MutexGuard<'_, State<M>>) {
    let waiting = state.waiting.take();
    drop(state);
    if let Some(waker) = waiting {
        waker.wake();
    }
}

/// Creates a mailbox.
pub(super) fn mailbox<M: Letter>() -> (Sender<M>, Mailbox<M>) {
    let state = State { queue: VecDeque::new(), loan: None, waiting: None, is_closed: false, is_abandoned: false };
    let shared = Arc::new(Shared(Mutex::new(state)));
    (Sender(Arc::new(Senders(Arc::clone(&shared)))), Mailbox(shared))
}

/// Puts messages into a mailbox.
pub(super) struct Sender<M: Letter>(Arc<Senders<M>>);

/// A sender that does not keep the mailbox in use.
pub(super) struct WeakSender<M: Letter>(Weak<Senders<M>>);

/// Dropped with the last [`Sender`].
struct Senders<M: Letter>(Arc<Shared<M>>);

impl<M: Letter> Drop for Senders<M> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.is_abandoned = true;
        wake(state);
    }
}

impl<M: Letter> Sender<M> {
    /// Queues a message. A command is sent first, if the session has lent what it needs.
    ///
    /// # Errors
    /// Returns the message if the mailbox is closed.
    pub(super) fn send(&self, mut message: M) -> Result<(), M> {
        let mut state = self.0.0.lock();
        if state.is_closed {
            return Err(message);
        }
        if let Some(loan) = state.loan.take() {
            message.send_with(loan);
        }
        state.queue.push_back(message);
        wake(state);
        Ok(())
    }

    /// A weak sender.
    pub(super) fn downgrade(&self) -> WeakSender<M> {
        WeakSender(Arc::downgrade(&self.0))
    }
}

impl<M: Letter> WeakSender<M> {
    /// A sender, unless every sender was dropped.
    pub(super) fn upgrade(&self) -> Option<Sender<M>> {
        self.0.upgrade().map(Sender)
    }
}

impl<M: Letter> Clone for Sender<M> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<M: Letter> Clone for WeakSender<M> {
    fn clone(&self) -> Self {
        Self(Weak::clone(&self.0))
    }
}

/// The session's end. Dropping it closes the mailbox.
pub(super) struct Mailbox<M: Letter>(Arc<Shared<M>>);

/// What the session gets back; see [`Mailbox::take_back`].
pub(super) enum TakenBack<M: Letter> {
    /// The loan, which no caller used.
    Loan(M::Loan),
    /// The command that a caller sent.
    Sent(M),
    /// Nothing was lent, or a message that was already received has ended the loan.
    Nothing,
}

impl<M: Letter> Mailbox<M> {
    /// Receives the next message; `None` if there is none and every sender was dropped. Cancel-safe.
    ///
    /// Cooperative, so that a session with many calls does not delay the other sessions.
    pub(super) async fn receive(&mut self) -> Option<M> {
        cooperative(poll_fn(|context| {
            let mut state = self.0.lock();
            match state.queue.pop_front() {
                None if !state.is_abandoned => {
                    state.waiting = Some(context.waker().clone());
                    Poll::Pending
                }
                message => Poll::Ready(message),
            }
        }))
        .await
    }

    /// Receives a message that is already there, for busy polling.
    ///
    /// Does not wait for a caller that is sending a command: that would put this thread to sleep.
    pub(super) fn try_receive(&mut self) -> Option<M> {
        self.0.0.try_lock().ok()?.queue.pop_front()
    }

    /// Lends what the next command needs, unless a message is waiting.
    pub(super) fn lend(&mut self, loan: impl FnOnce() -> M::Loan) {
        let mut state = self.0.lock();
        if state.queue.is_empty() {
            state.loan = Some(loan());
        }
    }

    /// Ends the loan. To be called before the session handles anything else.
    pub(super) fn take_back(&mut self) -> TakenBack<M> {
        let mut state = self.0.lock();
        if let Some(loan) = state.loan.take() {
            return TakenBack::Loan(loan);
        }
        let sent = if state.queue.front().is_some_and(M::is_sent) { state.queue.pop_front() } else { None };
        sent.map_or(TakenBack::Nothing, TakenBack::Sent)
    }

    /// Refuses all later messages, and returns those that are waiting.
    pub(super) fn close(&mut self) -> VecDeque<M> {
        let mut state = self.0.lock();
        state.is_closed = true;
        (state.loan, state.waiting) = (None, None);
        std::mem::take(&mut state.queue)
    }
}

impl<M: Letter> Drop for Mailbox<M> {
    fn drop(&mut self) {
        // The messages are dropped after the lock is released.
        drop(self.close());
    }
}
