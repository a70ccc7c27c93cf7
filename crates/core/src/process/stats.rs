//! Resource usage of a process and its tree, or of a session: from its control group if controllers exist, otherwise from
//! `/proc`. Nothing is measured before a caller asks.

use super::unseen;
use crate::blocking::blocking;
use crate::error::Error;
use nacre_containment::cgroup::Group;
use nacre_containment::pid::Pid;
use nacre_containment::proc_table::{self, Stat, ticks};
use nacre_containment::tree::Tree;
use std::collections::HashSet;
use std::fs;
use std::io;
use std::time::Duration;

/// See the module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Processor time, user and system. Without a control group, it includes reaped descendants, but not ended orphans.
    pub cpu_time: Duration,
    /// Bytes now: the group's `memory.current` (page cache included), or the sum of the resident sets.
    pub memory: u64,
    /// Peak bytes: the group's `memory.peak`, or the sum of the peak resident sets of the live processes.
    pub memory_peak: u64,
    /// Processes.
    pub pids: u64,
    /// Bytes read from storage.
    pub io_read: u64,
    /// Bytes written to storage.
    pub io_write: u64,
}

/// Resource usage of a session, or of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionStats {
    /// Everything below the supervisor: shells, commands, background jobs and processes, and the files helper.
    pub usage: Stats,
    /// Open descriptors of these processes, as far as this process may look.
    pub open_files: u64,
    /// Terminals that these processes have as their controlling terminal.
    pub terminals: u64,
    /// How many sessions these are.
    pub sessions: u64,
}

/// Major numbers of the devices of pseudoterminals.
const TERMINALS: std::ops::RangeInclusive<u32> = 136..=143;

/// Maximum descriptors of a process to count where the kernel does not.
const MOST_OPEN_FILES: usize = 1 << 20;

impl SessionStats {
    /// Reads the current usage of a session by its supervisor, whose pid the caller holds meanwhile.
    ///
    /// # Errors
    /// `ENGINE_ERROR`.
    pub async fn of(supervisor: Pid, group: Option<Group>) -> Result<Self, Error> {
        blocking(move || Self::look(supervisor, group.as_ref()).map_err(|error| unseen(&error))).await
    }

    fn look(supervisor: Pid, group: Option<&Group>) -> io::Result<Self> {
        let mut members = proc_table::descendants(&[supervisor], &HashSet::new())?;
        members.retain(Stat::is_running);
        let mut usage = Stats::of_each(&members, group);
        if group.is_none() {
            // It reaps what it has started, and all orphans.
            usage.cpu_time += Stat::read(supervisor).map_or(Duration::ZERO, |stat| ticks(stat.reaped_ticks));
        }
        let terminals: HashSet<_> =
            members.iter().map(Stat::terminal_device).filter(|(major, _)| TERMINALS.contains(major)).collect();
        Ok(Self {
            usage,
            open_files: members.iter().map(|stat| open_files(stat.identity.pid)).sum(),
            terminals: terminals.len() as u64,
            sessions: 1,
        })
    }

    /// The sum.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            usage: self.usage.plus(&other.usage),
            open_files: self.open_files + other.open_files,
            terminals: self.terminals + other.terminals,
            sessions: self.sessions + other.sessions,
        }
    }
}

/// The kernel counts them since Linux 6.2. Unreadable ones count as 0.
fn open_files(pid: Pid) -> u64 {
    let directory = format!("/proc/{pid}/fd");
    match fs::metadata(&directory).map_or(0, |directory| directory.len()) {
        0 => fs::read_dir(directory).map_or(0, |entries| entries.take(MOST_OPEN_FILES).count() as u64),
        counted => counted,
    }
}

impl Stats {
    /// Reads the current usage.
    ///
    /// # Errors
    /// `ENGINE_ERROR`.
    pub async fn of(tree: Tree) -> Result<Self, Error> {
        blocking(move || Self::look(&tree).map_err(|error| unseen(&error))).await
    }

    fn look(tree: &Tree) -> io::Result<Self> {
        Ok(Self::of_each(&tree.members()?, tree.group.as_ref()))
    }

    fn of_each(members: &[Stat], group: Option<&Group>) -> Self {
        let mut stats = members.iter().fold(Self::default(), |sum, stat| sum.plus(&Self::of_one(stat)));
        if let Some(group) = group {
            stats.prefer_group(group);
        }
        stats
    }

    fn plus(&self, other: &Self) -> Self {
        Self {
            cpu_time: self.cpu_time + other.cpu_time,
            memory: self.memory + other.memory,
            memory_peak: self.memory_peak + other.memory_peak,
            pids: self.pids + other.pids,
            io_read: self.io_read + other.io_read,
            io_write: self.io_write + other.io_write,
        }
    }

    /// `/proc/<pid>/stat`, `status` and `io` (proc(5)). Unreadable files count as 0: the process has ended.
    fn of_one(stat: &Stat) -> Self {
        let read = |name: &str| proc_table::read_of(stat.identity.pid, name).unwrap_or_default();
        let (status, io) = (read("status"), read("io"));
        Self {
            cpu_time: ticks(stat.cpu_ticks + stat.reaped_ticks),
            memory: field(&status, "VmRSS:") * 1024,
            memory_peak: field(&status, "VmHWM:") * 1024,
            pids: 1,
            io_read: field(&io, "read_bytes:"),
            io_write: field(&io, "write_bytes:"),
        }
    }

    /// Replaces values by those of the group, which includes ended processes. `cpu.stat` always exists; the other files
    /// need their controllers.
    fn prefer_group(&mut self, group: &Group) {
        let read = |name: &str| proc_table::read_file(group.path().join(name)).ok();
        let number = |name: &str| proc_table::numbers(&read(name)?, "").first().copied();
        self.cpu_time = group.cpu_time().unwrap_or(self.cpu_time);
        self.memory = number("memory.current").unwrap_or(self.memory);
        self.memory_peak = number("memory.peak").unwrap_or(self.memory_peak.max(self.memory));
        if let Some(text) = read("io.stat") {
            let text = String::from_utf8_lossy(&text);
            let words = || text.split_ascii_whitespace();
            let sum = |key: &str| words().filter_map(|word| word.strip_prefix(key)?.parse::<u64>().ok()).sum();
            (self.io_read, self.io_write) = (sum("rbytes="), sum("wbytes="));
        }
    }
}

/// The first number after a key at the start of a line.
fn field(text: &[u8], key: &str) -> u64 {
    proc_table::numbers(text, key).first().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_uses_memory_and_time() {
        let own = Pid::new(std::process::id() as i32).unwrap();
        let until = std::time::Instant::now() + Duration::from_secs(10);
        while Stats::of_one(&Stat::read(own).unwrap()).cpu_time.is_zero() && std::time::Instant::now() < until {}
        let stats = Stats::of_one(&Stat::read(own).unwrap());
        assert!(stats.cpu_time > Duration::ZERO && stats.memory > 100_000 && stats.memory_peak >= stats.memory);
        assert_eq!(field(b"VmHWM: 12 kB\nVmRSS: 5 kB\n", "VmRSS:"), 5);
    }
}
