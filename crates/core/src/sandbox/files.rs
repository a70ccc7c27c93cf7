//! File calls of a session.

use super::Sandbox;
use crate::error::{Code, Error};
use crate::files::Access;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedRwLockWriteGuard, RwLock};
use tokio::time::timeout;

/// Maximum number of helpers that a file call tries. The first may have been killed since its last use.
const FILES_ATTEMPTS: u32 = 6;
/// The pause before the second helper, doubled before each other one. The supervisor that is to start it may be dead,
/// which the session does not know yet.
const PAUSE: Duration = Duration::from_millis(5);

/// How long a call that needs the files alone waits for file calls that are being made. Later ones wait behind it.
const MOST_WAIT: Duration = Duration::from_secs(10);

/// Waits for all file calls, and keeps others from being made.
async fn exclude(calls: &Arc<RwLock<()>>, most: Duration) -> Result<OwnedRwLockWriteGuard<()>, Error> {
    let excluded = timeout(most, Arc::clone(calls).write_owned()).await;
    excluded.map_err(|_| {
        let message =
            format!("a file call has not ended within {most:?}: it is long, or its directory does not respond");
        Error::new(Code::WorkspaceBusy, message)
    })
}

impl Sandbox {
    /// Keeps file calls from being made until the result is dropped.
    ///
    /// # Errors
    /// `WORKSPACE_BUSY` if one does not end.
    pub(super) async fn exclude_files(&self) -> Result<OwnedRwLockWriteGuard<()>, Error> {
        exclude(&self.inner.files, MOST_WAIT).await
    }

    /// Makes a call on the files of a session, after a pause of the sandbox. Repeats `call` with a new helper if the
    /// helper had ended.
    pub fn files<T, F, R>(&self, session: &str, call: F) -> impl Future<Output = Result<T, Error>> + Send + use<T, F, R>
    where
        F: Fn(Access) -> R + Send,
        R: Future<Output = Result<Option<T>, Error>> + Send,
    {
        let (sandbox, session) = (self.clone(), session.to_string());
        let mut asked = self.session(&session).map(|handle| (handle.files(), handle));
        async move {
            for attempt in 0..FILES_ATTEMPTS {
                let (access, handle) = asked?;
                let access = access.await;
                // Taken after the access, which a hold may delay: the pause waits for this call.
                let turn = sandbox.inner.files.read().await;
                // Otherwise another session has taken its place.
                if !handle.is_rolled_back()
                    && let Some(done) = call(access?).await?
                {
                    return Ok(done);
                }
                drop(turn);
                tokio::time::sleep(PAUSE * 2u32.pow(attempt)).await;
                asked = sandbox.session(&session).map(|handle| (handle.files(), handle));
            }
            Err(Error::new(Code::SpawnFailed, "the files helper exits as soon as it starts"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_file_call_that_hangs_blocks_others_for_a_limited_time() {
        let calls = Arc::new(RwLock::new(()));
        let hanging = calls.read().await;
        let (excluded, _other) = tokio::join!(exclude(&calls, MOST_WAIT), async {
            tokio::task::yield_now().await;
            // It waits behind the one that needs the files alone, until that gives up.
            calls.read().await
        });
        assert_eq!(excluded.unwrap_err().code, Code::WorkspaceBusy);
        drop((hanging, _other));
        assert!(exclude(&calls, MOST_WAIT).await.is_ok());
    }
}
