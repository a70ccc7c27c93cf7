//! Asks a shell for its version and whether it can load the builtin. A shell that does not answer is killed.

use super::launch;
use nacre_protocol::shell::{REPLY_BUFFER, Reply};
use nacre_protocol::socket;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Time limit for an answer on JavaScript's thread. bash takes some milliseconds.
pub const ANSWER: Duration = Duration::from_secs(1);

/// `$BASH_VERSION` is shorter.
const LONGEST_VERSION: usize = 256;

/// Runs `shell` and waits for the builtin's hello. `None` if the shell did not answer in time or could not be started:
/// another try may succeed.
pub fn loads_builtin(shell: &Path) -> Option<bool> {
    try_to_load(shell).ok().flatten()
}

/// The `$BASH_VERSION` of a shell: empty if it is not bash, `None` if it did not answer.
pub fn version_of(shell: &Path, limit: Duration) -> Option<String> {
    let text = "printf %s \"$BASH_VERSION\"";
    let mut command = Command::new(shell);
    command.args(["-c", text]).env_clear().stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let mut stdout = child.stdout.take()?;
    let answered = becomes_readable(stdout.as_fd(), limit).is_ok_and(|ready| ready);
    // bash writes it at once. The end of the stream may never come: a process of a hostile shell may hold it.
    let mut version = [0; LONGEST_VERSION];
    let length = if answered { stdout.read(&mut version).ok() } else { None };
    let _ = child.kill();
    let _ = child.wait();
    length.map(|length| String::from_utf8_lossy(&version[..length]).into_owned())
}

/// Waits for data or the end of a stream. False if neither came in time.
fn becomes_readable(fd: BorrowedFd<'_>, limit: Duration) -> io::Result<bool> {
    let give_up = Instant::now() + limit;
    loop {
        let left = give_up.saturating_duration_since(Instant::now()).as_millis() as u16;
        match poll(&mut [PollFd::new(fd, PollFlags::POLLIN)], PollTimeout::from(left)) {
            Err(Errno::EINTR) => {}
            other => return Ok(other? > 0),
        }
    }
}

/// Passes the channel and the object as standard streams, because other descriptors would need a fork of the host.
fn try_to_load(shell: &Path) -> io::Result<Option<bool>> {
    let (ours, theirs) = socket::pair()?;
    let (channel, object) = (nacre_shell_builtin::CHANNEL_FD, nacre_shell_builtin::OBJECT_FD);
    let text = format!("exec {channel}<&0 {object}<&1 </dev/null >/dev/null; {}", nacre_shell_builtin::LOAD);
    let mut command = Command::new(shell);
    command.args(["--norc", "--noprofile", "-c", &text, "bash"]).env_clear();
    command.stdin(theirs).stdout(launch::object()?.try_clone()?).stderr(Stdio::null());
    let mut child = command.spawn()?;
    // Closes this process's copy of the other end, which the command holds.
    drop(command);
    let is_ready = becomes_readable(ours.as_fd(), ANSWER);
    let mut buffer = vec![0; REPLY_BUFFER];
    let length = if let Ok(true) = is_ready { socket::receive(ours.as_fd(), &mut buffer).unwrap_or(0) } else { 0 };
    let _ = child.kill();
    let _ = child.wait();
    Ok(is_ready?.then(|| matches!(Reply::decode(&buffer[..length]), Some(Reply::Hello { .. }))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn only_a_shell_with_the_builtin_says_hello() {
        assert_eq!(loads_builtin(Path::new("/bin/true")), Some(false));
        assert_eq!(loads_builtin(Path::new("/nowhere")), None);
        assert_eq!(version_of(Path::new("/bin/sh"), ANSWER).as_deref(), Some(""));
    }

    #[test]
    fn nothing_is_known_about_a_shell_that_does_not_answer() {
        let place = tempfile::tempdir().unwrap();
        let shell = place.path().join("bash");
        std::fs::write(&shell, "#!/bin/sh\nexec sleep 60\n").unwrap();
        std::fs::set_permissions(&shell, std::fs::Permissions::from_mode(0o755)).unwrap();
        let begun = Instant::now();
        assert_eq!((loads_builtin(&shell), version_of(&shell, ANSWER)), (None, None));
        assert!(begun.elapsed() < 5 * ANSWER);
    }
}
