//! Applies a view: the mounts of a new mount namespace.
//!
//! A process that controls a directory can replace part of a path with a link at any time. So sources and targets are
//! opened once with `RESOLVE_NO_SYMLINKS`, and mounted by descriptor.

use crate::certificates;
use crate::copies::Copies;
use crate::network;
use crate::paths::{Device, Found, clone_mount, open_path};
use crate::view::{Access, DEVICES, SHARED_MEMORY, Step, View, view};
use nacre_containment::mount_table::{self, Mounted};
use nacre_protocol::confinement::{Certificates, Confinement, PRIVATE_TMP, Workspace};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use rustix::fs::CWD;
use rustix::mount::{MoveMountFlags, OpenTreeFlags, move_mount};
use std::ffi::CString;
use std::fs::{DirBuilder, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// Where the new root is assembled. It exists everywhere, and no source lies in it, since all sources are already
/// open.
pub(crate) const STAGE: &str = "/proc";

/// Adds the failed step to an error.
pub(crate) fn at(path: &Path, doing: &str) -> impl FnOnce(io::Error) -> io::Error {
    let text = format!("cannot {doing} {}", path.display());
    move |error| io::Error::new(error.kind(), format!("{text}: {error}"))
}

/// Copies the mounts at and below a path, without attaching them.
pub fn clone_tree(path: &Path) -> io::Result<OwnedFd> {
    clone_mount(&open_path(path)?, OpenTreeFlags::AT_RECURSIVE)
}

/// Copies the mount at a path, without those below it.
pub(crate) fn clone_one(path: &Path) -> io::Result<OwnedFd> {
    clone_mount(&open_path(path)?, OpenTreeFlags::empty())
}

/// Makes a mount read-only, including everything below it if `flags` has AT_RECURSIVE.
fn read_only(directory: BorrowedFd<'_>, path: &Path, flags: libc::c_int) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let set = libc::mount_attr { attr_set: libc::MOUNT_ATTR_RDONLY, attr_clr: 0, propagation: 0, userns_fd: 0 };
    let (number, size) = (directory.as_raw_fd(), size_of::<libc::mount_attr>());
    // SAFETY: the structure and the path outlive the call.
    let done = unsafe { libc::syscall(libc::SYS_mount_setattr, number, path.as_ptr(), flags, &raw const set, size) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes an unattached copy read-only.
pub fn read_only_tree(tree: &OwnedFd) -> io::Result<()> {
    read_only(tree.as_fd(), Path::new(""), libc::AT_RECURSIVE | libc::AT_EMPTY_PATH)
}

/// Attaches a copy at a path.
pub fn attach(tree: &OwnedFd, target: &Path) -> io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(move_mount(tree, "", open_path(target)?, "", flags)?)
}

/// Everything taken from the machine, opened before the first mount covers it.
struct Sources {
    trees: Vec<Option<Source>>,
    devices: Vec<(&'static str, OwnedFd)>,
    only: Vec<(PathBuf, Source)>,
}

fn hides_file(step: &Step) -> bool {
    matches!(step, Step::Hide(path, _) if path.symlink_metadata().is_ok_and(|entry| !entry.is_dir()))
}

/// Creates unattached copies of a file with this text that nothing can write to. Their file system lives as long as they do.
pub(crate) fn files(text: &str, count: usize) -> io::Result<Vec<OwnedFd>> {
    if count == 0 {
        return Ok(Vec::new());
    }
    let stage = Path::new(STAGE);
    tmpfs(stage, "mode=755,size=4k")?;
    let path = stage.join("file");
    std::fs::write(&path, text)?;
    // Whatever the umask is.
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o444))?;
    let files = (0..count).map(|_| {
        let file = clone_tree(&path)?;
        read_only_tree(&file)?;
        Ok(file)
    });
    let files = files.collect::<io::Result<_>>()?;
    umount2(stage, MntFlags::MNT_DETACH)?;
    Ok(files)
}

enum Source {
    Tree(OwnedFd),
    Link(PathBuf),
}

impl Source {
    fn of(path: &Path) -> io::Result<Self> {
        match std::fs::read_link(path) {
            Ok(link) => Ok(Self::Link(link)),
            Err(_) => clone_tree(path).map(Self::Tree).map_err(at(path, "open")),
        }
    }
}

impl Sources {
    fn open(view: &View) -> io::Result<Self> {
        let mut empty = files("", view.steps.iter().filter(|step| hides_file(step)).count())?;
        let tree = |step: &Step| match step {
            Step::Bind(path, _) | Step::Show(path, ..) | Step::Copy(path, _) => {
                clone_tree(path).map(|tree| Some(Source::Tree(tree))).map_err(at(path, "open"))
            }
            Step::Keep(path) => match Source::of(path) {
                // It has been deleted meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                source => source.map(Some),
            },
            _ if hides_file(step) => Ok(empty.pop().map(Source::Tree)),
            _ => Ok(None),
        };
        let devices =
            DEVICES.into_iter().filter_map(|name| Some((name, clone_tree(&Path::new("/dev").join(name)).ok()?)));
        let mut only = Vec::new();
        let own = [PathBuf::from("/proc")];
        for path in view.only.iter().flatten().chain(view.only.iter().flat_map(|_| &own)) {
            only.push((path.clone(), Source::of(path)?));
        }
        Ok(Self { trees: view.steps.iter().map(tree).collect::<io::Result<_>>()?, devices: devices.collect(), only })
    }
}

/// Applies the view of a confinement, with the mount of its workspace. Runs once in a new mount namespace. Returns the
/// descriptors of its copies.
pub fn apply(confinement: &Confinement, workspace: Option<&OwnedFd>) -> io::Result<Vec<OwnedFd>> {
    let view = view(confinement);
    let nothing = None::<&str>;
    let mut layered = None;
    // Later mounts of the machine would appear in the view, and be writable.
    mount(nothing, "/", nothing, MsFlags::MS_REC | MsFlags::MS_PRIVATE, nothing)?;
    if let Some(Workspace { path, passes_mounts, .. }) = &confinement.workspace {
        // Before the rules, which then apply to it as to the real directory.
        let mount = workspace.ok_or_else(|| io::Error::other("the mount of the workspace is missing"))?;
        let passed = if *passes_mounts { mounts_below(path)? } else { Vec::new() };
        attach(mount, path).map_err(at(path, "mount the workspace at"))?;
        for (place, tree) in passed {
            attach(&tree, &place).map_err(at(&place, "mount in the workspace what the machine has at"))?;
        }
        layered = Some((path.as_path(), Found::of(mount)?.device));
    }
    let uncover = |root: &Path, path: &Path| match layered {
        Some((workspace, device)) if workspace.starts_with(path) => uncover(&inside(root, workspace), device),
        _ => Ok(()),
    };
    let sources = Sources::open(&view)?;
    let resolver = files(network::RESOLVER_FILE, confinement.redirects.into())?;
    let root = if view.only.is_some() { Path::new(STAGE) } else { Path::new("/") };
    if view.only.is_some() {
        tmpfs(root, "mode=755")?;
        for (path, source) in &sources.only {
            uncover(root, path)?;
            bind_into_root(root, path, source)?;
        }
    } else if view.access == Access::Read {
        read_only(CWD, root, libc::AT_RECURSIVE).map_err(at(root, "protect"))?;
    }
    let mut copies = Copies::default();
    for (step, source) in view.steps.iter().zip(&sources.trees) {
        uncover(root, step.place())?;
        let own = PrivateDevices { devices: &sources.devices, certificates: confinement.certificates.as_ref() };
        take(step, source.as_ref(), &own, root, &mut copies)?;
    }
    for step in view.steps.iter().filter(|step| matches!(step, Step::Frame(_) | Step::Shelf(_))) {
        read_only(CWD, &inside(root, step.place()), 0).map_err(at(step.place(), "protect"))?;
    }
    // What a mount shows is the caller's, and gets no directories.
    if !confinement.filesystem.as_ref().is_some_and(|rules| rules.covers(&confinement.cwd)) {
        make_directory(&inside(root, &confinement.cwd));
    }
    if view.only.is_some() {
        read_only(CWD, root, 0).map_err(at(root, "protect"))?;
        change_root(root)?;
    }
    resolver.iter().try_for_each(name_resolver)?;
    if confinement.certificates.is_some() {
        certificates::covers().iter().try_for_each(|(place, file)| cover(place, file))?;
    }
    copies.finish()
}

/// Copies of what is mounted below a directory, each with everything that is mounted in it.
fn mounts_below(path: &Path) -> io::Result<Vec<(PathBuf, OwnedFd)>> {
    let mut places: Vec<PathBuf> = mount_table::of_this_process()?
        .iter()
        .filter(|mount| mount.place != path && mount.place.starts_with(path) && is_visible(mount))
        .map(|mount| mount.place.clone())
        .collect();
    places.sort();
    places.dedup_by(|inner, outer| inner.starts_with(outer));
    let copied = places.into_iter().map(|place| Ok((place.clone(), clone_tree(&place).map_err(at(&place, "copy"))?)));
    copied.collect()
}

/// Whether the path of a mount leads to it.
pub(crate) fn is_visible(mount: &Mounted) -> bool {
    open_path(&mount.place).and_then(|opened| Found::of(&opened)).is_ok_and(|found| found.mount == mount.id)
}

/// Covers `/etc/resolv.conf`, which may be a link. Where there is no such file, programs look for a resolver at the same address.
fn name_resolver(file: &OwnedFd) -> io::Result<()> {
    let named = Path::new("/etc/resolv.conf");
    match named.canonicalize() {
        Ok(place) if place.is_file() => attach(file, &place).map_err(at(named, "cover")),
        _ => Ok(()),
    }
}

/// Covers a file by another one of the view.
fn cover(place: &Path, file: &Path) -> io::Result<()> {
    let file = clone_tree(file)?;
    read_only_tree(&file)?;
    attach(&file, place).map_err(at(place, "cover"))
}

/// Detaches the workspace where a mount is about to cover it: nothing could reach it there, to replace it by another one.
fn uncover(place: &Path, device: Device) -> io::Result<()> {
    let is_there = || open_path(place).and_then(|opened| Found::of(&opened)).is_ok_and(|found| found.device == device);
    while is_there() {
        umount2(place, MntFlags::MNT_DETACH | MntFlags::UMOUNT_NOFOLLOW)?;
    }
    Ok(())
}

/// What the private `/dev` has.
struct PrivateDevices<'a> {
    devices: &'a [(&'static str, OwnedFd)],
    certificates: Option<&'a Certificates>,
}

fn take(
    step: &Step,
    source: Option<&Source>,
    own: &PrivateDevices<'_>,
    root: &Path,
    copies: &mut Copies,
) -> io::Result<()> {
    let inside = |path: &Path| inside(root, path);
    let tree = source.and_then(|source| if let Source::Tree(tree) = source { Some(tree) } else { None });
    match step {
        Step::Scratch(path) => {
            make_directory(&inside(path));
            tmpfs(&inside(path), "mode=1777").map_err(at(path, "mount a private"))
        }
        Step::Shelf(path) => {
            make_directory(&inside(path));
            tmpfs(&inside(path), "mode=755").map_err(at(path, "mount a private"))
        }
        Step::Bind(path, access) => bind(tree, &inside(path), *access).map_err(at(path, "mount")),
        Step::Show(_, place, access) => bind(tree, &inside(place), *access).map_err(at(place, "mount")),
        Step::Frame(path) => {
            make_directory(&inside(path));
            frame(&inside(path)).map_err(at(path, "mount a private"))
        }
        Step::Keep(path) => source.map_or(Ok(()), |source| bind_into_root(root, path, source)),
        Step::Devices => make_devices(root, own).map_err(at(Path::new("/dev"), "make")),
        Step::Processes => {
            let target = inside(Path::new("/proc"));
            make_directory(&target);
            let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC | MsFlags::MS_RDONLY;
            mount(Some("proc"), &target, Some("proc"), flags, None::<&str>)
                .map_err(io::Error::from)
                .map_err(at(Path::new("/proc"), "mount"))
        }
        Step::Hide(_, path) => hide(&inside(path), tree).map_err(at(path, "hide")),
        Step::Copy(real, path) => {
            bind(tree, &inside(path), Access::Read).map_err(at(path, "mount"))?;
            let private = inside(Path::new(PRIVATE_TMP));
            let copy = copies.make(real, &inside(path), &private).map_err(at(path, "copy"))?;
            match copy.map_or(Ok(()), |copy| attach(&copy, &inside(path))) {
                // Without a kernel that mounts links, it stays read-only.
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(()),
                attached => attached.map_err(at(path, "mount a copy of")),
            }
        }
    }
}

fn bind(tree: Option<&OwnedFd>, target: &Path, access: Access) -> io::Result<()> {
    let Some(tree) = tree else { return Ok(()) };
    if access == Access::Read {
        read_only_tree(tree)?;
    }
    make_target(target, tree);
    attach(tree, target)
}

fn bind_into_root(root: &Path, path: &Path, source: &Source) -> io::Result<()> {
    let target = inside(root, path);
    match source {
        Source::Link(link) => {
            make_directory(target.parent().unwrap_or(root));
            // A link that already exists came with a tree.
            let _ = symlink(link, &target);
            Ok(())
        }
        Source::Tree(tree) => bind(Some(tree), &target, Access::Read).map_err(at(path, "mount")),
    }
}

/// The path of a view's file while the view is being assembled.
pub(crate) fn inside(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

fn tmpfs(path: &Path, options: &str) -> io::Result<()> {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    Ok(mount(Some("tmpfs"), path, Some("tmpfs"), flags, Some(options))?)
}

/// Covers a directory by an empty one, which does not open what is kept in it to other users. In a user namespace, the owner
/// may have no number. Then there is only one user, who could open everything before.
fn frame(path: &Path) -> io::Result<()> {
    let found = path.metadata()?;
    let permissions = format!("mode={:o},uid={},gid={}", found.mode() & 0o777, found.uid(), found.gid());
    match tmpfs(path, &permissions) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => tmpfs(path, "mode=755"),
        outcome => outcome,
    }
}

/// Creates a mount point, which does not exist yet in a private directory. Elsewhere this has no effect, since
/// everything is read-only.
fn make_directory(path: &Path) {
    let _ = DirBuilder::new().recursive(true).mode(0o755).create(path);
}

/// Creates a mount point for a tree, a file or a directory. Its path may already be covered.
fn make_target(target: &Path, tree: &OwnedFd) {
    if nix::sys::stat::fstat(tree).is_ok_and(|status| status.st_mode & libc::S_IFMT == libc::S_IFDIR) {
        return make_directory(target);
    }
    target.parent().into_iter().for_each(make_directory);
    let _ = File::options().write(true).create_new(true).open(target);
}

/// Creates a `/dev` with the devices that every program may use, and its own terminals.
fn make_devices(root: &Path, PrivateDevices { devices, certificates }: &PrivateDevices<'_>) -> io::Result<()> {
    let target = &inside(root, Path::new("/dev"));
    make_directory(target);
    mount(Some("tmpfs"), target, Some("tmpfs"), MsFlags::MS_NOSUID, Some("mode=755"))?;
    for (name, tree) in *devices {
        File::create_new(target.join(name))?;
        attach(tree, &target.join(name))?;
    }
    for (name, link) in
        [("ptmx", "pts/ptmx"), ("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")]
    {
        symlink(link, target.join(name))?;
    }
    let terminals = target.join("pts");
    make_directory(&terminals);
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC;
    mount(Some("devpts"), &terminals, Some("devpts"), flags, Some("newinstance,ptmxmode=0666,mode=620"))?;
    let shared = target.join(SHARED_MEMORY.trim_start_matches("/dev/"));
    make_directory(&shared);
    tmpfs(&shared, "mode=1777")?;
    if let Some(certificates) = certificates {
        certificates::write(certificates, &inside(root, &certificates.place))?;
    }
    read_only(CWD, target, 0)
}

/// Covers an existing file. A file that has appeared since the sources were opened cannot be covered: an error.
pub fn hide(path: &Path, empty: Option<&OwnedFd>) -> io::Result<()> {
    let Ok(target) = path.symlink_metadata() else { return Ok(()) };
    if target.is_dir() {
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_RDONLY;
        return Ok(mount(Some("tmpfs"), path, Some("tmpfs"), flags, Some("mode=555,size=4k"))?);
    }
    let empty = empty.ok_or_else(|| io::Error::from_raw_os_error(libc::ESTALE))?;
    attach(empty, path)
}

/// Covers a directory by one with what it has now, without these entries. Nothing appears in it later.
///
/// # Errors
/// Those of the system calls.
pub fn leave_out(directory: &Path, entries: &[&Path]) -> io::Result<()> {
    let mut kept = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if !entries.contains(&path.as_path()) {
            match Source::of(&path) {
                Ok(source) => kept.push((path, source)),
                // It has been deleted meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
    }
    frame(directory)?;
    kept.iter().try_for_each(|(path, source)| bind_into_root(Path::new("/"), path, source))?;
    read_only(CWD, directory, 0)
}

/// Makes the stage the root and detaches the old root, which is then out of reach.
fn change_root(root: &Path) -> io::Result<()> {
    std::env::set_current_dir(root)?;
    nix::unistd::pivot_root(".", ".")?;
    umount2(".", MntFlags::MNT_DETACH)?;
    std::env::set_current_dir("/")
}
