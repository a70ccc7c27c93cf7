//! Changes the session over to another mount of its workspace.
//!
//! The shells stand in the old mount. Each notes its directory before, and waits until its socket ends; then it enters the
//! directory again. No other process of the session stands there: no program lives, and the helpers open paths anew.

use super::ProcessTable;
use nacre_containment::pid::Pid;
use nacre_containment::proc_table::Stat;
use nacre_containment::signal;
use nacre_isolation::remount::Problem;
use nacre_protocol::socket;
use nacre_protocol::supervisor::Report;
use nix::poll::PollFlags;
use nix::sys::socket::{Shutdown, shutdown};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// How long all shells may take to note their directories. It takes microseconds, unless a trap runs in one. Orders and the
/// limits of kills wait meanwhile.
const PATIENCE: Duration = Duration::from_secs(2);

impl ProcessTable {
    /// Carries out an order with these descriptors. Exits if the session is left without rules.
    pub fn remount(&mut self, descriptors: Vec<OwnedFd>) -> Report {
        let mut descriptors = descriptors.into_iter();
        let mount = descriptors.next();
        let shells: Vec<OwnedFd> = descriptors.collect();
        self.resume_shells();
        let deadline = Instant::now() + PATIENCE;
        let ready = mount.ok_or_else(|| io::ErrorKind::UnexpectedEof.into()).and_then(|mount| {
            shells.iter().try_for_each(|shell| await_shell(shell, deadline))?;
            Ok(mount)
        });
        let done = ready.map_err(Problem::Unchanged).and_then(|mount| self.enclosure.remount(&mount));
        // Not by closing: a fork of this process may still have a copy.
        for shell in &shells {
            let _ = shutdown(shell.as_raw_fd(), Shutdown::Both);
        }
        match done {
            Ok(()) => Report::Remounted,
            Err(Problem::Unchanged(error)) => Report::NotRemounted { problem: error.to_string() },
            // The host replaces this process, and all that it has started.
            Err(Problem::Broken) => std::process::exit(1),
        }
    }

    /// A program may have stopped a shell. One that runs gets no signal: it may have a trap for it.
    fn resume_shells(&self) {
        let is_stopped = |pid: &Pid| Stat::read(*pid).is_some_and(|stat| matches!(stat.state, b'T' | b't'));
        for pid in self.shell.into_iter().chain(self.standby()).filter(is_stopped) {
            let _ = signal::send_to_child(pid, libc::SIGCONT);
        }
    }
}

/// Waits until a shell has noted its directory, or has ended.
fn await_shell(shell: &OwnedFd, deadline: Instant) -> io::Result<()> {
    if !socket::await_events(shell.as_fd(), PollFlags::POLLIN, deadline)? {
        return Err(io::Error::new(io::ErrorKind::TimedOut, "its shell does not respond"));
    }
    socket::receive(shell.as_fd(), &mut [0; 1]).map(drop)
}
