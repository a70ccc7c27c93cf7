//! One connection on behalf of a program, in its own process.

use super::judge::{Address, Verdict, is_own, judge};
use super::notification::{self, Call, Listener};
use super::{Connected, Connection, Inside, Policy, peer, redirect};
use crate::foreign::{caller, process_of, read_memory, take_descriptor};
use crate::namespaces::Handles;
use crate::privileges::become_user;
use crate::programs;
use nacre_protocol::connections::{ConnectionReport, LONGEST_PATH};
use nacre_protocol::message;
use nacre_protocol::redirect::stands_for_name;
use nacre_protocol::socket;
use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;
use rustix::net::{Shutdown, SocketType, shutdown, sockopt};
use std::ffi::OsString;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
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
    let process = process_of(call.thread)?;
    let (socket, address, length) = call.connection();
    let bytes = read_memory(process, address, length)?;
    let theirs = take_descriptor(process, socket)?;
    let cwd = open(format!("/proc/{}/cwd", call.thread).as_str(), OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty())?;
    let caller = policy.reports.as_ref().map(|_| caller(process)).unwrap_or_default();
    let program = inside.confinement.programs.as_ref().and_then(|known| programs::of(process, known).ok().flatten());
    // The pid of a process that has ended meanwhile may belong to another process now. While this thread waits, its process
    // executes nothing else: that ends all of its other threads first.
    if !listener.is_waiting(call) {
        return Err(refused());
    }
    let (address, domain) = (Address::read(&bytes), sockopt::socket_domain(&theirs)?.as_raw().into());
    let destination = address.internet(domain);
    let is_stream = sockopt::socket_type(&theirs)? == SocketType::STREAM;
    let send = |report: &ConnectionReport| {
        let _ = policy.reports.as_ref().map(|reports| message::send(reports.as_fd(), report, &[]));
    };
    let refused_socket = |target: String| {
        if target.len() <= LONGEST_PATH {
            send(&ConnectionReport::Unix(target, caller.clone()));
        }
        refused()
    };
    // Before the program can send, so that the proxy knows its client.
    let proxied = || {
        if let Some(address) = local_address(&theirs) {
            send(&ConnectionReport::Proxied(address, caller.clone()));
        }
    };
    let proxy = inside.confinement.proxy_port.map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    let abstract_name = match &address {
        Address::Abstract(name) if domain == libc::AF_UNIX => Some(format!("@{}", String::from_utf8_lossy(name))),
        _ => None,
    };
    let done = match judge(address, domain, inside.confinement, policy) {
        // The proxy reports what it refuses.
        Verdict::Redirect if is_stream => {
            let port = program.map_or(inside.confinement.proxy_port, |program| Some(program.port)).unwrap_or_default();
            REDIRECTED.store(theirs.as_raw_fd(), Ordering::Relaxed);
            let done = redirect::connect(&theirs, domain, destination.ok_or_else(refused)?, port, proxied);
            if program.is_some() {
                keep_from_children(listener, call, &theirs);
            }
            return done;
        }
        Verdict::Connect | Verdict::Redirect => {
            let own = program.filter(|_| is_stream && destination.is_some() && destination == proxy);
            let done = match own {
                Some(program) => {
                    let done = super::connect(&theirs, &redirect::proxy_address(domain, program.port));
                    keep_from_children(listener, call, &theirs);
                    done
                }
                None => super::connect(&theirs, &bytes),
            };
            if is_stream && destination.is_some() && destination == proxy {
                proxied();
            }
            done
        }
        Verdict::LookUp(path) => connect_path(&theirs, &path, &cwd, inside, policy, &refused_socket),
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
        Verdict::Refuse => {
            let is_abstract = abstract_name.is_some();
            let error = abstract_name.map_or_else(refused, refused_socket);
            if is_abstract && inside.confinement.learns() { super::connect(&theirs, &bytes) } else { Err(error) }
        }
    };
    // A network namespace of the session's own leads nowhere. Libraries of resolvers also connect datagram sockets to the
    // addresses of names, to compare them.
    let prevented = |error: &io::Error| matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENETUNREACH));
    if let Some(target) = destination
        && done.as_ref().is_err_and(prevented)
        && !stands_for_name(target.ip())
    {
        send(&ConnectionReport::Internet(target.to_string(), caller.clone()));
    }
    done
}

/// Closes a connection in what its program executes: a helper that the session has written must not inherit it.
fn keep_from_children(listener: &Listener, call: &Call, socket: &OwnedFd) {
    let _ = listener.replace_socket(call, socket.as_fd());
}

fn refused() -> io::Error {
    io::Error::from_raw_os_error(libc::EPERM)
}

/// The address of a connecting socket, as the proxy sees it.
fn local_address(socket: &OwnedFd) -> Option<SocketAddr> {
    let address = SocketAddr::try_from(rustix::net::getsockname(socket).ok()?).ok()?;
    Some(SocketAddr::new(address.ip().to_canonical(), address.port()))
}

/// Looks a path up as the program would, and connects to that file, even if the path changes meanwhile.
fn connect_path(
    theirs: &OwnedFd,
    path: &Path,
    cwd: &OwnedFd,
    inside: &Inside,
    policy: &Policy,
    refused: &dyn Fn(String) -> io::Error,
) -> io::Result<()> {
    let proc_directory = open("/proc", OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())?;
    inside.handles.map_or(Ok(()), Handles::enter)?;
    policy.user.as_ref().map_or(Ok(()), become_user)?;
    nix::unistd::fchdir(cwd)?;
    let found = open(path, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty())?;
    // The machine's own /proc, where this process has a pid.
    nix::unistd::fchdir(&proc_directory)?;
    let link = format!("self/fd/{}", found.as_raw_fd());
    let place = PathBuf::from(nix::fcntl::readlink(link.as_str())?);
    let (is_own, learns) = (is_own(&place, inside.confinement), inside.confinement.learns());
    if !is_own {
        let error = refused(place.to_string_lossy().into_owned());
        if !learns {
            return Err(error);
        }
    }
    let mut address = (libc::AF_UNIX as u16).to_ne_bytes().to_vec();
    address.extend_from_slice(OsString::from(link).as_bytes());
    address.push(0);
    super::connect(theirs, &address)?;
    if learns && !is_own {
        return Ok(());
    }
    let has_pid_namespace = inside.confinement.namespaces.is_some_and(|namespaces| namespaces.processes);
    peer::check(theirs, has_pid_namespace, policy.supervisor).map_err(|error| {
        // The program keeps its socket, but cannot use it.
        let _ = shutdown(theirs, Shutdown::Both);
        if error.raw_os_error() == Some(libc::EPERM) { refused(place.to_string_lossy().into_owned()) } else { error }
    })
}
