//! The socket at which a shell reconnects after a command has closed its channel.
//!
//! One socket serves the whole process. The host sends its random name to the shells over their channels, never by
//! environment or command line. A connection is accepted only if the kernel identifies its peer as an expected process
//! (`SO_PEERCRED`).

use nacre_containment::lock::Lock;
use nacre_containment::pid::Pid;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, accept4, bind, getsockopt, listen, socket, sockopt,
};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::{MutexGuard, OnceLock};
use std::time::Duration;
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc::UnboundedSender;

/// A process that has reconnected.
pub struct Reconnected {
    /// The process.
    pub pid: Pid,
    /// Its new socket.
    pub socket: OwnedFd,
}

/// How long to wait after a failed accept. Nothing reports that a descriptor has become available (`EMFILE`), and the
/// connection still waits.
const PAUSE: Duration = Duration::from_millis(50);

type Expected = HashMap<i32, UnboundedSender<Reconnected>>;

static EXPECTED: Lock<Option<Expected>> = Lock::new(None);

fn expected() -> MutexGuard<'static, Option<Expected>> {
    EXPECTED.lock()
}

/// The name to connect to, without the NUL that starts abstract names. The first call opens the socket, on the
/// engine's thread.
pub fn name() -> io::Result<&'static str> {
    static NAME: OnceLock<String> = OnceLock::new();
    if let Some(name) = NAME.get() {
        return Ok(name);
    }
    // The standard library's hash keys are random in each process.
    let (a, b) = (RandomState::new().hash_one(1), RandomState::new().hash_one(2));
    let name = format!("nacre-{a:016x}{b:016x}");
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let listener = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None)?;
    bind(listener.as_raw_fd(), &UnixAddr::new_abstract(name.as_bytes())?)?;
    // Inherited by its connections, whose first message may arrive before they are accepted.
    nacre_protocol::socket::name_senders(listener.as_fd())?;
    listen(&listener, Backlog::new(64)?)?;
    tokio::spawn(accept(crate::sys::watch(listener)?, |listener| {
        accept4(listener.as_raw_fd(), SockFlag::SOCK_CLOEXEC)
    }));
    Ok(NAME.get_or_init(|| name))
}

async fn accept(listener: AsyncFd<OwnedFd>, accept_one: impl Fn(&OwnedFd) -> nix::Result<RawFd>) {
    while let Ok(mut guard) = listener.readable().await {
        let accepted = guard.try_io(|listener| Ok(accept_one(listener.get_ref())?));
        if let Ok(Err(_)) = accepted {
            tokio::time::sleep(PAUSE).await;
        }
        let Ok(Ok(number)) = accepted else { continue };
        // SAFETY: accept4 has just created the descriptor; nothing else owns it.
        let socket = unsafe { OwnedFd::from_raw_fd(number) };
        let Ok(peer) = getsockopt(&socket, sockopt::PeerCredentials) else { continue };
        let receiver = expected().as_ref().and_then(|expected| expected.get(&peer.pid()).cloned());
        if let (Some(receiver), Some(pid)) = (receiver, Pid::new(peer.pid())) {
            let _ = receiver.send(Reconnected { pid, socket });
        }
    }
}

/// Accepts connections of this process from now on.
pub fn expect(pid: Pid, receiver: UnboundedSender<Reconnected>) {
    expected().get_or_insert_default().insert(pid.raw(), receiver);
}

/// Removes a process that has died.
pub fn forget(pid: Pid) {
    if let Some(expected) = expected().as_mut() {
        expected.remove(&pid.raw());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::errno::Errno;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use tokio::sync::Notify;

    #[tokio::test]
    async fn other_work_goes_on_while_no_descriptor_is_left_for_a_connection() {
        let (listener, mut client) = std::os::unix::net::UnixStream::pair().unwrap();
        std::io::Write::write_all(&mut client, b"a connection waits").unwrap();
        let (failed, worked, again) =
            (Arc::new(Notify::new()), Arc::new(AtomicBool::new(false)), Arc::new(Notify::new()));
        let (has_failed, works) = (Arc::clone(&failed), Arc::clone(&worked));
        tokio::spawn(async move {
            has_failed.notified().await;
            works.store(true, Ordering::Relaxed);
        });
        let (calls, is_again) = (AtomicBool::new(false), Arc::clone(&again));
        let seen = Arc::new(AtomicBool::new(false));
        let sees = Arc::clone(&seen);
        let accepting = tokio::spawn(accept(crate::sys::watch(listener.into()).unwrap(), move |_| {
            if calls.swap(true, Ordering::Relaxed) {
                sees.store(worked.load(Ordering::Relaxed), Ordering::Relaxed);
                is_again.notify_one();
                return Err(Errno::EAGAIN);
            }
            failed.notify_one();
            Err(Errno::EMFILE)
        }));
        again.notified().await;
        assert!(seen.load(Ordering::Relaxed), "the second attempt came before other work");
        accepting.abort();
    }
}
