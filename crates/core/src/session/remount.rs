//! Changing a session over to another mount of its workspace, while its shell and its state live on.
//!
//! The supervisor replaces the mount. The shell and its standby stand in it, so each enters its directory again:
//! [`RequestKind::Reenter`]. The standby keeps its state, and stays.
//!
//! No session stays on an old mount. While a shell is being started or replaced, the change waits; from an idle session, the
//! hold keeps everything from beginning. A session without a supervisor asks for a mount when it starts again.

use super::{Hold, Message, Session};
use crate::error::{Code, Error};
use crate::link::Descriptor;
use crate::shell::channel::Channel;
use crate::shell::state::Shell;
use nacre_containment::signal;
use nacre_protocol::shell::{Request, RequestKind};
use nacre_protocol::socket;
use nacre_protocol::supervisor::{Order, Report};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use tokio::sync::oneshot;

impl Hold {
    /// Changes the session, which is held and idle, over to this mount of its workspace, which is attached nowhere. A
    /// session that ends, or whose supervisor dies meanwhile, has no old mount either.
    ///
    /// # Errors
    /// `ENGINE_ERROR`: the session still has its old mount, and works.
    pub fn remount(&self, mount: OwnedFd) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        let done = self.ask(|id, reply| Message::Remount { id, mount, reply });
        async move { done.await.unwrap_or(Ok(())) }
    }

    /// Ends the supervisor of the session, which is held and idle. The session starts again with its state, on the mount that
    /// is handed out then.
    pub fn start_again(&self) {
        self.send(|id| Message::StartAgain { id });
    }
}

pub(super) type RemountReply = oneshot::Sender<Result<(), Error>>;

/// See the module.
#[derive(Default)]
pub(super) enum Remount {
    #[default]
    None,
    /// To be ordered for this hold.
    Due(u64, OwnedFd, RemountReply),
    /// The supervisor has the order.
    Ordered(RemountReply),
}

impl Remount {
    /// Handles the end of a hold.
    pub(super) fn cancel(&mut self, hold: u64) {
        if matches!(self, Self::Due(id, ..) if *id == hold) {
            *self = Self::None;
        }
    }

    /// Handles the loss of the supervisor: the session asks for another mount when it starts again.
    pub(super) fn disconnect(&mut self) {
        if matches!(self, Self::Ordered(_)) {
            self.end(Ok(()));
        }
    }

    fn end(&mut self, outcome: Result<(), Error>) {
        if let Self::Ordered(reply) = std::mem::take(self) {
            let _ = reply.send(outcome);
        }
    }
}

impl Session {
    /// Changes over for the hold in effect, as soon as that is possible.
    pub(super) fn remount(&mut self, id: u64, mount: OwnedFd, reply: RemountReply) {
        if self.is_held_by(id) && self.closing.is_none() {
            self.remount = Remount::Due(id, mount, reply);
        } else {
            let _ = reply.send(Err(self.not_remounted("it is not held")));
        }
    }

    /// Ends the supervisor for the hold in effect.
    pub(super) fn start_again(&mut self, id: u64) {
        if let Some(pid) = self.supervision.pid().filter(|_| self.is_held_by(id)) {
            tracing::warn!(log = self.config.log.id(), session = %self.config.id, "the session starts again, because it cannot change over to another mount");
            let _ = signal::send_to_child(pid, libc::SIGKILL);
        }
        self.enclosure.drop_unused_mount();
    }

    /// Orders the supervisor to change over if that is due.
    pub(super) fn remount_if_due(&mut self) {
        // A shell that a trap has taken its channel from is about to open another.
        let is_reachable = self.shell.pid().is_none() || self.shell.channel().is_some();
        let is_settled = matches!(self.state.shell, Shell::Idle | Shell::Absent | Shell::Terminated(_)) && is_reachable;
        if !matches!(self.remount, Remount::Due(..)) || !is_settled || self.awaits_forks() {
            return;
        }
        let Remount::Due(_, mount, reply) = std::mem::take(&mut self.remount) else { return };
        let outcome = if self.supervision.is_connected() {
            match self.order_remount(mount) {
                Ok(()) => return self.remount = Remount::Ordered(reply),
                Err(error) => Err(self.not_remounted(&error.to_string())),
            }
        } else {
            self.enclosure.drop_unused_mount();
            Ok(())
        };
        let _ = reply.send(outcome);
    }

    fn order_remount(&mut self, mount: OwnedFd) -> io::Result<()> {
        let shells = [self.shell.channel().map(Arc::as_ref), self.standbys.channel()];
        let asked = shells.into_iter().flatten().map(reenter).collect::<io::Result<Vec<OwnedFd>>>()?;
        let descriptors = [mount].into_iter().chain(asked).map(Descriptor::from).collect();
        self.ask_with(&Order::Remount, descriptors);
        Ok(())
    }

    /// Handles the supervisor's answer.
    pub(super) fn remount_report(&mut self, report: Report) {
        let outcome = match report {
            Report::NotRemounted { problem } => Err(self.not_remounted(&problem)),
            _ => {
                self.files.remounted();
                Ok(())
            }
        };
        self.remount.end(outcome);
    }

    fn not_remounted(&self, problem: &str) -> Error {
        let id = &self.config.id;
        let message = format!("session '{id}' cannot change over to another mount of the workspace: {problem}");
        Error::new(Code::EngineError, message)
    }
}

/// Asks a shell to enter its directory again. Returns the socket for the supervisor.
fn reenter(shell: &Channel) -> io::Result<OwnedFd> {
    let (ours, theirs) = socket::pair()?;
    shell.send(&Request::new(RequestKind::Reenter, 0), vec![theirs.into()])?;
    Ok(ours)
}
