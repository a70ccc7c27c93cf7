//! The kernel's process table: which processes are alive, and their descent.

use crate::pid::{Identity, Pid};
use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::time::Duration;

/// The fields of `/proc/<pid>/stat` that are needed (proc(5)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Pid and start time.
    pub identity: Identity,
    /// One letter: R, S, D, Z (zombie), T (stopped) ...
    pub state: u8,
    /// Pid of the parent, 0 for init.
    pub parent: i32,
    /// Process group id.
    pub group: i32,
    /// Session id.
    pub session: i32,
    /// The number of its terminal's device, 0 for none.
    pub terminal: i32,
    /// The foreground process group of the terminal, -1 without one.
    pub foreground_group: i32,
    /// Processor time used, in user and kernel mode, in clock ticks.
    pub cpu_ticks: u64,
    /// The same of its children that have ended and were waited for.
    pub reaped_ticks: u64,
    /// Page faults, of it and of its children that have ended and were waited for. Each fork causes some.
    pub faults: u64,
    /// It exits, or will because of a signal, before it runs any more of its program.
    pub is_dying: bool,
    /// The signals between 1 and 31 that the first thread blocks: signal n is bit n-1.
    pub blocked: u32,
    /// The ignored signals, in the same form.
    pub ignored: u32,
    /// The caught signals, in the same form.
    pub caught: u32,
    /// The first letters of the program's name. A fork has its parent's.
    pub name: [u8; LONGEST_NAME],
}

/// TASK_COMM_LEN without the final NUL.
const LONGEST_NAME: usize = 15;

/// PF_EXITING, among the flags of a process.
const EXITING: u32 = 4;

/// A stat file is a name of at most 64 bytes and some 50 numbers of at most 20 digits.
const LONGEST_STAT: usize = 2048;

impl Stat {
    /// Reads one process; `None` when it does not exist.
    ///
    /// Takes one read. Files of /proc report a length of 0, so `fs::read` would start with 32 bytes and need six.
    pub fn read(pid: Pid) -> Option<Self> {
        Self::look(pid).ok().flatten()
    }

    /// Reads one process, and distinguishes a missing process from one that cannot be looked up.
    ///
    /// # Errors
    /// `EMFILE` and the like: this process cannot open the file.
    pub fn look(pid: Pid) -> io::Result<Option<Self>> {
        let mut text = [0; LONGEST_STAT];
        let read = File::open(format!("/proc/{pid}/stat")).and_then(|mut file| file.read(&mut text));
        match read {
            Ok(length) => Ok(text.get(..length).and_then(|text| Self::parse(pid, text))),
            Err(error) if is_out_of_sight(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The command name in field 2 may hold blanks and parentheses, so fields are counted from the last `)`.
    fn parse(pid: Pid, text: &[u8]) -> Option<Self> {
        let open = text.iter().position(|&byte| byte == b'(')?;
        let close = text.iter().rposition(|&byte| byte == b')')?;
        let mut name = [0; LONGEST_NAME];
        name.iter_mut().zip(text.get(open + 1..close)?).for_each(|(to, from)| *to = *from);
        let rest = std::str::from_utf8(text.get(close + 2..)?).ok()?;
        let fields: Vec<&str> = rest.split(' ').collect();
        let sum = |at: usize| Some(fields.get(at)?.parse::<u64>().ok()? + fields.get(at + 1)?.parse::<u64>().ok()?);
        Some(Self {
            identity: Identity { pid, start_ticks: fields.get(19)?.parse().ok()? },
            state: *fields.first()?.as_bytes().first()?,
            parent: fields.get(1)?.parse().ok()?,
            group: fields.get(2)?.parse().ok()?,
            session: fields.get(3)?.parse().ok()?,
            terminal: fields.get(4)?.parse().ok()?,
            foreground_group: fields.get(5)?.parse().ok()?,
            cpu_ticks: sum(11)?,
            reaped_ticks: sum(13)?,
            faults: sum(7)?,
            // Not every /proc has these fields. The kernel turns each signal that ends a process into a pending SIGKILL.
            is_dying: fields
                .get(6)
                .and_then(|flags| flags.parse::<u32>().ok())
                .is_some_and(|flags| flags & EXITING != 0)
                || fields.get(28).and_then(|mask| mask.parse().ok()).is_some_and(|mask| holds(mask, libc::SIGKILL)),
            blocked: fields.get(29).and_then(|mask| mask.parse().ok()).unwrap_or(0),
            ignored: fields.get(30).and_then(|mask| mask.parse().ok()).unwrap_or(0),
            caught: fields.get(31).and_then(|mask| mask.parse().ok()).unwrap_or(0),
            name,
        })
    }

    /// True when the process ignores a signal between 1 and 31.
    pub fn ignores(&self, signal: i32) -> bool {
        holds(self.ignored, signal)
    }

    /// True when the process catches a signal between 1 and 31.
    pub fn catches(&self, signal: i32) -> bool {
        holds(self.caught, signal)
    }

    /// True when the first thread of the process blocks a signal between 1 and 31.
    pub fn blocks(&self, signal: i32) -> bool {
        holds(self.blocked, signal)
    }

    /// Major and minor number of its terminal's device.
    pub fn terminal_device(&self) -> (u32, u32) {
        let number = self.terminal as u32;
        ((number >> 8) & 0xfff, (number & 0xff) | ((number >> 12) & 0xf_ff00))
    }

    /// True if it runs, or waits for a processor or a disk.
    pub fn is_working(&self) -> bool {
        matches!(self.state, b'R' | b'D')
    }

    /// False for zombies, which have ended and wait to be reaped.
    pub fn is_running(&self) -> bool {
        !matches!(self.state, b'Z' | b'X')
    }
}

/// The process has ended, or without permission to look (`hidepid`), it is another user's.
fn is_out_of_sight(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH | libc::EPERM | libc::EACCES))
}

fn holds(mask: u32, signal: i32) -> bool {
    mask.checked_shr(signal as u32 - 1).is_some_and(|mask| mask & 1 == 1)
}

/// Reads these processes, without those that do not exist.
///
/// # Errors
/// See [`Stat::look`].
pub fn read_each(pids: impl IntoIterator<Item = Pid>) -> io::Result<Vec<Stat>> {
    pids.into_iter().filter_map(|pid| Stat::look(pid).transpose()).collect()
}

/// True while the process with this identity runs. False for zombies and reused pids.
///
/// # Errors
/// See [`Stat::look`]: at the limit of open files, nothing is known about the process.
pub fn is_alive(identity: Identity) -> io::Result<bool> {
    Ok(Stat::look(identity.pid)?.is_some_and(|stat| stat.identity == identity && stat.is_running()))
}

/// Lists the direct children of a process, from the kernel's own list if there is one, else by scanning `/proc`. A
/// process that has ended has none.
///
/// # Errors
/// `EMFILE` and the like: this process cannot look.
pub fn children(parent: Pid) -> io::Result<Vec<Pid>> {
    let tasks = match fs::read_dir(format!("/proc/{parent}/task")) {
        Err(error) if is_out_of_sight(&error) => return Ok(Vec::new()),
        tasks => tasks?,
    };
    let mut found = Vec::new();
    for task in tasks {
        let task = match task {
            Err(error) if is_out_of_sight(&error) => break,
            task => task?.path(),
        };
        match read_pids(task.join("children")) {
            Ok(pids) => found.extend(pids),
            // The thread lives, so this kernel has no such list.
            Err(error) if error.kind() == io::ErrorKind::NotFound && task.exists() => {
                let all = scan()?;
                let own = all.iter().filter(|stat| stat.parent == parent.raw());
                return Ok(own.map(|stat| stat.identity.pid).collect());
            }
            Err(error) if is_out_of_sight(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// Lists every process below `roots`, without the roots themselves and without descending into `spare`.
///
/// The walk is not atomic: a process may fork or be orphaned meanwhile. Callers repeat it until it stays empty. Orphans
/// appear below the subreaper, which is one of the roots.
///
/// # Errors
/// `EMFILE` and the like: this process cannot look, so there may be others.
pub fn descendants(roots: &[Pid], spare: &HashSet<Pid>) -> io::Result<Vec<Stat>> {
    let mut seen: HashSet<Pid> = roots.iter().copied().collect();
    let mut open: Vec<Pid> = roots.to_vec();
    let mut found = Vec::new();
    while let Some(parent) = open.pop() {
        for child in children(parent)? {
            if spare.contains(&child) || !seen.insert(child) {
                continue;
            }
            if let Some(stat) = Stat::look(child)? {
                found.push(stat);
                open.push(child);
            }
        }
    }
    Ok(found)
}

/// True if standard input or output of a process is a pipe other than `is_own` ones, which are given by their inode. Also true
/// if that cannot be seen.
pub fn is_piped(pid: Pid, is_own: impl Fn(u64) -> bool) -> bool {
    [0, 1].iter().any(|number| match fs::metadata(format!("/proc/{pid}/fd/{number}")) {
        Ok(file) => file.file_type().is_fifo() && !is_own(file.ino()),
        Err(error) => error.kind() != io::ErrorKind::NotFound && error.raw_os_error() != Some(libc::ESRCH),
    })
}

/// True for a fork of a process that has not executed another program: their command lines are the same.
///
/// The name alone is not enough: a script may run another bash.
///
/// # Errors
/// `EMFILE` and the like: this process cannot look.
pub fn is_fork_of(stat: &Stat, original: &Stat) -> io::Result<bool> {
    if stat.name != original.name {
        return Ok(false);
    }
    has_command_line(stat.identity.pid, &read_of(original.identity.pid, "cmdline")?)
}

/// True for a process with this command line, whose words end with NUL. False if that cannot be seen.
///
/// # Errors
/// `EMFILE` and the like: this process cannot look.
pub fn has_command_line(pid: Pid, line: &[u8]) -> io::Result<bool> {
    Ok(!line.is_empty() && read_of(pid, "cmdline")? == line)
}

/// True if a process has begun its program with this variable, `NAME=value`. False if that cannot be seen.
///
/// # Errors
/// `EMFILE` and the like: this process cannot look.
pub fn carries(pid: Pid, variable: &str) -> io::Result<bool> {
    Ok(read_of(pid, "environ")?.split(|&byte| byte == 0).any(|found| found == variable.as_bytes()))
}

/// The value of a variable with which a process has begun its program. `None` if that cannot be seen.
///
/// # Errors
/// `EMFILE` and the like: this process cannot look.
pub fn variable(pid: Pid, name: &str) -> io::Result<Option<String>> {
    let environment = read_of(pid, "environ")?;
    let value_of = |entry: &'_ [u8]| Some(entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?.to_vec());
    let value = environment.split(|&byte| byte == 0).find_map(value_of);
    Ok(value.and_then(|value| String::from_utf8(value).ok()))
}

/// The beginning of a process's command line, with blanks between the words; its name if it has none.
pub fn command_line(stat: &Stat, most_bytes: usize) -> String {
    let mut line = Vec::new();
    if let Ok(file) = File::open(format!("/proc/{}/cmdline", stat.identity.pid)) {
        let _ = file.take(most_bytes as u64).read_to_end(&mut line);
    }
    let is_empty = line.iter().all(|&byte| byte == 0);
    let line = if is_empty { &stat.name[..] } else { &line[..] };
    let words = line.split(|&byte| byte == 0).filter(|word| !word.is_empty());
    String::from_utf8_lossy(&words.collect::<Vec<_>>().join(&b' ')).into_owned()
}

/// A file of a process, which is empty if the process has ended or cannot be seen.
pub fn read_of(pid: Pid, name: &str) -> io::Result<Vec<u8>> {
    match read_file(format!("/proc/{pid}/{name}")) {
        Err(error) if is_out_of_sight(&error) => Ok(Vec::new()),
        text => text,
    }
}

/// The soft limit of resident memory of a process, which all users can see (RLIMIT_RSS). `None` if the process has ended.
///
/// # Errors
/// See [`Stat::look`].
pub fn resident_limit(pid: Pid) -> io::Result<Option<u64>> {
    let text = read_of(pid, "stat")?;
    let rest = text.iter().rposition(|&byte| byte == b')').and_then(|close| text.get(close + 2..));
    let fields = std::str::from_utf8(rest.unwrap_or_default()).unwrap_or_default();
    Ok(fields.split(' ').nth(22).and_then(|field| field.parse().ok()))
}

/// The kernel counts processor time in hundredths of a second.
pub fn ticks(count: u64) -> Duration {
    Duration::from_millis(count * 10)
}

/// The numbers of a line in such a file; none if there is no such line.
pub fn numbers(text: &[u8], name: &str) -> Vec<u64> {
    let text = String::from_utf8_lossy(text);
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    line.split_whitespace().map_while(|word| word.parse().ok()).collect()
}

/// True for a fork of a shell that may still have the shell's signal handlers, which swallow a signal.
///
/// After a fork bash resets its handlers one by one. At first the fork catches exactly what the shell catches. Then,
/// while it is young, it may still catch the signal. An older process that catches it has a trap set by the user.
pub fn is_unsettled_fork_of(stat: &Stat, Original { stat: shell, line }: &Original, signal: i32) -> bool {
    let may_swallow = stat.caught == shell.caught || (stat.catches(signal) && is_young(stat));
    let is_fork = || stat.name == shell.name && has_command_line(stat.identity.pid, line).unwrap_or(true);
    // A signal too many is better than one that is lost.
    may_swallow && stat.identity.pid != shell.identity.pid && is_fork()
}

/// What forks of a process are recognized by, also after its end.
pub struct Original {
    stat: Stat,
    line: Vec<u8>,
}

impl Original {
    /// `None` if the process has ended, or cannot be seen.
    pub fn look(pid: Pid) -> Option<Self> {
        let stat = Stat::read(pid).filter(Stat::is_running)?;
        let line = read_of(pid, "cmdline").ok().filter(|line| !line.is_empty())?;
        Some(Self { stat, line })
    }
}

/// True for a process that started in the last 0.2 s. The kernel counts in hundredths of a second.
fn is_young(stat: &Stat) -> bool {
    let Ok(now) = nix::time::clock_gettime(nix::time::ClockId::CLOCK_BOOTTIME) else { return true };
    let ticks = now.tv_sec() as u64 * 100 + now.tv_nsec() as u64 / 10_000_000;
    ticks.saturating_sub(stat.identity.start_ticks) <= 20
}

/// The number of the system call that a process is in; `None` if it is running or this is unknown.
pub fn system_call(pid: Pid) -> Option<i64> {
    let text = read_file(format!("/proc/{pid}/syscall")).ok()?;
    std::str::from_utf8(&text).ok()?.split(' ').next()?.trim().parse().ok()
}

/// Reads every visible process.
///
/// # Errors
/// `EMFILE` and the like: this process cannot look.
pub fn scan() -> io::Result<Vec<Stat>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| Pid::new(name.parse().ok()?)) else { continue };
        found.extend(Stat::look(pid)?);
    }
    Ok(found)
}

/// Parses a list of pids as /proc and control groups print it.
pub fn read_pids(path: impl AsRef<Path>) -> io::Result<Vec<Pid>> {
    let list = read_file(path)?;
    let list = String::from_utf8_lossy(&list);
    Ok(list.split_ascii_whitespace().filter_map(|raw| Pid::new(raw.parse().ok()?)).collect())
}

/// Reads a file of /proc or of a control group.
///
/// Such files report a length of 0, so `fs::read` would start with 32 bytes and double them.
pub fn read_file(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let mut text = Vec::with_capacity(FILE_LENGTH);
    loop {
        if text.len() == text.capacity() {
            text.reserve(FILE_LENGTH);
        }
        let length = text.len();
        text.resize(text.capacity(), 0);
        let count = file.read(&mut text[length..])?;
        text.truncate(length + count);
        if count == 0 {
            return Ok(text);
        }
    }
}

/// Most of these files are smaller.
const FILE_LENGTH: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn counts_fields_after_a_name_with_parentheses() {
        let text = b"42 (a) (b c) S 7 42 9 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 12345 0 0 0 0 0 0 0 0 0 0 6 16384 0";
        let stat = Stat::parse(Pid::new(42).unwrap(), text).unwrap();
        assert_eq!(
            (stat.state, stat.parent, stat.session, stat.cpu_ticks, stat.identity.start_ticks),
            (b'S', 7, 9, 5 + 6, 12345)
        );
        assert_eq!(&stat.name[..9], b"a) (b c\0\0");
        assert!(stat.ignores(libc::SIGINT) && stat.ignores(libc::SIGQUIT) && !stat.ignores(libc::SIGTERM));
        assert!(stat.catches(libc::SIGTERM) && !stat.catches(libc::SIGINT) && !stat.catches(64));
        assert!(!stat.blocks(libc::SIGTERM));
    }

    /// The kernel prints the signal sets in two files. `stat`, which is read anyway, must agree with `status`.
    #[test]
    fn the_sets_of_signals_are_those_of_the_status_file() {
        let script = "trap '' INT; trap : TERM USR1; echo; while :; do sleep 60; done";
        let mut child = Command::new("bash").args(["-c", script]).stdout(std::process::Stdio::piped()).spawn().unwrap();
        std::io::Read::read(child.stdout.as_mut().unwrap(), &mut [0]).unwrap();
        let pid = Pid::new(child.id() as i32).unwrap();
        // bash changes its handling of SIGINT while it waits for a program: only an unchanged state is compared.
        let (stat, status) = loop {
            let stat = Stat::read(pid).unwrap();
            let status = String::from_utf8(read_file(format!("/proc/{pid}/status")).unwrap()).unwrap();
            let again = Stat::read(pid).unwrap();
            if (stat.ignored, stat.caught) == (again.ignored, again.caught) {
                break (stat, status);
            }
        };
        let mask = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            u64::from_str_radix(line.trim(), 16).unwrap() as u32 & 0x7fff_ffff
        };
        assert_eq!((stat.ignored, stat.caught), (mask("SigIgn:"), mask("SigCgt:")));
        assert!(stat.ignores(libc::SIGINT) && stat.catches(libc::SIGTERM) && stat.catches(libc::SIGUSR1));
        for stat in descendants(&[stat.identity.pid], &HashSet::new()).unwrap() {
            crate::signal::send_to(stat.identity, libc::SIGKILL).unwrap();
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn reads_files_of_any_length() {
        let long = read_file("/proc/self/environ").unwrap();
        assert_eq!(long, fs::read("/proc/self/environ").unwrap());
        assert!(read_file("/proc/self/smaps").unwrap().len() > FILE_LENGTH);
        assert!(read_file("/proc/0/stat").is_err());
    }

    #[test]
    fn finds_a_child_and_sees_it_die() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid::new(child.id() as i32).unwrap();
        let own = Pid::new(std::process::id() as i32).unwrap();
        assert!(children(own).unwrap().contains(&pid));
        let identity = Stat::read(pid).unwrap().identity;
        assert!(is_alive(identity).unwrap());
        assert!(!is_alive(Identity { start_ticks: identity.start_ticks + 1, ..identity }).unwrap());
        crate::signal::send_to(identity, libc::SIGKILL).unwrap();
        child.wait().unwrap();
        assert!(!is_alive(identity).unwrap());
    }

    #[test]
    fn descendants_leave_out_spared_branches() {
        let mut child = Command::new("sh")
            .args(["-c", "sleep 60 & echo $!; wait"])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut line).unwrap();
        let (shell, sleeper) = (Pid::new(child.id() as i32).unwrap(), Pid::new(line.trim().parse().unwrap()).unwrap());
        let own = Pid::new(std::process::id() as i32).unwrap();
        let all: Vec<Pid> =
            descendants(&[own], &HashSet::new()).unwrap().iter().map(|stat| stat.identity.pid).collect();
        assert!(all.contains(&shell) && all.contains(&sleeper));
        let spared: Vec<Pid> =
            descendants(&[own], &HashSet::from([shell])).unwrap().iter().map(|stat| stat.identity.pid).collect();
        assert!(!spared.contains(&shell) && !spared.contains(&sleeper));
        for stat in descendants(&[shell], &HashSet::new()).unwrap() {
            crate::signal::send_to(stat.identity, libc::SIGKILL).unwrap();
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
