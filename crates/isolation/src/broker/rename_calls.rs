//! The numbers of the calls that rename, and of the one by which a program restricts itself with Landlock.

/// landlock_restrict_self (Linux 5.13).
const SYS_LANDLOCK_RESTRICT_SELF: libc::c_long = 446;

/// renameat(2), which the libc crate does not have everywhere.
#[cfg(target_arch = "x86_64")]
pub const SYS_RENAMEAT: libc::c_long = 264;
#[cfg(target_arch = "aarch64")]
pub const SYS_RENAMEAT: libc::c_long = 38;

#[cfg(target_arch = "x86_64")]
const RENAMES: &[libc::c_long] = &[libc::SYS_rename, SYS_RENAMEAT, libc::SYS_renameat2];
#[cfg(target_arch = "aarch64")]
const RENAMES: &[libc::c_long] = &[SYS_RENAMEAT, libc::SYS_renameat2];

/// The numbers of the calls that rename, and of that by which a program restricts itself.
pub fn numbers() -> impl Iterator<Item = libc::c_long> {
    RENAMES.iter().copied().chain([SYS_LANDLOCK_RESTRICT_SELF])
}

/// The numbers of the same calls for programs with 32 bits, in the same order.
#[cfg(target_arch = "x86_64")]
pub const OF_32_BITS: [libc::c_long; 3] = [38, 302, 353];
#[cfg(target_arch = "aarch64")]
pub const OF_32_BITS: [libc::c_long; 2] = [329, 382];

/// The number that a call of a program with 32 bits would have here.
pub fn with_64_bits(number: libc::c_long) -> libc::c_long {
    OF_32_BITS.iter().position(|known| *known == number).map_or(number, |at| RENAMES[at])
}

/// Whether a call restricts the caller with Landlock.
pub fn restricts_itself(number: libc::c_long) -> bool {
    number == SYS_LANDLOCK_RESTRICT_SELF
}

/// Whether a call renames something.
pub fn is_rename(number: libc::c_long) -> bool {
    RENAMES.contains(&number)
}
