//! Descriptors for the next program of this process.

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

/// Lets the next program have these descriptors.
pub fn keep(numbers: &[RawFd]) -> io::Result<()> {
    for number in numbers {
        // SAFETY: the descriptors are open, and stay so.
        let descriptor = unsafe { OwnedFd::from_raw_fd(*number) };
        let kept = fcntl(&descriptor, FcntlArg::F_SETFD(FdFlag::empty()));
        std::mem::forget(descriptor);
        kept?;
    }
    Ok(())
}
