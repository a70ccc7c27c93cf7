//! Forks with a place for the child: its parent, its namespaces, its control group.

use crate::pid::Pid;
use crate::signal::send_to_child;
use rustix::process::{WaitOptions, waitpid};
use std::io;

/// From linux/sched.h; the constant of the libc crate is too narrow.
const CLONE_INTO_CGROUP: u64 = 1 << 33;

/// Forks with flags of clone(2). Returns the pid, 0 in the child, and whether the child was born in the control group.
///
/// Birth in a group (clone3(2), Linux 5.7) takes nothing. Moving a process there afterwards would wait for the kernel's
/// readers of the group lock, which takes 5 to 20 ms. Where the kernel does not place the child, it is forked without.
///
/// To be called from a process with one thread: the C library prepares nothing, so the child of another would have to keep
/// to async-signal-safe calls.
///
/// # Errors
/// Those of clone(2).
pub fn fork(flags: i32, group: Option<i32>) -> io::Result<(libc::pid_t, bool)> {
    // With CLONE_PARENT the signal at the end is the parent's own, and clone3(2) takes no other.
    let signal = if flags & libc::CLONE_PARENT == 0 { libc::SIGCHLD } else { 0 };
    if let Some(group) = group {
        // SAFETY: all zeroes is a valid `clone_args`.
        let mut arguments: libc::clone_args = unsafe { std::mem::zeroed() };
        arguments.flags = u64::from(flags.cast_unsigned()) | CLONE_INTO_CGROUP;
        arguments.exit_signal = signal as u64;
        arguments.cgroup = group as u64;
        // SAFETY: without CLONE_VM this is a fork.
        let child = unsafe { libc::syscall(libc::SYS_clone3, &raw mut arguments, size_of::<libc::clone_args>()) };
        if child >= 0 {
            return Ok((child as libc::pid_t, true));
        }
    }
    // SAFETY: as above; no pointer is passed.
    let child = unsafe { libc::syscall(libc::SYS_clone, i64::from(flags | signal), 0, 0, 0, 0) };
    if child >= 0 { Ok((child as libc::pid_t, false)) } else { Err(io::Error::last_os_error()) }
}

/// Whether a child can fork a sibling (CLONE_PARENT). gVisor ignores the flag before June 2026: the fork is a child of the child.
/// To be called from a process with one thread and no children.
pub fn makes_siblings() -> bool {
    let Ok((child, _)) = fork(0, None) else { return false };
    if child == 0 {
        let _ = fork(libc::CLONE_PARENT, None);
        // SAFETY: exits without running destructors, which belong to the parent.
        unsafe { libc::_exit(0) };
    }
    let ended = || rustix::io::retry_on_intr(|| rustix::process::wait(WaitOptions::empty()));
    std::iter::from_fn(|| ended().ok().flatten()).count() == 2
}

/// Waits for the end of a child. Returns its exit code; `None` if a signal has ended it.
pub fn wait(child: libc::pid_t) -> Option<i32> {
    let ended = rustix::io::retry_on_intr(|| waitpid(rustix::process::Pid::from_raw(child), WaitOptions::empty()));
    ended.ok().flatten().and_then(|(_, status)| status.exit_status())
}

/// Reaps every ended child. True if no child is left.
pub fn reap_all() -> bool {
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(None) => return false,
            Err(_) => return true,
            Ok(Some(_)) => {}
        }
    }
}

/// Kills a child that has not been reaped.
pub fn kill(child: libc::pid_t) {
    let _ = Pid::new(child).map(|child| send_to_child(child, libc::SIGKILL));
}
