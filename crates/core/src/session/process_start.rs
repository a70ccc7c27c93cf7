//! Starting a background process.
//!
//! A process is a fork of the standby or of the idle shell. The supervisor adopts the process, and the host then sends
//! the command over the process's own channel, which closes when the command begins. The host waits for the adoption
//! only if the process is not yet contained: if it has no group from its start, or needs limits. Otherwise the
//! supervisor reads the order to adopt before it reaps the process, so the host need not wait.

use super::command::{Streams, env_of, text_of};
use super::context::{Internal, Session};
use super::outcome::no_fork;
use super::processes::{Outlets, Stage, Starting};
use super::stdin::{self, StdinEnd};
use super::timers::Timer;
use crate::error::{Code, Error};
use crate::exec::Input;
use crate::outbox::Descriptor;
use crate::process::terminal::Terminal;
use crate::process::{self, StartRequest};
use crate::shell::channel::Channel;
use crate::supervisor::PidHold;
use nacre_containment::cgroup::Group;
use nacre_containment::pid::{Identity, Pid};
use nacre_containment::proc_table::Stat;
use nacre_containment::tree::{MARK, Tree};
use nacre_protocol::shell::{Request, RequestFlags, RequestKind};
use nacre_protocol::supervisor::Order;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Time after a start at which the group for the next process is created. That takes the kernel 0.1 ms.
const SPARE_GROUP: Duration = Duration::from_millis(2);

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
        // Another program may have removed the empty group.
        let spare = self.link.spare_group.take().filter(|group| group.is_dir());
        let group = spare.or_else(|| self.make_group(&format!("b-{key}")));
        let mut flags = RequestFlags::BACKGROUND;
        if request.new.terminal.is_some() {
            flags |= RequestFlags::TERMINAL;
        }
        let asked = Channel::pair().and_then(|(channel, theirs)| {
            let directory = group.as_deref().map(crate::sys::open_directory).transpose()?;
            if directory.is_some() {
                flags |= RequestFlags::GROUP;
            }
            let standby = self.link.standby.as_ref().map(|(channel, _)| channel);
            let source = if from_shell { self.link.shell.as_deref() } else { standby };
            let source = source.ok_or(io::ErrorKind::NotConnected)?;
            source.send(
                &Request { flags, fork_key: self.wait.fork_key(), ..Request::new(RequestKind::Fork, key) },
                [theirs].into_iter().chain(directory).map(Descriptor::from).collect(),
            )?;
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

    /// Creates the group for the next process in advance.
    pub(super) fn make_spare_group(&mut self) {
        if self.link.spare_group.is_none() && self.link.shell.is_some() {
            let number = self.wait.next_id();
            self.link.spare_group = self.make_group(&format!("b-{number}"));
        }
    }

    /// The next key. Keys of processes and numbers of requests form one sequence, so a number identifies a fork.
    pub(super) fn next_key(&mut self) -> u64 {
        self.processes.keys = self.wait.next_id();
        self.processes.keys
    }

    /// Handles the report that the shell or standby has forked the process, or failed to.
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
        let supervisor = self.last_supervisor.as_ref().map(|supervisor| supervisor.pid().raw());
        let is_contained = group.is_some() && limits.is_empty();
        let root =
            Stat::read(pid).filter(|stat| is_contained && Some(stat.parent) == supervisor).map(|stat| stat.identity);
        let adopt = Order::Adopt { key, pid, group: group.clone(), mark: self.mark(key), limits };
        if let Some(root) = root {
            return self.begin(key, request, channel, self.tree(key, root, group), Some(&adopt));
        }
        self.ask(&adopt);
        self.processes.starting.insert(key, Starting { request, stage: Stage::Adopting { channel } });
    }

    /// The process and its descendants.
    pub(super) fn tree(&self, key: u64, root: Identity, group: Option<String>) -> Tree {
        let guardian = self.last_supervisor.as_ref().map_or(root.pid, PidHold::pid);
        Tree { root, group: group.map(Group::at), mark: self.mark(key), guardian }
    }

    /// The mark that distinguishes the process from all others below any supervisor.
    pub(super) fn mark(&self, key: u64) -> String {
        format!("{}-{key}", self.last_supervisor.as_ref().map_or(0, |supervisor| supervisor.pid().raw()))
    }

    /// Sends the process its command. If nothing can fail any more, answers the caller first. On a busy machine, the
    /// caller would otherwise wait until the supervisor and the process have been scheduled.
    pub(super) fn begin(
        &mut self,
        key: u64,
        mut request: StartRequest,
        channel: Channel,
        tree: Tree,
        adopt: Option<&Order>,
    ) {
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
                flags,
                ..Request::new(RequestKind::Run, key)
            };
            Ok((Channel::prepare(&wire, theirs)?, outlets))
        });
        let (message, outlets) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                adopt.into_iter().for_each(|adopt| self.order(adopt));
                self.drop_process(key);
                let message = format!("process '{}' cannot be started: {error}", request.process.id);
                return request.refuse(Error::new(Code::SpawnFailed, message));
            }
        };
        let process = Arc::clone(&request.process);
        if can_fail {
            let stage = Stage::SettingUp { tree, outlets, ended: None };
            self.processes.starting.insert(key, Starting { request, stage });
        } else {
            self.settle(key, request, outlets, tree);
        }
        adopt.into_iter().for_each(|adopt| self.ask(adopt));
        self.drop_if_doomed(key, &process);
        channel.post(message);
        if self.config.group.is_some() {
            self.timers.set(Timer::SpareGroup, Instant::now() + SPARE_GROUP);
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
            let Streams { theirs, output, stdin } = Streams::open(&input, None, request.new.merge_output)?;
            let [stdout, stderr] = output.into_readers();
            if let Some(end) = stdin {
                feed_until_end(end, input, &request.process);
            }
            return Ok((theirs, [Some(stdout), Some(stderr)]));
        };
        let owner = self.config.user.as_ref().map(|user| (user.uid, user.gid));
        let terminal = Terminal::open(size, owner, &self.root())?;
        let theirs = terminal.open_other_side()?;
        let theirs = Arc::new(theirs);
        let theirs = vec![Arc::clone(&theirs).into(), Arc::clone(&theirs).into(), theirs.into()];
        let (output, typing) = (terminal.side()?, terminal.side()?);
        request.process.set_terminal(terminal);
        feed_until_end(StdinEnd::Terminal(typing), input, &request.process);
        Ok((theirs, [Some(output), None]))
    }
}

/// Writes standard input until the process ends. Nothing else closes a terminal's side when the process is killed.
pub(super) fn feed_until_end(end: StdinEnd, input: Input, process: &Arc<process::Process>) {
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
