//! The failure of a call in the helper.

use nacre_protocol::files::{Failure, Reason};
use rustix::io::Errno;

/// See the module.
#[derive(Debug)]
pub enum Stop {
    /// The call failed; the host receives the reason.
    Failed(Failure),
    /// The host has closed the connection.
    Cancelled,
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// A failure concerning a path.
pub fn failure(reason: Reason, path: &[u8]) -> Failure {
    Failure { reason, path: path.to_vec() }
}

/// Turns a system error into a failure concerning a path.
pub fn about(path: &[u8]) -> impl Fn(Errno) -> Failure {
    move |errno| failure(Reason::System(errno.raw_os_error()), path)
}

/// A path below another, as callers see it: entries of `.` keep their own names.
pub fn below(given: &[u8], relative: &[u8]) -> Vec<u8> {
    if given == b"." && !relative.is_empty() {
        return relative.to_vec();
    }
    let separator: &[u8] = if given.ends_with(b"/") { b"" } else { b"/" };
    if relative.is_empty() { given.to_vec() } else { [given, separator, relative].concat() }
}

/// Why a walk stopped at a path: see [`Connection::check_errno`](super::connection::Connection::check_errno).
pub fn stopped(errno: Errno, path: &[u8]) -> Stop {
    if errno == Errno::CANCELED { Stop::Cancelled } else { about(path)(errno).into() }
}
