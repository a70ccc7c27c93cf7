//! The session's control groups: one for the session, containing the foreground group, groups of older background
//! jobs, and one group for each standby and background process.

use nacre_containment::cgroup::{self, Group};
use nacre_containment::pid::Pid;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

/// See the module.
pub struct Groups {
    session: Group,
    /// See [`Group::hold`].
    _hold: Option<File>,
    foreground: Group,
    emptying: Vec<Emptying>,
    made: u64,
}

/// A group to remove as soon as it is empty.
struct Emptying {
    group: Group,
    /// See [`Group::changes`].
    changes: Option<File>,
}

impl Emptying {
    fn remove(&mut self) -> bool {
        // Before the group is looked at: a process that ends from here on wakes the loop once more.
        self.changes.take_if(|changes| cgroup::note_change(changes).is_err());
        self.group.remove_empty().is_ok()
    }
}

impl Groups {
    /// Creates the session's group and the first foreground group.
    ///
    /// # Errors
    /// The system's reason. Then there is no group.
    pub fn create(directory: &Path) -> io::Result<Self> {
        let (parent, name) = directory.parent().zip(directory.file_name()).ok_or(io::ErrorKind::InvalidInput)?;
        let session = Group::create(parent, &name.to_string_lossy())?;
        let foreground = Group::create(session.path(), "fg-0").inspect_err(|_| drop(session.remove()))?;
        let hold = session.hold().ok().flatten();
        Ok(Self { session, _hold: hold, foreground, emptying: Vec::new(), made: 1 })
    }

    /// The session's group.
    pub fn session(&self) -> &Group {
        &self.session
    }

    /// The group of the whole sandbox, which has its limits, if there are any.
    pub fn sandbox(&self) -> Option<&Path> {
        self.session.path().parent().filter(|path| cgroup::is_of_sandbox(path))
    }

    /// The group where foreground commands run.
    pub fn foreground(&self) -> &Group {
        &self.foreground
    }

    /// Creates a group inside the session's.
    pub fn make(&mut self, kind: &str) -> Option<Group> {
        let group = Group::create(self.session.path(), &format!("{kind}-{}", self.made)).ok()?;
        self.made += 1;
        Some(group)
    }

    /// A group that the host created, if it is one of this session's.
    pub fn named(&self, path: Option<&String>) -> Option<Group> {
        let path = PathBuf::from(path?);
        (path.parent() == Some(self.session.path())).then(|| Group::at(path))
    }

    /// Makes `group` the foreground group; processes of the current group stay there.
    pub fn switch_foreground(&mut self, group: Group) {
        let before = std::mem::replace(&mut self.foreground, group);
        self.remove_when_empty(before);
    }

    /// Uses another foreground group, and returns the current one for the processes in it. The next shell, if there is one,
    /// leaves it: it is in a group of its own, or is moved. `None`, and no change, if that is not possible.
    pub fn hand_over_foreground(&mut self, shell: Option<(Pid, Option<Group>)>) -> Option<Group> {
        let next = match shell {
            Some((_, Some(own))) => own,
            Some((shell, None)) => {
                let fresh = self.make("fg")?;
                if fresh.add(shell).is_err_and(|error| error.raw_os_error() != Some(libc::ESRCH)) {
                    self.remove_when_empty(fresh);
                    return None;
                }
                fresh
            }
            None => self.make("fg")?,
        };
        Some(std::mem::replace(&mut self.foreground, next))
    }

    /// Removes a group now, or once its last process has ended.
    pub fn remove_when_empty(&mut self, group: Group) {
        if group.remove_empty().is_err() {
            let mut emptying = Emptying { changes: group.changes().ok(), group };
            if !emptying.remove() {
                self.emptying.push(emptying);
            }
        }
    }

    /// Removes groups that have become empty.
    pub fn tidy(&mut self) {
        self.emptying.retain_mut(|group| !group.remove());
    }

    /// Each has an exceptional condition, for poll(2), when a group may have become empty. The end of a process is not
    /// always that of a child: a shell reaps its background jobs itself.
    pub fn watched(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.emptying.iter().filter_map(|group| group.changes.as_ref().map(AsFd::as_fd))
    }

    /// The processes of the foreground group and of those that a command has made below it; `None` if the group has been removed.
    ///
    /// # Errors
    /// `EMFILE` and the like: this process cannot look.
    pub fn foreground_members(&self) -> io::Result<Option<Vec<Pid>>> {
        self.foreground.members_below_if_any()
    }

    /// Removes all groups, which must be empty. If the host is dead, also the group of the whole sandbox, unless another
    /// session is in it: a host that lives removes it at the end of the sandbox, which may have new sessions until then.
    pub fn remove_all(&self, host_lives: bool) -> bool {
        let leaves_sandbox = |path: &Path| std::fs::remove_dir(path).is_ok() || path.exists();
        self.session.remove().is_ok() && (host_lives || self.sandbox().is_none_or(leaves_sandbox))
    }
}

#[cfg(test)]
#[path = "groups_tests.rs"]
mod tests;
