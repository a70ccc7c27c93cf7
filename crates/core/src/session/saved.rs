//! The state of a session's shell, which another session can begin with, and how a shell writes it down.

use crate::shell::channel::Channel;
use crate::shell::plain_state::Snapshot;
use crate::sys;
use nacre_protocol::shell::portable::{self, Move};
use nacre_protocol::shell::{
    Lost, MAX_STATE_BYTES, Request, RequestFlags, RequestKind, holds_mount, is_whole, not_restored,
    status_and_directory,
};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::io::unix::AsyncFd;
use tokio::time::timeout;

/// How long saving the state may make no progress. A usual state takes 1 ms, one of 100,000 variables 0.1 s.
pub(super) const SAVING: Duration = Duration::from_secs(2);
/// Least room for each read of the state, in bytes.
const PART: usize = 64 * 1024;

/// The state of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saved {
    /// That of the shell, unless it has its first state.
    shell: Option<SavedShell>,
    /// `$?`.
    status: i32,
    /// The directory after the last command.
    cwd: Vec<u8>,
    /// See [`Without`].
    without: Without,
    /// The session reports that it has lost these.
    #[serde(skip)]
    missing: Vec<String>,
    /// The environment that the shell began with.
    #[serde(skip)]
    env: Vec<(OsString, OsString)>,
    /// See [`Saved::number`].
    #[serde(skip)]
    number: u64,
}

/// Names of variables that a shell does not take from its environment. Then its state is without what it has from there, see
/// [`portable`].
pub(super) type Without = Option<Vec<Vec<u8>>>;

/// The state of a shell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum SavedShell {
    /// As the builtin has written it.
    Items(Vec<u8>),
    /// As a shell of the plain engine has written it.
    Plain(Snapshot),
}

impl Saved {
    /// Whether the shell holds something of its mount of the workspace: see [`holds_mount`].
    pub fn holds_mount(&self) -> bool {
        self.items().is_some_and(holds_mount)
    }

    /// What a shell that begins with this state does not have: see [`not_restored`]. The plain engine does not know it.
    pub fn not_restored(&self) -> Vec<String> {
        self.items().map(not_restored).unwrap_or_default()
    }

    fn items(&self) -> Option<&[u8]> {
        match &self.shell {
            Some(SavedShell::Items(items)) => Some(items),
            Some(SavedShell::Plain(_)) | None => None,
        }
    }

    /// Whether a session can begin with it. It may come from another machine.
    pub fn is_whole(&self) -> bool {
        match &self.shell {
            Some(SavedShell::Items(items)) => is_whole(items) && items.len() <= MAX_STATE_BYTES,
            Some(SavedShell::Plain(state)) => state.is_whole(),
            None => true,
        }
    }

    /// The state for a shell with another environment, perhaps on another machine.
    pub fn portable(mut self) -> Self {
        if self.without.is_none() {
            let (shell, without) = match self.shell {
                Some(SavedShell::Items(items)) => {
                    let (items, own) = portable::without_inherited(&items, &self.env);
                    (Some(SavedShell::Items(items)), Some(own))
                }
                Some(SavedShell::Plain(state)) => {
                    let (state, own) = state.without_inherited(&self.env);
                    (Some(SavedShell::Plain(state)), Some(own))
                }
                None => (None, None),
            };
            (self.shell, self.without) = (shell, without);
        }
        self
    }

    /// The state with its directories where they are now.
    pub fn moved(self, moves: &[Move]) -> Self {
        let shell = self.shell.map(|shell| match shell {
            SavedShell::Items(items) => SavedShell::Items(portable::moved(&items, moves)),
            SavedShell::Plain(state) => SavedShell::Plain(state.moved(moves)),
        });
        let cwd = portable::moved_path(&self.cwd, moves).unwrap_or(self.cwd);
        Self { shell, cwd, ..self }
    }

    /// The names and paths of the programs that the shell has run, as far as it remembers them.
    pub fn programs(&self) -> Vec<(String, PathBuf)> {
        let text = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
        let found = self.items().map(portable::programs).unwrap_or_default();
        found.into_iter().map(|(name, path)| (text(name).to_string_lossy().into_owned(), text(path).into())).collect()
    }

    /// Lets the session that begins with it report what its shell does not have.
    pub fn report_missing(&mut self) {
        self.missing = self.not_restored();
    }

    /// What the session reports as lost.
    pub(super) fn missing(&self) -> Vec<Lost> {
        let reason = "it ended with the program that ran the session";
        let lost = |text: &String| {
            let (kind, name) = text.split_once(' ').unwrap_or(("job", text));
            Lost { kind: kind.into(), name: name.into(), reason: reason.into() }
        };
        self.missing.iter().map(lost).collect()
    }

    /// `status`: `$?`. `cwd`: the directory after the last command. `env`: the environment that the shell began with.
    pub(super) fn new(
        number: u64,
        (shell, without): (Option<SavedShell>, Without),
        status: u64,
        cwd: &Path,
        env: Vec<(OsString, OsString)>,
    ) -> Self {
        let cwd = cwd.as_os_str().as_bytes().to_vec();
        Self { shell, status: status as i32, cwd, without, missing: Vec::new(), env, number }
    }

    /// The same of another shell state, which has everything.
    pub(super) fn with(self, items: Vec<u8>) -> Self {
        Self { shell: Some(SavedShell::Items(items)), without: None, ..self }
    }

    /// The state that a shell has written down.
    pub fn of_items(items: Vec<u8>) -> Self {
        let (status, cwd) = status_and_directory(&items);
        Self { status, cwd: cwd.to_vec(), shell: Some(SavedShell::Items(items)), ..Self::default() }
    }

    /// The number of the state, if the session is kept on the disk: that of a later one is higher.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Its parts: see [`Saved::new`].
    pub(super) fn into_parts(self) -> ((Option<SavedShell>, Without), i32, PathBuf) {
        ((self.shell, self.without), self.status, PathBuf::from(OsString::from_vec(self.cwd)))
    }
}

/// A state that a fork is writing down.
pub(super) struct Asked {
    reader: AsyncFd<OwnedFd>,
    /// Closed when the fork ends.
    _child: Channel,
}

/// Asks an idle bash process to write its state down in a fork.
pub(super) fn ask(shell: &Channel, id: u64, fork_key: u64) -> io::Result<Asked> {
    // Not a file, which a limit of the session (`ulimit -f`) would cut.
    let (reader, writer) = sys::output_pipe()?;
    let reader = sys::watch(reader)?;
    let (child, theirs) = Channel::pair()?;
    let flags = RequestFlags::CHECKPOINT | RequestFlags::NO_WARM;
    let request = Request { flags, fork_key, ..Request::new(RequestKind::Fork, id) };
    shell.send(&request, vec![theirs.into(), writer.into()])?;
    Ok(Asked { reader, _child: child })
}

impl Asked {
    /// The state. `None` if the process dies or makes no progress, or if the state has more than 64 MiB.
    pub(super) async fn read(self) -> Option<Vec<u8>> {
        let mut state = Vec::new();
        loop {
            state.reserve(PART);
            if timeout(SAVING, sys::read_next(&self.reader, &mut state, usize::MAX)).await.ok()?.ok()? == 0 {
                return is_whole(&state).then_some(state);
            }
            if state.len() > MAX_STATE_BYTES {
                return None;
            }
        }
    }
}
