//! The places for watches and writes in a session's files helper. Each of them occupies a thread of the helper until it
//! ends, which may be never.

use crate::error::{Code, Error};
use nacre_protocol::files::MAX_OPEN;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How long all places may stay taken before a waiting call fails.
const PATIENCE: Duration = Duration::from_secs(5);

/// See the module.
pub struct Places {
    free: Arc<Semaphore>,
    /// How many have been given back.
    ended: Arc<AtomicU64>,
}

impl Default for Places {
    fn default() -> Self {
        Self { free: Arc::new(Semaphore::new(MAX_OPEN)), ended: Arc::default() }
    }
}

/// A place, until it is dropped.
pub struct Place {
    _permit: OwnedSemaphorePermit,
    ended: Arc<AtomicU64>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.ended.fetch_add(1, Ordering::Relaxed);
    }
}

impl Places {
    /// Takes a place. Waits while others are given back. Cancel-safe.
    ///
    /// # Errors
    /// `ENGINE_ERROR` if all are taken and none is given back for a while.
    pub async fn take(&self) -> Result<Place, Error> {
        // The queue is fair: a new attempt after each wait would lose its position.
        let mut taking = std::pin::pin!(Arc::clone(&self.free).acquire_owned());
        loop {
            let ended = self.ended.load(Ordering::Relaxed);
            match tokio::time::timeout(PATIENCE, &mut taking).await {
                Ok(Ok(permit)) => return Ok(Place { _permit: permit, ended: Arc::clone(&self.ended) }),
                Err(_) if self.ended.load(Ordering::Relaxed) != ended => {}
                _ => {
                    let message = format!(
                        "the session has {MAX_OPEN} open watches and writes, which is the limit, and none has ended in \
                         5 s; end some, or use another session"
                    );
                    return Err(Error::new(Code::EngineError, message));
                }
            }
        }
    }
}
