//! The rules for a session or a job, and how they are enforced on this machine: the decision, ready to be applied.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::{Path, PathBuf};

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
    /// Directories that appear at another place. They are writable. The other lists are about the machine's own files,
    /// wherever a mount shows them.
    pub mounts: Vec<Mount>,
    /// What the rules close and open in a project for the programs of the machine. Only with mount namespaces.
    pub project: ProjectFiles,
}

/// What is protected in a project, because programs of the machine run or obey it later, and what git needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProjectFiles {
    /// Trees that are never writable. Those that are missing get a placeholder first.
    pub protect: Vec<PathBuf>,
    /// What takes the place of a missing tree while a session lives.
    pub placeholders: Vec<Placeholder>,
    /// Files of which programs see, and can write, a copy of their own.
    pub copies: Vec<PathBuf>,
    /// Directories of git outside of the writable trees, in which programs can write.
    pub write: Vec<PathBuf>,
    /// The work tree, which is visible even where the directory for temporary files is private.
    pub shown: Vec<PathBuf>,
    /// The projects, where more can appear.
    pub roots: Vec<PathBuf>,
    /// What is there of that.
    pub known: Vec<PathBuf>,
}

/// An empty directory, or a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placeholder {
    /// Where it is.
    pub path: PathBuf,
    /// The text of a file.
    pub text: Option<String>,
}

/// Whether the rules protect what programs of the machine run later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Guarding {
    /// They protect only what they name.
    #[default]
    Off,
    /// They protect it.
    On,
    /// They also let git write to the repository of the working directory.
    WithRepository,
}

/// A directory that appears at another place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    /// The machine's directory.
    pub source: PathBuf,
    /// Where programs see it. What the machine has there is invisible.
    pub target: PathBuf,
}

impl Mount {
    /// Where it shows a path of the machine: a part of its source, not the source itself.
    pub fn shows(&self, path: &Path) -> Option<PathBuf> {
        let part = path.strip_prefix(&self.source).ok().filter(|part| !part.as_os_str().is_empty());
        part.map(|part| self.target.join(part))
    }
}

impl Filesystem {
    /// True for a path at or below the target of a mount.
    pub fn covers(&self, path: &Path) -> bool {
        self.mounts.iter().any(|mount| path.starts_with(&mount.target))
    }
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

/// The rules that the caller requests. All paths are absolute.
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
    /// The file with the rules, if they protect it. It only explains refusals, so states do without it.
    #[serde(skip)]
    pub rules_file: Option<PathBuf>,
    /// Whether attempts to use files are observed. It changes nothing that programs can do, so states do without it.
    #[serde(skip)]
    pub explains: bool,
    /// Whether the rules are not enforced: what they would refuse is reported. States enforce them.
    #[serde(skip)]
    pub learns: bool,
    /// Whether the project is guarded.
    pub guarding: Guarding,
    /// Whether tools get a private place for their caches.
    pub private_caches: bool,
}

/// A directory for the caches of tools, which the sessions of one project share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CachePlace {
    /// What programs see and can write. Its parent belongs to nacre alone.
    pub files: PathBuf,
    /// Whose it is. It must not be used if it belongs to something else.
    pub identity: Vec<u8>,
    /// A link to make in a new place: where it is in `files`, and its target.
    pub link: Option<(PathBuf, PathBuf)>,
}

/// Files with certificates, which programs can read and cannot change.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Certificates {
    /// Their directory.
    pub place: PathBuf,
    /// Their names and contents.
    pub files: Vec<(String, Vec<u8>)>,
}

impl fmt::Debug for Certificates {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Certificates").field("place", &self.place).finish_non_exhaustive()
    }
}

/// The private directory for temporary files in a mount namespace.
pub const PRIVATE_TMP: &str = "/tmp";

/// Namespaces of a session's programs. All of them have a mount namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Namespaces {
    /// A user namespace, which an ordinary user needs to create the others.
    pub user: bool,
    /// An IPC namespace.
    pub ipc: bool,
    /// A network namespace.
    pub network: bool,
    /// A pid namespace.
    pub processes: bool,
}

/// A copy-on-write workspace, whose mount travels with the order to confine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workspace {
    /// Where it is mounted: the real directory.
    pub path: PathBuf,
    /// The directory with the layers of all workspaces. Programs see nothing of it.
    pub store: PathBuf,
    /// Directories of git outside of it, which are read-only: a discard would not take back what a commit leaves there.
    pub outside: Vec<PathBuf>,
    /// Whether what the machine has mounted below is there as it is.
    pub passes_mounts: bool,
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

/// Which sockets the seccomp filter lets programs create.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sockets {
    /// Internet sockets of any kind.
    Internet,
    /// TCP sockets only.
    Tcp,
    /// No internet sockets.
    None,
}

/// The rules by which a broker judges attempts to use files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observed {
    /// Those for files.
    pub filesystem: Filesystem,
    /// They are not enforced: everything is allowed.
    pub learns: bool,
}

/// The programs that have hosts of their own, and where programs of the session could write one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownPrograms {
    /// They, in the order of their rules.
    pub programs: Vec<KnownProgram>,
    /// Trees in which programs can change files, by all their names.
    pub changeable: Vec<PathBuf>,
}

/// A program that has hosts of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownProgram {
    /// The port of the proxy on 127.0.0.1 that it alone is connected to.
    pub port: u16,
    /// Its executables.
    pub files: Vec<KnownFile>,
}

/// An executable. A name is no identity, so it has all that changes with its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownFile {
    /// Its path, without links.
    pub path: PathBuf,
    /// The device and the number of the file.
    pub file: (u64, u64),
    /// When it was changed: seconds and nanoseconds of `st_ctime`, which no program can set.
    pub changed: (i64, i64),
    /// Its length in bytes.
    pub bytes: u64,
}

impl KnownPrograms {
    /// Whether a port is one that only the broker connects programs to.
    pub fn have(&self, port: u16) -> bool {
        self.programs.iter().any(|program| program.port == port)
    }
}

/// The decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    /// The enforced rules for files; `None` if there are none.
    pub filesystem: Option<Filesystem>,
    /// The enforced rule for the network.
    pub network: Network,
    /// Namespaces, if they enforce anything.
    pub namespaces: Option<Namespaces>,
    /// The workspace; it needs namespaces.
    pub workspace: Option<Workspace>,
    /// Whether programs lose privileges and system calls. A workspace alone takes none.
    pub restricts: bool,
    /// Landlock, if it enforces anything.
    pub landlock: Option<Landlock>,
    /// Sockets that programs may create.
    pub sockets: Sockets,
    /// Whether the filter refuses ptrace(2). Otherwise Landlock or the pid namespace limits it to the session.
    pub refuses_ptrace: bool,
    /// Whether the filter keeps programs dumpable, because the broker could not read their addresses otherwise. Then
    /// programs can read the memory of their shell, so the filter also refuses ptrace(2), and forks with a key.
    pub keeps_dumpable: bool,
    /// Whether the filter keeps programs from changing priorities and processors of other processes, for lack of a pid
    /// namespace.
    pub refuses_scheduling: bool,
    /// Whether the filter refuses the machine's shared memory, semaphores and queues, for lack of an IPC namespace.
    pub refuses_ipc: bool,
    /// Whether a broker makes connections. Otherwise programs have no Unix sockets except pairs.
    pub brokered: bool,
    /// The file with the rules, if they protect it.
    pub rules_file: Option<PathBuf>,
    /// What the broker judges attempts to use files by, if it is to report them.
    pub observed: Option<Observed>,
    /// Whether programs that ignore the proxy reach it all the same: the broker redirects their connections, and a resolver
    /// inside the network namespace gives names the addresses that they connect to.
    pub redirects: bool,
    /// The private directory for temporary files: a tmpfs in a mount namespace, otherwise a directory of the session.
    pub temporary: PathBuf,
    /// Directories of the engine with the logs of processes and the files of durable jobs. Programs see nothing of them.
    pub private: Vec<PathBuf>,
    /// A job's own directory, which its programs may read: its path now, and its later path in `private`.
    pub own: Option<(PathBuf, PathBuf)>,
    /// The place for the caches of tools. It may lie in `private`.
    pub caches: Option<CachePlace>,
    /// The directory with the host's commands, which programs may read.
    pub commands: Option<PathBuf>,
    /// The certificates that programs trust, if not the machine's.
    pub certificates: Option<Certificates>,
    /// Where the session's shell starts. It exists in the view even if `read` does not include it, but is then empty.
    pub cwd: PathBuf,
    /// The shell's program, which must be readable.
    pub shell: PathBuf,
    /// The port of the proxy on 127.0.0.1.
    pub proxy_port: Option<u16>,
    /// The programs that have hosts of their own, if there are any.
    pub programs: Option<KnownPrograms>,
}

impl Confinement {
    /// The rules for files that attempts are judged by: those that are enforced, unless the session learns.
    pub fn judged(&self) -> Option<&Filesystem> {
        self.observed.as_ref().map(|observed| &observed.filesystem).or(self.filesystem.as_ref())
    }

    /// Whether the rules are not enforced.
    pub fn learns(&self) -> bool {
        self.observed.as_ref().is_some_and(|observed| observed.learns)
    }

    /// Nothing but namespaces: no rule, and no right taken away.
    pub fn open(namespaces: Namespaces, cwd: PathBuf, shell: PathBuf) -> Self {
        Self {
            filesystem: None,
            network: Network::Open,
            namespaces: Some(namespaces),
            workspace: None,
            restricts: false,
            landlock: None,
            sockets: Sockets::Internet,
            refuses_ptrace: false,
            keeps_dumpable: false,
            refuses_scheduling: false,
            refuses_ipc: false,
            brokered: false,
            rules_file: None,
            observed: None,
            redirects: false,
            temporary: PRIVATE_TMP.into(),
            private: Vec::new(),
            own: None,
            caches: None,
            commands: None,
            certificates: None,
            cwd,
            shell,
            proxy_port: None,
            programs: None,
        }
    }
}
