//! Carries the TCP connections of the guest over one port to the machine, both ways, in frames.
//!
//! A frame has four bytes: its kind, the number of its connection, and a length. The guest accepts connections and opens each on
//! the machine. [`OPEN`] begins one, [`DATA`] has bytes, [`CREDIT`] permits more of them, [`END`] is the end of one direction.
//! Each side sends [`CLOSE`] last, once: then the number is free. Without an [`END`] before, the connection is reset.
//!
//! The guest is hostile. What a connection may send ahead is bounded, and a side that breaks a rule ends all of them. A side that
//! reads nothing is not read from either: what waits for it has a bound, too.

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, connect, setsockopt, socket, sockopt};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};

/// The guest's connections at a time: the proxy takes as many of a session. Others wait to be accepted.
const MOST_STREAMS: usize = 256;
/// Bytes that a side may send ahead on a connection.
const WINDOW: usize = 48 << 10;
/// Bytes of one frame.
const MOST_DATA: usize = 16 << 10;
/// Bytes for the port with which no connection is read any more.
const MANY_WAITING: usize = 256 << 10;
/// Bytes for the port with which the port is not read any more. Answers alone are fewer: each connection has a few at a time.
const MOST_WAITING: usize = MANY_WAITING + (64 << 10);

const HEAD: usize = 4;
const OPEN: u8 = 1;
const DATA: u8 = 2;
/// The length is what was read and may be sent again.
const CREDIT: u8 = 3;
const END: u8 = 4;
const CLOSE: u8 = 5;

/// Where connections come from, or go to.
pub enum Side {
    /// That of the guest, with a listener that does not block.
    Guest(TcpListener),
    /// That of the machine.
    Machine(SocketAddrV4),
}

/// Carries until the port closes.
///
/// # Errors
/// The other side breaks a rule, or the port fails.
pub fn carry(side: Side, port: impl Read + Write + AsFd) -> io::Result<()> {
    let streams = (0..MOST_STREAMS).map(|_| None).collect();
    Carrier { side, port, streams, arrived: Vec::new(), waiting: VecDeque::new() }.run()
}

struct Carrier<P> {
    side: Side,
    port: P,
    /// By their numbers.
    streams: Vec<Option<Stream>>,
    /// What was read of the port, without the frames that were complete.
    arrived: Vec<u8>,
    /// What is to be written to the port.
    waiting: VecDeque<u8>,
}

/// What a wait has found.
struct Ready {
    port: PollFlags,
    /// A connection can be accepted.
    accepts: bool,
    /// Connections by their numbers.
    streams: Vec<(usize, PollFlags)>,
}

struct Stream {
    /// `None`: this side has sent [`CLOSE`].
    socket: Option<TcpStream>,
    is_connected: bool,
    /// Bytes for the socket.
    arrived: VecDeque<u8>,
    /// Bytes that the other side may send.
    permitted: usize,
    /// Bytes that the socket has taken, and the other side does not know of.
    taken: usize,
    /// Bytes that this side may send.
    credit: usize,
    /// The socket has nothing more to send.
    has_ended: bool,
    /// Neither has the other side.
    other_ended: bool,
    other_closed: bool,
}

impl Stream {
    fn new(socket: Option<TcpStream>, is_connected: bool) -> Self {
        let (has_ended, other_ended, other_closed) = (false, false, false);
        let (arrived, permitted, taken, credit) = (VecDeque::new(), WINDOW, 0, WINDOW);
        Self { socket, is_connected, arrived, permitted, taken, credit, has_ended, other_ended, other_closed }
    }

    /// What the socket has to be ready for.
    fn interest(&self, is_full: bool) -> PollFlags {
        let mut interest = PollFlags::empty();
        interest.set(PollFlags::POLLIN, self.is_connected && !self.has_ended && self.credit > 0 && !is_full);
        interest.set(PollFlags::POLLOUT, !self.is_connected || !self.arrived.is_empty());
        interest
    }

    /// Writes what has arrived, as far as the socket takes it.
    fn write(&mut self) -> io::Result<()> {
        let Some(socket) = &mut self.socket else { return Ok(()) };
        while !self.arrived.is_empty() {
            match socket.write(self.arrived.as_slices().0) {
                Ok(length) => {
                    self.arrived.drain(..length);
                    self.taken += length;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl<P: Read + Write + AsFd> Carrier<P> {
    fn run(mut self) -> io::Result<()> {
        let mut bytes = vec![0; MOST_DATA];
        loop {
            let ready = self.wait()?;
            if ready.port.intersects(PollFlags::POLLIN | PollFlags::POLLHUP | PollFlags::POLLERR) {
                match self.port.read(&mut bytes) {
                    // Otherwise its end would be reported again and again.
                    _ if self.is_deaf() => return Ok(()),
                    Ok(0) => return Ok(()),
                    Ok(length) => self.receive(&bytes[..length])?,
                    Err(error) if is_passing(&error) => {}
                    Err(error) => return Err(error),
                }
            }
            if ready.accepts {
                self.accept();
            }
            for (number, found) in ready.streams {
                self.serve(number, found, &mut bytes);
            }
            self.flush()?;
        }
    }

    fn is_full(&self) -> bool {
        self.waiting.len() >= MANY_WAITING
    }

    fn is_deaf(&self) -> bool {
        self.waiting.len() >= MOST_WAITING
    }

    fn free(&self) -> Option<usize> {
        self.streams.iter().position(Option::is_none)
    }

    /// Waits for the port, the listener and the sockets.
    fn wait(&self) -> io::Result<Ready> {
        let mut wanted = PollFlags::empty();
        wanted.set(PollFlags::POLLIN, !self.is_deaf());
        wanted.set(PollFlags::POLLOUT, !self.waiting.is_empty());
        let mut events = vec![PollFd::new(self.port.as_fd(), wanted)];
        let mut numbers = Vec::new();
        for (number, stream) in self.streams.iter().enumerate() {
            let Some((stream, socket)) = stream.as_ref().and_then(|stream| Some((stream, stream.socket.as_ref()?)))
            else {
                continue;
            };
            let interest = stream.interest(self.is_full());
            // Otherwise the end of a connection would be reported again and again.
            if !interest.is_empty() {
                events.push(PollFd::new(socket.as_fd(), interest));
                numbers.push(number);
            }
        }
        if let Side::Guest(listener) = &self.side
            && !self.is_full()
            && self.free().is_some()
        {
            events.push(PollFd::new(listener.as_fd(), PollFlags::POLLIN));
        }
        while let Err(error) = poll(&mut events, PollTimeout::NONE) {
            if error != nix::errno::Errno::EINTR {
                return Err(error.into());
            }
        }
        let found: Vec<PollFlags> = events.iter().map(|event| event.revents().unwrap_or(PollFlags::all())).collect();
        let accepts = found.get(1 + numbers.len()).is_some_and(|found| !found.is_empty());
        let streams = numbers.into_iter().zip(found[1..].iter().copied()).filter(|(_, found)| !found.is_empty());
        Ok(Ready { port: found[0], accepts, streams: streams.collect() })
    }

    fn send(&mut self, kind: u8, number: usize, length: usize, data: &[u8]) {
        let [high, low] = (length as u16).to_be_bytes();
        self.waiting.extend([kind, number as u8, high, low]);
        self.waiting.extend(data);
    }

    fn flush(&mut self) -> io::Result<()> {
        while !self.waiting.is_empty() {
            match self.port.write(self.waiting.as_slices().0) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(length) => drop(self.waiting.drain(..length)),
                Err(error) if is_passing(&error) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn accept(&mut self) {
        let Side::Guest(listener) = &self.side else { return };
        // What is there no more has no connection.
        let Ok((socket, _)) = listener.accept() else { return };
        let Some(number) = self.free().filter(|_| prepare(&socket).is_ok()) else { return };
        self.streams[number] = Some(Stream::new(Some(socket), true));
        self.send(OPEN, number, 0, &[]);
    }

    /// Takes the frames that have arrived.
    fn receive(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut arrived = std::mem::take(&mut self.arrived);
        arrived.extend_from_slice(bytes);
        let mut rest = &arrived[..];
        while let Some((&[kind, number, high, low], after)) = rest.split_first_chunk::<HEAD>() {
            let length = usize::from(u16::from_be_bytes([high, low]));
            let size = if kind == DATA { length } else { 0 };
            if size > MOST_DATA {
                return Err(broken("a frame is too long"));
            }
            let Some((data, after)) = after.split_at_checked(size) else { break };
            self.take(kind, number.into(), length, data)?;
            rest = after;
        }
        self.arrived = rest.to_vec();
        Ok(())
    }

    fn take(&mut self, kind: u8, number: usize, length: usize, data: &[u8]) -> io::Result<()> {
        let is_new = self.streams[number].is_none();
        if kind == OPEN {
            return match self.side {
                Side::Machine(target) if is_new => {
                    self.open(number, target);
                    Ok(())
                }
                _ => Err(broken("a connection cannot be opened")),
            };
        }
        let stream = self.streams[number].as_mut().filter(|stream| !stream.other_closed);
        let stream = stream.ok_or_else(|| broken("a frame is for no connection"))?;
        let is_open = stream.socket.is_some();
        match kind {
            DATA if stream.other_ended || length > stream.permitted => return Err(broken("there is too much data")),
            // It stays below what was permitted before.
            DATA if !is_open => stream.permitted -= length,
            DATA => {
                stream.permitted -= length;
                stream.arrived.extend(data);
            }
            CREDIT if stream.credit + length > WINDOW => return Err(broken("there is too much credit")),
            CREDIT => stream.credit += length,
            END if stream.other_ended => return Err(broken("a connection ends twice")),
            END => {
                stream.other_ended = true;
                self.settle(number);
            }
            CLOSE => {
                stream.other_closed = true;
                if !is_open {
                    self.streams[number] = None;
                } else if !(stream.other_ended && stream.has_ended) {
                    self.reset(number);
                }
            }
            _ => return Err(broken("a frame is of no known kind")),
        }
        Ok(())
    }

    fn open(&mut self, number: usize, target: SocketAddrV4) {
        match begin(target) {
            Ok(socket) => self.streams[number] = Some(Stream::new(Some(socket), false)),
            Err(_) => {
                self.streams[number] = Some(Stream::new(None, false));
                self.send(CLOSE, number, 0, &[]);
            }
        }
    }

    /// Reads from a socket, and writes to it.
    fn serve(&mut self, number: usize, found: PollFlags, bytes: &mut [u8]) {
        let is_full = self.is_full();
        // An earlier frame may have closed it.
        let Some(stream) = &mut self.streams[number] else { return };
        let Some(socket) = &mut stream.socket else { return };
        if !stream.is_connected && socket.take_error().transpose().is_some() {
            return self.reset(number);
        }
        stream.is_connected = true;
        let most = stream.credit.min(bytes.len());
        let is_readable = found.intersects(PollFlags::POLLIN | PollFlags::POLLHUP | PollFlags::POLLERR);
        let reads = is_readable && !stream.has_ended && most > 0 && !is_full;
        let read = reads.then(|| socket.read(&mut bytes[..most]));
        let written = stream.write();
        let (taken, other_ended) = (stream.taken, stream.other_ended);
        // Small credits would cost more than they permit.
        if taken >= WINDOW / 2 && !other_ended {
            (stream.permitted, stream.taken) = (stream.permitted + taken, 0);
            self.send(CREDIT, number, taken, &[]);
        }
        match read {
            Some(Ok(length)) => self.pass(number, &bytes[..length]),
            Some(Err(error)) if !is_passing(&error) => return self.reset(number),
            _ => {}
        }
        match written {
            Err(_) => self.reset(number),
            Ok(()) => self.settle(number),
        }
    }

    /// Sends what was read from a socket. Nothing is its end.
    fn pass(&mut self, number: usize, data: &[u8]) {
        let Some(stream) = &mut self.streams[number] else { return };
        stream.credit -= data.len();
        stream.has_ended = data.is_empty();
        self.send(if data.is_empty() { END } else { DATA }, number, data.len(), data);
    }

    /// Ends what has ended: a direction, or both.
    fn settle(&mut self, number: usize) {
        let Some(stream) = &mut self.streams[number] else { return };
        let Some(socket) = &stream.socket else { return };
        // A connection that begins would not begin then.
        if !stream.other_ended || !stream.arrived.is_empty() || !stream.is_connected {
            return;
        }
        let _ = socket.shutdown(Shutdown::Write);
        if stream.has_ended {
            self.close(number);
        }
    }

    /// Ends a connection as if its program had been killed.
    fn reset(&mut self, number: usize) {
        if let Some(socket) = self.streams[number].as_ref().and_then(|stream| stream.socket.as_ref()) {
            let _ = setsockopt(socket, sockopt::Linger, &libc::linger { l_onoff: 1, l_linger: 0 });
            self.close(number);
        }
    }

    fn close(&mut self, number: usize) {
        self.send(CLOSE, number, 0, &[]);
        let Some(stream) = &mut self.streams[number] else { return };
        (stream.socket, stream.arrived) = (None, VecDeque::new());
        if stream.other_closed {
            self.streams[number] = None;
        }
    }
}

/// Begins to connect.
fn begin(target: SocketAddrV4) -> io::Result<TcpStream> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = TcpStream::from(socket(AddressFamily::Inet, SockType::Stream, flags, None)?);
    match connect(socket.as_raw_fd(), &SockaddrIn::from(target)) {
        Err(error) if error != nix::errno::Errno::EINPROGRESS => return Err(error.into()),
        _ => {}
    }
    prepare(&socket)?;
    Ok(socket)
}

fn prepare(socket: &TcpStream) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    socket.set_nodelay(true)
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

fn broken(rule: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, rule)
}

#[cfg(test)]
#[path = "streams_tests.rs"]
mod tests;
