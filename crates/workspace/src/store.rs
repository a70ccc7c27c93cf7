//! The layers of a workspace on disk.

use crate::failure::{Failure, while_doing};
use crate::tree::{Tree, names, status};
use crate::{journal, sweep};
use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Uid, chmodat, chownat, fstat, fstatfs, mkdirat, openat};
use rustix::io::{Errno, Result};
use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// File systems that cannot hold the layer with the writes, or not reliably: their numbers in statfs(2).
const UNFIT: [(i64, &str); 4] = [(0x794c_7630, "overlayfs"), (0x6969, "NFS"), (0x6573_5546, "FUSE"), (0x4d44, "vfat")];

/// See the module.
pub struct Store {
    parent: OwnedFd,
    parent_path: PathBuf,
    name: Vec<u8>,
    directory: OwnedFd,
    upper: OwnedFd,
    work: OwnedFd,
    /// Says to other processes that the store is in use.
    _lock: OwnedFd,
}

impl Store {
    /// Creates the store of a workspace over `base`. Its parent directory exists.
    ///
    /// # Errors
    /// [`Failure::Unsupported`] if its file system cannot hold layers.
    pub fn create(path: &Path, base: &OwnedFd) -> std::result::Result<Self, Failure> {
        let doing = || format!("create the layers of the workspace in {}", path.display());
        let made = (|| {
            let parent_path = path.parent().ok_or(Errno::INVAL)?.to_path_buf();
            let parent = open_directory(None, parent_path.as_os_str().as_bytes())?;
            let name = path.file_name().ok_or(Errno::INVAL)?.as_bytes().to_vec();
            // What cannot be completed now is left to the next workspace.
            let abandoned = sweep::complete(&parent).unwrap_or_default();
            if !abandoned.is_empty() {
                let parent = parent.try_clone().map_err(|_| Errno::MFILE)?;
                let removal = move || sweep::remove_all(&parent, abandoned);
                let _ = std::thread::Builder::new().name("sweep".into()).spawn(removal);
            }
            let creating = sweep::lock_parent(&parent)?;
            mkdirat(&parent, &name[..], Mode::RWXU)?;
            let directory = open_directory(Some(&parent), &name)?;
            let lock = sweep::lock_new(&directory)?;
            drop(creating);
            for name in ["upper", "work"] {
                mkdirat(&directory, name, Mode::RWXU)?;
            }
            // The root of the mount has the mode and owner of the upper layer.
            let real = fstat(base)?;
            let (owner, group) = (Some(Uid::from_raw(real.st_uid)), Some(Gid::from_raw(real.st_gid)));
            match chownat(&directory, "upper", owner, group, AtFlags::SYMLINK_NOFOLLOW) {
                // Only root can give a file away.
                Err(Errno::PERM | Errno::INVAL) => {}
                given => given?,
            }
            chmodat(&directory, "upper", Mode::from_raw_mode(real.st_mode & 0o7777), AtFlags::empty())?;
            let upper = open_directory(Some(&directory), b"upper")?;
            let work = open_directory(Some(&directory), b"work")?;
            Ok(Self { parent, parent_path, name, directory, upper, work, _lock: lock })
        })();
        let store = made.map_err(while_doing(doing()))?;
        let kind = fstatfs(&store.directory).map_err(while_doing(doing()))?.f_type as i64;
        if let Some((_, name)) = UNFIT.iter().find(|(number, _)| *number == kind) {
            store.remove();
            let place = path.parent().unwrap_or(path).display();
            return Err(Failure::Unsupported(format!(
                "its layers would be on {name} ({place}), which cannot hold them: name a directory on a disk of the machine, like a volume"
            )));
        }
        Ok(store)
    }

    /// Its directory.
    pub fn directory(&self) -> &OwnedFd {
        &self.directory
    }

    /// The layer that receives the writes, and the kernel's directory for it.
    pub fn live(&self) -> (&OwnedFd, &OwnedFd) {
        (&self.upper, &self.work)
    }

    /// The layer as a tree.
    pub fn tree(&self) -> Result<Tree> {
        Ok(Tree::new(open_directory(Some(&self.directory), b"upper")?))
    }

    /// The allocated bytes and the number of entries. A file with several names counts once.
    pub fn usage(&self) -> Result<(u64, u64)> {
        let tree = self.tree()?;
        let (mut bytes, mut files) = (0, 0);
        let mut linked = HashSet::new();
        let mut pending = vec![Vec::new()];
        while let Some(path) = pending.pop() {
            let Some(directory) = tree.directory(&path)? else { continue };
            for name in names(&directory)? {
                let Some(found) = status(Some(&directory), &name)? else { continue };
                files += 1;
                if found.st_nlink == 1 || linked.insert(found.st_ino) {
                    bytes += found.st_blocks as u64 * 512;
                }
                if FileType::from_raw_mode(found.st_mode) == FileType::Directory {
                    let below = if path.is_empty() { name } else { [&path[..], b"/", &name].concat() };
                    pending.push(below);
                }
            }
        }
        Ok((bytes, files))
    }

    /// Its name, which no other store has.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Removes everything, unless a commit has not ended, and the directory of all workspaces after the last one. What cannot
    /// be removed is left to the next workspace.
    pub fn remove(&self) {
        if matches!(journal::exists(&self.directory), Ok(false)) {
            let _ = sweep::remove(&self.parent, &self.name, &self.directory);
            let _ = std::fs::remove_dir(&self.parent_path);
        }
    }
}

fn open_directory(parent: Option<&OwnedFd>, path: &[u8]) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match parent {
        Some(parent) => openat(parent, path, flags, Mode::empty()),
        None => rustix::fs::open(path, flags, Mode::empty()),
    }
}
