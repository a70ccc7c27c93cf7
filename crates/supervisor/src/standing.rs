//! What everything in a session runs under, besides its control group: limits, user, confinement.
//!
//! Every process of the session goes through [`Standing::take`] before it does anything for the session: those that the
//! supervisor starts by exec (`spawn`), and the files helper, which is a fork (`files`). What it takes on is inherited by
//! all that they start, and cannot be given up.

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
    /// The user, when that is not this process's.
    pub user: Option<&'a RunAs>,
    /// Resource limits.
    pub limits: ResourceLimits,
    /// What confines it.
    pub confined: Option<&'a Confined>,
}

impl Standing<'_> {
    /// Forks a child where it belongs: inside the namespaces, and in a control group. Returns as [`fork::fork`] does.
    ///
    /// # Errors
    /// The step that failed, and the reason.
    pub fn fork(&self, group: Option<i32>) -> Result<(libc::pid_t, bool), (StartStep, io::Error)> {
        match self.confined {
            Some(confined) => confined.fork(group).map_err(|error| (StartStep::Isolation, error)),
            None => fork::fork(0, group).map_err(|error| (StartStep::Prepare, error)),
        }
    }

    /// Takes it on, for good.
    ///
    /// # Safety
    /// To be called in a fork: system calls only, so that an exec may follow.
    ///
    /// # Errors
    /// The step that failed; `errno` has the reason.
    pub unsafe fn take(&self) -> Result<(), StartStep> {
        // SAFETY: the caller is in a fork, and both only make system calls.
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
    /// Sets them for this process.
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

/// Gives up every privilege for good: groups first, since only root can set them, the user last; and no set-user-ID
/// program brings any back.
///
/// Plain system calls: the C library's functions ask every thread to take part, and a fork by clone(2) still lists those of
/// its parent.
///
/// # Safety
/// To be called between fork and exec: system calls only.
pub unsafe fn become_user(uid: u32, gid: u32, groups: &[u32]) -> bool {
    // SAFETY: the list outlives the call, and its length is its own.
    unsafe {
        libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) == 0
            && libc::syscall(libc::SYS_setresgid, gid, gid, gid) == 0
            && libc::syscall(libc::SYS_setresuid, uid, uid, uid) == 0
            && libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
    }
}
