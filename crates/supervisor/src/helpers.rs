//! The session's files helpers: one, and possibly one that is ending. They belong to no command or process.

use crate::files;
use crate::standing::Standing;
use nacre_containment::pid::Pid;
use nacre_containment::signal;
use std::os::fd::OwnedFd;

/// See the module.
#[derive(Default)]
pub struct Helpers(Vec<Pid>);

impl Helpers {
    /// Starts a helper with its end of a socket to the host. If that fails, the socket closes.
    pub fn start(&mut self, socket: OwnedFd, standing: &Standing<'_>) {
        self.0.extend(files::start(socket, standing));
    }

    /// Asks the helpers to exit, which lets them remove temporary files. Returns false if there are none.
    pub fn end(&self) -> bool {
        for helper in &self.0 {
            let _ = signal::send_to_child(*helper, libc::SIGTERM);
        }
        !self.0.is_empty()
    }

    /// Their processes.
    pub fn pids(&self) -> impl Iterator<Item = Pid> {
        self.0.iter().copied()
    }

    /// Records that a child has been reaped.
    pub fn reaped(&mut self, pid: Pid) {
        self.0.retain(|helper| *helper != pid);
    }
}
