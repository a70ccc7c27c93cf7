//! Modification times for what gets another content, so that builds take notice.
//!
//! make, cargo and others compare the times of sources and outputs. An output that was made from other content must be older
//! than a source that is put in its place, as after `git checkout`. So new times are later than that of every earlier write,
//! and never in the future.
//!
//! They keep the order of the old ones: what was made from another entry of the same call stays up to date, and what was
//! older than its source stays so.

use crate::metadata::Metadata;
use crate::opening;
use nacre_containment::file_tree::unless;
use rustix::fs::{AtFlags, Mode, OFlags, openat, unlinkat};
use rustix::io::{Errno, Result};
use std::os::fd::OwnedFd;

/// The file that tells the time, in the staging directory.
const CLOCK: &str = "clock";
const NANOSECONDS: i64 = 1_000_000_000;
/// Attempts to see the time pass. More are needed only if the clock is set back meanwhile.
const ATTEMPTS: usize = 100;

/// A time of an entry, in seconds and nanoseconds.
pub type EntryTime = (i64, i64);

/// See the module.
pub struct Dates {
    clock: OwnedFd,
    /// Later than every earlier write.
    first: EntryTime,
    /// The old times, sorted. The new ones are a nanosecond apart.
    old: Vec<EntryTime>,
}

impl Dates {
    /// New times for entries with these old ones. `staging` is on their file system, and only this process writes there.
    ///
    /// # Errors
    /// Those of the system calls.
    pub fn new(staging: &OwnedFd, mut old: Vec<EntryTime>) -> Result<Self> {
        old.sort_unstable();
        old.dedup();
        // A process that was killed may have left it.
        unless(&[Errno::NOENT], unlinkat(staging, CLOCK, AtFlags::empty()))?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let clock = openat(staging, CLOCK, flags, Mode::RUSR | Mode::WUSR)?;
        unlinkat(staging, CLOCK, AtFlags::empty())?;
        let first = opening::moved(&clock)?;
        Ok(Self { clock, first, old })
    }

    /// The same metadata with the new time of its entry.
    pub fn give(&self, metadata: Metadata) -> Metadata {
        match metadata.modified() {
            Some(old) => metadata.modified_at(self.of(old)),
            None => metadata,
        }
    }

    /// The new time in the place of an old one.
    pub fn of(&self, old: EntryTime) -> EntryTime {
        self.after(self.old.partition_point(|other| *other < old))
    }

    fn after(&self, count: usize) -> EntryTime {
        let nanoseconds = self.first.1.saturating_add(i64::try_from(count).unwrap_or(i64::MAX));
        (self.first.0 + nanoseconds / NANOSECONDS, nanoseconds % NANOSECONDS)
    }

    /// Waits until every later write has a later time than these: a few milliseconds at most, where the clock of files ticks
    /// slowly.
    ///
    /// # Errors
    /// Those of the system calls.
    pub fn pass(self) -> Result<()> {
        let last = self.after(self.old.len());
        for _ in 0..ATTEMPTS {
            if opening::moved(&self.clock)? > last {
                break;
            }
        }
        Ok(())
    }
}
