//! How a session is configured.

use super::saved::Saved;
use crate::capabilities::Engine;
use crate::error::Error;
use crate::feed::Feed;
use crate::hook::Hook;
use crate::host_commands::SessionCommands;
use crate::log::Log;
use crate::proxy::Policy;
use crate::user::User;
use nacre_containment::session_mark::Marks;
use nacre_protocol::confinement::Confinement;
use nacre_protocol::standing::ResourceLimits;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

/// The configuration of a session's shell and its supervisor.
#[derive(Clone)]
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
    /// Receives diagnostics.
    pub log: Log,
}

/// Decides how a session is confined. It looks at the user's directories, so it runs on a thread that may block.
#[derive(Clone)]
pub struct Isolate(pub Arc<dyn Fn() -> Result<SessionIsolation, Error> + Send + Sync>);

/// How a session is confined.
#[derive(Debug)]
pub struct SessionIsolation {
    /// The confinement of everything in it.
    pub confinement: Confinement,
    /// The proxy through which its programs reach the network.
    pub proxied: Option<Proxied>,
    /// Variables that its programs need for both.
    pub variables: Vec<(String, OsString)>,
    /// The mount of its workspace, until it is sent to the supervisor: it can be attached once.
    pub mount: Option<OwnedFd>,
}

/// The configuration of a session's proxy.
#[derive(Clone, Debug)]
pub struct Proxied {
    /// The destinations that it allows, and those that it refused.
    pub policy: Policy,
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
