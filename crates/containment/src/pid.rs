//! Process ids that may be signalled, and identities that survive the reuse of a pid.

use serde::{Deserialize, Serialize};

/// A process id greater than 1: no signal can ever reach init, a process group or all processes.
///
/// The kernel gives 0, 1 and negative numbers special meanings in `kill(2)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "i32", into = "i32")]
pub struct Pid(i32);

impl Pid {
    /// `None` for every number that must not be signalled.
    pub fn new(raw: i32) -> Option<Self> {
        (raw > 1).then_some(Self(raw))
    }

    /// The number, for system calls and messages.
    pub fn raw(self) -> i32 {
        self.0
    }
}

/// The number that is not a [`Pid`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} is not a process that may be signalled")]
pub struct NotSignallable(pub i32);

impl TryFrom<i32> for Pid {
    type Error = NotSignallable;

    fn try_from(raw: i32) -> Result<Self, NotSignallable> {
        Self::new(raw).ok_or(NotSignallable(raw))
    }
}

impl From<Pid> for i32 {
    fn from(pid: Pid) -> i32 {
        pid.0
    }
}

impl std::fmt::Display for Pid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// A pid and the start time that the kernel recorded for it.
///
/// The pair is unique until the next boot; the pid alone is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Identity {
    /// The process id.
    pub pid: Pid,
    /// Start time in clock ticks since boot, field 22 of `/proc/<pid>/stat` (proc(5)).
    pub start_ticks: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_every_number_with_a_special_meaning() {
        for raw in [i32::MIN, -2, -1, 0, 1] {
            assert_eq!(Pid::new(raw), None);
        }
        assert_eq!(Pid::new(2).map(Pid::raw), Some(2));
    }
}
