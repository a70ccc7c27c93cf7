//! Reaps a job's guard if this process is its parent: as init of a container, or as a subreaper.
//!
//! The guard is an orphan as soon as it runs. Elsewhere, init reaps it. The pid cannot refer to another process: it
//! belongs to the guard until its parent waits for it, and no other process can.

use crate::sys;
use nacre_containment::pid::Pid;
use nacre_containment::pidfd;
use std::os::fd::OwnedFd;
use tokio::io::unix::AsyncFd;
use tokio::runtime::Handle;

/// Reaps the guard in the background if this process is now its parent.
pub fn adopt(guard: i32, engine: &Handle) {
    let Some(guard) = Pid::new(guard).filter(|_| adopts_orphans()) else { return };
    engine.spawn(async move {
        if let Some(fd) = pidfd::open(guard).and_then(sys::watch::<OwnedFd>).ok() as Option<AsyncFd<OwnedFd>> {
            let _ = fd.readable().await;
        } else {
            while std::path::Path::new(&format!("/proc/{guard}/fd/0")).exists() {
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
        }
        sys::reap(guard);
    });
}

fn adopts_orphans() -> bool {
    nix::sys::prctl::get_child_subreaper().unwrap_or(false) || std::process::id() == 1
}
