//! Tunnels that are not decrypted, whose TLS names must be those of their hosts: another name could reach, behind the address of an
//! allowed host, a host with rules.

use super::{Egress, Origin, Reason, Wish};
use rustls::server::Acceptor;
use std::io;
use std::ops::RangeInclusive;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf, copy_bidirectional};
use tokio::net::TcpStream;

/// What the first byte of TLS can be (RFC 8446, section 5.1). Servers take alerts before a handshake, so they are TLS, too.
const TLS: RangeInclusive<u8> = 20..=24;

/// Whether a connection that begins with this byte is one of TLS.
pub fn is_tls(first: &u8) -> bool {
    TLS.contains(first)
}

/// How often to look whether a client that has sent something is still there.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// A first message that is longer is refused.
const LONGEST_HELLO: usize = 64 << 10;

impl Egress {
    /// Copies bytes between a client and a host, until both have ended. If the client speaks TLS, its name must be that of the
    /// host.
    ///
    /// # Errors
    /// A connection breaks, or the client gives another name or none.
    pub async fn pass(&self, client: TcpStream, mut server: TcpStream, origin: Origin) -> io::Result<()> {
        let start = Opening::Unknown { acceptor: Box::default(), seen: Vec::new() };
        let mut client = Named { inner: client, host: &origin.host, start };
        let result = copy_bidirectional(&mut client, &mut server).await;
        if matches!(client.start, Opening::Refused) {
            self.observer.refused(Wish::connection(&origin), Reason::TlsName);
        }
        result.map(drop)
    }
}

/// Waits until a client has closed its half, also behind what it has sent and nothing has read.
pub async fn hung_up(client: &TcpStream) {
    while let Ok(1..) = client.peek(&mut [0]).await {
        if client.ready(Interest::READABLE).await.is_ok_and(|ready| ready.is_read_closed()) {
            return;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// A client whose first bytes are held back until they name the host.
struct Named<'a> {
    inner: TcpStream,
    host: &'a str,
    start: Opening,
}

enum Opening {
    Unknown {
        acceptor: Box<Acceptor>,
        seen: Vec<u8>,
    },
    /// It may pass, and this is still to be read.
    Known(Vec<u8>),
    Refused,
}

impl Named<'_> {
    /// Takes bytes into account. `false`: more are needed.
    fn add(&mut self, bytes: &[u8]) -> io::Result<bool> {
        let Opening::Unknown { acceptor, seen } = &mut self.start else { return Ok(true) };
        seen.extend_from_slice(bytes);
        if seen.first().is_some_and(is_tls) {
            let is_own = match read(acceptor, bytes) {
                Ok(None) if !bytes.is_empty() && seen.len() <= LONGEST_HELLO => return Ok(false),
                Ok(Some(name)) => name.is_some_and(|name| name.eq_ignore_ascii_case(self.host)),
                Ok(None) | Err(()) => false,
            };
            if !is_own {
                self.start = Opening::Refused;
                return Err(io::ErrorKind::PermissionDenied.into());
            }
        }
        self.start = Opening::Known(std::mem::take(seen));
        Ok(true)
    }
}

/// The name in a first message, if that is whole.
fn read(acceptor: &mut Acceptor, mut bytes: &[u8]) -> Result<Option<Option<String>>, ()> {
    loop {
        let length = bytes.len();
        acceptor.read_tls(&mut bytes).map_err(drop)?;
        if let Some(accepted) = acceptor.accept().map_err(drop)? {
            return Ok(Some(accepted.client_hello().server_name().map(str::to_owned)));
        }
        if bytes.is_empty() || bytes.len() == length {
            return Ok(None);
        }
    }
}

impl AsyncRead for Named<'_> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        loop {
            match &mut this.start {
                Opening::Unknown { .. } => {
                    let mut bytes = [0; 4096];
                    let mut part = ReadBuf::new(&mut bytes);
                    ready!(Pin::new(&mut this.inner).poll_read(context, &mut part))?;
                    this.add(part.filled())?;
                }
                Opening::Known(rest) if rest.is_empty() => return Pin::new(&mut this.inner).poll_read(context, out),
                Opening::Known(rest) => {
                    let length = rest.len().min(out.remaining());
                    out.put_slice(&rest[..length]);
                    rest.drain(..length);
                    return Poll::Ready(Ok(()));
                }
                Opening::Refused => return Poll::Ready(Err(io::ErrorKind::PermissionDenied.into())),
            }
        }
    }
}

impl AsyncWrite for Named<'_> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}
