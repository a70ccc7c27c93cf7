//! A decrypted connection: TLS to the client, TLS to the host.

use super::exchange::Exchange;
use super::origin::{LONGEST_HEAD, Linked, WINDOW};
use super::tunnel::is_tls;
use super::{Egress, Origin, Reason, Treatment, Wish};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::AlertDescription;
use rustls::server::Acceptor;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_rustls::LazyConfigAcceptor;

/// Time limit for the handshake of a client, apart from the time that the host takes.
const HANDSHAKE: Duration = Duration::from_secs(10);
const MOST_HEADERS: usize = 100;
const MOST_STREAMS: u32 = 100;

/// What can be decrypted.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

impl Egress {
    /// Serves a connection of a client to this host, which [`Egress::covers`]. `dial` connects to it.
    ///
    /// # Errors
    /// The client does not speak TLS, names another host, or closes the connection.
    pub async fn serve(
        self: Arc<Self>,
        client: TcpStream,
        origin: Origin,
        dial: impl Future<Output = io::Result<TcpStream>>,
    ) -> io::Result<()> {
        let treatment = self.of(&origin)?;
        client.set_nodelay(true)?;
        let mut first = [0; 1];
        timeout(HANDSHAKE, client.peek(&mut first)).await??;
        if !is_tls(&first[0]) {
            if self.takes_plain(&origin.host, origin.port) {
                return self.serve_plain(client, Vec::new(), origin, dial).await;
            }
            return Err(self.refuse(&origin, Reason::NotHttp));
        }
        let watched = treatment.watch(&client)?;
        let start = timeout(HANDSHAKE, LazyConfigAcceptor::new(Acceptor::default(), client)).await??;
        let hello = start.client_hello();
        // Without a name, the host would have to guess, and another name would reach another host behind the same address.
        if !hello.server_name().is_some_and(|name| name.eq_ignore_ascii_case(&origin.host)) {
            return Err(self.refuse(&origin, Reason::TlsName));
        }
        let mut offered: Vec<Vec<u8>> = Vec::new();
        // A list can name one protocol thousands of times.
        for name in hello.alpn().into_iter().flatten().filter(|name| PROTOCOLS.contains(name)) {
            if !offered.iter().any(|known| known == name) {
                offered.push(name.to_vec());
            }
        }
        // The connection to the host ends with this future.
        let Linked { link, protocol, end, task: _task } = match &treatment.handler {
            Some(name) => Linked::function(name, &offered),
            None => Arc::clone(&self.origins).connect(&origin.host, offered, dial).await,
        };
        let config = self.authority.config(&origin.host, &protocol)?;
        let client = match timeout(HANDSHAKE, start.into_stream(config)).await? {
            Ok(client) => client,
            Err(error) => {
                if error.get_ref().and_then(|error| error.downcast_ref()).is_some_and(is_distrust) {
                    self.refuse(&origin, Reason::Untrusted);
                }
                return Err(error);
            }
        };
        let exchange = Exchange::new(Arc::clone(&self), treatment, origin, "https", link);
        let exchange = Arc::new(exchange.with_client(watched));
        let has_ended = ended(end);
        let served = Arc::clone(&exchange);
        if protocol == b"h2" {
            two(client, served, has_ended).await?
        } else {
            one(client, served, has_ended).await?
        }
        exchange.await_upgrade().await;
        Ok(())
    }

    /// Whether requests to this host may come without TLS: it has rules, and no secret.
    pub fn takes_plain(&self, host: &str, port: u16) -> bool {
        self.find(host, port).is_some_and(|treatment| treatment.values.is_empty())
    }

    /// The same as [`Self::serve`] without TLS, for a host that [`Self::takes_plain`]. `head` is what the client has sent already.
    ///
    /// # Errors
    /// The client does not speak HTTP, or closes the connection.
    pub async fn serve_plain(
        self: Arc<Self>,
        client: TcpStream,
        head: Vec<u8>,
        origin: Origin,
        dial: impl Future<Output = io::Result<TcpStream>>,
    ) -> io::Result<()> {
        let treatment = self.of(&origin)?;
        let Linked { link, end, task: _task, .. } = match &treatment.handler {
            Some(name) => Linked::function(name, &[]),
            None => super::origin::connect_plain(&origin.host, dial).await,
        };
        let watched = treatment.watch(&client)?;
        let exchange = Exchange::new(Arc::clone(&self), treatment, origin, "http", link);
        let exchange = Arc::new(exchange.with_client(watched));
        let (reader, writer) = client.into_split();
        let client = tokio::io::join(io::Cursor::new(head).chain(reader), writer);
        one(client, Arc::clone(&exchange), ended(end)).await?;
        exchange.await_upgrade().await;
        Ok(())
    }

    pub(crate) fn of(&self, origin: &Origin) -> io::Result<Arc<Treatment>> {
        self.find(&origin.host, origin.port).cloned().ok_or_else(|| io::ErrorKind::PermissionDenied.into())
    }

    /// Reports that a connection is refused.
    fn refuse(&self, origin: &Origin, reason: Reason) -> io::Error {
        self.observer.refused(Wish::connection(origin), reason);
        io::ErrorKind::PermissionDenied.into()
    }
}

/// Whether a client has ended a handshake because of the certificate, as programs with a list of their own do.
fn is_distrust(error: &rustls::Error) -> bool {
    use AlertDescription::{
        AccessDenied, BadCertificate, CertificateExpired, CertificateUnknown, UnknownCA, UnsupportedCertificate,
    };
    let rustls::Error::AlertReceived(alert) = error else { return false };
    [AccessDenied, BadCertificate, CertificateExpired, CertificateUnknown, UnknownCA, UnsupportedCertificate]
        .contains(alert)
}

/// Waits for the end of the connection to a host.
async fn ended(mut end: watch::Receiver<()>) {
    while end.changed().await.is_ok() {}
}

async fn one<T>(io: T, exchange: Arc<Exchange>, origin_ended: impl Future<Output = ()>) -> io::Result<()>
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let has_host = exchange.has_host();
    let service = service_fn(move |request| Arc::clone(&exchange).handle(request));
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .half_close(true)
        .preserve_header_case(true)
        .max_buf_size(LONGEST_HEAD)
        .max_headers(MOST_HEADERS)
        .serve_connection(TokioIo::new(io), service)
        .with_upgrades();
    let mut serving = pin!(serving);
    // When the connection to the host ends, this one does, behind the reply: the client knows how to repeat its next request.
    tokio::select! {
        result = serving.as_mut() => return result.map_err(io::Error::other),
        () = origin_ended, if has_host => serving.as_mut().graceful_shutdown(),
    }
    serving.await.map_err(io::Error::other)
}

async fn two<T>(io: T, exchange: Arc<Exchange>, origin_ended: impl Future<Output = ()>) -> io::Result<()>
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let has_host = exchange.has_host();
    let service = service_fn(move |request| Arc::clone(&exchange).handle(request));
    let serving = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .max_header_list_size(LONGEST_HEAD as u32)
        .max_concurrent_streams(MOST_STREAMS)
        .serve_connection(TokioIo::new(io), service);
    let mut serving = pin!(serving);
    tokio::select! {
        result = serving.as_mut() => return result.map_err(io::Error::other),
        () = origin_ended, if has_host => serving.as_mut().graceful_shutdown(),
    }
    serving.await.map_err(io::Error::other)
}
