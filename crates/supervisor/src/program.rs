//! A program that the host orders to be started.

use nacre_protocol::supervisor::Role;
use std::os::fd::OwnedFd;

/// See the module.
pub struct Program {
    /// What it is.
    pub role: Role,
    /// Arguments after argv\[0\].
    pub arguments: Vec<String>,
    /// Its descriptors.
    pub descriptors: Vec<OwnedFd>,
    /// The number of the first of them.
    pub first_descriptor: i32,
    /// The directory in which it starts; by default, the session's first one.
    pub cwd: Option<String>,
}
