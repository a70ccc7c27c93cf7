//! Signals to one process that never reach another process with a reused pid.

use crate::pid::{Identity, Pid};
use crate::pidfd;
use crate::proc_table::{self, Stat};
use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// The signal that interrupts the shell's current command from outside.
///
/// It is one of the two that the C library reserves: bash can neither trap nor ignore it, and no program uses it.
pub const INTERRUPT: i32 = 33;

/// Maximum bytes of `/proc/<pid>/status`: a user can have 65,536 groups.
const LONGEST_STATUS: u64 = 1 << 20;

/// Sends `signal` to the process with exactly this identity. Succeeds if that process has ended.
///
/// # Errors
/// The signal was not sent, for example because this process has no descriptor left (`EMFILE`).
pub fn send_to(target: Identity, signal: i32) -> io::Result<()> {
    send_each(target, &[signal])
}

/// Kills everything below this process. Returns whether there was anything. Callers repeat it: what is killed may have forked.
pub fn kill_descendants() -> bool {
    let own = Pid::new(std::process::id().cast_signed());
    let below = proc_table::descendants(own.as_slice(), &HashSet::new());
    // What cannot be looked up may be there.
    let is_blind = below.is_err();
    let running: Vec<Stat> = below.unwrap_or_default().into_iter().filter(Stat::is_running).collect();
    for stat in &running {
        let _ = send_to(stat.identity, libc::SIGKILL);
    }
    is_blind || !running.is_empty()
}

/// Sends several signals, one after the other.
///
/// The race: between reading the start time and sending, the process may end and its pid be reused. The pidfd is opened
/// first and the identity checked after, so the descriptor can only refer to the process that was checked. Without
/// pidfds the window is a few microseconds in which the pid would have to be reaped and handed out again, which takes
/// the kernel a full turn through the pid space.
pub fn send_each(target: Identity, signals: &[i32]) -> io::Result<()> {
    match pidfd::open(target.pid) {
        Ok(fd) => send_through(fd.as_fd(), target, signals),
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(()),
        Err(_) if proc_table::is_alive(target)? => {
            signals.iter().try_for_each(|signal| or_gone(send_to_child(target.pid, *signal)))
        }
        Err(_) => Ok(()),
    }
}

/// Sends several signals through a pidfd that was opened for `target.pid`.
pub fn send_through(fd: BorrowedFd<'_>, target: Identity, signals: &[i32]) -> io::Result<()> {
    if !proc_table::is_alive(target)? {
        return Ok(());
    }
    signals.iter().try_for_each(|signal| or_gone(pidfd::send_signal(fd, *signal)))
}

/// What was sent, where the end of the process is no error.
pub fn or_gone(outcome: io::Result<()>) -> io::Result<()> {
    match outcome {
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(()),
        other => other,
    }
}

/// Sends [`INTERRUPT`] with the number of the command that it is meant for.
///
/// # Errors
/// As for [`queue`]. The caller resends interrupts anyway.
pub fn interrupt_child(child: Pid, command: u64) -> io::Result<()> {
    queue(child, None, INTERRUPT, command)
}

/// Sends a signal with a value (rt_sigqueueinfo(2)), through a pidfd of the process if there is one.
///
/// # Errors
/// `EAGAIN` when too many signals are queued already; `ESRCH` when the process has ended.
pub fn queue(to: Pid, held: Option<BorrowedFd<'_>>, signal: i32, value: u64) -> io::Result<()> {
    // SAFETY: all zeroes is a valid `siginfo_t`. The kernel reads the fields of a queued signal: number, code, and the
    // value behind the sender's pid and uid, whose place `SigQueue` mirrors.
    let sent = unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        info.si_signo = signal;
        info.si_code = libc::SI_QUEUE;
        let queued = (&raw mut info).cast::<SigQueue>();
        (*queued).pid = libc::getpid();
        (*queued).uid = libc::getuid();
        (*queued).value = value;
        match held {
            Some(fd) => libc::syscall(libc::SYS_pidfd_send_signal, fd.as_raw_fd(), signal, &raw const info, 0),
            None => libc::syscall(libc::SYS_rt_sigqueueinfo, to.raw(), signal, &raw const info),
        }
    };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Whether a process handles [`INTERRUPT`], which would end it otherwise. A shell that has replaced itself by a program (`exec`)
/// does not. It can do so just after this look: then it ends by the wrong signal.
///
/// # Errors
/// The process has been reaped, or this process has no descriptor left (`EMFILE`).
pub fn handles_interrupt(pid: Pid) -> io::Result<bool> {
    let mut text = Vec::new();
    File::open(format!("/proc/{pid}/status"))?.take(LONGEST_STATUS).read_to_end(&mut text)?;
    Ok(text.split(|byte| *byte == b'\n').any(|line| {
        let mask = line.strip_prefix(b"SigCgt:\t").or(line.strip_prefix(b"SigIgn:\t"));
        let mask = mask.and_then(|mask| u64::from_str_radix(std::str::from_utf8(mask).ok()?, 16).ok());
        mask.is_some_and(|mask| mask >> (INTERRUPT - 1) & 1 == 1)
    }))
}

/// The part of `siginfo_t` that a queued signal uses (sigaction(2), the kernel's `_rt` member).
#[repr(C)]
struct SigQueue {
    _head: [i32; 4],
    pid: i32,
    uid: u32,
    value: u64,
}

/// Sends `signal` to the process group of a child that leads it and that the caller has not reaped yet.
pub fn send_to_group(leader: Pid, signal: i32) -> io::Result<()> {
    // SAFETY: no memory is involved; `Pid` cannot be 0, 1 or negative.
    if unsafe { libc::kill(-leader.raw(), signal) } < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Sends `signal` to a child that the caller has not reaped yet: its pid cannot be reused before that.
pub fn send_to_child(child: Pid, signal: i32) -> io::Result<()> {
    // SAFETY: no memory is involved; `Pid` cannot be 0, 1 or negative.
    if unsafe { libc::kill(child.raw(), signal) } < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
