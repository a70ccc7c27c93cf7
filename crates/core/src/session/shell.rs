//! A shell and everything around it: the driver that talks to it, the supervisor that guards it, its state.

use crate::driver::{Driver, Event};
use crate::supervisor::Supervisor;
use nacre_containment::cgroup::Group;
use nacre_containment::pid::Pid;
use nacre_containment::proc_table;
use nacre_containment::wire::{Order, Report};
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::io::unix::AsyncFd;

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
    /// The shell is, or is about to be, a fork of one that has ended, and is to be renewed when there is time.
    pub handed_over: bool,
    /// In the phase of ending: the state is saved and the user's EXIT trap has run.
    pub saved: bool,
    /// `$PWD` at the last report.
    pub cwd: PathBuf,
    /// The shell died between the saving of its state and the start of the next image: the state is there.
    pub died_saving: bool,
    group: Option<PathBuf>,
    isolated: bool,
    /// Earlier standbys, killed but perhaps not gone yet.
    retired: Vec<Pid>,
    control: [AsyncFd<Arc<OwnedFd>>; 2],
    base: [AsyncFd<Arc<OwnedFd>>; 2],
    /// What the shell has printed outside of a command since the last [`Shell::take_base_output`].
    base_output: [Vec<u8>; 2],
    pending: VecDeque<Happening>,
}

/// What the last processes of a finished command may take to end.
const LEAVING: std::time::Duration = std::time::Duration::from_millis(1);
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
            cwd,
            handed_over: false,
            saved: false,
            died_saving: false,
            group: group.map(PathBuf::from),
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
                return happening;
            }
            tokio::select! {
                biased;
                source = readable(&self.control) => self.read_control(source),
                report = self.supervisor.report(), if self.phase != Phase::Gone => {
                    self.pending.push_back(report.map_or(Happening::SupervisorGone, Happening::Supervisor));
                }
                source = readable(&self.base) => self.read_base(source),
            }
        }
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

    fn note(&mut self, happening: &Happening) {
        match happening {
            Happening::Shell(Event::Ready { cwd, .. }) => {
                self.phase = Phase::Ready;
                self.cwd.clone_from(cwd);
            }
            Happening::Shell(Event::Ending { cwd, .. }) => {
                self.phase = Phase::Ending;
                self.saved = false;
                self.stale = true;
                self.cwd.clone_from(cwd);
            }
            Happening::Shell(Event::Saved) => {
                self.handed_over = false;
                if self.phase == Phase::Gone {
                    return;
                }
                self.phase = Phase::Ending;
                self.saved = true;
                if self.driver.resume().is_err() {
                    self.supervisor.order(&Order::KillShell);
                }
            }
            Happening::Shell(Event::Standby { pid }) => {
                self.retired.extend(self.standby.replace(*pid));
                self.supervisor.order(&Order::Standby { pid: Some(*pid) });
            }
            // Known as the standby from here on: when the old shell has left, it is promoted like one. The order of the
            // two channels does not matter: the old shell leaves only after this.
            Happening::Shell(Event::Successor { pid }) => {
                self.retired.extend(self.standby.replace(*pid));
                self.supervisor.order(&Order::Standby { pid: Some(*pid) });
                self.handed_over = true;
                if self.driver.dismiss().is_err() {
                    self.supervisor.order(&Order::KillShell);
                }
            }
            Happening::Supervisor(Report::ShellEnded { .. }) => {
                self.died_saving = self.phase == Phase::Ending;
                self.phase = Phase::Dead;
            }
            Happening::Supervisor(Report::Promoted { shell }) => {
                self.standby = None;
                self.stale = true;
                if let Some(shell) = shell {
                    self.pid = *shell;
                }
            }
            Happening::Supervisor(Report::Started { shell, group }) => {
                // Not the phase: the shell may have told that it is ready before this came through the other channel.
                self.pid = *shell;
                self.group = group.as_ref().map(PathBuf::from);
                self.stale = true;
            }
            Happening::Supervisor(Report::Rotated { group }) => self.group = group.as_ref().map(PathBuf::from),
            Happening::SupervisorGone => self.phase = Phase::Gone,
            Happening::Supervisor(Report::Killed { .. } | Report::StartFailed { .. }) => {}
        }
    }

    /// What the shell has printed outside of commands since the last call.
    pub fn take_base_output(&mut self) -> [Vec<u8>; 2] {
        self.read_base(0);
        self.read_base(1);
        std::mem::take(&mut self.base_output)
    }

    /// Does for the next command what can be done before it is there.
    pub async fn get_ready(&mut self) {
        if self.phase == Phase::Ready {
            drop(self.take_base_output());
            self.driver.prepare_streams();
            self.isolate().await;
        }
    }

    /// Makes sure that the next command can be told from what earlier ones left running: they stay behind in their
    /// control group. Once done it holds until a command has run: only a command can make new processes here.
    pub async fn isolate(&mut self) {
        let Some(group) = self.group.clone().filter(|_| !self.isolated) else { return };
        self.isolated = true;
        let group = Group::at(group);
        if !self.has_strangers(&group) {
            return;
        }
        // Moving a process to another group can take the kernel milliseconds. Perhaps these are only on their way out.
        tokio::time::sleep(LEAVING).await;
        if !self.has_strangers(&group) {
            return;
        }
        self.supervisor.order(&Order::Rotate);
        loop {
            match self.next().await {
                Happening::Supervisor(Report::Rotated { .. }) | Happening::SupervisorGone => return,
                _ => {}
            }
        }
    }

    fn has_strangers(&mut self, group: &Group) -> bool {
        let Ok(members) = group.members() else { return false };
        self.retired.retain(|pid| members.contains(pid));
        members.iter().any(|pid| *pid != self.pid && Some(*pid) != self.standby && !self.retired.contains(pid))
    }

    /// A command begins. Gives the roots of older trees that are to be spared when it is killed: none where control
    /// groups keep the two apart.
    pub fn begin_command(&mut self) -> Vec<Pid> {
        self.isolated = false;
        self.phase = Phase::Busy;
        self.stale = true;
        if self.group.is_some() {
            return Vec::new();
        }
        [self.pid, self.supervisor.pid()]
            .into_iter()
            .flat_map(proc_table::children)
            .filter(|pid| *pid != self.pid && Some(*pid) != self.standby)
            .take(4096)
            .collect()
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
