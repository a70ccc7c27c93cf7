//! What the guest may see of the machine: a view of isolation, and in it one directory for each share.
//!
//! Everything is decided here, on the machine: root of the guest can undo what the guest does.

use crate::settings::{Place, Settings};
use nacre_isolation::mounts;
use nacre_isolation::view::DEVICES;
use nacre_protocol::confinement::{Confinement, Filesystem, Namespaces, ProjectFiles};
use nix::mount::{MsFlags, mount};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
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
    let nothing = None::<&str>;
    mount(nothing, "/", nothing, MsFlags::MS_REC | MsFlags::MS_PRIVATE, nothing)?;
    let is_hidden = |place: &&Place| settings.hide.iter().any(|hidden| place.path.starts_with(hidden));
    let named = |place| Some(place).filter(is_hidden).map(clone).transpose();
    // The caller has named what is hidden otherwise.
    let named: Vec<_> = settings.places.iter().map(named).collect::<io::Result<_>>()?;
    mounts::apply(&confinement(settings, kinds), None)?;
    // Those that can be written come first: they get new files, and the view gets no more.
    let first = |place: &Place| (!place.read_only).then(|| clone(place));
    let mut places: Vec<_> =
        settings.places.iter().zip(named).map(|(place, named)| named.map(Ok).or_else(|| first(place))).collect();
    leave_out_secrets(settings)?;
    for (place, cloned) in settings.places.iter().zip(&mut places) {
        cloned.get_or_insert_with(|| clone(place));
    }
    let places: Vec<_> = places.into_iter().flatten().collect::<io::Result<_>>()?;
    let root = mounts::clone_tree(Path::new("/"))?;
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

/// A mount covers a file, not its name. So the directories of secrets show what else they have now: a secret that a program of the
/// machine replaces, or that is new, is in no view.
fn leave_out_secrets(settings: &Settings) -> io::Result<()> {
    let mut found: BTreeMap<&Path, Vec<&Path>> = BTreeMap::new();
    let written = |path: &Path| settings.places.iter().any(|place| !place.read_only && path.starts_with(&place.path));
    for secret in &settings.hide {
        let mut entry = secret.as_path();
        // The first that exists.
        while let Some(directory) =
            entry.parent().filter(|directory| *directory != Path::new("/") && !written(directory))
        {
            if directory.is_dir() {
                found.entry(directory).or_default().push(entry);
                break;
            }
            entry = directory;
        }
    }
    // Those above come before those below.
    for (directory, secrets) in found {
        match mounts::leave_out(directory, &secrets) {
            // It is hidden itself, or closed to the file server, too.
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied) => {}
            done => done.map_err(|error| io::Error::other(format!("{}: {error}", directory.display())))?,
        }
    }
    Ok(())
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
    let write = paths(false);
    // Everything else can only be read, and may have a directory in it that can be written.
    let protect = paths(true).into_iter().filter(|path| write.iter().any(|outer| path.starts_with(outer))).collect();
    let rules = Filesystem {
        write,
        protect,
        hide: settings.hide.clone(),
        project: ProjectFiles { shown: paths(true), ..Default::default() },
        ..Default::default()
    };
    let cwd = settings.places.first().map_or_else(|| "/".into(), |place| place.path.clone());
    Confinement { filesystem: Some(rules), ..Confinement::open(kinds, cwd, "/bin/sh".into()) }
}
