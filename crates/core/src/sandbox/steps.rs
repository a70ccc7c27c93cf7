//! Steps for undo: an automatic checkpoint before each foreground command.
//!
//! A hold is queued before the command. Once it is in effect, the other sessions are asked for one that takes effect only if
//! they are idle now. If one is not, or anything else uses the files, the command runs without a step: a step waits for no
//! command, and no command fails because of it. Sessions that begin commands at the same moment share a step.

use super::checkpoint::States;
use super::{Pause, Sandbox};
use crate::blocking::blocking;
use crate::error::Error;
use crate::exec::{Command, ExecRequest};
use crate::session::{Handle, Hold};
use nacre_containment::lock::Lock;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::timeout;

/// Maximum characters of a command that are kept.
const SHOWN: usize = 1000;

/// How long a step waits for file calls that are being made.
const PATIENCE: Duration = Duration::from_millis(10);

/// The commands that wait to begin.
#[derive(Default)]
pub(super) struct Steps {
    queued: Lock<Vec<NextStep>>,
    numbers: AtomicU64,
    /// Held while a step is being made.
    making: tokio::sync::Mutex<()>,
}

/// A command that is to run once its session is released.
struct NextStep {
    number: u64,
    hold: Hold,
    command: String,
}

impl Steps {
    /// Removes a command that is not to run.
    fn remove(&self, number: u64) {
        // What is dropped sends a message, and not under the lock.
        let removed = self.queued.lock().extract_if(.., |next| next.number == number).next();
        drop(removed);
    }

    /// Takes the commands that can begin now.
    fn take_ready(&self) -> Vec<NextStep> {
        self.queued.lock().extract_if(.., |next| next.hold.is_granted()).collect()
    }

    /// Takes the command that can begin now in a session.
    fn take_ready_in(&self, session: &str) -> Option<NextStep> {
        let is_ready = |next: &mut NextStep| next.hold.session() == session && next.hold.is_granted();
        self.queued.lock().extract_if(.., is_ready).next()
    }
}

impl Sandbox {
    pub(super) fn has_steps(&self) -> bool {
        self.inner.workspace.as_ref().is_some_and(|workspace| workspace.undo_steps() > 0)
    }

    pub(super) fn exec_with_step(&self, handle: &Handle, request: ExecRequest) {
        let steps = &self.inner.steps;
        let (command, number) = (shown(&request.command), steps.numbers.fetch_add(1, Ordering::Relaxed));
        let sandbox = self.downgrade();
        handle.exec_after_hold(request, |hold| {
            let granted = hold.granted();
            steps.queued.lock().push(NextStep { number, hold, command });
            let step = async move {
                let is_granted = granted.await;
                match sandbox.upgrade() {
                    Some(sandbox) if is_granted => sandbox.make_next_step().await,
                    Some(sandbox) => sandbox.inner.steps.remove(number),
                    None => {}
                }
            };
            if crate::runtime::spawn(step).is_err() {
                steps.remove(number);
            }
        });
    }

    /// Makes a step before the commands that can begin now, which run then. There are none if the step of another one has
    /// included them.
    async fn make_next_step(&self) {
        let _alone = self.inner.steps.making.lock().await;
        let nexts = self.inner.steps.take_ready();
        if nexts.is_empty() {
            return;
        }
        if let Err(error) = self.make_step(nexts).await {
            tracing::warn!(log = self.inner.config.log.id(), %error, "a command cannot be undone: it has no automatic checkpoint");
        }
    }

    /// Makes a step before these commands, if nothing else uses the files.
    async fn make_step(&self, nexts: Vec<NextStep>) -> Result<(), Error> {
        // Otherwise the sandbox is being destroyed.
        let Ok(workspace) = self.workspace() else { return Ok(()) };
        let Some((pause, commands)) = self.pause_if_idle(nexts).await else { return Ok(()) };
        let States { ids, text, hold_mount } = self.states(&pause).await?;
        let (runs_in, commands): (Vec<_>, Vec<_>) = commands.into_iter().unzip();
        let step = (commands.join("\n"), runs_in);
        let made = blocking(move || workspace.step(step, ids, &text, !hold_mount)).await?;
        if let Some((_, true)) = made {
            Arc::new(pause).remount().await;
        }
        Ok(())
    }

    /// Pauses, if only these commands are about to begin. Returns them, each after its session.
    async fn pause_if_idle(&self, mut nexts: Vec<NextStep>) -> Option<(Pause, Vec<(String, String)>)> {
        let files = timeout(PATIENCE, Arc::clone(&self.inner.files).write_owned()).await.ok()?;
        let (number, asked) = {
            let mut sessions = self.living().ok()?;
            let is_other = |id: &String| nexts.iter().all(|next| next.hold.session() != id);
            let others = sessions.open.iter().filter(|(id, _)| is_other(id));
            let asked: Vec<_> = others.map(|(_, open)| open.handle.hold_if_idle()).collect();
            (sessions.begin_pause(), asked)
        };
        let mut pause = Pause::new(self, number, Some(files));
        let mut holds = Vec::new();
        for hold in asked {
            if hold.granted().await {
                holds.push(hold);
            } else {
                // It may be about to begin a command, too.
                nexts.push(self.inner.steps.take_ready_in(hold.session())?);
            }
        }
        let split = |NextStep { hold, command, .. }| {
            let session = Hold::session(&hold).to_owned();
            (hold, (session, command))
        };
        let (own, commands): (Vec<_>, _) = nexts.into_iter().map(split).unzip();
        pause.hold(own.into_iter().chain(holds));
        pause.freeze(Vec::new(), true).await.ok()?;
        pause.is_idle().then_some((pause, commands))
    }
}

/// A command as a person wrote it, or the start of a long one.
fn shown(command: &Command) -> String {
    let bytes = match command {
        Command::Text(text) => text.clone(),
        Command::Argv(words) => words.join(&b' '),
    };
    let text = String::from_utf8_lossy(&bytes);
    match text.char_indices().nth(SHOWN) {
        None => text.into_owned(),
        Some((end, _)) => format!("{}...", &text[..end]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_text_with_a_limit() {
        let text = |bytes: &[u8]| shown(&Command::Text(bytes.to_vec()));
        assert_eq!(text(b"echo \xff"), "echo \u{fffd}");
        assert_eq!(shown(&Command::Argv(vec![b"echo".to_vec(), b"two words".to_vec()])), "echo two words");
        assert_eq!(text("ä".repeat(SHOWN).as_bytes()), "ä".repeat(SHOWN));
        assert_eq!(text("ä".repeat(SHOWN + 1).as_bytes()), "ä".repeat(SHOWN) + "...");
    }
}
