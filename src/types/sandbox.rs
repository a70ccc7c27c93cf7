//! A sandbox and its sessions.

use super::process::NativeLimits;
use super::workspace::{NativeWorkspaceConfig, NativeWorkspaceOffer};
use napi_derive::napi;

/// Configuration of a sandbox.
#[napi(object)]
pub struct NativeConfig {
    /// Absolute.
    pub cwd: String,
    /// The names of the complete environment; as many as values.
    pub env_names: Vec<String>,
    /// The values of the environment.
    pub env_values: Vec<String>,
    /// Default: bash found on the PATH of the environment above.
    pub shell: Option<String>,
    /// Absolute path of the supervisor executable.
    pub supervisor: String,
    /// `exit` ends only the command.
    pub survive_exit: bool,
    /// The directory for everything that the sandbox stores on disk.
    pub state_dir: String,
    /// The name under which it keeps what it is.
    pub keep: Option<String>,
    /// Directory of the durable jobs.
    pub jobs_root: String,
    /// Limits of the whole sandbox; `openFiles`: of each process.
    pub limits: Option<NativeLimits>,
    /// Milliseconds of processor time for the whole sandbox.
    pub budget_cpu: Option<f64>,
    /// A name, or both numeric ids.
    pub user: Option<NativeUser>,
    /// Variables that HOME, USER, LOGNAME and SHELL of `user` do not replace.
    pub own_variables: Option<Vec<String>>,
    /// What programs may read, write, reach and see.
    pub isolation: Option<NativeIsolation>,
    /// The copy-on-write workspace.
    pub workspace: Option<NativeWorkspaceConfig>,
    /// `plain` forces the fallback.
    #[napi(ts_type = "'builtin' | 'plain'")]
    pub engine: Option<String>,
    /// `subreaper` forces the fallback.
    #[napi(ts_type = "'cgroup' | 'subreaper'")]
    pub containment: Option<String>,
    /// The names of the commands that are functions of the host.
    pub command_names: Option<Vec<String>>,
    /// The directory in which they get a directory.
    pub commands_root: Option<String>,
    /// Send `log` events.
    pub log: Option<bool>,
}

/// Why a call fails that is made at once.
#[napi(object, object_from_js = false)]
pub struct NativeFailure {
    /// The code of the error.
    pub code: String,
    /// One sentence.
    pub message: String,
}

/// A user: a name, or both numeric ids.
#[napi(object)]
pub struct NativeUser {
    /// A name in the user database.
    pub name: Option<String>,
    /// User id.
    pub uid: Option<u32>,
    /// Primary group id.
    pub gid: Option<u32>,
}

/// A session to create.
#[napi(object)]
pub struct NativeSession {
    /// Its id.
    pub session_id: String,
    /// Replaces the sandbox's directory; absolute.
    pub cwd: Option<String>,
    /// Changes to the sandbox's environment; null unsets.
    pub env_names: Option<Vec<String>>,
    /// Null unsets.
    pub env_values: Option<Vec<Option<String>>>,
    /// Replaces the sandbox's setting.
    pub survive_exit: Option<bool>,
    /// Replaces the sandbox's rules.
    pub isolation: Option<NativeIsolation>,
    /// Milliseconds of processor time.
    pub budget_cpu: Option<f64>,
}

/// A directory that appears at another place. Both paths are absolute, without links.
#[napi(object)]
pub struct NativeMount {
    /// The machine's directory.
    pub source: String,
    /// Where programs see it.
    pub target: String,
}

/// A value that programs use but never see.
#[napi(object)]
pub struct NativeSecret {
    /// The name of its variable.
    pub name: String,
    /// Printable ASCII; empty if a function knows it.
    pub value: String,
    /// The name of that function.
    pub function: Option<String>,
    /// Milliseconds after which it is called again.
    pub refresh: Option<u32>,
    /// What programs see.
    pub placeholder: String,
    /// The hosts whose requests may have it, with ports.
    pub hosts: Vec<String>,
    /// Where requests may have it: `authorization`, `body`, `header:` or `query:` and a name.
    pub places: Vec<String>,
    /// The programs whose requests may have it; empty: all.
    pub programs: Vec<String>,
}

/// A program with hosts of its own.
#[napi(object)]
pub struct NativeProgram {
    /// Its name, or the path of its executable.
    pub name: String,
    /// Hosts with ports.
    pub allow: Vec<String>,
    /// Its executables; empty: the one that its name leads to.
    pub files: Vec<String>,
}

/// A host whose requests a function answers.
#[napi(object)]
pub struct NativeHandler {
    /// With its port.
    pub host: String,
    /// The name of the function.
    pub function: String,
}

/// Rules for the requests to a host.
#[napi(object)]
pub struct NativeRequestRules {
    /// With its port.
    pub host: String,
    /// Like `GET,HEAD /repos/**`; the first that matches decides.
    pub rules: Vec<String>,
}

/// Rules with absolute paths, without links.
#[napi(object)]
pub struct NativeIsolation {
    /// Readable trees; absent: everything.
    pub read: Option<Vec<String>>,
    /// Writable trees.
    pub write: Vec<String>,
    /// Trees that appear empty.
    pub hide: Vec<String>,
    /// Trees that are never writable.
    pub protect: Vec<String>,
    /// The file among them that has the rules.
    pub rules_file: Option<String>,
    /// Directories that appear at another place.
    pub mounts: Vec<NativeMount>,
    /// `proxy`: only the hosts of `allow`.
    #[napi(ts_type = "'open' | 'closed' | 'proxy'")]
    pub network: String,
    /// Hosts with ports.
    pub allow: Vec<String>,
    /// Hosts with ports that `proxy` refuses, even within `allow`.
    pub deny: Vec<String>,
    /// Programs with hosts of their own.
    pub programs: Vec<NativeProgram>,
    /// Milliseconds that a question about another host waits for its answer; absent: such hosts are refused.
    pub ask: Option<u32>,
    /// Names the function that answers, if there is one.
    pub answerer: Option<String>,
    /// Values that programs use but never see.
    pub secrets: Vec<NativeSecret>,
    /// Rules for requests. Several for one host all apply.
    pub requests: Vec<NativeRequestRules>,
    /// Functions that answer requests.
    pub handlers: Vec<NativeHandler>,
    /// More authorities that are trusted, as PEM.
    pub authorities: Vec<String>,
    /// A file with a line for each decrypted request, which programs do not see.
    pub log: Option<String>,
    /// Programs see and signal only their session's processes.
    pub own_processes: bool,
    /// Whether to drop rules that cannot be enforced.
    pub best_effort: bool,
    /// Whether attempts to use files are observed.
    pub explain: bool,
    /// Whether the rules are only reported.
    pub learn: bool,
    /// `project`: protects what programs of the machine run later; `repository`: also lets git write to the repository of cwd.
    #[napi(ts_type = "'off' | 'project' | 'repository'")]
    pub guarding: String,
    /// Tools get a private place for their caches.
    pub private_caches: bool,
}

/// A request, as far as rules judge it.
#[napi(object, object_from_js = false)]
pub struct NativeRequest {
    /// As it was sent.
    pub method: String,
    /// Without the query.
    pub path: String,
}

/// What was refused.
#[napi(object, object_from_js = false)]
#[derive(Default)]
pub struct NativeDenial {
    /// Host and port, a path, a system call, a limit, or a key of git's config.
    pub target: String,
    /// What has refused it.
    #[napi(
        ts_type = "'unlisted' | 'program' | 'denied' | 'address' | 'answer' | 'request' | 'socket' | 'read' | 'write' | 'hide' | 'protect' | 'project' | 'file' | 'library' | 'call' | 'internet-socket' | 'limit' | 'config' | 'appeared'"
    )]
    pub cause: String,
    /// The tree that the rule has to have, or not to have, for a file.
    pub tree: Option<String>,
    /// The request, if it was not the connection.
    pub request: Option<NativeRequest>,
    /// Why what has read the connection refused it.
    #[napi(ts_type = "'rule' | 'host' | 'tls-name' | 'not-http' | 'untrusted'")]
    pub reason: Option<String>,
    /// The process that wanted it.
    pub pid: Option<i32>,
    /// The file that it executes.
    pub program: Option<String>,
    /// Its arguments.
    pub command: Option<String>,
}

/// A connection or request that waits for an answer.
#[napi(object, object_from_js = false)]
pub struct NativeQuestion {
    /// Unique in its sandbox.
    pub id: String,
    /// The session whose program wants to connect.
    pub session_id: String,
    /// Host and port.
    pub target: String,
    /// The request, if it is not about the connection.
    pub request: Option<NativeRequest>,
    /// Milliseconds since the epoch.
    pub asked_at: f64,
    /// Milliseconds since the epoch.
    pub expires_at: f64,
    /// Names the function that answers, if there is one.
    pub answerer: Option<String>,
}

/// The mechanism that enforces each kind of rule.
#[napi(object, object_from_js = false)]
pub struct NativeTiers {
    /// For files.
    #[napi(ts_type = "'namespace' | 'landlock' | 'none'")]
    pub filesystem: String,
    /// For the network.
    #[napi(ts_type = "'namespace' | 'landlock+seccomp' | 'seccomp' | 'none'")]
    pub network: String,
    /// For processes.
    #[napi(ts_type = "'namespace' | 'landlock' | 'none'")]
    pub processes: String,
    /// What is missing, and why.
    pub notes: Vec<String>,
    /// How programs learn to trust what decrypts connections.
    #[napi(ts_type = "'mounted' | 'variables'")]
    pub trust: String,
}

/// The capabilities of this system.
#[napi(object, object_from_js = false, use_nullable = true)]
pub struct NativeCapabilities {
    /// `v2` or `none`.
    #[napi(ts_type = "'v2' | 'none'")]
    pub cgroup: String,
    /// Whether the kernel can kill a whole group with one write.
    pub cgroup_kill: bool,
    /// Enabled controllers.
    pub controllers: Vec<String>,
    /// Whether pidfd_open works.
    pub pidfd: bool,
    /// Whether `/proc/self/fd` can be opened.
    pub proc_fd: bool,
    /// Path of bash.
    pub shell: Option<String>,
    /// Its version.
    pub shell_version: Option<String>,
    /// `plain`: without the builtin.
    #[napi(ts_type = "'builtin' | 'plain'")]
    pub engine: String,
    /// The parts of the state that one command leaves to the next.
    pub restored: Vec<String>,
    /// The mechanisms that enforce the rules of `isolation`.
    pub isolation: NativeTiers,
    /// What copy-on-write workspaces can do.
    pub workspace: NativeWorkspaceOffer,
    /// Missing features and their replacements.
    pub notes: Vec<String>,
}
