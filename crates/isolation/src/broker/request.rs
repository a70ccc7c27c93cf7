//! One connection on behalf of a program, in its own process.

use super::judge::{Address, Verdict, is_own, judge};
use super::notification::{self, Call, Listener};
use super::{Connected, Connection, Inside, Policy, peer, redirect};
use crate::foreign::{process_of, read_memory, take_socket};
use crate::namespaces::Handles;
use crate::privileges::become_user;
use nacre_protocol::redirect::stands_for_name;
use nacre_protocol::socket;
use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;
use rustix::net::{Shutdown, SocketType, shutdown, sockopt};
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

/// The socket of a redirect that has no answer yet, or -1. A program that shares it with the caller must not read the answer.
static REDIRECTED: AtomicI32 = AtomicI32::new(-1);

/// How often a helper checks whether its caller is still waiting.
const LOOK_EVERY_MICROSECONDS: libc::suseconds_t = 200_000;

/// Makes the connection and replies to the call.
pub fn carry_out(listener: &Listener, call: &Call, inside: &Inside, policy: &Policy, connected: &Connected) {
    end_with_caller(listener, call);
    let result = connect(listener, call, inside, policy, connected);
    listener.answer(call, result);
}

/// Exits this process once the caller has ended. The socket may be blocking, which the program controls.
fn end_with_caller(listener: &Listener, call: &Call) {
    static LISTENER: AtomicI32 = AtomicI32::new(-1);
    static CALL: AtomicU64 = AtomicU64::new(0);
    extern "C" fn look(_: libc::c_int) {
        if !notification::is_waiting(LISTENER.load(Ordering::Relaxed), CALL.load(Ordering::Relaxed)) {
            // SAFETY: numbers only. It exits without running destructors, which must not run in a handler.
            unsafe {
                libc::shutdown(REDIRECTED.load(Ordering::Relaxed), libc::SHUT_RDWR);
                libc::_exit(0);
            }
        }
    }
    LISTENER.store(listener.as_fd().as_raw_fd(), Ordering::Relaxed);
    CALL.store(call.id(), Ordering::Relaxed);
    let every = libc::timeval { tv_sec: 0, tv_usec: LOOK_EVERY_MICROSECONDS };
    let timer = libc::itimerval { it_interval: every, it_value: every };
    // SAFETY: the handler only makes system calls; both structures outlive the calls. An interrupted connect(2) is
    // restarted.
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
    inside: &Inside,
    policy: &Policy,
    connected: &Connected,
) -> io::Result<()> {
    let refused = || io::Error::from_raw_os_error(libc::EPERM);
    let process = process_of(call.thread)?;
    let bytes = read_memory(process, call.address, call.length)?;
    let theirs = take_socket(process, call.socket)?;
    let cwd = open(format!("/proc/{}/cwd", call.thread).as_str(), OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty())?;
    // The pid of a process that has ended meanwhile may belong to another process now.
    if !listener.is_waiting(call) {
        return Err(refused());
    }
    let (address, domain) = (Address::read(&bytes), sockopt::socket_domain(&theirs)?.as_raw().into());
    let destination = address.internet(domain);
    let is_stream = sockopt::socket_type(&theirs)? == SocketType::STREAM;
    let done = match judge(address, domain, inside.confinement, policy) {
        // The proxy reports what it refuses.
        Verdict::Redirect if is_stream => {
            let port = inside.confinement.proxy_port.unwrap_or_default();
            REDIRECTED.store(theirs.as_raw_fd(), Ordering::Relaxed);
            return redirect::connect(&theirs, domain, destination.ok_or_else(refused)?, port);
        }
        Verdict::Connect | Verdict::Redirect => super::connect(&theirs, &bytes),
        Verdict::LookUp(path) => connect_path(&theirs, &path, &cwd, inside, policy),
        Verdict::Channel => {
            let (ours, channel) = socket::pair()?;
            // Before the shell can send: its first message arrives before the host has this end.
            socket::name_senders(ours.as_fd())?;
            listener.replace_socket(call, channel.as_fd())?;
            connected(Connection::Channel(process), ours);
            Ok(())
        }
        Verdict::Command => {
            let (ours, theirs) = UnixStream::pair()?;
            listener.replace_socket(call, theirs.as_fd())?;
            connected(Connection::Command, ours.into());
            Ok(())
        }
        Verdict::Refuse => Err(refused()),
    };
    // A network namespace of the session's own leads nowhere. Libraries of resolvers also connect datagram sockets to the
    // addresses of names, to compare them.
    let prevented = |error: &io::Error| matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENETUNREACH));
    if let (Some(denials), Some(target)) = (&policy.denials, destination)
        && done.as_ref().is_err_and(prevented)
        && !stands_for_name(target.ip())
    {
        let _ = socket::send(denials.as_fd(), target.to_string().as_bytes(), &[]);
    }
    done
}

/// Looks a path up as the program would, and connects to that file, even if the path changes meanwhile.
fn connect_path(theirs: &OwnedFd, path: &Path, cwd: &OwnedFd, inside: &Inside, policy: &Policy) -> io::Result<()> {
    let proc_directory = open("/proc", OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())?;
    inside.handles.map_or(Ok(()), Handles::enter)?;
    policy.user.as_ref().map_or(Ok(()), become_user)?;
    nix::unistd::fchdir(cwd)?;
    let found = open(path, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty())?;
    // The machine's own /proc, where this process has a pid.
    nix::unistd::fchdir(&proc_directory)?;
    let link = format!("self/fd/{}", found.as_raw_fd());
    let place = PathBuf::from(nix::fcntl::readlink(link.as_str())?);
    if !is_own(&place, inside.confinement) {
        return Err(io::Error::from_raw_os_error(libc::EPERM));
    }
    let mut address = (libc::AF_UNIX as u16).to_ne_bytes().to_vec();
    address.extend_from_slice(OsString::from(link).as_bytes());
    address.push(0);
    super::connect(theirs, &address)?;
    let has_pid_namespace = inside.confinement.namespaces.is_some_and(|namespaces| namespaces.processes);
    peer::check(theirs, has_pid_namespace, policy.supervisor).inspect_err(|_| {
        // The program keeps its socket, but cannot use it.
        let _ = shutdown(theirs, Shutdown::Both);
    })
}
