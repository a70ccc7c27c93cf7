//! Checks that a connection has reached a program of the session. A directory that the session writes may also
//! contain sockets of other programs.

use nacre_containment::fork::{fork, wait};
use nix::sys::socket::{getsockopt, sockopt};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;

/// Maximum length of a chain of parents.
const MAX_PARENTS: usize = 10_000;

/// Checks the process that called listen(2) on the other end. Its pid remains known after it has ended, as with
/// servers that fork after listening.
///
/// In a pid namespace of the session the pid is conclusive: processes outside have none there. Elsewhere, a listener
/// must be a descendant of the supervisor, or have ended.
///
/// # Errors
/// EPERM for a program outside the session; those of the calls.
pub fn check(socket: &OwnedFd, has_pid_namespace: bool, supervisor: u32) -> io::Result<()> {
    let is_own = if has_pid_namespace { is_inside(socket)? } else { descends_from(listener(socket)?, supervisor) };
    if is_own { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::EPERM)) }
}

/// Asks from inside the pid namespace, which this process has entered for its children.
fn is_inside(socket: &OwnedFd) -> io::Result<bool> {
    let (child, _) = fork(0, None)?;
    if child == 0 {
        let is_own = listener(socket).is_ok_and(|pid| pid > 0);
        // SAFETY: leaves without running destructors, which belong to the parent.
        unsafe { libc::_exit(i32::from(!is_own)) };
    }
    Ok(wait(child) == Some(0))
}

/// The pid of the process that called listen(2) on the other end, in this pid namespace (unix(7), SO_PEERCRED).
fn listener(socket: &OwnedFd) -> io::Result<i32> {
    Ok(getsockopt(socket, sockopt::PeerCredentials)?.pid())
}

/// Follows the chain of parents. The supervisor adopts orphans, so the chain of its descendants ends there.
fn descends_from(pid: i32, supervisor: u32) -> bool {
    let mut at = pid;
    for _ in 0..MAX_PARENTS {
        if u32::try_from(at) == Ok(supervisor) {
            return true;
        }
        match parent_of(at) {
            Some(parent) if parent > 0 => at = parent,
            Some(_) => return false,
            // It has ended: the listener itself, or a parent whose children were adopted meanwhile.
            None if at == pid => return true,
            None => at = pid,
        }
    }
    false
}

/// The parent in `/proc/<pid>/stat`. The working directory is the machine's /proc.
fn parent_of(pid: i32) -> Option<i32> {
    let mut text = Vec::new();
    File::open(format!("{pid}/stat")).ok()?.take(4096).read_to_end(&mut text).ok()?;
    let after_name = text.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(text.get(after_name + 1..)?).ok()?;
    rest.split_ascii_whitespace().nth(1)?.parse().ok()
}
