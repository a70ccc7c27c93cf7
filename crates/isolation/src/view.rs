//! The session's view of the file system, as a list of mounts. Pure, except for checking which files exist.

use nacre_protocol::confinement::{Confinement, PRIVATE_TMP};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Devices of the private `/dev`.
pub const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];
/// A private tmpfs.
pub const SHARED_MEMORY: &str = "/dev/shm";

/// Files that programs need to start, in addition to the shell itself. Always readable.
const ESSENTIALS: [&str; 32] = [
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/usr",
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/group",
    "/etc/hostname",
    "/etc/hosts",
    "/etc/inputrc",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/ld.so.preload",
    "/etc/locale.alias",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/nsswitch.conf",
    "/etc/os-release",
    "/etc/passwd",
    "/etc/pki",
    "/etc/protocols",
    "/etc/resolv.conf",
    "/etc/services",
    "/etc/ssl",
    "/etc/terminfo",
    "/etc/timezone",
    "/nix/store",
    "/sys/devices/system/cpu",
];

/// The essentials that exist here.
pub fn essentials() -> Vec<PathBuf> {
    ESSENTIALS.iter().map(PathBuf::from).filter(|path| path.symlink_metadata().is_ok()).collect()
}

/// How a tree is mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Nothing below can be changed.
    Read,
    /// With the tree's own permissions.
    Write,
}

/// One step in assembling the view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// An empty writable tmpfs.
    Scratch(PathBuf),
    /// The machine's own tree at the same place. Created if missing in a scratch directory.
    Bind(PathBuf, Access),
    /// The private `/dev`.
    Devices,
    /// The `/proc` of the pid namespace.
    Processes,
    /// Hide the path: mount an empty directory, or an empty file.
    Hide(PathBuf),
    /// Bind a tree of the machine read-only at another place, which is created.
    Show(PathBuf, PathBuf),
}

impl Step {
    /// What it covers.
    pub fn place(&self) -> &Path {
        match self {
            Self::Scratch(path) | Self::Bind(path, _) | Self::Hide(path) | Self::Show(_, path) => path,
            Self::Devices => Path::new("/dev"),
            Self::Processes => Path::new("/proc"),
        }
    }
}

/// The view of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// If set, the view starts from an empty root, into which these are bound; otherwise from the machine's own root.
    pub only: Option<Vec<PathBuf>>,
    /// The access to the rest of the root.
    pub access: Access,
    /// The steps in order.
    pub steps: Vec<Step>,
}

/// The view of a confinement. The paths of its rules have no links: the host resolved them before anything ran.
pub fn view(confinement: &Confinement) -> View {
    let store = confinement.workspace.iter().map(|workspace| Step::Hide(workspace.store.clone()));
    let Some(rules) = &confinement.filesystem else {
        let own_proc = confinement.namespaces.is_some_and(|namespaces| namespaces.processes);
        let steps = own_proc.then_some(Step::Processes).into_iter().chain(store).collect();
        return View { only: None, access: Access::Write, steps };
    };
    let mut steps = Vec::new();
    let existing = |paths: &[PathBuf]| -> Vec<PathBuf> {
        let mut found: Vec<PathBuf> = paths.iter().filter(|path| path.symlink_metadata().is_ok()).cloned().collect();
        // A tree precedes the trees inside it, whose mounts it would otherwise cover.
        found.sort();
        found.dedup();
        found
    };
    let protect = existing(&rules.protect);
    let is_protected = |path: &PathBuf| protect.iter().any(|root| path.starts_with(root));
    let (shut, write): (Vec<PathBuf>, Vec<PathBuf>) = existing(&rules.write).into_iter().partition(is_protected);
    let root = Path::new("/");
    let access = if write.iter().any(|path| path == root) { Access::Write } else { Access::Read };
    let scratch = Path::new(PRIVATE_TMP);
    // A writable /tmp is the machine's own. Otherwise it is private, and rules for paths below are bound into it.
    if !write.iter().any(|path| path == scratch || path == root) {
        steps.push(Step::Scratch(scratch.to_path_buf()));
        let named = existing(rules.read.as_deref().unwrap_or_default());
        let own = rules.read.is_none().then(|| confinement.cwd.clone()).into_iter().chain([confinement.shell.clone()]);
        let below = named.into_iter().chain(own).filter(|path| path.starts_with(scratch) && path != scratch);
        steps.extend(below.map(|path| Step::Bind(path, Access::Read)));
    }
    steps.push(Step::Devices);
    if confinement.namespaces.is_some_and(|namespaces| namespaces.processes) {
        steps.push(Step::Processes);
    }
    // The root is not mounted separately: it would cover the private devices and processes.
    let mounted = write.iter().filter(|path| path.as_path() != root);
    steps.extend(mounted.map(|path| Step::Bind(path.clone(), Access::Write)));
    steps.extend(shut.into_iter().map(|path| Step::Bind(path, Access::Read)));
    let (mut between, protected) = protections(&write, protect);
    let is_hidden = |path: &Path| rules.hide.iter().any(|hidden| path.starts_with(hidden));
    let mut private = existing(&confinement.private);
    private.retain(|path| !is_hidden(path));
    between.extend(protections(&write, private.clone()).0);
    steps.extend(between.into_iter().map(|path| Step::Bind(path, Access::Write)));
    steps.extend(protected.into_iter().map(|path| Step::Bind(path, Access::Read)));
    let is_private = |path: &Path| path == scratch && steps.contains(&Step::Scratch(scratch.to_path_buf()));
    let hide: Vec<PathBuf> = existing(&rules.hide).into_iter().filter(|path| !is_private(path)).collect();
    steps.extend(hide.into_iter().map(Step::Hide));
    let contains_own = |root: &Path| confinement.own.as_ref().is_some_and(|(_, place)| place.starts_with(root));
    let private = private.into_iter();
    steps.extend(private.map(|path| if contains_own(&path) { Step::Scratch(path) } else { Step::Hide(path) }));
    steps.extend(store.filter(|step| !steps.contains(step)).collect::<Vec<_>>());
    let own = confinement.own.iter().filter(|(_, place)| !is_hidden(place));
    steps.extend(own.map(|(tree, place)| Step::Show(tree.clone(), place.clone())));
    let only = rules.read.as_ref().filter(|_| access == Access::Read).map(|paths| {
        let own = [confinement.shell.clone()];
        let listed = existing(paths).into_iter().chain(own).filter(|path| !path.starts_with(scratch));
        essentials().into_iter().chain(listed).collect()
    });
    View { only, access, steps }
}

/// The mounts for protected or hidden trees below writable trees; everything else is read-only anyway. First come all
/// directories between the two: a mount point cannot be renamed, so no copy can replace its content. Each mount
/// covers earlier mounts below it, so these come before every protected tree, and a protected tree has none below it.
fn protections(write: &[PathBuf], protect: Vec<PathBuf>) -> (BTreeSet<PathBuf>, Vec<PathBuf>) {
    let mut between = BTreeSet::new();
    let mut protected: Vec<PathBuf> = Vec::new();
    for path in protect {
        let within = write.iter().filter(|root| path.starts_with(root));
        let Some(root) = within.max_by_key(|root| root.as_os_str().len()) else { continue };
        if protected.iter().any(|outer| path.starts_with(outer)) {
            continue;
        }
        between.extend(path.ancestors().skip(1).take_while(|ancestor| ancestor != root).map(Path::to_path_buf));
        protected.push(path);
    }
    (between, protected)
}

#[cfg(test)]
#[path = "view_tests.rs"]
mod tests;
