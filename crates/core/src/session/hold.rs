//! Holds: while one is in effect, no command and no process begins in the session, and its programs can be frozen.
//!
//! A hold waits in the queue like a command. It needs no shell, so it starts none.

use super::handle::{Handle, WeakHandle};
use super::message::{Busy, Frozen, HoldOrder, Message, NewHold};
use super::saved::Saved;
use crate::error::Error;
use crate::exec::ExecRequest;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::{oneshot, watch};

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
        let frozen = self.ask(move |reply| HoldOrder::Freeze { if_idle, reply });
        // The programs of a session that ends may live for a while.
        async move { frozen.await.unwrap_or(Ok(Frozen { programs: Vec::new(), count: 0, is_idle: false })) }
    }

    /// Changes the session, which is held and idle, over to this mount of its workspace, which is attached nowhere. A
    /// session that ends, or whose supervisor dies meanwhile, has no old mount either.
    ///
    /// # Errors
    /// `ENGINE_ERROR`: the session still has its old mount, and works.
    pub fn remount(&self, mount: OwnedFd) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        let done = self.ask(|reply| HoldOrder::Remount { mount, reply });
        async move { done.await.unwrap_or(Ok(())) }
    }

    /// Ends the supervisor of the session, which is held and idle. The session starts again with its state, on the mount that
    /// is handed out then.
    pub fn start_again(&self) {
        self.send(HoldOrder::StartAgain);
    }

    /// The state of the session, which is held. `None` if the session ends instead.
    ///
    /// # Errors
    /// `ENGINE_ERROR` if the shell does not write it down.
    pub fn save(&self) -> impl Future<Output = Result<Option<Saved>, Error>> + Send + use<> {
        let saved = self.ask(HoldOrder::Save);
        async move { saved.await.transpose() }
    }

    /// Sends an order and waits for the answer. `None` if the session begins to end instead.
    fn ask<T: Send, F>(&self, order: F) -> impl Future<Output = Option<T>> + Send + use<T, F>
    where
        F: FnOnce(oneshot::Sender<T>) -> HoldOrder,
    {
        let (reply, answer) = oneshot::channel();
        self.send(order(reply));
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
        self.session.is_rolled_back()
    }

    /// The id of the session.
    pub fn session(&self) -> &str {
        self.session.session()
    }

    /// Sends an order, which is dropped if the session has ended.
    fn send(&self, order: HoldOrder) {
        if let Some(session) = self.session.upgrade() {
            let _ = session.send(Message::Held(self.id, order));
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.send(HoldOrder::Release);
    }
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
