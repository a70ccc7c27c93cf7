//! Who is who among the session's processes: the shell, its standby, the foreground command, everything else.

use crate::arguments::Arguments;
use crate::hygiene::Setting;
use crate::shell::{self, Failure};
use nacre_containment::cgroup::Group;
use nacre_containment::pid::Pid;
use nacre_containment::proc_table::{self, Stat};
use nacre_containment::signal;
use std::collections::HashSet;
use std::path::Path;

/// The session's control groups: one for the session, and inside it one for each stretch of commands that left
/// background processes behind.
struct Groups {
    session: Group,
    foreground: Group,
    /// Groups that older background processes still live in.
    older: Vec<Group>,
    made: u64,
}

/// Everything the supervisor knows about its processes.
pub struct Family {
    own: Pid,
    /// The session's shell; `None` between its death and the next one, since a reaped pid means nothing any more.
    pub shell: Option<Pid>,
    standby: Option<Pid>,
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
        Ok(Self { own, shell: Some(shell), standby: None, groups })
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
        for pid in self.shell.into_iter().chain(self.standby) {
            let _ = fresh.add(pid);
        }
        let before = std::mem::replace(&mut groups.foreground, fresh);
        if before.remove().is_err() {
            groups.older.push(before);
        }
    }

    /// Replaces the standby. The old one is our own unreaped child, so its number is still its own.
    pub fn set_standby(&mut self, pid: Option<Pid>) {
        if let Some(old) = std::mem::replace(&mut self.standby, pid) {
            let _ = signal::send_to_child(old, libc::SIGKILL);
        }
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

    /// Takes note that a child has been reaped: from here on its pid may belong to anybody. True when it was the shell.
    pub fn reaped(&mut self, pid: Pid) -> bool {
        if self.standby == Some(pid) {
            self.standby = None;
        }
        let was_shell = self.shell == Some(pid);
        if was_shell {
            self.shell = None;
        }
        was_shell
    }

    /// The processes of the foreground command: the members of its group, or, without groups, every descendant that is
    /// not below one of the `spare` roots. The shell and its standby are never among them.
    pub fn foreground(&self, spare: &[Pid]) -> Vec<Stat> {
        let keep: HashSet<Pid> = spare.iter().copied().chain(self.standby).collect();
        let listed = match self.groups.as_ref().and_then(|groups| groups.foreground.members().ok()) {
            Some(members) => members.into_iter().filter(|pid| !keep.contains(pid)).filter_map(Stat::read).collect(),
            None => proc_table::descendants(&[self.own], &keep),
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
        self.groups.as_ref().is_none_or(|groups| groups.session.remove().is_ok())
    }
}
