//! The layers of a workspace, and its directory on disk.

use crate::failure::{Failure, while_doing};
use crate::journal;
use crate::sweep::{self, Abandoned};
use crate::tree::{Tree, names, open_directory, status};
use crate::walk::Walk;
use rustix::fs::{AtFlags, FileType, Gid, Mode, Uid, chmodat, chownat, fstat, fstatfs, mkdir, mkdirat};
use rustix::io::{Errno, Result};
use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// File systems that cannot hold the layer with the writes, or not reliably: their numbers in statfs(2).
const UNFIT: [(i64, &str); 4] = [(0x794c_7630, "overlayfs"), (0x6969, "NFS"), (0x6573_5546, "FUSE"), (0x4d44, "vfat")];
/// Attempts to create a store before its parent directory is removed by another process.
const ATTEMPTS: u32 = 100;

/// The directory of the stores of all workspaces. It is created when the first one is.
pub struct Stores<'a> {
    /// Its path.
    pub path: &'a Path,
    /// Whether it is removed with the last store.
    pub are_temporary: bool,
}

impl Stores<'_> {
    /// Opens the directory, and creates it if it is missing.
    ///
    /// # Errors
    /// Those of the system calls.
    pub fn open(&self) -> Result<OwnedFd> {
        match mkdir(self.path, Mode::RWXU) {
            Err(Errno::EXIST) => {}
            made => made?,
        }
        open_directory(rustix::fs::CWD, self.path.as_os_str().as_bytes())
    }

    /// Completes the commits in `base` of keepers that died. In the background, completes those in other directories, which may
    /// not respond, and removes the layers. What fails now is left to the next workspace.
    ///
    /// # Errors
    /// Those of the system calls.
    pub fn sweep(&self, base: &OwnedFd) -> Result<()> {
        let directory = self.open()?;
        let abandoned = sweep::find(&directory).unwrap_or_default();
        sweep::complete(&abandoned, journal::identity(base)?);
        let directory = Arc::new(directory);
        let in_background = |stores: Vec<Abandoned>| {
            let parent = Arc::clone(&directory);
            let removal = move || sweep::remove_all(&parent, stores);
            let _ = std::thread::Builder::new().name("sweep".into()).spawn(removal);
        };
        let (interrupted, others): (Vec<_>, Vec<_>) = abandoned.into_iter().partition(Abandoned::is_interrupted);
        // None waits for the real directory of another one.
        interrupted.into_iter().for_each(|store| in_background(vec![store]));
        let others: Vec<_> = others.into_iter().filter(|store| !store.is_named()).collect();
        if !others.is_empty() {
            in_background(others);
        }
        Ok(())
    }
}

/// See the module.
pub struct Store {
    parent: OwnedFd,
    /// The path of the parent, if it is removed with the last store.
    temporary: Option<PathBuf>,
    name: Vec<u8>,
    directory: OwnedFd,
    /// Contains the layers: the directory of the store, or a file system in memory.
    place: OwnedFd,
    upper: OwnedFd,
    work: OwnedFd,
    /// Says to other processes that the store is in use.
    _lock: OwnedFd,
}

impl Store {
    /// Creates the store of a workspace over `base`. Its layers are in `memory`, if that is given.
    ///
    /// # Errors
    /// [`Failure::Unsupported`] if its file system cannot hold layers.
    pub fn create(
        stores: &Stores<'_>,
        name: &[u8],
        base: &OwnedFd,
        memory: Option<OwnedFd>,
    ) -> std::result::Result<Self, Failure> {
        let doing = || format!("create the layers of the workspace in {}", stores.path.display());
        let made = (|| {
            let (parent, directory, lock) = make(stores, name)?;
            let place = memory.map_or_else(|| directory.try_clone().map_err(|_| Errno::MFILE), Ok)?;
            for name in ["upper", "work"] {
                mkdirat(&place, name, Mode::RWXU)?;
            }
            // The root of the mount has the mode and owner of the upper layer.
            let real = fstat(base)?;
            let (owner, group) = (Some(Uid::from_raw(real.st_uid)), Some(Gid::from_raw(real.st_gid)));
            match chownat(&place, "upper", owner, group, AtFlags::SYMLINK_NOFOLLOW) {
                // Only root can give a file away.
                Err(Errno::PERM | Errno::INVAL) => {}
                given => given?,
            }
            chmodat(&place, "upper", Mode::from_raw_mode(real.st_mode & 0o7777), AtFlags::empty())?;
            Self::new(stores, parent, name.to_vec(), directory, place, lock)
        })();
        let store = made.map_err(while_doing(doing()))?;
        let kind = fstatfs(&store.place).map_err(while_doing(doing()))?.f_type as i64;
        if let Some((_, name)) = UNFIT.iter().find(|(number, _)| *number == kind) {
            store.remove();
            return Err(Failure::Unsupported(format!(
                "its layers would be on {name} ({}), which cannot hold them: name a directory on a disk of the machine, like a volume",
                stores.path.display()
            )));
        }
        Ok(store)
    }

    /// Opens the store in a directory that this process has locked.
    ///
    /// # Errors
    /// `ENOENT` if a layer is missing.
    pub fn open(
        stores: &Stores<'_>,
        parent: OwnedFd,
        name: Vec<u8>,
        directory: OwnedFd,
        lock: OwnedFd,
    ) -> Result<Self> {
        let place = directory.try_clone().map_err(|_| Errno::MFILE)?;
        Self::new(stores, parent, name, directory, place, lock)
    }

    fn new(
        stores: &Stores<'_>,
        parent: OwnedFd,
        name: Vec<u8>,
        directory: OwnedFd,
        place: OwnedFd,
        lock: OwnedFd,
    ) -> Result<Self> {
        let (upper, work) = (open_directory(&place, b"upper")?, open_directory(&place, b"work")?);
        let temporary = stores.are_temporary.then(|| stores.path.to_path_buf());
        Ok(Self { parent, temporary, name, directory, place, upper, work, _lock: lock })
    }

    /// Its directory on disk.
    pub fn directory(&self) -> &OwnedFd {
        &self.directory
    }

    /// The layer that receives the writes, and the kernel's directory for it.
    pub fn live(&self) -> (&OwnedFd, &OwnedFd) {
        (&self.upper, &self.work)
    }

    /// The layer as a tree.
    pub fn tree(&self) -> Result<Tree> {
        Ok(Tree::new(open_directory(&self.place, b"upper")?))
    }

    /// The allocated bytes and the number of entries. A file with several names counts once. `interrupt` fails once nobody waits
    /// for the result.
    pub fn usage(&self, interrupt: &dyn Fn() -> Result<()>) -> Result<(u64, u64)> {
        let tree = self.tree()?;
        let walk = Walk::new(&tree);
        let (mut bytes, mut files) = (0, 0);
        let mut linked = HashSet::new();
        let mut pending = vec![Vec::new()];
        while let Some(path) = pending.pop() {
            interrupt()?;
            let Some(directory) = walk.directory(&path)? else { continue };
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

    /// Gives it another name, which is free.
    ///
    /// # Errors
    /// Those of renameat(2).
    pub fn rename(&mut self, name: &[u8]) -> Result<()> {
        rustix::fs::renameat(&self.parent, &self.name[..], &self.parent, name)?;
        self.name = name.to_vec();
        // The disk has the name before programs write something that can be lost.
        rustix::fs::fsync(&self.parent)
    }

    /// Removes everything, unless a commit has not ended, and the directory of all workspaces after the last one. What cannot
    /// be removed is left to the next workspace.
    pub fn remove(&self) {
        if matches!(journal::exists(&self.directory), Ok(false)) {
            let _ = sweep::remove(&self.parent, &self.name, &self.directory);
            if let Some(path) = &self.temporary {
                let _ = std::fs::remove_dir(path);
            }
        }
    }
}

/// Creates the directory of a store, and locks it. Another process can remove the parent directory at any time, if it is
/// empty.
fn make(stores: &Stores<'_>, name: &[u8]) -> Result<(OwnedFd, OwnedFd, OwnedFd)> {
    let attempt = || {
        let parent = stores.open()?;
        let creating = sweep::lock_parent(&parent)?;
        mkdirat(&parent, name, Mode::RWXU)?;
        let directory = open_directory(&parent, name)?;
        let lock = sweep::lock(&directory)?;
        drop(creating);
        Ok((parent, directory, lock))
    };
    for _ in 1..ATTEMPTS {
        match attempt() {
            Err(Errno::NOENT) => {}
            made => return made,
        }
    }
    attempt()
}
