//! The init process of a session's pid namespace: reaps orphans, and ends the namespace once nothing guards it.

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use std::os::fd::{AsFd, FromRawFd, OwnedFd};

/// The processes that guard the namespace, opened before entering it: inside, they have no pids.
pub struct Guards {
    /// The host and the supervisor.
    pub pidfds: Vec<OwnedFd>,
}

impl Guards {
    /// Watches these processes. A process that cannot be watched is dead: any kernel that can create a view has
    /// pidfds.
    pub fn watch(pids: &[i32]) -> Self {
        let open = |pid: &i32| {
            // SAFETY: numbers only; a non-negative result is a new descriptor without an owner.
            unsafe {
                let fd = libc::syscall(libc::SYS_pidfd_open, *pid, 0);
                (fd >= 0).then(|| OwnedFd::from_raw_fd(fd as i32))
            }
        };
        Self { pidfds: pids.iter().filter_map(open).collect() }
    }
}

/// Runs until both the host and the supervisor are dead: either of them saves the session's state and then kills this
/// process. The exit of an init kills every process of its namespace. Never returns.
pub fn run(mut guards: Guards) -> ! {
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
        // SAFETY: no status is stored.
        while unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) } > 0 {}
        let mut fds: Vec<PollFd> = guards.pidfds.iter().map(|fd| PollFd::new(fd.as_fd(), PollFlags::POLLIN)).collect();
        fds.push(PollFd::new(children.as_fd(), PollFlags::POLLIN));
        let _ = poll(&mut fds, PollTimeout::NONE);
        let dead: Vec<bool> = fds.iter().map(|fd| fd.any().unwrap_or(false)).collect();
        let mut dead = dead.into_iter();
        guards.pidfds.retain(|_| !dead.next().unwrap_or(false));
        while let Ok(Some(_)) = children.read_signal() {}
        if guards.pidfds.is_empty() {
            std::process::exit(0);
        }
    }
}
