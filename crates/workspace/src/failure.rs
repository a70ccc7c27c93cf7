//! Why a request to the keeper cannot be answered.

use nacre_protocol::workspace::Reply;
use rustix::io::Errno;

/// See the module.
#[derive(Debug)]
pub enum Failure {
    /// One clause: why this machine cannot do it, and what helps.
    Unsupported(String),
    /// One clause: which limit a patch exceeds.
    TooLarge(String),
    /// One clause: what uses a named workspace.
    InUse(String),
    /// One clause: why a named workspace cannot be opened again.
    Lost(String),
    /// There is no workspace of this name.
    Missing,
    /// A system call failed while doing this.
    System(Errno, String),
}

impl From<Failure> for Reply {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Unsupported(reason) => Self::Unsupported(reason),
            Failure::TooLarge(limit) => Self::TooLarge(limit),
            Failure::InUse(user) => Self::InUse(user),
            Failure::Lost(reason) => Self::Lost(reason),
            Failure::Missing => Self::Missing,
            Failure::System(errno, doing) => Self::Failed { errno: errno.raw_os_error(), doing },
        }
    }
}

/// Adds what failed to the error of a system call.
pub fn while_doing(doing: impl Into<String>) -> impl FnOnce(Errno) -> Failure {
    move |errno| Failure::System(errno, doing.into())
}
