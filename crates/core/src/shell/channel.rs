//! The host's end of the socket of one bash process.

use crate::link::{Descriptor, Link, LinkMessage};
use nacre_containment::pid::Pid;
use nacre_protocol::shell::{Encoded, REPLY_BUFFER, Reply, Request};
use nacre_protocol::socket;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::time::Duration;

/// A message or the end of a channel.
#[derive(Debug)]
pub enum Received {
    /// A message.
    Reply(Reply),
    /// End of file: the process is dead, or a command closed the shell's end.
    Closed {
        /// The process had not read the last request. The kernel reports that as a reset: a socket was closed with
        /// unread data.
        unread: bool,
    },
}

/// See the module. Only the process itself counts: another program may have copied its end (pidfd_getfd(2)), but the
/// kernel names the sender of each message.
pub struct Channel {
    link: Link<Reply>,
    /// The process; 0 until it is known. Before that, nothing but the process has its end: its first message names it.
    owner: AtomicI32,
    /// Number of messages of other programs.
    forged: AtomicU32,
    /// The process has closed its end with a request unread. The kernel reports that once, before it returns what the process has
    /// sent.
    is_reset: AtomicBool,
}

/// More messages of other programs end the channel, so that a flood of them cannot keep the engine busy.
const MOST_FORGED: u32 = 100;

impl Channel {
    /// Creates a channel. Returns the process's end as well.
    pub fn pair() -> io::Result<(Self, OwnedFd)> {
        let (ours, theirs) = socket::pair()?;
        Ok((Self::open(ours)?, theirs))
    }

    /// Creates the channel of a process that has reconnected.
    pub fn reconnected(socket: OwnedFd, owner: Pid) -> io::Result<Self> {
        let channel = Self::open(socket)?;
        channel.set_owner(owner);
        Ok(channel)
    }

    fn open(ours: OwnedFd) -> io::Result<Self> {
        socket::name_senders(ours.as_fd())?;
        Ok(Self {
            link: Link::new(ours)?,
            owner: AtomicI32::new(0),
            forged: AtomicU32::new(0),
            is_reset: AtomicBool::new(false),
        })
    }

    /// Records whose channel it is.
    pub fn set_owner(&self, pid: Pid) {
        self.owner.store(pid.raw(), Ordering::Relaxed);
    }

    /// True if other programs have ended the channel. Reports of the process may be lost.
    pub fn is_flooded(&self) -> bool {
        self.forged.load(Ordering::Relaxed) > MOST_FORGED
    }

    fn is_owner(&self, sender: i32) -> bool {
        match self.owner.compare_exchange(0, sender, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => true,
            Err(owner) => owner == sender,
        }
    }

    /// Sends a request with its descriptors.
    ///
    /// # Errors
    /// No memory file is available for a long payload, or the payload exceeds 4 GiB.
    pub fn send(&self, request: &Request<'_>, descriptors: Vec<Descriptor>) -> io::Result<()> {
        self.post(Self::prepare(request, descriptors)?);
        Ok(())
    }

    /// Prepares a request: the part of [`Channel::send`] that can fail.
    pub fn prepare(request: &Request<'_>, mut descriptors: Vec<Descriptor>) -> io::Result<LinkMessage> {
        let Encoded { message, file } = request.encode().ok_or(io::ErrorKind::FileTooLarge)?;
        if let Some(payload) = file {
            let file = crate::sys::memory_file()?;
            crate::sys::replace_contents(&file, &payload)?;
            descriptors.push(file.into());
        }
        Ok(LinkMessage { bytes: message, descriptors })
    }

    /// Sends a prepared request.
    pub fn post(&self, message: LinkMessage) {
        self.link.post(message);
    }

    /// Receives without waiting; `None` when no message has arrived.
    pub fn poll(&self) -> Option<Received> {
        thread_local! {
            static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; REPLY_BUFFER]);
        }
        BUFFER.with_borrow_mut(|buffer| {
            loop {
                return match socket::receive_from(self.link.socket(), buffer) {
                    Ok((_, None)) => Some(Received::Closed { unread: self.link.has_lost() || self.was_reset() }),
                    // Nothing of nacre sends an empty message. gVisor gives it, in the name of the peer, at each end of file.
                    Ok((length, Some(sender))) if length == 0 || !self.is_owner(sender) => {
                        tracing::warn!(sender, "a forged report was ignored");
                        self.forged.fetch_add(1, Ordering::Relaxed);
                        if self.is_flooded() {
                            return Some(Received::Closed { unread: false });
                        }
                        continue;
                    }
                    // Not a valid message: another program controls the process.
                    Ok((length, _)) => match Reply::decode(&buffer[..length]) {
                        Some(reply) => Some(Received::Reply(reply)),
                        None => continue,
                    },
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    // With descriptors, which the process never sends.
                    Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => continue,
                    Err(error) if is_reset(&error) && !self.is_reset.swap(true, Ordering::Relaxed) => continue,
                    Err(error) => {
                        let unread = self.is_reset.load(Ordering::Relaxed);
                        let is_open = error.kind() == io::ErrorKind::WouldBlock && !unread;
                        (!is_open).then_some(Received::Closed { unread })
                    }
                };
            }
        })
    }

    /// Waits at most so long for a message, with this thread blocked.
    pub fn wait(&self, limit: Duration) {
        let socket = self.link.socket();
        let mut fds = [PollFd::new(&socket, PollFlags::IN)];
        let limit = Timespec::try_from(limit).ok();
        let _ = poll(&mut fds, limit.as_ref());
    }

    /// See [`Link::watch`].
    pub fn watch(&self) -> io::Result<()> {
        self.link.watch()
    }

    /// See [`Link::unwatch`].
    pub fn unwatch(&self) {
        self.link.unwatch();
    }

    /// Waits until [`Channel::try_receive`] may receive something. Meanwhile, sends queued messages when the socket has
    /// room. Cancel-safe.
    pub async fn ready(&self) {
        self.link.ready().await;
    }

    /// Receives without waiting, after [`Channel::ready`].
    pub fn try_receive(&self) -> Option<Received> {
        self.link.look(|_| self.poll().ok_or(io::ErrorKind::WouldBlock.into())).ok()
    }

    /// Receives the next message. Meanwhile, sends queued messages when the socket has room. Cancel-safe.
    pub async fn receive(&self) -> Received {
        if let Some(received) = self.poll() {
            return received;
        }
        let received = self.link.receive_with(|_| self.poll().ok_or(io::ErrorKind::WouldBlock.into())).await;
        received.unwrap_or(Received::Closed { unread: false })
    }

    /// After an end of file: whether a reset came with it.
    ///
    /// The race: the kernel sets the end and the reset together, but a read checks for the reset first. If the peer
    /// closes its end between the two checks, that read returns end of file, and the next read the reset.
    fn was_reset(&self) -> bool {
        let again = || socket::receive(self.link.socket(), &mut [0; 1]);
        self.is_reset.load(Ordering::Relaxed) || again().is_err_and(|error| is_reset(&error))
    }

    /// Whether a request was lost with the process, which is dead or has another channel now. Drops what still arrives.
    ///
    /// The race: a fork that the process has just made holds the channel open until it first runs. Until then, there is
    /// no end of file, and the kernel knows how many bytes are unread. It forgets them when the fork closes the channel,
    /// but a read then reports the reset. So the bytes are counted first, and the reset is looked for afterwards.
    ///
    /// A process that is killed while it waits takes no request, since it waits in ppoll(2) and not in recvmsg(2).
    pub fn has_lost(&self) -> bool {
        if self.unread_bytes() > 0 || self.link.has_lost() {
            return true;
        }
        let end = std::iter::from_fn(|| self.poll()).find(|received| matches!(received, Received::Closed { .. }));
        matches!(end, Some(Received::Closed { unread: true }))
    }

    /// The host's end, for the supervisor to ask the process when the host has ended.
    pub fn shared(&self) -> Descriptor {
        self.link.shared()
    }

    /// The number of request bytes that the process has not read.
    pub fn unread_bytes(&self) -> usize {
        self.link.unread_bytes()
    }
}

fn is_reset(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ECONNRESET)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nacre_protocol::shell::ReplyHeader;
    use std::os::fd::AsRawFd;
    use std::time::{Duration, Instant};

    /// A header with the kind of `Ending`.
    const REPORT: [u8; size_of::<ReplyHeader>()] = {
        let mut report = [0; size_of::<ReplyHeader>()];
        report[0] = 7;
        report
    };

    /// Sends reports and empty messages from another process that has copied this end.
    fn forge(end: &OwnedFd, count: u32) {
        // SAFETY: the child makes only system calls.
        let forger = unsafe { libc::fork() };
        if forger == 0 {
            for number in 0..count {
                let length = if number % 2 == 0 { REPORT.len() } else { 0 };
                // SAFETY: as above; the bytes are initialised.
                unsafe { libc::send(end.as_raw_fd(), REPORT.as_ptr().cast(), length, 0) };
            }
            // SAFETY: as above.
            unsafe { libc::_exit(0) };
        }
        nix::sys::wait::waitpid(nix::unistd::Pid::from_raw(forger), None).unwrap();
    }

    fn own_channel() -> (Channel, OwnedFd) {
        let (channel, theirs) = Channel::pair().unwrap();
        channel.set_owner(Pid::new(std::process::id().cast_signed()).unwrap());
        (channel, theirs)
    }

    #[tokio::test]
    async fn only_the_process_itself_reports() {
        let (channel, theirs) = own_channel();
        forge(&theirs, 2);
        assert!(channel.poll().is_none(), "neither a report nor an empty message counts");
        socket::send(theirs.as_fd(), &REPORT, &[theirs.as_fd()]).unwrap();
        assert!(channel.poll().is_none(), "a message with descriptors is not the end of the channel");
        socket::send(theirs.as_fd(), &REPORT, &[]).unwrap();
        assert!(matches!(channel.poll(), Some(Received::Reply(Reply::Ending { id: 0 }))));
        drop(theirs);
        // Another test may just have forked, and its child holds the other end until it runs.
        let give_up = Instant::now() + Duration::from_secs(10);
        let end = loop {
            let received = channel.poll();
            if received.is_some() || Instant::now() > give_up {
                break received;
            }
            std::thread::yield_now();
        };
        assert!(matches!(end, Some(Received::Closed { .. })));
    }

    #[tokio::test]
    async fn last_reports_arrive_of_a_process_that_has_not_read_its_request() {
        let (channel, theirs) = own_channel();
        channel.post(LinkMessage { bytes: b"request".to_vec(), descriptors: Vec::new() });
        socket::send(theirs.as_fd(), &REPORT, &[]).unwrap();
        // Nothing but this process has its end here: a fork of another test would keep it open.
        rustix::net::shutdown(&theirs, rustix::net::Shutdown::Write).unwrap();
        drop(theirs);
        assert!(matches!(channel.poll(), Some(Received::Reply(Reply::Ending { id: 0 }))));
        assert!(channel.has_lost());
    }

    #[tokio::test]
    async fn a_flood_of_forged_reports_ends_the_channel() {
        let (channel, theirs) = own_channel();
        forge(&theirs, MOST_FORGED);
        assert!(channel.poll().is_none() && !channel.is_flooded());
        forge(&theirs, 1);
        assert!(matches!(channel.poll(), Some(Received::Closed { unread: false })) && channel.is_flooded());
    }

    /// Some kernels give them instead of an end of file.
    #[tokio::test]
    async fn empty_messages_without_end_are_the_end_of_the_channel() {
        let (channel, theirs) = own_channel();
        (0..=MOST_FORGED).for_each(|_| socket::send(theirs.as_fd(), b"", &[]).unwrap());
        assert!(matches!(channel.poll(), Some(Received::Closed { unread: false })));
    }

    #[test]
    fn a_request_that_nothing_has_read_is_lost() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        let _guard = runtime.enter();
        let (channel, process) = Channel::pair().unwrap();
        assert!(!channel.has_lost());
        channel.post(LinkMessage { bytes: b"request".to_vec(), descriptors: Vec::new() });
        let fork = process.try_clone().unwrap();
        drop(process);
        assert!(channel.has_lost(), "while a fork holds the channel open");
        drop(fork);
        assert!(channel.has_lost(), "after the fork has closed it");
    }
}
