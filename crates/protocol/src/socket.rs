//! Sequenced-packet sockets: connected pairs, and messages with descriptors (unix(7), `SCM_RIGHTS`).

use nix::cmsg_space;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, UnixCredentials, recvmsg,
    sendmsg, setsockopt, socketpair, sockopt,
};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Instant;

/// Maximum descriptors in one message.
pub const MAX_DESCRIPTORS: usize = 16;

/// Creates a connected pair; both ends are blocking and close on exec.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)?)
}

/// Waits for one of these events, or the end of the other side. False once the time is over.
///
/// # Errors
/// Those of poll(2), except that a signal does not end the wait.
pub fn await_events(descriptor: BorrowedFd<'_>, events: PollFlags, end: Instant) -> io::Result<bool> {
    loop {
        let left = PollTimeout::try_from(end.saturating_duration_since(Instant::now())).unwrap_or(PollTimeout::MAX);
        match poll(&mut [PollFd::new(descriptor, events)], left) {
            Err(Errno::EINTR) => {}
            ready => return Ok(ready? > 0),
        }
    }
}

/// Sends one message with descriptors.
///
/// # Errors
/// `WouldBlock` if a non-blocking socket is full; `EPIPE` and `ECONNRESET` if the peer has exited.
pub fn send(socket: BorrowedFd<'_>, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    if descriptors.is_empty() {
        nix::sys::socket::send(socket.as_raw_fd(), bytes, MsgFlags::MSG_NOSIGNAL)?;
        return Ok(());
    }
    let numbers: Vec<RawFd> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
    let control = [ControlMessage::ScmRights(&numbers)];
    sendmsg::<()>(socket.as_raw_fd(), &[IoSlice::new(bytes)], &control, MsgFlags::MSG_NOSIGNAL, None)?;
    Ok(())
}

/// Receives one message into `buffer`. Returns its length, 0 at end of file. A longer message is truncated.
///
/// # Errors
/// `WouldBlock` if a non-blocking socket is empty.
pub fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    Ok(nix::sys::socket::recv(socket.as_raw_fd(), buffer, MsgFlags::empty())?)
}

/// Makes the kernel name the sender of each message that is sent from now on (unix(7), `SO_PASSCRED`). Only a program
/// with CAP_SYS_ADMIN can send in the name of another one.
pub fn name_senders(socket: BorrowedFd<'_>) -> io::Result<()> {
    Ok(setsockopt(&socket, sockopt::PassCred, &true)?)
}

/// Like [`receive`], with the pid of the sender; `None` at end of file. Needs [`name_senders`].
pub fn receive_from(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<(usize, Option<i32>)> {
    // No room for descriptors: the kernel closes them.
    let mut space = cmsg_space!(UnixCredentials);
    let mut parts = [IoSliceMut::new(buffer)];
    let message = recvmsg::<()>(socket.as_raw_fd(), &mut parts, Some(&mut space), MsgFlags::MSG_CMSG_CLOEXEC)?;
    let sender = message.cmsgs()?.find_map(|control| match control {
        ControlMessageOwned::ScmCredentials(credentials) => Some(credentials.pid()),
        _ => None,
    });
    Ok((message.bytes, sender))
}

/// Like [`receive`], with the descriptors of the message, which close on exec. A peer that has closed its end with messages
/// unread makes no difference: what it has sent comes first, then the end of file.
///
/// # Errors
/// `EMFILE` if this process cannot have all of the descriptors. Those that it got are closed, and the message is lost.
pub fn receive_with(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(buffer)];
    let mut receive = || rustix::net::recvmsg(socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC);
    // The kernel reports the reset once, before it returns what the peer has sent.
    let message = match receive() {
        Err(rustix::io::Errno::CONNRESET) => receive()?,
        received => received?,
    };
    let mut descriptors = Vec::new();
    for part in control.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = part {
            descriptors.extend(received);
        }
    }
    if message.flags.contains(ReturnFlags::CTRUNC) {
        return Err(io::Error::from_raw_os_error(libc::EMFILE));
    }
    Ok((message.bytes, descriptors))
}

/// The number of bytes that the peer has not read (unix(7), SIOCOUTQ).
///
/// # Errors
/// Those of ioctl(2).
pub fn unread_bytes(socket: BorrowedFd<'_>) -> io::Result<usize> {
    let mut count: libc::c_int = 0;
    // SAFETY: TIOCOUTQ, the same number as SIOCOUTQ, stores an int through the pointer.
    Errno::result(unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut count) })?;
    Ok(usize::try_from(count).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{Read, Write};
    use std::os::fd::AsFd;

    #[test]
    fn keeps_boundaries_and_passes_descriptors() {
        let (a, b) = pair().unwrap();
        let (mut reader, writer) = std::io::pipe().unwrap();
        send(a.as_fd(), b"one", &[writer.as_fd()]).unwrap();
        send(a.as_fd(), b"two", &[]).unwrap();
        drop((a, writer));
        let mut buffer = [0; 16];
        let (length, mut descriptors) = receive_with(b.as_fd(), &mut buffer).unwrap();
        assert_eq!((&buffer[..length], descriptors.len()), (&b"one"[..], 1));
        File::from(descriptors.remove(0)).write_all(b"x").unwrap();
        assert_eq!(receive(b.as_fd(), &mut buffer).unwrap(), 3);
        assert_eq!(receive(b.as_fd(), &mut buffer).unwrap(), 0, "end of file");
        let mut read = Vec::new();
        reader.read_to_end(&mut read).unwrap();
        assert_eq!(read, b"x");
    }

    #[test]
    fn last_messages_arrive_of_a_peer_that_has_not_read_all() {
        let (a, b) = pair().unwrap();
        send(b.as_fd(), b"unread", &[]).unwrap();
        send(a.as_fd(), b"last", &[std::io::stdin().as_fd()]).unwrap();
        drop(a);
        let mut buffer = [0; 16];
        let (length, descriptors) = receive_with(b.as_fd(), &mut buffer).unwrap();
        assert_eq!((&buffer[..length], descriptors.len()), (&b"last"[..], 1));
        assert_eq!(receive_with(b.as_fd(), &mut buffer).unwrap().0, 0, "end of file");
    }

    #[test]
    fn descriptors_that_do_not_fit_are_an_error_and_none_is_left_open() {
        let (a, b) = pair().unwrap();
        let (mut reader, writer) = std::io::pipe().unwrap();
        send(a.as_fd(), b"many", &[writer.as_fd(); 4 * MAX_DESCRIPTORS]).unwrap();
        send(a.as_fd(), b"next", &[]).unwrap();
        drop(writer);
        let mut buffer = [0; 16];
        let error = receive_with(b.as_fd(), &mut buffer).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EMFILE));
        assert_eq!(reader.read(&mut buffer).unwrap(), 0, "the end of the pipe");
        assert_eq!(receive_with(b.as_fd(), &mut buffer).unwrap().0, 4);
    }
}
