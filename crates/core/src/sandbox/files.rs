//! File calls of a session.

use super::Sandbox;
use crate::error::{Code, Error};
use crate::files::Access;
use std::time::Duration;

/// Maximum number of helpers that a file call tries. The first may have been killed since its last use.
const FILES_ATTEMPTS: u32 = 6;
/// The pause before the second helper, doubled before each other one. The supervisor that is to start it may be dead,
/// which the session does not know yet.
const PAUSE: Duration = Duration::from_millis(5);

impl Sandbox {
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
