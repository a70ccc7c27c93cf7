//! Commands that are functions of the host: which ones there are, and what receives their calls.

use crate::error::{Code, Error};
use nacre_host_commands::directory;
use nacre_isolation::real;
use nacre_protocol::confinement::Confinement;
use nacre_protocol::supervisor::HostCommands;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Maximum calls of a sandbox at the same time. Further ones fail.
const MAX_CALLS: usize = 128;
/// The PATH of programs that have none, as of execvp(3).
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The commands of a sandbox.
#[derive(Clone, Debug)]
pub struct Commands {
    /// Their names.
    pub names: Vec<String>,
    /// The directory in which their own directory is.
    pub root: PathBuf,
    /// Receives their calls.
    pub on_call: OnCall,
}

/// The commands of a session.
#[derive(Clone, Debug)]
pub struct SessionCommands {
    /// For its supervisor.
    pub places: HostCommands,
    /// Receives their calls.
    pub on_call: OnCall,
}

impl Commands {
    /// Puts the commands first in the PATH of a session.
    pub fn give(&self, env: &mut Vec<(OsString, OsString)>, supervisor: &Path) -> SessionCommands {
        let directory = directory::path(&real(&self.root), self.names.iter().map(String::as_str), supervisor);
        let old = env.iter().position(|(name, _)| name == "PATH").map(|at| env.remove(at).1);
        let mut path = directory.clone().into_os_string();
        path.push(":");
        path.push(old.as_deref().unwrap_or(OsStr::new(DEFAULT_PATH)));
        env.push(("PATH".into(), path));
        SessionCommands {
            places: HostCommands { directory: directory.into(), names: self.names.clone() },
            on_call: self.on_call.clone(),
        }
    }
}

/// Lets programs of a confinement reach the commands in this directory.
///
/// # Errors
/// `ISOLATION_UNSUPPORTED` if they could not connect to the host.
pub fn show(directory: &Path, confinement: &mut Confinement) -> Result<(), Error> {
    if confinement.restricts && !confinement.brokered {
        let message = "programs cannot call commands of the host: this system lets nothing connect for them";
        return Err(Error::new(Code::IsolationUnsupported, message));
    }
    confinement.commands = Some(directory.into());
    Ok(())
}

type Receive = dyn Fn(&str, OwnedFd) + Send + Sync;

/// Receives calls, on the engine's thread: the session's id, and the connection. It must not block.
#[derive(Clone)]
pub struct OnCall {
    receive: Arc<Receive>,
    count: Arc<AtomicUsize>,
}

impl OnCall {
    /// Calls this function for each call. [`OnCall::ended`] has to follow.
    pub fn new(receive: impl Fn(&str, OwnedFd) + Send + Sync + 'static) -> Self {
        Self { receive: Arc::new(receive), count: Arc::default() }
    }

    /// Passes a call on, or closes its connection if there are too many.
    pub(crate) fn call(&self, session: &str, connection: OwnedFd) {
        if self.count.fetch_add(1, Ordering::Relaxed) < MAX_CALLS {
            (self.receive)(session, connection);
        } else {
            self.ended();
        }
    }

    /// A call has ended.
    pub fn ended(&self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

impl fmt::Debug for OnCall {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("OnCall")
    }
}
