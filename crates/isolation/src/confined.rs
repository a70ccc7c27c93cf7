//! An active confinement: its namespaces and its filter, ready for each program of the session.

use crate::broker::{self, Broker, Connected, Inside, Policy};
use crate::caches::Held;
use crate::filter::{self, Program};
use crate::masks::Masks;
use crate::namespaces::{self, Handles};
use crate::paths::{self, Device, Found};
use crate::placeholders::Placeholders;
use crate::remount::{self, Problem};
use crate::{certificates, landlock, privileges, temporary};
use nacre_containment::fork::fork;
use nacre_protocol::confinement::Confinement;
use nacre_protocol::socket;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// See the module.
pub struct Confined {
    confinement: Confinement,
    handles: Option<Handles>,
    placeholders: Placeholders,
    masks: Option<Masks>,
    /// The place for the caches of tools, in use.
    caches: Option<Held>,
    /// Whether the broker renames directories for programs.
    renames: bool,
    filter: Program,
    /// The same without notifications about files and libraries, for what the broker does not serve.
    filter_alone: Option<Program>,
    /// The open directory of [`Confinement::own`]: the user of the programs may not be able to open it.
    own: Option<OwnedFd>,
    /// The file system of the workspace.
    layered: Option<Device>,
    /// The broker of connections, if the confinement needs one.
    broker: Option<Broker>,
}

impl Confined {
    /// Activates a confinement for programs of `owner`, or of this process's user. `group` is the control group of an
    /// init, `guards` are the processes that it watches, [`filter::program`] explains `fork_key`, and
    /// [`namespaces::create`] explains `workspace`.
    ///
    /// # Errors
    /// The step that failed; nothing is left behind.
    pub fn new(
        confinement: Confinement,
        owner: Option<(u32, u32)>,
        fork_key: Option<u64>,
        group: Option<BorrowedFd<'_>>,
        guards: &[i32],
        workspace: Option<&OwnedFd>,
    ) -> io::Result<Self> {
        if confinement.namespaces.is_none() {
            let remedy = "Set TMPDIR to a directory that this user can write to";
            temporary::make(&confinement.temporary, owner)
                .map_err(|error| io::Error::other(format!("{error}. {remedy}")))?;
            confinement.certificates.as_ref().map_or(Ok(()), certificates::make)?;
        }
        let caches = confinement.caches.as_ref().map(|place| Held::open(place, owner)).transpose()?;
        let layered = workspace.map(Found::of).transpose()?.map(|found| found.device);
        let files = confinement.filesystem.as_ref().filter(|_| confinement.namespaces.is_some());
        let placeholders = Placeholders::make(files.map_or(&[], |files| &files.project.placeholders));
        let mut handles =
            namespaces::create(&confinement, group, guards, workspace).inspect_err(|_| placeholders.remove())?;
        let masks = handles.as_mut().and_then(|handles| Masks::watch(&confinement, handles));
        let renames = broker::renames_directories(&confinement);
        let filter = match confinement.restricts {
            true => filter::program(&confinement, fork_key, renames),
            false => filter::of_renames(),
        };
        let is_watched = confinement.observed.is_some() || confinement.programs.is_some() || renames;
        let unobserved = is_watched.then(|| Confinement { observed: None, programs: None, ..confinement.clone() });
        let filter_alone = unobserved.map(|confinement| filter::program(&confinement, fork_key, false));
        let own = confinement.own.as_ref().map(|(tree, _)| paths::open_path(tree)).transpose()?;
        let broker = None;
        Ok(Self {
            confinement,
            handles,
            placeholders,
            masks,
            caches,
            renames,
            filter,
            filter_alone,
            own,
            layered,
            broker,
        })
    }

    /// Replaces the mount of the workspace; see [`crate::remount`].
    ///
    /// # Errors
    /// Those of [`remount::remount`].
    pub fn remount(&mut self, mount: &OwnedFd) -> Result<(), Problem> {
        let (Some(handles), Some(old)) = (&self.handles, self.layered) else {
            return Err(Problem::Unchanged(io::Error::other("it has no workspace")));
        };
        let new = Found::of(mount).map_err(Problem::Unchanged)?.device;
        remount::remount(handles, mount, old)?;
        self.layered = Some(new);
        Ok(())
    }

    /// What may have to be [covered again](Confined::mask_again).
    pub fn masks(&self) -> Option<&Masks> {
        self.masks.as_ref()
    }

    /// Covers what programs of the machine have replaced; see [`crate::masks`].
    ///
    /// # Errors
    /// See [`Masks::renew`].
    pub fn mask_again(&mut self) -> io::Result<()> {
        let (Some(masks), Some(handles)) = (&mut self.masks, &self.handles) else { return Ok(()) };
        let files = self.confinement.filesystem.as_ref();
        self.placeholders.renew(files.map_or(&[], |files| &files.project.placeholders));
        masks.renew(handles)
    }

    /// The init of the pid namespace, a child of this process.
    pub fn init(&self) -> Option<i32> {
        self.handles.as_ref()?.init
    }

    /// Lets the init of the pid namespace exit once no other process is left in it: no further program starts.
    pub fn close(&self) {
        let control = self.handles.as_ref().and_then(|handles| handles.control.as_ref());
        let _ = control.map(|control| socket::send(control.as_fd(), b"-", &[]));
    }

    /// Adds a broker of connections, if the confinement needs one. [`Confined::ensure_broker`] starts it.
    ///
    /// # Errors
    /// Those of socketpair(2).
    pub fn add_broker(&mut self, policy: Policy, connected: Connected) -> io::Result<()> {
        if self.confinement.brokered && (self.confinement.restricts || self.renames) {
            self.broker = Some(Broker::new(policy, connected)?);
        }
        Ok(())
    }

    /// Starts the broker if it is not running. Programs do not wait for it before their first connection, unless it
    /// observes what they use or load. `open`: descriptors that it must not keep.
    ///
    /// # Errors
    /// See [`Broker::ensure`].
    pub fn ensure_broker(&mut self, open: &[OwnedFd]) -> io::Result<()> {
        let inside = Inside { confinement: &self.confinement, handles: self.handles.as_ref() };
        self.broker.as_mut().map_or(Ok(()), |broker| broker.ensure(&inside, open))
    }

    /// Whether directories are renamed that the kernel refuses to rename; see [`nacre_containment::relocation`].
    pub fn renames_directories(&self) -> bool {
        self.renames
    }

    /// Whether no program can start without the broker.
    pub fn needs_broker(&self) -> bool {
        self.confinement.observed.is_some() || self.confinement.programs.is_some() || self.renames
    }

    /// The broker's process, a child of this one.
    pub fn broker(&self) -> Option<i32> {
        self.broker.as_ref()?.pid()
    }

    /// Records that a child has been reaped.
    pub fn reaped(&mut self, pid: i32) {
        if let Some(broker) = &mut self.broker {
            broker.reaped(pid);
        }
    }

    /// See [`Handles::sockets`]. Returned once.
    pub fn take_sockets(&mut self) -> Vec<OwnedFd> {
        self.handles.as_mut().map(|handles| std::mem::take(&mut handles.sockets)).unwrap_or_default()
    }

    /// Forks a child of this process inside the namespaces; see [`Handles::fork_inside`].
    ///
    /// # Errors
    /// Those of setns(2) and clone(2).
    pub fn fork(&self, group: Option<i32>) -> io::Result<(libc::pid_t, bool)> {
        match &self.handles {
            Some(handles) => handles.fork_inside(group),
            None => fork(0, group),
        }
    }

    /// Removes its files on disk. Everything that it confined is dead by then.
    pub fn clear(&self) {
        self.placeholders.remove();
        if let Some(caches) = &self.caches {
            caches.release();
        }
        if self.confinement.namespaces.is_none() {
            temporary::remove(&self.confinement.temporary);
            self.confinement.certificates.iter().for_each(certificates::remove);
        }
    }

    /// Restricts this process irrevocably, like [`Confined::restrict`] but without the broker: it makes no
    /// connections.
    ///
    /// # Errors
    /// The step that failed.
    pub fn restrict_alone(&self) -> io::Result<()> {
        take_rights(&self.confinement, self.own.as_ref())?;
        let filter = self.filter_alone.as_ref().unwrap_or(&self.filter);
        if self.confinement.restricts { filter::install(filter) } else { Ok(()) }
    }

    /// Restricts this process irrevocably. For the child, after everything else and before exec.
    ///
    /// # Errors
    /// The step that failed. The program must not run then.
    pub fn restrict(&self) -> io::Result<()> {
        let Some(broker) = &self.broker else { return self.restrict_alone() };
        // Without no_new_privs, only the rights in the user namespace allow a filter.
        let first = if self.confinement.restricts { None } else { Some(broker::install_with_listener(&self.filter)?) };
        if let Some(listener) = first {
            broker.hand_over(listener)?;
            return take_rights(&self.confinement, self.own.as_ref());
        }
        take_rights(&self.confinement, self.own.as_ref())?;
        broker.hand_over(broker::install_with_listener(&self.filter)?)
    }
}

/// Takes rights from this process and from what it starts: privileges, then Landlock. It has already entered its namespaces
/// and changed its user; the seccomp filter follows. `own`: the open directory of [`Confinement::own`].
pub(crate) fn take_rights(confinement: &Confinement, own: Option<&OwnedFd>) -> io::Result<()> {
    let step = |name: &'static str| move |error: io::Error| io::Error::other(format!("{name}: {error}"));
    let has_user_namespace = confinement.namespaces.is_some_and(|namespaces| namespaces.user);
    if !confinement.restricts {
        // The rights in a user namespace are none that a program had before, and could undo the mounts.
        let drop = || privileges::drop_capabilities(false).map_err(step("capabilities"));
        return if has_user_namespace { drop() } else { Ok(()) };
    }
    privileges::no_new_privileges().map_err(step("no_new_privs"))?;
    let as_root = nix::unistd::geteuid().is_root() && !has_user_namespace;
    privileges::drop_capabilities(as_root).map_err(step("capabilities"))?;
    landlock::restrict(confinement, own).map_err(step("Landlock"))
}
