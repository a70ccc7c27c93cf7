//! Work on files, away from the engine's thread.
//!
//! That thread serves every session of the process, and a disk can take its time over anything.

use crate::error::{Code, Error};

/// Does something on a thread that may block.
///
/// # Errors
/// Those of `work`, and `ENGINE_ERROR` when it panics.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, Error> + Send + 'static) -> Result<T, Error> {
    let failed = |error: tokio::task::JoinError| Error::new(Code::EngineError, format!("a job's files: {error}"));
    tokio::task::spawn_blocking(work).await.map_err(failed)?
}
