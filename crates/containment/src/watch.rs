//! Signals to a set of processes and waiting for their ends, through one pidfd each.

use crate::pid::Identity;
use crate::{pidfd, signal};
use std::os::fd::{AsFd, OwnedFd};

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
        match fd {
            Ok(fd) => self.descriptors.push(fd),
            Err(_) => self.is_blind = true,
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
