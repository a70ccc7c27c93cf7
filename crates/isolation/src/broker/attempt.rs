//! The calls that use files by path, which the broker looks at without deciding about them.

use super::judge::Address;
use super::notification::Call;
use crate::explain::Use;
use crate::filter::SYS_FCHMODAT2;
use crate::foreign::{read_memory, read_text};
use crate::paths::plain;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// Where a path is among the arguments of a call: the number of a directory's descriptor, if it can be relative to one, and that of
/// the path.
type Place = (Option<usize>, usize);

/// What tells what a call does with a path.
#[derive(Clone, Copy)]
enum Does {
    Uses(Use),
    /// Its flags, in this argument.
    Opens(usize),
    /// The path is in the address of a socket, whose length is in this argument.
    Binds(usize),
}

const HERE: Option<usize> = None;
const REMOVES: Does = Does::Uses(Use::Remove);
const CREATES: Does = Does::Uses(Use::Create);
const REPLACES: Does = Does::Uses(Use::Replace);
const MARKS: Does = Does::Uses(Use::Mark);
const EXECUTES: Does = Does::Uses(Use::Execute);

/// The calls, with what they do with which path. The filter refuses openat2(2).
const CALLS: &[(libc::c_long, &[(Place, Does)])] = &[
    (libc::SYS_openat, &[((Some(0), 1), Does::Opens(2))]),
    (libc::SYS_unlinkat, &[((Some(0), 1), REMOVES)]),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_renameat, &[((Some(0), 1), REMOVES), ((Some(2), 3), REPLACES)]),
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

/// Calls that newer architectures do not have.
#[cfg(target_arch = "x86_64")]
const OLD_CALLS: &[(libc::c_long, &[(Place, Does)])] = &[
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
const OLD_CALLS: &[(libc::c_long, &[(Place, Does)])] = &[];

/// The numbers of the calls.
pub fn numbers() -> impl Iterator<Item = libc::c_long> {
    CALLS.iter().chain(OLD_CALLS).map(|(number, _)| *number)
}

/// Whether a call is one of them.
pub fn is_observed(call: libc::c_long) -> bool {
    numbers().any(|number| number == call)
}

/// What a waiting call wants to use: paths from the root, without `.` and `..`. Nothing that cannot be read.
pub fn attempts(call: &Call) -> Vec<(PathBuf, Use)> {
    let known = CALLS.iter().chain(OLD_CALLS).find(|(number, _)| *number == call.number);
    let places = known.map_or(&[][..], |(_, places)| places);
    places.iter().filter_map(|((directory, path), does)| attempt(call, *directory, *path, *does)).collect()
}

fn attempt(call: &Call, directory: Option<usize>, path: usize, does: Does) -> Option<(PathBuf, Use)> {
    let argument = |index: usize| call.arguments.get(index).copied().unwrap_or_default();
    let (name, wanted) = match does {
        Does::Uses(wanted) => (text_of(call, argument(path))?, wanted),
        Does::Opens(flags) => (text_of(call, argument(path))?, opens(argument(flags) as i32)),
        Does::Binds(length) => {
            let bytes = read_memory(call.thread, argument(path), argument(length) as u32 as usize).ok()?;
            let Address::Path(name) = Address::read(&bytes) else { return None };
            (name, Use::Create)
        }
    };
    if name.is_absolute() {
        return Some((plain(&name), wanted));
    }
    let from = match directory.map(|index| argument(index) as i32) {
        None | Some(libc::AT_FDCWD) => format!("/proc/{}/cwd", call.thread),
        Some(descriptor) => format!("/proc/{}/fd/{descriptor}", call.thread),
    };
    let from = std::fs::read_link(from).ok().filter(|from| from.is_absolute())?;
    // The descriptor itself.
    (!name.as_os_str().is_empty()).then(|| (plain(&from.join(name)), wanted))
}

fn text_of(call: &Call, address: u64) -> Option<PathBuf> {
    Some(PathBuf::from(OsString::from_vec(read_text(call.thread, address)?)))
}

fn opens(flags: i32) -> Use {
    let changes = flags & libc::O_ACCMODE != libc::O_RDONLY || flags & libc::O_TRUNC != 0;
    match (changes, flags & libc::O_CREAT != 0) {
        _ if flags & libc::O_PATH != 0 => Use::Read,
        // A file without a name, in this directory.
        _ if flags & libc::O_TMPFILE == libc::O_TMPFILE => Use::Read,
        (true, true) => Use::Write,
        (true, false) => Use::Change,
        (false, true) => Use::Ensure,
        (false, false) => Use::Read,
    }
}
