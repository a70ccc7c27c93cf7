//! What an observer learns of a request when it has ended: no headers, no query, no bodies, no values.

use super::forms::Pairs;
use super::{Observer, Origin, Reason, Wish};
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::{Request, Response, Version};
use nacre_containment::lock::Lock;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

/// Maximum characters of a method or path that are shown.
const LONGEST_SHOWN: usize = 1000;

/// Where a request names its trace (W3C Trace Context).
const TRACEPARENT: &str = "traceparent";
/// That of version 00.
const LONGEST_TRACEPARENT: usize = 55;

/// The beginning of a long text of a program.
pub fn shown(text: &str) -> String {
    text.chars().take(LONGEST_SHOWN).collect()
}

/// A request that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Its host.
    pub origin: Origin,
    /// Its method.
    pub method: String,
    /// Its path, without the query.
    pub path: String,
    /// None: it ended before a reply.
    pub status: Option<u16>,
    /// Bytes of its body.
    pub sent: u64,
    /// Bytes of the body of the reply, as the program gets it.
    pub received: u64,
    /// Until all of it has ended.
    pub duration: Duration,
    /// The names of the secrets that it had.
    pub secrets: Vec<String>,
    /// Why it was refused, if it was.
    pub denied: Option<Reason>,
    /// `http/1.1` or `h2`.
    pub protocol: &'static str,
}

/// A request that goes on. It ends when nothing holds it any more: neither its body nor that of the reply.
pub struct Record {
    observer: Arc<dyn Observer>,
    number: u64,
    began: Instant,
    so_far: Lock<Ended>,
}

impl Record {
    /// A request begins. `masks`: what its path must not have.
    pub fn new<B>(observer: &Arc<dyn Observer>, mut wish: Wish, request: &Request<B>, masks: &Pairs) -> Arc<Self> {
        let masked = masks.replaced(wish.path.as_bytes()).and_then(|path| String::from_utf8(path).ok());
        wish.method = shown(&wish.method);
        wish.path = shown(&masked.unwrap_or(wish.path));
        let trace = request.headers().get(TRACEPARENT).and_then(|trace| trace.to_str().ok());
        let number = observer.began(&wish, trace.filter(|trace| trace.len() <= LONGEST_TRACEPARENT));
        let so_far = Ended {
            origin: wish.origin,
            method: wish.method,
            path: wish.path,
            status: None,
            sent: 0,
            received: 0,
            duration: Duration::ZERO,
            secrets: Vec::new(),
            denied: None,
            protocol: if request.version() == Version::HTTP_2 { "h2" } else { "http/1.1" },
        };
        Arc::new(Self { observer: Arc::clone(observer), number, began: Instant::now(), so_far: Lock::new(so_far) })
    }

    pub fn denied(&self, reason: Reason) {
        self.so_far.lock().denied = Some(reason);
    }

    pub fn sent(&self, bytes: usize) {
        self.so_far.lock().sent += bytes as u64;
    }

    /// The names of the secrets that it has so far.
    pub fn secrets(&self) -> Vec<String> {
        self.so_far.lock().secrets.clone()
    }

    pub fn uses<'a>(&self, secrets: impl Iterator<Item = &'a str>) {
        let known = &mut self.so_far.lock().secrets;
        for name in secrets {
            if !known.iter().any(|one| one == name) {
                known.push(name.to_owned());
            }
        }
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        let ended = self.so_far.lock().clone();
        self.observer.ended(self.number, Ended { duration: self.began.elapsed(), ..ended });
    }
}

/// The body of a reply, whose bytes are counted.
pub struct Counted<B> {
    inner: B,
    record: Arc<Record>,
}

impl<B> Counted<B> {
    /// The same reply.
    pub fn reply(reply: Response<B>, record: Arc<Record>) -> Response<Self> {
        record.so_far.lock().status = Some(reply.status().as_u16());
        reply.map(|inner| Self { inner, record })
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Counted<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let frame = ready!(Pin::new(&mut self.inner).poll_frame(context));
        if let Some(Ok(frame)) = &frame {
            self.record.so_far.lock().received += frame.data_ref().map_or(0, Bytes::len) as u64;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
