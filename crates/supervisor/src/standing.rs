//! What everything in a session runs under, apart from its control group: limits, user, confinement.
//!
//! Every process of the session calls [`Standing::take`] before it does anything for the session: those that the
//! supervisor starts by exec (`spawn`), and the files helper, which is a fork (`files`). Everything that they start
//! inherits it, and none can give it up.

use nacre_containment::fork;
use nacre_isolation::confined::Confined;
use nacre_isolation::privileges;
use nacre_protocol::standing::{ResourceLimits, RunAs};
use nacre_protocol::supervisor::{Setup, StartStep};
use nix::sys::resource::{Resource, setrlimit};
use std::io;

/// See the module.
#[derive(Clone, Copy)]
pub struct Standing<'a> {
    /// The user, if not this process's.
    pub user: Option<&'a RunAs>,
    /// Resource limits.
    pub limits: ResourceLimits,
    /// What confines it.
    pub confined: Option<&'a Confined>,
}

impl<'a> Standing<'a> {
    /// What the session's processes run under, except for a confinement.
    pub fn of(setup: &'a Setup) -> Self {
        Self { user: setup.user.as_ref(), limits: setup.limits, confined: None }
    }

    /// Forks a child inside the namespaces and in a control group. Returns like [`fork::fork`].
    ///
    /// # Errors
    /// The step that failed, and the reason.
    pub fn fork(&self, group: Option<i32>) -> Result<(libc::pid_t, bool), (StartStep, io::Error)> {
        match self.confined {
            Some(confined) => confined.fork(group).map_err(|error| (StartStep::Isolation, error)),
            None => fork::fork(0, group).map_err(|error| (StartStep::Prepare, error)),
        }
    }

    /// Applies it to this process, irrevocably. System calls only, so that it can be used between fork and exec.
    ///
    /// # Errors
    /// The step that failed, and the reason.
    pub fn take(&self) -> Result<(), (StartStep, io::Error)> {
        let ResourceLimits { open_files, processes } = self.limits;
        for (resource, value) in [(Resource::RLIMIT_NOFILE, open_files), (Resource::RLIMIT_NPROC, processes)] {
            let set = value.map_or(Ok(()), |value| setrlimit(resource, value, value));
            set.map_err(|errno| (StartStep::Limits, errno.into()))?;
        }
        let Some(user) = self.user else { return Ok(()) };
        // No set-user-ID program may restore any privilege.
        let become_user = privileges::become_user(user).and_then(|()| privileges::no_new_privileges());
        become_user.map_err(|error| (StartStep::User, error))
    }
}
