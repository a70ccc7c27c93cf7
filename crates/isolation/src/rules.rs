//! The rules that the caller requests: paths, network, processes. All paths are absolute.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Which files programs may read and write. Later lists override earlier ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filesystem {
    /// Readable trees; `None` means everything. The files that programs need to start are always readable.
    pub read: Option<Vec<PathBuf>>,
    /// Writable trees.
    pub write: Vec<PathBuf>,
    /// Trees that are readable but never writable.
    pub protect: Vec<PathBuf>,
    /// Trees that appear empty or missing.
    pub hide: Vec<PathBuf>,
}

/// Which hosts programs may reach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Network {
    /// Every host.
    #[default]
    Open,
    /// No host.
    Closed,
    /// Only through the proxy that the host runs for the session.
    Proxy,
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rules {
    /// Rules for files.
    pub filesystem: Filesystem,
    /// Rules for hosts.
    pub network: Network,
    /// Whether programs see and signal only processes of their own session.
    pub own_processes: bool,
    /// Whether rules that cannot be enforced here are dropped instead of refused.
    pub best_effort: bool,
}
