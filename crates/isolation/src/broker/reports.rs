//! Reports to the host. Programs try the same thing again and again, so each is sent once until the host has received it.

use super::notification::Call;
use crate::filter::{describe_refused, is_internet_socket};
use crate::foreign::caller_of;
use nacre_protocol::connections::ConnectionReport;
use nacre_protocol::message;
use std::collections::HashSet;
use std::hash::Hash;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

/// Maximum bytes of reports that wait for the host, as the kernel counts them. Those about connections need the rest of the
/// socket's buffer.
const MAX_WAITING: libc::c_int = 64 << 10;

/// Reports about one kind of thing.
pub struct Reports<'a, T> {
    /// Where the host receives them. It must not block.
    pub socket: &'a OwnedFd,
    /// What the host has not received yet.
    pub waiting: HashSet<T>,
    most: usize,
}

impl<'a, T: Eq + Hash> Reports<'a, T> {
    /// `most`: how many can wait.
    pub fn new(socket: &'a OwnedFd, most: usize) -> Self {
        Self { socket, waiting: HashSet::new(), most }
    }

    /// Sends a report about something, unless one waits already, or there is no room.
    pub fn send(&mut self, about: T, report: impl FnOnce() -> ConnectionReport) {
        let queued = queued(self.socket);
        if queued == 0 {
            self.waiting.clear();
        }
        if queued <= MAX_WAITING && self.waiting.len() < self.most && self.waiting.insert(about) {
            let _ = message::send(self.socket.as_fd(), &report(), &[]);
        }
    }
}

impl Reports<'_, String> {
    /// Reports a call that the filter refuses by its number.
    pub fn send_refused(&mut self, call: &Call) {
        if let Some(name) = describe_refused(call.number, &call.arguments) {
            let report = match is_internet_socket(call.number, &call.arguments) {
                true => ConnectionReport::InternetSocket,
                false => ConnectionReport::Call,
            };
            self.send(name.clone(), || report(name, caller_of(call.thread)));
        }
    }
}

/// Bytes that the other end has not received.
fn queued(socket: &OwnedFd) -> libc::c_int {
    let mut bytes = 0;
    // SAFETY: the kernel writes one number through the pointer.
    match unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) } {
        0 => bytes,
        _ => libc::c_int::MAX,
    }
}
