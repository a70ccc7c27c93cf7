//! How a session is configured.

use super::saved::Saved;
use crate::budget::SessionBudgets;
use crate::capabilities::Engine;
use crate::error::Error;
use crate::feed::Feed;
use crate::hook::Hook;
use crate::host_commands::SessionCommands;
use crate::log::Log;
use crate::proxy::{Denials, Policy};
use crate::sys;
use crate::user::User;
use nacre_containment::session_mark::Marks;
use nacre_keep::Kept;
use nacre_protocol::confinement::Confinement;
use nacre_protocol::standing::ResourceLimits;
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// The configuration of a session's shell and its supervisor.
#[derive(Clone, Default)]
pub struct SessionConfig {
    /// The session's id, for messages.
    pub id: String,
    /// The absolute directory where the shell starts.
    pub cwd: PathBuf,
    /// The shell's complete environment.
    pub env: Vec<(OsString, OsString)>,
    /// Absolute path of bash.
    pub shell: PathBuf,
    /// Absolute path of the supervisor executable.
    pub supervisor: PathBuf,
    /// `exit` ends only the command, not the session.
    pub survive_exit: bool,
    /// Whether the builtin drives the shell. Otherwise each command runs in a new bash.
    pub uses_builtin: bool,
    /// Parent and name of the session's control group, if groups are used.
    pub group: Option<(PathBuf, String)>,
    /// The marks of its processes.
    pub marks: Arc<Marks>,
    /// Limits that processes inherit.
    pub limits: ResourceLimits,
    /// The user that the shell runs as, if not this process's.
    pub user: Option<User>,
    /// Decides how everything in the session is confined.
    pub isolate: Option<Isolate>,
    /// The state that it begins with; otherwise that of a new shell.
    pub saved: Option<Saved>,
    /// The commands that are functions of the host.
    pub commands: Option<SessionCommands>,
    /// Receives what happens.
    pub feed: Arc<Feed>,
    /// Receives its id when it ends, or its shell has exited without `survive_exit`.
    pub on_end: Hook<str>,
    /// What it may use in all, if that is limited.
    pub budgets: Option<Arc<SessionBudgets>>,
    /// Receives diagnostics.
    pub log: Log,
    /// How its supervisor can write its last state, if the sandbox is kept on the disk.
    pub kept: Option<SessionFiles>,
}

/// A session that is kept on the disk.
#[derive(Clone)]
pub struct SessionFiles {
    /// The files, as long as the sandbox uses them.
    pub files: Weak<Kept>,
    /// See [`SessionFile::made`](nacre_protocol::kept::SessionFile::made).
    pub made: Vec<u8>,
    /// The number of the last state of all sessions.
    pub numbers: Arc<AtomicU64>,
}

impl SessionFiles {
    /// What the supervisor needs: the directory, and a file with what the host has encoded.
    pub(super) fn places(&self) -> io::Result<[OwnedFd; 2]> {
        let directory = self.files.upgrade().ok_or(io::ErrorKind::NotFound)?.share()?;
        let made = sys::memory_file()?;
        sys::replace_contents(&made, &self.made)?;
        Ok([directory, made])
    }
}

impl SessionConfig {
    /// The number of a state that is saved or forked now. 0 if the session is not kept.
    pub(super) fn next_state(&self) -> u64 {
        self.kept.as_ref().map_or(0, |kept| kept.numbers.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

/// Decides how a session is confined. It looks at the user's directories, so it runs on a thread that may block.
#[derive(Clone)]
pub struct Isolate(pub Arc<dyn Fn() -> Result<SessionIsolation, Error> + Send + Sync>);

/// How a session is confined.
#[derive(Debug)]
pub struct SessionIsolation {
    /// The confinement of everything in it.
    pub confinement: Arc<Confinement>,
    /// The proxy through which its programs reach the network.
    pub proxied: Option<Proxied>,
    /// The connections that were refused, if something refuses them.
    pub denials: Option<Denials>,
    /// Variables that its programs need for both.
    pub variables: Vec<(String, OsString)>,
    /// The mount of its workspace, until it is sent to the supervisor: it can be attached once.
    pub mount: Option<OwnedFd>,
}

impl SessionIsolation {
    /// A confinement alone.
    pub fn of(confinement: Confinement) -> Self {
        Self { confinement: confinement.into(), proxied: None, denials: None, variables: Vec::new(), mount: None }
    }
}

/// The configuration of a session's proxy.
#[derive(Clone, Debug)]
pub struct Proxied {
    /// The destinations that it allows, and those that it refused.
    pub policy: Policy,
    /// Those of programs with hosts of their own, by their names. Each has a listener, in this order.
    pub programs: Vec<(String, Policy)>,
    /// The listener, unless the supervisor listens inside a network namespace.
    pub listener: Option<Arc<OwnedFd>>,
}

/// The shell of a session that has started.
#[derive(Clone, Debug)]
pub struct Opened {
    /// How commands reach it.
    pub engine: Engine,
    /// Its `$BASH_VERSION`.
    pub version: String,
}
