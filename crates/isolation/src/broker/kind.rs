//! The calls that the filter passes to the broker, by their numbers.

use crate::explain::Use;

/// What the broker does with a call.
#[derive(Clone, Copy)]
pub enum Kind {
    /// Connects a socket.
    Connect,
    /// Judges the library that it maps.
    Load,
    /// Notes that the caller restricts itself, and lets the kernel carry it out.
    Restrict,
    /// Looks at the paths that it uses, and lets the kernel carry it out, unless it renames a directory.
    Use(Paths),
    /// Reports and refuses it, as the filter does.
    Refuse,
}

/// Paths of a call, and what it does with each. Two for the calls that rename, at most one for all others.
pub type Paths = &'static [(Place, Does)];

/// Where a path is among the arguments of a call: the number of a directory's descriptor, if it can be relative to one, and that of
/// the path.
pub type Place = (Option<usize>, usize);

/// What tells what a call does with a path.
#[derive(Clone, Copy)]
pub enum Does {
    Uses(Use),
    /// Its flags, in this argument.
    Opens(usize),
    /// The path is in the address of a socket, whose length is in this argument.
    Binds(usize),
}

/// fchmodat2 (Linux 6.6).
pub const SYS_FCHMODAT2: libc::c_long = 452;

/// landlock_restrict_self (Linux 5.13), also for programs with 32 bits.
const SYS_LANDLOCK_RESTRICT_SELF: libc::c_long = 446;

/// renameat(2), which the libc crate does not have everywhere.
#[cfg(target_arch = "x86_64")]
const SYS_RENAMEAT: libc::c_long = 264;
#[cfg(target_arch = "aarch64")]
const SYS_RENAMEAT: libc::c_long = 38;

const HERE: Option<usize> = None;
const REMOVES: Does = Does::Uses(Use::Remove);
const CREATES: Does = Does::Uses(Use::Create);
const REPLACES: Does = Does::Uses(Use::Replace);
const MARKS: Does = Does::Uses(Use::Mark);
const EXECUTES: Does = Does::Uses(Use::Execute);

/// The calls that use files by path. The filter refuses openat2(2).
const CALLS: &[(libc::c_long, Paths)] = &[
    (libc::SYS_openat, &[((Some(0), 1), Does::Opens(2))]),
    (libc::SYS_unlinkat, &[((Some(0), 1), REMOVES)]),
    (SYS_RENAMEAT, &[((Some(0), 1), REMOVES), ((Some(2), 3), REPLACES)]),
    (libc::SYS_renameat2, &[((Some(0), 1), REMOVES), ((Some(2), 3), REPLACES)]),
    (libc::SYS_mkdirat, &[((Some(0), 1), CREATES)]),
    (libc::SYS_mknodat, &[((Some(0), 1), CREATES)]),
    (libc::SYS_linkat, &[((Some(2), 3), CREATES)]),
    (libc::SYS_symlinkat, &[((Some(1), 2), CREATES)]),
    (libc::SYS_truncate, &[((HERE, 0), Does::Uses(Use::Change))]),
    (libc::SYS_fchmodat, &[((Some(0), 1), MARKS)]),
    (SYS_FCHMODAT2, &[((Some(0), 1), MARKS)]),
    (libc::SYS_fchownat, &[((Some(0), 1), MARKS)]),
    (libc::SYS_utimensat, &[((Some(0), 1), MARKS)]),
    (libc::SYS_execve, &[((HERE, 0), EXECUTES)]),
    (libc::SYS_execveat, &[((Some(0), 1), EXECUTES)]),
    (libc::SYS_bind, &[((HERE, 1), Does::Binds(2))]),
];

/// Those that newer architectures do not have.
#[cfg(target_arch = "x86_64")]
const OLD_CALLS: &[(libc::c_long, Paths)] = &[
    (libc::SYS_open, &[((HERE, 0), Does::Opens(1))]),
    (libc::SYS_creat, &[((HERE, 0), Does::Uses(Use::Write))]),
    (libc::SYS_unlink, &[((HERE, 0), REMOVES)]),
    (libc::SYS_rmdir, &[((HERE, 0), REMOVES)]),
    (libc::SYS_rename, &[((HERE, 0), REMOVES), ((HERE, 1), REPLACES)]),
    (libc::SYS_mkdir, &[((HERE, 0), CREATES)]),
    (libc::SYS_mknod, &[((HERE, 0), CREATES)]),
    (libc::SYS_link, &[((HERE, 1), CREATES)]),
    (libc::SYS_symlink, &[((HERE, 1), CREATES)]),
    (libc::SYS_chmod, &[((HERE, 0), MARKS)]),
    (libc::SYS_chown, &[((HERE, 0), MARKS)]),
    (libc::SYS_lchown, &[((HERE, 0), MARKS)]),
];
#[cfg(not(target_arch = "x86_64"))]
const OLD_CALLS: &[(libc::c_long, Paths)] = &[];

/// The numbers of the calls that rename for programs with 32 bits, each with the number here.
#[cfg(target_arch = "x86_64")]
const OF_32_BITS: &[(libc::c_long, libc::c_long)] =
    &[(38, libc::SYS_rename), (302, SYS_RENAMEAT), (353, libc::SYS_renameat2)];
#[cfg(target_arch = "aarch64")]
const OF_32_BITS: &[(libc::c_long, libc::c_long)] = &[(329, SYS_RENAMEAT), (382, libc::SYS_renameat2)];

impl Kind {
    /// That of a call of this architecture.
    pub fn of(number: libc::c_long) -> Self {
        match number {
            libc::SYS_connect => Self::Connect,
            libc::SYS_mmap => Self::Load,
            SYS_LANDLOCK_RESTRICT_SELF => Self::Restrict,
            number => calls().find(|(known, _)| *known == number).map_or(Self::Refuse, |(_, paths)| Self::Use(paths)),
        }
    }
}

fn calls() -> impl Iterator<Item = (libc::c_long, Paths)> {
    CALLS.iter().chain(OLD_CALLS).copied()
}

/// The calls that use files by path.
pub fn observed_calls() -> impl Iterator<Item = libc::c_long> {
    calls().map(|(number, _)| number)
}

/// The calls that rename, and the one by which a program restricts itself with Landlock.
pub fn renaming_calls() -> impl Iterator<Item = libc::c_long> {
    let renames = calls().filter(|(_, paths)| paths.len() == 2).map(|(number, _)| number);
    renames.chain([SYS_LANDLOCK_RESTRICT_SELF])
}

/// The numbers of the same calls for programs with 32 bits.
pub fn renaming_calls_of_32_bits() -> impl Iterator<Item = libc::c_long> {
    OF_32_BITS.iter().map(|(number, _)| *number).chain([SYS_LANDLOCK_RESTRICT_SELF])
}

/// The number that a call of a program with 32 bits has here.
pub fn with_64_bits(number: libc::c_long) -> libc::c_long {
    OF_32_BITS.iter().find(|(known, _)| *known == number).map_or(number, |(_, here)| *here)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn programs_with_32_bits_have_the_same_calls() {
        let here: HashSet<libc::c_long> = renaming_calls_of_32_bits().map(with_64_bits).collect();
        assert_eq!(here, renaming_calls().collect());
        assert!(here.iter().all(|number| matches!(Kind::of(*number), Kind::Use([_, _]) | Kind::Restrict)));
        assert!(matches!(Kind::of(libc::SYS_mount), Kind::Refuse));
    }
}
