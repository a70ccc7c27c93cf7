//! The standby: when it is forked, and how it replaces the shell.

use super::context::Session;
use super::timers::Timer;
use crate::outbox::Descriptor;
use crate::shell::channel::{Channel, Received};
use crate::shell::event::Event;
use crate::shell::listener;
use crate::shell::state::Shell;
use nacre_containment::cgroup::Group;
use nacre_protocol::shell::{ForkedFlags, Reply, Request, RequestFlags, RequestKind};
use nacre_protocol::supervisor::Order;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Idle time after which a standby is forked, so that a burst of commands does not pay for warming it.
pub(super) const IDLE_BEFORE_STANDBY: Duration = Duration::from_millis(8);

/// Time after a failed fork during which no standby is forked.
pub(super) const FORK_PAUSE: Duration = Duration::from_secs(1);

impl Session {
    pub(super) fn fork_standby(&mut self, command_follows: bool) {
        self.timers.clear(Timer::Idle);
        if !self.config.uses_builtin {
            return self.events.push_back(Event::StandbyForked);
        }
        // The shell is dead, and the supervisor has not reported it yet. The request goes to the next shell.
        if self.link.shell.is_none() {
            return;
        }
        let id = self.wait.next_id();
        let mut flags = RequestFlags::STANDBY;
        if command_follows {
            flags |= RequestFlags::NO_WARM;
        }
        let group = self.make_group(&format!("s-{id}"));
        let forked = Channel::pair().and_then(|(channel, theirs)| {
            let directory = group.as_deref().map(crate::sys::open_directory).transpose()?;
            if directory.is_some() {
                flags |= RequestFlags::GROUP;
            }
            let shell = self.link.shell.as_ref().ok_or(io::ErrorKind::NotConnected)?;
            shell.send(
                &Request { flags, fork_key: self.wait.fork_key(), ..Request::new(RequestKind::Fork, id) },
                [theirs].into_iter().chain(directory).map(Descriptor::from).collect(),
            )?;
            Ok(channel)
        });
        match forked {
            Ok(channel) => self.link.next_standby = Some((id, channel, group)),
            Err(error) => self.standby_failed(&error.to_string(), group),
        }
    }

    /// Creates a group inside the session's group, in which a fork starts.
    pub(super) fn make_group(&self, name: &str) -> Option<PathBuf> {
        // A shell of another user must not choose its children's groups: the supervisor moves them.
        let session = self.link.foreground.as_ref().filter(|_| self.config.user.is_none())?.parent()?;
        Group::create(session, name).ok().map(|group| group.path().to_path_buf())
    }

    /// Handles the report of a fork or its failure, for the standby or a process.
    pub(super) fn forked(&mut self, id: u64, result: Result<u32, i32>, flags: ForkedFlags) {
        let placed = flags.contains(ForkedFlags::PLACED);
        let child = result.map(|pid| self.outside(pid.cast_signed()));
        let Some((_, channel, group)) = self.link.next_standby.take_if(|(standby, ..)| *standby == id) else {
            return self.process_forked(id, child, placed);
        };
        let pid = match child {
            Ok(Some(pid)) => pid,
            Ok(None) => return self.standby_failed("an invalid pid", group),
            Err(errno) => return self.standby_failed(&io::Error::from_raw_os_error(errno).to_string(), group),
        };
        listener::expect(pid, self.reconnects.clone());
        let group = group.filter(|path| placed || std::fs::remove_dir(path).is_err());
        let group = group.filter(|_| placed).map(|path| path.display().to_string());
        self.order(&Order::Standby { pid, group });
        self.retire_standby();
        self.link.standby = Some((channel, pid));
        self.events.push_back(Event::StandbyForked);
    }

    /// Releases the standby that is being replaced. Its finished forks are kept, and pending forks move to the next
    /// standby.
    fn retire_standby(&mut self) {
        while let Some(Received::Reply(Reply::Forked { id, result, flags })) =
            self.link.standby.as_ref().and_then(|(channel, _)| channel.poll())
        {
            self.forked(id, result, flags);
        }
        if let Some((_, old)) = self.link.standby.take() {
            listener::forget(old);
            self.link.retired.push(old);
        }
        self.submit_again(false);
    }

    pub(super) fn standby_failed(&mut self, reason: &str, group: Option<PathBuf>) {
        tracing::warn!(log = self.config.log.id(), session = %self.config.id, reason, "no standby can be forked");
        if let Some(group) = group {
            let _ = std::fs::remove_dir(group);
        }
        self.timers.set(Timer::ForkPauseOver, Instant::now() + FORK_PAUSE);
        self.events.push_back(Event::ForkFailed);
    }

    /// Drops the standby that the dead shell was forking, since it will never arrive.
    pub(super) fn drop_unforked_standby(&mut self) {
        if let Some((_, _, Some(group))) = self.link.next_standby.take() {
            let _ = std::fs::remove_dir(group);
        }
    }

    /// Called after an event: schedules a standby for when the session stays idle.
    pub(super) fn schedule_standby(&mut self) {
        let due = self.state.shell == Shell::Idle && !self.state.standby.fresh && !self.state.standby.paused;
        if !due {
            self.timers.clear(Timer::Idle);
        } else if !self.timers.is_set(Timer::Idle) {
            self.timers.set(Timer::Idle, Instant::now() + IDLE_BEFORE_STANDBY);
        }
    }

    pub(super) fn promote(&mut self) {
        if !self.config.uses_builtin {
            return self.events.push_back(Event::ShellDied { unread: false });
        }
        tracing::warn!(log = self.config.log.id(), session = %self.config.id, "the shell died; its standby takes over");
        let Some((channel, pid)) = self.link.standby.take() else {
            return self.events.push_back(Event::ShellDied { unread: false });
        };
        self.ask(&Order::Promote);
        let sent = channel.send(&Request { ..Request::new(RequestKind::Promote, self.wait.status) }, Vec::new());
        self.processes.standby_promoted();
        self.link.shell = Some(Arc::new(channel));
        self.link.shell_pid = Some(pid);
        if sent.is_err() {
            self.order(&Order::KillShell);
        }
    }
}
