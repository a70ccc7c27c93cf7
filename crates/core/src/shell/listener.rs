//! The socket at which a shell reconnects after a command has closed its channel.
//!
//! One socket serves the whole process. The host sends its random name to the shells over their channels, never by
//! environment or command line. A connection is accepted only if the kernel identifies its peer as an expected process
//! (`SO_PEERCRED`).

use nacre_containment::pid::Pid;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, accept4, bind, getsockopt, listen, socket, sockopt,
};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use tokio::sync::mpsc::UnboundedSender;

/// A process that has reconnected.
pub struct Reconnected {
    /// The process.
    pub pid: Pid,
    /// Its new socket.
    pub socket: OwnedFd,
}

type Expected = HashMap<i32, UnboundedSender<Reconnected>>;

static EXPECTED: Mutex<Option<Expected>> = Mutex::new(None);

fn expected() -> MutexGuard<'static, Option<Expected>> {
    EXPECTED.lock().unwrap_or_else(PoisonError::into_inner)
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
    listen(&listener, Backlog::new(64)?)?;
    tokio::spawn(accept(crate::sys::watch(listener)?));
    Ok(NAME.get_or_init(|| name))
}

async fn accept(listener: tokio::io::unix::AsyncFd<OwnedFd>) {
    while let Ok(mut guard) = listener.readable().await {
        let accepted = guard.try_io(|listener| Ok(accept4(listener.as_raw_fd(), SockFlag::SOCK_CLOEXEC)?));
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
