//! File descriptors that refer to one process, even after its pid has been reused.

use crate::pid::Pid;
use rustix::process::{PidfdFlags, pidfd_open};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

/// Opens a pidfd (pidfd_open(2), Linux 5.3). It becomes readable when the process ends.
///
/// # Errors
/// `ESRCH` when there is no such process, `ENOSYS` or `EPERM` where the call is missing or filtered.
pub fn open(pid: Pid) -> io::Result<OwnedFd> {
    open_to_watch(pid.raw())
}

/// Like [`open`], for any process. Init must not be signalled but can be watched: a host in a container may be init.
pub fn open_to_watch(pid: i32) -> io::Result<OwnedFd> {
    if forced_off() {
        return Err(io::Error::from_raw_os_error(libc::ENOSYS));
    }
    let pid = rustix::process::Pid::from_raw(pid).ok_or(rustix::io::Errno::SRCH)?;
    Ok(pidfd_open(pid, PidfdFlags::empty())?)
}

/// Sends a signal to the process behind a pidfd.
///
/// # Errors
/// `ESRCH` when it has ended and been reaped.
pub fn send_signal(fd: BorrowedFd<'_>, signal: i32) -> io::Result<()> {
    // SAFETY: the siginfo pointer is null, which the call allows; the descriptor is borrowed for the call.
    let result = unsafe {
        libc::syscall(libc::SYS_pidfd_send_signal, fd.as_raw_fd(), signal, std::ptr::null::<libc::siginfo_t>(), 0)
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// True when this system supports pidfds.
pub fn available() -> bool {
    open_to_watch(std::process::id() as i32).is_ok()
}

/// `NACRE_PIDFD=off` makes every process of nacre behave as on a system without pidfds, so that the fallback is tested.
fn forced_off() -> bool {
    use std::sync::OnceLock;
    static OFF: OnceLock<bool> = OnceLock::new();
    *OFF.get_or_init(|| std::env::var_os("NACRE_PIDFD").is_some_and(|value| value == "off"))
}
