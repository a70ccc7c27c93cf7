//! The channel of messages with a process that Node.js, Bun and Deno know: one end of a socket pair, whose number the
//! program finds in a variable. Each message is a line of JSON.
//!
//! A reader takes lines from the socket when it wants them. Until then they stay there, and the process blocks once the
//! socket is full. So the program decides about the memory that it spends, and a process cannot fill that of the host.

use crate::sys;
use memchr::{memchr, memchr_iter, memrchr};
use nacre_containment::lock::Lock;
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, Shutdown, send, setsockopt, shutdown, sockopt};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::unix::AsyncFd;
use tokio::sync::{mpsc, oneshot, watch};

/// Maximum bytes of a message, as of one to a process.
const LONGEST_MESSAGE: usize = 16 << 20;
/// Maximum bytes of messages that wait until the process reads. One message is accepted at any length.
const MOST_WAITING: usize = 64 << 20;
/// The wanted buffer of each direction: with the usual one, the program would wait after each few long messages.
const SOCKET_BYTES: usize = 1 << 20;
/// Maximum bytes per read.
const READ_BYTES: usize = 256 * 1024;
/// How many looks include one that makes the caller wait.
const LOOKS: u64 = 8;
/// Maximum bytes read when the process has ended: more than a socket holds.
const MOST_REST: usize = 4 << 20;

/// The number of the descriptor in plain mode. The builtin chooses another one, and corrects the variable.
const NUMBER: &str = "5";

/// The variables by which a program finds its end.
pub fn variables() -> [(String, Option<String>); 2] {
    [("NODE_CHANNEL_FD", NUMBER), ("NODE_CHANNEL_SERIALIZATION_MODE", "json")]
        .map(|(name, value)| (name.into(), Some(value.into())))
}

/// Opens a channel: the host's end, and that of the process.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    for socket in [&ours, &theirs] {
        // The kernel allows less, which it doubles.
        setsockopt(socket, sockopt::SndBuf, &SOCKET_BYTES)?;
    }
    Ok((ours.into(), theirs.into()))
}

/// Why a message was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The process has ended, or it or the host has closed its end.
    Closed,
    /// Too much waits until the process reads.
    Full,
}

/// What is left of a message that has no end. It counts as the last message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// More than [`LONGEST_MESSAGE`]. The channel is closed.
    TooLong,
    /// The process has closed its end, or has ended, in the middle of it.
    Cut,
}

/// Lines, each with its newline. Cheap to clone: until they are taken, they may be returned again.
#[derive(Clone, Debug, Default)]
pub struct MessageLines {
    bytes: Arc<Vec<u8>>,
    start: usize,
}

impl AsRef<[u8]> for MessageLines {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

/// Messages that were received.
#[derive(Debug, Default)]
pub struct MessageBatch {
    /// The messages.
    pub lines: MessageLines,
    /// The number of messages before them.
    pub first: u64,
    /// Nothing follows them.
    pub is_over: bool,
    /// What comes instead of lines, at the end.
    pub rest: Option<Rest>,
}

struct Outgoing {
    /// What the socket had no room for.
    rest: Vec<u8>,
    sent: oneshot::Sender<Result<(), Failure>>,
}

/// See the module.
pub struct Messages {
    /// `None` once it is closed.
    socket: Lock<Option<Arc<AsyncFd<OwnedFd>>>>,
    inbox: Lock<Inbox>,
    outbox: Lock<Option<mpsc::UnboundedSender<Outgoing>>>,
    /// Bytes in the outbox.
    waiting: Arc<AtomicUsize>,
    closed: watch::Sender<bool>,
}

impl Messages {
    /// Takes over the host's end. To be called on the engine's thread.
    ///
    /// # Errors
    /// Those of `epoll_ctl`.
    pub fn open(socket: OwnedFd) -> io::Result<Self> {
        let socket = Arc::new(sys::watch(socket)?);
        let (outbox, queue) = mpsc::unbounded_channel();
        let (closed, waiting) = (watch::Sender::new(false), Arc::default());
        tokio::spawn(write(Arc::clone(&socket), queue, closed.subscribe(), Arc::clone(&waiting)));
        let (socket, outbox) = (Lock::new(Some(socket)), Lock::new(Some(outbox)));
        Ok(Self { socket, inbox: Lock::default(), outbox, waiting, closed })
    }

    /// Sends a line, which ends with a newline. Returns `None` if the socket has taken it, or else a future that resolves when
    /// it has.
    ///
    /// # Errors
    /// [`Failure::Closed`] and [`Failure::Full`], also of the future.
    pub fn send(
        &self,
        line: &[u8],
    ) -> Result<Option<impl Future<Output = Result<(), Failure>> + Send + use<>>, Failure> {
        let outbox = self.outbox.lock();
        let outbox = outbox.as_ref().ok_or(Failure::Closed)?;
        let waiting = self.waiting.load(Ordering::Acquire);
        // The task has written all lines before this one, and the lock keeps others from following.
        let begun = if waiting == 0 { self.begin(line)? } else { 0 };
        let rest = line[begun..].to_vec();
        if rest.is_empty() {
            return Ok(None);
        }
        if waiting > 0 && waiting + rest.len() > MOST_WAITING {
            return Err(Failure::Full);
        }
        self.waiting.fetch_add(rest.len(), Ordering::Relaxed);
        let (sent, result) = oneshot::channel();
        outbox.send(Outgoing { rest, sent }).map_err(|_| Failure::Closed)?;
        Ok(Some(async { result.await.unwrap_or(Err(Failure::Closed)) }))
    }

    /// Writes as much as the socket has room for, which saves the way to the engine's thread.
    fn begin(&self, line: &[u8]) -> Result<usize, Failure> {
        let socket = self.socket.lock();
        match send(socket.as_ref().ok_or(Failure::Closed)?.as_raw_fd(), line, MsgFlags::MSG_NOSIGNAL) {
            Ok(count) => Ok(count),
            Err(Errno::EAGAIN | Errno::EINTR) => Ok(0),
            Err(_) => Err(Failure::Closed),
        }
    }

    /// Returns the messages after the first `taken`, which are dropped. What was not taken is returned again. With `follow`, the
    /// caller must wait if there is `None`, and now and then all the same: otherwise a process that never pauses could keep a
    /// thread that waits for nothing else.
    pub fn look(&self, taken: u64, follow: bool) -> Option<MessageBatch> {
        let socket = self.socket.lock().clone();
        let mut inbox = self.inbox.lock();
        inbox.take(taken);
        inbox.looks += 1;
        if follow && inbox.looks.is_multiple_of(LOOKS) {
            return None;
        }
        if let Some(socket) = socket
            && !inbox.has_returned()
            && inbox.lines == 0
            && !inbox.is_over
        {
            // If it fails, the reader that waits finds out.
            let _ = inbox.read(socket.get_ref());
        }
        let empty = MessageBatch { first: inbox.first, ..MessageBatch::default() };
        let next = inbox.next();
        drop(inbox);
        self.checked(next).or((!follow).then_some(empty))
    }

    /// Closes the channel after a message that is too long.
    fn checked(&self, next: Option<MessageBatch>) -> Option<MessageBatch> {
        if next.as_ref().is_some_and(|batch| batch.rest == Some(Rest::TooLong)) {
            self.close();
        }
        next
    }

    /// Like `look`, but waits for a message or the end. Cancel-safe.
    pub async fn receive(&self, taken: u64) -> MessageBatch {
        let mut closed = self.closed.subscribe();
        self.inbox.lock().take(taken);
        loop {
            let next = self.inbox.lock().next();
            if let Some(batch) = self.checked(next) {
                return batch;
            }
            let socket = self.socket.lock().clone();
            let Some(socket) = socket else { continue };
            tokio::select! {
                biased;
                _ = closed.wait_for(|closed| *closed) => {}
                () = self.read_when_ready(&socket) => {}
            }
        }
    }

    async fn read_when_ready(&self, socket: &AsyncFd<OwnedFd>) {
        loop {
            let Ok(mut guard) = socket.readable().await else { return self.inbox.lock().end() };
            match guard.try_io(|socket| self.inbox.lock().read(socket.get_ref())) {
                Ok(Ok(())) => return,
                Ok(Err(error)) if error.kind() != io::ErrorKind::Interrupted => return self.inbox.lock().end(),
                Ok(Err(_)) | Err(_) => {}
            }
        }
    }

    /// Lets the process read the end once it has read all messages so far. It can still send.
    pub fn finish(&self) {
        self.outbox.lock().take();
    }

    /// Closes the host's end. What has arrived can still be received.
    pub fn close(&self) {
        self.finish();
        let Some(socket) = self.socket.lock().take() else { return };
        let mut inbox = self.inbox.lock();
        let mut room = MOST_REST;
        while room > 0 && !inbox.is_over {
            let before = inbox.buffer.len();
            match inbox.read(socket.get_ref()) {
                Ok(()) => room = room.saturating_sub(inbox.buffer.len() - before),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        inbox.end();
        drop(inbox);
        self.closed.send_replace(true);
    }
}

/// Writes the lines of the outbox, and then the end, until the channel is closed.
async fn write(
    socket: Arc<AsyncFd<OwnedFd>>,
    mut queue: mpsc::UnboundedReceiver<Outgoing>,
    mut closed: watch::Receiver<bool>,
    waiting: Arc<AtomicUsize>,
) {
    while let Some(Outgoing { rest, sent }) = queue.recv().await {
        let result = tokio::select! {
            biased;
            // An error means that nothing can call any more.
            _ = closed.wait_for(|closed| *closed) => Err(Failure::Closed),
            written = write_all(&socket, &rest) => written.map_err(|_| Failure::Closed),
        };
        waiting.fetch_sub(rest.len(), Ordering::Release);
        let _ = sent.send(result);
    }
    let _ = shutdown(socket.as_raw_fd(), Shutdown::Write);
}

async fn write_all(socket: &AsyncFd<OwnedFd>, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let mut guard = socket.writable().await?;
        match guard.try_io(|socket| Ok(send(socket.as_raw_fd(), bytes, MsgFlags::MSG_NOSIGNAL)?)) {
            Ok(Ok(count)) => bytes = &bytes[count..],
            Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(Err(error)) => return Err(error),
            Err(_would_block) => {}
        }
    }
    Ok(())
}

/// What has arrived: lines that were returned and not taken yet, and what follows them.
#[derive(Debug, Default)]
struct Inbox {
    /// The number of messages that were taken.
    first: u64,
    returned: MessageLines,
    buffer: Vec<u8>,
    /// Where the last line in the buffer ends.
    lines: usize,
    looks: u64,
    is_over: bool,
    rest: Option<Rest>,
}

impl Inbox {
    /// Drops messages that the reader has taken.
    fn take(&mut self, taken: u64) {
        let count = usize::try_from(taken.saturating_sub(self.first)).unwrap_or(usize::MAX);
        let (mut found, mut end) = (0, 0);
        for at in memchr_iter(b'\n', self.returned.as_ref()).take(count) {
            (found, end) = (found + 1, at + 1);
        }
        self.first += found as u64;
        self.returned.start += end;
        if !self.has_returned() {
            // Its memory is free before the next one is read.
            self.returned = MessageLines::default();
            if count > found && self.lines == 0 && self.rest.take().is_some() {
                self.first += 1;
            }
        }
    }

    /// Whether there are messages that were returned and not taken.
    fn has_returned(&self) -> bool {
        !self.returned.as_ref().is_empty()
    }

    /// The messages that were not taken, or the end. `None` if the reader must wait.
    fn next(&mut self) -> Option<MessageBatch> {
        if !self.has_returned() && self.lines > 0 {
            let rest = self.buffer.split_off(self.lines);
            let bytes = Arc::new(std::mem::replace(&mut self.buffer, rest));
            self.returned = MessageLines { bytes, start: 0 };
            self.lines = 0;
        }
        let is_over = !self.has_returned() && self.is_over;
        let rest = self.rest.filter(|_| is_over);
        let batch = || MessageBatch { lines: self.returned.clone(), first: self.first, is_over, rest };
        (is_over || self.has_returned()).then(batch)
    }

    /// Reads once.
    fn read(&mut self, socket: &OwnedFd) -> io::Result<()> {
        self.buffer.reserve(READ_BYTES);
        let before = self.buffer.len();
        if sys::read_spare(socket, &mut self.buffer, READ_BYTES)? == 0 {
            self.end();
            return Ok(());
        }
        let new = &self.buffer[before..];
        let first = memchr(b'\n', new).unwrap_or(new.len());
        if before + first - self.lines > LONGEST_MESSAGE {
            self.buffer.truncate(self.lines);
            (self.rest, self.is_over) = (Some(Rest::TooLong), true);
        } else if let Some(end) = memrchr(b'\n', new) {
            self.lines = before + end + 1;
        }
        Ok(())
    }

    /// Nothing follows.
    fn end(&mut self) {
        if !self.is_over && self.buffer.len() > self.lines {
            self.rest = Some(Rest::Cut);
        }
        self.is_over = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    fn open() -> (Messages, UnixStream) {
        let (ours, theirs) = pair().unwrap();
        (Messages::open(ours).unwrap(), theirs.into())
    }

    impl PartialEq for MessageBatch {
        fn eq(&self, other: &Self) -> bool {
            let parts = |batch: &Self| (batch.lines.as_ref().to_vec(), batch.first, batch.is_over, batch.rest);
            parts(self) == parts(other)
        }
    }

    fn batch(lines: &str, first: u64) -> MessageBatch {
        let lines = MessageLines { bytes: Arc::new(lines.into()), start: 0 };
        MessageBatch { lines, first, ..MessageBatch::default() }
    }

    fn over(first: u64, rest: Option<Rest>) -> MessageBatch {
        MessageBatch { first, is_over: true, rest, ..MessageBatch::default() }
    }

    #[tokio::test]
    async fn returns_messages_until_they_are_taken() {
        let (messages, mut theirs) = open();
        theirs.write_all(b"1\n2\n3\n4").unwrap();
        assert_eq!(messages.receive(0).await, batch("1\n2\n3\n", 0));
        theirs.write_all(b"5\n").unwrap();
        assert_eq!(messages.receive(0).await, batch("1\n2\n3\n", 0));
        assert_eq!(messages.receive(2).await, batch("3\n", 2));
        assert_eq!(messages.receive(1).await, batch("3\n", 2), "a reader never goes back");
        assert_eq!(messages.receive(3).await, batch("45\n", 3));
        assert_eq!(messages.look(u64::MAX, false), Some(batch("", 4)));
        assert_eq!(messages.look(4, true), None);
        theirs.write_all(b"6\n").unwrap();
        assert_eq!(messages.look(4, true), Some(batch("6\n", 4)));
        drop(theirs);
        assert_eq!(messages.receive(5).await, over(5, None));
        assert_eq!(messages.receive(5).await, over(5, None));
    }

    #[tokio::test]
    async fn a_closed_channel_still_has_what_arrived_before_and_reports_a_cut_message() {
        let (messages, mut theirs) = open();
        theirs.write_all(b"1\n2").unwrap();
        let send = messages.send(&vec![b'x'; 16 << 20]).unwrap().unwrap();
        messages.close();
        assert_eq!(send.await, Err(Failure::Closed));
        assert!(messages.send(b"late\n").is_err());
        assert_eq!(messages.receive(0).await, batch("1\n", 0));
        assert_eq!(messages.receive(1).await, over(1, Some(Rest::Cut)));
        assert_eq!(messages.receive(1).await, over(1, Some(Rest::Cut)), "until it is taken");
        assert_eq!(messages.receive(2).await, over(2, None));
    }

    #[tokio::test]
    async fn a_reader_that_waits_sees_the_end() {
        let (messages, _theirs) = open();
        let (received, ()) = tokio::join!(messages.receive(0), async { messages.close() });
        assert_eq!(received, over(0, None));
    }

    #[tokio::test]
    async fn a_message_without_end_closes_the_channel() {
        let (messages, mut theirs) = open();
        let writer = std::thread::spawn(move || {
            theirs.write_all(b"1\n").unwrap();
            let piece = vec![b'x'; 1 << 20];
            (0..20).try_for_each(|_| theirs.write_all(&piece)).is_err()
        });
        assert_eq!(messages.receive(0).await, batch("1\n", 0));
        assert_eq!(messages.receive(1).await, over(1, Some(Rest::TooLong)));
        // Not joined here: the task that writes closes the socket.
        assert!(tokio::task::spawn_blocking(move || writer.join().unwrap()).await.unwrap());
        assert_eq!(messages.receive(2).await, over(2, None));
    }

    #[tokio::test]
    async fn a_message_has_at_most_16_mib() {
        for (length, rest) in [(LONGEST_MESSAGE, None), (LONGEST_MESSAGE + 1, Some(Rest::TooLong))] {
            let (messages, mut theirs) = open();
            let writer = std::thread::spawn(move || {
                let line = [vec![b'x'; length], b"\n2\n".to_vec()].concat();
                let _ = theirs.write_all(&line);
            });
            let batch = messages.receive(0).await;
            assert_eq!((batch.lines.as_ref().starts_with(b"xx"), batch.rest), (rest.is_none(), rest));
            tokio::task::spawn_blocking(move || writer.join().unwrap()).await.unwrap();
        }
    }

    #[tokio::test]
    async fn sends_in_order_and_then_the_end() {
        let (messages, mut theirs) = open();
        let long = vec![b'x'; 16 << 20];
        let sent: Vec<_> = [b"1\n".as_slice(), &long, b"2\n"].map(|line| messages.send(line).unwrap()).into();
        assert_eq!(sent.iter().map(Option::is_none).collect::<Vec<_>>(), [true, false, false]);
        messages.finish();
        assert!(messages.send(b"3\n").is_err());
        let reader = std::thread::spawn(move || {
            let mut read = Vec::new();
            theirs.read_to_end(&mut read).unwrap();
            (theirs, read)
        });
        for sent in sent.into_iter().flatten() {
            assert_eq!(sent.await, Ok(()));
        }
        let (mut theirs, read) = tokio::task::spawn_blocking(move || reader.join().unwrap()).await.unwrap();
        assert!(read == [b"1\n".as_slice(), &long, b"2\n"].concat());
        theirs.write_all(b"\"still\"\n").unwrap();
        assert_eq!(messages.receive(0).await, batch("\"still\"\n", 0));
    }

    #[tokio::test]
    async fn bounds_what_waits_but_not_a_single_message() {
        let (messages, _theirs) = open();
        // The socket takes a part of it.
        assert!(messages.send(&vec![b'x'; MOST_WAITING + 8 * SOCKET_BYTES]).unwrap().is_some());
        assert_eq!(messages.send(b"x").err(), Some(Failure::Full));
    }
}
