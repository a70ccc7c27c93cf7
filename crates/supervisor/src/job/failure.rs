//! Why a job's command cannot start, and whether its control group is the reason.

use super::directory::Refused;
use nacre_containment::job::request::Refusal;
use std::io;
use std::path::Path;

/// Why there is no child that waits to execute its program.
#[derive(Debug, PartialEq, Eq)]
pub enum Failed {
    /// Its control group does not accept processes. The start can be repeated without a group.
    ByGroup(Refused),
    /// Any other reason.
    Otherwise(Refused),
}

impl Failed {
    /// The child could not be created.
    pub fn prepare(error: io::Error) -> Self {
        Self::Otherwise((Refusal::Spawn, format!("{}: {error}", STEPS[0].1)))
    }

    /// The child could not be created in its namespaces.
    pub fn isolate(error: io::Error) -> Self {
        Self::Otherwise((Refusal::Isolation, format!("{}: {error}", STEPS[5].1)))
    }

    /// The group's directory cannot be opened.
    pub fn open_group(error: io::Error) -> Self {
        Self::ByGroup((Refusal::Spawn, format!("{}: {error}", STEPS[usize::from(JOIN)].1)))
    }

    /// The failure that the child reported: a step and its errno, or nothing because it was killed. A killed child is
    /// no evidence against its group. A job without a group would lose track of its processes if its supervisor and
    /// guard were killed later.
    pub fn of_child(reported: Option<[u8; 2]>, cwd: &Path) -> Self {
        let Some([step, errno]) = reported else {
            return Self::Otherwise((Refusal::Spawn, format!("{}: it was killed", STEPS[0].1)));
        };
        let (kind, doing) = STEPS.get(usize::from(step)).copied().unwrap_or(STEPS[0]);
        let object = if kind == Refusal::Cwd { format!(" ('{}')", cwd.display()) } else { String::new() };
        let refused = (kind, format!("{doing}{object}: {}", io::Error::from_raw_os_error(i32::from(errno))));
        if step == JOIN { Self::ByGroup(refused) } else { Self::Otherwise(refused) }
    }
}

impl From<Failed> for Refused {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::ByGroup(refused) | Failed::Otherwise(refused) => refused,
        }
    }
}

/// The step that joins the control group.
pub const JOIN: u8 = 1;

/// The steps where the child can fail, with the kind of failure and its description.
const STEPS: [(Refusal, &str); 6] = [
    (Refusal::Spawn, "the command's process cannot be prepared"),
    (Refusal::Spawn, "the control group cannot be joined"),
    (Refusal::Limit, "the limits (openFiles, pids) cannot be set"),
    (Refusal::Spawn, "the command cannot run as that user"),
    (Refusal::Cwd, "the working directory cannot be entered"),
    (Refusal::Isolation, "the command cannot be isolated"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_group_that_takes_no_process_is_done_without() {
        let of = |reported| Failed::of_child(reported, Path::new("/missing"));
        assert!(matches!(of(Some([JOIN, libc::EBUSY as u8])), Failed::ByGroup((Refusal::Spawn, _))));
        assert!(matches!(of(Some([0, libc::EPERM as u8])), Failed::Otherwise((Refusal::Spawn, _))));
        assert!(matches!(of(Some([4, libc::ENOENT as u8])), Failed::Otherwise((Refusal::Cwd, _))));
    }

    #[test]
    fn a_child_that_was_killed_does_not_cost_the_job_its_group() {
        let Failed::Otherwise((Refusal::Spawn, message)) = Failed::of_child(None, Path::new("/")) else {
            panic!("the start is repeated without the group");
        };
        assert!(message.ends_with("it was killed"), "{message}");
    }
}
