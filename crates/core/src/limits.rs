//! The limits of a sandbox and its processes, and how this system enforces them.
//!
//! Control groups limit memory, processors and the number of processes. A resource limit, which children inherit
//! (setrlimit(2)), limits descriptors. If there is no controller for the number of processes, a resource limit replaces
//! it; that limit counts all processes of the user and does not apply to root.

use crate::capabilities::Capabilities;
use crate::error::{Code, Error};
use nacre_containment::cgroup::{self, Group};
use nacre_containment::limits::{EnableError, Limits as GroupLimits};
use nacre_protocol::standing::ResourceLimits;
use std::path::PathBuf;

/// The requested limits; `None` sets no limit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Limits {
    /// Bytes.
    pub memory: Option<u64>,
    /// Processors.
    pub cpus: Option<f64>,
    /// Processes and threads.
    pub pids: Option<u64>,
    /// Descriptors of each process.
    pub open_files: Option<u64>,
}

/// How limits are enforced.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Enforcement {
    /// The part that the control group enforces.
    pub group: GroupLimits,
    /// The part that processes inherit.
    pub inherited: ResourceLimits,
}

impl Limits {
    /// Determines how to enforce the limits below `parent`, and enables the controllers there.
    ///
    /// # Errors
    /// `LIMIT_UNSUPPORTED`, naming the limits and the reason.
    pub fn enforcement(&self, parent: Option<&PathBuf>, binds_user: bool) -> Result<Enforcement, Error> {
        let mut group = GroupLimits {
            memory: self.memory,
            millicpus: self.cpus.map(|cpus| (cpus * 1000.0).round() as u64),
            pids: self.pids,
        };
        let mut processes = None;
        if group.pids.is_some()
            && binds_user
            && enable(&GroupLimits { pids: group.pids, ..GroupLimits::default() }, parent).is_err()
        {
            processes = group.pids.take();
        }
        enable(&group, parent).map_err(|reason| {
            let names: Vec<&str> =
                [(self.memory.is_some(), "memory"), (self.cpus.is_some(), "cpus"), (group.pids.is_some(), "pids")]
                    .into_iter()
                    .filter_map(|(asked, name)| asked.then_some(name))
                    .collect();
            let message = format!(
                "the limits ({}) cannot be enforced here: {reason}; leave them out, or see `npx nacre doctor`",
                names.join(", ")
            );
            Error::new(Code::LimitUnsupported, message)
        })?;
        Ok(Enforcement { group, inherited: ResourceLimits { open_files: self.open_files, processes } })
    }
}

/// Maximum bytes of the end of an output that are read.
const MAX_PRINTED: usize = 64 << 10;

/// The limits that a failed command has reached, as it says. Those of control groups show in other ways.
pub fn reached(printed: &[u8], limits: ResourceLimits) -> Vec<&'static str> {
    if limits == ResourceLimits::default() {
        return Vec::new();
    }
    let end = printed.get(printed.len().saturating_sub(MAX_PRINTED)..).unwrap_or_default();
    let text = String::from_utf8_lossy(end).to_lowercase();
    let says = |test: &dyn Fn(&str) -> bool| text.lines().any(test);
    let descriptors = |line: &str| {
        let is_other = line.contains("in system") || line.contains("inotify");
        !is_other && (line.contains("too many open files") || line.contains("emfile"))
    };
    let processes = |line: &str| {
        let starts = line.contains("fork") || line.contains("spawn") || line.contains("thread");
        starts && (line.contains("resource temporarily unavailable") || line.contains("eagain"))
    };
    let mut found = Vec::new();
    if limits.open_files.is_some() && says(&descriptors) {
        found.push("openFiles");
    }
    if limits.processes.is_some() && says(&processes) {
        found.push("pids");
    }
    found
}

/// Why control groups cannot enforce limits.
#[derive(Debug, thiserror::Error)]
enum Unenforceable {
    #[error("control groups are not used")]
    NoGroups,
    #[error(transparent)]
    Controller(#[from] EnableError),
}

fn enable(limits: &GroupLimits, parent: Option<&PathBuf>) -> Result<(), Unenforceable> {
    match parent {
        _ if limits.is_empty() => Ok(()),
        Some(parent) => Ok(limits.enable_below(parent)?),
        None => Err(Unenforceable::NoGroups),
    }
}

/// Creates the group that all sessions of a sandbox share, with the sandbox's limits.
///
/// # Errors
/// `LIMIT_UNSUPPORTED`.
pub fn sandbox_group(
    limits: &GroupLimits,
    capabilities: &Capabilities,
    unique: &str,
) -> Result<Option<PathBuf>, Error> {
    let Some(parent) = capabilities.group_parent.as_ref().filter(|_| !limits.is_empty()) else { return Ok(None) };
    let refused = |error: std::io::Error| {
        Error::new(Code::LimitUnsupported, format!("the sandbox's limits cannot be enforced here: {error}"))
    };
    let group = Group::create(parent, &cgroup::name_of_sandbox(unique)).map_err(refused)?;
    limits.apply(&group).map_err(refused)?;
    Ok(Some(group.path().to_path_buf()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_needs_a_controller_is_refused_without_groups() {
        let memory = Limits { memory: Some(1), ..Limits::default() };
        let error = memory.enforcement(None, true).unwrap_err();
        assert_eq!(error.code, Code::LimitUnsupported);
        assert!(error.message.contains("(memory)"));
        let pids = Limits { pids: Some(9), open_files: Some(64), ..Limits::default() };
        assert!(pids.enforcement(None, false).is_err());
        let found = pids.enforcement(None, true).unwrap();
        assert_eq!(found.inherited, ResourceLimits { processes: Some(9), open_files: Some(64) });
    }

    #[test]
    fn a_limit_is_reached_only_if_it_is_set_and_the_command_says_so() {
        let both = ResourceLimits { processes: Some(9), open_files: Some(64) };
        let descriptors = b"a\nOSError: [Errno 24] Too many open files: 'x'\n";
        assert_eq!(reached(descriptors, both), ["openFiles"]);
        assert_eq!(reached(descriptors, ResourceLimits { open_files: None, ..both }), [""; 0]);
        assert_eq!(reached(b"Error: EMFILE: too many open files, open 'x'", both), ["openFiles"]);
        assert_eq!(reached(b"bash: fork: retry: Resource temporarily unavailable", both), ["pids"]);
        assert_eq!(reached(b"Error: spawn ls EAGAIN", both), ["pids"]);
        for other in [
            "inotify_init: Too many open files",
            "Too many open files in system",
            "read: Resource temporarily unavailable",
        ] {
            assert_eq!(reached(other.as_bytes(), both), [""; 0], "{other}");
        }
    }
}
