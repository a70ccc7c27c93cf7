//! The capabilities of this system, determined by probing.

use crate::error::{Code, Error};
use nacre_containment::{cgroup, pidfd};
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// The oldest supported bash.
const OLDEST_BASH: (u32, u32) = (4, 4);

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Capabilities {
    /// Where control groups can be created, if anywhere.
    pub group_parent: Option<PathBuf>,
    /// The available controllers among memory, cpu and pids.
    pub controllers: Vec<String>,
    /// pidfd_open works.
    pub pidfd: bool,
    /// Shells can fork for the supervisor, and it finds their orphans.
    pub builtin: bool,
    /// `/proc/self/fd` can be opened. Loading the builtin needs it.
    pub proc_fd: bool,
    /// One sentence for each missing feature and its replacement.
    pub notes: Vec<String>,
}

impl Capabilities {
    /// Probes everything. Starts no process, except in gVisor.
    pub fn probe(supervisor: &Path) -> Self {
        let mut notes = Vec::new();
        // A system that has them also tells whether a process is one.
        let subreapers = nix::sys::prctl::get_child_subreaper().is_ok();
        if !subreapers {
            notes.push(
                "child subreapers are missing (gVisor has them since July 2023): a pid namespace of each session replaces \
                 them, in which $$ is not the pid in /proc, and each command runs in its own bash"
                    .into(),
            );
        }
        let adopter = if subreapers { "subreaper" } else { "pid namespace" };
        let group_parent = match cgroup::probe() {
            Ok(parent) => Some(parent),
            Err(reason) => {
                notes.push(format!("control groups are not used: {reason}; trees are killed by the {adopter}"));
                None
            }
        };
        let builtin = subreapers && makes_siblings(supervisor);
        if subreapers && !builtin {
            notes.push("this gVisor ignores CLONE_PARENT (before June 2026): each command runs in its own bash".into());
        }
        let pidfd = pidfd::available();
        if !pidfd {
            notes.push("pidfds are not available; processes are identified by their start time".into());
        }
        let controllers = group_parent
            .as_ref()
            .and_then(|parent| std::fs::read_to_string(parent.join("cgroup.controllers")).ok())
            .map(|list| list.split_whitespace().filter(|name| CONTROLLERS.contains(name)).map(str::to_string).collect())
            .unwrap_or_default();
        Self { group_parent, controllers, pidfd, builtin, proc_fd: std::fs::read_dir("/proc/self/fd").is_ok(), notes }
    }

    /// [`Capabilities::notes`], plus a note for each limit that no controller can enforce.
    pub fn all_notes(&self) -> Vec<String> {
        let lacks = |controller: &str| !self.controllers.iter().any(|name| name == controller);
        let refused = [("memory", "memory"), ("cpu", "cpus")].into_iter().filter(|(controller, _)| lacks(controller));
        let refused = refused
            .map(|(controller, limit)| format!("the controller {controller} is missing; the limit {limit} is refused"));
        let counted = "the controller pids is missing; the limit pids is a resource limit, which counts all processes of \
                       the user and does not bind root";
        let counted = lacks("pids").then(|| counted.to_string());
        self.notes.iter().cloned().chain(refused).chain(counted).collect()
    }
}

/// What every gVisor calls its version of Linux.
const GVISOR: &str = "#1 SMP Sun Jan 10 15:06:54 PST 2016";

/// Whether a shell can fork children of its supervisor. Linux always can.
fn makes_siblings(supervisor: &Path) -> bool {
    let is_gvisor = std::fs::read_to_string("/proc/version").is_ok_and(|text| text.contains(GVISOR));
    let probe = || crate::supervisor::program(supervisor).arg("--siblings").stdin(Stdio::null()).status();
    !is_gvisor || probe().is_ok_and(|status| status.success())
}

/// The controllers that enforce limits.
const CONTROLLERS: [&str; 3] = ["memory", "pids", "cpu"];

/// The way in which commands reach bash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// A builtin drives one persistent bash.
    Builtin,
    /// Each command runs in a new bash, which restores the state of the previous one.
    Plain,
}

impl Engine {
    /// The engine's public name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Builtin => "builtin",
            Self::Plain => "plain",
        }
    }

    /// The state that passes from one command to the next.
    pub fn restored(self) -> Vec<String> {
        let kept: &[&str] = match self {
            Self::Builtin => &["jobs", "descriptors"],
            Self::Plain => &[],
        };
        RESTORED.iter().chain(kept).map(ToString::to_string).collect()
    }
}

/// The state that both engines keep.
const RESTORED: [&str; 16] = [
    "variables",
    "arrays",
    "attributes",
    "environment",
    "functions",
    "aliases",
    "options",
    "shopt",
    "traps",
    "cwd",
    "directoryStack",
    "umask",
    "arguments",
    "hashes",
    "completions",
    "status",
];

/// Advice for a missing or unsuitable shell.
const ADVICE: &str = "install bash 4.4 or newer, or name one with the option 'shell'";

/// Why a shell cannot be used: one sentence with advice.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShellError {
    /// The named shell is missing or cannot be executed.
    #[error("the shell '{}' is not an executable file; {}", .0.display(), ADVICE)]
    NotExecutable(PathBuf),
    /// No directory on PATH has a bash.
    #[error("bash was not found on PATH; {}", ADVICE)]
    NotFound,
    /// This version of bash is not supported.
    #[error("'{}' is bash {version}, which is too old; {}", shell.display(), ADVICE)]
    TooOld {
        /// The shell.
        shell: PathBuf,
        /// Its `$BASH_VERSION`.
        version: String,
    },
    /// The shell is not bash.
    #[error("'{}' is not bash; {}", .0.display(), ADVICE)]
    NotBash(PathBuf),
}

impl From<ShellError> for Error {
    fn from(error: ShellError) -> Self {
        Self::new(Code::SpawnFailed, error.to_string())
    }
}

/// The search path for bash without PATH: the default that bash itself uses for commands.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Finds the bash to use: `shell`, or the first `bash` on `path`.
pub fn find_bash(shell: Option<&Path>, path: Option<&OsStr>) -> Result<PathBuf, ShellError> {
    match shell {
        Some(shell) if is_executable(shell) => Ok(shell.to_path_buf()),
        Some(shell) => Err(ShellError::NotExecutable(shell.to_path_buf())),
        None => std::env::split_paths(path.unwrap_or(OsStr::new(DEFAULT_PATH)))
            .filter(|directory| directory.is_absolute())
            .map(|directory| directory.join("bash"))
            .find(|candidate| is_executable(candidate))
            .ok_or(ShellError::NotFound),
    }
}

/// Checks that a shell with this `$BASH_VERSION` (empty for other shells) is supported.
pub fn check_version(shell: &Path, version: &str) -> Result<(), ShellError> {
    let mut numbers = version.split('.').map_while(|part| part.parse::<u32>().ok());
    match (numbers.next(), numbers.next()) {
        (Some(major), Some(minor)) if (major, minor) >= OLDEST_BASH => Ok(()),
        (Some(_), Some(_)) => Err(ShellError::TooOld { shell: shell.to_path_buf(), version: version.into() }),
        _ => Err(ShellError::NotBash(shell.to_path_buf())),
    }
}

fn is_executable(path: &Path) -> bool {
    path.is_absolute()
        && std::fs::metadata(path).is_ok_and(|info| info.is_file() && info.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_and_foreign_shells_are_refused_by_name() {
        let shell = Path::new("/opt/sh");
        assert!(check_version(shell, "5.2.15(1)-release").is_ok());
        assert!(check_version(shell, "4.4.0(1)-release").is_ok());
        assert!(check_version(shell, "4.3.48(1)-release").unwrap_err().to_string().contains("too old"));
        assert!(check_version(shell, "").unwrap_err().to_string().contains("'/opt/sh' is not bash"));
    }

    #[test]
    fn a_missing_bash_is_reported_with_the_fix() {
        assert!(
            find_bash(None, Some(OsStr::new("/proc/nowhere:relative")))
                .unwrap_err()
                .to_string()
                .contains("install bash 4.4")
        );
        let named = find_bash(Some(Path::new("/proc/nowhere/bash")), None).unwrap_err();
        assert!(named.to_string().contains("/proc/nowhere/bash"));
        assert!(find_bash(None, Some(OsStr::new("/usr/bin:/bin"))).is_ok());
        assert!(find_bash(None, None).is_ok());
    }
}
