//! Signals to a set of processes and waiting for their ends, through one pidfd each.
//!
//! All watches together keep at most half of the descriptors that this process may open: the rest is needed to look at
//! processes. The ends of further processes cannot be observed.

use crate::pid::Identity;
use crate::{pidfd, signal};
use nix::sys::resource::{Resource, getrlimit};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of descriptors in all watches.
static KEPT: AtomicU64 = AtomicU64::new(0);

/// The processes found by one look at a tree.
#[derive(Default)]
pub struct Watch {
    descriptors: Vec<OwnedFd>,
    is_blind: bool,
}

impl Watch {
    /// Adds a process and sends it these signals, if any.
    pub fn add(&mut self, target: Identity, signals: &[i32]) {
        let fd = pidfd::open(target.pid);
        if !signals.is_empty() {
            let _ = match &fd {
                Ok(fd) => signal::send_through(fd.as_fd(), target, signals),
                Err(_) => signal::send_each(target, signals),
            };
        }
        let most = getrlimit(Resource::RLIMIT_NOFILE).map_or(0, |(soft, _)| soft / 2);
        match fd {
            Ok(fd) if KEPT.load(Ordering::Relaxed) < most => {
                KEPT.fetch_add(1, Ordering::Relaxed);
                self.descriptors.push(fd);
            }
            _ => self.is_blind = true,
        }
    }

    /// Descriptors that become readable when one of the processes has ended.
    pub fn descriptors(&self) -> &[OwnedFd] {
        &self.descriptors
    }

    /// True when the end of some process cannot be observed.
    pub fn is_blind(&self) -> bool {
        self.is_blind
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        KEPT.fetch_sub(self.descriptors.len() as u64, Ordering::Relaxed);
    }
}
