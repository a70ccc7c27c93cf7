//! The standby, which has the state of the shell and can replace it.

use super::numbers::Numbers;
use crate::link::Descriptor;
use crate::shell::channel::{Channel, Received};
use crate::sys;
use nacre_containment::pid::Pid;
use nacre_protocol::shell::{Request, RequestFlags, RequestKind};
use std::io;
use std::path::{Path, PathBuf};

/// The standbys of a session.
#[derive(Default)]
pub(super) struct Standbys {
    current: Option<CurrentStandby>,
    /// The standby that is being forked, with the id of the fork.
    next: Option<(u64, NewStandby)>,
    /// Replaced standbys that live in the foreground group.
    retired: Vec<Pid>,
}

struct CurrentStandby {
    channel: Channel,
    pid: Pid,
    /// See [`Standbys::with_number`].
    number: u64,
}

/// A standby that is being forked: its channel, the group that it begins in, and the number of its state.
pub(super) type NewStandby = (Channel, Option<PathBuf>, u64);

impl Standbys {
    pub(super) fn channel(&self) -> Option<&Channel> {
        self.current.as_ref().map(|standby| &standby.channel)
    }

    /// The channel, and the number of the state.
    pub(super) fn with_number(&self) -> Option<(&Channel, u64)> {
        self.current.as_ref().map(|standby| (&standby.channel, standby.number))
    }

    pub(super) fn pid(&self) -> Option<Pid> {
        self.current.as_ref().map(|standby| standby.pid)
    }

    pub(super) fn is_forking(&self) -> bool {
        self.next.is_some()
    }

    /// Removes the standby, which may be the only process with the session's state.
    pub(super) fn take(&mut self) -> Option<(Channel, Pid)> {
        self.current.take().map(|standby| (standby.channel, standby.pid))
    }

    /// Forgets the replaced standbys that are no longer members of the foreground group.
    pub(super) fn forget_retired_except(&mut self, members: &[Pid]) {
        self.retired.retain(|pid| members.contains(pid));
    }

    /// Whether it is the standby or one that was replaced.
    pub(super) fn contains(&self, pid: Pid) -> bool {
        self.pid() == Some(pid) || self.retired.contains(&pid)
    }

    /// Waits for the next report. Cancel-safe.
    pub(super) async fn receive(&self) -> Received {
        match self.channel() {
            Some(channel) => channel.receive().await,
            None => std::future::pending().await,
        }
    }

    /// Expects the standby that a shell was asked for.
    pub(super) fn expect(&mut self, id: u64, standby: NewStandby) {
        self.next = Some((id, standby));
    }

    /// The standby that this fork is, if it is one.
    pub(super) fn arrives(&mut self, fork: u64) -> Option<NewStandby> {
        self.next.take_if(|(id, _)| *id == fork).map(|(_, standby)| standby)
    }

    /// Uses a standby. The former one has been retired.
    pub(super) fn begin(&mut self, channel: Channel, pid: Pid, number: u64) {
        self.current = Some(CurrentStandby { channel, pid, number });
    }

    /// Lets go of the standby that is being replaced, which may live on for a while.
    pub(super) fn retire(&mut self) -> Option<Pid> {
        let (_, pid) = self.take()?;
        self.retired.push(pid);
        Some(pid)
    }

    /// Drops the standby that the dead shell was forking, since it will never arrive.
    pub(super) fn drop_unforked(&mut self) {
        if let Some((_, (_, Some(group), _))) = self.next.take() {
            let _ = std::fs::remove_dir(group);
        }
    }
}

/// Asks a shell or the standby for a fork that begins in this group. Returns the channel of the fork, which `announce` gets
/// before the request is sent.
pub(super) fn request_fork(
    from: Option<&Channel>,
    numbers: &Numbers,
    id: u64,
    mut flags: RequestFlags,
    group: Option<&Path>,
    announce: impl FnOnce(&Channel),
) -> io::Result<Channel> {
    let (channel, theirs) = Channel::pair()?;
    let directory = group.map(sys::open_directory).transpose()?;
    flags.set(RequestFlags::GROUP, directory.is_some());
    let request = Request { flags, fork_key: numbers.fork_key(), ..Request::new(RequestKind::Fork, id) };
    let descriptors = [theirs].into_iter().chain(directory).map(Descriptor::from).collect();
    let from = from.ok_or(io::ErrorKind::NotConnected)?;
    announce(&channel);
    from.send(&request, descriptors)?;
    Ok(channel)
}
