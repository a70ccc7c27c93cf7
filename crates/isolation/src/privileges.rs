//! Drops privileges: capabilities, and with no_new_privs the ways to regain them.

use nacre_protocol::standing::RunAs;
use std::io;

/// The capabilities that root keeps: those that package managers and builds need for the session's own files and
/// processes. Everything that affects the machine itself is dropped, such as CAP_SYS_ADMIN, CAP_MKNOD,
/// CAP_DAC_READ_SEARCH, CAP_NET_ADMIN and CAP_SYS_PTRACE (capabilities(7) has the numbers).
const KEPT_BY_ROOT: u64 = bit(0) | bit(1) | bit(3) | bit(4) | bit(5) | bit(6) | bit(7) | bit(10);

const fn bit(number: u32) -> u64 {
    1 << number
}

/// The highest possible capability number.
const HIGHEST: u32 = 63;

#[repr(C)]
struct Header {
    version: u32,
    pid: i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Set {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// `_LINUX_CAPABILITY_VERSION_3`.
const VERSION: u32 = 0x2008_0522;

/// Drops capabilities irrevocably: all of them, or with `as_root` those that root does not need for its own files.
pub fn drop_capabilities(as_root: bool) -> io::Result<()> {
    keep(if as_root { KEPT_BY_ROOT } else { 0 })
}

/// Drops the capabilities that a container has for nacre's server alone, irrevocably. The others are those that container
/// engines give to root: without no_new_privs, package managers need some of them to install programs.
pub fn drop_rights_of_server() -> io::Result<()> {
    const NET_ADMIN: u32 = 12;
    const SYS_PTRACE: u32 = 19;
    const SYS_ADMIN: u32 = 21;
    let numbers = [NET_ADMIN, SYS_PTRACE, SYS_ADMIN];
    keep(!numbers.iter().fold(0, |all, number| all | bit(*number)))?;
    // SAFETY: numbers only.
    let is_left = |number: &u32| unsafe { libc::prctl(libc::PR_CAPBSET_READ, *number, 0, 0, 0) } == 1;
    // A program that root executes gets what is left there.
    if nix::unistd::geteuid().is_root() && numbers.iter().any(is_left) {
        return Err(io::Error::from_raw_os_error(libc::EPERM));
    }
    Ok(())
}

/// The bounding set comes first, since dropping from it requires a capability itself.
fn keep(kept: u64) -> io::Result<()> {
    for number in (0..=HIGHEST).filter(|number| kept & bit(*number) == 0) {
        // SAFETY: numbers only. An unknown number is EINVAL. Without CAP_SETPCAP it is EPERM: then no_new_privs keeps programs
        // from gaining anything, or the caller looks.
        unsafe { libc::prctl(libc::PR_CAPBSET_DROP, number, 0, 0, 0) };
    }
    let header = Header { version: VERSION, pid: 0 };
    let mut sets = [Set { effective: 0, permitted: 0, inheritable: 0 }; 2];
    // SAFETY: the structures have the kernel's layout; it fills in both halves.
    if unsafe { libc::syscall(libc::SYS_capget, &raw const header, sets.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    for (set, shift) in sets.iter_mut().zip([0, 32]) {
        let own = set.permitted & (kept >> shift) as u32;
        *set = Set { effective: own, permitted: own, inheritable: 0 };
    }
    // SAFETY: the structures have the kernel's layout and outlive the calls.
    let done = unsafe {
        libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
        libc::syscall(libc::SYS_capset, &raw const header, sets.as_ptr())
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Becomes a user irrevocably. Groups come first, since only root can set them, and the user comes last.
///
/// Plain system calls, callable between fork and exec: the C library's functions involve every thread, and a fork by
/// clone(2) still lists the threads of its parent.
pub fn become_user(RunAs { uid, gid, groups }: &RunAs) -> io::Result<()> {
    // SAFETY: the list outlives the call, and the length is that of the list.
    let done = unsafe {
        libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) == 0
            && libc::syscall(libc::SYS_setresgid, *gid, *gid, *gid) == 0
            && libc::syscall(libc::SYS_setresuid, *uid, *uid, *uid) == 0
    };
    if done { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Keeps all programs started from now on from gaining privileges, whatever their files say.
pub fn no_new_privileges() -> io::Result<()> {
    // SAFETY: numbers only.
    let done = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
