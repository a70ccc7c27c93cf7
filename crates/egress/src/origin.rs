//! Connections to the hosts themselves.

use super::Body;
use super::replace::Replace;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use nacre_containment::lock::Lock;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{CertificateError, ClientConfig, RootCertStore};
use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Time limit for a connection and its handshake.
const PATIENCE: Duration = Duration::from_secs(30);

/// A larger window would keep more of a reply in memory while its reader is slow.
pub const WINDOW: u32 = 1 << 20;

/// A head that is longer is refused.
pub const LONGEST_HEAD: usize = 64 << 10;

/// Where systems have the authorities that they trust (the list of Go's crypto/x509).
const BUNDLES: [&str; 6] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/tls/cacert.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// The file with the authorities that this machine trusts: `SSL_CERT_FILE` of this process, or the system's. `None` without one.
pub fn system_bundle() -> Option<PathBuf> {
    let named = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    named.into_iter().chain(BUNDLES.map(PathBuf::from)).find(|path| path.is_file())
}

/// The same for all connections of this process.
pub fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    Arc::clone(PROVIDER.get_or_init(|| Arc::new(rustls::crypto::ring::default_provider())))
}

/// How hosts are reached: what is trusted, and the settings for each list of protocols.
pub struct Origins {
    authorities: Vec<String>,
    roots: OnceLock<Arc<RootCertStore>>,
    configs: Lock<Vec<Arc<ClientConfig>>>,
}

/// What answers the requests of a client.
#[derive(Clone)]
pub enum Link {
    /// The host.
    Host(Sender),
    /// The function with this name.
    Function(Arc<str>),
    /// There is no connection: each request gets this reason.
    Broken(Arc<str>),
}

/// Sends requests over a connection to a host.
#[derive(Clone)]
pub enum Sender {
    /// HTTP/1.1: one request after the other.
    One(Arc<tokio::sync::Mutex<http1::SendRequest<Replace<Body>>>>),
    /// HTTP/2.
    Two(http2::SendRequest<Replace<Body>>),
}

impl Sender {
    /// Whether it speaks HTTP/1.1.
    pub fn is_one(&self) -> bool {
        matches!(self, Self::One(_))
    }

    /// Sends a request, and waits for the head of its reply.
    ///
    /// # Errors
    /// The connection has ended.
    pub async fn send(&self, request: Request<Replace<Body>>) -> Result<Response<Incoming>, hyper::Error> {
        match self {
            Self::One(sender) => {
                let mut sender = sender.lock().await;
                sender.ready().await?;
                sender.send_request(request).await
            }
            Self::Two(sender) => {
                let mut sender = sender.clone();
                sender.ready().await?;
                sender.send_request(request).await
            }
        }
    }
}

/// A link, the protocol that the host has chosen, and the end of the connection, which closes the channel.
pub struct Linked {
    pub link: Link,
    pub protocol: Vec<u8>,
    pub end: watch::Receiver<()>,
    /// Carries the connection until it is dropped.
    pub task: Option<Task>,
}

/// A task that ends when this is dropped.
pub struct Task(JoinHandle<()>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Origins {
    pub fn new(authorities: Vec<String>) -> Self {
        Self { authorities, roots: OnceLock::new(), configs: Lock::default() }
    }

    /// Connects to a host, and offers it these protocols. A failure becomes a broken link.
    pub async fn connect(
        self: Arc<Self>,
        host: &str,
        offered: Vec<Vec<u8>>,
        dial: impl Future<Output = io::Result<TcpStream>>,
    ) -> Linked {
        let first = offered.first().cloned().unwrap_or_default();
        let connecting = timeout(PATIENCE, self.try_connect(host, offered, dial));
        let linked = connecting.await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        linked.unwrap_or_else(|error| Linked::broken(host, &error, first))
    }

    async fn try_connect(
        self: Arc<Self>,
        host: &str,
        offered: Vec<Vec<u8>>,
        dial: impl Future<Output = io::Result<TcpStream>>,
    ) -> io::Result<Linked> {
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let server = dial.await?;
        server.set_nodelay(true)?;
        // The first one reads the system's bundle.
        let config = tokio::task::spawn_blocking(move || self.config(&offered)).await.map_err(io::Error::other)??;
        let server = tokio_rustls::TlsConnector::from(config).connect(name, server).await?;
        let protocol = server.get_ref().1.alpn_protocol().unwrap_or_default().to_vec();
        let (sender, end) = watch::channel(());
        let (link, task) = if protocol == b"h2" { two(server, sender).await? } else { one(server, sender).await? };
        Ok(Linked { link, protocol, end, task: Some(task) })
    }

    fn config(&self, offered: &[Vec<u8>]) -> io::Result<Arc<ClientConfig>> {
        let mut configs = self.configs.lock();
        if let Some(known) = configs.iter().find(|config| config.alpn_protocols == offered) {
            return Ok(Arc::clone(known));
        }
        let roots = self.roots.get_or_init(|| Arc::new(self.read_roots()));
        let mut config = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_root_certificates(Arc::clone(roots))
            .with_no_client_auth();
        config.alpn_protocols = offered.to_vec();
        let config = Arc::new(config);
        configs.push(Arc::clone(&config));
        Ok(config)
    }

    /// What cannot be read is not trusted: the reason is then that an issuer is unknown.
    fn read_roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        let system = system_bundle().and_then(|path| CertificateDer::pem_file_iter(path).ok()).into_iter().flatten();
        let own = self.authorities.iter().flat_map(|pem| CertificateDer::pem_slice_iter(pem.as_bytes()));
        roots.add_parsable_certificates(system.chain(own).flatten());
        roots
    }
}

/// Connects to a host without TLS. A failure becomes a broken link.
pub async fn connect_plain(host: &str, dial: impl Future<Output = io::Result<TcpStream>>) -> Linked {
    let connecting = async {
        let server = dial.await?;
        server.set_nodelay(true)?;
        let (sender, end) = watch::channel(());
        let (link, task) = one(server, sender).await?;
        Ok(Linked { link, protocol: Vec::new(), end, task: Some(task) })
    };
    let linked = timeout(PATIENCE, connecting).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
    linked.unwrap_or_else(|error| Linked::broken(host, &error, Vec::new()))
}

impl Linked {
    /// For a host whose requests a function answers, by the protocol that the client likes best.
    pub fn function(name: &str, offered: &[Vec<u8>]) -> Self {
        let protocol = offered.first().cloned().unwrap_or_default();
        Self { link: Link::Function(name.into()), protocol, end: watch::channel(()).1, task: None }
    }

    fn broken(host: &str, error: &io::Error, protocol: Vec<u8>) -> Self {
        Self { link: Link::Broken(explain(host, error).into()), protocol, end: watch::channel(()).1, task: None }
    }
}

async fn one<T>(io: T, end: watch::Sender<()>) -> io::Result<(Link, Task)>
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = http1::Builder::new()
        .preserve_header_case(true)
        .max_buf_size(LONGEST_HEAD)
        .handshake(TokioIo::new(io))
        .await
        .map_err(io::Error::other)?;
    let task = tokio::spawn(async move {
        let _ = connection.with_upgrades().await;
        drop(end);
    });
    Ok((Link::Host(Sender::One(Arc::new(tokio::sync::Mutex::new(sender)))), Task(task)))
}

async fn two<T>(io: T, end: watch::Sender<()>) -> io::Result<(Link, Task)>
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .max_header_list_size(LONGEST_HEAD as u32)
        .handshake(TokioIo::new(io))
        .await
        .map_err(io::Error::other)?;
    let task = tokio::spawn(async move {
        let _ = connection.await;
        drop(end);
    });
    Ok((Link::Host(Sender::Two(sender)), Task(task)))
}

/// Why a host cannot be reached, and what helps.
fn explain(host: &str, error: &io::Error) -> String {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match inner {
        Some(rustls::Error::InvalidCertificate(reason)) => {
            let reason = match reason {
                CertificateError::UnknownIssuer => "unknown issuer".to_owned(),
                CertificateError::Expired | CertificateError::ExpiredContext { .. } => "it has expired".to_owned(),
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                    "it is for another name".to_owned()
                }
                other => format!("{other:?}"),
            };
            format!(
                "the certificate of {host} is not trusted ({reason}). Add its authority to isolation.network.authorities."
            )
        }
        _ => format!("cannot connect to {host}: {error}"),
    }
}
