//! A program that the host orders the supervisor to start.

use nacre_protocol::supervisor::Role;
use std::os::fd::OwnedFd;

/// See the module.
pub struct Program {
    /// Its role.
    pub role: Role,
    /// Arguments after argv\[0\].
    pub arguments: Vec<String>,
    /// Its descriptors.
    pub descriptors: Vec<OwnedFd>,
    /// The number of its first descriptor; lower numbers are `/dev/null`.
    pub first_descriptor: i32,
    /// Whether it starts in `/` if the session's initial directory cannot be entered.
    pub anywhere: bool,
}
