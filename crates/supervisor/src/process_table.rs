//! The processes of the session and their roles: the shell, its standby, the foreground command, background processes.

mod freeze;
mod members;
mod remount;

use crate::adopter::Adopter;
use crate::enclosure::{Enclosed, Enclosure, Key};
use crate::groups::Groups;
use crate::helpers::Helpers;
use crate::last_state::Keeping;
use crate::process_setup::Setting;
use crate::processes::Processes;
use crate::spawn::{Failure, Plan, Tie, c_string};
use crate::standing::Standing;
use freeze::Freeze;
use nacre_containment::cgroup::{self, Group};
use nacre_containment::descent_mark;
use nacre_containment::limits::Limits;
use nacre_containment::pid::{Identity, Pid};
use nacre_containment::proc_table::Stat;
use nacre_containment::signal;
use nacre_containment::tree::{MARK, Tree};
use nacre_protocol::supervisor::{ForegroundGroup, LimitProblem, Report, Role, Setup, StartStep};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A program that the host orders the supervisor to start.
pub struct Program {
    /// Its role.
    pub role: Role,
    /// Arguments after argv\[0\].
    pub arguments: Vec<String>,
    /// Its descriptors.
    pub descriptors: Vec<OwnedFd>,
    /// The number of its first descriptor; lower numbers are `/dev/null`.
    pub first_descriptor: i32,
    /// Whether it starts in `/` if the session's initial directory cannot be entered.
    pub anywhere: bool,
}

/// The role of a reaped child.
#[derive(Debug, PartialEq, Eq)]
pub enum Reaped {
    /// The session's shell.
    Shell,
    /// The standby.
    Standby,
    /// A background process.
    Process(u64),
    /// An orphan of a command.
    Orphan,
}

struct Standby {
    pid: Pid,
    /// Its own group. A standby without one is in the shell's group.
    group: Option<Group>,
}

/// See the module.
pub struct ProcessTable {
    own: Pid,
    shell: Option<Pid>,
    /// The command line of a shell, as it was started.
    shell_line: Vec<u8>,
    standby: Option<Standby>,
    /// Replaced standbys, which have got SIGKILL.
    retired: Vec<Pid>,
    /// The background processes.
    pub processes: Processes,
    groups: Option<Groups>,
    /// The [`descent_mark`] of the shell, if there are no groups and it is known.
    descent: Option<u64>,
    /// The confinement of what is started.
    pub enclosure: Enclosure,
    /// What adopts orphans, unless the confinement has a pid namespace.
    adopter: Adopter,
    /// Forks of the shell or the standby may appear, which the host will name.
    pub expects_forks: bool,
    /// The files helpers.
    pub helpers: Helpers,
    freeze: Option<Freeze>,
    /// What asks for the last state of a session that is kept.
    pub keeping: Option<Keeping>,
}

impl ProcessTable {
    /// Creates the control groups, if requested. A failure is no error: the subreaper alone is complete, only slower. But a
    /// session outside of its sandbox's group would be outside of the sandbox's limits, so nothing starts in it then.
    pub fn new(setup: &Setup, adopter: Adopter) -> Self {
        let (mut groups, mut enclosure) = (None, Enclosure::Open);
        if let Some(path) = setup.group.as_ref().map(Path::new) {
            match Groups::create(path) {
                Ok(created) => groups = Some(created),
                Err(error) if path.parent().is_some_and(cgroup::is_of_sandbox) => {
                    enclosure = Enclosure::Refused(Failure::new(StartStep::Group, &error));
                }
                Err(_) => {}
            }
        }
        let own = Pid::new(std::process::id() as i32).expect("a supervisor is never init");
        Self {
            own,
            shell: None,
            shell_line: Vec::new(),
            standby: None,
            retired: Vec::new(),
            processes: Processes::default(),
            groups,
            descent: None,
            enclosure,
            adopter,
            expects_forks: false,
            helpers: Helpers::default(),
            freeze: None,
            keeping: None,
        }
    }

    /// Confines every program from now on; see [`Enclosure::confine`].
    pub fn confine(&mut self, enclosed: Enclosed, key: Key, setup: &Setup, setting: &Setting) {
        let (groups, user) = (self.groups.as_mut(), setup.user.as_ref());
        self.enclosure.confine(enclosed, key, &self.adopter, groups, user, setting);
    }

    /// Starts a files helper. Under a failed confinement there is none: the socket closes.
    pub fn start_helper(&mut self, socket: OwnedFd, setup: &Setup, setting: &Setting) {
        self.enclosure.restore(self.groups.as_mut(), setup.user.as_ref(), setting);
        if self.groups.is_none() {
            // The last one may be that of a process, whose kill would end the helper.
            let _ = descent_mark::give(self.own, descent_mark::fresh(self.own));
        }
        if let Ok(confined) = self.enclosure.confined() {
            self.helpers.start(socket, &Standing { confined, ..Standing::of(setup) });
        }
    }

    /// Starts a program in its role. Returns its identity and the directory of its group.
    pub fn start(
        &mut self,
        program: &Program,
        setup: &Setup,
        setting: &Setting,
    ) -> Result<(Identity, Option<String>), Failure> {
        self.enclosure.restore(self.groups.as_mut(), setup.user.as_ref(), setting);
        self.enclosure.ensure_observer(&program.descriptors);
        self.ensure_adopter(setting)?;
        self.mark_next(&program.role);
        let confined = self.enclosure.confined()?;
        let argv = ["bash"].into_iter().chain(program.arguments.iter().map(String::as_str));
        let marked = |mark: &str| c_string(format!("{MARK}={mark}").as_bytes());
        let (group, limited, variable, tie) = match &program.role {
            Role::Shell | Role::Command => {
                let group = self.groups.as_ref().map(|groups| groups.foreground().clone());
                let tie = if program.role == Role::Shell { Tie::Shell } else { Tie::Dependent };
                (group, Ok(()), None, tie)
            }
            Role::Process { mark, limits, terminal, .. } => {
                let group = self.groups.as_mut().and_then(|groups| groups.make("p"));
                let limited = self.limit(group.as_ref(), limits);
                (group, limited, Some(marked(mark)), if *terminal { Tie::Terminal } else { Tie::Process })
            }
        };
        let null = (0..program.first_descriptor).map(|_| setting.null.as_fd());
        let mut plan = Plan {
            programs: vec![c_string(setup.shell.as_bytes())],
            argv: argv.map(|word| c_string(word.as_bytes())).collect(),
            variable,
            cwd: setup.cwd.as_ref(),
            anywhere: program.anywhere,
            group: group.as_ref(),
            standing: Standing { confined, ..Standing::of(setup) },
            descriptors: null.chain(program.descriptors.iter().map(AsFd::as_fd)).collect(),
            tie,
        };
        let unlimited = || Failure::new(StartStep::Limits, &io::Error::from_raw_os_error(libc::EINVAL));
        let mut started = limited.map_err(|_| unlimited()).and_then(|()| plan.start());
        let refusal = |started: &Result<Pid, Failure>| {
            started.as_ref().err().filter(|failure| failure.step == StartStep::Group).map(|failure| failure.errno)
        };
        // A command may have taken the permissions for it away.
        if let (Some(libc::EACCES), Some(group)) = (refusal(&started), &group) {
            cgroup::restore_permissions(group.path());
            started = plan.start();
        }
        if refusal(&started).is_some() && self.groups.as_ref().is_none_or(|groups| groups.sandbox().is_none()) {
            // A hierarchy may refuse processes (a controller enabled in the parent): continue without groups, unless the
            // limits of the whole sandbox are there.
            plan.group = None;
            started = match &program.role {
                Role::Process { limits, .. } if !limits.is_empty() => Err(unlimited()),
                _ => plan.start(),
            };
            if let Some(refused) = self.groups.take() {
                let _ = refused.session().remove();
            }
        }
        let placed = plan.group.cloned();
        let pid = started.inspect_err(|_| {
            if let (Role::Process { .. }, Some(group)) = (&program.role, &placed) {
                let _ = group.remove_alone();
            }
        })?;
        // It is an unreaped child, so it can be read even after it has ended.
        let identity = Stat::read(pid).map_or(Identity { pid, start_ticks: 0 }, |stat| stat.identity);
        match &program.role {
            Role::Shell | Role::Command => {
                self.shell = Some(pid);
                self.shell_line = plan.argv.iter().flat_map(|word| word.as_bytes_with_nul()).copied().collect();
            }
            Role::Process { key, mark, .. } => {
                self.processes.add(*key, self.tree(identity, placed.clone(), mark.clone(), Vec::new()), None);
            }
        }
        Ok((identity, placed.map(|group| group.path().display().to_string())))
    }

    /// Makes sure that something adopts the orphans of the next program. Exits if that has ended: the host replaces this process.
    fn ensure_adopter(&mut self, setting: &Setting) -> Result<(), Failure> {
        if self.enclosure.init().is_some() {
            return Ok(());
        }
        if self.adopter.is_lost() {
            std::process::exit(1);
        }
        let before = self.adopter.init();
        self.adopter.ensure().map_err(|error| Failure::new(StartStep::Prepare, &error))?;
        if let Some(init) = self.adopter.init().filter(|init| Some(*init) != before) {
            setting.report(&Report::Orphans { init });
        }
        Ok(())
    }

    /// True for a process that belongs to no command: the init of a pid namespace, or a broker.
    fn owns(&self, pid: Pid) -> bool {
        self.enclosure.owns(pid) || self.adopter.init() == Some(pid)
    }

    /// The session's shell; `None` between its death and the next shell, since a reaped pid is meaningless.
    pub fn shell(&self) -> Option<Pid> {
        self.shell
    }

    /// The standby's process.
    pub fn standby(&self) -> Option<Pid> {
        self.standby.as_ref().map(|standby| standby.pid)
    }

    /// The directory of the group where foreground commands run.
    pub fn group_directory(&self) -> Option<String> {
        self.groups.as_ref().map(|groups| groups.foreground().path().display().to_string())
    }

    /// That group, with the shell in it.
    pub fn foreground_group(&self) -> ForegroundGroup {
        ForegroundGroup { shell: self.shell, directory: self.group_directory() }
    }

    /// Replaces the standby and kills the previous one, which is a child that has not been reaped.
    pub fn set_standby(&mut self, pid: Pid, group: Option<&String>) -> bool {
        if !self.is_child(pid) {
            return false;
        }
        let group = self.groups.as_ref().and_then(|groups| groups.named(group));
        if let (None, Some(groups)) = (&group, &self.groups) {
            // The shell may have left their group after the fork.
            let shells = groups.foreground();
            if !shells.members().is_ok_and(|members| members.contains(&pid)) {
                let _ = shells.add(pid);
            }
        }
        if let Some(old) = self.standby.replace(Standby { pid, group }) {
            let _ = signal::send_to_child(old.pid, libc::SIGKILL);
            self.retired.push(old.pid);
            self.release(old.group);
        }
        true
    }

    /// Makes the standby, if it is alive, the shell, and its group the foreground group.
    pub fn promote(&mut self) -> Option<Pid> {
        let standby = self.standby.take()?;
        self.keeping.iter_mut().for_each(Keeping::promote);
        (self.shell, self.descent) = (Some(standby.pid), None);
        if let (Some(groups), Some(group)) = (&mut self.groups, standby.group) {
            groups.switch_foreground(group);
        }
        self.shell
    }

    /// Makes a fork of the shell or standby a background process.
    pub fn adopt(
        &mut self,
        key: u64,
        pid: Pid,
        group: Option<&String>,
        mark: String,
        limits: &Limits,
    ) -> (Option<Identity>, Option<String>, Option<LimitProblem>) {
        if !self.is_child(pid) {
            return (None, None, None);
        }
        let Some(stat) = Stat::read(pid) else { return (None, None, None) };
        let mut own_group = self.groups.as_ref().and_then(|groups| groups.named(group));
        if own_group.is_none() {
            // It could not be born in its group: a session with its own user must not choose groups.
            own_group = self.groups.as_mut().and_then(|groups| groups.make("p"));
            own_group = own_group.filter(|group| group.add(pid).is_ok());
        }
        if self.groups.is_none() {
            // No command of the process runs yet.
            let _ = descent_mark::give(pid, descent_mark::named(self.own, &mark));
        }
        let problem = self.limit(own_group.as_ref(), limits).err();
        let directory = own_group.as_ref().map(|group| group.path().display().to_string());
        self.processes.add(key, self.tree(stat.identity, own_group, mark, Vec::new()), None);
        (Some(stat.identity), directory, problem)
    }

    /// Makes the shell a background process with the foreground group, and the standby, if there is one, the shell. Returns
    /// the process and the directory of its group; no process if the shell has ended. `command`, `spare`: see
    /// [`Order::Detach`](nacre_protocol::supervisor::Order::Detach).
    pub fn detach(
        &mut self,
        key: u64,
        mark: String,
        command: Option<u64>,
        spare: Vec<Pid>,
    ) -> (Option<Identity>, Option<String>) {
        let detached = self.shell.take().and_then(Stat::read).map(|stat| stat.identity);
        let standby = self.standby.take();
        self.keeping.iter_mut().for_each(Keeping::promote);
        (self.shell, self.descent) = (standby.as_ref().map(|standby| standby.pid), None);
        let group = self
            .groups
            .as_mut()
            .and_then(|groups| groups.hand_over_foreground(standby.map(|standby| (standby.pid, standby.group))));
        let directory = group.as_ref().map(|group| group.path().display().to_string());
        match detached {
            Some(root) => self.processes.add(key, self.tree(root, group, mark, spare), command),
            None => self.release(group),
        }
        (detached, directory.filter(|_| detached.is_some()))
    }

    fn tree(&self, root: Identity, group: Option<Group>, mark: String, spare: Vec<Pid>) -> Tree {
        Tree { root, group, mark, guardian: self.own, spare }
    }

    fn limit(&self, group: Option<&Group>, limits: &Limits) -> Result<(), LimitProblem> {
        if limits.is_empty() {
            return Ok(());
        }
        let (Some(group), Some(groups)) = (group, &self.groups) else {
            return Err(LimitProblem::NoGroup);
        };
        limits.enable_below(groups.session().path())?;
        limits.apply(group).map_err(|error| LimitProblem::Refused { errno: error.raw_os_error().unwrap_or(libc::EIO) })
    }

    /// True for a child of this process that has not been reaped: its pid cannot belong to another process.
    fn is_child(&self, pid: Pid) -> bool {
        Stat::read(pid).is_some_and(|stat| stat.parent == self.own.raw())
    }

    /// Moves the shell to a new foreground group; all other processes stay in the current one. Changes nothing if the
    /// shell cannot be moved. Without groups, the shell gets a new mark.
    pub fn rotate(&mut self) {
        let Some(groups) = &mut self.groups else {
            let _ = self.shell.map(|shell| descent_mark::give(shell, descent_mark::fresh(self.own)));
            return;
        };
        let Some(fresh) = groups.make("fg") else { return };
        let is_left = |error: io::Error| error.raw_os_error() != Some(libc::ESRCH);
        if self.shell.is_some_and(|shell| fresh.add(shell).is_err_and(is_left)) {
            return groups.remove_when_empty(fresh);
        }
        if let Some(sheltered) = self.standby.as_ref().filter(|standby| standby.group.is_none()) {
            let _ = fresh.add(sheltered.pid);
        }
        groups.switch_foreground(fresh);
    }

    /// Without groups, marks this process, and so what it starts next.
    fn mark_next(&mut self, role: &Role) {
        if self.groups.is_some() {
            return;
        }
        let mark = match role {
            Role::Shell | Role::Command => descent_mark::fresh(self.own),
            Role::Process { mark, .. } => descent_mark::named(self.own, mark),
        };
        let marked = descent_mark::give(self.own, mark);
        if !matches!(role, Role::Process { .. }) {
            self.descent = marked.is_ok().then_some(mark);
        }
    }

    /// Records the mark of the shell, which runs a command. Not earlier: a standby that has just been forked still has that of its
    /// parent. If the command has changed the limit, the mark before it stays.
    pub fn note_descent(&mut self) {
        let shell = self.shell.filter(|_| self.groups.is_none());
        let mark = shell.and_then(|shell| descent_mark::of(shell, self.own).ok().flatten());
        self.descent = mark.or(self.descent);
    }

    /// Records that a child has been reaped: from now on its pid may belong to any process.
    pub fn reaped(&mut self, pid: Pid) -> Reaped {
        self.enclosure.reaped(pid);
        self.adopter.reaped(pid);
        self.retired.retain(|retired| *retired != pid);
        if let Some(standby) = self.standby.take_if(|standby| standby.pid == pid) {
            self.release(standby.group);
            self.keeping.iter_mut().for_each(Keeping::standby_ended);
            return Reaped::Standby;
        }
        if self.shell == Some(pid) {
            self.shell = None;
            self.keeping.iter_mut().for_each(Keeping::shell_ended);
            return Reaped::Shell;
        }
        self.helpers.reaped(pid);
        self.processes.reaped(pid).map_or(Reaped::Orphan, Reaped::Process)
    }

    fn release(&mut self, group: Option<Group>) {
        if let (Some(groups), Some(group)) = (&mut self.groups, group) {
            groups.remove_when_empty(group);
        }
    }

    /// Forgets ended processes and removes empty groups.
    pub fn tidy(&mut self) {
        self.processes.tidy();
        if let Some(groups) = &mut self.groups {
            groups.tidy();
        }
    }

    /// See [`Groups::watched`].
    pub fn watched_groups(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.groups.iter().flat_map(Groups::watched)
    }

    /// Moves the shell out of the foreground group, which can then be killed as a whole. Returns that group; `None` without
    /// groups, or if the shell is still in it.
    pub fn leave_foreground_group(&mut self) -> Option<Group> {
        let left = self.groups.as_ref()?.foreground().clone();
        self.rotate();
        self.groups.as_ref().is_some_and(|groups| *groups.foreground() != left).then_some(left)
    }

    /// Sends a signal to the shell and the standby.
    pub fn signal_shells(&self, number: i32) {
        for pid in self.shell.into_iter().chain(self.standby()) {
            let _ = signal::send_to_child(pid, number);
        }
    }

    /// Removes the session's groups, which must be empty, and the files of its confinement on disk.
    pub fn remove_groups(&self, host_lives: bool) -> bool {
        self.enclosure.clear();
        self.groups.as_ref().is_none_or(|groups| groups.remove_all(host_lives))
    }
}

#[cfg(test)]
#[path = "process_table_tests.rs"]
mod tests;
