//! The background processes of a session, from request to end.

use crate::error::{Code, Error};
use crate::exec::KillPolicy;
use crate::process::StartRequest;
use crate::process::pump::Status;
use crate::shell::channel::Channel;
use crate::supervisor::Supervisor;
use nacre_containment::tree::Tree;
use nacre_protocol::supervisor::Order;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use tokio::sync::oneshot;

/// The source of a process's output: two pipes, or only the terminal's master.
pub(super) type Outlets = [Option<OwnedFd>; 2];

/// The parts of a starting process of the plain engine.
pub(super) type Pending = (StartRequest, OwnedFd, Outlets);

/// The stage of a process.
pub(super) enum Stage {
    /// It is being forked.
    Forking { channel: Channel, group: Option<PathBuf>, from_shell: bool },
    /// The supervisor has been ordered to adopt it.
    Adopting { channel: Channel },
    /// Plain engine: its bash is being started.
    Plain { ready: OwnedFd, outlets: Outlets },
    /// It is setting up its directory, variables and limits, which can fail.
    SettingUp { tree: Tree, outlets: Outlets, ended: Option<Status> },
}

pub(super) struct Starting {
    pub(super) request: StartRequest,
    pub(super) stage: Stage,
}

impl Starting {
    fn is_adopting(&self) -> bool {
        matches!(self.stage, Stage::Adopting { .. })
    }
}

/// See the module.
#[derive(Default)]
pub(super) struct Processes {
    pub(super) starting: HashMap<u64, Starting>,
    pub(super) living: HashMap<u64, oneshot::Sender<Status>>,
    pub(super) kills: HashMap<u64, oneshot::Sender<bool>>,
    pub(super) keys: u64,
    pub(super) orders: u64,
}

impl Processes {
    /// Ends a process with its tree. Replies when nothing is left: false if it had already ended.
    pub(super) fn kill(&mut self, key: u64, policy: KillPolicy, reply: oneshot::Sender<bool>, supervisor: &Supervisor) {
        self.orders += 1;
        self.kills.insert(self.orders, reply);
        let grace_ms = if policy.signal == libc::SIGKILL { 0 } else { policy.grace.as_millis() as u64 };
        supervisor.order(&Order::KillProcess { id: self.orders, key, signal: policy.signal, grace_ms });
    }

    /// Sends a signal to the process group of a process.
    pub(super) fn signal(key: u64, signal: i32, supervisor: &Supervisor) {
        supervisor.order(&Order::SignalProcess { key, signal });
    }

    /// Adds a plain engine process whose bash is starting.
    pub(super) fn add_plain(&mut self, key: u64, starting: Starting) {
        self.starting.insert(key, starting);
    }

    /// Removes and returns such a process.
    pub(super) fn take_plain(&mut self, key: u64) -> Option<Pending> {
        match self.starting.remove(&key)? {
            Starting { request, stage: Stage::Plain { ready, outlets } } => Some((request, ready, outlets)),
            Starting { .. } => None,
        }
    }

    /// Records that the process is setting itself up.
    pub(super) fn set_up(&mut self, key: u64, request: StartRequest, tree: Tree, outlets: Outlets) {
        self.starting.insert(key, Starting { request, stage: Stage::SettingUp { tree, outlets, ended: None } });
    }

    /// Removes and returns a process that waits for its adoption.
    pub(super) fn take_adopting(&mut self, key: u64) -> Option<Starting> {
        self.starting.extract_if(|other, starting| *other == key && starting.is_adopting()).map(|(_, it)| it).next()
    }

    /// True if the process is starting or running.
    pub(super) fn is_known(&self, key: u64) -> bool {
        self.starting.contains_key(&key) || self.living.contains_key(&key)
    }

    /// Refuses all processes that are not running yet.
    pub(super) fn refuse_starting(&mut self, error: impl Fn() -> Error) {
        self.starting.drain().for_each(|(_, starting)| starting.request.refuse(error()));
    }

    /// Handles the death of the supervisor, and of every process with it.
    pub(super) fn lose_all(&mut self, session: &str) {
        self.refuse_starting(|| {
            Error::new(
                Code::SpawnFailed,
                format!("the supervisor of session '{session}' died before the process began"),
            )
        });
        self.living.clear();
        self.kills.clear();
    }

    /// Moves pending forks from the standby to the shell, after its promotion.
    pub(super) fn standby_promoted(&mut self) {
        for starting in self.starting.values_mut() {
            if let Stage::Forking { from_shell, .. } = &mut starting.stage {
                *from_shell = true;
            }
        }
    }

    /// Handles the death of the shell or the standby. Returns the requests that it had not forked.
    pub(super) fn source_died(&mut self, was_shell: bool) -> Vec<StartRequest> {
        let unborn = |starting: &Starting| matches!(starting.stage, Stage::Forking { from_shell, .. } if from_shell == was_shell);
        let mut requests = Vec::new();
        for (_, starting) in self.starting.extract_if(|_, starting| unborn(starting)) {
            if let Stage::Forking { group: Some(group), .. } = &starting.stage {
                let _ = std::fs::remove_dir(group);
            }
            requests.push(starting.request);
        }
        requests
    }
}

pub(super) fn refuse_killed(request: StartRequest) {
    let message = format!("process '{}' was killed before it had begun", request.process.id);
    request.refuse(Error::new(Code::SpawnFailed, message));
}
