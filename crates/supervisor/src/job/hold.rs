//! What a job's supervisor holds from before its command runs, because a command can take away what comes later.
//!
//! With changed limits ([`crate::own_limits`]), the supervisor opens no file, or writes none. For the case that it cannot
//! restore them, it holds the files that end the job.

use nacre_containment::cgroup::Group;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// The open `cgroup.kill` of a job's control group.
pub struct Kill(Option<File>);

impl Kill {
    /// Opens the file, if there is a group.
    pub fn open(group: Option<&Group>) -> Self {
        Self(group.and_then(|group| File::options().write(true).open(group.path().join("cgroup.kill")).ok()))
    }

    /// Sends SIGKILL to the whole group.
    pub fn send(&self) {
        let _ = self.0.as_ref().map(|file| file.write_at(b"1", 0));
    }
}

/// The blocks of a reserved file in memory. RLIMIT_FSIZE does not bind writes to memory, not even on a file system that
/// counts them.
pub struct Room {
    start: *mut u8,
    length: usize,
}

impl Room {
    /// Maps the first bytes of a file that has them.
    ///
    /// # Errors
    /// Those of mmap(2).
    pub fn map(file: &File, length: usize) -> io::Result<Self> {
        use std::os::fd::AsRawFd;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping of an open file, at a place that the kernel chooses.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), length, protection, libc::MAP_SHARED, file.as_raw_fd(), 0) };
        if start == libc::MAP_FAILED {
            Err(io::Error::last_os_error())
        } else {
            Ok(Self { start: start.cast(), length })
        }
    }

    /// Writes from the first byte on. Text that does not fit is cut.
    pub fn write(&self, text: &[u8]) {
        // SAFETY: the mapping has `length` bytes and lives as long as this process.
        unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), self.start, text.len().min(self.length)) };
    }
}
