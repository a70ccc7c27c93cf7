//! The state of a session's shell, which another session can begin with, and how a shell writes it down.

use crate::shell::channel::Channel;
use crate::shell::plain_state::Snapshot;
use crate::sys;
use nacre_protocol::shell::{Lost, Request, RequestFlags, RequestKind, holds_mount, is_whole, not_restored};
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
/// Maximum bytes of a state: programs can write it in the name of their shell.
const MAX_STATE_BYTES: usize = 64 << 20;
/// Least room for each read of the state, in bytes.
const PART: usize = 64 * 1024;

/// The state of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saved {
    /// That of the shell, unless it has its first state.
    shell: Option<SavedShell>,
    /// `$?`.
    status: i32,
    /// The directory after the last command.
    cwd: Vec<u8>,
    /// The session reports that it has lost these.
    #[serde(skip)]
    missing: Vec<String>,
}

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
        matches!(&self.shell, Some(SavedShell::Items(items)) if holds_mount(items))
    }

    /// What a shell that begins with this state does not have: see [`not_restored`]. The plain engine does not know it.
    pub fn not_restored(&self) -> Vec<String> {
        match &self.shell {
            Some(SavedShell::Items(items)) => not_restored(items),
            Some(SavedShell::Plain(_)) | None => Vec::new(),
        }
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

    /// `status`: `$?`. `cwd`: the directory after the last command.
    pub(super) fn new(shell: Option<SavedShell>, status: u64, cwd: &Path) -> Self {
        Self { shell, status: status as i32, cwd: cwd.as_os_str().as_bytes().to_vec(), missing: Vec::new() }
    }

    /// Its parts: see [`Saved::new`].
    pub(super) fn into_parts(self) -> (Option<SavedShell>, i32, PathBuf) {
        (self.shell, self.status, PathBuf::from(OsString::from_vec(self.cwd)))
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
