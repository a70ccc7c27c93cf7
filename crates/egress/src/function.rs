//! Functions of the program, which answer requests and know values: frames on a socket of a pair.
//!
//! A frame is its length as 4 bytes, the lowest first, and its content. Both directions have a head, which is JSON, and then a body,
//! which an empty frame ends. A value is what comes until the end of the socket.

use super::{Body, Egress, Origin, Value};
use bytes::{Buf, Bytes, BytesMut};
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::header::{CONNECTION, CONTENT_LENGTH, HeaderName, HeaderValue, TE, TRAILER, TRANSFER_ENCODING, UPGRADE};
use hyper::{HeaderMap, Request, Response, StatusCode};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, ReadBuf};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::timeout;
use zeroize::Zeroizing;

/// Bytes of a head.
const LONGEST_HEAD: usize = 256 * 1024;
/// How long a function may take to read the rest of a reply, and what it may still send then.
const FAREWELL: Duration = Duration::from_secs(10);
const MOST_REST: u64 = 1 << 20;
const PIECE: usize = 64 * 1024;
const VALUE_BYTES: std::ops::RangeInclusive<usize> = 8..=8192;

/// What frames a body or keeps a connection: both are others on the other side.
const HOP: [HeaderName; 6] = [CONNECTION, CONTENT_LENGTH, TE, TRAILER, TRANSFER_ENCODING, UPGRADE];

pub type Headers = Vec<(String, String)>;

#[derive(Serialize, Deserialize)]
pub struct RequestHead {
    pub method: String,
    pub url: String,
    pub headers: Headers,
}

#[derive(Serialize, Deserialize)]
struct ReplyHead {
    status: u16,
    headers: Headers,
}

#[derive(Serialize)]
struct FailureHead {
    error: String,
}

/// Lets a function answer a request.
///
/// # Errors
/// It has none, or what it sends is no reply.
pub async fn answer(socket: UnixStream, request: Request<Body>, url: String) -> io::Result<Response<Body>> {
    let (parts, body) = request.into_parts();
    let head = RequestHead { method: parts.method.to_string(), url, headers: listed(&parts.headers) };
    let (mut reader, mut writer) = socket.into_split();
    let mut sending = JoinSet::new();
    sending.spawn(async move {
        write_head(&mut writer, &head).await?;
        write_body(&mut writer, body).await?;
        // It stays open: its end means that the client has gone.
        Ok(writer)
    });
    let head: ReplyHead = read_head(&mut reader).await?;
    let mut reply = Response::new(Frames::new(reader, Some(sending)).boxed());
    let status = StatusCode::from_u16(head.status).ok().filter(|status| status.as_u16() >= 200);
    *reply.status_mut() = status.ok_or(io::ErrorKind::InvalidData)?;
    *reply.headers_mut() = unlisted(head.headers)?;
    Ok(reply)
}

/// Reads the value that a function knows.
///
/// # Errors
/// It has none, or it is no value of a secret.
pub async fn value(socket: UnixStream) -> io::Result<Value> {
    // With room for all of it, so that no part stays in memory that is not wiped.
    let mut text = Zeroizing::new(String::with_capacity(VALUE_BYTES.end() + 1));
    socket.take(*VALUE_BYTES.end() as u64 + 1).read_to_string(&mut text).await?;
    let is_printable = text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    if VALUE_BYTES.contains(&text.len()) && is_printable && text.trim() == text.as_str() {
        Ok(Value::Text(text))
    } else {
        Err(io::ErrorKind::InvalidData.into())
    }
}

/// Sends requests of a function to the host of the request that it answers, as long as the connection lasts.
pub struct Forwarder {
    egress: Weak<Egress>,
    origin: Origin,
    scheme: &'static str,
    runtime: Handle,
}

impl Forwarder {
    pub(crate) fn new(egress: &Arc<Egress>, origin: &Origin, scheme: &'static str) -> Self {
        Self { egress: Arc::downgrade(egress), origin: origin.clone(), scheme, runtime: Handle::current() }
    }

    /// Sends the request of a function, which is at the other end of this socket, and returns the reply there.
    pub fn forward(&self, socket: std::os::unix::net::UnixStream) {
        let Some(egress) = self.egress.upgrade() else { return };
        let (origin, scheme) = (self.origin.clone(), self.scheme);
        self.runtime.spawn(async move {
            // It stays open until the function has read the reply: otherwise, what it still sends would be an error there.
            let kept = UnixStream::from_std(socket.try_clone()?)?;
            let (mut reader, mut writer) = UnixStream::from_std(socket)?.into_split();
            let head: RequestHead = read_head(&mut reader).await?;
            match egress.reply(head, reader, origin, scheme).await {
                Ok(reply) => {
                    let (parts, body) = reply.into_parts();
                    let head = ReplyHead { status: parts.status.as_u16(), headers: listed(&parts.headers) };
                    write_head(&mut writer, &head).await?;
                    write_body(&mut writer, body).await?;
                }
                Err(error) => write_head(&mut writer, &FailureHead { error }).await?,
            }
            timeout(FAREWELL, tokio::io::copy(&mut kept.take(MOST_REST), &mut tokio::io::sink())).await?
        });
    }
}

/// JavaScript has the bytes of headers as characters.
fn listed(headers: &HeaderMap) -> Headers {
    let latin = |value: &HeaderValue| value.as_bytes().iter().map(|byte| char::from(*byte)).collect();
    headers.iter().map(|(name, value)| (name.to_string(), latin(value))).collect()
}

pub fn unlisted(headers: Headers) -> io::Result<HeaderMap> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let bytes: Result<Vec<u8>, _> = value.chars().map(u8::try_from).collect();
        let value = HeaderValue::from_bytes(&bytes.map_err(io::Error::other)?).map_err(io::Error::other)?;
        let name = HeaderName::try_from(name).map_err(io::Error::other)?;
        if !HOP.contains(&name) {
            map.append(name, value);
        }
    }
    Ok(map)
}

async fn read_head<T: DeserializeOwned>(reader: &mut OwnedReadHalf) -> io::Result<T> {
    let length = reader.read_u32_le().await? as usize;
    if length > LONGEST_HEAD {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut head = vec![0; length];
    reader.read_exact(&mut head).await?;
    Ok(serde_json::from_slice(&head)?)
}

async fn write_head(writer: &mut OwnedWriteHalf, head: &impl Serialize) -> io::Result<()> {
    write(writer, &serde_json::to_vec(head)?).await
}

async fn write_body(writer: &mut OwnedWriteHalf, mut body: Body) -> io::Result<()> {
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        for piece in data.chunks(PIECE) {
            write(writer, piece).await?;
        }
    }
    write(writer, &[]).await
}

async fn write(writer: &mut OwnedWriteHalf, content: &[u8]) -> io::Result<()> {
    let length = u32::try_from(content.len()).map_err(io::Error::other)?;
    writer.write_u32_le(length).await?;
    writer.write_all(content).await
}

/// A body from a function. Dropping it tells the function that the client has gone.
pub struct Frames {
    reader: OwnedReadHalf,
    buffer: BytesMut,
    /// Bytes of the present frame that are to come.
    left: usize,
    is_over: bool,
    _sending: Option<JoinSet<io::Result<OwnedWriteHalf>>>,
}

impl Frames {
    pub fn new(reader: OwnedReadHalf, sending: Option<JoinSet<io::Result<OwnedWriteHalf>>>) -> Self {
        Self { reader, buffer: BytesMut::new(), left: 0, is_over: false, _sending: sending }
    }

    /// Finds out whether there is a body at all.
    pub async fn begin(&mut self) -> io::Result<()> {
        self.left = self.reader.read_u32_le().await? as usize;
        self.is_over = self.left == 0;
        Ok(())
    }
}

impl http_body::Body for Frames {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let this = self.get_mut();
        loop {
            if this.is_over {
                return Poll::Ready(None);
            }
            if this.left > 0 && !this.buffer.is_empty() {
                let data = this.buffer.split_to(this.left.min(this.buffer.len()));
                this.left -= data.len();
                return Poll::Ready(Some(Ok(Frame::data(data.freeze()))));
            }
            if this.left == 0 && this.buffer.len() >= 4 {
                this.left = this.buffer.get_u32_le() as usize;
                this.is_over = this.left == 0;
                continue;
            }
            let mut piece = [std::mem::MaybeUninit::uninit(); 8192];
            let mut read = ReadBuf::uninit(&mut piece);
            ready!(Pin::new(&mut this.reader).poll_read(context, &mut read))?;
            if read.filled().is_empty() {
                return Poll::Ready(Some(Err(io::ErrorKind::UnexpectedEof.into())));
            }
            this.buffer.extend_from_slice(read.filled());
        }
    }

    fn is_end_stream(&self) -> bool {
        self.is_over
    }

    fn size_hint(&self) -> SizeHint {
        if self.is_over { SizeHint::with_exact(0) } else { SizeHint::default() }
    }
}

/// A body that keeps what it comes from.
pub struct Kept<T> {
    body: Body,
    _kept: T,
}

impl<T> Kept<T> {
    pub fn new(body: Body, kept: T) -> Self {
        Self { body, _kept: kept }
    }
}

impl<T: Unpin> http_body::Body for Kept<T> {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        Pin::new(&mut self.get_mut().body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
