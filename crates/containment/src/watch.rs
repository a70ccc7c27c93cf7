//! Asking processes to end and waiting for their ends: one pidfd does both.

use crate::pid::Identity;
use crate::{pidfd, signal};
use std::os::fd::{AsFd, OwnedFd};

/// The processes that one look at a tree has found.
#[derive(Default)]
pub struct Watch {
    descriptors: Vec<OwnedFd>,
    is_blind: bool,
}

impl Watch {
    /// One more. It is sent these signals, of which there may be none.
    pub fn add(&mut self, target: Identity, signals: &[i32]) {
        let fd = pidfd::open(target.pid);
        if !signals.is_empty() {
            let _ = match &fd {
                Ok(fd) => signal::send_through(fd.as_fd(), target, signals),
                Err(_) => signal::send_each(target, signals),
            };
        }
        match fd {
            Ok(fd) => self.descriptors.push(fd),
            Err(_) => self.is_blind = true,
        }
    }

    /// Descriptors that become readable when one of them has ended.
    pub fn descriptors(&self) -> &[OwnedFd] {
        &self.descriptors
    }

    /// The end of one of them will not be seen.
    pub fn is_blind(&self) -> bool {
        self.is_blind
    }
}
