//! Descriptors for the next program of this process.

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use std::io;
use std::os::fd::{BorrowedFd, RawFd};

/// Lets the next program have these descriptors.
pub fn keep(numbers: &[RawFd]) -> io::Result<()> {
    for number in numbers {
        // SAFETY: the descriptors are open, and stay so.
        let descriptor = unsafe { BorrowedFd::borrow_raw(*number) };
        fcntl(descriptor, FcntlArg::F_SETFD(FdFlag::empty()))?;
    }
    Ok(())
}
