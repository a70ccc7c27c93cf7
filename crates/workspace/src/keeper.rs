//! The keeper of a workspace: it mounts the layers in its own namespace, hands out copies of the mount, and compares.
//!
//! It is a process of its own, because the real directory may not respond, and may belong to a program that wants to
//! harm the host.

use crate::checkpoints::{Checkpoints, New};
use crate::export::{self, Contents, Export};
use crate::failure::{Failure, Trouble, errno_of, while_doing};
use crate::fork::ForkOrigin;
use crate::git_rules::GitRules;
use crate::history::History;
use crate::import::{Import, rejected};
use crate::joining::{Joining, Sources};
use crate::journal::{self, Journal};
use crate::named::{self, Named, Wanted};
use crate::opening;
use crate::overlay::{self, Mount, Mounter};
use crate::partial::{Partial, Takes};
use crate::selection::Selection;
use crate::sibling::{Lineage, Sibling};
use crate::store::{Store, Stores};
use crate::tree::{Tree, open_directory};
use crate::{
    blame, changes::Sides, commit, diff, discard, known::Known, layers, refresh, review, settle, staging, state,
};
use nacre_archive::{About, Archive, Entry, Refused};
use nacre_containment::lock::Lock;
use nacre_protocol::message;
use nacre_protocol::workspace::{
    Chosen, KeeperReply, KeeperRequest, MergeRules, Opening, Point, Skipped, Storage, WorkspaceChange,
};
use rustix::fs::{MemfdFlags, Mode, OFlags, SeekFrom, fstat, memfd_create, openat, seek};
use rustix::io::Errno;
use rustix::process::{getegid, geteuid};
use std::cell::Cell;
use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::Arc;

/// See [`Sides::interrupt`].
type Interrupt<'a> = dyn Fn() -> rustix::io::Result<()> + 'a;

/// A reply, and a descriptor that goes with it.
pub type Answer = (KeeperReply, Option<OwnedFd>);

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
    mount: Shared,
    checkpoints: Checkpoints,
    store: Store,
    is_named: bool,
    /// The name of its staging directories.
    staging: Vec<u8>,
    opened: (i64, i64),
    known: Known,
    /// The paths where the real directory is not as it was below the files of the archive that this began with.
    differing: Vec<Vec<u8>>,
    /// Where what was brought in comes from. `None` if nothing was.
    sources: Option<Sources>,
}

/// The mount that sessions use.
type Shared = Arc<Lock<Mount>>;

/// Hands out copies of the mount, and measures the layers.
pub struct Sharer {
    mount: Shared,
    base: OwnedFd,
    path: String,
    layers: OwnedFd,
}

impl Sharer {
    /// Answers [`KeeperRequest::Share`] and [`KeeperRequest::Usage`].
    pub fn answer(&self, request: &KeeperRequest) -> Answer {
        let answer = match request {
            KeeperRequest::Share => self.share(),
            _ => used(&self.layers, &|| Ok(())),
        };
        answer.unwrap_or_else(|failure| (failure.into(), None))
    }

    fn share(&self) -> Result<Answer, Failure> {
        let copied = match fstat(&self.base) {
            // A session could not mount it there.
            Ok(found) if found.st_nlink == 0 => Err(Failure::System(
                Errno::NOENT,
                format!("use the workspace: its directory {} was deleted", self.path),
            )),
            _ => overlay::copy(self.mount.lock().root()).map_err(while_doing("copy the mount of the workspace")),
        };
        copied.map(|copy| (KeeperReply::Done, Some(copy)))
    }
}

impl Keeper {
    /// Answers a request. `is_leaving` says whether the host has ended, waits for the end of the keeper, or has stopped a
    /// comparison: a commit that has changed nothing yet is cancelled then.
    pub fn answer(&mut self, request: KeeperRequest, file: Option<OwnedFd>, is_leaving: &dyn Fn() -> bool) -> Answer {
        let answer = match (request, &mut self.0) {
            (KeeperRequest::List { stores }, _) => named::list(&as_path(stores))
                .and_then(|found| listed(&found))
                .map(|list| (KeeperReply::Done, Some(list))),
            (KeeperRequest::Delete { stores, id }, None) => {
                named::delete(&as_path(stores), &id).map(|()| (KeeperReply::Done, None))
            }
            (KeeperRequest::Open(opening), None) => open(opening, file).map(|open| {
                self.0 = Some(open);
                (KeeperReply::Done, None)
            }),
            (KeeperRequest::ReadArchive, _) => read_archive(file),
            (KeeperRequest::Suspend { about, states, .. }, None) => {
                let none = |_: usize| Err(std::io::ErrorKind::NotFound.into());
                write_archive(file, &about, &states, None, (&[], Vec::new()), none)
            }
            (request, Some(open)) => open.answer(request, file, is_leaving),
            (_, None) => Err(Failure::System(Errno::BADFD, "use a workspace that is not open".into())),
        };
        answer.unwrap_or_else(|failure| (failure.into(), None))
    }

    /// What hands out copies of the mount, once it is open. It can do so while a request is being answered.
    ///
    /// # Errors
    /// [`Failure::System`] without a free descriptor.
    pub fn sharer(&self) -> Result<Option<Sharer>, Failure> {
        let Some(open) = &self.0 else { return Ok(None) };
        let root = open.base.directory(b"").map_err(while_doing("share the workspace"))?;
        let base = root.ok_or_else(|| Failure::System(Errno::STALE, "share the workspace".into()))?;
        let path = String::from_utf8_lossy(&open.path).into_owned();
        let layers = open.store.layers().place().try_clone().map_err(|_| Errno::MFILE);
        let layers = layers.map_err(while_doing("share the workspace"))?;
        Ok(Some(Sharer { mount: Arc::clone(&open.mount), base, path, layers }))
    }

    /// Removes the layers of an unnamed workspace. `is_orderly` says that every program that uses them has ended: then those
    /// of a named one are on the disk afterwards.
    pub fn close(self, is_orderly: bool) {
        let Some(mut open) = self.0 else { return };
        open.checkpoints.stop_merging();
        // A commit that could be neither applied nor undone is tried once more.
        let _ = open.complete();
        let Open { mount, checkpoints, mut store, is_named, .. } = open;
        // What is mounted would be in the way of the removal. The thread that shares the mount may still hold it.
        mount.lock().detach();
        drop(checkpoints);
        store.layers().settle();
        if !is_named {
            store.remove();
        } else if is_orderly {
            let _ = named::close(&store);
        }
    }
}

fn as_path(bytes: Vec<u8>) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes))
}

/// Opens a workspace. `file` has the layers of a fork, or is an archive.
fn open(opening: Opening, file: Option<OwnedFd>) -> Result<Open, Failure> {
    let Opening { path: name, stores, removes_stores, unique, id, storage, fork, archive, passes_mounts } = opening;
    let (path, stores) = (as_path(name.clone()), as_path(stores));
    let stores = Stores { path: &stores, are_temporary: removes_stores };
    let mounter = opening::enter_namespaces()?;
    match passes_mounts && mounter == Mounter::Root {
        true => opening::detach_mounts_below(&path)?,
        false => opening::refuse_mounts_below(&path, passes_mounts)?,
    }
    let real = opening::open_real(&path)?;
    // What fails is noticed when the store is created.
    let _ = stores.sweep(&real);
    if id.is_some() && storage != Storage::Disk {
        return Err(Failure::System(Errno::INVAL, "keep a workspace in memory".into()));
    }
    let is_named = id.is_some();
    let (import, copy) = match archive {
        Some(unpacking) => (Some(Import::new(travelled(file)?.into(), &unpacking, &real)?), None),
        None => (None, file),
    };
    let (store, unique, Begun { opened, known, history, differing }, mount) = match id {
        Some(id) => {
            let wanted = Wanted { stores, id: &id, unique: &unique, path: &path, base: &real, mounter };
            let named = match import {
                Some(import) => named::import(&wanted, import)?,
                None => named::open(&wanted)?,
            };
            let mount = match attach(&real, &named.store, &named.history, mounter) {
                Ok(mount) => mount,
                Err(failure) => {
                    named.cancel();
                    return Err(failure);
                }
            };
            let Named { store, about, known, history, differing, .. } = named;
            (store, about.unique, Begun { opened: about.opened, known, history, differing }, mount)
        }
        None => {
            let origin = fork.map(|origin| ForkOrigin::read(&origin, &real, mounter)).transpose()?;
            let mut store = Store::create(&stores, unique.as_bytes(), storage)?;
            let begun = match origin.zip(copy) {
                Some((origin, copy)) => go_on(origin, &copy, &mut store, &real),
                None => begin(&store, &real, import, mounter),
            };
            let mounted =
                begun.and_then(|begun| attach(&real, &store, &begun.history, mounter).map(|mount| (begun, mount)));
            let (begun, mount) = mounted.inspect_err(|_| store.remove())?;
            (store, unique, begun, mount)
        }
    };
    let (base, staging) = (Tree::new(real), staging::name(unique.as_bytes()));
    let (checkpoints, sources) = (Checkpoints::new(history, is_named), None);
    Ok(Open {
        mounter,
        path: name,
        base,
        mount,
        checkpoints,
        store,
        is_named,
        staging,
        opened,
        known,
        differing,
        sources,
    })
}

/// What a workspace begins with.
struct Begun {
    /// The moment of the opening.
    opened: (i64, i64),
    /// What commits have made.
    known: Known,
    history: History,
    /// See [`Open::differing`].
    differing: Vec<Vec<u8>>,
}

fn begin(store: &Store, real: &OwnedFd, import: Option<Import>, mounter: Mounter) -> Result<Begun, Failure> {
    let opened = opening::moment(real, store.directory())?;
    let first = store.layers().create(real).map_err(while_doing("create a layer"))?;
    let unpacked =
        import.map(|import| import.unpack(store.layers().place(), first, real, mounter.marks())).transpose()?;
    let (history, differing) = (History::new(vec![first]), unpacked.unwrap_or_default());
    Ok(Begun { opened, known: Known::default(), history, differing })
}

fn go_on(mut origin: ForkOrigin, copy: &OwnedFd, store: &mut Store, real: &OwnedFd) -> Result<Begun, Failure> {
    origin.settle(store, copy, real).map_err(while_doing("use the layers of the workspace in a fork"))?;
    let ForkOrigin { opened, known, history, .. } = origin;
    Ok(Begun { opened, known, history, differing: Vec::new() })
}

/// The file that a request needs.
fn travelled(file: Option<OwnedFd>) -> Result<OwnedFd, Failure> {
    file.ok_or_else(|| Failure::System(Errno::INVAL, "read a request to the workspace".into()))
}

fn read_archive(file: Option<OwnedFd>) -> Result<Answer, Failure> {
    let mut archive = Archive::open(File::from(travelled(file)?)).map_err(rejected)?;
    let states = archive.states().map_err(rejected)?;
    let about = serde_json::to_vec(archive.about()).unwrap_or_default();
    let read = in_memory(&(about, states)).map_err(while_doing("read the archive"))?;
    Ok((KeeperReply::Done, Some(read)))
}

/// Writes an archive. `workspace`: the path of the workspace, if it has files of one.
fn write_archive(
    file: Option<OwnedFd>,
    about: &[u8],
    states: &[u8],
    workspace: Option<&[u8]>,
    (entries, missing): (&[Entry], Vec<String>),
    open: impl FnMut(usize) -> std::io::Result<File>,
) -> Result<Answer, Failure> {
    let doing = "write the archive";
    let mut about: About = serde_json::from_slice(about).map_err(|_| Failure::System(Errno::BADMSG, doing.into()))?;
    about.workspace = workspace.map(|path| String::from_utf8_lossy(path).into_owned());
    about.missing.extend(missing);
    let missing = about.missing.clone();
    let files = entries.len().saturating_sub(1) as u64;
    let written = nacre_archive::write(&travelled(file)?.into(), about, states, entries, open);
    let bytes = written.map_err(|refused| match refused {
        Refused::System(error) => Failure::System(errno_of(&error), doing.into()),
        Refused::Because(reason) => Failure::Rejected(reason),
    })?;
    Ok((KeeperReply::Suspended { bytes, files }, Some(listed(&missing)?)))
}

/// Mounts the present layers.
fn attach(base: &OwnedFd, store: &Store, history: &History, mounter: Mounter) -> Result<Shared, Failure> {
    let mount = layers::mount(store.layers().place(), &history.stack, base, mounter).map_err(opening::cannot_mount)?;
    Ok(Arc::new(Lock::new(mount)))
}

impl Open {
    fn answer(
        &mut self,
        request: KeeperRequest,
        file: Option<OwnedFd>,
        is_leaving: &dyn Fn() -> bool,
    ) -> Result<Answer, Failure> {
        // A comparison can take long, and stops when its caller has gone.
        let interrupt: &Interrupt<'_> = &|| if is_leaving() { Err(Errno::CANCELED) } else { Ok(()) };
        match request {
            KeeperRequest::Open(_)
            | KeeperRequest::List { .. }
            | KeeperRequest::Delete { .. }
            | KeeperRequest::ReadArchive
            | KeeperRequest::Stop
            | KeeperRequest::Close => Err(Failure::System(Errno::ALREADY, "open an open workspace".into())),
            KeeperRequest::Share => Err(Failure::System(Errno::INVAL, "share the workspace here".into())),
            KeeperRequest::InFile => Err(Failure::System(Errno::BADMSG, "read a request to the workspace".into())),
            KeeperRequest::Changes { paths } => {
                Ok((KeeperReply::Done, Some(listed(&self.changes(paths, interrupt)?.1)?)))
            }
            KeeperRequest::Diff { paths, max_bytes } => {
                Ok((KeeperReply::Done, Some(self.diff(paths, max_bytes, interrupt)?)))
            }
            KeeperRequest::Stream { paths, prefix, head } => {
                Ok((KeeperReply::Done, Some(self.stream(paths, (&prefix, &head), interrupt)?)))
            }
            KeeperRequest::Review { paths, max_bytes } => {
                let (merged, changes) = self.changes(paths, interrupt)?;
                let (_, layers) = self.trees().map_err(while_doing(COMPARE))?;
                let reviewed = review::review(&self.sides(&merged, &layers, interrupt), changes, max_bytes)?;
                Ok((KeeperReply::Done, Some(listed(&reviewed)?)))
            }
            KeeperRequest::Blame { path } => {
                let doing = "find the command that has written a path of the workspace";
                let present = self.trees().map_err(while_doing(doing))?.0;
                let (store, base, mounter, history) =
                    (&self.store, &self.base, self.mounter, self.checkpoints.history());
                let search = blame::Search { store, history, base, present: &present, mounter, interrupt };
                let found = search.find(&path).map_err(while_doing(doing))?;
                Ok((KeeperReply::Done, Some(in_memory(&found).map_err(while_doing(doing))?)))
            }
            KeeperRequest::Commit { chosen, force, sync, withholds } => {
                let options = commit::Options { paths: None, force, sync, withholds };
                self.commit(chosen, options, is_leaving)
            }
            KeeperRequest::Discard { chosen } => self.discard(chosen, interrupt),
            KeeperRequest::Usage => used(self.store.layers().place(), interrupt),
            KeeperRequest::Checkpoint { point, may_seal, max_steps } => {
                self.checkpoint(point, may_seal, max_steps, file, interrupt)
            }
            KeeperRequest::Checkpoints => Ok((KeeperReply::Done, Some(listed(&self.checkpoints.points())?))),
            KeeperRequest::DeleteCheckpoint { number } => self.delete_checkpoint(number),
            KeeperRequest::Fork { may_seal } => self.fork(may_seal, interrupt),
            KeeperRequest::Branch { fork } => {
                let copy = self.checkpoints.branch(fork).map_err(while_doing("copy the mounts of the layers"))?;
                let copy = copy.ok_or_else(|| Failure::System(Errno::INVAL, "open a fork that has ended".into()))?;
                Ok((KeeperReply::Done, Some(copy)))
            }
            KeeperRequest::EndFork { fork } => {
                self.checkpoints.end_fork(&self.store, fork);
                Ok((KeeperReply::Done, None))
            }
            KeeperRequest::Join { origin, side, has_markers, rules } => {
                self.join(&origin, &travelled(file)?, (side, has_markers), &rules, interrupt)
            }
            KeeperRequest::Prepare { number } => self.prepare(number, interrupt),
            KeeperRequest::Switch => self.switch(interrupt),
            KeeperRequest::Suspend { about, states, owner } => self.suspend(file, &about, &states, owner, interrupt),
            KeeperRequest::Differing => Ok((KeeperReply::Done, Some(listed(&self.differing)?))),
        }
    }

    /// What programs see, and how it differs.
    fn changes(
        &self,
        paths: Option<Vec<Vec<u8>>>,
        interrupt: &Interrupt<'_>,
    ) -> Result<(Tree, Vec<WorkspaceChange>), Failure> {
        let (merged, layers) = self.trees().map_err(while_doing(COMPARE))?;
        let selection = paths.map_or_else(Selection::all, Selection::of);
        let changes = self.sides(&merged, &layers, interrupt).changes(&selection);
        let changes = changes.map_err(|trouble| trouble.while_doing(COMPARE))?;
        Ok((merged, changes))
    }

    /// A patch can be large, so it is on disk.
    fn diff(&self, paths: Option<Vec<Vec<u8>>>, max_bytes: u64, interrupt: &Interrupt<'_>) -> Result<OwnedFd, Failure> {
        let (merged, changes) = self.changes(paths, interrupt)?;
        self.on_disk(|out| diff::write(&merged, &self.base, &changes, max_bytes, interrupt, out))
    }

    /// What some changed paths are now, for git.
    fn stream(
        &self,
        paths: Vec<Vec<u8>>,
        (prefix, head): (&[u8], &[u8]),
        interrupt: &Interrupt<'_>,
    ) -> Result<OwnedFd, Failure> {
        let chosen: HashSet<Vec<u8>> = paths.iter().cloned().collect();
        let (merged, mut changes) = self.changes(Some(paths), interrupt)?;
        changes.retain(|change| chosen.contains(&change.path));
        self.on_disk(|mut out| {
            out.write_all(head).map_err(|error| Failure::System(errno_of(&error), "write a file for git".into()))?;
            diff::stream(&merged, &changes, prefix, interrupt, out)
        })
    }

    /// Writes a file without a name on the disk of the layers.
    fn on_disk(&self, write: impl FnOnce(BufWriter<&mut File>) -> Result<(), Failure>) -> Result<OwnedFd, Failure> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let file = match openat(self.store.directory(), ".", flags, Mode::RUSR | Mode::WUSR) {
            // Layers in memory leave this directory to any file system, like an older overlay.
            Err(Errno::OPNOTSUPP) => memfd_create("nacre-patch", MemfdFlags::CLOEXEC),
            file => file,
        };
        let mut file = File::from(file.map_err(while_doing("create a file for the patch"))?);
        write(BufWriter::new(&mut file))?;
        seek(&file, SeekFrom::Start(0)).map_err(while_doing("write the patch"))?;
        Ok(file.into())
    }

    fn commit(
        &mut self,
        Chosen { paths, hunks }: Chosen,
        options: commit::Options,
        is_leaving: &dyn Fn() -> bool,
    ) -> Result<Answer, Failure> {
        // It would be completed here in any case, but its checkpoints would stay.
        self.complete().map_err(while_doing("complete the last commit of the workspace"))?;
        // It changes marks of sealed layers.
        self.checkpoints.stop_merging();
        let (merged, layers) = self.trees().map_err(while_doing("open the layers of the workspace"))?;
        let interrupt: &Interrupt<'_> = &|| if is_leaving() { Err(Errno::CANCELED) } else { Ok(()) };
        let Partial { mut paths, contents } =
            Partial::find(&self.sides(&merged, &layers, interrupt), paths, hunks, Takes::Chosen)?;
        if let Some(paths) = &mut paths {
            paths.extend(contents.keys().cloned());
        }
        let options = commit::Options { paths, ..options };
        let (directory, is_named) = (self.store.directory(), self.is_named);
        let commit = commit::Commit {
            merged: &merged,
            base: &self.base,
            layers: &layers,
            marks: self.mounter.marks(),
            opened: self.opened,
            known: &mut self.known,
            contents: &contents,
            keep: &|known| if is_named { state::write_known(directory, known) } else { Ok(()) },
            store: directory,
            path: &self.path,
            staging: &self.staging,
            interrupt,
        };
        // The checkpoints are from before it: they would be compared with another directory.
        let is_undone = Cell::new(false);
        let checkpoints = &mut self.checkpoints;
        let reached = |point| match point {
            commit::Point::Begun | commit::Point::Staged if is_leaving() => Err(Errno::CANCELED),
            commit::Point::Reversed => {
                is_undone.set(true);
                Ok(())
            }
            commit::Point::Settled if !is_undone.get() => checkpoints.end(&self.store),
            _ => Ok(()),
        };
        Ok(match commit.run(options, reached)? {
            commit::Outcome::Committed { applied, skipped } => {
                let skipped = skipped.into_iter().map(|(path, reason)| Skipped { path, reason: reason.into() });
                (KeeperReply::Committed { applied }, Some(listed(&skipped.collect::<Vec<_>>())?))
            }
            commit::Outcome::Conflict(paths) => (KeeperReply::Conflict, Some(listed(&paths)?)),
        })
    }

    fn discard(&self, Chosen { paths, hunks }: Chosen, interrupt: &Interrupt<'_>) -> Result<Answer, Failure> {
        let doing = "discard changes of the workspace";
        let (merged, layers) = self.trees().map_err(while_doing(doing))?;
        let sides = self.sides(&merged, &layers, interrupt);
        let partial = Partial::find(&sides, paths, hunks, Takes::Others)?;
        let discarded = discard::discard(&sides, partial, &self.staging);
        let count = discarded.map_err(|trouble| trouble.while_doing(doing))?;
        Ok((KeeperReply::Discarded { count }, None))
    }

    /// Completes the last commit, if it has not ended.
    fn complete(&mut self) -> rustix::io::Result<()> {
        let directory = self.store.directory();
        let Some(journal) = Journal::read(directory)? else { return Ok(()) };
        self.checkpoints.stop_merging();
        let layers = layers::trees(self.store.layers().place(), self.checkpoints.stack())?;
        let is_applied = journal.is_applied();
        journal::complete(directory, journal, &self.base, |journal| {
            settle::settle(journal, &self.base, &layers, self.mounter.marks(), &mut self.known)?;
            if self.is_named {
                state::write_known(directory, &self.known)?;
            }
            if is_applied { self.checkpoints.end(&self.store) } else { Ok(()) }
        })
    }

    /// Seals the present layer if that is possible, and copies it otherwise, except for an automatic checkpoint. If nothing has
    /// been changed there, it is not needed.
    fn checkpoint(
        &mut self,
        point: Point,
        may_seal: bool,
        max_steps: u64,
        text: Option<OwnedFd>,
        interrupt: &Interrupt<'_>,
    ) -> Result<Answer, Failure> {
        let doing = "make a checkpoint of the workspace";
        let text = text.ok_or_else(|| Failure::System(Errno::INVAL, doing.into()))?;
        let new = New { point, text: &text, max_steps };
        if let Some(point) = self.checkpoints.note(&self.store, &self.base, &new).map_err(while_doing(doing))? {
            return Ok((KeeperReply::Kept(point), None));
        }
        if may_seal {
            let sealed = {
                // Nothing gets a copy of a mount that is being replaced.
                let mut mount = self.mount.lock();
                let sealed = self.checkpoints.seal(&self.store, &self.base, self.mounter, &mount, &new, interrupt);
                let sealed = sealed.map_err(while_doing("make the workspace writable again"))?;
                sealed.map(|(point, new)| {
                    *mount = new;
                    point
                })
            };
            self.checkpoints.merge(&self.store, self.mounter);
            if let Some(point) = sealed {
                return Ok((KeeperReply::Sealed(point), None));
            }
        }
        if new.point.command.is_some() {
            if self.checkpoints.is_full() {
                let _ = self.checkpoints.end_steps(&self.store);
                return Err(Failure::System(Errno::MLINK, format!("{doing}, which has too many layers for undo")));
            }
            return Ok((KeeperReply::NoCheckpoint, None));
        }
        let made = self.checkpoints.make(&self.store, &new, interrupt);
        Ok((KeeperReply::Kept(made.map_err(while_doing(doing))?), None))
    }

    /// Begins a fork. Seals the present layer if that is possible, and copies it otherwise.
    fn fork(&mut self, may_seal: bool, interrupt: &Interrupt<'_>) -> Result<Answer, Failure> {
        let doing = "fork the workspace";
        let root = self.base.directory(b"").map_err(while_doing(doing))?;
        let root = root.ok_or_else(|| Failure::System(Errno::STALE, doing.into()))?;
        let identity = journal::identity(&root).map_err(while_doing(doing))?;
        let (fork, history, is_sealed) = {
            // Nothing gets a copy of a mount that is being replaced.
            let mut mount = self.mount.lock();
            let present = may_seal.then_some(&mut *mount);
            let forked = self.checkpoints.fork(&self.store, &self.base, self.mounter, present, interrupt);
            forked.map_err(while_doing(doing))?
        };
        let stores = [&[self.store.name().to_vec()], self.store.origins()].concat();
        let (mounter, opened, known) = (self.mounter, self.opened, self.known.clone());
        let origin = in_memory(&ForkOrigin { identity, mounter, history, opened, known, stores });
        let origin = origin.map_err(while_doing(doing)).inspect_err(|_| {
            self.checkpoints.end_fork(&self.store, fork);
        })?;
        Ok((KeeperReply::Forked { fork, is_sealed }, Some(origin)))
    }

    /// Brings in what another workspace has changed. `copy` has its layers.
    fn join(
        &mut self,
        origin: &[u8],
        copy: &OwnedFd,
        (side, has_markers): (u32, bool),
        rules: &MergeRules,
        interrupt: &Interrupt<'_>,
    ) -> Result<Answer, Failure> {
        let doing = "bring in the changes of another workspace";
        let (merged, layers) = self.trees().map_err(while_doing(doing))?;
        let real = self.base.directory(b"").map_err(while_doing(doing))?;
        let real = real.ok_or_else(|| Failure::System(Errno::STALE, doing.into()))?;
        let lineage = || Lineage::new(self.store.layers().place(), self.checkpoints.stack()).map(Sources::new);
        let mut sources = self.sources.take().map_or_else(lineage, Ok).map_err(while_doing(doing))?;
        let others = sources.lineages();
        let sibling = Sibling::open(self.store.directory(), others, &real, (origin, copy), self.mounter)?;
        let Some(sibling) = sibling else { return Ok((KeeperReply::Unrelated, None)) };
        let (merged, layers, sibling, marks) = (&merged, &layers, &sibling, self.mounter.marks());
        let rules = &GitRules::for_merge(&self.base, rules);
        let joining = Joining { merged, layers, sibling, marks, side, has_markers, rules, interrupt };
        let joined = joining.run(&mut sources).map_err(|trouble| trouble.while_doing(doing))?;
        self.sources = Some(sources);
        Ok((KeeperReply::Done, Some(in_memory(&joined).map_err(while_doing(doing))?)))
    }

    fn delete_checkpoint(&mut self, number: u64) -> Result<Answer, Failure> {
        let deleted = self.checkpoints.delete(&self.store, number);
        let is_deleted = deleted.map_err(while_doing("delete a checkpoint of the workspace"))?;
        Ok((if is_deleted { KeeperReply::Done } else { KeeperReply::NoCheckpoint }, None))
    }

    fn prepare(&mut self, number: Option<u64>, interrupt: &Interrupt<'_>) -> Result<Answer, Failure> {
        let prepared = self.checkpoints.prepare(&self.store, &self.base, self.mounter, number, interrupt);
        Ok(match prepared.map_err(while_doing("mount a checkpoint of the workspace"))? {
            Some((point, text)) => (KeeperReply::Kept(point), Some(text)),
            None => (KeeperReply::NoCheckpoint, None),
        })
    }

    fn switch(&mut self, interrupt: &Interrupt<'_>) -> Result<Answer, Failure> {
        // The files count more than their times.
        let _ = self.refresh(interrupt);
        let mount = self.checkpoints.switch(&self.store).map_err(while_doing("use the mount of a checkpoint"))?;
        *self.mount.lock() = mount;
        Ok((KeeperReply::Done, None))
    }

    /// Gives sources whose content is about to change the present time.
    fn refresh(&self, interrupt: &Interrupt<'_>) -> Result<(), Trouble> {
        let Some((mount, stack)) = self.checkpoints.prepared() else { return Ok(()) };
        let place = self.store.layers().place();
        let (present, old) = (self.trees()?.0, self.checkpoints.stack());
        let common = old.iter().zip(stack).take_while(|(one, two)| one == two).count();
        let mut layers = layers::trees(place, &old[common..])?;
        layers.extend(layers::trees(place, &stack[common..])?);
        let merged = Tree::new(open_directory(mount.root(), b".")?);
        let (marks, known) = (self.mounter.marks(), &Known::default());
        // Neither view changes.
        let opened = (i64::MAX, 0);
        let sides = Sides { merged: &merged, base: &present, layers: &layers, marks, opened, known, interrupt };
        refresh::refresh(&sides, &self.base, place).map(drop)
    }

    fn suspend(
        &mut self,
        file: Option<OwnedFd>,
        about: &[u8],
        states: &[u8],
        owner: Option<(u32, u32)>,
        interrupt: &Interrupt<'_>,
    ) -> Result<Answer, Failure> {
        let doing = "look up the files for the archive";
        self.complete().map_err(while_doing("complete the last commit of the workspace"))?;
        let (merged, layers) = self.trees().map_err(while_doing(doing))?;
        let owner = owner.unwrap_or((geteuid().as_raw(), getegid().as_raw()));
        let sides = self.sides(&merged, &layers, interrupt);
        let Export { entries, missing, .. } =
            export::export(&sides, owner).map_err(|trouble| trouble.while_doing(doing))?;
        let mut contents = Contents::new(&sides, &entries);
        let open = |number| contents.open(number);
        write_archive(file, about, states, Some(&self.path), (&entries, missing), open)
    }

    /// What programs see, and the layers.
    fn trees(&self) -> rustix::io::Result<(Tree, Vec<Tree>)> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mount = self.mount.lock();
        let merged = openat(mount.root(), ".", flags, Mode::empty())?;
        Ok((Tree::new(merged), layers::trees(self.store.layers().place(), self.checkpoints.stack())?))
    }

    fn sides<'a>(&'a self, merged: &'a Tree, layers: &'a [Tree], interrupt: &'a Interrupt<'a>) -> Sides<'a> {
        let Self { base, mounter, opened, known, .. } = self;
        Sides { merged, base, layers, marks: mounter.marks(), opened: *opened, known, interrupt }
    }
}

/// A file in memory with a list, for a reply.
/// Measures the layers.
fn used(place: &OwnedFd, interrupt: &Interrupt<'_>) -> Result<Answer, Failure> {
    let used = Checkpoints::usage(place, interrupt).map_err(while_doing("measure the layers"))?;
    let layers::Usage { bytes, files, layers } = used;
    Ok((KeeperReply::Used { bytes, files, layers }, None))
}

fn listed<T: serde::Serialize>(entries: &[T]) -> Result<OwnedFd, Failure> {
    in_memory(&entries).map_err(while_doing("list the paths"))
}

/// A file in memory with a value.
fn in_memory<T: serde::Serialize>(value: &T) -> rustix::io::Result<OwnedFd> {
    let write = || {
        let mut file = File::from(memfd_create("nacre-reply", MemfdFlags::CLOEXEC)?);
        file.write_all(&message::encode(value)?)?;
        seek(&file, SeekFrom::Start(0))?;
        Ok(file.into())
    };
    write().map_err(|error: std::io::Error| error.raw_os_error().map_or(Errno::NOMEM, Errno::from_raw_os_error))
}
