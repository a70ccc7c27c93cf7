//! Forks: sandboxes that begin with the files and the sessions of another one, and are independent from then on.
//!
//! The files and the states of the shells are of one moment, as those of a checkpoint. The pause ends before the forks are
//! opened. Each has a keeper and layers of its own above those that all of them share.

use super::checkpoint::{KeptSession, hold_mount};
use super::{Pause, Sandbox, WhenBusy};
use crate::blocking::blocking;
use crate::error::Error;
use crate::workspace::{Fork, Workspace};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, oneshot};

/// How many forks are opened at the same time.
const AT_ONCE: usize = 8;

impl Sandbox {
    /// Lets other sandboxes, which nothing has used, go on with the present files and sessions of this one. They have the same
    /// configuration, but no name for the workspace. Waits as [`Sandbox::pause`] does. `None`, with nothing forked, if
    /// `given_up` resolves before the pause is in effect.
    ///
    /// # Errors
    /// Those of [`Sandbox::checkpoint`], and of the opening of a workspace. The other sandboxes are destroyed then.
    pub fn fork<G: Future<Output = ()> + Send>(
        &self,
        forks: Vec<Sandbox>,
        when_busy: WhenBusy,
        given_up: G,
    ) -> impl Future<Output = Result<Option<()>, Error>> + Send + use<G> {
        let begun = self.begin_fork(when_busy, given_up);
        let sandbox = self.clone();
        async move {
            let begun = match begun.await {
                Ok(Some(begun)) => begun,
                other => {
                    destroy(&forks).await;
                    return other.map(|_| None);
                }
            };
            // It is completed even if this future is dropped.
            let (sender, done) = oneshot::channel();
            tokio::spawn(async move {
                let forked = sandbox.complete_fork(begun, &forks).await;
                hand_over(&forks, forked.map(Some), sender).await;
            });
            done.await.unwrap_or_else(|_| Err(Error::engine_failed()))
        }
    }

    /// Pauses, and saves the sessions. `None` if the pause is given up.
    pub(super) fn begin_fork<G: Future<Output = ()> + Send>(
        &self,
        when_busy: WhenBusy,
        given_up: G,
    ) -> impl Future<Output = Result<Option<Begun>, Error>> + Send + use<G> {
        let pausing = self.pause_for_workspace(given_up);
        let sandbox = self.clone();
        async move {
            let Some((workspace, pause)) = pausing.await? else { return Ok(None) };
            pause.check(when_busy, "use busy: 'copy'")?;
            let sessions = sandbox.save(&pause).await?;
            sandbox.deleted_sessions_end().await;
            Ok(Some(Begun { workspace, pause, sessions }))
        }
    }

    /// Opens the forks.
    async fn complete_fork(&self, begun: Begun, forks: &[Sandbox]) -> Result<(), Error> {
        let (fork, sessions) = begun.branch().await?;
        forks.iter().for_each(|sandbox| sandbox.inner.secrets.begin_with(&self.inner.secrets));
        let opened = open(forks, &fork, sessions).await;
        end(fork).await?;
        // A parent that is destroyed meanwhile may be the reason of another error.
        self.lock().check().and(opened)
    }
}

/// A sandbox that pauses to be forked.
pub(super) struct Begun {
    workspace: Arc<Workspace>,
    pause: Pause,
    sessions: Vec<KeptSession>,
}

impl Begun {
    /// Ends the pause as soon as the layers are known. They must be let go: see [`end`].
    pub(super) async fn branch(self) -> Result<(Arc<Fork>, Vec<KeptSession>), Error> {
        let Self { workspace, pause, sessions } = self;
        let may_seal = pause.is_idle() && !hold_mount(&sessions);
        let fork = blocking(move || workspace.fork(may_seal)).await;
        // After an error, the mount may be sealed.
        if may_seal && fork.as_ref().map_or(true, Fork::is_sealed) {
            Arc::new(pause).remount().await;
        } else {
            drop(pause);
        }
        Ok((Arc::new(fork?), sessions))
    }
}

/// Lets the parent of forks remove layers again.
pub(super) async fn end(fork: Arc<Fork>) -> Result<(), Error> {
    blocking(move || {
        fork.end();
        Ok(())
    })
    .await
}

/// Opens the forks, some at the same time. Fails with the first error, when all have been tried.
async fn open(forks: &[Sandbox], fork: &Arc<Fork>, sessions: Vec<KeptSession>) -> Result<(), Error> {
    let turns = Arc::new(Semaphore::new(AT_ONCE));
    let opening: Vec<_> = forks
        .iter()
        .map(|sandbox| {
            let (sandbox, fork, sessions, turns) =
                (sandbox.clone(), Arc::clone(fork), sessions.clone(), Arc::clone(&turns));
            tokio::spawn(async move {
                let _turn = turns.acquire_owned().await;
                let workspace = sandbox.workspace()?;
                blocking(move || {
                    workspace.open_as(&fork)?;
                    sandbox.begin_with(sessions)
                })
                .await
            })
        })
        .collect();
    let mut outcome = Ok(());
    for opened in opening {
        let opened = opened.await.unwrap_or_else(|_| Err(Error::engine_failed()));
        outcome = outcome.and(opened);
    }
    outcome
}

/// Sends what has made these sandboxes. They are destroyed unless it has, and someone takes them.
pub(super) async fn hand_over<T>(
    sandboxes: &[Sandbox],
    made: Result<Option<T>, Error>,
    receiver: oneshot::Sender<Result<Option<T>, Error>>,
) {
    let is_done = matches!(made, Ok(Some(_)));
    if !is_done {
        destroy(sandboxes).await;
    }
    if receiver.send(made).is_err() && is_done {
        destroy(sandboxes).await;
    }
}

async fn destroy(forks: &[Sandbox]) {
    for destroyed in forks.iter().map(|fork| fork.destroy(Duration::ZERO)).collect::<Vec<_>>() {
        destroyed.await;
    }
}
