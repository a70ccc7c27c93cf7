//! The keeper of a workspace: it mounts the layers in its own namespace, hands out copies of the mount, and compares.
//!
//! It is a process of its own, because the real directory may not respond, and may belong to a program that wants to
//! harm the host.

use crate::overlay::{self, Layers, Mounter};
use crate::selection::Selection;
use crate::store::Store;
use crate::tree::Tree;
use crate::{changes::Sides, diff, opening};
use nacre_protocol::message;
use nacre_protocol::workspace::{Change, Reply, Request};
use rustix::fs::{MemfdFlags, Mode, OFlags, SeekFrom, memfd_create, openat, seek};
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// What a comparison does when it fails.
const COMPARE: &str = "compare the workspace with the real directory";

/// Why a request cannot be answered.
#[derive(Debug)]
pub enum Failure {
    /// One clause: why this machine cannot do it, and what helps.
    Unsupported(String),
    /// One clause: which limit a patch exceeds.
    TooLarge(String),
    /// A system call failed while doing this.
    System(Errno, String),
}

impl From<Failure> for Reply {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Unsupported(reason) => Self::Unsupported(reason),
            Failure::TooLarge(limit) => Self::TooLarge(limit),
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
            Request::Diff { paths, max_bytes } => Ok((Reply::Done, Some(self.diff(paths, max_bytes)?))),
            Request::Usage => {
                let (bytes, files) = self.store.usage().map_err(while_doing("measure the layers"))?;
                Ok((Reply::Used { bytes, files, layers: 1 }, None))
            }
        }
    }

    fn changes(&self, paths: Option<Vec<Vec<u8>>>) -> Result<OwnedFd, Failure> {
        let changes = self.compare(&self.merged()?, paths)?;
        list(&changes).map_err(|error| {
            let errno = error.raw_os_error().map_or(Errno::NOMEM, Errno::from_raw_os_error);
            Failure::System(errno, "list the changes".into())
        })
    }

    /// A patch can be large, so it is on disk.
    fn diff(&self, paths: Option<Vec<Vec<u8>>>, max_bytes: u64) -> Result<OwnedFd, Failure> {
        let merged = self.merged()?;
        let changes = self.compare(&merged, paths)?;
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let file = openat(self.store.directory(), ".", flags, Mode::RUSR | Mode::WUSR);
        let mut file = File::from(file.map_err(while_doing("create a file for the patch"))?);
        diff::write(&merged, &self.base, &changes, max_bytes, BufWriter::new(&mut file))?;
        seek(&file, SeekFrom::Start(0)).map_err(while_doing("write the patch"))?;
        Ok(file.into())
    }

    /// What programs see.
    fn merged(&self) -> Result<Tree, Failure> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        openat(&self.merged, ".", flags, Mode::empty()).map(Tree::new).map_err(while_doing(COMPARE))
    }

    fn compare(&self, merged: &Tree, paths: Option<Vec<Vec<u8>>>) -> Result<Vec<Change>, Failure> {
        let sides = Sides {
            merged,
            base: &self.base,
            layers: &[self.store.tree().map_err(while_doing(COMPARE))?],
            marks: self.mounter.marks(),
            opened: self.opened,
        };
        let selection = paths.map_or_else(Selection::all, Selection::of);
        sides.changes(&selection).map_err(while_doing(COMPARE))
    }
}

/// A file in memory with a list.
fn list<T: serde::Serialize>(entries: &[T]) -> std::io::Result<OwnedFd> {
    let mut file = File::from(memfd_create("nacre-changes", MemfdFlags::CLOEXEC)?);
    file.write_all(&message::encode(&entries)?)?;
    seek(&file, SeekFrom::Start(0))?;
    Ok(file.into())
}
