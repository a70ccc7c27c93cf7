//! Changes the session over to another mount of its workspace.
//!
//! The shells stand in the old mount. Each notes its directory before, and waits until its socket ends; then it enters the
//! directory again. No other process of the session stands there: no program lives, and the helpers open paths anew.

use super::ProcessTable;
use nacre_isolation::remount::Problem;
use nacre_protocol::socket;
use nacre_protocol::supervisor::Report;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{Shutdown, shutdown};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

/// How long a shell may take to note its directory, in milliseconds. It takes microseconds, unless a trap runs in it.
const PATIENCE: u16 = 5000;

impl ProcessTable {
    /// Carries out an order with these descriptors. Exits if the session is left without rules.
    pub fn remount(&mut self, descriptors: Vec<OwnedFd>) -> Report {
        let mut descriptors = descriptors.into_iter();
        let mount = descriptors.next();
        let shells: Vec<OwnedFd> = descriptors.collect();
        // A program may have stopped one.
        self.signal_shells(libc::SIGCONT);
        let ready = mount.ok_or_else(|| io::ErrorKind::UnexpectedEof.into()).and_then(|mount| {
            shells.iter().try_for_each(await_shell)?;
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
}

/// Waits until a shell has noted its directory, or has ended.
fn await_shell(shell: &OwnedFd) -> io::Result<()> {
    let mut descriptors = [PollFd::new(shell.as_fd(), PollFlags::POLLIN)];
    loop {
        match poll(&mut descriptors, PollTimeout::from(PATIENCE)) {
            Ok(0) => return Err(io::Error::new(io::ErrorKind::TimedOut, "its shell does not respond")),
            Err(nix::errno::Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
            Ok(_) => return socket::receive(shell.as_fd(), &mut [0; 1]).map(drop),
        }
    }
}
