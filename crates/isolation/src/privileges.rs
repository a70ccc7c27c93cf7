//! Drops privileges: capabilities, and with no_new_privs the ways to regain them.

use nacre_protocol::standing::RunAs;
use rustix::process::{Gid, Uid, geteuid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs, set_thread_res_gid, set_thread_res_uid,
};
use std::io;

/// The capabilities that root keeps: those that package managers and builds need for the session's own files and
/// processes. Everything that affects the machine itself is dropped, such as CAP_SYS_ADMIN, CAP_MKNOD,
/// CAP_DAC_READ_SEARCH, CAP_NET_ADMIN and CAP_SYS_PTRACE (capabilities(7)).
const KEPT_BY_ROOT: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::NET_BIND_SERVICE);

/// Those that a container has for nacre's server alone.
const OF_SERVER: CapabilitySet =
    CapabilitySet::NET_ADMIN.union(CapabilitySet::SYS_PTRACE).union(CapabilitySet::SYS_ADMIN);

/// The highest possible capability number.
const HIGHEST: u32 = 63;

/// Drops capabilities irrevocably: all of them, or with `as_root` those that root does not need for its own files.
pub fn drop_capabilities(as_root: bool) -> io::Result<()> {
    keep(if as_root { KEPT_BY_ROOT } else { CapabilitySet::empty() })
}

/// Drops the capabilities that a container has for nacre's server alone, irrevocably. The others are those that container
/// engines give to root: without no_new_privs, package managers need some of them to install programs.
pub fn drop_rights_of_server() -> io::Result<()> {
    keep(!OF_SERVER)?;
    // A program that root executes gets what is left there.
    if geteuid().is_root() && OF_SERVER.iter().any(|own| capability_is_in_bounding_set(own).unwrap_or(false)) {
        return Err(io::Error::from_raw_os_error(libc::EPERM));
    }
    Ok(())
}

/// The bounding set comes first, since dropping from it requires a capability itself.
fn keep(kept: CapabilitySet) -> io::Result<()> {
    for number in 0..=HIGHEST {
        let one = CapabilitySet::from_bits_retain(1 << number);
        if !kept.contains(one) {
            // An unknown number is EINVAL. Without CAP_SETPCAP it is EPERM: then no_new_privs keeps programs from gaining
            // anything, or the caller looks.
            let _ = remove_capability_from_bounding_set(one);
        }
    }
    let own = capabilities(None)?.permitted & kept;
    let _ = clear_ambient_capability_set();
    let sets = CapabilitySets { effective: own, permitted: own, inheritable: CapabilitySet::empty() };
    Ok(set_capabilities(None, sets)?)
}

/// Becomes a user irrevocably. Groups come first, since only root can set them, and the user comes last.
///
/// Plain system calls, callable between fork and exec: the C library's functions involve every thread, and a fork by
/// clone(2) still lists the threads of its parent.
pub fn become_user(RunAs { uid, gid, groups }: &RunAs) -> io::Result<()> {
    // SAFETY: the pointer and the length are those of the groups, which the kernel only reads.
    if unsafe { libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) } < 0 {
        return Err(io::Error::last_os_error());
    }
    let (uid, gid) = (Uid::from_raw_unchecked(*uid), Gid::from_raw_unchecked(*gid));
    set_thread_res_gid(gid, gid, gid)?;
    Ok(set_thread_res_uid(uid, uid, uid)?)
}

/// Keeps all programs started from now on from gaining privileges, whatever their files say.
pub fn no_new_privileges() -> io::Result<()> {
    Ok(set_no_new_privs(true)?)
}
