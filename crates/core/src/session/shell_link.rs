//! The connection to the session's shell.

use crate::shell::channel::{Channel, Received};
use nacre_containment::pid::Pid;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// See the module.
#[derive(Default)]
pub(super) struct ShellLink {
    channel: Option<Arc<Channel>>,
    pid: Option<Pid>,
    /// The handshake arrived before the supervisor reported the start.
    said_hello: bool,
    /// The channel closed before the shell read the last request.
    lost_request: bool,
    /// It has a setup request.
    setting_up: bool,
}

impl ShellLink {
    /// `None` while the shell cannot be reached.
    pub(super) fn channel(&self) -> Option<&Arc<Channel>> {
        self.channel.as_ref()
    }

    /// `None` while there is no shell.
    pub(super) fn pid(&self) -> Option<Pid> {
        self.pid
    }

    /// Uses a channel for a shell that is being started.
    pub(super) fn open(&mut self, channel: Channel) {
        self.channel = Some(Arc::new(channel));
    }

    /// Drops the channel.
    pub(super) fn close(&mut self) {
        self.channel = None;
    }

    /// Records that the supervisor has started the shell. True if its handshake has already arrived.
    pub(super) fn started(&mut self, pid: Pid) -> bool {
        self.pid = Some(pid);
        std::mem::take(&mut self.said_hello)
    }

    /// Records the handshake. True if the supervisor has already reported the start: both are needed.
    pub(super) fn greeted(&mut self) -> bool {
        self.said_hello = self.pid.is_none();
        self.pid.is_some()
    }

    /// Makes the standby the shell.
    pub(super) fn promote(&mut self, channel: Channel, pid: Pid) {
        (self.channel, self.pid) = (Some(Arc::new(channel)), Some(pid));
    }

    /// Lets go of a shell that serves this session no more. Returns its channel and its process.
    pub(super) fn leave(&mut self) -> (Option<Arc<Channel>>, Option<Pid>) {
        let left = std::mem::take(self);
        (left.channel, left.pid)
    }

    /// Records the end of the shell's process. Its channel may still tell whether it has read its last request.
    pub(super) fn ended(&mut self) {
        (self.pid, self.setting_up) = (None, false);
    }

    /// Records the channel's end of file. Either the shell is dead, or a command closed its end. A command that a
    /// caller sent after the end of file was lost.
    pub(super) fn closed(&mut self, unread: bool) {
        let has_lost = self.channel.take().is_some_and(|channel| channel.has_lost());
        self.lost_request = unread || has_lost;
    }

    /// Records that a request could not be sent, because the shell is dead.
    pub(super) fn lose_request(&mut self) {
        self.lost_request = true;
    }

    /// Uses the new channel of a shell that closed its channel. False if a request was lost with the old channel.
    pub(super) fn reconnect(&mut self, pid: Pid, socket: OwnedFd) -> bool {
        // A fork of the shell that has not run yet may still hold the old channel open, which then has no end of file.
        self.lost_request |= self.channel.take().is_some_and(|old| old.has_lost());
        if !self.lost_request {
            self.channel = Channel::reconnected(socket, pid).ok().map(Arc::new);
        }
        !self.lost_request
    }

    /// Whether a request was lost since the last call.
    pub(super) fn take_lost_request(&mut self) -> bool {
        std::mem::take(&mut self.lost_request)
    }

    /// Drops the channel of a dead shell. True if a request was lost with it.
    pub(super) fn take_unread(&mut self) -> bool {
        let lost = self.channel.take().is_some_and(|channel| channel.has_lost());
        self.take_lost_request() || lost
    }

    /// Records that a setup request was sent, or has ended.
    pub(super) fn set_up(&mut self, is_running: bool) {
        self.setting_up = is_running;
    }

    pub(super) fn is_setting_up(&self) -> bool {
        self.setting_up
    }

    /// The next report that has already arrived.
    pub(super) fn poll(&self) -> Option<Received> {
        self.channel.as_deref().and_then(Channel::poll)
    }

    /// Lets reports wake the engine's thread. False if the system does not allow that now.
    pub(super) fn watch(&self) -> bool {
        self.channel.as_ref().is_none_or(|channel| channel.watch().is_ok())
    }

    /// Does not let them wake it.
    pub(super) fn unwatch(&self) {
        self.channel.iter().for_each(|channel| channel.unwatch());
    }

    /// Waits until there may be a report. Cancel-safe.
    pub(super) async fn ready(&self) {
        match &self.channel {
            Some(channel) => channel.ready().await,
            None => std::future::pending().await,
        }
    }

    /// Receives a report, if there is one.
    pub(super) fn try_receive(&self) -> Option<Received> {
        self.channel.as_deref().and_then(Channel::try_receive)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nacre_protocol::shell::{Request, RequestKind};

    #[tokio::test]
    async fn a_command_sent_after_the_end_of_file_was_read_counts_as_unread() {
        let mut link = ShellLink::default();
        let (channel, theirs) = Channel::pair().unwrap();
        link.open(channel);
        drop(theirs);
        let Some(Received::Closed { unread: false }) = link.poll() else { panic!("no end of file") };
        // The fast lane: a caller sends before the actor has taken the loan back.
        link.channel().unwrap().send(&Request::new(RequestKind::Run, 1), Vec::new()).unwrap();
        link.closed(false);
        assert!(link.take_unread());
    }
}
