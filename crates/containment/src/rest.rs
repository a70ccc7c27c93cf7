//! The rest of a program's output: what its process substitutions print after its end.
//!
//! `seq 5 > >(sed s/^/x/)` ends with `seq`, while `sed` may not have begun. The rest is read until the end of file. That never
//! comes while something else holds the pipes, like a server in the background. So the wait is for processes that work or that a
//! pipe connects with other programs. A server that waits for requests does neither. And the wait has limits.

use crate::pid::Pid;
use crate::proc_table::{self, Stat};
use std::io;
use std::time::{Duration, Instant};

/// The rest is complete when nothing was printed for this long, and no process that may print it was at work.
pub const QUIET: Duration = Duration::from_millis(100);

/// The longest wait for the rest.
pub const LONGEST: Duration = Duration::from_secs(2);

/// Lists are compared at most this often.
const MOST_LOOKS: usize = 5;

/// What the processes do that may print the rest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Writers {
    /// One of them is at work.
    run: bool,
    /// They, with a number that grows with their work, and the other processes that count, with 0. Short programs, one after
    /// another, show only here.
    processes: Vec<(Pid, u64)>,
}

impl Writers {
    /// Looks for them among the processes that `list` returns. `counts` leaves out some, `is_own` are the inodes of the
    /// command's own pipes. `None` if there are none. What cannot be looked up may print.
    ///
    /// A fork is at work until it has made its pipe its standard input or output, which its parent does not wait for. So what
    /// works counts without a pipe.
    ///
    /// A process can end during a look, and leave its work to a child that had not begun when the list was made. So a second
    /// look must find the same processes before there are none.
    pub fn look(
        mut list: impl FnMut() -> io::Result<Vec<Stat>>,
        counts: impl Fn(&Stat, &[Stat]) -> bool,
        is_own: impl Fn(u64) -> bool,
    ) -> Option<Self> {
        let mut former: Option<Vec<Pid>> = None;
        for _ in 0..MOST_LOOKS {
            let Ok(all) = list() else { return Some(Self::default()) };
            let counted = all.iter().filter(|stat| stat.is_running() && counts(stat, &all));
            let (mut found, mut may_print) = (Self::default(), false);
            for stat in counted {
                let pid = stat.identity.pid;
                let prints = stat.is_working() || proc_table::is_piped(pid, &is_own);
                may_print |= prints;
                found.run |= stat.is_working();
                // A list can miss a child that was just born. The faults of its parent count it.
                found.processes.push((pid, if prints { stat.cpu_ticks + stat.faults } else { 0 }));
            }
            let pids = all.iter().map(|stat| stat.identity.pid).collect();
            if may_print {
                return Some(found);
            }
            if former.as_ref() == Some(&pids) {
                return None;
            }
            former = Some(pids);
        }
        None
    }
}

/// A wait for the rest.
#[derive(Debug)]
pub struct RestWait {
    next: Instant,
    end: Instant,
    /// At the last look: the bytes that were printed, and the processes.
    total: u64,
    writers: Writers,
}

impl RestWait {
    /// Begins when this many bytes have been printed.
    pub fn begin(total: u64, writers: Writers) -> Self {
        let now = Instant::now();
        Self { next: now + QUIET, end: now + LONGEST, total, writers }
    }

    /// When to look next.
    pub fn next(&self) -> Instant {
        self.next.min(self.end)
    }

    /// Does not count the time since the last look: nothing could be read.
    pub fn extend(&mut self) {
        self.next += QUIET;
        self.end += QUIET;
    }

    /// Whether to look again, after a look at its time.
    ///
    /// Silence alone would not do: on a busy machine a process can wait that long for a processor. That shows in its state.
    pub fn goes_on(&mut self, total: u64, writers: Option<Writers>) -> bool {
        let now = Instant::now();
        let Some(writers) = writers.filter(|_| now < self.end) else { return false };
        let works = total != self.total || writers.run || writers.processes != self.writers.processes;
        (self.next, self.total, self.writers) = (now + QUIET, total, writers);
        works
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_as_long_as_something_works_but_not_for_ever() {
        let of = |run, processes: &[(i32, u64)]| {
            let processes = processes.iter().map(|&(pid, ticks)| (Pid::new(pid).unwrap(), ticks));
            Writers { run, processes: processes.collect() }
        };
        let asleep = || of(false, &[(5, 1)]);
        let mut wait = RestWait::begin(0, asleep());
        assert!(wait.goes_on(5, Some(asleep())), "it has printed");
        assert!(wait.goes_on(5, Some(of(true, &[(5, 1)]))), "it runs");
        assert!(wait.goes_on(5, Some(of(false, &[(5, 2)]))), "it has run");
        assert!(wait.goes_on(5, Some(of(false, &[(5, 2), (6, 0)]))), "it has started another");
        assert!(wait.goes_on(5, Some(of(false, &[(5, 2), (7, 0)]))), "it has started the next");
        assert!(!wait.goes_on(5, Some(of(false, &[(5, 2), (7, 0)]))), "they sleep");
        assert!(!wait.goes_on(9, None), "nothing is left");
        wait.end = wait.next.min(Instant::now());
        assert!(!wait.goes_on(99, Some(of(true, &[(5, 9)]))), "it has taken too long");
        wait.extend();
        assert!(wait.goes_on(100, Some(asleep())), "nothing could be read meanwhile");
    }

    #[test]
    fn a_child_that_no_list_has_counts_as_work_of_its_parent() {
        use std::io::{BufRead as _, BufReader, Write as _};
        use std::process::{Command, Stdio};
        let mut shell = Command::new("bash");
        shell.args(["-c", "while read -r; do /bin/true; echo; done"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut shell = shell.spawn().unwrap();
        let (mut input, mut output) = (shell.stdin.take().unwrap(), BufReader::new(shell.stdout.take().unwrap()));
        let pid = Pid::new(shell.id() as i32).unwrap();
        let mut looks = [(); 3].map(|()| {
            input.write_all(b"\n").unwrap();
            output.read_line(&mut String::new()).unwrap();
            while Stat::read(pid).is_some_and(|stat| stat.is_working()) {
                std::thread::yield_now();
            }
            Writers::look(|| proc_table::read_each([pid]), |_, _| true, |_| false).unwrap()
        });
        shell.kill().unwrap();
        shell.wait().unwrap();
        looks.sort_by_key(|look| look.processes.clone());
        assert!(looks.windows(2).all(|pair| pair[0] != pair[1]), "{looks:?}");
    }

    #[test]
    fn a_process_counts_if_a_pipe_connects_it_with_another_program() {
        use std::process::{Command, Stdio};
        let of = |stdin: Stdio| Command::new("sleep").arg("60").stdin(stdin).stdout(Stdio::null()).spawn().unwrap();
        let children = [of(Stdio::piped()), of(Stdio::null())];
        let found = children.map(|mut child| {
            let pid = Pid::new(child.id() as i32).unwrap();
            while Stat::read(pid).is_some_and(|stat| stat.is_working()) {
                std::thread::yield_now();
            }
            let list = || proc_table::read_each([pid]);
            let own = child.stdin.as_ref().map_or(0, |pipe| {
                use std::os::fd::AsFd;
                use std::os::unix::fs::MetadataExt;
                std::fs::File::from(pipe.as_fd().try_clone_to_owned().unwrap()).metadata().unwrap().ino()
            });
            let looks = [
                Writers::look(list, |_, _| true, |_| false),
                Writers::look(list, |_, _| true, |inode| inode == own),
                Writers::look(list, |_, _| false, |_| false),
            ];
            child.kill().unwrap();
            child.wait().unwrap();
            looks.map(|look| look.is_some())
        });
        assert_eq!(found, [[true, false, false], [false; 3]]);
    }
}
