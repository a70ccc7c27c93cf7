//! The tree of a background process: the process, its children, and theirs.
//!
//! With a control group the kernel keeps the list: its members, those of the groups below it, and their descendants, which may
//! have been moved elsewhere. Without a group the tree is found by four signs, each of which can
//! be lost separately: descent (when a parent ends), the process group (by `setsid`), a variable in the environment
//! (by `env -i`; a fork that has not executed a program does not show it), and the [`descent_mark`] (by `ulimit -m`). Orphans are found below the guardian, the
//! subreaper that adopts them.

use crate::cgroup::Group;
use crate::descent_mark;
use crate::pid::{Identity, Pid};
use crate::proc_table::{self, Stat};
use std::collections::HashSet;
use std::io;

/// The variable that marks a process's descendants where there are no control groups.
pub const MARK: &str = "NACRE_PROCESS";

/// See the module.
#[derive(Clone, Debug)]
pub struct Tree {
    /// The process itself.
    pub root: Identity,
    /// The process's own control group, if it has one.
    pub group: Option<Group>,
    /// The value of [`MARK`] in its environment.
    pub mark: String,
    /// The subreaper above it.
    pub guardian: Pid,
    /// Roots of other trees, which the signs or their descent would show as parts of this one.
    pub spare: Vec<Pid>,
}

impl Tree {
    /// Lists the running processes of the tree, without zombies.
    ///
    /// # Errors
    /// `EMFILE` and the like: this process cannot look.
    pub fn members(&self) -> io::Result<Vec<Stat>> {
        let listed = match &self.group {
            // A group that has been removed was empty.
            Some(group) => {
                let mut roots = group.members_below()?;
                // It may have left the group.
                let root = Stat::look(self.root.pid)?.filter(|stat| stat.identity == self.root);
                roots.extend(root.map(|root| root.identity.pid).filter(|pid| !roots.contains(pid)));
                let mut listed = proc_table::descendants(&roots, &self.spare.iter().copied().collect())?;
                listed.extend(proc_table::read_each(roots)?);
                listed
            }
            None => self.search()?,
        };
        Ok(listed.into_iter().filter(Stat::is_running).collect())
    }

    fn search(&self) -> io::Result<Vec<Stat>> {
        let spare = self.spare.iter().copied().collect();
        let below = proc_table::descendants(&[self.guardian], &spare)?;
        let mut members = HashSet::new();
        for stat in &below {
            if self.shows_mark(stat)? {
                members.insert(stat.identity.pid);
            }
        }
        let roots: Vec<Pid> = members.iter().copied().collect();
        members.extend(proc_table::descendants(&roots, &spare)?.iter().map(|stat| stat.identity.pid));
        Ok(below.into_iter().filter(|stat| members.contains(&stat.identity.pid)).collect())
    }

    /// True for the process itself and for processes that show one of its signs.
    ///
    /// # Errors
    /// `EMFILE` and the like: this process cannot look.
    pub fn shows_mark(&self, stat: &Stat) -> io::Result<bool> {
        if stat.identity == self.root || stat.group == self.root.pid.raw() {
            return Ok(true);
        }
        let pid = stat.identity.pid;
        let is_marked = descent_mark::of(pid, self.guardian)? == Some(descent_mark::named(self.guardian, &self.mark));
        Ok(is_marked || proc_table::carries(pid, &format!("{MARK}={}", self.mark))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    #[test]
    fn a_marked_process_is_found_wherever_it_went() {
        let own = Pid::new(std::process::id() as i32).unwrap();
        let mark = format!("test-{own}");
        let mut root = Command::new("sleep").arg("60").process_group(0).spawn().unwrap();
        let mut marked = Command::new("sleep").arg("60").env(MARK, &mark).process_group(0).spawn().unwrap();
        let mut other = Command::new("sleep").arg("60").process_group(0).spawn().unwrap();
        let pid = |child: &std::process::Child| Pid::new(child.id() as i32).unwrap();
        let tree = Tree {
            root: Stat::read(pid(&root)).unwrap().identity,
            group: None,
            mark,
            guardian: own,
            spare: Vec::new(),
        };
        // A child shows its new environment once it has executed its program.
        let found = || -> Vec<Pid> { tree.members().unwrap().iter().map(|stat| stat.identity.pid).collect() };
        while !found().contains(&pid(&marked)) {
            std::thread::yield_now();
        }
        assert!(found().contains(&pid(&root)) && !found().contains(&pid(&other)));
        for child in [&mut root, &mut marked, &mut other] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert!(found().is_empty());
    }
}
