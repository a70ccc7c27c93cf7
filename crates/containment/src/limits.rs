//! Resource limits for a set of processes, enforced by the controllers of a version 2 control group.
//!
//! A group has a controller when every group above enables it (`cgroup.subtree_control`). The kernel lets only groups
//! without processes enable controllers, the root excepted ("no internal processes", cgroup-v2).

use crate::cgroup::Group;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// See the module. `None` sets no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Bytes, swap included.
    pub memory: Option<u64>,
    /// Processors, in thousandths.
    pub millicpus: Option<u64>,
    /// Processes and threads.
    pub pids: Option<u64>,
}

/// Why a controller cannot be enabled. Serialisable, since the supervisor reports it to the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum EnableError {
    /// The groups above do not enable the controller.
    #[error("the controller '{controller}' is not there in {}", parent.display())]
    Missing {
        /// Its name.
        controller: String,
        /// The group that lacks it.
        parent: PathBuf,
    },
    /// The kernel refuses to enable the controller.
    #[error("the controller '{controller}' cannot be handed down from {}: {}{}",
        parent.display(), io::Error::from_raw_os_error(*errno), hint(*errno))]
    Refused {
        /// Its name.
        controller: String,
        /// The group that should enable it.
        parent: PathBuf,
        /// The system's reason.
        errno: i32,
    },
}

fn hint(errno: i32) -> &'static str {
    if errno == libc::EBUSY { " (the group has processes of its own)" } else { "" }
}

/// One scheduling period, the kernel's default, in microseconds.
const CPU_PERIOD: u64 = 100_000;

impl Limits {
    /// True when no limit is set.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The controllers that enforce these limits.
    pub fn controllers(&self) -> Vec<&'static str> {
        let wanted =
            [(self.memory.is_some(), "memory"), (self.millicpus.is_some(), "cpu"), (self.pids.is_some(), "pids")];
        wanted.into_iter().filter(|(wanted, _)| *wanted).map(|(_, name)| name).collect()
    }

    /// Enables the required controllers for the groups inside `parent`.
    ///
    /// # Errors
    /// See [`EnableError`].
    pub fn enable_below(&self, parent: &Path) -> Result<(), EnableError> {
        let group = Group::at(parent);
        for controller in self.controllers() {
            let enabled = group.read("cgroup.subtree_control").unwrap_or_default();
            if enabled.split_ascii_whitespace().any(|name| name == controller) {
                continue;
            }
            let available = group.read("cgroup.controllers").unwrap_or_default();
            if !available.split_ascii_whitespace().any(|name| name == controller) {
                return Err(EnableError::Missing { controller: controller.into(), parent: parent.to_path_buf() });
            }
            group.write("cgroup.subtree_control", &format!("+{controller}")).map_err(|error| {
                let errno = error.raw_os_error().unwrap_or(libc::EIO);
                EnableError::Refused { controller: controller.into(), parent: parent.to_path_buf(), errno }
            })?;
        }
        Ok(())
    }

    /// Sets the limits of a group. When memory runs out, all of its processes are killed together: a program that lost
    /// some of its processes would not work.
    ///
    /// # Errors
    /// The system's reason.
    pub fn apply(&self, group: &Group) -> io::Result<()> {
        let write = |name: &str, value: String| fs::write(group.path().join(name), value);
        if let Some(bytes) = self.memory {
            write("memory.max", bytes.to_string())?;
            write("memory.oom.group", "1".into())?;
            // Missing where swap is not accounted for.
            let _ = write("memory.swap.max", "0".into());
        }
        if let Some(millicpus) = self.millicpus {
            write("cpu.max", format!("{} {CPU_PERIOD}", (millicpus * CPU_PERIOD / 1000).max(1000)))?;
        }
        if let Some(pids) = self.pids {
            write("pids.max", pids.to_string())?;
        }
        Ok(())
    }
}

/// True when a process of the group was killed because the memory limit was reached.
pub fn ran_out_of_memory(group: &Group) -> bool {
    let events = group.read("memory.events").unwrap_or_default();
    events.lines().filter_map(|line| line.strip_prefix("oom_kill ")).any(|count| count.trim() != "0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_limited_needs_a_controller() {
        assert!(Limits::default().is_empty() && Limits::default().controllers().is_empty());
        let limits = Limits { memory: Some(1), pids: Some(2), ..Limits::default() };
        assert_eq!(limits.controllers(), ["memory", "pids"]);
    }

    #[test]
    fn the_files_hold_what_the_kernel_reads() {
        let directory = tempfile::tempdir().unwrap();
        let limits = Limits { memory: Some(1 << 20), millicpus: Some(1500), pids: Some(7) };
        limits.apply(&Group::at(directory.path())).unwrap();
        let read = |name: &str| fs::read_to_string(directory.path().join(name)).unwrap();
        assert_eq!(
            (read("memory.max"), read("cpu.max"), read("pids.max")),
            ("1048576".into(), "150000 100000".into(), "7".into())
        );
        fs::write(directory.path().join("memory.events"), "low 0\noom 1\noom_kill 1\n").unwrap();
        assert!(ran_out_of_memory(&Group::at(directory.path())));
    }

    #[test]
    fn a_missing_controller_is_named() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("cgroup.controllers"), "pids hugetlb\n").unwrap();
        let limits = Limits { memory: Some(1), ..Limits::default() };
        assert!(limits.enable_below(directory.path()).unwrap_err().to_string().contains("'memory'"));
    }
}
