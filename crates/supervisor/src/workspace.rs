//! The keeper of a copy-on-write workspace: a process beside the supervisors of its sessions. See [`nacre_workspace`].

use crate::process_setup::{self, Setting};
use nacre_protocol::message;
use nacre_protocol::workspace::Request;
use nacre_workspace::keeper::Keeper;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::os::fd::AsFd;

/// Answers requests until the host closes the workspace or ends. Then removes the layers, unless the workspace has a name.
pub fn run(host: i32) -> ! {
    let setting = match process_setup::prepare(host) {
        Ok(setting) => setting,
        Err(error) => {
            eprintln!("nacre-supervisor: cannot set itself up: {error}");
            std::process::exit(1);
        }
    };
    let mut keeper = Keeper::default();
    // The host sends nothing while it waits for an answer, except that the workspace is to be closed.
    let is_leaving = || wait(&setting, PollTimeout::ZERO) != Ready::Nothing;
    let is_orderly = loop {
        let request = match next(&setting) {
            Some(Request::Close) => break true,
            None => break false,
            Some(request) => request,
        };
        let (reply, descriptor) = keeper.answer(request, &is_leaving);
        // Programs may run as the same user, and must neither trace this process nor read its descriptors. The mapping
        // of the user needs the opposite, so this follows the opening.
        let _ = nix::sys::prctl::set_dumpable(false);
        let descriptors: Vec<_> = descriptor.iter().map(AsFd::as_fd).collect();
        let _ = message::send(setting.control.as_fd(), &reply, &descriptors);
    };
    keeper.close(is_orderly);
    std::process::exit(0);
}

/// The next request; `None` once the host is gone.
fn next(setting: &Setting) -> Option<Request> {
    match wait(setting, PollTimeout::NONE) {
        Ready::Request => message::receive(setting.control.as_fd()).ok().flatten().map(|(request, _)| request),
        Ready::End | Ready::Nothing => None,
    }
}

/// What has come from the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ready {
    Nothing,
    /// A request, or the end of the socket.
    Request,
    /// The host has ended.
    End,
}

fn wait(setting: &Setting, timeout: PollTimeout) -> Ready {
    loop {
        let control = PollFd::new(setting.control.as_fd(), PollFlags::POLLIN);
        let host = setting.host.as_ref().map(|host| PollFd::new(host.as_fd(), PollFlags::POLLIN));
        let mut watched: Vec<PollFd<'_>> = [Some(control), host].into_iter().flatten().collect();
        match poll(&mut watched, timeout) {
            Err(nix::errno::Errno::EINTR) => continue,
            Err(_) => return Ready::End,
            Ok(_) => {}
        }
        let is_ready = |at: usize| watched.get(at).and_then(PollFd::any).unwrap_or(false);
        return match (is_ready(0), is_ready(1)) {
            // The last request of a host that has ended may be that its programs have, too.
            (true, _) => Ready::Request,
            (false, true) => Ready::End,
            (false, false) => Ready::Nothing,
        };
    }
}
