//! A shell and everything around it: the driver that talks to it, the supervisor that guards it, its state.

use super::processes::{Midwives, Processes};
use crate::driver::{Driver, Event};
use crate::supervisor::Supervisor;
use nacre_containment::cgroup::Group;
use nacre_containment::pid::{Identity, Pid};
use nacre_containment::proc_table::{self, Stat};
use nacre_containment::signal;
use nacre_containment::wire::Report;
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::unix::AsyncFd;
use tokio::time::timeout;

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

/// Something that has happened.
#[derive(Clone, Debug)]
pub enum Happening {
    /// The shell has told something.
    Shell(Event),
    /// The supervisor has told something.
    Supervisor(Report),
    /// The supervisor is gone.
    SupervisorGone,
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
    control: [AsyncFd<Arc<OwnedFd>>; 2],
    base: [AsyncFd<Arc<OwnedFd>>; 2],
    /// What the shell has printed outside of a command since the last [`Shell::take_base_output`].
    base_output: [Vec<u8>; 2],
    pending: VecDeque<Happening>,
}

/// How long the standby may be silent while it forks. It takes a millisecond or two.
const FORK_LIMIT: Duration = Duration::from_secs(5);
/// What bash says when it can not fork, in front of the system's reason. Not translated.
const FORK_FAILS: &[u8] = b"fork: ";
/// Base output is kept for the moment a shell dies with a message; this much is enough for any.
const MOST_BASE_OUTPUT: usize = 64 * 1024;

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

    /// The next thing that happens. Cancel-safe. Keeps `phase`, `cwd` and the standby up to date, and lets a shell that
    /// has saved its state go on at once.
    pub async fn next(&mut self) -> Happening {
        loop {
            if let Some(mut happening) = self.pending.pop_front() {
                self.correct(&mut happening);
                self.note(&happening);
                self.with_processes(|processes, with| processes.note(&happening, with));
                return happening;
            }
            tokio::select! {
                biased;
                source = readable(&self.control) => self.read_control(source),
                report = self.supervisor.report(), if self.phase != Phase::Gone => {
                    if matches!(report, Some(Report::ProcessEnded { .. })) {
                        // It may have said why on a channel that is slower.
                        self.read_control(1);
                    }
                    self.pending.push_back(report.map_or(Happening::SupervisorGone, Happening::Supervisor));
                }
                source = readable(&self.base) => self.read_base(source),
            }
        }
    }

    /// Whether something has happened that [`Shell::next`] gives at once. Looks at what the shell tells, without waiting.
    pub fn poll(&mut self) -> bool {
        if self.driver.has_told() {
            self.read_control(0);
        }
        !self.pending.is_empty()
    }

    fn read_control(&mut self, source: usize) {
        let events = self.driver.events().unwrap_or_default();
        self.pending.extend(events.into_iter().map(Happening::Shell));
        clear(&self.control[source]);
    }

    fn read_base(&mut self, source: usize) {
        let kept = &mut self.base_output[source];
        loop {
            kept.reserve(4096);
            match crate::sys::read_spare(self.base[source].get_ref(), kept, usize::MAX) {
                Ok(count) if count > 0 => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                _ => break,
            }
        }
        let fork_failed = kept.windows(FORK_FAILS.len()).any(|window| window == FORK_FAILS);
        if fork_failed && self.snapshotting {
            self.snapshotting = false;
            self.base_output[1].clear();
            self.give_up_forking();
        } else if fork_failed {
            self.with_processes(|processes, with| processes.fork_failed(with));
        }
        let kept = &mut self.base_output[source];
        let excess = kept.len().saturating_sub(MOST_BASE_OUTPUT);
        kept.drain(..excess);
        clear(&self.base[source]);
    }

    /// `PWD` is a variable like any other: when it holds no directory the kernel is asked.
    fn correct(&self, happening: &mut Happening) {
        if let Happening::Shell(Event::Ready { cwd, .. } | Event::Ending { cwd, .. }) = happening
            && !cwd.is_absolute()
        {
            *cwd = std::fs::read_link(format!("/proc/{}/cwd", self.pid)).unwrap_or_else(|_| self.cwd.clone());
        }
    }

    /// Lends the parts of the shell that births need.
    pub fn with_processes<T>(&mut self, act: impl FnOnce(&mut Processes, &mut Midwives<'_>) -> T) -> T {
        let mut with = Midwives {
            driver: self.driver.as_mut(),
            supervisor: &self.supervisor,
            // A successor is a standby only by name: it goes on with the loop when it is woken.
            standby: self.standby.filter(|_| !self.handed_over),
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

    /// Continues it.
    pub fn go_on(&self) {
        if let Some(identity) = self.find(self.pid) {
            let _ = signal::send_to(identity, libc::SIGCONT);
        }
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
        let others = self.retired.iter().copied().chain([self.pid]).filter_map(|pid| self.find(pid));
        (self.standby.and_then(|pid| self.find(pid)), others.chain(self.processes.waiting()).collect())
    }

    /// What the shell has printed outside of commands since the last call.
    pub fn take_base_output(&mut self) -> [Vec<u8>; 2] {
        self.read_base(0);
        self.read_base(1);
        std::mem::take(&mut self.base_output)
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

/// Which of two descriptors is readable.
async fn readable(pair: &[AsyncFd<Arc<OwnedFd>>; 2]) -> usize {
    tokio::select! {
        biased;
        Ok(_) = pair[0].readable() => 0,
        Ok(_) = pair[1].readable() => 1,
        else => std::future::pending().await,
    }
}

/// Forgets readiness after everything has been read. Safe because the reactor runs on this very thread: nothing can have
/// been noticed between the read and this call.
fn clear(fd: &AsyncFd<Arc<OwnedFd>>) {
    let _ = fd.try_io(tokio::io::Interest::READABLE, |_| Err::<(), _>(io::ErrorKind::WouldBlock.into()));
}
