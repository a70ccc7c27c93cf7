//! Looks, after commands, for what has appeared in the project and is not protected.

use super::context::Context;
use crate::feed::What;
use crate::wanted::DeniedUse;
use nacre_isolation::newcomers::{MAX_REPORTED, Newcomers};
use nacre_protocol::confinement::ProjectFiles;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// Between two looks, which list up to some hundred directories.
const BETWEEN: Duration = Duration::from_secs(1);

/// Starts looks at the projects of a session. The directories may not respond, so there is one look at a time.
pub(super) struct NewcomerWatch(mpsc::Sender<()>);

impl NewcomerWatch {
    /// `None` if the session has no project to look at.
    pub(super) fn new(cx: &Context, project: &ProjectFiles) -> Option<Self> {
        let newcomers = Arc::new(Newcomers::of(project)?);
        let (feed, id) = (Arc::clone(&cx.config.feed), cx.config.id.clone());
        // A command that ends during a look asks for another one.
        let (wants, mut wanted) = mpsc::channel(1);
        tokio::spawn(async move {
            while wanted.recv().await.is_some() {
                let mut is_whole = false;
                while !is_whole {
                    let newcomers = Arc::clone(&newcomers);
                    let found = tokio::task::spawn_blocking(move || newcomers.appeared()).await.unwrap_or_default();
                    is_whole = found.len() < MAX_REPORTED;
                    for path in found {
                        let appeared = DeniedUse::Appeared(path.to_string_lossy().into_owned());
                        feed.push(&id, What::Denied(appeared.into()));
                    }
                    tokio::time::sleep(BETWEEN).await;
                }
            }
        });
        Some(Self(wants))
    }

    /// Looks soon, and reports what has appeared.
    pub(super) fn look(&self) {
        let _ = self.0.try_send(());
    }
}
