//! The directory of a workspace on disk.

use crate::failure::{Failure, while_doing};
use crate::journal;
use crate::layers::{self, Layers, Number};
use crate::overlay::{self, Mount};
use crate::sweep::{self, Abandoned};
use crate::tree::open_directory;
use nacre_containment::file_tree::unless;
use nacre_protocol::workspace::Storage;
use rustix::fs::{Mode, fstatfs, mkdir, mkdirat};
use rustix::io::{Errno, Result};
use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// File systems that cannot hold the layer with the writes, or not reliably: their numbers in statfs(2).
const UNFIT: [(i64, &str); 4] = [(0x794c_7630, "overlayfs"), (0x6969, "NFS"), (0x6573_5546, "FUSE"), (0x4d44, "vfat")];
/// The directory of a store over which a file system in memory is mounted.
const MEMORY: &str = "memory";
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
        unless(&[Errno::EXIST], mkdir(self.path, Mode::RWXU))?;
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
    /// A file system in memory with the layers, which are otherwise in the directory of the store.
    memory: Option<Mount>,
    layers: Layers,
    /// What a fork uses of other stores.
    shared: Option<Mount>,
    /// The names of these stores.
    origins: Vec<Vec<u8>>,
    /// Says to other processes that the store is in use.
    lock: Option<OwnedFd>,
}

impl Store {
    /// Creates the store of a workspace, without layers. These will be in memory if `storage` says so.
    ///
    /// # Errors
    /// [`Failure::Unsupported`] if its file system cannot hold layers.
    pub fn create(stores: &Stores<'_>, name: &[u8], storage: Storage) -> std::result::Result<Self, Failure> {
        let doing = || format!("create the layers of the workspace in {}", stores.path.display());
        let (parent, directory, lock) = make(stores, name).map_err(while_doing(doing()))?;
        let mut store = Self::open(stores, parent, name.to_vec(), directory, lock).map_err(while_doing(doing()))?;
        let prepared = (|| {
            if let Storage::Memory { max_bytes } = storage {
                mkdirat(&store.directory, MEMORY, Mode::RWXU)?;
                let memory = overlay::attach_memory(&store.directory, MEMORY.as_bytes(), max_bytes)?;
                store.layers = Layers::at(memory.root().try_clone().map_err(|_| Errno::MFILE)?)?;
                store.memory = Some(memory);
            }
            Ok::<_, Errno>(fstatfs(store.layers.place())?.f_type as i64)
        })();
        let kind = prepared.map_err(while_doing(doing())).inspect_err(|_| store.remove())?;
        if let Some((_, name)) = UNFIT.iter().find(|(number, _)| *number == kind) {
            store.remove();
            return Err(Failure::Unsupported(format!(
                "its layers would be on {name} ({}), which cannot hold them: name a directory on a disk of the machine, like a volume",
                stores.path.display()
            )));
        }
        Ok(store)
    }

    /// The store in a directory that this process has locked.
    ///
    /// # Errors
    /// Those of the system calls.
    pub fn open(
        stores: &Stores<'_>,
        parent: OwnedFd,
        name: Vec<u8>,
        directory: OwnedFd,
        lock: OwnedFd,
    ) -> Result<Self> {
        let temporary = stores.are_temporary.then(|| stores.path.to_path_buf());
        let layers = Layers::at(directory.try_clone().map_err(|_| Errno::MFILE)?)?;
        let (shared, origins, lock) = (None, Vec::new(), Some(lock));
        Ok(Self { parent, temporary, name, directory, memory: None, layers, shared, origins, lock })
    }

    /// Its directory on disk.
    pub fn directory(&self) -> &OwnedFd {
        &self.directory
    }

    /// Its name in the directory of all stores.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Uses layers of other stores, given by their names. `copy` has these layers, see [`crate::fork::Branch`].
    ///
    /// # Errors
    /// Those of the system calls: `EAGAIN` and `ENOENT` if a layer is being removed.
    pub fn share(&mut self, copy: &OwnedFd, layers: BTreeSet<Number>, origins: Vec<Vec<u8>>) -> Result<()> {
        mkdirat(self.layers.place(), layers::SHARED, Mode::RWXU)?;
        self.shared = Some(overlay::attach_copy(self.layers.place(), layers::SHARED, copy)?);
        self.origins = origins;
        self.layers.share(layers)
    }

    /// The names of the stores whose layers it uses.
    pub fn origins(&self) -> &[Vec<u8>] {
        &self.origins
    }

    /// Its layers.
    pub fn layers(&self) -> &Layers {
        &self.layers
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

    /// Removes everything that no fork uses, unless a commit has not ended, and the directory of all workspaces after the last
    /// one. What cannot be removed is left to the next workspace. Nothing of it may be mounted.
    pub fn remove(&mut self) {
        self.shared = None;
        if self.memory.take().is_some() && matches!(layers::are_shared(self.layers.place()), Ok(true)) {
            // The mounts of forks keep the whole file system.
            let _ = layers::remove_unused(self.layers.place());
        }
        if matches!(journal::exists(&self.directory), Ok(false))
            && let Some(lock) = self.lock.take()
        {
            let _ = sweep::remove(&self.parent, &self.name, &self.directory, lock);
        }
        if !self.origins.is_empty() {
            sweep::leave(&self.parent, std::mem::take(&mut self.origins), || self.layers.unshare());
        }
        if let Some(path) = &self.temporary {
            let _ = std::fs::remove_dir(path);
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
