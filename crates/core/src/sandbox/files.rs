//! File calls of a session.

use super::Sandbox;
use crate::error::{Code, Error};
use crate::files::Access;

/// Maximum attempts of a file call. The first helper may have been killed since it was last used.
const FILES_ATTEMPTS: u32 = 3;

impl Sandbox {
    /// Makes a call on the files of a session. If the helper had ended, `call` is repeated with another helper.
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
            Err(Error::new(Code::SpawnFailed, "the files helper exits as soon as it starts"))
        }
    }
}
