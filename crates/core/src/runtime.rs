//! The engine's thread: one for the process, whatever the number of sandboxes, sessions and worker threads.
//!
//! Everything it does is short or asynchronous, so one thread is enough, and session state needs no locks. It is started
//! by the first sandbox and never ends; it keeps nothing alive (the host may exit at any time).

use std::future::Future;
use std::io;
use std::sync::{Mutex, PoisonError};
use tokio::runtime::{Builder, Handle};

static ENGINE: Mutex<Option<Handle>> = Mutex::new(None);

/// Starts the thread if it is not there.
///
/// # Errors
/// No thread or no epoll descriptor can be had; a later call tries again.
pub fn handle() -> io::Result<Handle> {
    let mut engine = ENGINE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(handle) = engine.as_ref() {
        return Ok(handle.clone());
    }
    let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
    let handle = runtime.handle().clone();
    std::thread::Builder::new().name("nacre-engine".into()).spawn(move || {
        runtime.block_on(async {
            crate::shell::open_shared();
            std::future::pending::<()>().await
        })
    })?;
    *engine = Some(handle.clone());
    Ok(handle)
}

/// Runs a future on the engine's thread.
pub fn spawn<F>(future: F) -> io::Result<()>
where
    F: Future<Output = ()> + Send + 'static,
{
    handle()?.spawn(future);
    Ok(())
}
