//! Who is who among the session's processes: the shell, its standby, the foreground command, background processes.

use crate::arguments::Arguments;
use crate::hygiene::Setting;
use crate::processes::Processes;
use crate::shell::{self, Failure};
use nacre_containment::cgroup::{self, Group};
use nacre_containment::limits::Limits;
use nacre_containment::pid::Pid;
use nacre_containment::proc_table::{self, Stat};
use nacre_containment::signal;
use std::collections::HashSet;
use std::path::Path;

/// The session's control groups: one for the session, and inside it one for each stretch of commands that left
/// background jobs behind. (Those of background processes are the business of [`Processes`].)
struct Groups {
    session: Group,
    foreground: Group,
    /// Groups that older background jobs still live in.
    older: Vec<Group>,
    made: u64,
}

impl Groups {
    /// Removes the group of the whole sandbox, if this was the last session in it. It is ours when it is called so; it
    /// stays when another session is in it. Always true.
    fn leave_parent(&self) -> bool {
        let sandbox = self.session.path().parent().filter(|path| cgroup::is_of_sandbox(path));
        sandbox.is_none_or(|path| std::fs::remove_dir(path).is_ok() || path.exists())
    }
}

/// Whom a reaped child has been.
pub enum Reaped {
    /// The session's shell.
    Shell,
    /// The standby.
    Standby,
    /// A background process.
    Process(u64),
    /// An orphan that nobody asked about.
    Orphan,
}

/// Everything the supervisor knows about its processes.
pub struct Family {
    own: Pid,
    /// The session's shell; `None` between its death and the next one, since a reaped pid means nothing any more.
    pub shell: Option<Pid>,
    /// A fork of the shell that waits.
    pub standby: Option<Pid>,
    /// What was started in the background by name.
    pub processes: Processes,
    groups: Option<Groups>,
}

impl Family {
    /// Makes the control groups, when asked to, and starts the shell in them. A group that can not be made is no error:
    /// the subreaper alone is complete, only slower.
    pub fn start(arguments: &Arguments, setting: &Setting) -> Result<Self, Failure> {
        let mut groups = arguments.group.as_ref().and_then(|(parent, name)| {
            let session = Group::create(parent, name).ok()?;
            match Group::create(session.path(), "fg-0") {
                Ok(foreground) => Some(Groups { session, foreground, older: Vec::new(), made: 1 }),
                Err(_) => {
                    let _ = session.remove();
                    None
                }
            }
        });
        let shell = shell::start(arguments, setting, groups.as_ref().map(|groups| &groups.foreground), &arguments.cwd)
            .or_else(|failure| {
                // A hierarchy can refuse processes (a controller turned on in the parent): go on without it.
                match groups.take() {
                    Some(refused) => {
                        let _ = refused.session.remove();
                        shell::start(arguments, setting, None, &arguments.cwd)
                    }
                    None => Err(failure),
                }
            })?;
        let own = Pid::new(std::process::id() as i32).expect("a supervisor is never init");
        Ok(Self { own, shell: Some(shell), standby: None, processes: Processes::default(), groups })
    }

    /// This process.
    pub fn own(&self) -> Pid {
        self.own
    }

    /// Directory of the group that foreground commands run in.
    pub fn group_directory(&self) -> Option<String> {
        self.groups.as_ref().map(|groups| groups.foreground.path().display().to_string())
    }

    /// Leaves everything that lives in the present foreground group there and moves the shell to a fresh one.
    pub fn rotate(&mut self) {
        let Some(groups) = &mut self.groups else { return };
        groups.older.retain(|group| group.remove().is_err());
        let Ok(fresh) = Group::create(groups.session.path(), &format!("fg-{}", groups.made)) else { return };
        groups.made += 1;
        let standby = self.standby.filter(|_| !self.processes.shelter_standby());
        for pid in self.shell.into_iter().chain(standby) {
            let _ = fresh.add(pid);
        }
        let before = std::mem::replace(&mut groups.foreground, fresh);
        if before.remove().is_err() {
            groups.older.push(before);
        }
    }

    /// Replaces the standby. The old one is our own unreaped child, so its number is still its own.
    ///
    /// Its end is waited for. Both wait for a byte on the same pipe, and a process that has been sent SIGKILL but has not
    /// run since is still in the kernel's queue of readers: it would take the byte that wakes the new one, and die with it.
    ///
    /// False when the new one may have been killed, and reaped as somebody unknown, before the host's word of it was here:
    /// its number may be anybody's by now, so the old one is kept. One that is still there can only be reaped after this.
    pub fn set_standby(&mut self, pid: Pid) -> bool {
        if Stat::read(pid).is_none_or(|stat| stat.session != self.own.raw()) {
            return false;
        }
        if let Some(old) = self.standby.replace(pid) {
            end(old);
        }
        self.place_standby();
        true
    }

    /// Kills the standby and its forks that are not born yet.
    pub fn dismiss_standby(&mut self) -> Option<Pid> {
        let standby = self.standby.take()?;
        let unborn = proc_table::descendants(&[standby], &HashSet::new());
        end(standby);
        unborn.iter().for_each(|stat| drop(signal::send_to(stat.identity, libc::SIGKILL)));
        self.processes.abandon_nursery();
        Some(standby)
    }

    /// Puts the standby where the next background process is to be born.
    pub fn place_standby(&mut self) -> Option<Pid> {
        let standby = self.standby?;
        self.processes.place(standby, self.groups.as_ref().map(|groups| groups.session.path()));
        Some(standby)
    }

    /// Puts a background process under its limits.
    pub fn limit(&self, key: u64, limits: &Limits) -> Result<(), String> {
        if limits.is_empty() {
            return Ok(());
        }
        let group = self.processes.tree(key).and_then(|tree| tree.group.as_ref());
        let (Some(group), Some(groups)) = (group, &self.groups) else {
            return Err("it has no control group of its own".into());
        };
        limits.enable_below(groups.session.path())?;
        limits.apply(group).map_err(|error| format!("its control group does not take them: {error}"))
    }

    /// The standby, if it lives, becomes the shell, in the present foreground group.
    pub fn promote_standby(&mut self) -> Option<Pid> {
        self.shell = self.standby.take();
        if let (Some(groups), Some(shell)) = (&self.groups, self.shell) {
            let _ = groups.foreground.add(shell);
        }
        self.shell
    }

    /// Starts another shell beside what the dead one left. The first directory may be gone by now; the shell then starts
    /// at the root and goes where its restored state says.
    pub fn respawn(&mut self, arguments: &Arguments, setting: &Setting) -> Result<Pid, Failure> {
        let group = self.groups.as_ref().map(|groups| &groups.foreground);
        let shell = shell::start(arguments, setting, group, &arguments.cwd)
            .or_else(|_| shell::start(arguments, setting, group, Path::new("/")))?;
        self.shell = Some(shell);
        Ok(shell)
    }

    /// Takes note that a child has been reaped: from here on its pid may belong to anybody.
    pub fn reaped(&mut self, pid: Pid) -> Reaped {
        if self.standby == Some(pid) {
            self.standby = None;
            return Reaped::Standby;
        }
        if self.shell == Some(pid) {
            self.shell = None;
            return Reaped::Shell;
        }
        self.processes.reaped(pid).map_or(Reaped::Orphan, Reaped::Process)
    }

    /// The processes of the foreground command: the members of its group, or, without groups, every descendant that is
    /// neither below one of the `spare` roots nor a background process's. The shell and its standby are never among them.
    pub fn foreground(&self, spare: &[Pid]) -> Vec<Stat> {
        let keep: HashSet<Pid> = spare.iter().copied().chain(self.standby).collect();
        let listed: Vec<Stat> = match self.groups.as_ref().and_then(|groups| groups.foreground.members().ok()) {
            Some(members) => members.into_iter().filter(|pid| !keep.contains(pid)).filter_map(Stat::read).collect(),
            None => {
                let keep = keep.into_iter().chain(self.processes.roots()).collect();
                let below = proc_table::descendants(&[self.own], &keep);
                below.into_iter().filter(|stat| !self.processes.own(stat)).collect()
            }
        };
        listed.into_iter().filter(|stat| Some(stat.identity.pid) != self.shell && stat.is_running()).collect()
    }

    /// SIGKILL for the whole foreground group at once, after the shell has been taken out of it. Gives the group, or
    /// nothing where groups are not used.
    pub fn kill_foreground_group(&mut self) -> Option<Group> {
        let doomed = self.groups.as_ref()?.foreground.clone();
        self.rotate();
        let moved = self.groups.as_ref().is_some_and(|groups| groups.foreground != doomed);
        (moved && doomed.kill().is_ok()).then_some(doomed)
    }

    /// Everything below this process except shell and standby.
    pub fn workload(&self) -> Vec<Stat> {
        let mut all = proc_table::descendants(&[self.own], &HashSet::new());
        all.retain(|stat| stat.is_running() && ![self.shell, self.standby].contains(&Some(stat.identity.pid)));
        all
    }

    /// SIGKILL to all descendants, by group and by walking.
    pub fn kill_all(&self) {
        if let Some(groups) = &self.groups {
            let _ = groups.session.kill();
        }
        for stat in proc_table::descendants(&[self.own], &HashSet::new()) {
            let _ = signal::send_to(stat.identity, libc::SIGKILL);
        }
    }

    /// Removes the session's groups; they must be empty.
    pub fn remove_groups(&self) -> bool {
        self.groups.as_ref().is_none_or(|groups| groups.session.remove().is_ok() && groups.leave_parent())
    }
}

/// Kills a child that has not been reaped, and waits until it has ended.
fn end(child: Pid) {
    let _ = signal::send_to_child(child, libc::SIGKILL);
    let _ = nix::sys::wait::waitpid(nix::unistd::Pid::from_raw(child.raw()), None);
}
