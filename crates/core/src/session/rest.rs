//! Holds the end of a command back while its process substitutions print: the rest of its output.
//!
//! For the state machine, the command runs meanwhile. A kill reaches the substitutions, and everything else that ends the
//! command ends the wait.

use crate::shell::event::Event;
use nacre_containment::pid::Pid;
use nacre_containment::proc_table::Stat;
use nacre_containment::rest::RestWait;

/// See the module.
pub(super) struct Rest {
    /// The end of the command.
    pub end: Event,
    /// Whether children of the shell may be substitutions. Otherwise they are jobs.
    pub substituted: bool,
    pub wait: RestWait,
}

/// Whether a process is below the shell.
pub(super) fn is_below(shell: Option<Pid>, stat: &Stat, all: &[Stat]) -> bool {
    let mut parent = stat.parent;
    // A parent is in the list once. Pids that are reused meanwhile could form a circle.
    for _ in 0..=all.len() {
        if shell.is_some_and(|shell| shell.raw() == parent) {
            return true;
        }
        match all.iter().find(|other| other.identity.pid.raw() == parent) {
            Some(other) => parent = other.parent,
            None => return false,
        }
    }
    false
}
