//! The messages between a host and its supervisor, and the socket they travel on.
//!
//! The socket is a `SOCK_SEQPACKET` pair: it keeps message boundaries, and its end of file is the lifeline. Messages are
//! JSON: they are rare (none on the path of an ordinary command) and readable in a trace.

use crate::limits::Limits;
use crate::pid::{Identity, Pid};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::cell::RefCell;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

/// Longest message in bytes. Lists of spared processes are cut off well before.
pub const MAX_MESSAGE_BYTES: usize = 64 * 1024;

/// What a host tells its supervisor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    /// The grace time of the order that is being fulfilled is over.
    Insist,
    /// SIGKILL to the shell itself. Answered by [`Report::ShellEnded`].
    KillShell,
    /// Older background processes stay in the present control group; the shell moves to a fresh one, so that the next
    /// command can be told from them. Answered by [`Report::Rotated`].
    Rotate,
    /// This fork of the shell is the new standby; the one before it is no longer needed and is killed. Answered by
    /// [`Report::StandbyPlaced`].
    Standby {
        /// The new standby, an adopted child of the supervisor.
        pid: Pid,
    },
    /// The standby can not do what it was asked to: it is killed with whatever it has forked. Answered by
    /// [`Report::StandbyEnded`].
    DismissStandby,
    /// The shell is dead: the standby becomes the shell. Answered by [`Report::Promoted`].
    PromoteStandby,
    /// The shell is dead and no standby is left: start a new one. Answered by [`Report::Started`] or
    /// [`Report::StartFailed`].
    Respawn,
    /// This adopted child is a background process. Answered by [`Report::Adopted`], and once the standby is where it can
    /// start the next one, by [`Report::StandbyPlaced`].
    Adopt {
        /// Names the process from now on.
        key: u64,
        /// Its process, a fork of the standby.
        pid: Pid,
        /// The value of [`crate::tree::MARK`] in its environment.
        mark: String,
    },
    /// Puts a background process under its limits. Answered by [`Report::Limited`].
    Limit {
        /// Which process.
        key: u64,
        /// What it may use.
        limits: Limits,
    },
    /// End a background process with its whole tree: `signal` and SIGCONT, and SIGKILL to what is left after `grace_ms`.
    /// Answered by [`Report::ProcessKilled`].
    KillProcess {
        /// Echoed in the answer.
        id: u64,
        /// Which process.
        key: u64,
        /// First signal.
        signal: i32,
        /// Milliseconds until SIGKILL.
        grace_ms: u64,
    },
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
    /// The standby can start a background process: where groups are used it waits in the group of that process.
    StandbyPlaced {
        /// Which standby.
        standby: Pid,
    },
    /// The standby has ended by itself, or was killed by somebody else.
    StandbyEnded {
        /// Which standby.
        standby: Pid,
    },
    /// Answer to [`Order::Adopt`]: from now on its end is reported.
    Adopted {
        /// From the order.
        key: u64,
        /// Who it is; nothing when it has ended already.
        identity: Option<Identity>,
        /// Its control group, when groups are used.
        group: Option<String>,
    },
    /// Answer to [`Order::Limit`].
    Limited {
        /// From the order.
        key: u64,
        /// Why its limits are not in force.
        problem: Option<String>,
    },
    /// A background process has ended and is reaped. Of its tree somebody may be left.
    ProcessEnded {
        /// Which one.
        key: u64,
        /// Exit code, when it exited.
        code: Option<i32>,
        /// Signal number, when it was killed.
        signal: Option<i32>,
        /// Its memory limit was reached.
        out_of_memory: bool,
        /// It was asked to end while no program ran in front: an exit code of 0 is not that of one.
        alone: bool,
    },
    /// Answer to [`Order::KillProcess`]: nothing of the tree is left.
    ProcessKilled {
        /// From the order.
        id: u64,
        /// False when there was nobody to kill.
        found: bool,
        /// True when SIGKILL was needed.
        escalated: bool,
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
    thread_local! {
        static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; MAX_MESSAGE_BYTES]);
    }
    BUFFER.with_borrow_mut(|buffer| {
        let length = nix::sys::socket::recv(socket.as_raw_fd(), buffer, nix::sys::socket::MsgFlags::empty())?;
        if length == 0 { Ok(None) } else { Ok(Some(serde_json::from_slice(&buffer[..length])?)) }
    })
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
