//! Looks, after commands, for what has appeared in the project and is not protected.

use super::context::Context;
use crate::feed::What;
use nacre_isolation::newcomers::{MAX_REPORTED, Newcomers};
use nacre_protocol::confinement::ProjectFiles;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

/// Between two looks, which list up to some hundred directories.
const BETWEEN: Duration = Duration::from_secs(1);

const IDLE: u8 = 0;
const LOOKING: u8 = 1;
/// A command has ended since the look began.
const WANTED: u8 = 2;

/// What has appeared in the projects of a session.
pub(super) struct NewcomerWatch {
    newcomers: Arc<Newcomers>,
    state: Arc<AtomicU8>,
}

impl NewcomerWatch {
    pub(super) fn new(project: &ProjectFiles) -> Option<Self> {
        Some(Self { newcomers: Arc::new(Newcomers::of(project)?), state: Arc::default() })
    }

    /// Looks soon, and reports what has appeared. The directories may not respond, so there is one look at a time.
    pub(super) fn look(&self, cx: &Context) {
        let Self { newcomers, state } = self;
        if state.swap(WANTED, Ordering::AcqRel) != IDLE {
            return;
        }
        let (newcomers, state) = (Arc::clone(newcomers), Arc::clone(state));
        let (feed, id) = (Arc::clone(&cx.config.feed), cx.config.id.clone());
        tokio::spawn(async move {
            loop {
                state.store(LOOKING, Ordering::Release);
                let newcomers = Arc::clone(&newcomers);
                let found = tokio::task::spawn_blocking(move || newcomers.appeared()).await.unwrap_or_default();
                found.iter().for_each(|path| {
                    feed.push(&id, What::Appeared { path: path.to_string_lossy().into_owned() });
                });
                tokio::time::sleep(BETWEEN).await;
                let is_over = || state.compare_exchange(LOOKING, IDLE, Ordering::AcqRel, Ordering::Acquire).is_ok();
                if found.len() < MAX_REPORTED && is_over() {
                    break;
                }
            }
        });
    }
}
