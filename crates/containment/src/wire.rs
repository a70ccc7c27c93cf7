//! The messages between a host and its supervisor, and the socket they travel on.
//!
//! The socket is a `SOCK_SEQPACKET` pair: it keeps message boundaries, and its end of file is the lifeline. Messages are
//! JSON: they are rare (none on the path of an ordinary command) and readable in a trace.

use crate::pid::Pid;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

/// Longest message in bytes. Lists of spared processes are cut off well before.
pub const MAX_MESSAGE_BYTES: usize = 64 * 1024;

/// What a host tells its supervisor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// End everything the current foreground command started: interrupt the shell, then `signal` and SIGCONT to the
    /// command's processes, and SIGKILL to what is left after `grace_ms`. Answered by [`Report::Killed`].
    KillForeground {
        /// Echoed in the answer.
        id: u64,
        /// First signal.
        signal: i32,
        /// Milliseconds until SIGKILL.
        grace_ms: u64,
        /// Roots of older trees that must live on. Only used without control groups.
        spare: Vec<Pid>,
        /// The shell runs a trap of the user's when it ends: what it starts for that has the grace time.
        last_words: bool,
    },
    /// The shell has ended its command, or itself: it starts no more processes for it. Only after this can the order
    /// before it be fulfilled.
    Settled,
    /// SIGKILL to the shell itself. Answered by [`Report::ShellEnded`].
    KillShell,
    /// Older background processes stay in the present control group; the shell moves to a fresh one, so that the next
    /// command can be told from them. Answered by [`Report::Rotated`].
    Rotate,
    /// This fork of the shell is the new standby; the one before it is no longer needed and is killed.
    Standby {
        /// The new standby, an adopted child of the supervisor.
        pid: Option<Pid>,
    },
    /// The shell is dead: the standby becomes the shell. Answered by [`Report::Promoted`].
    PromoteStandby,
    /// The shell is dead and no standby is left: start a new one. Answered by [`Report::Started`] or
    /// [`Report::StartFailed`].
    Respawn,
    /// SIGTERM to everything, SIGKILL after `grace_ms`, remove the control group and the scratch directory, exit.
    Shutdown {
        /// Milliseconds until SIGKILL.
        grace_ms: u64,
    },
}

/// What a supervisor tells its host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Report {
    /// The shell runs.
    Started {
        /// Its pid.
        shell: Pid,
        /// Directory of the control group that foreground commands run in, when groups are used.
        group: Option<String>,
    },
    /// The shell could not be started.
    StartFailed {
        /// What was being done and the system's reason.
        message: String,
        /// The errno.
        errno: i32,
    },
    /// The shell's process is gone and reaped.
    ShellEnded {
        /// Which one.
        pid: Pid,
        /// Exit code, when it exited.
        code: Option<i32>,
        /// Signal number, when it was killed.
        signal: Option<i32>,
    },
    /// Answer to [`Order::PromoteStandby`].
    Promoted {
        /// The new shell, or nothing when the standby was dead too.
        shell: Option<Pid>,
    },
    /// Answer to [`Order::Rotate`].
    Rotated {
        /// Directory of the new group; `None` when groups are not used or no group could be made.
        group: Option<String>,
    },
    /// Answer to [`Order::KillForeground`]: no process of the command is left (the shell excepted).
    Killed {
        /// From the order.
        id: u64,
        /// True when SIGKILL was needed.
        escalated: bool,
    },
}

/// Sends one message.
pub fn send<T: Serialize>(socket: BorrowedFd<'_>, message: &T) -> io::Result<()> {
    let bytes = serde_json::to_vec(message)?;
    nix::sys::socket::send(socket.as_raw_fd(), &bytes, nix::sys::socket::MsgFlags::MSG_NOSIGNAL)?;
    Ok(())
}

/// Receives one message; `None` at end of file. A non-blocking socket without a message gives `WouldBlock`.
pub fn receive<T: DeserializeOwned>(socket: BorrowedFd<'_>) -> io::Result<Option<T>> {
    let mut buffer = vec![0; MAX_MESSAGE_BYTES];
    let length = nix::sys::socket::recv(socket.as_raw_fd(), &mut buffer, nix::sys::socket::MsgFlags::empty())?;
    if length == 0 { Ok(None) } else { Ok(Some(serde_json::from_slice(&buffer[..length])?)) }
}

/// A connected pair of sockets, both close-on-exec and blocking.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
    Ok(socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn keeps_message_boundaries_and_tells_the_end() {
        let (a, b) = pair().unwrap();
        let order = Order::KillForeground {
            id: 7,
            signal: 15,
            grace_ms: 5,
            spare: vec![Pid::new(9).unwrap()],
            last_words: true,
        };
        send(a.as_fd(), &order).unwrap();
        send(a.as_fd(), &Order::Rotate).unwrap();
        drop(a);
        assert_eq!(receive::<Order>(b.as_fd()).unwrap(), Some(order));
        assert_eq!(receive::<Order>(b.as_fd()).unwrap(), Some(Order::Rotate));
        assert_eq!(receive::<Order>(b.as_fd()).unwrap(), None);
    }
}
