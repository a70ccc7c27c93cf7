//! Reports the calls that the filter refuses by their numbers.

use super::notification::Call;
use super::observer::{MAX_WAITING, caller_of, queued};
use crate::filter::describe_refused;
use nacre_protocol::connections::ConnectionReport;
use nacre_protocol::message;
use std::collections::HashSet;
use std::os::fd::{AsFd, OwnedFd};

/// See the module.
pub struct RefusedCalls<'a> {
    reports: Option<&'a OwnedFd>,
    /// What the host has not received yet. A program tries the same call again and again.
    waiting: HashSet<String>,
}

impl<'a> RefusedCalls<'a> {
    pub fn new(reports: Option<&'a OwnedFd>) -> Self {
        Self { reports, waiting: HashSet::new() }
    }

    /// Reports a call that waits for its refusal.
    pub fn report(&mut self, call: &Call) {
        let (Some(reports), Some(name)) = (self.reports, describe_refused(call.number, &call.arguments)) else {
            return;
        };
        let queued = queued(reports);
        if queued == 0 {
            self.waiting.clear();
        }
        if queued <= MAX_WAITING && self.waiting.insert(name.clone()) {
            let _ = message::send(reports.as_fd(), &ConnectionReport::Call(name, caller_of(call.thread)), &[]);
        }
    }
}
