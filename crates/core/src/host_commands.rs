//! Commands that are functions of the host: which ones there are, and what receives their calls.

use crate::error::{Code, Error};
use nacre_containment::lock::Lock;
use nacre_host_commands::directory;
use nacre_isolation::real;
use nacre_protocol::confinement::Confinement;
use nacre_protocol::supervisor::HostCommands;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// Maximum calls of a session at the same time. Further ones fail.
const MAX_CALLS: usize = 128;
/// How long the directory may take to respond.
const ANSWER: Duration = Duration::from_secs(1);
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

    /// Removes what supervisors have left that were killed. Gives up if the files do not respond.
    pub async fn sweep(self) {
        let _ = timeout(ANSWER, tokio::task::spawn_blocking(move || directory::sweep(&real(&self.root)))).await;
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
    /// Calls by session. A call counts for its id, also when another session has that by its end.
    counts: Arc<Lock<HashMap<String, usize>>>,
}

impl OnCall {
    /// Calls this function for each call. [`OnCall::ended`] has to follow.
    pub fn new(receive: impl Fn(&str, OwnedFd) + Send + Sync + 'static) -> Self {
        Self { receive: Arc::new(receive), counts: Arc::default() }
    }

    /// Passes a call on, or closes its connection if there are too many.
    pub(crate) fn call(&self, session: &str, connection: OwnedFd) {
        let begins = {
            let mut counts = self.counts.lock();
            let count = counts.entry(session.into()).or_default();
            let begins = *count < MAX_CALLS;
            *count += usize::from(begins);
            begins
        };
        if begins {
            (self.receive)(session, connection);
        }
    }

    /// A call of a session has ended.
    pub fn ended(&self, session: &str) {
        let mut counts = self.counts.lock();
        if let Some(count) = counts.get_mut(session) {
            *count -= 1;
            if *count == 0 {
                counts.remove(session);
            }
        }
    }
}

impl fmt::Debug for OnCall {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("OnCall")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn each_session_has_its_own_calls() {
        let received = Arc::new(Mutex::new(Vec::new()));
        let on_call = OnCall::new({
            let received = Arc::clone(&received);
            move |session, _| received.lock().unwrap().push(session.to_string())
        });
        let call = |session, times| (0..times).for_each(|_| on_call.call(session, std::io::pipe().unwrap().0.into()));
        let count = || received.lock().unwrap().len();
        call("one", MAX_CALLS + 5);
        assert_eq!(count(), MAX_CALLS);
        call("two", 1);
        assert_eq!(count(), MAX_CALLS + 1);
        on_call.ended("one");
        call("one", 2);
        assert_eq!(count(), MAX_CALLS + 2);
        (0..MAX_CALLS).for_each(|_| on_call.ended("one"));
        on_call.ended("two");
        assert!(on_call.counts.lock().is_empty());
    }
}
