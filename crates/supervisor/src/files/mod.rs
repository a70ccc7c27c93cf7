//! The files helper: the process of a session that opens, lists, changes and watches files for the host.
//!
//! Files must be seen and changed under the rules of the session's commands: their user, view and confinement. The
//! host and the supervisor are subject to none of them, so a process of the session does the work. It passes opened
//! files to the host, which reads and writes their content itself: no data passes through the helper. In the same way it
//! makes sockets in the session's network namespace, which the host connects.
//!
//! It is a fork of the supervisor that executes no program. It belongs to no control group, so to no command or
//! process. It ends when the host closes its socket, with the session, and with the supervisor. Threads serve the
//! calls, so that a long call does not hold up others.

mod below_root;
mod change;
mod connection;
mod copy;
mod failure;
mod info;
mod list;
mod place;
mod remove;
mod socket;
mod temporary;
mod watch;
mod watch_events;
mod watched_file;
mod watched_tree;
mod way;
mod write;

use crate::process_setup;
use crate::standing::Standing;
use connection::Connection;
use failure::{Stop, about};
use nacre_containment::pid::Pid;
use nacre_isolation::confined::Confined;
use nacre_protocol::files::{Call, Failure, FilesReply, FilesRequest, HELPER_NAME, MAX_OPEN, Reason};
use nacre_protocol::message;
use nix::sys::signal::{SigSet, Signal};
use rustix::io::Errno;
use rustix::process::{set_parent_process_death_signal, setpgid};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use way::Start;

/// Maximum concurrent calls. Further calls wait. The host sends fewer watches and writes, which may stay open for ever.
const MAX_THREADS: usize = MAX_OPEN + 1;
/// Enough for every call: trees are not walked recursively.
const STACK_BYTES: usize = 256 * 1024;

/// Starts a session's helper, with its end of the socket.
///
/// The child gets everything that a program would get by exec. This process has one thread, so the fork may do
/// anything.
pub fn start(socket: OwnedFd, standing: &Standing<'_>) -> Option<Pid> {
    let forked = match standing.confined {
        Some(confined) => confined.fork(None).map_or(-1, |(child, _)| child),
        // SAFETY: this process has one thread.
        None => unsafe { libc::fork() },
    };
    match forked {
        0 => run(socket, standing),
        child => Pid::new(child),
    }
}

fn run(socket: OwnedFd, standing: &Standing<'_>) -> ! {
    // Blocked, as in the supervisor: SIGTERM is awaited.
    let _ = SigSet::all().thread_block();
    process_setup::close_inherited(&[socket.as_raw_fd()]);
    let _ = setpgid(None, None);
    let restrict = || standing.confined.map_or(Ok(()), Confined::restrict_alone);
    let set_up = standing.take().map_err(|(_, error)| error).and_then(|()| restrict());
    let set_up = set_up.map_err(|error| error.raw_os_error().unwrap_or(libc::EPERM));
    // After the change of user, which resets both. On this signal, the helper removes temporary files.
    let _ = set_parent_process_death_signal(Some(rustix::process::Signal::TERM));
    let _ = nix::sys::prctl::set_dumpable(false);
    // After the supervisor's death, the host recognizes the helper by this name.
    let _ = rustix::thread::set_name(HELPER_NAME);
    write::umask();
    let relocates = standing.confined.is_some_and(Confined::renames_directories);
    let server =
        Arc::new(Server { socket, relocates, set_up, idle: AtomicUsize::new(0), threads: AtomicUsize::new(0) });
    Server::add_thread(&server);
    let _ = SigSet::from_iter([Signal::SIGTERM]).wait();
    end()
}

/// Exits this process. Unfinished calls leave nothing behind.
fn end() -> ! {
    temporary::remove_all();
    // SAFETY: exits without running destructors, which other threads may be using.
    unsafe { libc::_exit(0) }
}

struct Server {
    socket: OwnedFd,
    /// Whether directories of an overlay are renamed that the kernel refuses to rename.
    relocates: bool,
    /// Why no calls can be served.
    set_up: Result<(), i32>,
    /// The number of threads that wait for a call.
    idle: AtomicUsize,
    threads: AtomicUsize,
}

impl Server {
    fn add_thread(server: &Arc<Self>) {
        if server.threads.fetch_add(1, Ordering::SeqCst) < MAX_THREADS {
            let own = Arc::clone(server);
            let started = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(move || Self::serve(&own));
            if started.is_ok() {
                return;
            }
        }
        server.threads.fetch_sub(1, Ordering::SeqCst);
        if server.threads.load(Ordering::SeqCst) == 0 {
            end();
        }
    }

    /// Each thread receives calls itself. The thread that takes the last waiting place starts another.
    fn serve(server: &Arc<Self>) {
        loop {
            server.idle.fetch_add(1, Ordering::SeqCst);
            let received = message::receive::<FilesRequest>(server.socket.as_fd());
            if server.idle.fetch_sub(1, Ordering::SeqCst) == 1 {
                Self::add_thread(server);
            }
            match received {
                Ok(Some((request, descriptors))) => {
                    if let Some(socket) = descriptors.into_iter().next() {
                        server.answer(&Connection::new(socket), request);
                    }
                }
                Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {}
                Ok(None) | Err(_) => end(),
            }
        }
    }

    fn answer(&self, connection: &Connection, request: FilesRequest) {
        let done = match self.set_up {
            Ok(()) => perform(connection, request, self.relocates),
            Err(errno) => Err(Failure { reason: Reason::SetUp(errno), path: Vec::new() }.into()),
        };
        if let Err(Stop::Failed(failure)) = done {
            let _ = connection.send(&FilesReply::Failed(failure));
        }
    }
}

fn perform(
    connection: &Connection,
    FilesRequest { cwd, call, is_rooted }: FilesRequest,
    relocates: bool,
) -> Result<(), Stop> {
    let start = if is_rooted { Start::Root(&cwd) } else { Start::Session(&cwd) };
    match call {
        Call::Read { path } => return change::read(connection, start, &path),
        Call::Write { path, mode, append } => return write::write(connection, start, &path, mode, append),
        Call::List { path, depth, most } => return list::list(connection, start, &path, depth, most),
        Call::Stat { path, follow } => return change::stat(connection, start, &path, follow),
        Call::Watch { path, .. }
        | Call::SetMode { path, .. }
        | Call::Rename { from: path, .. }
        | Call::Copy { from: path, .. }
            if is_rooted =>
        {
            return Err(about(&path)(Errno::INVAL).into());
        }
        Call::Socket(kind) => return socket::make(connection, kind),
        Call::Watch { path, recursive } => return watch::watch(connection, &cwd, &path, recursive),
        Call::MakeDirectory { path } => change::make_directory(start, &path),
        Call::SetMode { path, mode } => change::set_mode(&cwd, &path, mode),
        Call::Rename { from, to } => change::rename(&cwd, &from, &to, relocates),
        Call::Copy { from, to, recursive } => copy::copy(connection, &cwd, &from, &to, recursive),
        Call::Remove { path, recursive } => remove::remove(connection, start, &path, recursive),
    }?;
    connection.send(&FilesReply::Done)
}

#[cfg(test)]
#[path = "files_tests.rs"]
mod tests;

#[cfg(test)]
mod watch_tests;
