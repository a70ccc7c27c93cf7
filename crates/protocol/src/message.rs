//! Messages as bytes: postcard, one message in a packet, with its descriptors.

use crate::socket;
use serde::{Serialize, de::DeserializeOwned};
use std::cell::RefCell;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

/// Maximum bytes of one message. Lists of spared processes are cut off well before.
pub const MAX_MESSAGE_BYTES: usize = 64 * 1024;

/// Sends one message with its descriptors.
pub fn send<T: Serialize>(socket: BorrowedFd<'_>, message: &T, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    socket::send(socket, &encode(message)?, descriptors)
}

/// Encodes a message.
pub fn encode<T: Serialize>(message: &T) -> io::Result<Vec<u8>> {
    postcard::to_stdvec(message).map_err(invalid)
}

/// Decodes a message.
///
/// # Errors
/// `InvalidData` for bytes that are not a message, or more than one.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> io::Result<T> {
    match postcard::take_from_bytes(bytes).map_err(invalid)? {
        (message, []) => Ok(message),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Decodes the first of several messages. Returns the rest too.
///
/// # Errors
/// `InvalidData` for bytes that do not begin with a message.
pub fn decode_first<T: DeserializeOwned>(bytes: &[u8]) -> io::Result<(T, &[u8])> {
    postcard::take_from_bytes(bytes).map_err(invalid)
}

/// Receives one message with its descriptors; `None` at end of file.
///
/// # Errors
/// `WouldBlock` if a non-blocking socket is empty, `InvalidData` for a message of another kind.
pub fn receive<T: DeserializeOwned>(socket: BorrowedFd<'_>) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
    thread_local! {
        static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; MAX_MESSAGE_BYTES]);
    }
    BUFFER.with_borrow_mut(|buffer| {
        let (length, descriptors) = socket::receive_with(socket, buffer)?;
        if length == 0 { Ok(None) } else { Ok(Some((decode(&buffer[..length])?, descriptors))) }
    })
}

fn invalid(error: postcard::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::{Call, FilesReply, FilesRequest, MAX_PATH_BYTES};
    use crate::supervisor::Order;
    use nacre_containment::pid::Pid;
    use std::os::fd::AsFd;

    #[test]
    fn messages_keep_their_bounds_any_byte_and_their_descriptors() {
        let (a, b) = socket::pair().unwrap();
        let call = Call::Rename { from: b"\xff\n\"".to_vec(), to: b"x".repeat(MAX_PATH_BYTES) };
        let request = FilesRequest { cwd: b"/".to_vec(), call, is_rooted: false };
        let order = Order::KillForeground {
            id: 7,
            command: Some(3),
            signal: 15,
            grace_ms: 5,
            spare: vec![Pid::new(9).unwrap()],
        };
        send(a.as_fd(), &request, &[b.as_fd()]).unwrap();
        send(a.as_fd(), &order, &[]).unwrap();
        drop(a);
        let (received, descriptors) = receive::<FilesRequest>(b.as_fd()).unwrap().unwrap();
        assert_eq!((received, descriptors.len()), (request, 1));
        assert_eq!(receive::<Order>(b.as_fd()).unwrap().unwrap().0, order);
        assert!(receive::<Order>(b.as_fd()).unwrap().is_none());
    }

    #[test]
    fn bytes_that_are_no_message_are_refused() {
        assert!(decode::<FilesReply>(&[]).is_err());
        assert!(decode::<FilesReply>(&[200]).is_err());
        // A list of 2^32 entries in two bytes.
        assert!(decode::<FilesReply>(&[2, 0xff, 0xff, 0xff, 0xff, 0x0f]).is_err());
        let mut bytes = encode(&FilesReply::Done).unwrap();
        bytes.push(0);
        assert!(decode::<FilesReply>(&bytes).is_err(), "a second message");
        // The pid 0, which no process has.
        assert!(decode::<Pid>(&[0]).is_err());
    }
}
