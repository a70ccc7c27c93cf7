//! Runs work on files and on /proc away from the engine's thread.
//!
//! That thread serves every session of the process, and a disk or a long process table can be slow.

use crate::error::{Code, Error};

/// Runs `work` on a thread that may block.
///
/// # Errors
/// Those of `work`, and `ENGINE_ERROR` if it panics.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, Error> + Send + 'static) -> Result<T, Error> {
    let failed =
        |error: tokio::task::JoinError| Error::new(Code::EngineError, format!("work on files failed: {error}"));
    tokio::task::spawn_blocking(work).await.map_err(failed)?
}
