//! Work in a short-lived child: in namespaces that this process must not enter.

use crate::namespaces::await_message;
use nacre_containment::fork::{fork, kill, wait};
use nacre_protocol::socket;
use std::io;
use std::os::fd::AsFd;

/// Longest text of a report.
const MESSAGE_BYTES: usize = 1024;

/// Works in a child, and returns its report. `None` if it does not respond, or was killed.
///
/// # Errors
/// No child could be made: nothing was done.
pub(crate) fn report(work: impl FnOnce() -> String) -> io::Result<Option<String>> {
    let (ours, theirs) = socket::pair()?;
    let (child, _) = fork(0, None)?;
    if child == 0 {
        drop(ours);
        let _ = socket::send(theirs.as_fd(), work().as_bytes(), &[]);
        // SAFETY: exits without running destructors, which belong to the parent.
        unsafe { libc::_exit(0) };
    }
    drop(theirs);
    let mut buffer = [0; MESSAGE_BYTES];
    let received = await_message(&ours).and_then(|()| socket::receive(ours.as_fd(), &mut buffer));
    // It has done everything, or must not go on.
    kill(child);
    if received.is_ok() {
        wait(child);
    }
    Ok(received.ok().and_then(|length| buffer.get(..length)).map(|text| String::from_utf8_lossy(text).into_owned()))
}
