//! The background processes of a session: which there are, and where the next one is born.
//!
//! A background process is a fork of the standby. So that it is in a control group of its own from its first
//! instruction, the standby itself waits in that group, the *nursery*: whatever it forks is born there. Once a process
//! has been adopted the group is the process's, and the standby is moved on to a fresh one. Moving a process takes the
//! kernel up to 20 ms when none has been moved for a while; this way nobody waits for it.

use nacre_containment::cgroup::Group;
use nacre_containment::limits;
use nacre_containment::pid::{Identity, Pid};
use nacre_containment::proc_table::{self, Stat};
use nacre_containment::tree::Tree;
use std::path::Path;
use std::time::{Duration, Instant};

struct Process {
    key: u64,
    tree: Tree,
    ended: bool,
    /// It has been asked to end, and whether it ran a program in front then.
    asked: Option<Asked>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    Alone,
    WithProgram,
}

/// See the module.
#[derive(Default)]
pub struct Processes {
    known: Vec<Process>,
    nursery: Option<Group>,
    groups_made: u64,
}

/// How long the standby's intermediate fork may take to end, so that its child becomes ours.
const ORPHANED: Duration = Duration::from_secs(1);

impl Processes {
    /// Puts the standby where its next fork is to be born. Without a session group it stays where it is.
    pub fn place(&mut self, standby: Pid, session: Option<&Path>) {
        let Some(session) = session else { return };
        if self.nursery.is_none() {
            self.nursery = Group::create(session, &format!("p-{}", self.groups_made)).ok();
            self.groups_made += 1;
        }
        if self.nursery.as_ref().is_some_and(|nursery| nursery.add(standby).is_err()) {
            // The hierarchy refuses it: the next process is told from others as where there are no groups.
            self.nursery = None;
        }
    }

    /// True when the standby waits in a group of its own.
    pub fn shelter_standby(&self) -> bool {
        self.nursery.is_some()
    }

    /// Kills whoever is in the nursery, which is not used any more.
    pub fn abandon_nursery(&mut self) {
        if let Some(nursery) = self.nursery.take() {
            let _ = nursery.kill();
            // Removed with the session's group, when it is not empty yet.
            let _ = nursery.remove();
        }
    }

    /// A fork of the standby is a process from now on: who it is and its group. It waits for permission to begin and can
    /// not have ended by itself; nobody when it has been killed.
    ///
    /// It becomes our child when the fork between it and the standby has ended, which is waited for: before that its end
    /// would be somebody else's to see.
    pub fn adopt(&mut self, own: Pid, key: u64, pid: Pid, mark: String) -> Option<(Identity, Option<String>)> {
        let group = self.nursery.take();
        let give_up = Instant::now() + ORPHANED;
        let stat = loop {
            let stat = Stat::read(pid).filter(|stat| stat.is_running() && stat.session == own.raw())?;
            if stat.parent == own.raw() || Instant::now() > give_up {
                break stat;
            }
            std::thread::sleep(Duration::from_micros(20));
        };
        let directory = group.as_ref().map(|group| group.path().display().to_string());
        self.known.push(Process {
            key,
            tree: Tree { root: stat.identity, group, mark, guardian: own },
            ended: false,
            asked: None,
        });
        Some((stat.identity, directory))
    }

    /// A child has been reaped: the key of the process it was.
    pub fn reaped(&mut self, pid: Pid) -> Option<u64> {
        let process = self.known.iter_mut().find(|process| !process.ended && process.tree.root.pid == pid)?;
        process.ended = true;
        Some(process.key)
    }

    /// True when the memory limit of a process was reached.
    pub fn ran_out_of_memory(&self, key: u64) -> bool {
        self.tree(key).and_then(|tree| tree.group.as_ref()).is_some_and(limits::ran_out_of_memory)
    }

    /// A process (or all of them) is about to be asked to end. A shell that runs a program in front waits for it, and gives
    /// its exit code; one that does not gives that of the command before, which says nothing. A program in the background
    /// of a shell without job control is told by its ignoring SIGINT; a fork that is no program yet does not count.
    /// `alive` are the processes among which its own are.
    pub fn about_to_ask(&mut self, key: Option<u64>, alive: &[Stat]) {
        for process in self.known.iter_mut().filter(|process| key.is_none_or(|key| process.key == key)) {
            let root = process.tree.root;
            let shell = alive.iter().find(|stat| stat.identity == root);
            let in_front = |shell: &Stat, stat: &Stat| {
                stat.parent == root.pid.raw() && !stat.ignores(libc::SIGINT) && !proc_table::is_fork_of(stat, shell)
            };
            let busy = || shell.is_some_and(|shell| alive.iter().any(|stat| in_front(shell, stat)));
            process.asked.get_or_insert_with(|| if busy() { Asked::WithProgram } else { Asked::Alone });
        }
    }

    /// See [`Processes::about_to_ask`].
    pub fn was_alone(&self, key: u64) -> bool {
        self.known.iter().any(|process| process.key == key && process.asked == Some(Asked::Alone))
    }

    /// The tree of a process of which somebody may be left.
    pub fn tree(&self, key: u64) -> Option<&Tree> {
        self.known.iter().find(|process| process.key == key).map(|process| &process.tree)
    }

    /// True when a process belongs to one of the trees. Only asked where there are no groups.
    pub fn own(&self, stat: &Stat) -> bool {
        self.known.iter().any(|process| process.tree.shows_mark(stat))
    }

    /// The processes themselves.
    pub fn roots(&self) -> impl Iterator<Item = Pid> {
        self.known.iter().filter(|process| !process.ended).map(|process| process.tree.root.pid)
    }

    /// Forgets processes that have ended and left nobody behind, so that a number that is used again can not be taken
    /// for one of theirs.
    pub fn tidy(&mut self) {
        self.known.retain(|process| {
            let group = process.tree.group.as_ref();
            // Nearly always the kernel says by itself that the group is empty.
            let removed = || group.is_some_and(|group| group.remove_alone().is_ok());
            let empty = || process.tree.members(None).is_empty() && group.is_none_or(|group| group.remove().is_ok());
            !(process.ended && (removed() || empty()))
        });
    }
}
