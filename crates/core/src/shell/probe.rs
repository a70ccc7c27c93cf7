//! Checks whether a bash can load the builtin, by loading it.

use super::launch;
use nacre_protocol::shell::{REPLY_BUFFER, Reply};
use nacre_protocol::socket;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Stdio};

/// Time limit for the handshake, in milliseconds.
const HELLO_MS: u16 = 3000;

/// Runs `shell` and waits for the builtin's hello.
pub fn loads_builtin(shell: &Path) -> bool {
    try_to_load(shell).unwrap_or(false)
}

/// Passes the channel and the object as standard streams, because other descriptors would need a fork of the host.
fn try_to_load(shell: &Path) -> io::Result<bool> {
    let (ours, theirs) = socket::pair()?;
    let (channel, object) = (nacre_shell_builtin::CHANNEL_FD, nacre_shell_builtin::OBJECT_FD);
    let text = format!("exec {channel}<&0 {object}<&1 </dev/null >/dev/null; {}", nacre_shell_builtin::LOAD);
    let mut command = Command::new(shell);
    command.args(["--norc", "--noprofile", "-c", &text, "bash"]).env_clear();
    command.stdin(theirs).stdout(launch::object()?.try_clone()?).stderr(Stdio::null());
    let mut child = command.spawn()?;
    // Closes this process's copy of the other end, which the command holds.
    drop(command);
    let mut waiting = [PollFd::new(ours.as_fd(), PollFlags::POLLIN)];
    let is_ready = poll(&mut waiting, PollTimeout::from(HELLO_MS)).is_ok_and(|count| count > 0);
    let mut buffer = vec![0; REPLY_BUFFER];
    let length = if is_ready { socket::receive(ours.as_fd(), &mut buffer).unwrap_or(0) } else { 0 };
    let _ = child.kill();
    let _ = child.wait();
    Ok(matches!(Reply::decode(&buffer[..length]), Some(Reply::Hello { .. })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_shell_with_the_builtin_says_hello() {
        assert!(!loads_builtin(Path::new("/bin/true")));
        assert!(!loads_builtin(Path::new("/nowhere")));
    }
}
