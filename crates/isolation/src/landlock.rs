//! Landlock: rights on file trees, TCP ports, signals (<https://docs.kernel.org/userspace-api/landlock.html>).

use crate::paths;
use crate::view::{self, DEVICES};
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, NetPort, PathBeneath, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};
use nacre_protocol::confinement::{Confinement, Mount};
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The newest interface that the rules below use. An older kernel enforces the part it supports; `decide` has checked
/// that this is enough.
const INTERFACE: ABI = ABI::V6;

/// The version of the kernel's interface; 0 without Landlock.
pub fn version() -> i32 {
    const LANDLOCK_CREATE_RULESET_VERSION: u32 = 1;
    // SAFETY: asks for the version; no pointer is read.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<libc::c_void>(),
            0,
            LANDLOCK_CREATE_RULESET_VERSION,
        )
    };
    version.max(0) as i32
}

/// Restricts this thread and everything it starts. Call it after entering the namespaces: paths are those of the
/// view.
pub fn restrict(confinement: &Confinement, own: Option<&OwnedFd>) -> io::Result<()> {
    let Some(wanted) = confinement.landlock else { return Ok(()) };
    build(confinement, own).map_err(io::Error::other).and_then(|status| {
        // Even a domain without any right keeps programs from tracing others, so nothing is left out silently.
        if status == RulesetStatus::NotEnforced && (wanted.filesystem || wanted.tcp || wanted.signals) {
            return Err(io::Error::other("the kernel did not enforce the Landlock rules"));
        }
        Ok(())
    })
}

fn build(confinement: &Confinement, own: Option<&OwnedFd>) -> Result<RulesetStatus, RulesetError> {
    let Some(wanted) = confinement.landlock else { return Ok(RulesetStatus::NotEnforced) };
    let mut ruleset = Ruleset::default().set_compatibility(CompatLevel::BestEffort);
    let handled = if wanted.filesystem { AccessFs::from_all(INTERFACE) } else { AccessFs::Refer.into() };
    ruleset = ruleset.handle_access(handled)?;
    if wanted.tcp {
        ruleset = ruleset.handle_access(AccessNet::from_all(INTERFACE))?;
    }
    if wanted.signals {
        ruleset = ruleset.scope(Scope::Signal)?;
    }
    if wanted.abstract_sockets {
        ruleset = ruleset.scope(Scope::AbstractUnixSocket)?;
    }
    let mut created = ruleset.create()?;
    if wanted.filesystem {
        created = files(created, confinement, own)?;
    } else {
        created = allow(created, Path::new("/"), handled)?;
    }
    if let (true, Some(port)) = (wanted.tcp, confinement.proxy_port) {
        created = created.add_rule(NetPort::new(port, AccessNet::ConnectTcp))?;
    }
    Ok(created.restrict_self()?.ruleset)
}

fn files(
    mut created: RulesetCreated,
    confinement: &Confinement,
    own: Option<&OwnedFd>,
) -> Result<RulesetCreated, RulesetError> {
    let Some(rules) = &confinement.filesystem else { return Ok(created) };
    let read = AccessFs::from_read(INTERFACE);
    let all = AccessFs::from_all(INTERFACE) & !AccessFs::IoctlDev;
    let device = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev | AccessFs::Truncate;
    read_rules(confinement, &mut |tree| (&mut created).add_rule(PathBeneath::new(tree, read)).map(|_| ()))?;
    let caches = confinement.caches.iter().map(|place| &place.files);
    for path in rules.write.iter().chain([&confinement.temporary]).chain(caches) {
        created = allow(created, lasting(confinement, path, path), all)?;
    }
    for Mount { source, target } in &rules.mounts {
        created = allow(created, lasting(confinement, source, target), all)?;
    }
    if let Some(path) = &confinement.commands {
        created = allow(created, path, read)?;
    }
    if let (Some(certificates), None) = (&confinement.certificates, confinement.namespaces) {
        created = allow(created, &certificates.place, read)?;
    }
    if let Some(own) = own {
        created = created.add_rule(PathBeneath::new(own, read))?;
    }
    if confinement.namespaces.is_some() {
        created = allow(created, Path::new(view::SHARED_MEMORY), all)?;
    }
    for name in DEVICES {
        created = allow_device(created, name, device)?;
    }
    // Without its own view, the session shares the machine's terminals, and must not write to those of others.
    if confinement.namespaces.is_some() {
        created = allow(created, Path::new("/dev/pts"), device | AccessFs::ReadDir)?;
    }
    allow_device(created, "ptmx", device)
}

/// The path for the rule about a tree that is seen at `place`. A rule belongs to a file, and a workspace may get another mount,
/// with other files. So it is about the directory that contains the mount: there, the view keeps everything else from being
/// written to.
fn lasting<'a>(confinement: &'a Confinement, path: &Path, place: &'a Path) -> &'a Path {
    let workspace = confinement.workspace.as_ref().filter(|workspace| path.starts_with(&workspace.path));
    let mounted = workspace.map(|workspace| if path == place { workspace.path.as_path() } else { place });
    mounted.and_then(Path::parent).unwrap_or(place)
}

/// Adds a rule for a device, which may be a link on the machine.
fn allow_device(
    created: RulesetCreated,
    name: &str,
    rights: BitFlags<AccessFs>,
) -> Result<RulesetCreated, RulesetError> {
    match Path::new("/dev").join(name).canonicalize() {
        Ok(path) => allow(created, &path, rights),
        Err(_) => Ok(created),
    }
}

/// Adds a rule for a tree.
type Allow<'a> = dyn FnMut(OwnedFd) -> Result<(), RulesetError> + 'a;

/// Allows the trees that may be read. In a mount namespace, the view already hides everything else, so the root suffices.
/// Otherwise hidden paths, the devices and what belongs to other sessions are left out, and their siblings have rules
/// instead. As in a view, only what the rules name can be read of the directory for temporary files.
fn read_rules(confinement: &Confinement, allow: &mut Allow) -> Result<(), RulesetError> {
    let Some(rules) = &confinement.filesystem else { return Ok(()) };
    if confinement.namespaces.is_some() {
        return without(Path::new("/"), &[], &[], allow);
    }
    let roots = match &rules.read {
        None => vec![PathBuf::from("/")],
        Some(paths) => {
            // Links of the machine itself, such as /bin.
            let essentials = view::essentials().into_iter().filter_map(|path| path.canonicalize().ok());
            essentials.chain(paths.iter().cloned()).collect()
        }
    };
    let own = [confinement.shell.clone(), PathBuf::from("/proc")];
    // What is missing must not be allowed with its directory: it may appear.
    let mut hidden = rules.hide.clone();
    let is_visible = |path: &PathBuf| !hidden.iter().any(|hidden| path.starts_with(hidden));
    let own: Vec<PathBuf> = own.into_iter().filter(is_visible).collect();
    hidden.extend(confinement.private.iter().filter_map(|path| path.canonicalize().ok()));
    hidden.push(PathBuf::from("/dev"));
    let cwd = rules.read.is_none().then(|| confinement.cwd.canonicalize().ok()).flatten();
    let named: Vec<&PathBuf> = rules.read.iter().flatten().chain(&cwd).chain([&confinement.shell]).collect();
    let linked: Vec<Identity> = hidden.iter().filter_map(|path| linked_file(path)).collect();
    let shared = confinement.temporary.parent().and_then(|path| path.canonicalize().ok());
    let shared = shared.filter(|root| !named.iter().any(|path| root.starts_with(path)));
    for path in named.into_iter().filter(|path| shared.as_ref().is_some_and(|root| path.starts_with(root))) {
        without(path, &hidden, &linked, allow)?;
    }
    hidden.extend(shared);
    for root in roots.iter().chain(&own) {
        without(root, &hidden, &linked, allow)?;
    }
    Ok(())
}

/// Allows a tree without its hidden parts. `linked`: the hidden files that have other names.
fn without(root: &Path, hidden: &[PathBuf], linked: &[Identity], allow: &mut Allow) -> Result<(), RulesetError> {
    if hidden.iter().any(|path| root.starts_with(path)) {
        return Ok(());
    }
    let Ok(opened) = paths::open_path(root) else { return Ok(()) };
    let below: Vec<&Path> = hidden.iter().filter_map(|path| path.strip_prefix(root).ok()).collect();
    if below.is_empty() { allow(opened) } else { neighbours(root, &opened, &below, linked, allow) }
}

/// Allows what is in a directory, except for these paths below it. There may be hundreds of entries: each takes as few system
/// calls and comparisons as possible.
fn neighbours(
    directory: &Path,
    opened: &OwnedFd,
    hidden: &[&Path],
    linked: &[Identity],
    allow: &mut Allow,
) -> Result<(), RulesetError> {
    let mut below: HashMap<&OsStr, Vec<&Path>> = HashMap::new();
    for path in hidden {
        let mut names = path.components();
        if let Some(first) = names.next() {
            below.entry(first.as_os_str()).or_default().push(names.as_path());
        }
    }
    let Ok(entries) = std::fs::read_dir(directory) else { return Ok(()) };
    for entry in entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| !kind.is_symlink())) {
        let name = entry.file_name();
        let hidden = below.get(&*name);
        let is_hidden = hidden.is_some_and(|rests| rests.iter().any(|rest| rest.as_os_str().is_empty()));
        // A right belongs to the file, not to its name: a hard link would show hidden content.
        let is_linked = || linked_file(&entry.path()).is_some_and(|file| linked.contains(&file));
        if is_hidden || !linked.is_empty() && is_linked() {
            continue;
        }
        // A link that takes the place of the entry meanwhile is opened itself.
        let Ok(tree) = openat(opened, &*name, OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC, Mode::empty())
        else {
            continue;
        };
        match hidden {
            None => allow(tree)?,
            Some(rests) => neighbours(&entry.path(), &tree, rests, linked, allow)?,
        }
    }
    Ok(())
}

/// The device and the number of a file.
type Identity = (u64, u64);

/// The identity of a file that has several names. A directory has one.
fn linked_file(path: &Path) -> Option<Identity> {
    let found = path.symlink_metadata().ok()?;
    (!found.is_dir() && found.nlink() > 1).then(|| (found.dev(), found.ino()))
}

/// Adds one rule. A missing path, or a path with a link, gets no rule: the host resolved all existing links before
/// anything ran, so a program may have created it. The library leaves rights for directories out for a file.
fn allow(created: RulesetCreated, path: &Path, rights: BitFlags<AccessFs>) -> Result<RulesetCreated, RulesetError> {
    let Ok(opened) = paths::open_path(path) else { return Ok(created) };
    created.add_rule(PathBeneath::new(opened, rights))
}
