//! The processor time of a tree of processes, and of a part of one.
//!
//! A control group counts everything that was ever in it. Without groups, the kernel adds the time of an ended process to the
//! process that reaps it, so for a root that reaps the orphans of its tree, the sum over the living processes and the root
//! misses nothing. A part of the tree has used what that sum has grown by, without the processes that are not of it.

use crate::cgroup::Group;
use crate::pid::{Identity, Pid};
use crate::proc_table::{self, Stat, ticks};
use std::collections::{HashMap, HashSet};
use std::time::Duration;

/// The roots of the trees that do not count; `None` if they cannot be told any more.
pub type OtherRoots = Box<dyn Fn() -> Option<Vec<Pid>> + Send>;

/// Reads how much processor time was used since it was read last.
pub struct CpuMeter {
    /// Reaps the orphans of its tree.
    root: Pid,
    counted: Counted,
    /// What the last look has found.
    last: Duration,
}

enum Counted {
    /// Everything below the root; by a group of which it is the root, if that can tell.
    Tree(Option<Group>),
    /// A group.
    Group(Group),
    /// Everything below the root that is not of something else.
    Apart(Others),
}

struct Others {
    roots: OtherRoots,
    /// Their parents, and their clock ticks with those of what they have reaped. Once the root has reaped one, its own count has
    /// these, too.
    seen: HashMap<Identity, (i32, u64)>,
}

impl CpuMeter {
    /// Of everything below a root. `group`: its control group, if it has one.
    pub fn of_tree(root: Pid, group: Option<Group>) -> Self {
        Self { root, counted: Counted::Tree(group), last: Duration::ZERO }
    }

    /// Of what is below a root, apart from other trees in it. `group`: a control group in which nothing else runs, if there is one.
    pub fn of_part(root: Pid, group: Option<Group>, others: OtherRoots) -> Self {
        let apart = || Counted::Apart(Others { roots: others, seen: HashMap::new() });
        Self { root, counted: group.map_or_else(apart, Counted::Group), last: Duration::ZERO }
    }

    /// What was used since the last call, or at all before the first. `None` if it cannot be seen. It reads `/proc`, so it blocks.
    pub fn used(&mut self) -> Option<Duration> {
        let total = match &mut self.counted {
            Counted::Tree(group) => {
                group.as_ref().and_then(Group::cpu_time).or_else(|| Some(ticks(below(self.root)?.0)))
            }
            Counted::Group(group) => group.cpu_time(),
            Counted::Apart(others) => {
                let (all, members) = below(self.root)?;
                Some(ticks(all.saturating_sub(others.ticks(self.root, &members)?)))
            }
        };
        let used = total?.saturating_sub(self.last);
        self.last += used;
        Some(used)
    }
}

impl Others {
    fn ticks(&mut self, root: Pid, members: &[Stat]) -> Option<u64> {
        self.seen.retain(|_, (parent, _)| *parent == root.raw());
        let mut trees: HashSet<Pid> = (self.roots)()?.into_iter().collect();
        // Parents come first.
        for stat in members {
            let of_tree = Pid::new(stat.parent).is_some_and(|parent| trees.contains(&parent));
            if of_tree || trees.contains(&stat.identity.pid) {
                trees.insert(stat.identity.pid);
                self.seen.insert(stat.identity, (stat.parent, stat.cpu_ticks + stat.reaped_ticks));
            }
        }
        Some(self.seen.values().map(|(_, ticks)| ticks).sum())
    }
}

/// The clock ticks of everything below a root, and what lives of it. The root may have ended.
fn below(root: Pid) -> Option<(u64, Vec<Stat>)> {
    let reaped = Stat::read(root)?.reaped_ticks;
    let members = proc_table::descendants(&[root], &HashSet::new()).ok()?;
    let living: u64 = members.iter().map(|stat| stat.cpu_ticks + stat.reaped_ticks).sum();
    Some((reaped + living, members))
}
