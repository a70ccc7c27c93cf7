//! The background processes of a session: from a request to a process that runs, and to its end.
//!
//! A process is a fork of the standby or of the idle shell. It is adopted by the supervisor, put under its limits, and
//! then sent its command over a channel of its own, which closes when the command begins.

use super::actor::{Internal, Session};
use super::command::{Streams, env_of, text_of};
use super::outcome::no_fork;
use super::perform::open_directory;
use super::plain::Pending;
use super::stdin::{self, StdinEnd};
use crate::error::{Code, Error};
use crate::exec::{Input, KillPolicy};
use crate::outbox::Descriptor;
use crate::process::pump::Status;
use crate::process::terminal::Terminal;
use crate::process::{self, StartRequest};
use crate::shell::channel::{Channel, Received};
use crate::supervisor::Supervisor;
use nacre_containment::cgroup::Group;
use nacre_containment::pid::Pid;
use nacre_containment::tree::{MARK, Tree};
use nacre_protocol::shell::{Reply, Request, RequestFlags, RequestKind};
use nacre_protocol::supervisor::{Order, Report};
use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;
use tokio::sync::oneshot;

/// Where a process's output arrives: two pipes, or the terminal's master alone.
pub(super) type Outlets = [Option<OwnedFd>; 2];

/// How far a process is.
pub(super) enum Stage {
    /// It is being forked.
    Forking { channel: Channel, group: Option<PathBuf>, from_shell: bool },
    /// The supervisor is asked to adopt it.
    Adopting { channel: Channel },
    /// Plain engine: its bash is being started.
    Plain { ready: OwnedFd, outlets: Outlets },
    /// It sets up its directory, variables and limits, which can fail.
    SettingUp { tree: Tree, outlets: Outlets, ended: Option<Status> },
}

pub(super) struct Starting {
    pub(super) request: StartRequest,
    pub(super) stage: Stage,
}

/// See the module.
#[derive(Default)]
pub(super) struct Processes {
    starting: HashMap<u64, Starting>,
    living: HashMap<u64, oneshot::Sender<Status>>,
    kills: HashMap<u64, oneshot::Sender<bool>>,
    keys: u64,
    orders: u64,
}

impl Processes {
    /// Ends a process with its tree. The reply comes when nothing is left: false when there was nothing to end.
    pub(super) fn kill(&mut self, key: u64, policy: KillPolicy, reply: oneshot::Sender<bool>, supervisor: &Supervisor) {
        self.orders += 1;
        self.kills.insert(self.orders, reply);
        let grace_ms = if policy.signal == libc::SIGKILL { 0 } else { policy.grace.as_millis() as u64 };
        supervisor.order(&Order::KillProcess { id: self.orders, key, signal: policy.signal, grace_ms });
    }

    /// Plain engine: a process whose bash is being started.
    pub(super) fn add_plain(&mut self, key: u64, starting: Starting) {
        self.starting.insert(key, starting);
    }

    /// Takes such a process back.
    pub(super) fn take_plain(&mut self, key: u64) -> Option<Pending> {
        match self.starting.remove(&key)? {
            Starting { request, stage: Stage::Plain { ready, outlets } } => Some((request, ready, outlets)),
            Starting { .. } => None,
        }
    }

    /// The process sets itself up.
    pub(super) fn set_up(&mut self, key: u64, request: StartRequest, tree: Tree, outlets: Outlets) {
        self.starting.insert(key, Starting { request, stage: Stage::SettingUp { tree, outlets, ended: None } });
    }

    /// Refuses everything that does not run yet.
    pub(super) fn refuse_starting(&mut self, error: impl Fn() -> Error) {
        self.starting.drain().for_each(|(_, starting)| starting.request.refuse(error()));
    }

    /// The supervisor is gone, and every process with it.
    pub(super) fn lose_all(&mut self, session: &str) {
        self.refuse_starting(|| {
            Error::new(Code::SpawnFailed, format!("the supervisor of session '{session}' died before the process began"))
        });
        self.living.clear();
        self.kills.clear();
    }

    /// The shell or the standby died: what it was asked to fork and did not is refused.
    pub(super) fn source_died(&mut self, session: &str, was_shell: bool) {
        let unborn = |starting: &Starting| {
            matches!(starting.stage, Stage::Forking { from_shell, .. } if from_shell == was_shell)
        };
        let keys: Vec<u64> =
            self.starting.iter().filter(|(_, starting)| unborn(starting)).map(|(key, _)| *key).collect();
        for starting in keys.into_iter().filter_map(|key| self.starting.remove(&key)) {
            if let Stage::Forking { group: Some(group), .. } = &starting.stage {
                let _ = std::fs::remove_dir(group);
            }
            let id = &starting.request.process.id;
            let message = format!("process '{id}' cannot be started: the shell of session '{session}' died over it");
            starting.request.refuse(Error::new(Code::SpawnFailed, message));
        }
    }
}

impl Session {
    /// Forks a process from the shell or from the standby.
    pub(super) fn fork_process(&mut self, request: StartRequest, from_shell: bool) {
        if request.process.is_doomed() {
            let message = format!("the session ended before process '{}' had begun", request.process.id);
            return request.refuse(Error::new(Code::SessionDestroyed, message));
        }
        if !self.config.uses_builtin {
            return self.plain_process(request);
        }
        let key = self.next_key();
        let group = self.make_group(&format!("b-{key}"));
        let mut flags = RequestFlags::BACKGROUND;
        if request.new.terminal.is_some() {
            flags |= RequestFlags::TERMINAL;
        }
        let asked = Channel::pair().and_then(|(channel, theirs)| {
            let directory = group.as_deref().map(open_directory).transpose()?;
            if directory.is_some() {
                flags |= RequestFlags::GROUP;
            }
            let standby = self.link.standby.as_ref().map(|(channel, _)| channel);
            let source = if from_shell { self.link.shell.as_ref() } else { standby };
            let source = source.ok_or(io::ErrorKind::NotConnected)?;
            source.send(&Request { flags, ..Request::new(RequestKind::Fork, key) }, [theirs].into_iter().chain(directory).map(Descriptor::from).collect())?;
            Ok(channel)
        });
        match asked {
            Ok(channel) => {
                let stage = Stage::Forking { channel, group, from_shell };
                self.processes.starting.insert(key, Starting { request, stage });
            }
            Err(error) => {
                group.into_iter().for_each(|group| drop(std::fs::remove_dir(group)));
                let message = format!("process '{}' cannot be started: {error}", request.process.id);
                request.refuse(Error::new(Code::SpawnFailed, message));
            }
        }
    }

    /// Keys of processes and numbers of requests are one sequence: a fork is known by its number.
    pub(super) fn next_key(&mut self) -> u64 {
        self.processes.keys = self.wait.next_id();
        self.processes.keys
    }

    /// The shell or standby has forked it, or cannot.
    pub(super) fn process_forked(&mut self, key: u64, child: Result<Option<Pid>, i32>, placed: bool) {
        let Some(starting) = self.processes.starting.remove(&key) else { return };
        let Starting { request, stage: Stage::Forking { channel, group, .. } } = starting else { return };
        let Some(pid) = child.ok().flatten() else {
            group.into_iter().for_each(|group| drop(std::fs::remove_dir(group)));
            return request.refuse(no_fork());
        };
        if !placed && let Some(group) = &group {
            let _ = std::fs::remove_dir(group);
        }
        let group = group.filter(|_| placed).map(|group| group.display().to_string());
        let limits = request.new.limits.group.clone();
        self.ask(&Order::Adopt { key, pid, group, mark: self.mark(key), limits });
        self.processes.starting.insert(key, Starting { request, stage: Stage::Adopting { channel } });
    }

    /// Distinguishes the process from all others below any supervisor.
    pub(super) fn mark(&self, key: u64) -> String {
        format!("{}-{key}", self.last_supervisor.map_or(0, Pid::raw))
    }

    /// A report of the supervisor about a process.
    pub(super) fn process_report(&mut self, report: Report) {
        match report {
            Report::Adopted { key, identity, group, problem } => {
                let Some(Starting { request, stage }) = self.processes.starting.remove(&key) else {
                    return self.drop_process(key);
                };
                let Stage::Adopting { channel } = stage else { return };
                match (identity, problem) {
                    (None, _) => refuse_killed(request),
                    (Some(_), Some(problem)) => {
                        self.drop_process(key);
                        let message = format!("process '{}' cannot be limited: {}", request.process.id, problem.0);
                        request.refuse(Error::new(Code::LimitUnsupported, message));
                    }
                    (Some(root), None) => {
                        let guardian = self.last_supervisor.unwrap_or(root.pid);
                        let tree = Tree { root, group: group.map(Group::at), mark: self.mark(key), guardian };
                        self.begin(key, request, channel, tree);
                    }
                }
            }
            Report::ProcessEnded { key, code, signal, out_of_memory, alone } => {
                let status = Status { code, signal, out_of_memory, alone };
                if let Some(Starting { stage: Stage::SettingUp { ended, .. }, .. }) =
                    self.processes.starting.get_mut(&key)
                {
                    // It may have said before that it began: its channel has the last word.
                    *ended = Some(status);
                } else if let Some(ended) = self.processes.living.remove(&key) {
                    let _ = ended.send(status);
                }
            }
            Report::ProcessKilled { id, found, .. } => {
                if let Some(reply) = self.processes.kills.remove(&id) {
                    let _ = reply.send(found);
                }
            }
            _ => {}
        }
    }

    /// Sends the process its command.
    fn begin(&mut self, key: u64, mut request: StartRequest, channel: Channel, tree: Tree) {
        let new = &mut request.new;
        let inherited = new.limits.inherited;
        let is_limited = inherited.open_files.or(inherited.processes).is_some();
        let can_fail = new.cwd.is_some() || !new.env.is_empty() || is_limited;
        let (text, mut flags) = text_of(&new.command);
        let mut env = env_of(&new.env);
        if tree.group.is_none() {
            env.extend(format!("{MARK}={}\0", tree.mark).as_bytes());
        }
        if new.terminal.is_some() {
            flags |= RequestFlags::TERMINAL_STREAMS;
        }
        let cwd = new.cwd.as_ref().map(|cwd| cwd.as_os_str().as_encoded_bytes().to_vec()).unwrap_or_default();
        let opened = self.open_outlets(&mut request).and_then(|(theirs, outlets)| {
            let wire = Request {
                text: &text,
                cwd: &cwd,
                env: &env,
                open_files: inherited.open_files,
                processes: inherited.processes,
                flags, ..Request::new(RequestKind::Run, key)
            };
            // The caller is answered before the process begins: on a busy machine it would have to wait for the process's
            // first turn on the processor as well.
            channel.send(&wire, theirs)?;
            Ok(outlets)
        });
        match opened {
            Err(error) => {
                self.drop_process(key);
                let message = format!("process '{}' cannot be started: {error}", request.process.id);
                return request.refuse(Error::new(Code::SpawnFailed, message));
            }
            Ok(outlets) if can_fail => {
                let stage = Stage::SettingUp { tree, outlets, ended: None };
                self.processes.starting.insert(key, Starting { request, stage });
            }
            Ok(outlets) => self.settle(key, request, outlets, tree),
        }
        let internal = self.internal.clone();
        tokio::spawn(async move {
            let received = channel.receive().await;
            let _ = internal.send(Internal::Process(key, received));
        });
    }

    pub(super) fn open_outlets(&self, request: &mut StartRequest) -> io::Result<(Vec<Descriptor>, Outlets)> {
        let input = std::mem::replace(&mut request.new.input, Input::None);
        let Some(size) = request.new.terminal else {
            let Streams { theirs, output, stdin } = Streams::open(&input, None)?;
            let [stdout, stderr] = output.into_readers();
            if let Some(end) = stdin {
                feed_until_end(end, input, &request.process);
            }
            return Ok((theirs, [Some(stdout), Some(stderr)]));
        };
        let owner = self.config.user.as_ref().map(|user| (user.uid, user.gid));
        let terminal = Terminal::open(size, owner)?;
        let theirs = terminal.open_other_side()?;
        let theirs = Arc::new(theirs);
        let theirs = vec![Arc::clone(&theirs).into(), Arc::clone(&theirs).into(), theirs.into()];
        let (output, typing) = (terminal.side()?, terminal.side()?);
        request.process.set_terminal(terminal);
        feed_until_end(StdinEnd::Terminal(typing), input, &request.process);
        Ok((theirs, [Some(output), None]))
    }

    /// What a starting process has said.
    pub(super) fn process_said(&mut self, key: u64, received: Received) {
        let Some(Starting { request, stage }) = self.processes.starting.remove(&key) else { return };
        let Stage::SettingUp { tree, outlets, ended } = stage else { return };
        match received {
            Received::Reply(Reply::Refused { reason, about, .. }) => {
                let error = self.refused(Some((reason, about)), request.new.cwd.as_deref(), "process");
                request.refuse(error);
            }
            Received::Reply(_) => {
                self.settle(key, request, outlets, tree);
                if let Some(status) = ended
                    && let Some(ended) = self.processes.living.remove(&key)
                {
                    let _ = ended.send(status);
                }
            }
            Received::Closed { .. } => refuse_killed(request),
        }
    }

    /// It is a process from now on.
    fn settle(&mut self, key: u64, request: StartRequest, outlets: Outlets, tree: Tree) {
        let (ended, end) = oneshot::channel();
        self.processes.living.insert(key, ended);
        tracing::debug!(log = self.config.log.id(), session = %self.config.id, process = %request.process.id, pid = %tree.root.pid, "process started");
        process::pump(Arc::clone(&request.process), outlets, end);
        request.process.born(key, process::Birth { pid: tree.root.pid, at: SystemTime::now(), tree });
        if request.process.is_doomed() {
            self.drop_process(key);
        }
        if let Some(timeout) = request.new.timeout {
            process::end_after(Arc::clone(&request.process), timeout, request.new.kill);
        }
        request.starter.tell(Ok(()));
    }

    /// Kills a process that nothing waits for.
    pub(super) fn drop_process(&self, key: u64) {
        if let Some(supervisor) = &self.link.supervisor {
            supervisor.order(&Order::KillProcess { id: 0, key, signal: libc::SIGKILL, grace_ms: 0 });
        }
    }
}

/// Writes standard input until the process ends: nothing else closes a terminal's side when the process is killed.
fn feed_until_end(end: StdinEnd, input: Input, process: &Arc<process::Process>) {
    let feeder = stdin::feed(end, input);
    let process = Arc::clone(process);
    tokio::spawn(async move {
        let abort = feeder.abort_handle();
        tokio::select! {
            _ = feeder => {}
            () = process.wait() => abort.abort(),
        }
    });
}

fn refuse_killed(request: StartRequest) {
    let message = format!("process '{}' was killed before it had begun", request.process.id);
    request.refuse(Error::new(Code::SpawnFailed, message));
}
