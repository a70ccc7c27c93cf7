//! What every process of a session or job runs under: its user and the limits that it inherits.

use serde::{Deserialize, Serialize};

/// The user a program runs as.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunAs {
    /// User.
    pub uid: u32,
    /// Primary group.
    pub gid: u32,
    /// All groups, including the primary group.
    pub groups: Vec<u32>,
}

impl RunAs {
    /// The user of this process.
    pub fn own() -> Self {
        let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let groups = rustix::process::getgroups().unwrap_or_default();
        Self { uid, gid, groups: groups.into_iter().map(rustix::process::Gid::as_raw).chain([gid]).collect() }
    }
}

/// Resource limits, which processes inherit (setrlimit(2)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceLimits {
    /// RLIMIT_NOFILE.
    pub open_files: Option<u64>,
    /// RLIMIT_NPROC.
    pub processes: Option<u64>,
}
