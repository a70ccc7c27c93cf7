//! Runs blocking work on files and /proc outside the engine's thread.
//!
//! The engine's thread serves every session of the process, and a slow disk or a long process table would block it.

use crate::error::{Code, Error};

/// Runs `work` on a thread that may block.
///
/// # Errors
/// The errors of `work`, and `ENGINE_ERROR` if it panics.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, Error> + Send + 'static) -> Result<T, Error> {
    let failed =
        |error: tokio::task::JoinError| Error::new(Code::EngineError, format!("work on files failed: {error}"));
    tokio::task::spawn_blocking(work).await.map_err(failed)?
}
