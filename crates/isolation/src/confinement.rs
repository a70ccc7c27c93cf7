//! How the rules of a session are enforced on this machine: the decision, ready to be carried out.

use crate::rules::{Filesystem, Network};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The private directory for temporary files in a mount namespace.
pub const PRIVATE_TMP: &str = "/tmp";

/// Namespaces of a session's programs. All of them have a mount and an IPC namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Namespaces {
    /// A user namespace, which an ordinary user needs to make the others.
    pub user: bool,
    /// A network namespace.
    pub network: bool,
    /// A pid namespace.
    pub processes: bool,
}

/// What Landlock restricts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Landlock {
    /// Files and directories.
    pub filesystem: bool,
    /// TCP: only connections to the proxy.
    pub tcp: bool,
    /// Signals, to processes of the session.
    pub signals: bool,
    /// Abstract Unix sockets, to those of the session.
    pub abstract_sockets: bool,
}

/// Which sockets the seccomp filter lets programs make.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sockets {
    /// Internet sockets of any kind.
    Internet,
    /// TCP sockets only.
    Tcp,
    /// No internet sockets.
    None,
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    /// The rules for files that are enforced; `None` when none are.
    pub filesystem: Option<Filesystem>,
    /// The rule for the network that is enforced.
    pub network: Network,
    /// Namespaces, where they enforce something.
    pub namespaces: Option<Namespaces>,
    /// Landlock, where it enforces something.
    pub landlock: Option<Landlock>,
    /// Sockets that programs may make.
    pub sockets: Sockets,
    /// ptrace(2) is refused by the filter. Otherwise Landlock or the pid namespace limits it to the session.
    pub refuses_ptrace: bool,
    /// Shared memory, semaphores and queues of the machine are refused by the filter: there is no IPC namespace.
    pub refuses_ipc: bool,
    /// A broker makes connections. Otherwise there are no Unix sockets but pairs.
    pub brokered: bool,
    /// The private directory for temporary files: in a mount namespace a tmpfs, elsewhere a directory of the session's.
    pub temporary: PathBuf,
    /// Where the session's shell starts. It exists in the view even where `read` does not name it, and is empty then.
    pub cwd: PathBuf,
    /// The shell's program, which must be readable.
    pub shell: PathBuf,
    /// The port of the proxy on 127.0.0.1.
    pub proxy_port: Option<u16>,
}
