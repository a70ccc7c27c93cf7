//! What everything in a session runs under, apart from its control group: limits, user, confinement.
//!
//! Every process of the session calls [`Standing::take`] before it does anything for the session: those that the
//! supervisor starts by exec (`spawn`), and the files helper, which is a fork (`files`). Everything that they start
//! inherits it, and none can give it up.

use nacre_containment::fork;
use nacre_isolation::confined::Confined;
use nacre_protocol::supervisor::StartStep;
use std::io;

/// The user a program runs as: user, primary group, all groups.
pub type RunAs = (u32, u32, Vec<u32>);

/// Resource limits that the program inherits.
#[derive(Clone, Copy, Debug, Default)]
pub struct ResourceLimits {
    /// RLIMIT_NOFILE.
    pub open_files: Option<u64>,
    /// RLIMIT_NPROC.
    pub processes: Option<u64>,
}

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

impl Standing<'_> {
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

    /// Applies it to this process, irrevocably.
    ///
    /// # Safety
    /// Must be called in a fork: system calls only, so that an exec may follow.
    ///
    /// # Errors
    /// The step that failed; `errno` has the reason.
    pub unsafe fn take(&self) -> Result<(), StartStep> {
        // SAFETY: the caller is in a fork, and both functions only make system calls.
        unsafe {
            if !self.limits.set() {
                return Err(StartStep::Limits);
            }
            if !self.user.is_none_or(|(uid, gid, groups)| become_user(*uid, *gid, groups)) {
                return Err(StartStep::User);
            }
        }
        Ok(())
    }
}

impl ResourceLimits {
    /// Sets the limits for this process.
    ///
    /// # Safety
    /// System calls only; callable between fork and exec.
    pub unsafe fn set(self) -> bool {
        let set = |resource, value: Option<u64>| {
            let Some(value) = value else { return true };
            let limit = libc::rlimit { rlim_cur: value, rlim_max: value };
            // SAFETY: the structure outlives the call.
            unsafe { libc::setrlimit(resource, &raw const limit) == 0 }
        };
        set(libc::RLIMIT_NOFILE, self.open_files) && set(libc::RLIMIT_NPROC, self.processes)
    }
}

/// Gives up every privilege irrevocably. Groups come first, since only root can set them, and the user comes last. No
/// set-user-ID program restores any privilege.
///
/// Plain system calls: the C library's functions involve every thread, and a fork by clone(2) still lists the threads
/// of its parent.
///
/// # Safety
/// Must be called between fork and exec: system calls only.
pub unsafe fn become_user(uid: u32, gid: u32, groups: &[u32]) -> bool {
    // SAFETY: the list outlives the call, and the length is that of the list.
    unsafe {
        libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) == 0
            && libc::syscall(libc::SYS_setresgid, gid, gid, gid) == 0
            && libc::syscall(libc::SYS_setresuid, uid, uid, uid) == 0
            && libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
    }
}
