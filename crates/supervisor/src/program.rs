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
    /// Where it starts; the session's first directory otherwise.
    pub cwd: Option<String>,
}
