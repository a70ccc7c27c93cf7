//! The keeper of a copy-on-write workspace: a process beside the supervisors of its sessions. See [`nacre_workspace`].

use crate::process_setup::{self, Setting};
use nacre_protocol::message;
use nacre_protocol::workspace::Request;
use nacre_workspace::keeper::Keeper;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::os::fd::AsFd;

/// Answers requests until the host ends, or closes its end of the socket. Then removes the layers.
pub fn run(host: i32) -> ! {
    let setting = match process_setup::prepare(host) {
        Ok(setting) => setting,
        Err(error) => {
            eprintln!("nacre-supervisor: cannot set itself up: {error}");
            std::process::exit(1);
        }
    };
    let mut keeper = Keeper::default();
    while let Some(request) = next(&setting) {
        let (reply, descriptor) = keeper.answer(request);
        // Programs may run as the same user, and must neither trace this process nor read its descriptors. The mapping
        // of the user needs the opposite, so this follows the opening.
        let _ = nix::sys::prctl::set_dumpable(false);
        let descriptors: Vec<_> = descriptor.iter().map(AsFd::as_fd).collect();
        let _ = message::send(setting.control.as_fd(), &reply, &descriptors);
    }
    keeper.close();
    std::process::exit(0);
}

/// The next request; `None` once the host is gone.
fn next(setting: &Setting) -> Option<Request> {
    loop {
        let control = PollFd::new(setting.control.as_fd(), PollFlags::POLLIN);
        let host = setting.host.as_ref().map(|host| PollFd::new(host.as_fd(), PollFlags::POLLIN));
        let mut watched: Vec<PollFd<'_>> = [Some(control), host].into_iter().flatten().collect();
        match poll(&mut watched, PollTimeout::NONE) {
            Err(nix::errno::Errno::EINTR) => continue,
            Err(_) => return None,
            Ok(_) => {}
        }
        let is_ready = |at: usize| watched.get(at).and_then(PollFd::any).unwrap_or(false);
        if is_ready(1) {
            return None;
        }
        if is_ready(0) {
            return message::receive(setting.control.as_fd()).ok().flatten().map(|(request, _)| request);
        }
    }
}
