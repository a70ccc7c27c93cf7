//! The keeper of a workspace: it mounts the layers in its own namespace, hands out copies of the mount, and compares.
//!
//! It is a process of its own, because the real directory may not respond, and may belong to a program that wants to
//! harm the host.

use crate::overlay::{self, Layers, Mounter};
use crate::selection::Selection;
use crate::store::Store;
use crate::tree::Tree;
use crate::{changes::Sides, opening};
use nacre_protocol::message;
use nacre_protocol::workspace::{Reply, Request};
use rustix::fs::{MemfdFlags, Mode, OFlags, SeekFrom, memfd_create, openat, seek};
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// Why a request cannot be answered.
#[derive(Debug)]
pub enum Failure {
    /// One clause: why this machine cannot do it, and what helps.
    Unsupported(String),
    /// A system call failed while doing this.
    System(Errno, String),
}

impl From<Failure> for Reply {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Unsupported(reason) => Self::Unsupported(reason),
            Failure::System(errno, doing) => Self::Failed { errno: errno.raw_os_error(), doing },
        }
    }
}

/// Adds what failed to the error of a system call.
pub fn while_doing(doing: impl Into<String>) -> impl FnOnce(Errno) -> Failure {
    move |errno| Failure::System(errno, doing.into())
}

/// The keeper, before and after the workspace is open.
#[derive(Default)]
pub struct Keeper(Option<Open>);

/// An open workspace.
struct Open {
    mounter: Mounter,
    base: Tree,
    merged: OwnedFd,
    store: Store,
    opened: (i64, i64),
}

impl Keeper {
    /// Answers a request.
    pub fn answer(&mut self, request: Request) -> (Reply, Option<OwnedFd>) {
        let answer = match (request, &self.0) {
            (Request::Open { path, store }, None) => open(path, store).map(|open| {
                self.0 = Some(open);
                (Reply::Done, None)
            }),
            (request, Some(open)) => open.answer(request),
            (_, None) => Err(Failure::System(Errno::BADFD, "use a workspace that is not open".into())),
        };
        answer.unwrap_or_else(|failure| (failure.into(), None))
    }

    /// Removes the layers. Every program that uses them has ended, or is about to.
    pub fn close(self) {
        if let Some(Open { store, .. }) = self.0 {
            store.remove();
        }
    }
}

fn open(path: Vec<u8>, store: Vec<u8>) -> Result<Open, Failure> {
    let as_path = |bytes: Vec<u8>| PathBuf::from(OsString::from_vec(bytes));
    let (path, store): (PathBuf, PathBuf) = (as_path(path), as_path(store));
    let mounter = opening::enter_namespaces()?;
    opening::refuse_mounts_below(&path)?;
    let real = opening::open_real(&path)?;
    let store = Store::create(&store, &real.base)?;
    let opened = opening::moment(&real.base, store.directory())?;
    let (upper, work) = store.live();
    let stack = Layers { base: real.base.as_fd(), sealed: Vec::new(), upper: upper.as_fd(), work: work.as_fd() };
    let merged = match overlay::attach(&real.parent, &real.name, &stack, mounter) {
        Ok(merged) => merged,
        Err(errno) => {
            store.remove();
            return Err(opening::cannot_mount(errno));
        }
    };
    Ok(Open { mounter, base: Tree::new(real.base), merged, store, opened })
}

impl Open {
    fn answer(&self, request: Request) -> Result<(Reply, Option<OwnedFd>), Failure> {
        match request {
            Request::Open { .. } => Err(Failure::System(Errno::ALREADY, "open an open workspace".into())),
            Request::Share => {
                let copy = overlay::copy(&self.merged).map_err(while_doing("copy the mount of the workspace"))?;
                Ok((Reply::Done, Some(copy)))
            }
            Request::Changes { paths } => Ok((Reply::Done, Some(self.changes(paths)?))),
            Request::Usage => {
                let (bytes, files) = self.store.usage().map_err(while_doing("measure the layers"))?;
                Ok((Reply::Used { bytes, files, layers: 1 }, None))
            }
        }
    }

    fn changes(&self, paths: Option<Vec<Vec<u8>>>) -> Result<OwnedFd, Failure> {
        let doing = "compare the workspace with the real directory";
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let merged = openat(&self.merged, ".", flags, Mode::empty()).map_err(while_doing(doing))?;
        let sides = Sides {
            merged: &Tree::new(merged),
            base: &self.base,
            layers: &[self.store.tree().map_err(while_doing(doing))?],
            marks: self.mounter.marks(),
            opened: self.opened,
        };
        let selection = paths.map_or_else(Selection::all, Selection::of);
        let changes = sides.changes(&selection).map_err(while_doing(doing))?;
        list(&changes).map_err(|error| {
            let errno = error.raw_os_error().map_or(Errno::NOMEM, Errno::from_raw_os_error);
            Failure::System(errno, "list the changes".into())
        })
    }
}

/// A file in memory with a list.
fn list<T: serde::Serialize>(entries: &[T]) -> std::io::Result<OwnedFd> {
    let mut file = File::from(memfd_create("nacre-changes", MemfdFlags::CLOEXEC)?);
    file.write_all(&message::encode(&entries)?)?;
    seek(&file, SeekFrom::Start(0))?;
    Ok(file.into())
}
