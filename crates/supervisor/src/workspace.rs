//! The keeper of a copy-on-write workspace: a process beside the supervisors of its sessions. See [`nacre_workspace`].

use crate::process_setup::{self, Setting};
use nacre_protocol::workspace::{self as protocol, KeeperReply, KeeperRequest};
use nacre_protocol::{message, socket};
use nacre_workspace::keeper::{Answer, Keeper};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Answers requests until the host closes the workspace or ends. Then removes the layers, unless the workspace has a name.
pub fn run(host: i32) -> ! {
    let setting = match process_setup::prepare(host, &[]) {
        Ok(setting) => setting,
        Err(error) => {
            eprintln!("nacre-supervisor: cannot set itself up: {error}");
            std::process::exit(1);
        }
    };
    let mut keeper = Keeper::default();
    // The host sends nothing while it waits for an answer, except that the workspace is to be closed, or a comparison to be
    // stopped.
    let is_leaving = || wait(&setting, PollTimeout::ZERO) != Ready::Nothing;
    let is_orderly = loop {
        let (reply, descriptor) = match next(&setting) {
            Ok(Some((KeeperRequest::Close, _))) => break true,
            Ok(None) => break false,
            // What it was to stop has just been answered.
            Ok(Some((KeeperRequest::Stop, _))) => continue,
            Ok(Some((request @ KeeperRequest::Open(_), file))) => open(&mut keeper, request, file, &is_leaving),
            Ok(Some((request, file))) => keeper.answer(request, file, &is_leaving),
            Err(error) => (refusal(&error), None),
        };
        // Programs may run as the same user, and must neither trace this process nor read its descriptors. The mapping
        // of the user needs the opposite, so this follows the opening.
        let _ = nix::sys::prctl::set_dumpable(false);
        answer(setting.control.as_fd(), &reply, descriptor);
    };
    keeper.close(is_orderly);
    std::process::exit(0);
}

/// Opens the workspace. A thread answers what comes from the other socket.
fn open(keeper: &mut Keeper, request: KeeperRequest, file: Option<OwnedFd>, is_leaving: &dyn Fn() -> bool) -> Answer {
    let opened = keeper.answer(request, file, is_leaving);
    let sharer = match keeper.sharer() {
        Ok(sharer) => sharer,
        Err(failure) => return (failure.into(), None),
    };
    let (KeeperReply::Done, Some(sharer)) = (&opened.0, sharer) else { return opened };
    let started = socket::pair().and_then(|(ours, theirs)| {
        let share = move || {
            // The process ends with the other socket.
            while let Ok(Some((request @ (KeeperRequest::Share | KeeperRequest::Usage), _))) =
                protocol::receive(ours.as_fd())
            {
                let (reply, copy) = sharer.answer(&request);
                answer(ours.as_fd(), &reply, copy);
            }
        };
        std::thread::Builder::new().name("share".into()).spawn(share).map(|_| theirs)
    });
    match started {
        Ok(theirs) => (KeeperReply::Done, Some(theirs)),
        Err(error) => {
            let errno = error.raw_os_error().unwrap_or(libc::EIO);
            (KeeperReply::Failed { errno, doing: "share the workspace".into() }, None)
        }
    }
}

fn answer(socket: BorrowedFd<'_>, reply: &KeeperReply, descriptor: Option<OwnedFd>) {
    let descriptors: Vec<_> = descriptor.iter().map(AsFd::as_fd).collect();
    let is_long = message::encode(reply).is_ok_and(|bytes| bytes.len() > message::MAX_MESSAGE_BYTES);
    let _ = match is_long {
        false => message::send(socket, reply, &descriptors),
        // A path in it has more bytes than a message.
        true => {
            let reply =
                KeeperReply::Failed { errno: libc::ENAMETOOLONG, doing: "answer a call of the workspace".into() };
            message::send(socket, &reply, &[])
        }
    };
}

/// The answer to what cannot be read: that is no reason to end, which would remove the layers.
fn refusal(error: &io::Error) -> KeeperReply {
    let errno = match error.kind() {
        ErrorKind::InvalidData => libc::EBADMSG,
        _ => error.raw_os_error().unwrap_or(libc::EIO),
    };
    KeeperReply::Failed { errno, doing: "read a request to the workspace".into() }
}

/// The next request; `None` once the host is gone.
fn next(setting: &Setting) -> io::Result<Option<(KeeperRequest, Option<OwnedFd>)>> {
    match wait(setting, PollTimeout::NONE) {
        Ready::Request => match protocol::receive(setting.control.as_fd()) {
            Err(error) if matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) => Ok(None),
            request => request,
        },
        Ready::End | Ready::Nothing => Ok(None),
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
