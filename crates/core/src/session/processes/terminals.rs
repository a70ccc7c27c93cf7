//! Processes with a terminal. Each is forked when it is wanted: a fork that leads a process group, as one that waits does,
//! could not become the leader of a session, which a terminal needs.

use super::ahead::tree;
use super::starting::{Outlets, Starting, not_limited, scope_error, scope_of};
use super::{Midwives, Processes, mark};
use crate::driver::{Birth, StdinEnd};
use crate::error::{Code, Error};
use crate::exec::Input;
use crate::process::StartRequest;
use crate::process::terminal::{Size, Terminal};
use crate::session::{preparing::text_of, scope, stdin};
use nacre_containment::pid::{Identity, Pid};
use nacre_containment::tree::MARK;
use nacre_containment::wire::Order;
use std::io;
use std::path::PathBuf;

/// A process with a terminal on its way.
pub(super) struct Birthing {
    key: u64,
    request: StartRequest,
    output: Outlets,
    directory: Option<PathBuf>,
    born: bool,
    /// The supervisor has adopted it, and is asked to put it under its limits.
    adopted: Option<Identity>,
    group: Option<String>,
}

impl Processes {
    pub(super) fn begin_terminal(&mut self, mut request: StartRequest, with: &mut Midwives<'_>) {
        let Some(size) = request.new.terminal else { return };
        let key = self.next_key();
        let directory = request.new.cwd.as_ref().map(|cwd| with.cwd.join(cwd));
        let mut statements = scope_of(&request, directory.as_deref());
        statements.extend((!with.grouped).then(|| scope::assignment(MARK, Some(&mark(key, with.supervisor)))));
        statements.push(TERMINAL_TYPE.to_vec());
        let text = text_of(&request.new.command);
        let input = std::mem::replace(&mut request.new.input, Input::None);
        match open(Birth { key, text: &text, scope: &statements }, size, &request, input, with) {
            Ok(output) => {
                self.placed = None;
                let birthing = Birthing { key, request, output, directory, born: false, adopted: None, group: None };
                self.birthing = Some(birthing);
            }
            Err(error) => {
                let message = format!("process '{}' can not be started: {error}", request.process.id);
                request.refuse(Error::new(Code::SpawnFailed, message));
            }
        }
    }

    /// False when nobody waits for it.
    pub(super) fn terminal_born(&mut self, key: u64, pid: Pid, with: &Midwives<'_>) -> bool {
        let Some(birthing) = self.birthing.as_mut().filter(|birthing| birthing.key == key) else { return false };
        birthing.born = true;
        with.supervisor.order(&Order::Adopt { key, pid, mark: mark(key, with.supervisor) });
        true
    }

    pub(super) fn terminal_adopted(
        &mut self,
        key: u64,
        identity: Option<Identity>,
        group: Option<&String>,
        with: &mut Midwives<'_>,
    ) {
        let Some(mut birthing) = self.birthing.take_if(|birthing| birthing.key == key) else { return };
        if identity.is_none() {
            let message = format!("process '{}' was killed before it had begun", birthing.request.process.id);
            return birthing.request.refuse(Error::new(Code::SpawnFailed, message));
        }
        (birthing.adopted, birthing.group) = (identity, group.cloned());
        let limits = birthing.request.new.limits.group.clone();
        if limits.is_empty() {
            return self.permit(birthing, with);
        }
        with.supervisor.order(&Order::Limit { key, limits });
        self.birthing = Some(birthing);
    }

    pub(super) fn terminal_limited(&mut self, key: u64, problem: Option<&str>, with: &mut Midwives<'_>) {
        let Some(birthing) = self.birthing.take_if(|birthing| birthing.key == key) else { return };
        match problem {
            Some(problem) => {
                self.drop_fork(key, with);
                let error = not_limited(&birthing.request.process.id, problem);
                birthing.request.refuse(error);
            }
            None => self.permit(birthing, with),
        }
    }

    fn permit(&mut self, birthing: Birthing, with: &mut Midwives<'_>) {
        let Birthing { key, request, output: streams, directory, adopted, group, .. } = birthing;
        let Some(root) = adopted else { return };
        let tree = tree(key, root, group.as_ref(), with);
        let may_begin = self.settle(Starting { key, request, streams, tree, directory }, with);
        if may_begin && with.driver.permit_terminal().is_err() {
            self.drop_fork(key, with);
        }
        self.beginning = Some(super::Beginning::Settled { key });
    }

    pub(super) fn terminal_stillborn(&mut self, key: u64, statement: usize, with: &Midwives<'_>) {
        let Some(birthing) = self.birthing.take_if(|birthing| birthing.key == key) else { return };
        // The standby has not been used up: its group is still without a process.
        self.placed = with.standby;
        let error = scope_error(&birthing.request, statement, birthing.directory.as_deref(), with.cwd);
        birthing.request.refuse(error);
    }

    pub(super) fn refuse_unborn_terminal(&mut self, with: &mut Midwives<'_>, error: impl Fn(&str) -> Error) {
        if let Some(birthing) = self.birthing.take_if(|birthing| !birthing.born) {
            with.driver.unbear();
            let error = error(&birthing.request.process.id);
            birthing.request.refuse(error);
        }
    }
}

fn open(
    birth: Birth<'_>,
    size: Size,
    request: &StartRequest,
    input: Input,
    with: &mut Midwives<'_>,
) -> io::Result<Outlets> {
    let terminal = Terminal::open(size, with.owner)?;
    let (output, typing) = (terminal.side()?, terminal.side()?);
    with.driver.bear_terminal(birth, &terminal.path)?;
    request.process.set_terminal(terminal);
    drop(stdin::feed(StdinEnd::Terminal(typing), input));
    Ok([Some(output), None])
}

/// A type for terminals in a session that has none; bash calls that `dumb`.
const TERMINAL_TYPE: &[u8] = b"[[ ${TERM:-dumb} != dumb ]] || TERM=xterm-256color;\\builtin export TERM\n";
