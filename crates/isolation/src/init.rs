//! The init process of a pid namespace: reaps orphans, and ends the namespace once nothing guards it.

use nacre_containment::cgroup::{self, Group};
use nacre_containment::fork::reap_all;
use nacre_protocol::socket;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// The processes that guard the namespace, opened before entering it: inside, they have no pids.
pub struct Guards {
    /// The host and the supervisor of a session, or the supervisor of a durable job.
    pub pidfds: Vec<OwnedFd>,
    /// Whether none is missing there, which may also mean that it could not be opened.
    pub are_complete: bool,
}

impl Guards {
    /// Watches these processes. A process that cannot be watched is dead: any kernel that can create a view has
    /// pidfds.
    pub fn watch(pids: &[i32]) -> Self {
        let open = |pid: &i32| pidfd_open(Pid::from_raw(*pid)?, PidfdFlags::empty()).ok();
        let pidfds: Vec<_> = pids.iter().filter_map(open).collect();
        Self { are_complete: pidfds.len() == pids.len(), pidfds }
    }
}

/// Runs until all guards are dead: each of them saves what it needs and then kills this process. Also exits when no
/// process is left, after a message on `control`: nothing enters the namespace any more. The end of the other side is no
/// such message: after the death of a supervisor, the host still saves the state of the session. The exit of an init kills
/// every process of its namespace. `group`: its own control group, in that of the session. Never returns.
pub fn run(mut guards: Guards, control: OwnedFd, group: Option<OwnedFd>) -> ! {
    let mut control = Some(control);
    let mut is_closed = false;
    // Without a handler, signals of programs have no effect on init; this is for signals from outside.
    let _ = SigSet::all().thread_block();
    // Programs of the session run as the same user. They cannot trace a process that is not dumpable.
    let _ = nix::sys::prctl::set_dumpable(false);
    let mut children = SigSet::empty();
    children.add(Signal::SIGCHLD);
    let Ok(children) = SignalFd::with_flags(&children, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK) else {
        std::process::exit(1)
    };
    loop {
        let is_childless = reap_all();
        if guards.pidfds.is_empty() {
            // A guard that dies last has removed them.
            let _ = group.as_ref().filter(|_| guards.are_complete).map(remove_groups);
            std::process::exit(0);
        }
        if is_closed && is_childless {
            std::process::exit(0);
        }
        let watched = guards.pidfds.iter().chain(&control).map(AsFd::as_fd).chain([children.as_fd()]);
        let mut fds: Vec<PollFd> = watched.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        let _ = poll(&mut fds, PollTimeout::NONE);
        let ready: Vec<bool> = fds.iter().map(|fd| fd.any().unwrap_or(false)).collect();
        let mut ready = ready.into_iter();
        guards.pidfds.retain(|_| !ready.next().unwrap_or(false));
        if let Some(socket) = control.take_if(|_| ready.next().unwrap_or(false)) {
            is_closed = socket::receive(socket.as_fd(), &mut [0; 1]).is_ok_and(|length| length > 0);
        }
        while let Ok(Some(_)) = children.read_signal() {}
    }
}

/// Removes the control groups of a session whose host and supervisor were killed at the same moment: this process is all that
/// is left of nacre. It leaves them first. They are outside of its view.
fn remove_groups(own: &OwnedFd) -> io::Result<()> {
    let at = PathBuf::from(format!("/proc/self/fd/{}", own.as_raw_fd()));
    let path = fs::read_link(&at)?;
    let session = path.parent().and_then(Path::file_name).filter(|name| name.as_encoded_bytes().starts_with(b"nacre-"));
    let Some(session) = session else { return Err(io::ErrorKind::NotFound.into()) };
    let above = at.join("../..");
    // A group that hands limits down, as to the sessions of a sandbox, takes no processes.
    let leave = |group: PathBuf| File::options().write(true).open(group.join("cgroup.procs"))?.write_all(b"0");
    leave(above.clone()).or_else(|_| leave(above.join("..")))?;
    Group::at(above.join(session)).end();
    match path.parent().and_then(Path::parent).filter(|path| cgroup::is_of_sandbox(path)).and_then(Path::file_name) {
        Some(sandbox) => fs::remove_dir(above.join("..").join(sandbox)),
        None => Ok(()),
    }
}
