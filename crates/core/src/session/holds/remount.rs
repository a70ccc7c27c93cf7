//! Changing a session over to another mount of its workspace, while its shell and its state live on.
//!
//! The supervisor replaces the mount. The shell and its standby stand in it, so each enters its directory again:
//! [`RequestKind::Reenter`]. The standby keeps its state, and stays.
//!
//! No session stays on an old mount. While a shell is being started or replaced, the change waits; from an idle session, the
//! hold keeps everything from beginning. A session without a supervisor asks for a mount when it starts again.

use super::Holds;
use crate::error::{Code, Error};
use crate::link::Descriptor;
use crate::session::confinement::Enclosure;
use crate::session::context::Context;
use crate::session::message::RemountReply;
use crate::session::shell_link::ShellLink;
use crate::session::standby::Standbys;
use crate::session::supervision::Supervision;
use crate::shell::channel::Channel;
use crate::shell::state::Shell;
use nacre_protocol::shell::{Request, RequestKind};
use nacre_protocol::socket;
use nacre_protocol::supervisor::Order;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

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

impl Holds {
    /// Handles the supervisor's answer to the order, or its loss.
    pub fn remounted(&mut self, outcome: Result<(), Error>) {
        match std::mem::take(&mut self.remount) {
            Remount::Ordered(reply) => drop(reply.send(outcome)),
            other => self.remount = other,
        }
    }

    /// Orders the supervisor to change over if that is due. No fork is awaited.
    pub fn remount_if_due(
        &mut self,
        cx: &mut Context,
        shell: Shell,
        (link, standbys): (&ShellLink, &Standbys),
        supervision: &mut Supervision,
        enclosure: &mut Enclosure,
    ) {
        // A shell that a trap has taken its channel from is about to open another.
        let is_reachable = link.pid().is_none() || link.channel().is_some();
        let is_settled = matches!(shell, Shell::Idle | Shell::Absent | Shell::Terminated(_)) && is_reachable;
        if !matches!(self.remount, Remount::Due(..)) || !is_settled {
            return;
        }
        let Remount::Due(_, mount, reply) = std::mem::take(&mut self.remount) else { return };
        let outcome = if supervision.is_connected() {
            let shells = [link.channel().map(Arc::as_ref), standbys.channel()];
            match shells.into_iter().flatten().map(reenter).collect::<io::Result<Vec<OwnedFd>>>() {
                Ok(asked) => {
                    let descriptors = [mount].into_iter().chain(asked).map(Descriptor::from).collect();
                    supervision.ask_with(cx, &Order::Remount, descriptors);
                    return self.remount = Remount::Ordered(reply);
                }
                Err(error) => Err(not_remounted(cx, &error.to_string())),
            }
        } else {
            enclosure.drop_unused_mount();
            Ok(())
        };
        let _ = reply.send(outcome);
    }
}

/// The error of a session that stays on its mount.
pub(in crate::session) fn not_remounted(cx: &Context, problem: &str) -> Error {
    let id = &cx.config.id;
    let message = format!("session '{id}' cannot change over to another mount of the workspace: {problem}");
    Error::new(Code::EngineError, message)
}

/// Asks a shell to enter its directory again. Returns the socket for the supervisor.
fn reenter(shell: &Channel) -> io::Result<OwnedFd> {
    let (ours, theirs) = socket::pair()?;
    shell.send(&Request::new(RequestKind::Reenter, 0), vec![theirs.into()])?;
    Ok(ours)
}
