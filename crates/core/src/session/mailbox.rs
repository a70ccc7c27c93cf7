//! The mailbox of a session: its queue of calls, and the loan with which a caller sends a command itself.
//!
//! Waking a thread takes longer than `true`. While the shell is idle and a command could run immediately, the session
//! therefore lends everything needed to run one. A caller that finds the loan sends its command, and the session wakes up
//! in parallel with the shell instead of before it. If the answer is likely to come at once, the caller waits for it,
//! and so needs no other thread at all.
//!
//! This does not change the order of calls, because the queue and the loan are one state under one lock:
//! - Every message ends the loan, and the session lends only while the queue is empty. A sent command is therefore the
//!   first message of the queue, or follows only answered ones.
//! - While a caller sends a command or waits for its answer, the session receives nothing: not the messages, and so not the
//!   reply either. When it takes the loan back, it also receives the commands that were sent with it, and handles them
//!   before any later event, such as the shell's reply.
//! - The caller takes the reply under the lock. If the command has left the shell as it was, it may put the loan back.
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
    /// Everything needed to run one command.
    type Loan;

    /// How to wait for the answer to a command that was sent.
    type Wait;

    /// What a caller gets that has waited.
    type Answer;

    /// Sends the message if it is a command, and records that it was sent. Returns how to wait for its answer, if that is
    /// likely to come at once.
    fn send_with(&mut self, loan: Self::Loan) -> Option<Self::Wait>;

    /// Waits.
    fn wait(how: Self::Wait);

    /// Looks for the answer to the sent command.
    fn answer(&mut self) -> CallerAnswer<Self>;

    /// Whether the message was sent.
    fn is_sent(&self) -> bool;
}

/// What has come when a caller has waited.
pub(super) enum CallerAnswer<M: Letter + ?Sized> {
    /// The answer, and the loan unless the command may have changed the shell.
    Whole(M::Answer, Option<M::Loan>),
    /// A part of it: the rest is likely to come at once.
    Part(M::Wait),
    /// Nothing that the caller can use.
    Nothing,
}

struct MailboxState<M: Letter> {
    queue: VecDeque<M>,
    loan: Option<M::Loan>,
    /// A caller sends a command, or waits for the answer to it.
    is_awaited: bool,
    /// The session looks for answered commands by itself soon.
    dozes: bool,
    /// The session, while it waits for a message, or for that caller.
    waiting: Option<Waker>,
    /// The session receives no more messages.
    is_closed: bool,
    /// Every sender was dropped.
    is_abandoned: bool,
}

/// Answered commands that a session receives together. With more, it is woken.
const MANY_ANSWERED: usize = 256;

/// With so many, it is too far behind.
const MOST_ANSWERED: usize = 1024;

struct SharedMailbox<M: Letter>(Mutex<MailboxState<M>>);

impl<M: Letter> SharedMailbox<M> {
    fn lock(&self) -> MutexGuard<'_, MailboxState<M>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a message that has the loan, and waits for the answer if that is likely to come at once. Then its place in the
    /// queue is `own`, behind the answered commands: what other callers queue meanwhile comes behind it. Not under the lock,
    /// since a long command takes its time.
    fn run(&self, mut message: M, own: usize, loan: M::Loan) -> Result<Option<M::Answer>, M> {
        let awaited = Awaited(self);
        let mut wait = message.send_with(loan);
        let mut state = self.lock();
        // The session has been dropped meanwhile.
        if state.is_closed {
            return Err(message);
        }
        state.queue.insert(own, message);
        let mut answer = None;
        while let Some(how) = wait.take() {
            drop(state);
            M::wait(how);
            state = self.lock();
            match state.queue.get_mut(own).map_or(CallerAnswer::Nothing, M::answer) {
                CallerAnswer::Part(again) => wait = Some(again),
                CallerAnswer::Whole(whole, loan) => {
                    let is_last = own < MOST_ANSWERED && own + 1 == state.queue.len();
                    state.loan = if is_last { loan } else { None };
                    answer = Some(whole);
                }
                CallerAnswer::Nothing => {}
            }
        }
        std::mem::forget(awaited);
        state.is_awaited = false;
        // Without the loan, the next call needs the session.
        if !(state.dozes && state.loan.is_some() && own < MANY_ANSWERED) {
            wake(state);
        }
        Ok(answer)
    }
}

/// Lets the session go on if sending the command, or looking for its answer, panics.
struct Awaited<'a, M: Letter>(&'a SharedMailbox<M>);

impl<M: Letter> Drop for Awaited<'_, M> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.is_awaited = false;
        wake(state);
    }
}

/// Wakes the session after the lock is released, so that it does not wait for the lock.
fn wake<M: Letter>(mut state: MutexGuard<'_, MailboxState<M>>) {
    state.dozes = false;
    let waiting = state.waiting.take();
    drop(state);
    if let Some(waker) = waiting {
        waker.wake();
    }
}

/// Creates a mailbox.
pub(super) fn mailbox<M: Letter>() -> (Sender<M>, Mailbox<M>) {
    let state = MailboxState {
        queue: VecDeque::new(),
        loan: None,
        is_awaited: false,
        dozes: false,
        waiting: None,
        is_closed: false,
        is_abandoned: false,
    };
    let shared = Arc::new(SharedMailbox(Mutex::new(state)));
    (Sender(Arc::new(Senders(Arc::clone(&shared)))), Mailbox(shared))
}

/// Puts messages into a mailbox.
pub(super) struct Sender<M: Letter>(Arc<Senders<M>>);

/// A sender that does not keep the mailbox in use.
pub(super) struct WeakSender<M: Letter>(Weak<Senders<M>>);

/// Dropped with the last [`Sender`].
struct Senders<M: Letter>(Arc<SharedMailbox<M>>);

impl<M: Letter> Drop for Senders<M> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.is_abandoned = true;
        wake(state);
    }
}

impl<M: Letter> Sender<M> {
    /// Queues a message. A command is sent first, if the session has lent what it needs. Returns the answer to it, if that
    /// has come at once.
    ///
    /// # Errors
    /// Returns the message if the mailbox is closed.
    pub(super) fn send(&self, message: M) -> Result<Option<M::Answer>, M> {
        let mut state = self.0.0.lock();
        if state.is_closed {
            return Err(message);
        }
        match state.loan.take() {
            Some(loan) => {
                state.is_awaited = true;
                let own = state.queue.len();
                drop(state);
                self.0.0.run(message, own, loan)
            }
            None => {
                state.queue.push_back(message);
                wake(state);
                Ok(None)
            }
        }
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
pub(super) struct Mailbox<M: Letter>(Arc<SharedMailbox<M>>);

/// What the session gets back; see [`Mailbox::take_back`].
pub(super) enum TakenBack<M: Letter> {
    /// The loan, which no caller used.
    Loan(M::Loan),
    /// A command that a caller sent.
    Sent(M),
    /// Nothing more.
    Nothing,
}

/// The next message; see [`Mailbox::next`].
pub(super) enum NextMessage<M> {
    Message(M),
    /// There is none.
    Nothing,
    /// There is none, and every sender was dropped.
    Abandoned,
}

impl<M: Letter> Mailbox<M> {
    /// Waits until there is a message, or every sender was dropped. Cancel-safe.
    ///
    /// Cooperative, so that a session with many calls does not delay the other sessions.
    pub(super) async fn ready(&mut self) {
        drop(cooperative(self.wait_until(|state| !state.queue.is_empty() || state.is_abandoned)).await);
    }

    fn wait_until(
        &self,
        is_so: impl Fn(&MailboxState<M>) -> bool,
    ) -> impl Future<Output = MutexGuard<'_, MailboxState<M>>> {
        poll_fn(move |context| {
            let mut state = self.0.lock();
            if !state.is_awaited && is_so(&state) {
                return Poll::Ready(state);
            }
            // It does not doze while it waits for that caller, who wakes it then.
            state.dozes &= !state.is_awaited;
            state.waiting = Some(context.waker().clone());
            Poll::Pending
        })
    }

    /// Receives the next message, after everything has been taken back.
    pub(super) fn next(&mut self) -> NextMessage<M> {
        let mut state = self.0.lock();
        match state.queue.pop_front() {
            Some(message) => NextMessage::Message(message),
            None if state.is_abandoned => NextMessage::Abandoned,
            None => NextMessage::Nothing,
        }
    }

    /// Lends what the next command needs, unless a message is waiting. With `dozes`, callers that get their answers at once
    /// do not wake the session, which looks for them by itself soon.
    pub(super) fn lend(&mut self, dozes: bool, loan: impl FnOnce() -> M::Loan) {
        let mut state = self.0.lock();
        if state.queue.is_empty() {
            state.loan = Some(loan());
            state.dozes = dozes;
        }
    }

    /// Ends the loan, as soon as no caller waits for an answer. To be called before the session handles anything else,
    /// until nothing comes back.
    pub(super) async fn take_back(&mut self) -> TakenBack<M> {
        let mut state = self.wait_until(|_| true).await;
        state.dozes = false;
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
