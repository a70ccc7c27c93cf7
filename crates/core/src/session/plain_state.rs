//! The state that the plain engine keeps between two shells.

use crate::shell::checkpoint::{Scope, Snapshot};
use std::os::fd::OwnedFd;

/// The state that the engine keeps between two shells.
#[derive(Default)]
pub(super) struct Plain {
    pub(super) state: Option<Snapshot>,
    /// `$?`.
    pub(super) status: i32,
    /// The running shell.
    pub(super) shell: Option<Shell>,
}

pub(super) struct Shell {
    pub(super) script: OwnedFd,
    pub(super) dump: OwnedFd,
    pub(super) scope: Scope,
    /// True if it runs no command: its dump is the session's first state.
    pub(super) is_first: bool,
}
