//! What the caller asks for: paths, network, processes. All paths are absolute.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Which files programs may read and write. Later lists win over earlier ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filesystem {
    /// Readable trees; `None` is everything. What programs need to start is always readable.
    pub read: Option<Vec<PathBuf>>,
    /// Writable trees.
    pub write: Vec<PathBuf>,
    /// Trees that are readable and never writable.
    pub protect: Vec<PathBuf>,
    /// Trees that look empty or missing.
    pub hide: Vec<PathBuf>,
}

/// Which hosts programs may reach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Network {
    /// Every host.
    #[default]
    Open,
    /// None.
    Closed,
    /// Only the proxy that the host runs for the session.
    Proxy,
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rules {
    /// Files.
    pub filesystem: Filesystem,
    /// Hosts.
    pub network: Network,
    /// Programs see and signal only processes of their own session.
    pub own_processes: bool,
    /// Rules that cannot be enforced here are dropped instead of refused.
    pub best_effort: bool,
}
