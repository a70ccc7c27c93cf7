//! Forks: workspaces that begin with the layers of another one, and go on independently.
//!
//! The keeper of the parent mounts the layers in one directory in memory: [`Branch`]. Each fork attaches a copy of these
//! mounts in its own namespace and locks the layers, which stay until the last one that uses them ends: see
//! [`crate::sweep::remove`]. So neither the end nor the death of the parent matters to it.

use crate::failure::{Failure, while_doing};
use crate::history::{self, History};
use crate::journal;
use crate::known::Known;
use crate::layers::{self, Number};
use crate::overlay::{self, Mount, Mounter};
use crate::store::Store;
use crate::tree::{Tree, open_directory};
use nacre_containment::file_tree::unless;
use nacre_protocol::message;
use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, openat, unlinkat};
use rustix::io::{Errno, Result};
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::os::fd::OwnedFd;

/// The size of the directory in memory. Directories need none.
const BYTES: u64 = 1 << 20;

/// What a fork begins with, beside the layers.
#[derive(Serialize, Deserialize)]
pub struct ForkOrigin {
    /// The device and inode of the real directory.
    pub identity: (u64, u64),
    /// Who mounts.
    pub mounter: Mounter,
    /// The checkpoints, and the layers. All of them are sealed.
    pub history: History,
    /// See [`crate::changes::Sides::opened`].
    pub opened: (i64, i64),
    /// What commits have made.
    pub known: Known,
    /// The names of the stores that have the layers.
    pub stores: Vec<Vec<u8>>,
}

impl ForkOrigin {
    /// Reads what travels in a request.
    ///
    /// # Errors
    /// [`Failure::System`] if it is not for this directory and this keeper.
    pub fn read(bytes: &[u8], base: &OwnedFd, mounter: Mounter) -> std::result::Result<Self, Failure> {
        let origin: Self =
            message::decode(bytes).map_err(|_| Failure::System(Errno::BADMSG, "fork the workspace".into()))?;
        if origin.identity != journal::identity(base).map_err(while_doing("fork the workspace"))? {
            let doing = "fork the workspace: its directory was replaced by another one";
            return Err(Failure::System(Errno::STALE, doing.into()));
        }
        if origin.mounter != mounter {
            return Err(Failure::System(Errno::PERM, "mount the layers that another user has made".into()));
        }
        Ok(origin)
    }

    /// Uses the layers in a new store, below one that receives the writes.
    ///
    /// # Errors
    /// Those of the system calls.
    pub fn settle(&mut self, store: &mut Store, copy: &OwnedFd, base: &OwnedFd) -> Result<()> {
        store.share(copy, numbers(&self.history), std::mem::take(&mut self.stores))?;
        let base = Tree::new(open_directory(base, b".")?);
        self.history.stack = store.layers().above(std::mem::take(&mut self.history.stack), &base, &|| Ok(()))?;
        Ok(())
    }
}

fn numbers(history: &History) -> BTreeSet<Number> {
    history.stacks().flatten().copied().collect()
}

/// The mounts that forks copy. They are attached in the store while the forks are being opened.
pub struct Branch {
    mount: Option<Mount>,
    store: OwnedFd,
    name: Vec<u8>,
}

impl Branch {
    /// Mounts all layers and texts of a history.
    ///
    /// # Errors
    /// Those of the system calls.
    pub fn new(store: &Store, history: &History) -> Result<Self> {
        thread_local! {
            static LAST: Cell<u64> = const { Cell::new(0) };
        }
        let name = format!("fork-{}", LAST.replace(LAST.get() + 1)).into_bytes();
        let directory = open_directory(store.directory(), b".")?;
        // A keeper of a named workspace that was killed has left it.
        unless(&[Errno::EXIST], mkdirat(&directory, &name[..], Mode::RWXU))?;
        let mut branch = Self { mount: None, store: directory, name };
        let mount = branch.mount.insert(overlay::attach_memory(&branch.store, &branch.name, Some(BYTES))?);
        let place = store.layers().place();
        for layer in numbers(history) {
            let name = layers::name(layer);
            mkdirat(mount.root(), &name[..], Mode::RWXU)?;
            overlay::bind(&layers::directory(place, layer)?, &open_directory(mount.root(), &name)?)?;
        }
        for moment in &history.points {
            let number = moment.point.number;
            let flags = OFlags::RDONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            let target = openat(mount.root(), history::text_name(number), flags, Mode::RUSR | Mode::WUSR)?;
            overlay::bind(&history::read_text(place, number)?, &target)?;
        }
        Ok(branch)
    }

    /// A copy of the mounts, which is attached nowhere.
    ///
    /// # Errors
    /// Those of open_tree(2).
    pub fn copy(&self) -> Result<OwnedFd> {
        self.mount.as_ref().map_or(Err(Errno::INVAL), |mount| overlay::copy_all(mount.root()))
    }
}

impl Drop for Branch {
    fn drop(&mut self) {
        self.mount = None;
        let _ = unlinkat(&self.store, &self.name[..], AtFlags::REMOVEDIR);
    }
}
