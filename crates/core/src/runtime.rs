//! The engine's thread: one per process, for all sandboxes, sessions and worker threads.
//!
//! Its work is short or asynchronous, so one thread is enough, and session state needs no locks. The first sandbox
//! starts it, and it never ends. It does not keep the host alive.

use nacre_containment::lock::Lock;
use std::future::Future;
use std::io;
use tokio::runtime::{Builder, Handle};

static ENGINE: Lock<Option<Handle>> = Lock::new(None);

/// Returns the thread's handle, starting the thread if needed.
///
/// # Errors
/// A thread or an epoll descriptor cannot be created. A later call tries again.
pub fn handle() -> io::Result<Handle> {
    let mut engine = ENGINE.lock();
    if let Some(handle) = engine.as_ref() {
        return Ok(handle.clone());
    }
    let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
    // Before any work is accepted. Otherwise the first job, which another thread reads, could end before these are
    // open.
    runtime.block_on(async { crate::shell::open_shared() });
    let handle = runtime.handle().clone();
    std::thread::Builder::new()
        .name("nacre-engine".into())
        .spawn(move || runtime.block_on(std::future::pending::<()>()))?;
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
