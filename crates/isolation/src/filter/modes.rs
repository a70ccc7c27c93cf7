//! Refuses the set-user-ID and set-group-ID bits.
//!
//! no_new_privs makes such programs harmless inside. Outside, a set-user-ID copy of a shell in the workspace gives every
//! user of the machine the rights of the host's user. A filter cannot distinguish directories, so they cannot get the
//! set-group-ID bit either, except by inheriting it from their parent.

use super::builder::{Builder, argument, refuse};
use crate::broker::SYS_FCHMODAT2;

const SET_ID: u32 = libc::S_ISUID | libc::S_ISGID;

/// Calls that set a mode, and the number of that argument. mkdir(2) is missing: the kernel ignores the bits there.
const MODES: &[(libc::c_long, u32)] =
    &[(libc::SYS_fchmod, 1), (libc::SYS_fchmodat, 2), (SYS_FCHMODAT2, 2), (libc::SYS_mknodat, 2)];

#[cfg(target_arch = "x86_64")]
const MODES_HERE: &[(libc::c_long, u32)] = &[(libc::SYS_chmod, 1), (libc::SYS_mknod, 1), (libc::SYS_creat, 1)];
#[cfg(target_arch = "aarch64")]
const MODES_HERE: &[(libc::c_long, u32)] = &[];

/// Calls that may create a file, and the number of the argument with flags. The mode follows.
#[cfg(target_arch = "x86_64")]
const OPENING: &[(libc::c_long, u32)] = &[(libc::SYS_openat, 2), (libc::SYS_open, 1)];
#[cfg(target_arch = "aarch64")]
const OPENING: &[(libc::c_long, u32)] = &[(libc::SYS_openat, 2)];

/// O_CREAT, and O_TMPFILE without O_DIRECTORY. Without them, the kernel ignores the mode, which may be anything.
const CREATING: u32 = (libc::O_CREAT | libc::O_TMPFILE & !libc::O_DIRECTORY) as u32;

/// See the module. Programs that cannot set a mode report EPERM as they do on file systems without the bits.
pub fn refuse_set_id(filter: &mut Builder) {
    let refused = refuse(libc::EPERM);
    for (number, mode) in MODES.iter().chain(MODES_HERE) {
        filter.call(*number, |filter| filter.any_bit(*mode, SET_ID, refused));
    }
    for (number, flags) in OPENING {
        filter.call(*number, |filter| {
            filter.load(argument(*flags));
            filter.jump(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, CREATING, 0, 3);
            filter.any_bit(*flags + 1, SET_ID, refused);
        });
    }
    // Its mode is behind a pointer. Programs fall back to openat(2), as on a kernel before 5.6.
    filter.call(libc::SYS_openat2, |filter| filter.give(refuse(libc::ENOSYS)));
}
