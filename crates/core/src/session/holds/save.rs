//! Saving the state of a session.
//!
//! It is taken from the idle shell during a hold: a fork of the shell writes it down. A session without a shell has the
//! state that its next shell begins with. While a command runs, the standby has the state before it.

use super::Holds;
use crate::capabilities::Engine;
use crate::error::{Code, Error};
use crate::session::context::Context;
use crate::session::engine::SessionEngine;
use crate::session::saved::{Saved, ask};
use crate::session::shell_link::ShellLink;
use crate::shell::channel::Channel;
use crate::shell::state::{Shell, State};
use tokio::sync::oneshot;

impl Holds {
    /// Saves the state if that is due. `status`: `$?`.
    pub fn save_if_due(
        &mut self,
        cx: &mut Context,
        shell: Shell,
        link: &ShellLink,
        engine: &SessionEngine,
        status: u64,
    ) {
        // A shell that has died during the hold is being replaced.
        let can = matches!(shell, Shell::Absent | Shell::Idle | Shell::Terminated(_));
        let Some(reply) = self.saving.take_if(|_| can) else { return };
        match (shell, engine.kind()) {
            (Shell::Idle, Engine::Builtin) => {
                let (number, channel) = (cx.config.next_state(), link.channel().map(|channel| &**channel));
                let (saving, session) = (save_from(cx, channel, number, status), cx.config.id.clone());
                tokio::spawn(async move { reply.send(saving.await.ok_or_else(|| unsaved(&session))) });
            }
            _ => {
                let number = cx.config.next_state();
                drop(reply.send(Ok(Saved::new(number, engine.next_state(), status, &cx.cwd, cx.config.env.clone()))));
            }
        }
    }
}

/// Saves the state before the running command. Dropping the reply says that nothing has it now. `standby`: with the number of
/// its state; `status`: `$?`.
pub fn save_before(
    cx: &mut Context,
    state: &State,
    engine: &SessionEngine,
    standby: Option<(&Channel, u64)>,
    status: u64,
    reply: oneshot::Sender<Saved>,
) {
    let Some(ticket) = state.running().map(|run| run.ticket) else { return };
    if engine.kind() == Engine::Plain {
        let number = cx.config.next_state();
        let _ = reply.send(Saved::new(number, engine.next_state(), status, &cx.cwd, cx.config.env.clone()));
    } else if let Some((channel, number)) = standby.filter(|_| state.can_detach(ticket)) {
        let saving = save_from(cx, Some(channel), number, status);
        tokio::spawn(async move {
            if let Some(saved) = saving.await {
                let _ = reply.send(saved);
            }
        });
    }
}

/// Asks a bash process for its state. `None` if it does not write it down.
fn save_from(
    cx: &mut Context,
    from: Option<&Channel>,
    number: u64,
    status: u64,
) -> impl Future<Output = Option<Saved>> + use<> {
    let (id, fork_key) = (cx.numbers.next(), cx.numbers.fork_key());
    let asked = from.and_then(|channel| ask(channel, id, fork_key).ok());
    let saved = Saved::new(number, (None, None), status, &cx.cwd, cx.config.env.clone());
    async move { Some(saved.with(asked?.read().await?)) }
}

fn unsaved(session: &str) -> Error {
    Error::new(
        Code::EngineError,
        format!("the shell of session '{session}' does not write its state down, or it has more than 64 MiB"),
    )
}
