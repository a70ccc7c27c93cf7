//! The mark of a process and of what descends from it: the soft limit of resident memory (RLIMIT_RSS).
//!
//! Without control groups, nothing else shows where an orphan comes from that has a session of its own and no environment.
//! Linux has not used this limit since 2.4.30. Processes inherit it as they do the [`crate::session_mark`], and a program that
//! reads it finds more than any memory. A process that has changed the limit has no mark.
//!
//! A mark has the pid of the supervisor in its upper bits, so that one supervisor may run below another.

mod layout;

use crate::pid::Pid;
use crate::proc_table;
use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};
use std::io;

const MARK: u64 = 1 << layout::MARK_BIT;
const NAME: u64 = (1 << layout::NAME_BITS) - 1;
/// The bits between, in which a pid fits.
const SUPERVISOR: u64 = (1 << (layout::MARK_BIT - layout::NAME_BITS)) - 1;

/// The mark of the process that has this [`crate::tree::MARK`] in its environment.
pub fn named(supervisor: Pid, name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    base(supervisor) | (hasher.finish() & NAME)
}

/// A mark that no other process has.
pub fn fresh(supervisor: Pid) -> u64 {
    base(supervisor) | (RandomState::new().hash_one(0) & NAME)
}

fn base(supervisor: Pid) -> u64 {
    MARK | (u64::from(supervisor.raw().cast_unsigned()) & SUPERVISOR) << layout::NAME_BITS
}

/// The mark of a process. `None` if it has none of this supervisor.
///
/// # Errors
/// `EMFILE` and the like: this process cannot look.
pub fn of(pid: Pid, supervisor: Pid) -> io::Result<Option<u64>> {
    Ok(proc_table::resident_limit(pid)?.filter(|limit| limit & !NAME == base(supervisor)))
}

/// Marks a process, and what it starts from now on. The hard limit stays.
///
/// # Errors
/// The process has a limit that is no mark, or the system does not allow it: nothing changes then.
pub fn give(pid: Pid, mark: u64) -> io::Result<()> {
    let (mut limit, none) = ([0, 0], std::ptr::null_mut::<[u64; 2]>());
    // SAFETY: the kernel writes the soft and the hard limit, of 64 bits each.
    let read = unsafe { libc::syscall(libc::SYS_prlimit64, pid.raw(), libc::RLIMIT_RSS, none, &raw mut limit) };
    if read < 0 {
        return Err(io::Error::last_os_error());
    }
    if limit[0] < MARK {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    let wanted = [mark, limit[1]];
    // SAFETY: the kernel only reads the two limits.
    let set = unsafe { libc::syscall(libc::SYS_prlimit64, pid.raw(), libc::RLIMIT_RSS, &raw const wanted, none) };
    if set < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};

    fn pid(child: &Child) -> Pid {
        Pid::new(child.id().cast_signed()).unwrap()
    }

    #[test]
    fn a_mark_is_inherited_and_counts_for_one_supervisor() {
        let (own, other) = (Pid::new(1 << 22).unwrap(), Pid::new(77).unwrap());
        let mut shell = Command::new("sh")
            .args(["-c", "read line; sleep 60 & wait"])
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        for mark in [named(own, "1-2"), fresh(own)] {
            give(pid(&shell), mark).unwrap();
            assert_eq!((of(pid(&shell), own).unwrap(), of(pid(&shell), other).unwrap()), (Some(mark), None));
        }
        let mark = of(pid(&shell), own).unwrap();
        drop(shell.stdin.take());
        let child = loop {
            if let [child] = crate::proc_table::children(pid(&shell)).unwrap()[..] {
                break child;
            }
        };
        assert_eq!(of(child, own).unwrap(), mark);
        for stat in [child, pid(&shell)] {
            crate::signal::send_to_child(stat, libc::SIGKILL).unwrap();
        }
        shell.wait().unwrap();
        assert_ne!(named(own, "1-2"), named(own, "1-3"));
        assert_eq!(named(own, "1-2"), named(own, "1-2"));
    }

    #[test]
    fn a_limit_that_is_no_mark_stays() {
        let mut child = Command::new("bash")
            .args(["-c", "ulimit -S -m 1000; echo; read line"])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        std::io::Read::read(child.stdout.as_mut().unwrap(), &mut [0]).unwrap();
        let own = Pid::new(77).unwrap();
        assert!(give(pid(&child), fresh(own)).is_err());
        assert_eq!(of(pid(&child), own).unwrap(), None);
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
