//! What the guest may see of the machine: a view of isolation, and in it one directory for each share.
//!
//! Everything is decided here, on the machine: root of the guest can undo what the guest does.

use crate::settings::{Place, Settings};
use nacre_isolation::mounts;
use nacre_isolation::view::DEVICES;
use nacre_protocol::confinement::{Confinement, Filesystem, Namespaces, ProjectFiles};
use nix::mount::{MsFlags, mount};
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Where the shares are. The virtual machine and the file servers have a `/dev` of their own.
const STAGE: &str = "/dev";
/// The machine's root directory, without the directories that the guest has itself.
pub const ROOT: &str = "/dev/root";
/// The places that are no part of it, by their numbers.
pub const PLACES: &str = "/dev/places";
/// The device of the hardware's virtualization.
pub const KVM: &str = "/dev/kvm";

/// The guest has its own. It would show processes and devices of the machine, and the sockets of its services.
const OWN: [&str; 5] = ["/dev", "/proc", "/run", "/sys", "/tmp"];

/// Makes the view, in namespaces of this process.
///
/// # Errors
/// The step that has failed.
pub fn make(settings: &Settings, kinds: Namespaces) -> io::Result<()> {
    let devices: Vec<(&str, OwnedFd)> = DEVICES
        .into_iter()
        .chain(["kvm"])
        .filter_map(|name| Some((name, mounts::clone_tree(&Path::new("/dev").join(name)).ok()?)))
        .collect();
    mounts::apply(&confinement(settings, kinds), None)?;
    let root = mounts::clone_tree(Path::new("/"))?;
    let places: Vec<_> = settings.places.iter().map(clone).collect::<io::Result<_>>()?;
    tmpfs(STAGE, MsFlags::MS_NOSUID)?;
    fs::create_dir(ROOT)?;
    mounts::attach(&root, Path::new(ROOT))?;
    for own in OWN {
        mounts::hide(&Path::new(ROOT).join(&own[1..]), None)?;
    }
    fs::create_dir(PLACES)?;
    for (number, (tree, is_directory)) in places.iter().enumerate() {
        let target = Path::new(PLACES).join(number.to_string());
        let made = if *is_directory { fs::create_dir(&target) } else { File::create_new(&target).map(drop) };
        made.and_then(|()| mounts::attach(tree, &target))?;
    }
    for (name, tree) in &devices {
        let target = Path::new(STAGE).join(name);
        File::create_new(&target)?;
        mounts::attach(tree, &target)?;
    }
    // The shares are file systems of their own, so those that can be written stay so.
    let flags = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY | MsFlags::MS_NOSUID;
    Ok(mount(None::<&str>, STAGE, None::<&str>, flags, None::<&str>)?)
}

fn tmpfs(place: &str, flags: MsFlags) -> io::Result<()> {
    Ok(mount(Some("tmpfs"), place, Some("tmpfs"), flags, Some("mode=755,size=64k"))?)
}

/// The mounts of a place with what protects its parts, and whether it is a directory.
fn clone(place: &Place) -> io::Result<(OwnedFd, bool)> {
    let tree = mounts::clone_tree(&place.path)?;
    if place.read_only {
        mounts::read_only_tree(&tree)?;
    }
    Ok((tree, place.path.is_dir()))
}

fn confinement(settings: &Settings, kinds: Namespaces) -> Confinement {
    let paths = |read_only: bool| {
        let places = settings.places.iter().filter(move |place| place.read_only == read_only);
        places.map(|place| place.path.clone()).collect::<Vec<PathBuf>>()
    };
    let rules = Filesystem {
        write: paths(false),
        // Those in a directory that can be written.
        protect: paths(true),
        hide: settings.hide.clone(),
        project: ProjectFiles { shown: paths(true), ..Default::default() },
        ..Default::default()
    };
    let cwd = settings.places.first().map_or_else(|| "/".into(), |place| place.path.clone());
    Confinement { filesystem: Some(rules), ..Confinement::open(kinds, cwd, "/bin/sh".into()) }
}
