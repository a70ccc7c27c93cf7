//! The limit of a workspace whose layers are on disk: what runs when they have grown beyond it is killed.
//!
//! Measuring the layers means to walk over their files, so the free space of the disk decides when that is due: what the layers
//! grow by is missing there. It is read some times in a second while it changes. Other programs change it, too, so the layers are
//! also measured from time to time, for a small part of a processor's time.

use super::{Sandbox, WeakSandbox};
use crate::blocking::blocking;
use crate::error::Error;
use crate::exec::{By, KillPolicy, KilledBy};
use crate::workspace::Workspace;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

/// Time between two looks at the free space while it changes.
const SHORTEST: Duration = Duration::from_millis(25);
/// The same while it does not change.
const LONGEST: Duration = Duration::from_secs(1);
/// Measuring takes at most one part in so many of a processor, unless the disk has less room by what the layers may still have.
const SHARE: u32 = 20;
/// No grace: a program could fill the disk meanwhile.
const KILL: KillPolicy = KillPolicy { signal: libc::SIGKILL, grace: Duration::ZERO };

impl Sandbox {
    /// What wakes the task that looks at the disk, if the workspace has such a limit. The first session starts the task.
    pub(super) fn watch_disk(&self) -> Option<Arc<Notify>> {
        let workspace = self.inner.workspace.clone()?;
        let limit = workspace.disk_limit()?;
        let start = || {
            let (writes, sandbox) = (Arc::<Notify>::default(), self.downgrade());
            let disk = Disk { workspace, limit, tolerated: u64::MAX, measured: None };
            // Without the engine's thread, nothing runs.
            let _ = crate::runtime::spawn(disk.watch(sandbox, Arc::clone(&writes)));
            writes
        };
        Some(Arc::clone(self.inner.writes.get_or_init(start)))
    }

    /// Kills everything that runs in the sandbox.
    async fn end_all(&self, by: &KilledBy) {
        let handles = self.handles(None).unwrap_or_default();
        let ends: Vec<_> =
            handles.into_iter().map(|handle| tokio::spawn(self.end_session(handle, KILL, by.clone()))).collect();
        for end in ends {
            let _ = end.await;
        }
    }
}

/// The disk with the layers.
struct Disk {
    workspace: Arc<Workspace>,
    /// Bytes.
    limit: u64,
    /// Bytes that the layers may have: the limit, or what they had at the beginning or after the last kill. So files can be removed
    /// then.
    tolerated: u64,
    measured: Option<Measured>,
}

/// The last time that the layers were measured.
#[derive(Clone, Copy)]
struct Measured {
    at: Instant,
    /// How long it took.
    cost: Duration,
    /// The bytes of the layers.
    used: u64,
    /// The bytes that were free just before.
    free: u64,
}

impl Disk {
    /// Looks from the first command until the sandbox ends.
    async fn watch(mut self, sandbox: WeakSandbox, writes: Arc<Notify>) {
        let (mut wait, mut before, mut has_begun) = (LONGEST, None, false);
        loop {
            let begins = timeout(wait, writes.notified()).await.is_ok();
            has_begun |= begins;
            let Some(sandbox) = sandbox.upgrade().filter(|sandbox| sandbox.lock().check().is_ok()) else { return };
            if !has_begun {
                continue;
            }
            let workspace = Arc::clone(&self.workspace);
            let free = blocking(move || Ok(workspace.free_bytes().ok())).await.ok().flatten();
            if self.is_due(free) {
                // A workspace that cannot be measured now has not begun, or has ended.
                let _ = self.measure(free).await;
            }
            let is_over = |measured: Measured| measured.used > self.tolerated;
            if self.measured.is_some_and(is_over) {
                let reason = Some(format!("workspace.maxBytes is {}", self.limit));
                sandbox.end_all(&KilledBy { by: By::Budget, reason }).await;
                self.tolerated = u64::MAX;
                let _ = self.measure(free).await;
            }
            if let Some(Measured { used, .. }) = self.measured {
                self.tolerated = self.tolerated.min(used).max(self.limit);
            }
            wait = if free == before && !begins { (wait * 2).min(LONGEST) } else { SHORTEST };
            before = free;
        }
    }

    /// Whether the layers may have grown beyond the limit, or have not been measured for long.
    fn is_due(&self, free: Option<u64>) -> bool {
        let (Some(last), Some(free)) = (self.measured, free) else { return true };
        let room = self.tolerated.saturating_sub(last.used);
        let pause = if last.free.saturating_sub(free) > room { 1 } else { SHARE };
        free != last.free && last.at.elapsed() >= last.cost * pause
    }

    async fn measure(&mut self, free: Option<u64>) -> Result<(), Error> {
        let (begun, workspace) = (Instant::now(), Arc::clone(&self.workspace));
        let used = blocking(move || workspace.usage_beside()).await?.bytes;
        let at = Instant::now();
        self.measured = Some(Measured { at, cost: at - begun, used, free: free.unwrap_or(0) });
        Ok(())
    }
}
