//! The standby: when it is forked, and how it replaces the shell.

use super::Session;
use super::timers::Timer;
use crate::link::Descriptor;
use crate::shell::channel::{Channel, Received};
use crate::shell::event::{Event, Source};
use crate::shell::listener;
use crate::shell::state::Shell;
use nacre_containment::cgroup::Group;
use nacre_containment::pid::Pid;
use nacre_protocol::shell::{ForkedFlags, Reply, Request, RequestFlags, RequestKind};
use nacre_protocol::supervisor::Order;
use std::io;
use std::path::PathBuf;
use std::time::Duration;
use tokio::time::Instant;

/// Idle time after which a standby is forked, so that a burst of commands does not pay for warming it.
pub(super) const IDLE_BEFORE_STANDBY: Duration = Duration::from_millis(8);

/// Time after a failed fork during which no standby is forked.
pub(super) const FORK_PAUSE: Duration = Duration::from_secs(1);

/// Time limit for a standby to become the shell. It takes less than a millisecond, unless something stops the standby.
pub(super) const PROMOTION: Duration = Duration::from_secs(5);

/// The standbys of a session.
#[derive(Default)]
pub(super) struct Standbys {
    current: Option<(Channel, Pid)>,
    /// The standby that is being forked, and its group.
    next: Option<(u64, Channel, Option<PathBuf>)>,
    /// Replaced standbys that live in the foreground group.
    retired: Vec<Pid>,
}

impl Standbys {
    pub(super) fn channel(&self) -> Option<&Channel> {
        self.current.as_ref().map(|(channel, _)| channel)
    }

    pub(super) fn pid(&self) -> Option<Pid> {
        self.current.as_ref().map(|(_, pid)| *pid)
    }

    pub(super) fn is_forking(&self) -> bool {
        self.next.is_some()
    }

    /// Removes the standby, which may be the only process with the session's state.
    pub(super) fn take(&mut self) -> Option<(Channel, Pid)> {
        self.current.take()
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
}

impl Session {
    pub(super) fn fork_standby(&mut self, command_follows: bool) {
        self.timers.clear(Timer::Idle);
        // The shell is dead, and the supervisor has not reported it yet. The request goes to the next shell.
        let Some(shell) = self.shell.channel().cloned() else { return };
        let id = self.numbers.next();
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
            shell.send(
                &Request { flags, fork_key: self.numbers.fork_key(), ..Request::new(RequestKind::Fork, id) },
                [theirs].into_iter().chain(directory).map(Descriptor::from).collect(),
            )?;
            Ok(channel)
        });
        match forked {
            Ok(channel) => {
                self.standbys.next = Some((id, channel, group));
                self.expect_forks();
            }
            Err(error) => self.standby_failed(&error.to_string(), group),
        }
    }

    /// Creates a group inside the session's group, in which a fork starts.
    pub(super) fn make_group(&self, name: &str) -> Option<PathBuf> {
        // A shell of another user must not choose its children's groups: the supervisor moves them.
        if self.config.user.is_some() {
            return None;
        }
        let session = self.supervision.session_group()?;
        Group::create(session.path(), name).ok().map(|group| group.path().to_path_buf())
    }

    /// Handles the report of a fork or its failure, for the standby or a process.
    pub(super) fn forked(&mut self, id: u64, result: Result<u32, i32>, flags: ForkedFlags) {
        self.take_fork(id, result, flags);
        self.expect_forks();
    }

    fn take_fork(&mut self, id: u64, result: Result<u32, i32>, flags: ForkedFlags) {
        let placed = flags.contains(ForkedFlags::PLACED);
        let child = result.map(|pid| self.outside(pid.cast_signed()));
        let Some((_, channel, group)) = self.standbys.next.take_if(|(standby, ..)| *standby == id) else {
            return self.process_forked(id, child, placed);
        };
        let pid = match child {
            Ok(Some(pid)) => pid,
            Ok(None) => return self.standby_failed("an invalid pid", group),
            Err(errno) => return self.standby_failed(&io::Error::from_raw_os_error(errno).to_string(), group),
        };
        channel.set_owner(pid);
        listener::expect(pid, self.reconnects.clone());
        let group = group.filter(|path| placed || std::fs::remove_dir(path).is_err());
        let group = group.filter(|_| placed).map(|path| path.display().to_string());
        self.order(&Order::Standby { pid, group });
        self.retire_standby();
        self.standbys.current = Some((channel, pid));
        self.events.push_back(Event::StandbyForked);
    }

    /// Releases the standby that is being replaced. Its finished forks are kept, and pending forks move to the next
    /// standby.
    fn retire_standby(&mut self) {
        while let Some(Received::Reply(Reply::Forked { id, result, flags })) =
            self.standbys.channel().and_then(Channel::poll)
        {
            self.forked(id, result, flags);
        }
        if let Some((_, old)) = self.standbys.take() {
            listener::forget(old);
            self.standbys.retired.push(old);
        }
        self.source_gone(Source::Standby);
    }

    pub(super) fn handle_standby_report(&mut self, received: Received) {
        match received {
            Received::Closed { .. } => self.lose_standby(),
            Received::Reply(Reply::Forked { id, result, flags }) => self.forked(id, result, flags),
            Received::Reply(_) => {}
        }
    }

    pub(super) fn lose_standby(&mut self) {
        if let Some((_, pid)) = self.standbys.take() {
            if self.state.shell != Shell::Closing {
                tracing::warn!(log = self.config.log.id(), session = %self.config.id, %pid, "the standby died");
            }
            listener::forget(pid);
            self.events.push_back(Event::StandbyDied);
        }
        self.source_gone(Source::Standby);
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
        if let Some((_, _, Some(group))) = self.standbys.next.take() {
            let _ = std::fs::remove_dir(group);
        }
    }

    /// Called after an event: schedules a standby for when the session stays idle.
    pub(super) fn schedule_standby(&mut self) {
        if !self.state.lacks_standby() {
            self.timers.clear(Timer::Idle);
        } else if !self.timers.is_set(Timer::Idle) {
            self.timers.set(Timer::Idle, Instant::now() + IDLE_BEFORE_STANDBY);
        }
    }

    pub(super) fn promote(&mut self) {
        tracing::warn!(log = self.config.log.id(), session = %self.config.id, "the shell died; its standby takes over");
        if self.standbys.pid().is_some() {
            self.ask(&Order::Promote);
        }
        self.use_standby();
    }

    /// Makes the standby, which the supervisor has been ordered to promote, the shell.
    pub(super) fn use_standby(&mut self) {
        self.supervision.forget_foreground_group();
        let Some((channel, pid)) = self.standbys.take() else {
            // In plain mode, the host has the state.
            let is_plain = self.plain.is_engine();
            return self.events.push_back(if is_plain { Event::Promoted } else { Event::ShellDied { unread: false } });
        };
        let sent =
            channel.send(&Request { ..Request::new(RequestKind::Promote, self.foreground.status()) }, Vec::new());
        self.standby_promoted();
        self.shell.promote(channel, pid);
        if sent.is_err() {
            self.order(&Order::KillShell);
        }
        self.timers.set(Timer::Promotion, Instant::now() + PROMOTION);
    }

    /// Kills a standby that does not become the shell. A new shell with the last checkpoint follows.
    pub(super) fn promotion_overdue(&mut self) {
        if self.state.shell == Shell::Promoting {
            tracing::warn!(log = self.config.log.id(), session = %self.config.id, "the standby does not take over and is killed");
            self.order(&Order::KillShell);
        }
    }
}
