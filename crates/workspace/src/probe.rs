//! What this machine offers to workspaces, found by trying.

use crate::failure::{Failure, while_doing};
use crate::layers;
use crate::opening;
use crate::store::{Store, Stores};
use crate::tree::{file_type, names, status};
use nacre_containment::file_tree::remove_forced;
use nacre_protocol::workspace::{Offer, Storage};
use rustix::fs::{FileType, Mode, OFlags, RawMode, mkdirat, openat, renameat};
use rustix::io::Result;
use rustix::process::geteuid;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What the names of its directories begin with.
const PREFIX: &str = "nacre-probe-";
/// How old a directory can be whose probe still runs.
const MAX_AGE: Duration = Duration::from_secs(600);

/// Tries everything in a new directory below `directory`. Call it in a process of its own: it changes its namespaces.
pub fn probe(directory: &Path) -> Offer {
    match attempt(directory) {
        Ok((directory_rename, reflink)) => Offer { copy_on_write: Ok(()), directory_rename, reflink },
        Err(reason) => Offer { copy_on_write: Err(reason), directory_rename: false, reflink: false },
    }
}

fn attempt(directory: &Path) -> std::result::Result<(bool, bool), String> {
    let place = ProbeDirectory::create(directory)?;
    let found = try_out(&place).map_err(|failure| match failure {
        Failure::System(errno, doing) => format!("cannot {doing}: {errno}"),
        Failure::Unsupported(reason) | Failure::TooLarge(reason) | Failure::InUse(reason) | Failure::Lost(reason) => {
            reason
        }
        Failure::Missing
        | Failure::NoChange(_)
        | Failure::NoHunk(..)
        | Failure::Rejected(_)
        | Failure::Differs { .. } => "it is missing".into(),
    });
    place.remove();
    found
}

fn try_out(place: &ProbeDirectory) -> std::result::Result<(bool, bool), Failure> {
    let mounter = opening::enter_namespaces()?;
    let real = opening::open_real(&place.path.join("real"))?;
    let store = Store::create(&Stores { path: &place.path, are_temporary: false }, b"store", Storage::Disk)?;
    let layer = store.layers().create(&real).map_err(while_doing("create a layer"))?;
    let mount = layers::mount(store.layers().place(), &[layer], &real, mounter).map_err(opening::cannot_mount)?;
    let renames = renameat(mount.root(), "directory", mount.root(), "renamed").is_ok();
    Ok((renames, clones(store.directory()).unwrap_or(false)))
}

/// Whether a file can share the content of another one.
fn clones(directory: &OwnedFd) -> Result<bool> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
    let create = |name: &str| openat(directory, name, flags, Mode::RUSR | Mode::WUSR);
    let (from, to) = (create("from")?, create("to")?);
    rustix::io::write(&from, b"content")?;
    Ok(rustix::fs::ioctl_ficlone(&to, &from).is_ok())
}

/// A directory that is removed at the end.
struct ProbeDirectory {
    parent: OwnedFd,
    name: String,
    path: std::path::PathBuf,
}

impl ProbeDirectory {
    fn create(directory: &Path) -> std::result::Result<Self, String> {
        const PRIVATE: RawMode = 0o700;
        // A process that was killed has left its directory behind, and another one may get its number.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let name = format!("{PREFIX}{}-{}", std::process::id(), now.as_nanos());
        let made = (|| {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let parent = rustix::fs::open(directory, flags, Mode::empty())?;
            let _ = sweep(&parent, now);
            for below in [name.clone(), format!("{name}/real"), format!("{name}/real/directory")] {
                mkdirat(&parent, below, Mode::from_raw_mode(PRIVATE))?;
            }
            Ok::<_, rustix::io::Errno>(parent)
        })();
        let parent = made.map_err(|errno| format!("cannot create a directory in {}: {errno}", directory.display()))?;
        Ok(Self { parent, path: directory.join(&name), name })
    }

    fn remove(&self) {
        let _ = remove_forced(&self.parent, self.name.as_bytes());
    }
}

/// Removes what probes that were killed have left behind.
fn sweep(parent: &OwnedFd, now: Duration) -> Result<()> {
    for name in names(parent)?.iter().filter(|name| name.starts_with(PREFIX.as_bytes())) {
        let Some(found) = status(Some(parent), name)? else { continue };
        let is_own = found.st_uid == geteuid().as_raw() && file_type(&found) == FileType::Directory;
        let age = now.as_secs().saturating_sub(u64::try_from(found.st_mtime).unwrap_or(0));
        if is_own && age > MAX_AGE.as_secs() {
            remove_forced(parent, name)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_is_missing_is_the_reason() {
        let directory = tempfile::tempdir().unwrap();
        let offer = probe(&directory.path().join("missing"));
        assert!(offer.copy_on_write.unwrap_err().starts_with("cannot create a directory in"));
    }

    #[test]
    fn what_a_killed_probe_has_left_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        for name in ["nacre-probe-1", "nacre-probe-2", "other"] {
            std::fs::create_dir_all(at(name).join("store/layer-1/upper")).unwrap();
        }
        for name in ["nacre-probe-1", "other"] {
            std::fs::File::open(at(name)).unwrap().set_modified(UNIX_EPOCH).unwrap();
        }
        let place = ProbeDirectory::create(directory.path()).unwrap();
        assert!(place.path.join("real/directory").exists() && at("nacre-probe-2").exists() && at("other").exists());
        assert!(!at("nacre-probe-1").exists());
        place.remove();
        assert!(!place.path.exists());
    }
}
