//! The mark of a session's processes: the soft limit of file locks (RLIMIT_LOCKS).
//!
//! Linux has not used this limit since 2.4.24, but processes inherit it through fork and exec, and all users can read it
//! (proc(5), `limits`). So it finds what nothing else does: a process that has left its control group, its session and its
//! parents, after its supervisor was killed. The supervisor sets it on itself, so a command costs nothing more.
//!
//! A mark is a random name of the program that the session belongs to, and the number of a supervisor. No user sets such
//! a limit by chance: marks begin at 2^61, and two programs have the same name once in 2^39. A process that has changed the
//! limit is not found.

use crate::pid::Pid;
use crate::proc_table::{self, Stat, numbers, read_of};
use crate::signal;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;
use std::time::Duration;

/// The lower bits of a mark are the supervisor's number, the upper ones the program's name.
const NUMBER_BITS: u32 = 22;

/// All names have this bit, so that marks are large.
const LEAST_NAME: u64 = 1 << 39;

/// The random name of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program(u64);

impl Program {
    /// The program that a mark names.
    fn of(mark: u64) -> Self {
        Self(mark >> NUMBER_BITS)
    }
}

impl Default for Program {
    /// The standard library's hash keys are random in each process.
    fn default() -> Self {
        Self(LEAST_NAME | (RandomState::new().hash_one(0) & (LEAST_NAME - 1)))
    }
}

impl fmt::Display for Program {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{:010x}", self.0)
    }
}

impl FromStr for Program {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let program = u64::from_str_radix(text, 16).map(Self).map_err(|_| ())?;
        let is_name = (LEAST_NAME..2 * LEAST_NAME).contains(&program.0) && program.to_string() == text;
        if is_name { Ok(program) } else { Err(()) }
    }
}

/// The marks of a program's supervisors.
#[derive(Debug, Default)]
pub struct Marks {
    /// Its name.
    pub program: Program,
    count: AtomicU64,
    key: RandomState,
}

impl Marks {
    /// The mark of the next supervisor. `None` after some four million: it would be used twice.
    pub fn next(&self) -> Option<u64> {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        (number < 1 << NUMBER_BITS).then(|| self.program.0 << NUMBER_BITS | self.shuffled(number))
    }

    /// Another number of the same size for each (a Feistel network). Programs read their own mark, and must not know that of the
    /// next session: addresses follow from it.
    fn shuffled(&self, number: u64) -> u64 {
        const HALF: u32 = NUMBER_BITS / 2;
        const MASK: u64 = (1 << HALF) - 1;
        let mixed = |(left, right): (u64, u64), round: u64| (right, left ^ self.key.hash_one((round, right)) & MASK);
        let (left, right) = (0..4).fold((number >> HALF, number & MASK), mixed);
        left << HALF | right
    }
}

/// Marks this process, and what it starts from now on. The hard limit stays.
///
/// # Errors
/// The hard limit is smaller, or the system does not allow it: nothing is marked then.
pub fn take(mark: u64) -> io::Result<()> {
    let (_, hard) = getrlimit(Resource::RLIMIT_LOCKS)?;
    Ok(setrlimit(Resource::RLIMIT_LOCKS, mark, hard)?)
}

/// Whether a limit is a mark, of whatever program.
pub fn is_mark(limit: u64) -> bool {
    (LEAST_NAME..2 * LEAST_NAME).contains(&(limit >> NUMBER_BITS))
}

/// True for a process with this mark that this one may signal: of the same user, or of any user for root.
///
/// # Errors
/// `EMFILE` and the like: this process cannot look.
pub fn has(pid: Pid, mark: u64) -> io::Result<bool> {
    Ok(of(pid)? == Some(mark) && may_signal(pid)?)
}

/// Kills what programs have left behind, until two looks in a row find nothing: each look finds what was forked during the
/// one before.
///
/// The race: a pid can be reused between the two reads of a look, and the mark be that of another process. The identity is
/// then that of the process that has ended, and the signal checks it again behind a pidfd ([`signal::send_to`]).
///
/// # Errors
/// There may be more processes.
pub fn kill_all(is_wanted: impl Fn(Program) -> bool) -> io::Result<()> {
    let mut empty_looks = 0;
    for _ in 0..MOST_LOOKS {
        let mut found = Vec::new();
        for stat in proc_table::scan()?.into_iter().filter(Stat::is_running) {
            let pid = stat.identity.pid;
            if of(pid)?.is_some_and(|mark| is_wanted(Program::of(mark))) && may_signal(pid)? {
                found.push(stat.identity);
            }
        }
        empty_looks = if found.is_empty() { empty_looks + 1 } else { 0 };
        if empty_looks == EMPTY_LOOKS {
            return Ok(());
        }
        found.into_iter().try_for_each(|identity| signal::send_to(identity, libc::SIGKILL))?;
        sleep(LOOK);
    }
    Err(io::ErrorKind::TimedOut.into())
}

const EMPTY_LOOKS: u32 = 2;
const MOST_LOOKS: u32 = 1000;
/// Time between two looks.
const LOOK: Duration = Duration::from_millis(1);

/// The program in the mark of this process, if it runs in a session.
///
/// # Errors
/// See [`has`].
pub fn own() -> io::Result<Option<Program>> {
    Ok(Pid::new(std::process::id().cast_signed()).map(of).transpose()?.flatten().map(Program::of))
}

/// `None` if there is no limit, or it cannot be seen.
fn of(pid: Pid) -> io::Result<Option<u64>> {
    Ok(numbers(&read_of(pid, "limits")?, "Max file locks").first().copied())
}

/// Whether the kernel lets this process signal another (kill(2)).
fn may_signal(pid: Pid) -> io::Result<bool> {
    let user = nix::unistd::geteuid();
    // Real, effective and saved.
    let users = numbers(&read_of(pid, "status")?, "Uid:");
    let is = |at: usize| users.get(at).is_some_and(|uid| *uid == u64::from(user.as_raw()));
    Ok(user.is_root() || is(0) || is(2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pid::Identity;
    use std::os::unix::process::CommandExt;
    use std::process::{Child, Command};

    fn marked(mark: u64) -> Child {
        let mut command = Command::new("sleep");
        // SAFETY: two system calls.
        unsafe { command.arg("60").pre_exec(move || take(mark)) };
        command.spawn().unwrap()
    }

    fn pid(child: &Child) -> Pid {
        Pid::new(child.id() as i32).unwrap()
    }

    #[test]
    fn a_name_is_read_as_it_was_written_and_nothing_else_is() {
        for _ in 0..100 {
            let program = Program::default();
            assert_eq!(program.to_string().parse(), Ok(program));
        }
        assert!("8000000000".parse::<Program>().is_ok() && "ffffffffff".parse::<Program>().is_ok());
        for wrong in ["", "1", "7fffffffff", "08000000000", "10000000000", "FFFFFFFFFF", "+fffffffff", "8000000000 "] {
            assert_eq!(wrong.parse::<Program>(), Err(()), "{wrong}");
        }
    }

    #[test]
    fn no_mark_is_used_twice() {
        let marks = Marks { count: AtomicU64::new((1 << NUMBER_BITS) - 2), ..Marks::default() };
        let made: Vec<u64> = std::iter::from_fn(|| marks.next()).collect();
        assert_eq!(made.len(), 2);
        assert!(made.iter().all(|mark| (1 << 61..1 << 62).contains(mark) && Program::of(*mark) == marks.program));
        let marks = Marks::default();
        let many: Vec<u64> = (0..100_000).map_while(|_| marks.next()).collect();
        assert_eq!(many.iter().collect::<std::collections::HashSet<_>>().len(), 100_000);
        let successors = many.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) == 1).count();
        assert!(successors < 100, "{successors} follow from the one before");
    }

    #[test]
    fn a_mark_is_inherited_and_finds_exactly_its_processes() {
        let marks = Marks::default();
        let (mark, other) = (marks.next().unwrap(), marks.next().unwrap());
        let mut children = [marked(mark), marked(other), Command::new("sleep").arg("60").spawn().unwrap()];
        let found: Vec<bool> = children.iter().map(|child| has(pid(child), mark).unwrap()).collect();
        assert_eq!(found, [true, false, false]);
        kill_all(|program| program == Program::default()).unwrap();
        assert!(children.iter_mut().all(|child| child.try_wait().unwrap().is_none()));
        kill_all(|program| program == marks.program).unwrap();
        for child in &mut children[..2] {
            child.wait().unwrap();
        }
        assert!(children[2].try_wait().unwrap().is_none());
        children[2].kill().unwrap();
        children[2].wait().unwrap();
        let gone = Identity { pid: pid(&children[0]), start_ticks: 0 };
        assert!(!has(gone.pid, mark).unwrap());
    }
}
