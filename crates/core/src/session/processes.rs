//! The background processes of a session: starting them one after the other, taking note of their ends, killing them.
//!
//! A birth goes through four hands, and each step is the answer to the one before: the standby forks and tells the pid
//! ([`Event::Born`]), the supervisor takes note of it ([`Report::Adopted`]), the process gets its permission and takes its
//! text ([`Event::Begun`]), and when the standby is in place again ([`Report::StandbyPlaced`]) the next birth can begin.
//! Nothing of it concerns the shell, so it goes on while a command runs.

use super::scope;
use super::shell::Happening;
use crate::driver::{self, Driver, Event, Stdin, Streams};
use crate::error::{Code, Error};
use crate::exec::{Input, KillPolicy};
use crate::process::pump::Status;
use crate::process::terminal::{Size, Terminal};
use crate::process::{self, StartRequest};
use crate::session::stdin;
use crate::supervisor::Supervisor;
use nacre_containment::cgroup::Group;
use nacre_containment::pid::Pid;
use nacre_containment::tree::{MARK, Tree};
use nacre_containment::wire::{Order, Report};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;
use tokio::sync::oneshot;

/// What a birth is done with.
pub struct Midwives<'a> {
    /// Talks to the standby.
    pub driver: &'a mut dyn Driver,
    /// Adopts the process.
    pub supervisor: &'a Supervisor,
    /// The standby, when there is one.
    pub standby: Option<Pid>,
    /// The session's directory after its last finished command.
    pub cwd: &'a Path,
    /// The user and group that processes run as, when they are not this process's.
    pub owner: Option<(u32, u32)>,
    /// Each process gets a control group.
    pub grouped: bool,
}

struct Birthing {
    key: u64,
    request: StartRequest,
    streams: Outlets,
    pid: Option<Pid>,
    directory: Option<PathBuf>,
}

/// Where a process's output arrives: two pipes, or the terminal's master alone.
type Outlets = [Option<OwnedFd>; 2];

/// See the module.
#[derive(Default)]
pub struct Processes {
    queue: VecDeque<StartRequest>,
    birthing: Option<Birthing>,
    /// A process that has been permitted to begin and has not taken its text yet, which lies where that of the next
    /// one will be.
    beginning: Option<u64>,
    /// The standby is where it can start the next one.
    placed: bool,
    living: HashMap<u64, oneshot::Sender<Status>>,
    kills: HashMap<u64, oneshot::Sender<bool>>,
    keys: u64,
    orders: u64,
}

impl Processes {
    /// Nothing is being started.
    pub fn is_idle(&self) -> bool {
        self.birthing.is_none()
    }

    /// The standby is about to be replaced: nothing begins before the next one is in place.
    pub fn hold(&mut self) {
        self.placed = false;
    }

    /// Files a request; it begins at once when nothing else is being born.
    pub fn start(&mut self, request: StartRequest, with: &mut Midwives<'_>) {
        self.queue.push_back(request);
        self.advance(with);
    }

    /// Refuses everything that has not begun.
    pub fn refuse_queued(&mut self, error: impl Fn() -> Error) {
        self.queue.drain(..).for_each(|request| request.refuse(error()));
    }

    /// Ends a process with its tree. Told when nothing is left: false when there was nobody.
    pub fn kill(&mut self, key: u64, policy: KillPolicy, reply: oneshot::Sender<bool>, supervisor: &Supervisor) {
        self.orders += 1;
        self.kills.insert(self.orders, reply);
        let grace_ms = if policy.signal == libc::SIGKILL { 0 } else { policy.grace.as_millis() as u64 };
        supervisor.order(&Order::KillProcess { id: self.orders, key, signal: policy.signal, grace_ms });
    }

    /// Takes note of what has happened and does the next step.
    pub fn note(&mut self, happening: &Happening, with: &mut Midwives<'_>) {
        match happening {
            Happening::Shell(Event::Born { key, pid }) => self.born(*key, *pid, with),
            Happening::Shell(Event::Begun { key }) => drop(self.beginning.take_if(|beginning| beginning == key)),
            Happening::Shell(Event::Stillborn { key, statement }) => self.stillborn(*key, *statement, with),
            Happening::Supervisor(Report::Adopted { key, identity, group, problem }) => {
                if let Some(birthing) = self.birthing.take_if(|birthing| birthing.key == *key) {
                    with.driver.release_birth();
                    let tree = identity.map(|root| Tree {
                        root,
                        group: group.as_ref().map(Group::at),
                        mark: mark(*key, with.supervisor),
                        guardian: with.supervisor.pid(),
                    });
                    match problem {
                        Some(problem) => self.not_limited(birthing, problem, with),
                        None => self.adopted(birthing, tree, with),
                    }
                }
            }
            // What the supervisor has said about the one before can arrive after `hold`.
            Happening::Shell(Event::Standby { .. } | Event::Successor { .. }) => self.placed = false,
            Happening::Supervisor(Report::StandbyPlaced { standby }) => self.placed = with.standby == Some(*standby),
            Happening::Supervisor(Report::StandbyEnded { .. } | Report::Promoted { .. }) => self.orphan_birth(with),
            Happening::Supervisor(Report::ProcessEnded { key, code, signal, out_of_memory, alone }) => {
                self.beginning.take_if(|beginning| beginning == key);
                if let Some(ended) = self.living.remove(key) {
                    let _ = ended.send(Status {
                        code: *code,
                        signal: *signal,
                        out_of_memory: *out_of_memory,
                        alone: *alone,
                    });
                }
            }
            Happening::Supervisor(Report::ProcessKilled { id, found, .. }) => {
                if let Some(reply) = self.kills.remove(id) {
                    let _ = reply.send(*found);
                }
            }
            _ => return,
        }
        self.advance(with);
    }

    fn advance(&mut self, with: &mut Midwives<'_>) {
        while self.placed && self.birthing.is_none() && self.beginning.is_none() && with.standby.is_some() {
            let Some(request) = self.queue.pop_front() else { return };
            if request.process.is_doomed() {
                let message = format!("process '{}' was killed before it had begun", request.process.id);
                request.refuse(Error::new(Code::EngineError, message));
                continue;
            }
            self.begin(request, with);
        }
    }

    fn begin(&mut self, mut request: StartRequest, with: &mut Midwives<'_>) {
        self.keys += 1;
        let key = self.keys;
        let directory = request.new.cwd.as_ref().map(|cwd| with.cwd.join(cwd));
        let mark = (!with.grouped).then(|| mark(key, with.supervisor));
        let scope = scope_of(&request, directory.as_deref(), mark.as_deref());
        let text = super::preparing::text_of(&request.new.command);
        let input = std::mem::replace(&mut request.new.input, Input::None);
        let birth = driver::Birth { key, text: &text, scope: &scope };
        let begun = match request.new.terminal {
            Some(size) => begin_with_terminal(birth, size, &request, input, with),
            None => begin_with_streams(birth, input, with.driver),
        };
        match begun {
            Ok(streams) => {
                self.placed = false;
                self.birthing = Some(Birthing { key, request, streams, pid: None, directory });
            }
            Err(error) => {
                with.driver.release_birth();
                let message = format!("process '{}' can not be started: {error}", request.process.id);
                request.refuse(Error::new(Code::SpawnFailed, message));
            }
        }
    }

    fn born(&mut self, key: u64, pid: Pid, with: &mut Midwives<'_>) {
        if let Some(birthing) = self.birthing.as_mut().filter(|birthing| birthing.key == key) {
            birthing.pid = Some(pid);
            let limits = birthing.request.new.limits.group.clone();
            with.supervisor.order(&Order::Adopt { key, pid, mark: mark(key, with.supervisor), limits });
        }
    }

    fn stillborn(&mut self, key: u64, statement: usize, with: &mut Midwives<'_>) {
        let Some(birthing) = self.birthing.take_if(|birthing| birthing.key == key) else { return };
        with.driver.release_birth();
        // The standby has not been used up: its group is still without a process.
        self.placed = true;
        let new = &birthing.request.new;
        let (variables, limits) = (new.env.len(), new.limits.statements());
        let error = match (new.env.get(statement), statement.checked_sub(variables).and_then(|at| limits.get(at))) {
            (Some((name, _)), _) => scope::read_only(name),
            (None, Some((_, limit))) => {
                let message = format!("the limit {limit} can not be set: it is above what the host itself may use");
                Error::new(Code::LimitUnsupported, message)
            }
            (None, None) => scope::cwd_error(birthing.directory.as_deref().unwrap_or(with.cwd)),
        };
        birthing.request.refuse(error);
    }

    /// It waits for its permission, and does not get it.
    fn not_limited(&mut self, birthing: Birthing, problem: &str, with: &mut Midwives<'_>) {
        with.supervisor.order(&Order::KillProcess { id: 0, key: birthing.key, signal: libc::SIGKILL, grace_ms: 0 });
        let message = format!("process '{}' can not be limited: {problem}", birthing.request.process.id);
        birthing.request.refuse(Error::new(Code::LimitUnsupported, message));
    }

    fn adopted(&mut self, birthing: Birthing, tree: Option<Tree>, with: &mut Midwives<'_>) {
        let Birthing { key, request, streams, pid, .. } = birthing;
        let (Some(tree), Some(pid)) = (tree, pid) else {
            let message = format!("process '{}' was killed before it had begun", request.process.id);
            return request.refuse(Error::new(Code::SpawnFailed, message));
        };
        let (ended, end) = oneshot::channel();
        self.living.insert(key, ended);
        self.beginning = Some(key);
        process::pump(Arc::clone(&request.process), streams, end);
        request.process.born(key, process::Birth { pid, at: SystemTime::now(), tree });
        if with.driver.permit_birth().is_err() || request.process.is_doomed() {
            with.supervisor.order(&Order::KillProcess { id: 0, key, signal: libc::SIGKILL, grace_ms: 0 });
        }
        if let Some(timeout) = request.new.timeout {
            process::end_after(Arc::clone(&request.process), timeout, request.new.kill);
        }
        let _ = request.reply.send(Ok(()));
    }

    /// The standby has said on its standard error that it can not fork. Bash would go on trying for a quarter of a minute.
    pub fn fork_failed(&mut self, with: &mut Midwives<'_>) {
        let Some(birthing) = self.birthing.take_if(|birthing| birthing.pid.is_none()) else { return };
        with.driver.release_birth();
        self.placed = false;
        with.supervisor.order(&Order::DismissStandby);
        birthing.request.refuse(no_fork());
        self.refuse_queued(no_fork);
    }

    /// The standby is gone. What it had not borne yet never will be; what it had is the supervisor's.
    fn orphan_birth(&mut self, with: &mut Midwives<'_>) {
        self.placed = false;
        if let Some(birthing) = self.birthing.take_if(|birthing| birthing.pid.is_none()) {
            with.driver.release_birth();
            let message =
                format!("process '{}' can not be started: the shell's snapshot died", birthing.request.process.id);
            birthing.request.refuse(Error::new(Code::SpawnFailed, message));
        }
    }
}

fn begin_with_streams(birth: driver::Birth<'_>, input: Input, driver: &mut dyn Driver) -> io::Result<Outlets> {
    let stdin = match &input {
        Input::None => Stdin::Empty,
        Input::Bytes(bytes) => Stdin::Whole(bytes),
        Input::Stream(_) => Stdin::Streamed,
    };
    let Streams { stdout, stderr, stdin } = driver.begin_birth(birth, stdin)?;
    if let Some(end) = stdin {
        // It ends by itself when the process has closed its input, or everything is written.
        drop(stdin::feed(end, input));
    }
    Ok([Some(stdout), Some(stderr)])
}

fn begin_with_terminal(
    birth: driver::Birth<'_>,
    size: Size,
    request: &StartRequest,
    input: Input,
    with: &mut Midwives<'_>,
) -> io::Result<Outlets> {
    let terminal = Terminal::open(size, with.owner)?;
    let (output, typing) = (terminal.side()?, terminal.side()?);
    with.driver.begin_terminal_birth(birth, &terminal.path)?;
    request.process.set_terminal(terminal);
    drop(stdin::feed(driver::StdinEnd::Terminal(typing), input));
    Ok([Some(output), None])
}

/// The statements of a process's scope: one for each variable, then the limits, then the directory.
fn scope_of(request: &StartRequest, directory: Option<&Path>, mark: Option<&str>) -> Vec<Vec<u8>> {
    let variables = request.new.env.iter().map(|(name, value)| scope::assignment(name, value.as_deref()));
    let directory = directory.map(scope::enter);
    let mark = mark.map(|mark| scope::assignment(MARK, Some(mark)));
    let limits = request.new.limits.statements().into_iter().map(|(statement, _)| statement);
    let term = request.new.terminal.map(|_| TERMINAL_TYPE.to_vec());
    variables.chain(limits).chain(directory).chain(mark).chain(term).collect()
}

/// A type for terminals in a session that has none; bash calls that `dumb`.
const TERMINAL_TYPE: &[u8] = b"[[ ${TERM:-dumb} != dumb ]] || TERM=xterm-256color;\\builtin export TERM\n";

/// The error for a process that can not be forked.
pub fn no_fork() -> Error {
    let message = "the process can not be started: the shell can not be forked (limit of processes or memory)";
    Error::new(Code::SpawnFailed, message)
}

/// Distinguishes the process from all others below any supervisor.
fn mark(key: u64, supervisor: &Supervisor) -> String {
    format!("{}-{key}", supervisor.pid())
}
