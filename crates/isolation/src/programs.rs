//! The programs that have hosts of their own.
//!
//! [`resolve`] finds their executables when a session begins, and refuses those that the session could replace or speak for. At
//! connect(2), [`of`] compares the file that the calling process executes. What a process executes says what it does as long
//! as nothing else gets in: the filter refuses ptrace(2) and its kind, /proc is read-only, and [`may_load`] keeps libraries out
//! that the session could have written.

mod resolve;

pub use resolve::{Program, resolve};

use nacre_protocol::confinement::{KnownFile, KnownProgram, KnownPrograms};
use nacre_protocol::standing::RunAs;
use rustix::fs::{Mode, OFlags, Stat, StatVfsMountFlags, fstat, fstatvfs, open, readlink};
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// What identifies a file.
fn identity(path: &Path, found: &Stat) -> KnownFile {
    KnownFile {
        path: path.into(),
        file: (found.st_dev, found.st_ino),
        changed: (found.st_ctime, found.st_ctime_nsec as i64),
        bytes: found.st_size as u64,
    }
}

/// The program that a process executes. It is certain only if a call of the process waits afterwards.
///
/// # Errors
/// It cannot be looked at: then it may be any program.
pub fn of(process: i32, known: &KnownPrograms) -> io::Result<Option<&KnownProgram>> {
    let file = open(format!("/proc/{process}/exe"), OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let found = fstat(&file)?;
    let is_same = |one: &KnownFile| one.file == (found.st_dev, found.st_ino);
    let Some(program) = known.programs.iter().find(|program| program.files.iter().any(is_same)) else {
        return Ok(None);
    };
    let executed = identity(&path_of(&file)?, &found);
    Ok(Some(program).filter(|program| program.files.contains(&executed) && is_read_only(&file)))
}

/// Whether a program with hosts of its own may load a library: the session cannot have written it.
pub fn may_load(library: &OwnedFd, path: &Path, known: &KnownPrograms, user: &RunAs) -> bool {
    let has_one_name = || fstat(library).is_ok_and(|found| has_one_name(&found, user));
    is_read_only(library) && !known.changeable.iter().any(|root| path.starts_with(root)) && has_one_name()
}

/// Whether the session sees it on a mount where it cannot write.
fn is_read_only(file: &OwnedFd) -> bool {
    fstatvfs(file).is_ok_and(|system| system.f_flag.contains(StatVfsMountFlags::RDONLY))
}

/// Whether programs of a user cannot write to a file by another one of its names, which may be where they can write.
fn has_one_name(found: &Stat, user: &RunAs) -> bool {
    let may_write = user.uid == 0 || user.uid == found.st_uid || found.st_mode & 0o022 != 0;
    found.st_nlink <= 1 || !may_write
}

/// The path of an open file, as its mount namespace names it.
pub fn path_of(file: &OwnedFd) -> io::Result<PathBuf> {
    let link = readlink(format!("/proc/self/fd/{}", file.as_raw_fd()), Vec::new())?;
    Ok(PathBuf::from(OsString::from_vec(link.into_bytes())))
}
