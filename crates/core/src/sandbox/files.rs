//! Calls on the files of a session.

use super::Sandbox;
use crate::error::{Code, Error};
use crate::files::Access;

/// Helpers that a call on files tries. The first may have been killed since it was used last.
const FILES_ATTEMPTS: u32 = 3;

impl Sandbox {
    /// Makes a call on the files of a session. `call` is made again when the helper it was given had ended.
    pub fn files<T, F, R>(&self, session: &str, call: F) -> impl Future<Output = Result<T, Error>> + Send + use<T, F, R>
    where
        F: Fn(Access) -> R + Send,
        R: Future<Output = Result<Option<T>, Error>> + Send,
    {
        let asked = self.session(session).map(|handle| (handle.files(), handle));
        async move {
            let (access, handle) = asked?;
            let mut access = access.await?;
            for _ in 0..FILES_ATTEMPTS {
                if let Some(done) = call(access).await? {
                    return Ok(done);
                }
                access = handle.files().await?;
            }
            Err(Error::new(Code::SpawnFailed, "the files helper ends as soon as it is started"))
        }
    }
}
