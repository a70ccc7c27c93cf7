//! Merges: a sandbox that begins with the files and sessions of one sandbox, and with what others have changed.
//!
//! It is a fork of the first one. Each of the others is forked, too, but only for its layers: each side is of one moment, one
//! after the other. The pauses end before anything is merged, and no program runs in the new sandbox until all is.

use super::fork::{end, hand_over};
use super::{Sandbox, WhenBusy};
use crate::blocking::blocking;
use crate::error::Error;
use crate::workspace::Fork;
use nacre_git::Repository;
use nacre_git::merge::MergeSettings;
use nacre_protocol::workspace::{Joined, MergeRules};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::{oneshot, watch};

/// How sandboxes are merged.
#[derive(Clone, Copy, Debug)]
pub struct MergeOptions {
    /// Whether a file gets markers at its conflicts. Otherwise it is there as on the side before.
    pub has_markers: bool,
    /// What to do with programs that use a workspace.
    pub when_busy: WhenBusy,
}

/// What a merge has made.
#[derive(Debug)]
pub struct Merged {
    /// Of all sides, in their order. What is pending has to be done in the new sandbox, one after the other.
    pub joined: Joined,
    /// The root of the workspace.
    pub directory: PathBuf,
}

impl Sandbox {
    /// Lets another sandbox, which nothing has used, go on with the present files and sessions of this one, and with what others have
    /// changed since all were one. Waits for each as [`Sandbox::pause`] does. `None`, with nothing merged, if `given_up` resolves before
    /// the last pause is in effect.
    ///
    /// # Errors
    /// Those of [`Sandbox::fork`] and [`Workspace::join`](crate::workspace::Workspace::join). The other sandbox is destroyed then.
    pub fn merge<G: Future<Output = ()> + Send>(
        &self,
        others: Vec<Sandbox>,
        into: Sandbox,
        options: MergeOptions,
        given_up: G,
    ) -> impl Future<Output = Result<Option<Merged>, Error>> + Send + use<G> {
        let sides = [vec![self.clone()], others].concat();
        async move {
            let (sender, mut done) = oneshot::channel();
            let (stop, stopped) = watch::channel(false);
            // It is completed even if this future is dropped: mounts may be sealed.
            tokio::spawn(async move {
                let merged = complete_merge(&sides, &into, options, &stopped).await;
                hand_over(&[into], merged, sender).await;
            });
            tokio::select! {
                biased;
                merged = &mut done => return merged.unwrap_or_else(|_| Err(Error::engine_failed())),
                () = given_up => { let _ = stop.send(true); }
            }
            done.await.unwrap_or_else(|_| Err(Error::engine_failed()))
        }
    }
}

async fn complete_merge(
    sides: &[Sandbox],
    into: &Sandbox,
    MergeOptions { has_markers, when_busy }: MergeOptions,
    stopped: &watch::Receiver<bool>,
) -> Result<Option<Merged>, Error> {
    let mut forks: Vec<Arc<Fork>> = Vec::new();
    let merged = async {
        let mut sessions = None;
        for side in sides {
            let mut stopped = stopped.clone();
            let given_up = async move {
                if stopped.wait_for(|is_stopped| *is_stopped).await.is_err() {
                    std::future::pending().await
                }
            };
            let Some(begun) = side.begin_fork(when_busy, given_up).await? else { return Ok(None) };
            let (fork, saved) = begun.branch().await?;
            forks.push(fork);
            sessions.get_or_insert(saved);
        }
        if let Some(first) = sides.first() {
            into.inner.secrets.begin_with(&first.inner.secrets);
        }
        let (into, forks) = (into.clone(), forks.clone());
        blocking(move || {
            let workspace = into.workspace()?;
            let directory = workspace.path().to_path_buf();
            let rules = rules_of(&directory);
            let mut merged = Merged { joined: Joined::default(), directory };
            for (side, fork) in (0..).zip(&forks) {
                if side == 0 {
                    workspace.open_as(fork)?;
                    continue;
                }
                let Joined { conflicts, pending } = workspace.join(fork, side, has_markers, &rules)?;
                merged.joined.conflicts.extend(conflicts);
                merged.joined.pending.extend(pending);
            }
            into.begin_with(sessions.unwrap_or_default())?;
            Ok(Some(merged))
        })
        .await
    };
    let merged = merged.await;
    for fork in forks {
        end(fork).await?;
    }
    merged
}

/// How the user's git merges the files of a real directory. Without a repository that it trusts, files have lines.
fn rules_of(directory: &Path) -> MergeRules {
    let settings = Repository::of(directory).and_then(|repository| repository.merge_settings());
    let MergeSettings { drivers, default, stronger, weaker } = settings.unwrap_or_default();
    MergeRules { drivers, default, stronger, weaker }
}
