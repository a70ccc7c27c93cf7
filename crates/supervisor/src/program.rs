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
    /// The number of its first descriptor.
    pub first_descriptor: i32,
    /// The directory where it starts; by default, the session's initial directory.
    pub cwd: Option<String>,
}
