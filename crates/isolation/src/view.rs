//! The session's view of the file system, as a list of mounts. Pure, except for checking which files exist.

use nacre_protocol::confinement::{Confinement, Mount, PRIVATE_TMP};
use std::collections::BTreeSet;
use std::io::ErrorKind;
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
    /// Hide what the machine has at the first path where the second shows it: mount an empty directory, or an empty file.
    Hide(PathBuf, PathBuf),
    /// Bind a tree of the machine at another place, which is created.
    Show(PathBuf, PathBuf, Access),
    /// An empty directory for mount points, with the permissions of the machine's. Read-only in the end.
    Frame(PathBuf),
    /// An empty directory for mount points in what is closed, which any user can enter. Read-only in the end.
    Shelf(PathBuf),
    /// The machine's own entry of a frame, read-only: a tree, a file or a symlink.
    Keep(PathBuf),
    /// A copy of what the machine has at the first path, which only the session sees, at the second one.
    Copy(PathBuf, PathBuf),
}

impl Step {
    /// What it covers.
    pub fn place(&self) -> &Path {
        match self {
            Self::Scratch(path) | Self::Bind(path, _) | Self::Hide(_, path) | Self::Show(_, path, _) => path,
            Self::Shelf(path) | Self::Frame(path) | Self::Keep(path) | Self::Copy(_, path) => path,
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
    let hidden = |path: PathBuf| Step::Hide(path.clone(), path);
    let stores = confinement.workspace.iter().map(|workspace| workspace.store.clone());
    let Some(rules) = &confinement.filesystem else {
        let own_proc = confinement.namespaces.is_some_and(|namespaces| namespaces.processes);
        let outside = confinement.workspace.iter().flat_map(|workspace| workspace.outside.iter().cloned());
        let outside = outside.map(|path| Step::Bind(path, Access::Read));
        let steps = own_proc.then_some(Step::Processes).into_iter().chain(outside).chain(stores.map(hidden)).collect();
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
        let own = own.chain(rules.project.shown.iter().filter(|_| rules.read.is_none()).cloned());
        let is_below = |path: &PathBuf| path.starts_with(scratch) && path != scratch && !rules.covers(path);
        let mut below: Vec<PathBuf> = named.into_iter().chain(own).filter(is_below).collect();
        // An outer tree would cover an inner one.
        below.sort();
        steps.extend(below.into_iter().map(|path| Step::Bind(path, Access::Read)));
    }
    steps.push(Step::Devices);
    if confinement.namespaces.is_some_and(|namespaces| namespaces.processes) {
        steps.push(Step::Processes);
    }
    // The root is not mounted separately: it would cover the private devices and processes.
    let mounted = write.iter().filter(|path| path.as_path() != root);
    steps.extend(mounted.map(|path| Step::Bind(path.clone(), Access::Write)));
    steps.extend(shut.into_iter().map(|path| Step::Bind(path, Access::Read)));
    let (mut between, protected) = protections(&write, protect.clone());
    let is_hidden = |path: &Path| rules.hide.iter().any(|hidden| path.starts_with(hidden));
    let mut private = existing(&confinement.private);
    private.retain(|path| !is_hidden(path));
    between.extend(protections(&write, private).0);
    steps.extend(between.into_iter().map(|path| Step::Bind(path, Access::Write)));
    // A copy needs a private directory.
    let has_scratch = steps.contains(&Step::Scratch(scratch.to_path_buf())) && !rules.covers(scratch);
    steps.extend(protected.into_iter().map(|path| {
        if has_scratch && rules.project.copies.contains(&path) {
            Step::Copy(path.clone(), path)
        } else {
            Step::Bind(path, Access::Read)
        }
    }));
    let is_private = |path: &Path| path == scratch && steps.contains(&Step::Scratch(scratch.to_path_buf()));
    let mut closed: Vec<PathBuf> = existing(&rules.hide).into_iter().filter(|path| !is_private(path)).collect();
    // What programs of the session can make is theirs.
    let is_awaited = |path: &&PathBuf| is_missing(path) && !write.iter().any(|root| path.starts_with(root));
    let awaited: Vec<PathBuf> = rules.hide.iter().filter(is_awaited).cloned().collect();
    // Also those in a hidden tree, of which a mount may show a part.
    closed.extend(existing(&confinement.private).into_iter().chain(stores));
    let commands = confinement.commands.iter().map(|place| (place, place));
    let own = confinement.own.iter().map(|(tree, place)| (tree, place)).chain(commands);
    let own = own.filter(|(_, place)| !is_hidden(place) && !rules.covers(place));
    let own = own.map(|(tree, place)| Step::Show(tree.clone(), place.clone(), Access::Read));
    let caches = confinement.caches.iter().map(|place| &place.files);
    let caches = caches.map(|files| Step::Show(files.clone(), files.clone(), Access::Write));
    let own: Vec<Step> = own.chain(caches).collect();
    let is_target = |path: &PathBuf| rules.mounts.iter().any(|mount| mount.target.starts_with(path));
    for path in closed.iter().filter(|path| !rules.covers(path)).cloned() {
        let step = if own.iter().any(|step| step.place().starts_with(&path)) {
            Step::Shelf(path)
        } else if is_target(&path) {
            Step::Frame(path)
        } else {
            hidden(path)
        };
        if !steps.contains(&step) {
            steps.push(step);
        }
    }
    let alone = awaited.iter().filter(|path| !rules.covers(path) && !is_target(path));
    steps.extend(alone.cloned().map(hidden));
    let mut only: Option<Vec<PathBuf>> = rules.read.as_ref().filter(|_| access == Access::Read).map(|paths| {
        let own = [confinement.shell.clone()];
        let listed = existing(paths).into_iter().chain(own).filter(|path| !path.starts_with(scratch));
        essentials().into_iter().chain(listed).collect()
    });
    let frames = frames(&rules.mounts, &write, &steps, &mut only);
    steps.splice(0..0, frames);
    let copies: &[PathBuf] = if has_scratch { &rules.project.copies } else { &[] };
    steps.extend(rules.mounts.iter().flat_map(|mount| shown_by(mount, &protect, copies, &closed, &awaited)));
    steps.extend(own);
    View { only, access, steps }
}

/// Whether something may appear at a path. The view of what is hidden there begins when it does; see [`crate::masks`].
fn is_missing(path: &Path) -> bool {
    path.symlink_metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound)
}

/// The steps of a mount. The rules for parts of its source hold where they are shown, too.
fn shown_by(
    mount: &Mount,
    protect: &[PathBuf],
    copies: &[PathBuf],
    closed: &[PathBuf],
    awaited: &[PathBuf],
) -> Vec<Step> {
    let Mount { source, target } = mount;
    let is_protected = protect.iter().any(|root| source.starts_with(root));
    let access = if is_protected { Access::Read } else { Access::Write };
    let show = |path: PathBuf, access: Access| Some(Step::Show(path.clone(), mount.shows(&path)?, access));
    let parts = protect.iter().filter(|path| !is_protected && path.starts_with(source)).cloned().collect();
    let (between, protected) = protections(std::slice::from_ref(source), parts);
    let whole = [Step::Show(source.clone(), target.clone(), access)];
    let between = between.into_iter().filter_map(|path| show(path, Access::Write));
    let protected = protected.into_iter().filter_map(|path| match copies.contains(&path) {
        true => Some(Step::Copy(path.clone(), mount.shows(&path)?)),
        false => show(path, Access::Read),
    });
    let awaited = awaited.iter().filter(|_| is_protected);
    let hidden = closed.iter().chain(awaited).filter_map(|path| Some(Step::Hide(path.clone(), mount.shows(path)?)));
    whole.into_iter().chain(between).chain(protected).chain(hidden).collect()
}

/// The private directories in which the missing targets of mounts are created, with everything that the machine has there. If
/// that is the root, `only` becomes its entries.
fn frames(mounts: &[Mount], write: &[PathBuf], steps: &[Step], only: &mut Option<Vec<PathBuf>>) -> Vec<Step> {
    let exists = |path: &Path| path.symlink_metadata().is_ok();
    let entries = |path: &Path| -> Vec<PathBuf> {
        let found = std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
        found.collect::<BTreeSet<_>>().into_iter().collect()
    };
    let is_private = |path: &Path| {
        steps.iter().any(|step| matches!(step, Step::Scratch(root) | Step::Shelf(root) | Step::Frame(root) if path.starts_with(root)))
    };
    let mut found = BTreeSet::new();
    for target in mounts.iter().map(|mount| &mount.target).filter(|target| !exists(target)) {
        let Some(base) = target.ancestors().find(|path| exists(path)) else { continue };
        let is_writable = write.iter().any(|root| base.starts_with(root));
        let is_seen = only.as_ref().is_none_or(|listed| listed.iter().any(|root| base.starts_with(root)));
        if is_seen && !is_writable && !is_private(target) {
            found.insert(base.to_path_buf());
        }
    }
    // It cannot be covered, so the view starts from an empty one.
    let root = Path::new("/");
    if found.remove(root) {
        only.get_or_insert_default().retain(|path| path != root);
        only.iter_mut().for_each(|listed| listed.extend(entries(root)));
    }
    let frame = |path: PathBuf| {
        let kept = entries(&path).into_iter().map(Step::Keep);
        [Step::Frame(path)].into_iter().chain(kept).collect::<Vec<_>>()
    };
    found.into_iter().flat_map(frame).collect()
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
