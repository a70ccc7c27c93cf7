//! Descriptors for the next program of this process.

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use std::io;
use std::os::fd::{BorrowedFd, RawFd};

/// Lets the next program have these descriptors.
pub fn keep(numbers: &[RawFd]) -> io::Result<()> {
    numbers.iter().try_for_each(|number| set(*number, FdFlag::empty()))
}

/// Does not let the next program have a descriptor.
///
/// # Errors
/// It is not open.
pub fn withhold(number: RawFd) -> io::Result<()> {
    set(number, FdFlag::FD_CLOEXEC)
}

fn set(number: RawFd, flags: FdFlag) -> io::Result<()> {
    // SAFETY: the descriptors are open, and stay so. Otherwise the call fails.
    let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
    fcntl(descriptor, FcntlArg::F_SETFD(flags))?;
    Ok(())
}
