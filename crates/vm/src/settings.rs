//! What the client asks for. lib/engine/vm.ts writes it.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The variable with the [`Settings`] as JSON. Command lines are visible to all users of the machine.
pub const VARIABLE: &str = "NACRE_VM";

/// A virtual machine.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Settings {
    /// Whether QEMU emulates the processor, without `/dev/kvm`.
    pub emulate: bool,
    /// The kernel; otherwise the one that the machine runs.
    pub kernel: Option<PathBuf>,
    /// MiB.
    pub memory: u64,
    pub cpus: u32,
    /// The directories in which programs are searched, as in PATH.
    pub path: String,
    /// The project and its mounts: real paths, those above before those below.
    pub places: Vec<Place>,
    /// What the guest must not see.
    pub hide: Vec<PathBuf>,
    pub server: Server,
    /// A process of the session whose proxy is the guest's network.
    pub outlet: Option<u32>,
}

/// A directory or file that the guest has from the machine as it is.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Place {
    pub path: PathBuf,
    pub read_only: bool,
}

/// The program on the other end of the connection.
#[derive(Clone, Deserialize, Serialize)]
pub struct Server {
    pub argv: Vec<String>,
    pub env: BTreeMap<String, String>,
}

/// What the guest gets, as a file of its initramfs.
#[derive(Deserialize, Serialize)]
pub struct Guest {
    /// They are in this order in the second share, by their numbers.
    pub places: Vec<PathBuf>,
    pub server: Server,
    /// Whether there is a proxy.
    pub has_outlet: bool,
    /// The descriptors that each file server has.
    pub descriptors: u64,
}
