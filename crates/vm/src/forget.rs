//! Keeps the guest from using up the descriptors of a file server.
//!
//! A server has one open for each file that the guest's kernel remembers, and the kernel forgets files only when it needs
//! memory. Without descriptors, every call for a file would fail with EMFILE, until the end of the machine.

use nix::sys::resource::{Resource, getrlimit, rlim_t, setrlimit};
use std::fs;
use std::io;
use std::time::Duration;

/// Descriptors that are asked for: with fs.nr_open of the kernel's default, there cannot be more.
const MOST: rlim_t = 1 << 20;
/// Files that the guest may look up in a second.
const FASTEST: f64 = 100_000.0;
const LONGEST: Duration = Duration::from_secs(1);
const SHORTEST: Duration = Duration::from_millis(10);

/// On the machine: lets programs of this process have as many descriptors as possible. Returns their number.
///
/// # Errors
/// The limit cannot be read or changed.
pub fn raise_limit() -> io::Result<u64> {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    let more = hard.max(MOST);
    // Only root of the machine may have more than the hard limit.
    match setrlimit(Resource::RLIMIT_NOFILE, more, more) {
        Ok(()) => Ok(more),
        Err(_) => setrlimit(Resource::RLIMIT_NOFILE, hard, hard).map(|()| hard).map_err(io::Error::from),
    }
}

/// In the guest: lets the kernel forget files, again and again, before it knows as many as a server has descriptors.
pub fn run(descriptors: u64) {
    let most = descriptors / 2;
    // Those that are in use, or in memory alone.
    let mut kept = 0;
    // The kernel does not report their number.
    while let Some(number) = inodes() {
        kept = kept.min(number);
        if number - kept > most {
            // Also the content: a file with content in memory is not forgotten.
            if let Err(error) = fs::write("/proc/sys/vm/drop_caches", "3") {
                println!("nacre: the kernel cannot forget files: {error}");
                return;
            }
            kept = inodes().unwrap_or(number);
        }
        let left = (kept + most).saturating_sub(number.min(kept + most));
        std::thread::sleep(Duration::from_secs_f64(left as f64 / FASTEST).clamp(SHORTEST, LONGEST));
    }
}

/// The files that the kernel knows, of all file systems.
fn inodes() -> Option<u64> {
    fs::read_to_string("/proc/sys/fs/inode-nr").ok()?.split_whitespace().next()?.parse().ok()
}
