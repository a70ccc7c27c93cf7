//! Requests of a client through an egress to an origin on this machine.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::ext::ReasonPhrase;
use hyper::header::HeaderName;
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use nacre_egress::{Egress, Origin, Place, Plan, Secret, Value, placeholder};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use std::io;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::client::TlsStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

const VALUE: &str = "ghp_aB3aB3aB3aB3aB3aB3aB3aB3aB3aB3aB3aB3";
const HOST: &str = "api.example";

/// A request as the origin got it.
#[derive(Clone, Debug)]
struct Seen {
    path: String,
    headers: HeaderMap,
    body: Bytes,
}

/// An origin, the egress to it, and what each of them trusts.
struct World {
    egress: Arc<Egress>,
    placeholder: String,
    server: TcpListener,
    seen: Arc<Mutex<Vec<Seen>>>,
    origin: std::net::SocketAddr,
}

/// An origin that repeats what it gets: the header `authorization`, and the body.
async fn repeat(
    request: Request<Incoming>,
    seen: Arc<Mutex<Vec<Seen>>>,
) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let path = parts.uri.path_and_query().map(ToString::to_string).unwrap_or_default();
    seen.lock().unwrap().push(Seen { path, headers: parts.headers.clone(), body: body.clone() });
    let mut reply = Response::new(Full::from(body));
    reply.extensions_mut().insert(ReasonPhrase::from_static(VALUE.as_bytes()));
    reply.headers_mut().insert(HeaderName::from_bytes(VALUE.as_bytes()).unwrap(), "told".parse().unwrap());
    for name in ["authorization", "x-plain"] {
        if let Some(value) = parts.headers.get(name) {
            reply.headers_mut().insert("x-seen", value.clone());
        }
    }
    Ok(reply)
}

fn config(alpn: &[&[u8]], authority: &Issuer<'_, KeyPair>) -> ServerConfig {
    let key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(vec![HOST.to_owned()]).unwrap().signed_by(&key, authority).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let mut config =
        ServerConfig::builder().with_no_client_auth().with_single_cert(vec![leaf.der().clone()], key).unwrap();
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    config
}

impl World {
    async fn new(alpn: &[&[u8]], places: Vec<Place>, trusts: bool) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        let acceptor = TlsAcceptor::from(Arc::new(config(alpn, &Issuer::new(params, key))));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = listener.local_addr().unwrap();
        let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
        let all = Arc::clone(&seen);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, all) = (acceptor.clone(), Arc::clone(&all));
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let is_two = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                    let service = service_fn(move |request| repeat(request, Arc::clone(&all)));
                    let io = TokioIo::new(stream);
                    if is_two {
                        let _ = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                            .serve_connection(io, service)
                            .await;
                    } else {
                        let _ = hyper::server::conn::http1::Builder::new().serve_connection(io, service).await;
                    }
                });
            }
        });
        let placeholder = placeholder(VALUE).unwrap();
        let secret = Secret {
            name: "TOKEN".into(),
            value: Value::new(VALUE.into()),
            placeholder: placeholder.clone(),
            hosts: vec![Origin { host: HOST.into(), port: 443 }],
            places,
        };
        let authorities = if trusts { vec![pem] } else { Vec::new() };
        let egress = Arc::new(Egress::new(Plan { secrets: vec![secret], authorities }).unwrap());
        Self { egress, placeholder, server: TcpListener::bind("127.0.0.1:0").await.unwrap(), seen, origin }
    }

    /// A connection of a client through the egress.
    async fn connect(&self, name: &str, alpn: &[&[u8]]) -> io::Result<TlsStream<TcpStream>> {
        let client = TcpStream::connect(self.server.local_addr()?).await?;
        let (inner, _) = self.server.accept().await?;
        let (egress, origin) = (Arc::clone(&self.egress), self.origin);
        tokio::spawn(async move {
            let _ = egress.serve(inner, Origin { host: HOST.into(), port: 443 }, TcpStream::connect(origin)).await;
        });
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(CertificateDer::pem_slice_iter(self.egress.authority().as_bytes()).flatten());
        let mut config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
        TlsConnector::from(Arc::new(config)).connect(ServerName::try_from(name.to_owned()).unwrap(), client).await
    }

    /// Sends bytes over HTTP/1.1, and returns the reply.
    async fn send(&self, request: &str) -> String {
        let mut stream = self.connect(HOST, &[b"http/1.1"]).await.unwrap();
        let request = request.replace("PLACEHOLDER", &self.placeholder).replace('\n', "\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut reply = Vec::new();
        // The end of a connection without a close_notify is an end, too.
        let _ = stream.read_to_end(&mut reply).await;
        String::from_utf8_lossy(&reply).into_owned()
    }

    fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

#[tokio::test]
async fn a_request_has_the_value_and_its_reply_the_placeholder() {
    let world = World::new(&[], vec![Place::Authorization], true).await;
    let reply = world
        .send("POST /a?b HTTP/1.1\nHost: api.example\nAuthorization: Bearer PLACEHOLDER\nConnection: close\nContent-Length: 4\n\nbody")
        .await;
    assert!(reply.starts_with("HTTP/1.1 200") && reply.ends_with("body"), "{reply}");
    assert!(reply.contains(&format!("x-seen: Bearer {}", world.placeholder)), "{reply}");
    assert!(!reply.to_lowercase().contains(&VALUE.to_lowercase()), "{reply}");
    let [seen] = world.seen().try_into().unwrap();
    assert_eq!(seen.path, "/a?b");
    assert_eq!(seen.headers["authorization"], format!("Bearer {VALUE}"));
    assert_eq!(seen.headers["accept-encoding"], "identity");
}

#[tokio::test]
async fn a_value_goes_nowhere_else_in_a_request() {
    let world = World::new(&[], vec![Place::Authorization], true).await;
    let reply = world
        .send("POST /PLACEHOLDER?x=PLACEHOLDER HTTP/1.1\nHost: api.example:443\nX-Plain: PLACEHOLDER\nConnection: close\nContent-Length: 40\n\nPLACEHOLDER")
        .await;
    assert!(reply.contains(&world.placeholder) && !reply.contains(VALUE));
    let [seen] = world.seen().try_into().unwrap();
    assert!(!format!("{seen:?}").contains(VALUE), "{seen:?}");
}

#[tokio::test]
async fn bodies_carry_a_secret_that_may_be_there() {
    let world = World::new(&[], vec![Place::Body], true).await;
    let reply = world
        .send("POST / HTTP/1.1\nHost: api.example\nConnection: close\nTransfer-Encoding: chunked\n\n2\n<<\n28\nPLACEHOLDER\n0\n\n")
        .await;
    assert!(reply.contains(&format!("<<{}", world.placeholder)), "{reply}");
    assert_eq!(world.seen()[0].body, format!("<<{VALUE}"));
}

#[tokio::test]
async fn a_request_for_another_host_is_refused() {
    let world = World::new(&[], vec![Place::Authorization], true).await;
    for (head, status) in [
        ("GET / HTTP/1.1\nHost: other.example\n", "421"),
        ("GET / HTTP/1.1\nHost: api.example:444\n", "421"),
        ("GET / HTTP/1.1\nHost: api.example\nHost: other.example\n", "400"),
        ("GET https://other.example/ HTTP/1.1\nHost: api.example\n", "421"),
        ("GET http://api.example/ HTTP/1.1\nHost: api.example\n", "400"),
        ("GET / HTTP/1.1\n", "400"),
        ("TRACE / HTTP/1.1\nHost: api.example\n", "400"),
        ("TRACK / HTTP/1.1\nHost: api.example\n", "400"),
        ("CONNECT other.example:443 HTTP/1.1\nHost: other.example\n", "4"),
    ] {
        let reply = world.send(&format!("{head}Authorization: Bearer PLACEHOLDER\nConnection: close\n\n")).await;
        assert!(reply.starts_with(&format!("HTTP/1.1 {status}")), "{head}: {reply}");
    }
    assert!(world.seen().is_empty(), "{:?}", world.seen());
    assert!(world.connect("other.example", &[]).await.is_err());
}

#[tokio::test]
async fn a_host_that_is_not_trusted_gets_nothing() {
    let world = World::new(&[], vec![Place::Authorization], false).await;
    let reply =
        world.send("GET / HTTP/1.1\nHost: api.example\nAuthorization: Bearer PLACEHOLDER\nConnection: close\n\n").await;
    assert!(reply.starts_with("HTTP/1.1 502"), "{reply}");
    assert!(reply.contains("unknown issuer") && reply.contains("isolation.network.authorities"), "{reply}");
    assert!(world.seen().is_empty());
}

#[tokio::test]
async fn many_requests_of_one_connection_pass_by_the_protocol_of_the_host() {
    for (offered, chosen) in [(&[&b"h2"[..], b"http/1.1"][..], "h2"), (&[b"h2"], "h2"), (&[b"http/1.1"], "http/1.1")] {
        let world = World::new(&[b"h2", b"http/1.1"], vec![Place::Authorization], true).await;
        let stream = world.connect(HOST, offered).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(chosen.as_bytes()));
        let bearer = format!("Bearer {}", world.placeholder);
        let request = |number: usize| {
            let request = Request::post(format!("https://{HOST}/{number}")).header("authorization", &bearer);
            request.header("host", HOST).body(Full::<Bytes>::from(format!("{number} {VALUE}"))).unwrap()
        };
        let mut replies = Vec::new();
        if chosen == "h2" {
            let (mut sender, connection) =
                hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
            tokio::spawn(connection);
            for number in 0..20 {
                replies.push(sender.send_request(request(number)).await.unwrap());
            }
        } else {
            let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
            tokio::spawn(connection);
            for number in 0..20 {
                let mut request = request(number);
                *request.uri_mut() = format!("/{number}").parse().unwrap();
                sender.ready().await.unwrap();
                let (parts, body) = sender.send_request(request).await.unwrap().into_parts();
                let body = body.collect().await.unwrap().to_bytes();
                assert_eq!(body, format!("{number} {}", world.placeholder));
                assert_eq!(parts.status, StatusCode::OK);
            }
        }
        for (number, reply) in replies.into_iter().enumerate() {
            assert_eq!(reply.headers()["x-seen"], bearer);
            let body = reply.into_body().collect().await.unwrap().to_bytes();
            assert_eq!(body, format!("{number} {}", world.placeholder));
        }
        let seen = world.seen();
        assert_eq!(seen.len(), 20);
        assert!(seen.iter().all(|one| one.headers["authorization"] == format!("Bearer {VALUE}")));
    }
}
