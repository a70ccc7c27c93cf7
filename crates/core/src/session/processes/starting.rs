//! From a request and a fork that waits to a process that runs.
//!
//! The fork is put under its limits first, when there are any; then its text and its streams are laid out and it is told
//! to begin. When its scope has statements that can fail (variables, limits of its own, a directory) it is a process only
//! after it has said that it has begun, or has ended without a word, as with a text that bash can not parse.

use super::ahead::Fork;
use super::{Midwives, Processes, mark};
use crate::driver::{Birth, Driver, Stdin, Streams};
use crate::error::{Code, Error};
use crate::exec::Input;
use crate::process::{self, StartRequest};
use crate::session::preparing::text_of;
use crate::session::{scope, stdin};
use nacre_containment::tree::{MARK, Tree};
use nacre_containment::wire::Order;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;
use tokio::sync::oneshot;

/// Where a process's output arrives: two pipes, or the terminal's master alone.
pub(super) type Outlets = [Option<OwnedFd>; 2];

/// How far the process is.
pub(super) enum Beginning {
    /// The supervisor has been asked to put it under its limits.
    Limiting { request: StartRequest, fork: Fork },
    /// It runs its scope.
    Scoping(Starting),
    /// It is a process already, and has only not said yet that it has taken its text.
    Settled { key: u64 },
}

/// A process that may still turn out not to be one.
pub(super) struct Starting {
    pub(super) key: u64,
    pub(super) request: StartRequest,
    pub(super) streams: Outlets,
    pub(super) tree: Tree,
    pub(super) directory: Option<PathBuf>,
}

impl Beginning {
    fn key(&self) -> u64 {
        match self {
            Self::Limiting { fork, .. } => fork.key,
            Self::Scoping(starting) => starting.key,
            Self::Settled { key } => *key,
        }
    }
}

impl Processes {
    pub(super) fn begin(&mut self, request: StartRequest, fork: Fork, with: &mut Midwives<'_>) {
        let limits = request.new.limits.group.clone();
        if limits.is_empty() {
            return self.give_text(request, fork, with);
        }
        with.supervisor.order(&Order::Limit { key: fork.key, limits });
        self.beginning = Some(Beginning::Limiting { request, fork });
    }

    pub(super) fn limited(&mut self, key: u64, problem: Option<&str>, with: &mut Midwives<'_>) {
        let Some(Beginning::Limiting { request, fork }) = self.beginning.take_if(|beginning| beginning.key() == key)
        else {
            return;
        };
        match problem {
            Some(problem) => {
                self.drop_fork(key, with);
                let error = not_limited(&request.process.id, problem);
                request.refuse(error);
            }
            None => self.give_text(request, fork, with),
        }
    }

    fn give_text(&mut self, mut request: StartRequest, fork: Fork, with: &mut Midwives<'_>) {
        let Fork { key, tree } = fork;
        let directory = request.new.cwd.as_ref().map(|cwd| with.cwd.join(cwd));
        let mut statements = scope_of(&request, directory.as_deref());
        let can_fail = !statements.is_empty();
        statements.extend((!with.grouped).then(|| scope::assignment(MARK, Some(&mark(key, with.supervisor)))));
        let text = text_of(&request.new.command);
        let input = std::mem::replace(&mut request.new.input, Input::None);
        let streams = match lay_out(Birth { key, text: &text, scope: &statements }, input, with.driver) {
            Ok(streams) => streams,
            Err(error) => {
                with.driver.release_process();
                self.drop_fork(key, with);
                let message = format!("process '{}' can not be started: {error}", request.process.id);
                return request.refuse(Error::new(Code::SpawnFailed, message));
            }
        };
        let starting = Starting { key, request, streams, tree, directory };
        // Whoever waits for it is told before it begins: on a busy machine he would have to wait for its first turn on the
        // processor as well.
        let (beginning, may_begin) = if can_fail {
            (Beginning::Scoping(starting), true)
        } else {
            (Beginning::Settled { key }, self.settle(starting, with))
        };
        self.beginning = Some(beginning);
        if may_begin && with.driver.begin_process().is_err() {
            self.drop_fork(key, with);
        }
    }

    /// It is a process from now on. False when it is to end before it has begun.
    pub(super) fn settle(&mut self, starting: Starting, with: &Midwives<'_>) -> bool {
        let Starting { key, request, streams, tree, .. } = starting;
        let (ended, end) = oneshot::channel();
        self.living.insert(key, ended);
        process::pump(Arc::clone(&request.process), streams, end);
        request.process.born(key, process::Birth { pid: tree.root.pid, at: SystemTime::now(), tree });
        let is_doomed = request.process.is_doomed();
        if is_doomed {
            self.drop_fork(key, with);
        }
        if let Some(timeout) = request.new.timeout {
            process::end_after(Arc::clone(&request.process), timeout, request.new.kill);
        }
        request.starter.tell(Ok(()));
        !is_doomed
    }

    /// It has taken its text, or has ended without.
    pub(super) fn over(&mut self, key: u64, with: &mut Midwives<'_>) {
        match self.beginning.take_if(|beginning| beginning.key() == key) {
            None => return,
            Some(Beginning::Limiting { request, .. }) => {
                let message = format!("process '{}' was killed before it had begun", request.process.id);
                return request.refuse(Error::new(Code::SpawnFailed, message));
            }
            Some(Beginning::Scoping(starting)) => {
                self.settle(starting, with);
            }
            Some(Beginning::Settled { .. }) => {}
        }
        with.driver.release_process();
    }

    /// A statement of its scope has failed.
    pub(super) fn stillborn(&mut self, key: u64, statement: usize, with: &mut Midwives<'_>) {
        if let Some(Beginning::Scoping(starting)) = self.beginning.take_if(|beginning| beginning.key() == key) {
            with.driver.release_process();
            let Starting { request, directory, .. } = starting;
            let error = scope_error(&request, statement, directory.as_deref(), with.cwd);
            request.refuse(error);
        }
    }

    /// Nobody waits for what becomes of it.
    pub(super) fn drop_fork(&self, key: u64, with: &Midwives<'_>) {
        with.supervisor.order(&Order::KillProcess { id: 0, key, signal: libc::SIGKILL, grace_ms: 0 });
    }
}

fn lay_out(birth: Birth<'_>, input: Input, driver: &mut dyn Driver) -> io::Result<Outlets> {
    let stdin = match &input {
        Input::None => Stdin::Empty,
        Input::Bytes(bytes) => Stdin::Whole(bytes),
        Input::Stream(_) => Stdin::Streamed,
    };
    let Streams { stdout, stderr, stdin } = driver.lay_out_process(birth, stdin)?;
    if let Some(end) = stdin {
        // It ends by itself when the process has closed its input, or everything is written.
        drop(stdin::feed(end, input));
    }
    Ok([Some(stdout), Some(stderr)])
}

/// The statements of a process's scope that can fail: one for each variable, then the limits, then the directory.
pub(super) fn scope_of(request: &StartRequest, directory: Option<&Path>) -> Vec<Vec<u8>> {
    let variables = request.new.env.iter().map(|(name, value)| scope::assignment(name, value.as_deref()));
    let limits = request.new.limits.statements().into_iter().map(|(statement, _)| statement);
    variables.chain(limits).chain(directory.map(scope::enter)).collect()
}

/// What a failed statement of [`scope_of`] means.
pub(super) fn scope_error(request: &StartRequest, statement: usize, directory: Option<&Path>, cwd: &Path) -> Error {
    let (variables, limits) = (request.new.env.len(), request.new.limits.statements());
    match (request.new.env.get(statement), statement.checked_sub(variables).and_then(|at| limits.get(at))) {
        (Some((name, _)), _) => scope::read_only(name),
        (None, Some((_, limit))) => {
            let message = format!("the limit {limit} can not be set: it is above what the host itself may use");
            Error::new(Code::LimitUnsupported, message)
        }
        (None, None) => scope::cwd_error(directory.unwrap_or(cwd)),
    }
}

/// The supervisor could not put a process under its limits.
pub(super) fn not_limited(id: &str, problem: &str) -> Error {
    Error::new(Code::LimitUnsupported, format!("process '{id}' can not be limited: {problem}"))
}
