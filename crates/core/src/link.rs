//! A socket that carries messages. None is lost when the socket is full, and sending never waits.

use nacre_containment::lock::Lock;
use nacre_protocol::{message, socket};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::VecDeque;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Bytes and the descriptors that are sent with them.
pub struct LinkMessage {
    /// The message itself.
    pub bytes: Vec<u8>,
    /// Owned descriptors are closed here once the message has been sent.
    pub descriptors: Vec<Descriptor>,
}

impl LinkMessage {
    /// Encodes a message of the supervisor's or the files helper's protocol.
    pub fn of(content: &impl Serialize, descriptors: Vec<Descriptor>) -> io::Result<Self> {
        Ok(Self { bytes: message::encode(content)?, descriptors })
    }
}

/// A descriptor that is sent with a message.
#[derive(Debug)]
pub enum Descriptor {
    /// Closed here once it has been sent.
    Owned(OwnedFd),
    /// Still in use here.
    Shared(Arc<OwnedFd>),
}

impl AsFd for Descriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Owned(fd) => fd.as_fd(),
            Self::Shared(fd) => fd.as_fd(),
        }
    }
}

impl From<OwnedFd> for Descriptor {
    fn from(fd: OwnedFd) -> Self {
        Self::Owned(fd)
    }
}

impl From<Arc<OwnedFd>> for Descriptor {
    fn from(fd: Arc<OwnedFd>) -> Self {
        Self::Shared(fd)
    }
}

/// The outcome of an attempt to send a message.
#[derive(PartialEq, Eq)]
enum Attempt {
    /// It was sent, or lost with the peer.
    Over,
    /// The socket has no room.
    Full,
    /// Too many descriptors of this user are in flight (unix(7), `ETOOMANYREFS`).
    Crowded,
}

/// How long to wait while too many descriptors are in flight. The socket is writable, so no event reports the end.
const PAUSE: Duration = Duration::from_millis(10);

/// A socket on which `In` arrives, and the messages that wait for room in it.
pub struct Link<In> {
    socket: Arc<OwnedFd>,
    /// Its registration with the reactor, while its messages are waited for there.
    watch: Lock<Option<Arc<AsyncFd<Arc<OwnedFd>>>>>,
    /// A message was lost because the peer had exited.
    has_lost: AtomicBool,
    /// Shared by the engine's thread and a caller that sends a command itself.
    waiting: Lock<VecDeque<LinkMessage>>,
    incoming: PhantomData<fn() -> In>,
}

impl<In> Link<In> {
    /// Creates a link. Returns the peer's end as well.
    pub fn pair() -> io::Result<(Self, OwnedFd)> {
        let (ours, theirs) = socket::pair()?;
        Ok((Self::new(ours)?, theirs))
    }

    /// Takes a connected socket.
    pub fn new(socket: OwnedFd) -> io::Result<Self> {
        crate::sys::set_nonblocking(&socket)?;
        let (has_lost, waiting, incoming) = (AtomicBool::new(false), Lock::default(), PhantomData);
        let link = Self { socket: Arc::new(socket), watch: Lock::default(), has_lost, waiting, incoming };
        link.watch()?;
        Ok(link)
    }

    /// Lets the reactor report messages.
    ///
    /// # Errors
    /// Those of `epoll_ctl(2)`.
    pub fn watch(&self) -> io::Result<()> {
        let mut watch = self.watch.lock();
        if watch.is_none() {
            *watch = Some(Arc::new(crate::sys::watch(Arc::clone(&self.socket))?));
        }
        Ok(())
    }

    /// Does not let messages wake the engine's thread any more, until [`Link::watch`] or [`Link::receive_with`].
    pub fn unwatch(&self) {
        self.watch.lock().take();
    }

    /// The registration, when there is one.
    async fn watched(&self) -> Arc<AsyncFd<Arc<OwnedFd>>> {
        let watched = self.watch.lock().clone();
        match watched {
            Some(watched) => watched,
            None => std::future::pending().await,
        }
    }

    /// The socket.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Sends a message now, or as soon as the socket has room. The reader detects a dead peer.
    pub fn post(&self, message: LinkMessage) {
        let mut waiting = self.waiting.lock();
        if !waiting.is_empty() || self.attempt(&message) != Attempt::Over {
            waiting.push_back(message);
        }
    }

    /// True if the peer had exited before a message could be sent.
    pub fn has_lost(&self) -> bool {
        self.has_lost.load(Ordering::Relaxed)
    }

    /// The number of sent bytes that the peer has not read.
    pub fn unread_bytes(&self) -> usize {
        socket::unread_bytes(self.socket()).unwrap_or(0)
    }

    /// The socket, for another process to use as well.
    pub fn shared(&self) -> Descriptor {
        Arc::clone(&self.socket).into()
    }

    /// Waits until no message waits for room. Cancel-safe.
    pub async fn flush(&self) {
        while self.is_blocked() {
            self.send_when_writable().await;
        }
    }

    fn is_blocked(&self) -> bool {
        !self.waiting.lock().is_empty()
    }

    /// Waits for room and sends the waiting messages.
    async fn send_when_writable(&self) {
        let watched = self.watched().await;
        let Ok(mut guard) = watched.writable().await else { return std::future::pending().await };
        match self.send_waiting() {
            Attempt::Over => {}
            Attempt::Full => guard.clear_ready(),
            Attempt::Crowded => tokio::time::sleep(PAUSE).await,
        }
    }

    fn send_waiting(&self) -> Attempt {
        let mut waiting = self.waiting.lock();
        while let Some(message) = waiting.front() {
            match self.attempt(message) {
                Attempt::Over => drop(waiting.pop_front()),
                blocked => return blocked,
            }
        }
        Attempt::Over
    }

    /// Waits until [`Link::look`] may find something in the socket. Meanwhile, sends waiting messages when there is room.
    /// Cancel-safe.
    pub async fn ready(&self) {
        let watched = self.watched().await;
        loop {
            tokio::select! {
                // The guard is dropped without clearing: `look` does that when it finds nothing.
                readable = watched.readable() => match readable {
                    Ok(_) => return,
                    Err(_) => std::future::pending().await,
                },
                () = self.send_when_writable(), if self.is_blocked() => {}
            }
        }
    }

    /// Looks for something in the socket, without waiting.
    ///
    /// # Errors
    /// Those of `look`.
    pub fn look<T>(&self, look: impl Fn(BorrowedFd<'_>) -> io::Result<T>) -> io::Result<T> {
        match &*self.watch.lock() {
            Some(watched) => watched.try_io(Interest::READABLE, |_| look(self.socket())),
            None => look(self.socket()),
        }
    }

    /// Waits for what `look` finds in the socket. Meanwhile, sends waiting messages when there is room. Cancel-safe.
    ///
    /// # Errors
    /// Those of `look`, but not `WouldBlock`, and of [`Link::watch`].
    pub async fn receive_with<T>(&self, look: impl Fn(BorrowedFd<'_>) -> io::Result<T>) -> io::Result<T> {
        self.watch()?;
        let watched = self.watched().await;
        loop {
            let mut guard = tokio::select! {
                guard = watched.readable() => guard?,
                () = self.send_when_writable(), if self.is_blocked() => continue,
            };
            // The reactor runs on this thread, so nothing can have arrived between this look and the clearing.
            match guard.try_io(|_| look(self.socket())) {
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(result) => return result,
                Err(_would_block) => {}
            }
        }
    }

    fn attempt(&self, message: &LinkMessage) -> Attempt {
        let descriptors: Vec<_> = message.descriptors.iter().map(AsFd::as_fd).collect();
        loop {
            match socket::send(self.socket(), &message.bytes, &descriptors) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Attempt::Full,
                Err(error) if error.raw_os_error() == Some(libc::ETOOMANYREFS) => return Attempt::Crowded,
                Err(_) => {
                    self.has_lost.store(true, Ordering::Relaxed);
                    return Attempt::Over;
                }
                Ok(()) => return Attempt::Over,
            }
        }
    }
}

impl<In: DeserializeOwned> Link<In> {
    /// Waits for the next message and the descriptors that travel with it; `None` at end of file. Cancel-safe.
    pub async fn receive(&self) -> io::Result<Option<(In, Vec<OwnedFd>)>> {
        self.receive_with(message::receive).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nacre_protocol::socket::{pair, receive};
    use std::convert::Infallible;

    #[tokio::test]
    async fn keeps_what_a_full_socket_does_not_take() {
        let (link, theirs) = Link::<Infallible>::pair().unwrap();
        for number in 0..2000u32 {
            link.post(LinkMessage { bytes: number.to_ne_bytes().to_vec(), descriptors: Vec::new() });
        }
        assert!(link.is_blocked());
        let reader = std::thread::spawn(move || {
            let mut buffer = [0; 4];
            (0..2000u32).all(|number| {
                receive(theirs.as_fd(), &mut buffer).unwrap();
                u32::from_ne_bytes(buffer) == number
            })
        });
        link.flush().await;
        assert!(reader.join().unwrap());
    }

    /// More descriptors in flight than a process may have open (unix(7), ETOOMANYREFS).
    const IN_FLIGHT: usize = 2048;

    /// In a process of its own, because it lowers a limit.
    #[test]
    fn a_message_is_sent_once_fewer_descriptors_are_in_flight() {
        const ALONE: &str = "NACRE_TEST_ALONE";
        if std::env::var_os(ALONE).is_none() {
            let name = "link::tests::a_message_is_sent_once_fewer_descriptors_are_in_flight";
            let mut test = std::process::Command::new(std::env::current_exe().unwrap());
            let output = test.args(["--exact", name]).env(ALONE, "").output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
            return;
        }
        // SAFETY: the call changes the user of this thread alone, since the limit does not bind root.
        unsafe { libc::syscall(libc::SYS_setresuid, 54_321, 54_321, 54_321) };
        let (_, hard) = nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE).unwrap();
        nix::sys::resource::setrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE, 1024, hard).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let null = crate::sys::null().unwrap();
            let (busy, reader) = pair().unwrap();
            let hundred: Vec<_> = (0..128).map(|_| null.as_fd()).collect();
            (0..IN_FLIGHT / hundred.len()).for_each(|_| drop(socket::send(busy.as_fd(), b"x", &hundred)));
            let (link, theirs) = Link::<Infallible>::pair().unwrap();
            link.post(LinkMessage { bytes: b"late".to_vec(), descriptors: vec![null.into()] });
            assert!(link.is_blocked());
            link.send_when_writable().await;
            assert!(link.is_blocked());
            drop((busy, reader));
            tokio::time::timeout(std::time::Duration::from_secs(10), link.flush())
                .await
                .expect("the message was never sent");
            assert_eq!(receive(theirs.as_fd(), &mut [0; 8]).unwrap(), 4);
        });
    }
}
