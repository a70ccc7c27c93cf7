//! The background processes of a session: a pure machine decides, and `perform.rs` acts on its effects.

mod detached;
mod machine;
mod perform;

use machine::Key;
pub(super) use machine::ProcessEvent;
pub(super) use nacre_containment::lock::Lock;

use super::stdin::StdinEnd;
use crate::error::Error;
use crate::link::LinkMessage;
use crate::output::reader::Reader;
use crate::process::StartRequest;
use crate::process::pump::Status;
use crate::process::terminal::Terminal;
use crate::shell::channel::Channel;
use crate::shell::event::Source;
use detached::Detached;
use machine::Machine;
use nacre_containment::tree::Tree;
use nacre_protocol::supervisor::Order;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use tokio::sync::oneshot;

/// The background processes of a session.
#[derive(Default)]
pub(super) struct Background {
    machine: Machine,
    starts: HashMap<Key, Start>,
    /// Receive the ends of running processes.
    living: HashMap<Key, oneshot::Sender<Status>>,
    /// Those of the last [`Lost`], while it is kept.
    lost: Weak<Lock<Vec<oneshot::Sender<Status>>>>,
    /// Receive the outcome of kills, by the number of the order.
    kills: HashMap<u64, oneshot::Sender<bool>>,
    /// An empty group for the next process.
    next_group: Option<PathBuf>,
    /// Those that were commands.
    pub detached: Detached,
}

impl Background {
    /// Whether the shell or the standby was asked to fork a process, and has not answered.
    pub(super) fn awaits_fork_from(&self, source: Source) -> bool {
        self.machine.awaits_fork_from(source)
    }

    /// Adds a process that was a command. Returns what receives its end.
    fn receive_end(&mut self, key: Key) -> oneshot::Receiver<Status> {
        let (ended, end) = oneshot::channel();
        self.living.insert(key, ended);
        end
    }

    /// Records why a start fails, if it does.
    fn fails_with(&mut self, key: Key, error: Error) {
        if let Some(start) = self.starts.get_mut(&key) {
            start.failure = Some(error);
        }
    }

    /// The receivers of the processes that have just lost their supervisor.
    fn lose_living(&mut self) -> Lost {
        let ends = Arc::new(Lock::new(std::mem::take(&mut self.living).into_values().collect()));
        self.lost = Arc::downgrade(&ends);
        Lost { _ends: ends }
    }

    /// Ends a process. If how it ended is unknown, it has ended once what its supervisor left behind is dead.
    fn end(&mut self, key: Key, status: Option<Status>) {
        let Some(ended) = self.living.remove(&key) else { return };
        match (status, self.lost.upgrade()) {
            (Some(status), _) => drop(ended.send(status)),
            (None, Some(lost)) => lost.lock().push(ended),
            // The receiver learns that nothing comes.
            (None, None) => drop(ended),
        }
    }
}

/// The ends of processes that nothing observes any more. They count as ended when this is dropped, so it is kept until
/// they are dead.
#[must_use = "the processes count as ended when this is dropped"]
pub(super) struct Lost {
    _ends: Arc<Lock<Vec<oneshot::Sender<Status>>>>,
}

/// What a start has so far.
struct Start {
    request: StartRequest,
    /// Reports how it begins.
    beginning: Option<Beginning>,
    /// The group that the fork was asked to begin in.
    group: Option<PathBuf>,
    /// The adoption, until it is ordered.
    adopt: Option<Order>,
    tree: Option<Tree>,
    output: Reader,
    /// Where its input goes. Nothing writes before the process has begun: until then, the start can be requested again.
    stdin: Option<StdinEnd>,
    terminal: Option<Terminal>,
    /// The host's end of the channel of messages.
    messages: Option<OwnedFd>,
    message: Option<LinkMessage>,
    /// Why it fails.
    failure: Option<Error>,
}

/// What reports how a process begins.
enum Beginning {
    /// Its channel, which carries its command, too.
    Fork(Channel),
    /// A pipe: the script writes a letter (plain mode).
    Launch(OwnedFd),
}

impl Start {
    fn new(request: StartRequest) -> Self {
        Self {
            request,
            beginning: None,
            group: None,
            adopt: None,
            tree: None,
            output: Reader::default(),
            stdin: None,
            terminal: None,
            messages: None,
            message: None,
            failure: None,
        }
    }

    /// Removes the group in which nothing was born.
    fn remove_group(&mut self) {
        if let Some(group) = self.group.take() {
            let _ = std::fs::remove_dir(group);
        }
    }

    fn refuse(mut self, error: Error) {
        self.remove_group();
        self.request.refuse(error);
    }
}
