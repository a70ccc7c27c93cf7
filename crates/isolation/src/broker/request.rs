//! One connection on behalf of a program, in a process of its own.

use super::judge::{Address, Verdict, is_own, judge};
use super::notification::{self, Call, Listener};
use super::{Policy, Reconnect};
use crate::confined::Confined;
use nacre_protocol::socket;
use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

/// How often a helper looks whether its caller still waits.
const LOOK_EVERY_MICROSECONDS: libc::suseconds_t = 200_000;
/// `sizeof(struct sockaddr_storage)`, the kernel's own limit.
const MAX_ADDRESS: usize = 128;

/// Makes the connection and answers the call.
pub fn carry_out(listener: &Listener, call: &Call, confined: &Confined, policy: &Policy, reconnect: &Reconnect) {
    end_with_caller(listener, call);
    let result = connect(listener, call, confined, policy, reconnect);
    listener.answer(call, result);
}

/// Ends this process once the caller is gone. The socket may be a blocking one, and its mode is the program's to choose.
fn end_with_caller(listener: &Listener, call: &Call) {
    static LISTENER: AtomicI32 = AtomicI32::new(-1);
    static CALL: AtomicU64 = AtomicU64::new(0);
    extern "C" fn look(_: libc::c_int) {
        if !notification::is_waiting(LISTENER.load(Ordering::Relaxed), CALL.load(Ordering::Relaxed)) {
            // SAFETY: leaves without running destructors, which may not run in a handler.
            unsafe { libc::_exit(0) };
        }
    }
    LISTENER.store(listener.as_fd().as_raw_fd(), Ordering::Relaxed);
    CALL.store(call.id(), Ordering::Relaxed);
    let every = libc::timeval { tv_sec: 0, tv_usec: LOOK_EVERY_MICROSECONDS };
    let timer = libc::itimerval { it_interval: every, it_value: every };
    // SAFETY: the handler makes system calls only; both structures outlive the calls. An interrupted connect(2) is restarted.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = look as extern "C" fn(libc::c_int) as usize;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(libc::SIGALRM, &raw const action, std::ptr::null_mut());
        let mut alarm: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut alarm);
        libc::sigaddset(&raw mut alarm, libc::SIGALRM);
        libc::sigprocmask(libc::SIG_UNBLOCK, &raw const alarm, std::ptr::null_mut());
        libc::setitimer(libc::ITIMER_REAL, &raw const timer, std::ptr::null_mut());
    }
}

fn connect(
    listener: &Listener,
    call: &Call,
    confined: &Confined,
    policy: &Policy,
    reconnect: &Reconnect,
) -> io::Result<()> {
    let refused = || io::Error::from_raw_os_error(libc::EPERM);
    let process = process_of(call.thread)?;
    let bytes = read_memory(process, call.address, call.length)?;
    let theirs = take_socket(process, call.socket)?;
    let cwd = open(format!("/proc/{}/cwd", call.thread).as_str(), OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty())?;
    // The number of a process that has ended meanwhile may belong to another by now.
    if !listener.is_waiting(call) {
        return Err(refused());
    }
    match judge(Address::read(&bytes), domain_of(&theirs)?, confined.confinement(), &policy.channel_name) {
        Verdict::Connect => connect_socket(&theirs, &bytes),
        Verdict::LookUp(path) => connect_path(&theirs, &path, &cwd, confined, policy),
        Verdict::Channel => {
            let (ours, channel) = socket::pair()?;
            listener.replace_socket(call, channel.as_fd())?;
            reconnect(process, ours);
            Ok(())
        }
        Verdict::Refuse => Err(refused()),
    }
}

/// Looks a path up as the program would, and connects to what was found, whatever the path means by then.
fn connect_path(theirs: &OwnedFd, path: &Path, cwd: &OwnedFd, confined: &Confined, policy: &Policy) -> io::Result<()> {
    let proc_directory = open("/proc", OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())?;
    confined.enter()?;
    if let Some((uid, gid, groups)) = &policy.user {
        become_user(*uid, *gid, groups)?;
    }
    nix::unistd::fchdir(cwd)?;
    let found = open(path, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty())?;
    // The machine's own /proc, where this process has a number.
    nix::unistd::fchdir(&proc_directory)?;
    let link = format!("self/fd/{}", found.as_raw_fd());
    let place = PathBuf::from(nix::fcntl::readlink(link.as_str())?);
    if !is_own(&place, confined.confinement()) {
        return Err(io::Error::from_raw_os_error(libc::EPERM));
    }
    let mut address = (libc::AF_UNIX as u16).to_ne_bytes().to_vec();
    address.extend_from_slice(OsString::from(link).as_bytes());
    address.push(0);
    connect_socket(theirs, &address)
}

fn connect_socket(socket: &OwnedFd, address: &[u8]) -> io::Result<()> {
    // SAFETY: the address outlives the call, and the length is its own.
    let done = unsafe { libc::connect(socket.as_raw_fd(), address.as_ptr().cast(), address.len() as libc::socklen_t) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn become_user(uid: u32, gid: u32, groups: &[u32]) -> io::Result<()> {
    // SAFETY: the list outlives the call, and its length is its own. Raw calls: this process has one thread.
    let done = unsafe {
        libc::setgroups(groups.len(), groups.as_ptr()) == 0
            && libc::setresgid(gid, gid, gid) == 0
            && libc::setresuid(uid, uid, uid) == 0
    };
    if done { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The process of a thread.
fn process_of(thread: i32) -> io::Result<i32> {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
    line.and_then(|text| text.trim().parse().ok()).ok_or_else(|| io::ErrorKind::NotFound.into())
}

fn read_memory(process: i32, address: u64, length: usize) -> io::Result<Vec<u8>> {
    if length > MAX_ADDRESS {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    let mut bytes = vec![0; length];
    let local = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: length };
    let remote = libc::iovec { iov_base: address as usize as *mut libc::c_void, iov_len: length };
    // SAFETY: the local part is the vector's own; the remote part is checked by the kernel.
    let read = unsafe { libc::process_vm_readv(process, &raw const local, 1, &raw const remote, 1, 0) };
    if read == length as isize { Ok(bytes) } else { Err(io::Error::from_raw_os_error(libc::EFAULT)) }
}

/// A copy of another process's socket (pidfd_getfd(2), Linux 5.6).
pub fn take_socket(process: i32, number: i32) -> io::Result<OwnedFd> {
    // SAFETY: numbers only; each result is a new descriptor or -1.
    unsafe {
        let pidfd = libc::syscall(libc::SYS_pidfd_open, process, 0);
        if pidfd < 0 {
            return Err(io::Error::last_os_error());
        }
        let pidfd = OwnedFd::from_raw_fd(pidfd as i32);
        let copy = libc::syscall(libc::SYS_pidfd_getfd, pidfd.as_raw_fd(), number, 0);
        if copy < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(copy as i32)) }
    }
}

fn domain_of(socket: &OwnedFd) -> io::Result<i32> {
    let mut domain = 0;
    let mut length = size_of::<i32>() as libc::socklen_t;
    // SAFETY: the kernel writes one number through the pointer.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_DOMAIN,
            (&raw mut domain).cast(),
            &raw mut length,
        )
    };
    if done == 0 { Ok(domain) } else { Err(io::Error::last_os_error()) }
}

/// Whether a process beside this one may be helped: its memory read, its sockets copied. Security modules and the filters
/// of containers can forbid both.
///
/// # Errors
/// The call that failed.
pub fn try_out(user_namespace: bool) -> io::Result<()> {
    let (ours, theirs) = socket::pair()?;
    let (target, _) = nacre_containment::fork::fork(0, None)?;
    if target == 0 {
        drop(ours);
        // SAFETY: a number only.
        let entered = !user_namespace || unsafe { libc::unshare(libc::CLONE_NEWUSER) } == 0;
        let _ = socket::send(theirs.as_fd(), &[u8::from(entered)], &[]);
        let _ = socket::receive(theirs.as_fd(), &mut [0; 1]);
        std::process::exit(0);
    }
    let number = theirs.as_raw_fd();
    drop(theirs);
    let _ = socket::receive(ours.as_fd(), &mut [0; 1]);
    let (helper, _) = nacre_containment::fork::fork(0, None)?;
    if helper == 0 {
        let byte = 0u8;
        let helped = read_memory(target, (&raw const byte) as u64, 1).and_then(|_| take_socket(target, number));
        std::process::exit(helped.map_or_else(|error| error.raw_os_error().unwrap_or(libc::EPERM), |_| 0));
    }
    let status = nix::sys::wait::waitpid(nix::unistd::Pid::from_raw(helper), None);
    drop(ours);
    let _ = nix::sys::wait::waitpid(nix::unistd::Pid::from_raw(target), None);
    match status {
        Ok(nix::sys::wait::WaitStatus::Exited(_, 0)) => Ok(()),
        Ok(nix::sys::wait::WaitStatus::Exited(_, errno)) => Err(io::Error::from_raw_os_error(errno)),
        _ => Err(io::ErrorKind::Other.into()),
    }
}
