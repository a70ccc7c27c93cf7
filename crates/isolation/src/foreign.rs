//! Accesses another process of the session: its memory and its sockets.

use nacre_containment::fork::{fork, wait};
use nacre_containment::proc_table;
use nacre_protocol::connections::{Caller, LONGEST_COMMAND, LONGEST_PATH};
use nacre_protocol::socket;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

/// `sizeof(struct sockaddr_storage)`: no address is longer.
const MAX_BYTES: usize = 128;

/// The process that a thread belongs to.
///
/// # Errors
/// The thread has ended.
pub fn process_of(thread: i32) -> io::Result<i32> {
    let status = proc_table::read_file(format!("/proc/{thread}/status"))?;
    let process = proc_table::numbers(&status, "Tgid:").first().and_then(|pid| i32::try_from(*pid).ok());
    process.ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// What a process executes. It is its own only if its call waits afterwards.
pub fn caller(process: i32) -> Caller {
    let link = nix::fcntl::readlink(format!("/proc/{process}/exe").as_str()).ok();
    let program = link.and_then(|path| path.into_string().ok()).filter(|path| path.len() <= LONGEST_PATH);
    let mut line = Vec::new();
    let file = File::open(format!("/proc/{process}/cmdline"));
    let _ = file.and_then(|file| file.take(LONGEST_COMMAND as u64).read_to_end(&mut line));
    let words = line.strip_suffix(&[0]).unwrap_or(&line).iter().map(|byte| if *byte == 0 { b' ' } else { *byte });
    let command = String::from_utf8_lossy(&words.collect::<Vec<_>>()).into_owned();
    Caller { pid: process, program, command: Some(command).filter(|command| !command.is_empty()) }
}

/// The same for a thread.
pub fn caller_of(thread: i32) -> Caller {
    process_of(thread).map(caller).unwrap_or_default()
}

/// Copies a part of another process's memory, at most 128 bytes.
///
/// # Errors
/// `EINVAL` for a longer part, `EFAULT` for one that does not exist.
pub fn read_memory(process: i32, address: u64, length: usize) -> io::Result<Vec<u8>> {
    if length > MAX_BYTES {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    let mut bytes = vec![0; length];
    let local = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: length };
    let remote = libc::iovec { iov_base: address as usize as *mut libc::c_void, iov_len: length };
    // SAFETY: the local part belongs to the vector; the kernel checks the remote part.
    let read = unsafe { libc::process_vm_readv(process, &raw const local, 1, &raw const remote, 1, 0) };
    if read == length as isize { Ok(bytes) } else { Err(io::Error::from_raw_os_error(libc::EFAULT)) }
}

/// Maximum bytes of a path, with the 0 at its end (PATH_MAX of Linux).
const MAX_PATH: usize = 4096;

/// Copies a path from the memory of another process; `None` if there is none, or a longer one.
pub fn read_text(process: i32, address: u64) -> Option<Vec<u8>> {
    let mut bytes = vec![0u8; MAX_PATH];
    // What follows the path may not exist: the kernel copies each part completely or not at all.
    let first = (MAX_PATH - address as usize % MAX_PATH).min(MAX_PATH);
    let local = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: MAX_PATH };
    let part = |start: u64, iov_len| libc::iovec { iov_base: start as usize as *mut libc::c_void, iov_len };
    let remote = [part(address, first), part(address.checked_add(first as u64)?, MAX_PATH - first)];
    // SAFETY: the local part belongs to the vector; the kernel checks the remote parts.
    let read = unsafe { libc::process_vm_readv(process, &raw const local, 1, remote.as_ptr(), 2, 0) };
    bytes.truncate(usize::try_from(read).ok()?);
    let end = bytes.iter().position(|byte| *byte == 0)?;
    bytes.truncate(end);
    Some(bytes)
}

/// Copies another process's descriptor (pidfd_getfd(2), Linux 5.6).
///
/// # Errors
/// Those of the two calls.
pub fn take_descriptor(process: i32, number: i32) -> io::Result<OwnedFd> {
    let pidfd = pidfd_open(Pid::from_raw(process).ok_or(io::ErrorKind::NotFound)?, PidfdFlags::empty())?;
    Ok(pidfd_getfd(pidfd, number, PidfdGetfdFlags::empty())?)
}

/// Checks whether the memory and sockets of another process can be accessed. Security modules and the filters of
/// containers can forbid both, and only root may access a process that is not `dumpable` (prctl(2)).
///
/// # Errors
/// The call that failed.
pub fn try_out(user_namespace: bool, dumpable: bool) -> io::Result<()> {
    let (ours, theirs) = socket::pair()?;
    let (target, _) = fork(0, None)?;
    if target == 0 {
        drop(ours);
        let _ = nix::sys::prctl::set_dumpable(dumpable);
        // SAFETY: a number only.
        let entered = !user_namespace || unsafe { libc::unshare(libc::CLONE_NEWUSER) } == 0;
        let _ = socket::send(theirs.as_fd(), &[u8::from(entered)], &[]);
        let _ = socket::receive(theirs.as_fd(), &mut [0; 1]);
        std::process::exit(0);
    }
    let number = theirs.as_raw_fd();
    drop(theirs);
    let _ = socket::receive(ours.as_fd(), &mut [0; 1]);
    let (helper, _) = fork(0, None)?;
    if helper == 0 {
        let byte = 0u8;
        let helped = read_memory(target, (&raw const byte) as u64, 1).and_then(|_| take_descriptor(target, number));
        std::process::exit(helped.map_or_else(|error| error.raw_os_error().unwrap_or(libc::EPERM), |_| 0));
    }
    let helped = wait(helper);
    drop(ours);
    wait(target);
    match helped {
        Some(0) => Ok(()),
        Some(errno) => Err(io::Error::from_raw_os_error(errno)),
        None => Err(io::ErrorKind::Other.into()),
    }
}
