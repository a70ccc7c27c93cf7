//! The keeper of a workspace: it mounts the layers in its own namespace, hands out copies of the mount, and compares.
//!
//! It is a process of its own, because the real directory may not respond, and may belong to a program that wants to
//! harm the host.

use crate::failure::{Failure, while_doing};
use crate::overlay::{self, Layers, Mounter};
use crate::selection::Selection;
use crate::store::Store;
use crate::tree::Tree;
use crate::{changes::Sides, commit, diff, discard, journal, known::Known, opening, staging};
use nacre_protocol::message;
use nacre_protocol::workspace::{Reply, Request, Skipped};
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

/// The keeper, before and after the workspace is open.
#[derive(Default)]
pub struct Keeper(Option<Open>);

/// An open workspace.
struct Open {
    mounter: Mounter,
    path: Vec<u8>,
    base: Tree,
    merged: OwnedFd,
    store: Store,
    opened: (i64, i64),
    known: Known,
}

impl Keeper {
    /// Answers a request.
    pub fn answer(&mut self, request: Request) -> (Reply, Option<OwnedFd>) {
        let answer = match (request, &mut self.0) {
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
        if let Some(Open { store, base, .. }) = self.0 {
            // A commit that could be neither applied nor undone is tried once more.
            let _ = journal::complete_if_any(store.directory(), &base);
            store.remove();
        }
    }
}

fn open(path: Vec<u8>, store: Vec<u8>) -> Result<Open, Failure> {
    let as_path = |bytes: Vec<u8>| PathBuf::from(OsString::from_vec(bytes));
    let (name, store) = (path.clone(), as_path(store));
    let path = as_path(path);
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
    Ok(Open { mounter, path: name, base: Tree::new(real.base), merged, store, opened, known: Known::default() })
}

impl Open {
    fn answer(&mut self, request: Request) -> Result<(Reply, Option<OwnedFd>), Failure> {
        match request {
            Request::Open { .. } => Err(Failure::System(Errno::ALREADY, "open an open workspace".into())),
            Request::Share => {
                let copy = overlay::copy(&self.merged).map_err(while_doing("copy the mount of the workspace"))?;
                Ok((Reply::Done, Some(copy)))
            }
            Request::Changes { paths } => Ok((Reply::Done, Some(self.changes(paths)?))),
            Request::Diff { paths, max_bytes } => Ok((Reply::Done, Some(self.diff(paths, max_bytes)?))),
            Request::Commit { paths, force, sync } => self.commit(commit::Options { paths, force, sync }),
            Request::Discard { paths } => self.discard(paths),
            Request::Usage => {
                let (bytes, files) = self.store.usage().map_err(while_doing("measure the layers"))?;
                Ok((Reply::Used { bytes, files, layers: 1 }, None))
            }
        }
    }

    fn changes(&self, paths: Option<Vec<Vec<u8>>>) -> Result<OwnedFd, Failure> {
        let (merged, layers) = self.trees().map_err(while_doing(COMPARE))?;
        let selection = paths.map_or_else(Selection::all, Selection::of);
        let changes = self.sides(&merged, &layers).changes(&selection).map_err(while_doing(COMPARE))?;
        listed(&changes)
    }

    /// A patch can be large, so it is on disk.
    fn diff(&self, paths: Option<Vec<Vec<u8>>>, max_bytes: u64) -> Result<OwnedFd, Failure> {
        let (merged, layers) = self.trees().map_err(while_doing(COMPARE))?;
        let selection = paths.map_or_else(Selection::all, Selection::of);
        let changes = self.sides(&merged, &layers).changes(&selection).map_err(while_doing(COMPARE))?;
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let file = openat(self.store.directory(), ".", flags, Mode::RUSR | Mode::WUSR);
        let mut file = File::from(file.map_err(while_doing("create a file for the patch"))?);
        diff::write(&merged, &self.base, &changes, max_bytes, BufWriter::new(&mut file))?;
        seek(&file, SeekFrom::Start(0)).map_err(while_doing("write the patch"))?;
        Ok(file.into())
    }

    fn commit(&mut self, options: commit::Options) -> Result<(Reply, Option<OwnedFd>), Failure> {
        let (merged, layers) = self.trees().map_err(while_doing("open the layers of the workspace"))?;
        let commit = commit::Commit {
            merged: &merged,
            base: &self.base,
            layers: &layers,
            marks: self.mounter.marks(),
            opened: self.opened,
            known: &mut self.known,
            store: self.store.directory(),
            path: &self.path,
            id: self.store.name(),
        };
        Ok(match commit.run(options, |_| Ok(()))? {
            commit::Outcome::Committed { applied, skipped } => {
                let skipped = skipped.into_iter().map(|(path, reason)| Skipped { path, reason: reason.into() });
                (Reply::Committed { applied }, Some(listed(&skipped.collect::<Vec<_>>())?))
            }
            commit::Outcome::Conflict(paths) => (Reply::Conflict, Some(listed(&paths)?)),
            commit::Outcome::NoChange(path) => (Reply::NoChange { path }, None),
        })
    }

    fn discard(&self, paths: Option<Vec<Vec<u8>>>) -> Result<(Reply, Option<OwnedFd>), Failure> {
        let doing = "discard changes of the workspace";
        let (merged, layers) = self.trees().map_err(while_doing(doing))?;
        let discarded = discard::discard(&self.sides(&merged, &layers), paths, &staging::name(self.store.name()));
        let reply = match discarded.map_err(while_doing(doing))? {
            Ok(count) => Reply::Discarded { count },
            Err(path) => Reply::NoChange { path },
        };
        Ok((reply, None))
    }

    /// What programs see, and the layers.
    fn trees(&self) -> rustix::io::Result<(Tree, [Tree; 1])> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok((Tree::new(openat(&self.merged, ".", flags, Mode::empty())?), [self.store.tree()?]))
    }

    fn sides<'a>(&'a self, merged: &'a Tree, layers: &'a [Tree]) -> Sides<'a> {
        Sides { merged, base: &self.base, layers, marks: self.mounter.marks(), opened: self.opened, known: &self.known }
    }
}

/// A file in memory with a list, for a reply.
fn listed<T: serde::Serialize>(entries: &[T]) -> Result<OwnedFd, Failure> {
    list(entries).map_err(|error| {
        let errno = error.raw_os_error().map_or(Errno::NOMEM, Errno::from_raw_os_error);
        Failure::System(errno, "list the paths".into())
    })
}

/// A file in memory with a list.
fn list<T: serde::Serialize>(entries: &[T]) -> std::io::Result<OwnedFd> {
    let mut file = File::from(memfd_create("nacre-changes", MemfdFlags::CLOEXEC)?);
    file.write_all(&message::encode(&entries)?)?;
    seek(&file, SeekFrom::Start(0))?;
    Ok(file.into())
}
