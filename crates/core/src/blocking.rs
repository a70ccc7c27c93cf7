//! Runs blocking work on files and /proc outside the engine's thread.
//!
//! The engine's thread serves every session of the process, and a slow disk or a long process table would block it.

use crate::error::{Code, Error};
use nacre_containment::lock::Lock;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use tokio::sync::Semaphore;

/// How many threads one directory may block.
const TURNS: usize = 32;

/// The directories whose work takes turns.
static DIRECTORIES: Lock<BTreeMap<PathBuf, Weak<Semaphore>>> = Lock::new(BTreeMap::new());

/// Runs `work` on a thread that may block.
///
/// # Errors
/// The errors of `work`, and `ENGINE_ERROR` if it panics.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, Error> + Send + 'static) -> Result<T, Error> {
    let failed =
        |error: tokio::task::JoinError| Error::new(Code::EngineError, format!("work on files failed: {error}"));
    tokio::task::spawn_blocking(work).await.map_err(failed)?
}

/// Blocking work on one directory, which takes turns. A directory that does not respond blocks a few threads this way, and
/// never all that the engine has: sessions also need them, to end for example.
#[derive(Clone, Debug)]
pub struct Turns(Arc<Semaphore>);

impl Turns {
    /// So many at a time.
    pub fn new(most: usize) -> Self {
        Self(Arc::new(Semaphore::new(most)))
    }

    /// Those of a directory, which all of its users in this process share.
    pub fn of(directory: &Path) -> Self {
        let mut known = DIRECTORIES.lock();
        known.retain(|_, turns| turns.strong_count() > 0);
        let turns = known.get(directory).and_then(Weak::upgrade).unwrap_or_else(|| Self::new(TURNS).0);
        known.insert(directory.into(), Arc::downgrade(&turns));
        Self(turns)
    }

    /// Like [`blocking()`], when it is this work's turn. The work must not wait for other work of these turns.
    ///
    /// # Errors
    /// Those of [`blocking()`].
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let turn = Arc::clone(&self.0).acquire_owned().await.map_err(|_| Error::engine_failed())?;
        blocking(move || {
            let _turn = turn;
            work()
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

    #[test]
    fn work_that_hangs_leaves_threads_for_other_work() {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_time().max_blocking_threads(TURNS + 1).build().unwrap();
        let (release, hung) = mpsc::channel::<()>();
        let hung = Arc::new(std::sync::Mutex::new(hung));
        let directory = Path::new("/hung");
        let many: Vec<_> = (0..2 * TURNS)
            .map(|number| {
                let (turns, hung) = (Turns::of(directory), Arc::clone(&hung));
                let hang = move || {
                    let _ = hung.lock().map(|hung| hung.recv());
                    Ok(number)
                };
                runtime.spawn(async move { turns.run(hang).await })
            })
            .collect();
        runtime.block_on(async {
            tokio::task::yield_now().await;
            let other = tokio::time::timeout(Duration::from_secs(10), blocking(|| Ok("other work"))).await;
            assert_eq!(other.expect("a thread is left").unwrap(), "other work");
            drop(release);
            for (number, one) in many.into_iter().enumerate() {
                assert_eq!(one.await.unwrap().unwrap(), number);
            }
        });
    }
}
