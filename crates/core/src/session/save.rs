//! The state of a session's shell, which another session can begin with.
//!
//! It is taken from the idle shell during a hold: a fork of the shell writes it down. A session without a shell has the
//! state that its next shell begins with.

use super::hold::Hold;
use super::{Message, Session};
use crate::error::{Code, Error};
use crate::shell::channel::Channel;
use crate::shell::plain_state::Snapshot;
use crate::shell::state::Shell;
use crate::sys;
use nacre_protocol::shell::{Request, RequestFlags, RequestKind, holds_mount, is_whole, not_restored, restorable};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::time::Duration;
use tokio::io::unix::AsyncFd;
use tokio::sync::oneshot;
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
}

/// The state of a shell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum SavedShell {
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
}

pub(super) type SaveReply = oneshot::Sender<Result<Saved, Error>>;

impl Hold {
    /// The state of the session, which is held. `None` if the session ends instead.
    ///
    /// # Errors
    /// `ENGINE_ERROR` if the shell does not write it down.
    pub fn save(&self) -> impl Future<Output = Result<Option<Saved>, Error>> + Send + use<> {
        let saved = self.ask(|id, reply| Message::Save { id, reply });
        async move { saved.await.transpose() }
    }
}

impl Session {
    /// Saves the state for the hold in effect, as soon as the shell can.
    pub(super) fn save(&mut self, id: u64, reply: SaveReply) {
        if self.is_held_by(id) && self.closing.is_none() {
            self.saving = Some(reply);
        }
    }

    /// Saves the state if that is due.
    pub(super) fn save_if_due(&mut self) {
        // A shell that has died during the hold is being replaced.
        let can = matches!(self.state.shell, Shell::Absent | Shell::Idle | Shell::Terminated(_));
        let Some(reply) = self.saving.take_if(|_| can) else { return };
        if self.state.shell == Shell::Idle && !self.plain.is_engine() {
            return self.save_shell(reply);
        }
        let shell = match self.plain.snapshot() {
            Some(state) => Some(SavedShell::Plain(state.clone())),
            // The next shell will not have the jobs of the former one.
            None => self.recovery.checkpoint().map(|items| SavedShell::Items(restorable(items))),
        };
        let _ = reply.send(Ok(self.saved(shell)));
    }

    fn save_shell(&mut self, reply: SaveReply) {
        let id = self.numbers.next();
        let fork_key = self.numbers.fork_key();
        let asked = self.shell.channel().map(|shell| ask(shell, id, fork_key));
        let mut saved = self.saved(None);
        let session = self.config.id.clone();
        tokio::spawn(async move {
            let items = match asked {
                Some(Ok(asked)) => asked.read().await,
                Some(Err(_)) | None => None,
            };
            saved.shell = items.map(SavedShell::Items);
            let _ = reply.send(if saved.shell.is_some() { Ok(saved) } else { Err(unsaved(&session)) });
        });
    }

    fn saved(&self, shell: Option<SavedShell>) -> Saved {
        Saved { shell, status: self.foreground.status() as i32, cwd: self.cwd.as_os_str().as_bytes().to_vec() }
    }

    /// Begins with a state.
    pub(super) fn begin_with(&mut self, saved: Saved) {
        self.foreground.keep_status(saved.status);
        self.cwd = PathBuf::from(OsString::from_vec(saved.cwd));
        match saved.shell {
            Some(SavedShell::Items(items)) => self.recovery.keep_checkpoint(Some(items)),
            Some(SavedShell::Plain(state)) => self.plain.begin_with(state, saved.status),
            None => {}
        }
    }
}

fn unsaved(session: &str) -> Error {
    Error::new(
        Code::EngineError,
        format!("the shell of session '{session}' does not write its state down, or it has more than 64 MiB"),
    )
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
