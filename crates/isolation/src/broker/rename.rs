//! Renames of directories that the kernel refuses in a copy-on-write workspace of an ordinary user.
//!
//! There, rename(2) of a directory with content in a lower layer fails with EXDEV. The filter passes each rename to the broker,
//! which lets the kernel carry out those of files. For a directory of an overlay, a fork of the broker takes the rights of the
//! session's programs, enters their namespaces, and tries the same call. Only after EXDEV it [relocates](relocation) the directory.
//!
//! Programs that have fewer rights than the session gave them are left to the kernel: those in namespaces of their own, with filters
//! of their own, and with no_new_privs that neither the session nor the host has set. Where one of these has set it, that does not
//! show which programs restrict themselves with Landlock: once one does, all programs under the same filter are left to the kernel.
//! So the broker does nothing that a program could not do.

use super::kind::Kind;
use super::notification::{Call, Listener};
use super::{Inside, Policy};
use crate::confined::take_rights;
use crate::foreign::read_text;
use crate::namespaces::Handles;
use crate::privileges::become_user;
use nacre_containment::proc_table;
use nacre_containment::relocation::{self, Place, Standing};
use nacre_protocol::confinement::Confinement;
use nacre_protocol::files::temporary_name;
use rustix::fs::{
    FileType, Mode, OFlags, RenameFlags, ResolveFlags, fstat, fstatfs, open, openat, openat2, renameat_with, stat,
};
use rustix::io::{Errno, Result};
use std::io;
use std::os::fd::OwnedFd;

/// The kind of an overlay (statfs(2)).
const OVERLAY: i64 = 0x794c_7630;
const PATH: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// Whether the filter of a session passes these calls to its broker.
pub fn is_wanted(confinement: &Confinement) -> bool {
    let needs_user = confinement.namespaces.is_some_and(|namespaces| namespaces.user);
    // A call that a signal repeats would not find the directory again.
    needs_user && confinement.brokered && confinement.workspace.is_some() && super::can_redirect().is_ok()
}

/// What a call renames.
struct Rename {
    from: (i32, u64),
    to: (i32, u64),
    flags: u32,
}

impl Rename {
    fn of(call: &Call) -> Option<Self> {
        let Kind::Use([(from, _), (to, _)]) = call.kind else { return None };
        let flags = if call.number == libc::SYS_renameat2 { call.arguments[4] as u32 } else { 0 };
        Some(Self { from: call.path(*from), to: call.path(*to), flags })
    }
}

/// A path of a waiting call, and the directory where it starts, if it is relative.
struct Named {
    start: Option<OwnedFd>,
    path: Vec<u8>,
}

impl Named {
    /// `None` for what cannot be read or opened: the kernel says why.
    fn read(thread: i32, (directory, address): (i32, u64)) -> Option<Self> {
        let path = read_text(thread, address)?;
        let (start, path) = match by_own_link(&path) {
            Some((link, rest)) => (link.into(), rest.to_vec()),
            None if path.starts_with(b"/") => return Some(Self { start: None, path }),
            None if directory == libc::AT_FDCWD => ("cwd".into(), path),
            None => (format!("fd/{directory}"), path),
        };
        let start = open(format!("/proc/{thread}/{start}"), PATH | OFlags::DIRECTORY, Mode::empty()).ok()?;
        Some(Self { start: Some(start), path })
    }

    /// Opens the directory of the last name, as the programs of the session do. `None` without a name: the kernel says why.
    fn place(&self) -> Result<Option<(OwnedFd, &[u8])>> {
        let end = self.path.iter().rposition(|byte| *byte != b'/').map_or(0, |at| at + 1);
        let path = &self.path[..end];
        let (parent, name) = match path.iter().rposition(|byte| *byte == b'/') {
            Some(at) => (&path[..=at], &path[at + 1..]),
            None => (&b"."[..], path),
        };
        if name.is_empty() || name == b"." || name == b".." {
            return Ok(None);
        }
        match &self.start {
            Some(start) => rustix::process::fchdir(start)?,
            None => std::env::set_current_dir("/").map_err(|_| Errno::NOENT)?,
        }
        // What leads to a process leads to this one.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let resolve = ResolveFlags::NO_MAGICLINKS;
        let opened = openat2(rustix::fs::CWD, parent, flags, Mode::empty(), resolve).or_else(|errno| match errno {
            // It can be entered, but not listed.
            Errno::ACCESS => openat2(rustix::fs::CWD, parent, PATH | OFlags::DIRECTORY, Mode::empty(), resolve),
            errno => Err(errno),
        });
        Ok(Some((opened?, name)))
    }
}

/// The working directory or the descriptor of the caller that a path begins with, as below `/proc/<thread>`, and the path from there.
fn by_own_link(path: &[u8]) -> Option<(&str, &[u8])> {
    let starts: [&[u8]; 3] = [b"/proc/self/", b"/proc/thread-self/", b"/dev/"];
    let rest = starts.iter().find_map(|start| path.strip_prefix(*start))?;
    let first = rest.iter().position(|byte| *byte == b'/')?;
    let end = match &rest[..first] {
        b"cwd" => first,
        b"fd" => first + 1 + rest[first + 1..].iter().position(|byte| *byte == b'/')?,
        _ => return None,
    };
    let (link, rest) = (str::from_utf8(&rest[..end]).ok()?, &rest[end + 1..]);
    let is_known = link == "cwd" || link["fd/".len()..].bytes().all(|byte| byte.is_ascii_digit());
    (is_known && !rest.is_empty()).then_some((link, rest))
}

/// Whether a fork must look at a waiting call: it renames a directory of an overlay, as far as that is known without waiting for
/// a file system.
pub fn is_of_directory(call: &Call) -> bool {
    let look = || {
        let Named { start, path } = Named::read(call.thread, Rename::of(call)?.from)?;
        let (start, within) = match start {
            Some(start) => (start, ResolveFlags::BENEATH),
            None => (open(format!("/proc/{}/root", call.thread), PATH, Mode::empty()).ok()?, ResolveFlags::IN_ROOT),
        };
        let resolve = within | ResolveFlags::CACHED | ResolveFlags::NO_MAGICLINKS;
        match openat2(&start, &path[..], PATH | OFlags::NOFOLLOW, Mode::empty(), resolve) {
            Ok(found) => Some(is_directory(&found) && fstatfs(&found).is_ok_and(|system| system.f_type == OVERLAY)),
            // A fork can find out.
            Err(Errno::AGAIN | Errno::XDEV) => Some(true),
            Err(_) => None,
        }
    };
    look().unwrap_or(false)
}

fn is_directory(file: &OwnedFd) -> bool {
    fstat(file).is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Directory)
}

/// What becomes of a call.
enum Outcome {
    /// It has succeeded.
    Done,
    /// It fails.
    Failed(Errno),
    /// The kernel carries it out.
    Left,
}

/// Answers a call, in a process of its own.
pub fn carry_out(listener: &Listener, call: &Call, inside: &Inside, policy: &Policy) {
    match rename(listener, call, inside, policy).unwrap_or(Outcome::Left) {
        Outcome::Done => listener.answer(call, Ok(())),
        Outcome::Failed(errno) => listener.answer(call, Err(errno.into())),
        Outcome::Left => listener.pass(call),
    }
}

fn rename(listener: &Listener, call: &Call, inside: &Inside, policy: &Policy) -> io::Result<Outcome> {
    let (Some(handles), Some(workspace)) = (inside.handles, &inside.confinement.workspace) else {
        return Ok(Outcome::Left);
    };
    let Some(wanted) = Rename::of(call) else { return Ok(Outcome::Left) };
    let (Some(from), Some(to)) = (Named::read(call.thread, wanted.from), Named::read(call.thread, wanted.to)) else {
        return Ok(Outcome::Left);
    };
    let has_all_rights = has_rights_of_session(call.thread, inside.confinement, handles)?;
    let standing = Standing::look()?;
    // What was read belongs to the caller only if that still waits.
    if !has_all_rights || !listener.is_waiting(call) {
        return Ok(Outcome::Left);
    }
    handles.enter()?;
    policy.user.as_ref().map_or(Ok(()), become_user)?;
    take_rights(inside.confinement, None)?;
    let (Some((old, name)), Some((new, other))) = (from.place()?, to.place()?) else { return Ok(Outcome::Left) };
    let flags = RenameFlags::from_bits_retain(wanted.flags);
    match renameat_with(&old, name, &new, other, flags) {
        Ok(()) => return Ok(Outcome::Done),
        Err(Errno::XDEV) => {}
        // The kernel says so again.
        Err(_) => return Ok(Outcome::Left),
    }
    let source = openat(&old, name, PATH | OFlags::NOFOLLOW, Mode::empty())?;
    if !is_directory(&source) || fstat(&source)?.st_dev != stat(&workspace.path)?.st_dev {
        return Ok(Outcome::Left);
    }
    let check = || if listener.is_waiting(call) { Ok(()) } else { Err(Errno::CANCELED) };
    let (from, to) = (Place { directory: &old, name }, Place { directory: &new, name: other });
    Ok(match relocation::relocate(from, to, flags, (&temporary_name(), &standing), &check) {
        Ok(()) => Outcome::Done,
        Err(errno @ (Errno::NOTEMPTY | Errno::NOSPC | Errno::DQUOT | Errno::IO)) => Outcome::Failed(errno),
        Err(_) => Outcome::Failed(Errno::XDEV),
    })
}

/// Whether a program has kept all the rights that the session gave it.
fn has_rights_of_session(thread: i32, confinement: &Confinement, handles: &Handles) -> io::Result<bool> {
    let status = |process: &str| proc_table::read_file(format!("/proc/{process}/status"));
    let (its, own) = (status(&thread.to_string())?, status("self")?);
    let number = |status: &[u8], name: &str| proc_table::numbers(status, name).first().copied();
    let filters = |status: &[u8]| number(status, "Seccomp_filters:");
    let is_locked = confinement.restricts || number(&own, "NoNewPrivs:") == Some(1);
    Ok(number(&its, "NoNewPrivs:") == Some(is_locked.into())
        && filters(&its).is_some_and(|count| filters(&own).is_some_and(|own| count == own + 1))
        && handles.have(thread)?)
}

/// Whether no_new_privs shows which programs have restricted themselves.
pub fn shows_restrictions(confinement: &Confinement) -> bool {
    // SAFETY: numbers only.
    !confinement.restricts && unsafe { libc::prctl(libc::PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) } == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_through_a_link_of_the_caller_starts_there() {
        for (path, expected) in [
            ("/proc/self/fd/7/a/b", Some(("fd/7", "a/b"))),
            ("/proc/thread-self/fd/12/a", Some(("fd/12", "a"))),
            ("/dev/fd/3/a", Some(("fd/3", "a"))),
            ("/proc/self/cwd/a", Some(("cwd", "a"))),
            ("/proc/self/cwd", None),
            ("/proc/self/fd/7", None),
            ("/proc/self/fd/7/", None),
            ("/proc/self/fd/x/a", None),
            ("/proc/self/fd/../a", None),
            ("/proc/self/root/a", None),
            ("/dev/shm/a", None),
            ("/proc/1/fd/7/a", None),
            ("a", None),
        ] {
            let expected = expected.map(|(link, rest): (&str, &str)| (link, rest.as_bytes()));
            assert_eq!(by_own_link(path.as_bytes()), expected, "{path}");
        }
    }
}
