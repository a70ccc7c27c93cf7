//! Says behind the first settings of a connection of HTTP/2 which host it is for (RFC 8336). Programs that a redirect has led here
//! see another port than they have connected to, and some refuse a connection that names no other.

use super::Origin;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The bytes before the payload of a frame.
const HEAD: usize = 9;
const ORIGIN: u8 = 12;

/// A connection whose server speaks HTTP/2.
pub struct Announcing<T> {
    inner: T,
    /// What is to be said. Empty from the first write on.
    frame: Vec<u8>,
    /// Written before anything else.
    first: Vec<u8>,
}

impl<T: AsyncWrite + Unpin> Announcing<T> {
    pub fn new(inner: T, origin: &Origin) -> Self {
        let port = if origin.port == 443 { String::new() } else { format!(":{}", origin.port) };
        let name = format!("https://{}{port}", origin.host);
        let length = (name.len() as u16).to_be_bytes();
        let size = (name.len() as u32 + 2).to_be_bytes();
        let frame = [&size[1..], &[ORIGIN, 0, 0, 0, 0, 0], &length, name.as_bytes()].concat();
        Self { inner, frame, first: Vec::new() }
    }

    fn poll_first(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.first.is_empty() {
            let written = ready!(Pin::new(&mut self.inner).poll_write(context, &self.first))?;
            self.first.drain(..written);
        }
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Announcing<T> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        ready!(this.poll_first(context))?;
        let frame = std::mem::take(&mut this.frame);
        // The settings of a server are its first frame.
        if let [a, b, c, ..] = *bytes
            && let Some(settings) = bytes.get(..HEAD + u32::from_be_bytes([0, a, b, c]) as usize)
            && !frame.is_empty()
        {
            this.first = [settings, &frame].concat();
            return Poll::Ready(Ok(settings.len()));
        }
        Pin::new(&mut this.inner).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_first(context))?;
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_first(context))?;
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Announcing<T> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, out)
    }
}
