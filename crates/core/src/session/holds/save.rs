//! Saving the state of a session.
//!
//! It is taken from the idle shell during a hold: a fork of the shell writes it down. A session without a shell has the
//! state that its next shell begins with.

use super::Holds;
use crate::capabilities::Engine;
use crate::error::{Code, Error};
use crate::session::context::Context;
use crate::session::engine::SessionEngine;
use crate::session::message::SaveReply;
use crate::session::saved::{Saved, SavedShell, ask};
use crate::session::shell_link::ShellLink;
use crate::shell::state::Shell;

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
            (Shell::Idle, Engine::Builtin) => save_shell(cx, link, status, reply),
            _ => drop(reply.send(Ok(Saved::new(engine.next_state(), status, &cx.cwd)))),
        }
    }
}

fn save_shell(cx: &mut Context, link: &ShellLink, status: u64, reply: SaveReply) {
    let (id, fork_key) = (cx.numbers.next(), cx.numbers.fork_key());
    let asked = link.channel().map(|shell| ask(shell, id, fork_key));
    let (session, cwd) = (cx.config.id.clone(), cx.cwd.clone());
    tokio::spawn(async move {
        let items = match asked {
            Some(Ok(asked)) => asked.read().await,
            Some(Err(_)) | None => None,
        };
        let saved = items.map(|items| Saved::new(Some(SavedShell::Items(items)), status, &cwd));
        let _ = reply.send(saved.ok_or_else(|| unsaved(&session)));
    });
}

fn unsaved(session: &str) -> Error {
    Error::new(
        Code::EngineError,
        format!("the shell of session '{session}' does not write its state down, or it has more than 64 MiB"),
    )
}
