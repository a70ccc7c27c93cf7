//! Masks again what a program of the machine has replaced.
//!
//! A mount covers a file, not its name. When a program outside of a session renames another file over it, or deletes it, the kernel
//! detaches the mount; when it moves the file, the mount moves along. Then the session sees what has the name now, and could write to
//! it. Nothing can prevent that: the kernel has no rule for a name in a directory that is otherwise writable.
//!
//! So the supervisor gets to know at once, and covers the name again. A detached mount changes the table of the session's namespace,
//! which poll(2) reports. inotify(7) reports what was moved, and what appears where something is missing, like a new secret.

use crate::child;
use crate::copies;
use crate::mounts;
use crate::namespaces::Handles;
use crate::paths::{Found, open_path};
use crate::view::{Access, Step, view};
use nacre_protocol::confinement::{Confinement, PRIVATE_TMP};
use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, WatchDescriptor};
use nix::sys::stat::{Mode, fstat};
use nix::sys::statfs::{PROC_SUPER_MAGIC, fstatfs};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::iter;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// How often a place is looked at that is gone when it is to be covered.
const LOOKS: usize = 10;

/// What covers a part of a writable tree.
struct Mask {
    /// What it covers, on the machine.
    real: PathBuf,
    step: Step,
}

/// The masks of a session.
pub struct Masks {
    masks: Vec<Mask>,
    /// What has a copy, in the order of the copies.
    copied: Vec<PathBuf>,
    /// The session's mounts: exceptional for poll(2) when one was attached or detached.
    mounts: File,
    /// Without it, a file that is moved away is not noticed.
    changes: Option<Inotify>,
    /// The directories in which something is missing.
    parents: Vec<WatchDescriptor>,
}

impl Masks {
    /// Watches those of a session that begins. `None` if it has none.
    pub(crate) fn watch(confinement: &Confinement, handles: &mut Handles) -> Option<Self> {
        let masks = masks_of(confinement);
        let [mounts, other] = handles.tables.take().filter(|_| !masks.is_empty())?;
        let changes = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK).ok();
        let mut copied: Vec<PathBuf> = Vec::new();
        for mask in masks.iter().filter(|mask| matches!(mask.step, Step::Copy(..))) {
            if !copied.contains(&mask.real) {
                copied.push(mask.real.clone());
            }
        }
        let mut made = Self { masks, copied, mounts, changes, parents: Vec::new() };
        made.expect_changes();
        handles.sockets.push(other.into());
        let shared = made.changes.as_ref().and_then(|changes| changes.as_fd().try_clone_to_owned().ok());
        handles.sockets.extend(shared);
        Some(made)
    }

    /// What has to be watched.
    pub fn watched(&self) -> impl Iterator<Item = PollFd<'_>> {
        watched(&self.mounts, self.changes.as_ref())
    }

    /// Covers what is not covered, in a short-lived child.
    ///
    /// # Errors
    /// Something can be written that the rules protect. No program must run in the session any more.
    pub(crate) fn renew(&mut self, handles: &Handles) -> io::Result<()> {
        // Before the look, which sees all that comes earlier.
        let missing = self.expect_changes();
        let seen = self.changes.as_ref().map_or(0, pending);
        let report = child::report(|| {
            let renewed = handles.enter().and_then(|()| {
                let cover = |mask: &Mask| {
                    let cover = || self.cover(mask, handles);
                    // What was removed meanwhile may be replaced already, which nothing reports.
                    let is_gone =
                        |covered: &io::Result<()>| matches!(covered, Err(error) if error.kind() == ErrorKind::NotFound);
                    // What is missing is reported when it is there.
                    let looks = if missing.contains(&mask.real) { 1 } else { LOOKS };
                    match iter::repeat_with(cover).take(looks).find(|covered| !is_gone(covered)) {
                        None => Ok(()),
                        Some(Err(error)) if error.kind() == ErrorKind::PermissionDenied => Ok(()),
                        Some(covered) => covered.map_err(mounts::at(&mask.real, "protect")),
                    }
                };
                self.masks.iter().try_for_each(cover)
            });
            renewed.map_or_else(|error| error.to_string(), |()| "=".to_string())
        })?;
        if report.as_deref() != Some("=") {
            return Err(io::Error::other(report.unwrap_or_default()));
        }
        // Not before: until then, the host waits with commands.
        if let Some(changes) = self.changes.as_ref().filter(|_| seen > 0) {
            let _ = nix::unistd::read(changes, &mut vec![0; seen]);
        }
        Ok(())
    }

    /// Watches what is covered, what is above, and the directories in which something is missing. Returns what that is.
    fn expect_changes(&mut self) -> BTreeSet<PathBuf> {
        let Some(changes) = &self.changes else { return BTreeSet::new() };
        for parent in self.parents.drain(..) {
            let _ = changes.rm_watch(parent);
        }
        let own = AddWatchFlags::IN_MOVE_SELF | AddWatchFlags::IN_DONT_FOLLOW;
        // What is above may be moved with it.
        let paths: BTreeSet<&Path> = self.masks.iter().flat_map(|mask| mask.real.ancestors()).collect();
        let is_missing = |path: &&Path| changes.add_watch(*path, own) == Err(Errno::ENOENT);
        let missing: Vec<&Path> = paths.into_iter().filter(is_missing).collect();
        let made = own | AddWatchFlags::IN_CREATE | AddWatchFlags::IN_MOVED_TO | AddWatchFlags::IN_ONLYDIR;
        for path in &missing {
            let above = path.ancestors().skip(1);
            self.parents.extend(above.flat_map(|path| changes.add_watch(path, made)).take(1));
        }
        missing.into_iter().map(Path::to_path_buf).collect()
    }

    /// Covers a place that is not covered.
    ///
    /// # Errors
    /// Those of the system calls; there may be a link now, which no mount covers.
    fn cover(&self, mask: &Mask, handles: &Handles) -> io::Result<()> {
        let place = match &mask.step {
            // Hiding a link hides its target.
            Step::Hide(_, place) => &place.canonicalize()?,
            step => step.place(),
        };
        let Some(kind) = kind(place)? else { return Ok(()) };
        match &mask.step {
            Step::Hide(..) if kind != libc::S_IFDIR => {
                // Where no program sees how it is made.
                nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNS)?;
                let empty = mounts::files("", 1)?;
                handles.enter_mounts()?;
                empty.iter().try_for_each(|empty| mounts::attach(empty, place))
            }
            Step::Hide(..) => mounts::hide(place, None),
            Step::Bind(_, Access::Write) | Step::Show(_, _, Access::Write) => {
                mounts::attach(&mounts::clone_tree(place)?, place)
            }
            step => {
                let tree = mounts::clone_tree(place)?;
                mounts::read_only_tree(&tree)?;
                mounts::attach(&tree, place)?;
                // Without its copy, it stays read-only.
                if let Step::Copy(real, _) = step
                    && let Some(number) = self.copied.iter().position(|path| path == real)
                    && let Ok(link) = copies::clone_link(&copies::link(Path::new(PRIVATE_TMP), number))
                {
                    let _ = mounts::attach(&link, place);
                }
                Ok(())
            }
        }
    }
}

/// The masks in a view.
fn masks_of(confinement: &Confinement) -> Vec<Mask> {
    let Some(rules) = confinement.filesystem.as_ref().filter(|_| confinement.namespaces.is_some()) else {
        return Vec::new();
    };
    // What has the name of a writable tree later is in a tree that is not.
    let is_whole = |path: &PathBuf| {
        let is_cache = confinement.caches.as_ref().is_some_and(|place| place.files == *path);
        rules.write.contains(path) || rules.mounts.iter().any(|mount| mount.target == *path) || is_cache
    };
    let mask = |step: Step| {
        let real = match &step {
            Step::Bind(path, Access::Read) | Step::Copy(path, _) | Step::Hide(path, _) => path,
            Step::Show(path, _, Access::Read) => path,
            Step::Bind(path, Access::Write) if !is_whole(path) => path,
            Step::Show(path, place, Access::Write) if !is_whole(place) => path,
            _ => return None,
        };
        Some(Mask { real: real.clone(), step })
    };
    view(confinement).steps.into_iter().filter_map(mask).collect()
}

/// What reports that something was replaced: the table of the mounts, and the changes of files.
fn watched<'a>(mounts: &'a impl AsFd, changes: Option<&'a impl AsFd>) -> impl Iterator<Item = PollFd<'a>> {
    let mounts = [PollFd::new(mounts.as_fd(), PollFlags::POLLPRI)];
    mounts.into_iter().chain(changes.map(|changes| PollFd::new(changes.as_fd(), PollFlags::POLLIN)))
}

/// Whether one of them does. Does not block.
fn reports<'a>(watched: impl Iterator<Item = PollFd<'a>>) -> bool {
    poll(&mut watched.collect::<Vec<_>>(), PollTimeout::ZERO).is_ok_and(|count| count > 0)
}

/// How many bytes of events wait.
fn pending(changes: &Inotify) -> usize {
    rustix::io::ioctl_fionread(changes.as_fd()).map_or(0, |bytes| bytes as usize)
}

/// What kind of file is not covered at a place. `None` if a mount is there.
fn kind(place: &Path) -> io::Result<Option<libc::mode_t>> {
    let (Some(parent), Some(name)) = (place.parent(), place.file_name()) else { return Ok(None) };
    let parent = open_path(parent)?;
    // The mount may show a link.
    let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let opened = openat(&parent, name, flags, Mode::empty())?;
    let is_mount = Found::of(&opened)?.mount != Found::of(&parent)?.mount;
    Ok(if is_mount { None } else { Some(fstat(&opened)?.st_mode & libc::S_IFMT) })
}

/// The host's look at the masks of a session.
#[derive(Debug)]
pub struct Disturbance {
    mounts: OwnedFd,
    changes: Option<OwnedFd>,
    /// It was seen, and the supervisor has not been asked to look.
    is_due: AtomicBool,
}

impl Disturbance {
    /// Takes what belongs to it of the descriptors that a supervisor has sent.
    pub fn take(descriptors: &mut Vec<OwnedFd>) -> Option<Self> {
        let is_table =
            |file: &mut OwnedFd| fstatfs(&*file).is_ok_and(|found| found.filesystem_type() == PROC_SUPER_MAGIC);
        let has_no_kind = |file: &mut OwnedFd| fstat(&*file).is_ok_and(|found| found.st_mode & libc::S_IFMT == 0);
        let mounts = descriptors.extract_if(.., is_table).next()?;
        let changes = descriptors.extract_if(.., has_no_kind).next();
        Some(Self { mounts, changes, is_due: AtomicBool::new(false) })
    }

    /// Whether a mask may be gone, and the supervisor has to look before anything begins. Does not block.
    pub fn is_seen(&self) -> bool {
        // A change of the mounts is reported once.
        // Without inotify, nothing reports what was moved and what has appeared.
        if self.changes.is_none() || reports(watched(&self.mounts, self.changes.as_ref())) {
            self.is_due.store(true, Ordering::Relaxed);
        }
        self.is_due.load(Ordering::Relaxed)
    }

    /// The supervisor is asked to look.
    pub fn asked(&self) {
        self.is_due.store(false, Ordering::Relaxed);
    }
}
