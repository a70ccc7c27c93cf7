//! A shell and everything around it: the driver that talks to it, the supervisor that guards it, its state.

use super::listening::Happening;
use super::processes::{Midwives, Processes};
use crate::driver::Driver;
use crate::supervisor::Supervisor;
use nacre_containment::cgroup::Group;
use nacre_containment::pid::{Identity, Pid};
use nacre_containment::proc_table::{self, Stat};
use nacre_containment::signal;
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::unix::AsyncFd;
use tokio::time::{Instant, timeout};

/// What the shell is doing, as far as it has told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It has been given something to do, or is starting.
    Busy,
    /// It waits for a command.
    Ready,
    /// Its EXIT trap runs or its image is being replaced; it will be ready again.
    Ending,
    /// Its process is gone; the supervisor is there.
    Dead,
    /// The supervisor is gone, and the shell with it.
    Gone,
}

/// See the module.
pub struct Shell {
    /// The conversation.
    pub driver: Box<dyn Driver>,
    /// The guard.
    pub supervisor: Supervisor,
    /// Where it is in its life.
    pub phase: Phase,
    /// The shell's process.
    pub pid: Pid,
    /// The snapshot that stands by.
    pub standby: Option<Pid>,
    /// Something has run since the snapshot was taken.
    pub stale: bool,
    /// What has run since then and is finished may have changed the state: a background process must not start from the
    /// snapshot.
    pub outdated: bool,
    /// A snapshot is being made; off again when the fork has failed.
    pub snapshotting: bool,
    /// The background processes.
    pub processes: Processes,
    /// The shell is, or is about to be, a fork of one that has ended, and is to be renewed when there is time.
    pub handed_over: bool,
    /// The fork that an ending shell hands over to, and until when it waits for what the standby has been asked for.
    pub(super) successor: Option<(Pid, Instant)>,
    /// The standby is the fork that an ending shell hands over to: one only by name, which goes on with the loop when it is
    /// woken.
    pub succeeding: bool,
    /// In the phase of ending: the state is saved and the user's EXIT trap has run.
    pub saved: bool,
    /// `$PWD` at the last report.
    pub cwd: PathBuf,
    /// The shell died between the saving of its state and the start of the next image: the state is there.
    pub died_saving: bool,
    pub(super) group: Option<PathBuf>,
    owner: Option<(u32, u32)>,
    pub(super) isolated: bool,
    /// Earlier standbys, killed but perhaps not gone yet.
    pub(super) retired: Vec<Pid>,
    pub(super) control: [AsyncFd<Arc<OwnedFd>>; 2],
    pub(super) base: [AsyncFd<Arc<OwnedFd>>; 2],
    /// What the shell has printed outside of a command since the last [`Shell::take_base_output`].
    pub(super) base_output: [Vec<u8>; 2],
    pub(super) pending: VecDeque<Happening>,
}

/// How long the standby may be silent while it forks. It takes a millisecond or two.
pub(super) const FORK_LIMIT: Duration = Duration::from_secs(5);

impl Shell {
    /// Joins the parts; the shell itself is starting.
    pub fn new(
        driver: Box<dyn Driver>,
        supervisor: Supervisor,
        pid: Pid,
        group: Option<String>,
        cwd: PathBuf,
        owner: Option<(u32, u32)>,
    ) -> io::Result<Self> {
        let [control, standby_control] = driver.control();
        let [output, error] = driver.base_output();
        Ok(Self {
            control: [crate::sys::watch(control)?, crate::sys::watch(standby_control)?],
            base: [crate::sys::watch(output)?, crate::sys::watch(error)?],
            driver,
            supervisor,
            phase: Phase::Busy,
            pid,
            standby: None,
            stale: true,
            outdated: true,
            snapshotting: false,
            processes: Processes::default(),
            cwd,
            handed_over: false,
            successor: None,
            succeeding: false,
            saved: false,
            died_saving: false,
            group: group.map(PathBuf::from),
            owner,
            isolated: false,
            retired: Vec::new(),
            base_output: [Vec::new(), Vec::new()],
            pending: VecDeque::new(),
        })
    }

    /// Lends the parts of the shell that births need.
    pub fn with_processes<T>(&mut self, act: impl FnOnce(&mut Processes, &mut Midwives<'_>) -> T) -> T {
        let mut with = Midwives {
            driver: self.driver.as_mut(),
            supervisor: &self.supervisor,
            standby: self.standby.filter(|_| !self.succeeding),
            cwd: &self.cwd,
            owner: self.owner,
            grouped: self.group.is_some(),
        };
        act(&mut self.processes, &mut with)
    }

    /// Before the standby is replaced or becomes the shell: it is asked for no more forks. The one it is at work on is
    /// waited for; a standby that does not get done with it (it has been stopped, or can not fork) is ended.
    pub async fn retire_standby(&mut self) {
        self.with_processes(|processes, with| processes.hold(with));
        while !self.processes.is_idle() && self.phase != Phase::Gone {
            if timeout(FORK_LIMIT, self.next()).await.is_err() {
                self.with_processes(|processes, with| processes.fork_failed(with));
            }
        }
        self.with_processes(|processes, with| processes.hold(with));
    }

    /// A process of this session; a pid that belongs to somebody else by now finds nobody.
    pub(super) fn find(&self, pid: Pid) -> Option<Identity> {
        let session = self.supervisor.pid().raw();
        Stat::read(pid).filter(|stat| stat.session == session && stat.is_running()).map(|stat| stat.identity)
    }

    /// Somebody has stopped it.
    pub fn is_stopped(&self) -> bool {
        Stat::read(self.pid).is_some_and(|stat| stat.state == b'T')
    }

    /// Makes a shell that can not fork give up. Bash tries again for 15 s (process limits), sleeping in between until a
    /// signal comes; SIGCHLD is one that it expects at any time, so nothing else is disturbed by it. Its own forks, that
    /// want to fork in turn, are in the same case.
    pub fn give_up_forking(&self) {
        let Some(shell) = Stat::read(self.pid) else { return };
        let forks = proc_table::children(self.pid).into_iter().filter_map(Stat::read);
        let forks = forks.filter(|stat| proc_table::is_fork_of(stat, &shell)).map(|stat| stat.identity.pid);
        for identity in forks.chain([self.pid]).filter_map(|pid| self.find(pid)) {
            let _ = signal::send_to(identity, libc::SIGCHLD);
        }
    }

    /// When the supervisor is dead: the standby, if it lives, and who could still interfere with it, which are those that
    /// the supervisor should have killed, and the shell, which dies a moment after it.
    pub fn bereaved(&self) -> (Option<Identity>, Vec<Identity>) {
        let successor = self.successor.map(|(pid, _)| pid);
        let replaced = successor.and(self.standby);
        let others = self.retired.iter().copied().chain([self.pid]).chain(replaced).filter_map(|pid| self.find(pid));
        (successor.or(self.standby).and_then(|pid| self.find(pid)), others.chain(self.processes.waiting()).collect())
    }

    /// The driver alone, to be used with another supervisor.
    pub fn into_driver(self) -> Box<dyn Driver> {
        self.driver
    }

    /// The session's control group: the one above that of the foreground.
    pub fn session_group(&self) -> Option<Group> {
        self.group.as_ref().and_then(|group| group.parent()).map(Group::at)
    }
}
