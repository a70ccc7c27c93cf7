//! Requests of a client through an egress to an origin on this machine.

mod attacks;
mod replies;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::{Body, Frame, Incoming};
use hyper::ext::ReasonPhrase;
use hyper::header::HeaderName;
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use nacre_egress::{Egress, Ended, Observer, Origin, Place, Plan, Reason, Secret, Value, Wish, placeholder};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
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
    trailers: Option<HeaderMap>,
}

/// Allows what a rule asks for if its path says so. `/never` is asked, and not answered.
#[derive(Default)]
struct Refusals(Mutex<Vec<String>>, Mutex<Vec<Ended>>, Notify);

impl Observer for Refusals {
    fn allows(&self, wish: &Wish) -> Pin<Box<dyn Future<Output = bool> + Send>> {
        if wish.path == "/never" {
            self.2.notify_one();
            return Box::pin(std::future::pending());
        }
        Box::pin(std::future::ready(wish.path.ends_with("/yes")))
    }

    fn refused(&self, wish: Wish, reason: Reason) {
        self.0.lock().unwrap().push(format!("{reason:?} {wish}"));
        self.2.notify_one();
    }

    fn ended(&self, _: u64, request: Ended) {
        self.1.lock().unwrap().push(request);
    }
}

/// An origin, the egress to it, and what each of them trusts.
struct World {
    egress: Arc<Egress>,
    refused: Arc<Refusals>,
    placeholder: String,
    server: TcpListener,
    seen: Arc<Mutex<Vec<Seen>>>,
    origin: std::net::SocketAddr,
}

/// An origin that repeats what it gets: the header `authorization`, and the body. Some paths have another head.
async fn repeat(
    request: Request<Incoming>,
    seen: Arc<Mutex<Vec<Seen>>>,
) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await?;
    let (trailers, body) = (body.trailers().cloned(), body.to_bytes());
    let path = parts.uri.path_and_query().map(ToString::to_string).unwrap_or_default();
    seen.lock().unwrap().push(Seen { path, headers: parts.headers.clone(), body: body.clone(), trailers });
    let mut reply = Response::new(Full::from(body));
    reply.extensions_mut().insert(ReasonPhrase::from_static(VALUE.as_bytes()));
    reply.headers_mut().insert(HeaderName::from_bytes(VALUE.as_bytes()).unwrap(), "told".parse().unwrap());
    for name in ["authorization", "x-plain"] {
        if let Some(value) = parts.headers.get(name) {
            reply.headers_mut().insert("x-seen", value.clone());
        }
    }
    if parts.uri.path() == "/304" {
        *reply.status_mut() = StatusCode::NOT_MODIFIED;
    }
    if ["/304", "/packed"].contains(&parts.uri.path()) {
        reply.headers_mut().insert("content-encoding", "zstd".parse().unwrap());
    }
    Ok(reply)
}

/// Sends a reply to the first request, and waits for the end of the client.
async fn answer(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), reply: &[u8]) {
    let mut got = Vec::new();
    while !attacks::has_head(&got) {
        let Ok(1..) = stream.read_buf(&mut got).await else { return };
    }
    let _ = stream.write_all(reply).await;
    let _ = stream.shutdown().await;
    while stream.read(&mut [0; 1024]).await.is_ok_and(|length| length > 0) {}
}

fn origin_at(port: u16) -> Origin {
    Origin { host: HOST.into(), port }
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
        Self::with_rules(alpn, places, trusts, &[], VALUE).await
    }

    /// With an origin that sends these bytes when it has got something, and ends.
    async fn with_reply(alpn: &[u8], value: &str, reply: Vec<u8>) -> Self {
        Self::of(&[alpn], vec![Place::Authorization], true, &[], value, Some(reply)).await
    }

    /// Without places, there is no secret.
    async fn with_rules(alpn: &[&[u8]], places: Vec<Place>, trusts: bool, rules: &[&str], value: &str) -> Self {
        Self::of(alpn, places, trusts, rules, value, None).await
    }

    async fn of(
        alpn: &[&[u8]],
        places: Vec<Place>,
        trusts: bool,
        rules: &[&str],
        value: &str,
        reply: Option<Vec<u8>>,
    ) -> Self {
        let reply = reply.map(Arc::new);
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
                let (acceptor, all, reply) = (acceptor.clone(), Arc::clone(&all), reply.clone());
                tokio::spawn(async move {
                    let service = service_fn(move |request| repeat(request, Arc::clone(&all)));
                    let mut first = [0];
                    if stream.peek(&mut first).await.is_ok() && first != [22] {
                        let io = TokioIo::new(stream);
                        let _ = hyper::server::conn::http1::Builder::new().serve_connection(io, service).await;
                        return;
                    }
                    let Ok(mut stream) = acceptor.accept(stream).await else { return };
                    if let Some(reply) = reply {
                        return answer(&mut stream, &reply).await;
                    }
                    let is_two = stream.get_ref().1.alpn_protocol() == Some(b"h2");
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
        let placeholder = placeholder(value).unwrap();
        let has_secret = !places.is_empty();
        let secret = Secret {
            name: "TOKEN".into(),
            value: Value::new(value.into()),
            placeholder: placeholder.clone(),
            hosts: vec![origin_at(443)],
            places,
            refresh: None,
            programs: Vec::new(),
        };
        let secrets = if has_secret { vec![secret] } else { Vec::new() };
        let authorities = if trusts { vec![pem] } else { Vec::new() };
        let list: Vec<String> = rules.iter().map(ToString::to_string).collect();
        let ports = if rules.is_empty() { &[][..] } else { &[443, 80] };
        let requests = ports.iter().map(|port| (origin_at(*port), list.clone())).collect();
        let refused: Arc<Refusals> = Arc::default();
        let egress = Egress::new(&Plan { secrets, authorities, requests, handlers: Vec::new() })
            .map(|egress| egress.observed_by(Arc::clone(&refused) as _));
        let egress = Arc::new(egress.unwrap());
        Self { egress, refused, placeholder, server: TcpListener::bind("127.0.0.1:0").await.unwrap(), seen, origin }
    }

    /// Both ends of a connection of a client.
    async fn accept(&self) -> (TcpStream, TcpStream) {
        let client = TcpStream::connect(self.server.local_addr().unwrap()).await.unwrap();
        (client, self.server.accept().await.unwrap().0)
    }

    /// A connection of a client through the egress.
    async fn connect(&self, name: &str, alpn: &[&[u8]]) -> io::Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(CertificateDer::pem_slice_iter(self.egress.authority().as_bytes()).flatten());
        self.connect_with(roots, name, alpn).await
    }

    /// The same, of a client that trusts these.
    async fn connect_with(&self, roots: RootCertStore, name: &str, alpn: &[&[u8]]) -> io::Result<TlsStream<TcpStream>> {
        let (client, inner) = self.accept().await;
        self.serve(inner);
        let mut config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
        TlsConnector::from(Arc::new(config)).connect(ServerName::try_from(name.to_owned()).unwrap(), client).await
    }

    fn serve(&self, inner: TcpStream) {
        let (egress, origin) = (Arc::clone(&self.egress), self.origin);
        tokio::spawn(async move {
            let _ = egress.serve(inner, origin_at(443), TcpStream::connect(origin)).await;
        });
    }

    /// The reply to a request over HTTP/2.
    async fn send_two<B>(&self, request: Request<B>) -> Response<Incoming>
    where
        B: Body<Data = Bytes, Error = Infallible> + Unpin + Send + 'static,
    {
        let stream = self.connect(HOST, &[b"h2"]).await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        sender.send_request(request).await.unwrap()
    }

    /// What a client of a tunnel that is not decrypted gets for these parts.
    async fn tunnel(&self, parts: &[&[u8]]) -> Vec<u8> {
        let (mut client, inner) = self.accept().await;
        let server = TcpStream::connect(self.origin).await.unwrap();
        let egress = Arc::clone(&self.egress);
        tokio::spawn(async move { egress.pass(inner, server, origin_at(8443)).await });
        client.set_nodelay(true).unwrap();
        for part in parts {
            if client.write_all(part).await.is_err() {
                break;
            }
        }
        let mut reply = vec![0; 64];
        let length = client.read(&mut reply).await.unwrap_or_default();
        reply.truncate(length);
        reply
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

    /// The requests that have ended, when there are so many.
    async fn ended(&self, count: usize) -> Vec<Ended> {
        loop {
            let ended = self.refused.1.lock().unwrap().clone();
            if ended.len() >= count {
                return ended;
            }
            tokio::task::yield_now().await;
        }
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
async fn an_observer_learns_what_a_request_was_but_no_value_and_no_query() {
    let world = World::with_rules(&[], vec![Place::Authorization, Place::Body], true, &["POST /a/**"], VALUE).await;
    let head = format!("/a/{VALUE}?q={VALUE} HTTP/1.1\nHost: api.example\nConnection: close\nContent-Length: 40\n\n");
    world.send(&format!("POST {head}PLACEHOLDER")).await;
    world.send(&format!("PUT {head}PLACEHOLDER")).await;
    let [sent, refused] = world.ended(2).await.try_into().unwrap();
    let wanted = Ended {
        origin: origin_at(443),
        method: "POST".into(),
        path: format!("/a/{}", world.placeholder),
        status: Some(200),
        sent: 40,
        received: 40,
        duration: sent.duration,
        secrets: vec!["TOKEN".into()],
        denied: None,
        protocol: "http/1.1",
    };
    assert_eq!(sent, wanted);
    assert_eq!((refused.status, refused.denied, refused.secrets), (Some(403), Some(Reason::Rule), Vec::new()));
}

#[tokio::test]
async fn an_observer_learns_of_a_request_whose_client_leaves_before_the_reply() {
    let world = World::new(&[], vec![Place::Authorization], true).await;
    let mut stream = world.connect(HOST, &[b"http/1.1"]).await.unwrap();
    // The host waits for the rest.
    stream.write_all(b"POST / HTTP/1.1\r\nHost: api.example\r\nContent-Length: 10\r\n\r\nhalf").await.unwrap();
    drop(stream);
    let [request] = world.ended(1).await.try_into().unwrap();
    assert_eq!((request.status, request.received), (None, 0));
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

#[tokio::test]
async fn a_client_that_does_not_trust_the_authority_is_reported() {
    let world = World::new(&[], vec![Place::Authorization], true).await;
    assert!(world.connect_with(RootCertStore::empty(), HOST, &[]).await.is_err());
    // Its alert is read behind its end.
    while world.refused.0.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(*world.refused.0.lock().unwrap(), ["Untrusted api.example:443"]);
    assert!(world.connect("other.example", &[]).await.is_err());
    assert_eq!(world.refused.0.lock().unwrap().last().unwrap(), "TlsName api.example:443");
}

#[tokio::test]
async fn rules_decide_about_method_and_path() {
    let rules = ["GET /a/**", "ask POST /a/**"];
    let world = World::with_rules(&[], vec![Place::Authorization], true, &rules, VALUE).await;
    for (line, status) in [
        ("GET /a/b?c", "200"),
        ("POST /a/yes", "200"),
        ("POST /a/no", "403"),
        ("DELETE /a/b", "403"),
        ("GET /b", "403"),
        ("GET /a/../b", "403"),
        ("GET /a/%2e%2e/b", "403"),
    ] {
        let head = "Host: api.example\nX-HTTP-Method-Override: DELETE\nConnection: close\n\n";
        let reply = world.send(&format!("{line} HTTP/1.1\n{head}")).await;
        assert!(reply.starts_with(&format!("HTTP/1.1 {status}")), "{line}: {reply}");
        if status == "403" {
            assert!(reply.contains("Allowed there: GET /a/**, ask POST /a/**."), "{reply}");
        }
    }
    let seen = world.seen();
    assert_eq!(seen.iter().map(|one| one.path.as_str()).collect::<Vec<_>>(), ["/a/b?c", "/a/yes"]);
    assert!(seen.iter().all(|one| !one.headers.contains_key("x-http-method-override")));
    let refused = world.refused.0.lock().unwrap();
    assert_eq!((refused.len(), refused[0].as_str()), (5, "Rule POST https://api.example/a/no"));
}

#[tokio::test]
async fn rules_decide_about_the_destination_of_a_request_too() {
    let world = World::with_rules(&[], Vec::new(), true, &["MOVE,COPY /a/**"], VALUE).await;
    for (line, destination, status) in [
        ("MOVE /a/b", "https://api.example/a/c", "200"),
        ("MOVE /a/b", "/a/c?d", "200"),
        ("MOVE /a/b", "https://api.example/c", "403"),
        ("COPY /a/b", "/c", "403"),
        ("COPY /a/b", "/a/../c", "403"),
        ("COPY /a/b", "https://other.example/a/c", "403"),
        ("COPY /a/b", "c", "403"),
        ("COPY /a/b", "/a/c\nDestination: /a/d", "403"),
    ] {
        let head = format!("Host: {HOST}\nDestination: {destination}\nConnection: close\n\n");
        let reply = world.send(&format!("{line} HTTP/1.1\n{head}")).await;
        assert!(reply.starts_with(&format!("HTTP/1.1 {status}")), "{line} {destination}: {reply}");
    }
    assert_eq!(world.seen().len(), 2);
    assert_eq!(world.refused.0.lock().unwrap()[0], "Rule MOVE https://api.example/c");
}

#[tokio::test]
async fn a_host_of_a_secret_gets_no_wish_for_a_part_of_a_reply() {
    for (places, is_sent) in [(vec![Place::Authorization], false), (Vec::new(), true)] {
        let world = World::with_rules(&[], places, true, &["GET /**"], VALUE).await;
        let parts = "Range: bytes=0-9\nRequest-Range: bytes=0-9\nA-IM: vcdiff\nAccept-Charset: utf-16\n";
        world.send(&format!("GET / HTTP/1.1\nHost: {HOST}\n{parts}Connection: close\n\n")).await;
        let [seen] = world.seen().try_into().unwrap();
        for name in ["range", "request-range", "a-im", "accept-charset"] {
            assert_eq!(seen.headers.contains_key(name), is_sent, "{name}");
        }
    }
}

#[tokio::test]
async fn a_host_with_rules_alone_is_decrypted() {
    let world = World::with_rules(&[], Vec::new(), true, &["GET /a/**"], VALUE).await;
    let reply = world.send("GET /a/b HTTP/1.1\nHost: api.example\nAccept-Encoding: br\nConnection: close\n\n").await;
    assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
    let reply = world.send("GET /b HTTP/1.1\nHost: api.example\nConnection: close\n\n").await;
    assert!(reply.starts_with("HTTP/1.1 403") && reply.contains("GET https://api.example/b"), "{reply}");
    let [seen] = world.seen().try_into().unwrap();
    assert_eq!(seen.headers["accept-encoding"], "br");
}

#[tokio::test]
async fn rules_apply_to_plain_requests_which_never_have_secrets() {
    let rules = ["POST /a/**"];
    let world = World::with_rules(&[], vec![Place::Authorization, Place::Body], true, &rules, VALUE).await;
    for (line, host, status) in [
        ("POST /a/b", "api.example", "200"),
        ("POST /a/b", "API.example:80", "200"),
        ("POST /b", "api.example", "403"),
        ("GET /a/b", "api.example", "403"),
        ("POST /a/b", "other.example", "421"),
        ("POST /a/b", "api.example:443", "421"),
        ("POST https://api.example/a/b", "api.example", "400"),
    ] {
        let head = format!(
            "{line} HTTP/1.1\r\nHost: {host}\r\nAuthorization: {}\r\nConnection: close\r\nContent-Length: 40\r\n\r\n",
            world.placeholder
        );
        let (mut client, inner) = world.accept().await;
        let (egress, origin) = (Arc::clone(&world.egress), world.origin);
        tokio::spawn(async move {
            egress.serve_plain(inner, head.into_bytes(), origin_at(80), TcpStream::connect(origin)).await
        });
        client.write_all(world.placeholder.as_bytes()).await.unwrap();
        let mut reply = String::new();
        client.read_to_string(&mut reply).await.unwrap();
        assert!(reply.starts_with(&format!("HTTP/1.1 {status}")), "{line}: {reply}");
    }
    let seen = world.seen();
    assert_eq!(seen.len(), 2);
    assert!(!format!("{seen:?}").contains(VALUE), "{seen:?}");
    assert!(world.refused.0.lock().unwrap().contains(&"Rule POST http://api.example/b".to_owned()));
}

#[tokio::test]
async fn a_tunnel_without_tls_is_for_hosts_without_a_secret() {
    let request = format!("GET /a HTTP/1.1\r\nHost: {HOST}:443\r\nConnection: close\r\n\r\n");
    for (places, expected) in [(Vec::new(), "HTTP/1.1 200"), (vec![Place::Body], "")] {
        let world = World::with_rules(&[], places, true, &["GET /a"], VALUE).await;
        let (mut client, inner) = world.accept().await;
        world.serve(inner);
        client.write_all(request.as_bytes()).await.unwrap();
        let mut reply = Vec::new();
        // It may be reset: what it has sent was not read.
        let _ = client.read_to_end(&mut reply).await;
        let reply = String::from_utf8_lossy(&reply);
        assert!(reply.starts_with(expected) && reply.is_empty() == expected.is_empty(), "{reply}");
        let refused: &[&str] = if expected.is_empty() { &["NotHttp api.example:443"] } else { &[] };
        assert_eq!(*world.refused.0.lock().unwrap(), refused);
    }
}

#[tokio::test]
async fn a_request_is_not_sent_for_a_client_that_has_gone() {
    for scheme in ["https", "http"] {
        let world = World::with_rules(&[], Vec::new(), true, &["ask POST /**"], VALUE).await;
        let request = format!("POST /never HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: 4\r\n\r\nbody");
        let mut client: Box<dyn AsyncWrite + Send + Unpin> = if scheme == "https" {
            Box::new(world.connect(HOST, &[]).await.unwrap())
        } else {
            let (client, inner) = world.accept().await;
            let (egress, origin) = (Arc::clone(&world.egress), world.origin);
            tokio::spawn(async move { egress.serve(inner, origin_at(80), TcpStream::connect(origin)).await });
            Box::new(client)
        };
        client.write_all(request.as_bytes()).await.unwrap();
        world.refused.2.notified().await;
        assert!(world.refused.0.lock().unwrap().is_empty(), "it waits for an answer");
        drop(client);
        world.refused.2.notified().await;
        assert_eq!(*world.refused.0.lock().unwrap(), [format!("Rule POST {scheme}://{HOST}/never")]);
        assert!(world.seen().is_empty());
    }
}

#[tokio::test]
async fn a_host_gets_no_wish_for_a_protocol_that_cannot_be_checked() {
    let world = World::with_rules(&[], Vec::new(), true, &["GET /**"], VALUE).await;
    for (given, sent) in [
        ("Upgrade: h2c\n", &[][..]),
        ("Upgrade: websocket, h2c\n", &[]),
        ("Upgrade: WebSocket\nUpgrade: h2c\n", &["websocket"]),
        ("Upgrade: h2c\nUpgrade: websocket\n", &[]),
    ] {
        let reply = world.send(&format!("GET /a HTTP/1.1\nHost: {HOST}\nConnection: close, upgrade\n{given}\n")).await;
        assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
        let seen = world.seen().pop().unwrap();
        assert_eq!(seen.headers.get_all("upgrade").iter().collect::<Vec<_>>(), sent, "{given}");
    }
}

#[tokio::test]
async fn a_path_is_reported_in_ascii() {
    let world = World::with_rules(&[], Vec::new(), true, &["ask GET /a/**"], VALUE).await;
    let reply = world.send(&format!("GET /a/\u{202e}oN HTTP/1.1\nHost: {HOST}\nConnection: close\n\n")).await;
    let shown = format!("GET https://{HOST}/a/%E2%80%AEoN");
    assert!(reply.contains(&format!("does not allow {shown}.")), "{reply}");
    assert_eq!(*world.refused.0.lock().unwrap(), [format!("Rule {shown}")]);
}

/// The first message of a client.
fn hello(name: &str) -> Vec<u8> {
    let config = ClientConfig::builder().with_root_certificates(RootCertStore::empty()).with_no_client_auth();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut client = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
    let mut bytes = Vec::new();
    client.write_tls(&mut bytes).unwrap();
    bytes
}

#[tokio::test]
async fn a_tunnel_that_is_not_decrypted_has_the_tls_name_of_its_host() {
    let world = World::with_rules(&[], Vec::new(), true, &["GET /a"], VALUE).await;
    let own = hello("API.example");
    assert_eq!(world.tunnel(&[&own]).await[0], 22);
    let bytes: Vec<&[u8]> = own.chunks(1).collect();
    assert_eq!(world.tunnel(&bytes).await[0], 22);
    let plain = world.tunnel(&[b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n"]).await;
    assert!(plain.starts_with(b"HTTP/1.1 200"));
    assert!(world.refused.0.lock().unwrap().is_empty());
    // A fragment in each record.
    let other = hello("other.example");
    let halves: Vec<u8> =
        other[5..].chunks(100).flat_map(|part| [&[22, 3, 1, 0, part.len() as u8], part].concat()).collect();
    let alert = [&[21, 3, 3, 0, 2, 1, 100][..], &other].concat();
    let endless = [22, 3, 1, 0, 4, 1, 0xff, 0xff, 0xff];
    let refused: [&[u8]; 7] =
        [&other, &halves, &alert, &hello("127.0.0.1"), &[22; 5000], &endless, &[&own[..200], &[0; 400]].concat()];
    for bytes in refused {
        assert!(world.tunnel(&[bytes]).await.is_empty());
    }
    let refusals = world.refused.0.lock().unwrap();
    assert!(
        refusals.len() == refused.len() && refusals.iter().all(|one| one == "TlsName api.example:8443"),
        "{refusals:?}"
    );
}

#[tokio::test]
async fn a_query_that_becomes_too_long_is_no_other_request() {
    let value = "/".repeat(40);
    for alpn in [&b"http/1.1"[..], b"h2"] {
        let world = World::with_rules(&[alpn], vec![Place::Query("key".into())], true, &[], &value).await;
        let query = vec![format!("key={}", world.placeholder); 1_000].join("&");
        let (status, text) = if alpn == b"h2" {
            let request = Request::get(format!("https://{HOST}/a?{query}")).body(Empty::<Bytes>::new()).unwrap();
            let (parts, body) = world.send_two(request).await.into_parts();
            (parts.status.to_string(), String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap())
        } else {
            let reply = world.send(&format!("GET /a?{query} HTTP/1.1\nHost: {HOST}\nConnection: close\n\n")).await;
            (reply[9..].to_owned(), reply)
        };
        assert!(status.starts_with("400") && text.contains("Send the secret in a header"), "{text}");
        assert!(world.seen().is_empty());
    }
}

#[tokio::test]
async fn a_reply_without_a_body_needs_no_decompression() {
    for alpn in [&b"http/1.1"[..], b"h2"] {
        let world = World::new(&[alpn], vec![Place::Authorization], true).await;
        for (method, path, status) in [("HEAD", "/packed", "200"), ("GET", "/304", "304"), ("GET", "/packed", "502")] {
            let reply = if alpn == b"h2" {
                let request = Request::builder().method(method).uri(format!("https://{HOST}{path}"));
                let reply = world.send_two(request.body(Empty::<Bytes>::new()).unwrap()).await;
                let (parts, body) = reply.into_parts();
                let body = body.collect().await.unwrap().to_bytes();
                format!("HTTP/1.1 {} {:?} {}", parts.status, parts.headers, String::from_utf8_lossy(&body))
            } else {
                world.send(&format!("{method} {path} HTTP/1.1\nHost: {HOST}\nConnection: close\n\n")).await
            };
            assert!(reply.starts_with(&format!("HTTP/1.1 {status}")), "{method} {path}: {reply}");
            assert!(reply.contains("zstd"), "{reply}");
        }
    }
}

/// A body of these frames, the last one first.
struct Frames(Vec<Frame<Bytes>>);

impl Body for Frames {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop().map(Ok))
    }
}

#[tokio::test]
async fn trailers_of_a_request_have_no_secret() {
    for places in [vec![Place::Body], vec![Place::Authorization, Place::Body]] {
        let world = World::new(&[b"h2"], places, true).await;
        let mut trailers = HeaderMap::new();
        trailers.insert("x-plain", world.placeholder.parse().unwrap());
        trailers.insert("authorization", world.placeholder.parse().unwrap());
        let body = Frames(vec![Frame::trailers(trailers), Frame::data(world.placeholder.clone().into())]);
        let reply = world.send_two(Request::post(format!("https://{HOST}/")).body(body).unwrap()).await;
        assert_eq!(reply.status(), StatusCode::OK);
        let [seen] = world.seen().try_into().unwrap();
        assert_eq!(seen.body, VALUE);
        let trailers = seen.trailers.unwrap();
        assert!(trailers.values().all(|value| *value == world.placeholder), "{trailers:?}");
        assert_eq!(trailers.len(), 2);
    }
}
