//! What confines the session's programs: nothing, an active confinement, or a failed one, under which nothing runs.

use crate::adopter::Adopter;
use crate::groups::Groups;
use crate::process_setup::Setting;
use crate::spawn::Failure;
use nacre_containment::cgroup::Group;
use nacre_containment::pid::Pid;
use nacre_isolation::broker::{Connection, Policy};
use nacre_isolation::confined::Confined;
use nacre_isolation::masks::Masks;
use nacre_isolation::remount::Problem;
use nacre_protocol::confinement::Confinement;
use nacre_protocol::message;
use nacre_protocol::standing::RunAs;
use nacre_protocol::supervisor::{Report, StartStep};
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// Maximum bytes of a confinement. The host keeps the number and length of paths below it.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// See the module.
#[derive(Default)]
pub enum Enclosure {
    /// Programs run unconfined.
    #[default]
    Open,
    /// Each program is confined.
    Confined(Box<Active>),
    /// No program can start.
    Refused(Failure),
}

/// What the host gives along with a confinement: secrets shared with its shells, which no command knows.
#[derive(Clone)]
pub struct Key {
    /// See [`nacre_isolation::filter::program`].
    pub fork_key: u64,
    /// The abstract address where a shell reopens a lost channel.
    pub channel_name: String,
    /// See [`Policy::reports`].
    pub reports: Option<Arc<OwnedFd>>,
    /// The abstract address of the host's commands.
    pub command_name: Option<String>,
}

/// What travels with the order to confine.
#[derive(Default)]
pub struct Enclosed {
    /// A file with the confinement.
    pub file: Option<OwnedFd>,
    /// The mount of its workspace.
    pub workspace: Option<OwnedFd>,
}

/// An active confinement, and what is needed to create it again.
pub struct Active {
    confined: Confined,
    wanted: Confinement,
    key: Key,
    /// Its init has exited, and with it every program. It is created again for the next program.
    lost: bool,
}

impl Enclosure {
    /// Confines every program from now on, and reports a failure. What is refused already stays refused.
    pub fn confine(
        &mut self,
        enclosed: Enclosed,
        key: Key,
        adopter: &Adopter,
        groups: Option<&mut Groups>,
        user: Option<&RunAs>,
        setting: &Setting,
    ) {
        if matches!(self, Self::Refused(_)) {
            return;
        }
        let Enclosed { file, workspace } = enclosed;
        let wanted = file.ok_or_else(|| io::ErrorKind::UnexpectedEof.into()).and_then(read);
        let wanted = wanted.map(|wanted| adopter.complete(wanted));
        let made = wanted.and_then(|wanted| Active::make(wanted, key, workspace.as_ref(), groups, user, setting));
        *self = match made {
            Ok(active) => Self::Confined(Box::new(active)),
            Err(error) => {
                setting.report(&Report::NotConfined { problem: error.to_string() });
                Self::Refused(Failure::confining(&error))
            }
        };
    }

    /// Recreates a confinement whose init has exited, since nothing can start in such a pid namespace.
    pub fn restore(&mut self, groups: Option<&mut Groups>, user: Option<&RunAs>, setting: &Setting) {
        let Self::Confined(active) = self else { return };
        if !active.lost {
            return;
        }
        // Its mount can be attached once. The host replaces a supervisor that has exited, with a new mount.
        if active.wanted.workspace.is_some() {
            std::process::exit(1);
        }
        match Active::make(active.wanted.clone(), active.key.clone(), None, groups, user, setting) {
            Ok(again) => **active = again,
            Err(error) => *self = Self::Refused(Failure::confining(&error)),
        }
    }

    /// Replaces the mount of the workspace.
    pub fn remount(&mut self, mount: &OwnedFd) -> Result<(), Problem> {
        match self {
            Self::Confined(active) if !active.lost => active.confined.remount(mount),
            _ => Err(Problem::Unchanged(io::Error::other("it has no namespaces"))),
        }
    }

    /// What reports that something may have to be [covered again](Enclosure::mask_again).
    pub fn masks(&self) -> Option<&Masks> {
        match self {
            Self::Confined(active) if !active.lost => active.confined.masks(),
            _ => None,
        }
    }

    /// Covers what programs of the machine have replaced. Exits if that fails: the host replaces this process, and all that
    /// it has started.
    pub fn mask_again(&mut self) {
        if let Self::Confined(active) = self
            && !active.lost
            && active.confined.mask_again().is_err()
        {
            std::process::exit(1);
        }
    }

    /// The confinement for a program that is about to start.
    pub fn confined(&self) -> Result<Option<&Confined>, Failure> {
        match self {
            Self::Open => Ok(None),
            Self::Confined(active) => Ok(Some(&active.confined)),
            Self::Refused(failure) => Err(failure.clone()),
        }
    }

    /// The init of the pid namespace, which adopts orphans instead of this process.
    pub fn init(&self) -> Option<Pid> {
        match self {
            Self::Confined(active) if !active.lost => active.confined.init().and_then(Pid::new),
            _ => None,
        }
    }

    /// True for a process that belongs to no command: the init or the broker.
    pub fn owns(&self, pid: Pid) -> bool {
        let broker = match self {
            Self::Confined(active) => active.confined.broker(),
            _ => None,
        };
        self.init() == Some(pid) || broker == Some(pid.raw())
    }

    /// Removes the confinement's files on disk. Everything that it confined is dead by then.
    pub fn clear(&self) {
        if let Self::Confined(active) = self {
            active.confined.clear();
        }
    }

    /// Starts the broker if it is not running. Only between messages: see [`Confined::ensure_broker`].
    pub fn ensure_broker(&mut self) {
        self.start_broker(&[]);
    }

    /// Starts the broker if it is not running and a program cannot start without it. `open`: the descriptors of the program.
    pub fn ensure_observer(&mut self, open: &[OwnedFd]) {
        if let Self::Confined(active) = self
            && active.confined.needs_broker()
        {
            self.start_broker(open);
        }
    }

    fn start_broker(&mut self, open: &[OwnedFd]) {
        if let Self::Confined(active) = self
            && let Err(error) = active.confined.ensure_broker(open)
        {
            let detail = format!("the broker of connections cannot start: {error}");
            *self = Self::Refused(Failure { step: StartStep::Isolation, errno: 0, detail });
        }
    }

    /// Records that a child has been reaped.
    pub fn reaped(&mut self, pid: Pid) {
        let init = self.init();
        let Self::Confined(active) = self else { return };
        active.lost |= init == Some(pid);
        active.confined.reaped(pid.raw());
    }
}

impl Active {
    fn make(
        wanted: Confinement,
        key: Key,
        workspace: Option<&OwnedFd>,
        groups: Option<&mut Groups>,
        user: Option<&RunAs>,
        setting: &Setting,
    ) -> io::Result<Self> {
        let Key { fork_key, channel_name, reports, command_name } = &key;
        let has_init = wanted.namespaces.is_some_and(|namespaces| namespaces.processes);
        let group = groups.filter(|_| has_init).and_then(|groups| groups.make("init"));
        let directory = group.as_ref().map(Group::open).transpose()?;
        let guards = [setting.host_pid, std::process::id() as i32];
        // Programs run as the same user, and must neither trace this process nor read its descriptors. Making it
        // non-dumpable prevents that, but also the mapping of users. So this setting follows the creation of
        // namespaces.
        nix::sys::prctl::set_dumpable(true)?;
        let owner = user.map(|user| (user.uid, user.gid));
        let group = directory.as_ref().map(AsFd::as_fd);
        let made = Confined::new(wanted.clone(), owner, Some(*fork_key), group, &guards, workspace);
        nix::sys::prctl::set_dumpable(false)?;
        let mut confined = made?;
        let channel_name = channel_name.as_bytes().to_vec();
        let policy = Policy {
            channel_name,
            command_name: command_name.as_ref().map(|name| name.as_bytes().to_vec()),
            supervisor: std::process::id(),
            user: user.cloned(),
            reports: reports.clone(),
        };
        let control = setting.control.try_clone()?;
        let connected = move |connection: Connection, socket: OwnedFd| {
            let report = match connection {
                Connection::Channel(pid) => Pid::new(pid).map(|pid| Report::Reconnected { pid }),
                Connection::Command => Some(Report::Called),
            };
            let _ = report.map(|report| message::send(control.as_fd(), &report, &[socket.as_fd()]));
        };
        confined.add_broker(policy, Box::new(connected))?;
        let init = confined.init().and_then(Pid::new);
        let sockets = confined.take_sockets();
        setting.report_with(&Report::Confined { init }, &sockets.iter().map(AsFd::as_fd).collect::<Vec<_>>());
        Ok(Self { confined, wanted, key, lost: false })
    }
}

fn read(file: OwnedFd) -> io::Result<Confinement> {
    let mut file = File::from(file);
    file.rewind()?;
    let mut bytes = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut bytes)?;
    message::decode(&bytes)
}
