//! One request and its reply: checked, filled with secrets, sent, masked.

use super::function::{self, Forwarder, Kept};
use super::origin::{Link, Sender};
use super::record::{Counted, Record};
use super::replace::{Inflate, Replace};
use super::rules::Verdict;
use super::signature::{self, Content, Resigned};
use super::tunnel::hung_up;
use super::values::Filled;
use super::{
    Body, Call, Egress, Failure, Origin, Purpose, Reason, Secret, Treatment, Wish, credentials, default_port, websocket,
};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::ext::ReasonPhrase;
use hyper::header::{
    ACCEPT_ENCODING, ALT_SVC, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderName, HeaderValue,
    SEC_WEBSOCKET_EXTENSIONS, TE, TRANSFER_ENCODING, UPGRADE,
};
use hyper::http::request::Parts;
use hyper::http::uri::Scheme;
use hyper::upgrade::OnUpgrade;
use hyper::{Method, Request, Response, StatusCode, Uri, Version};
use hyper_util::rt::TokioIo;
use nacre_containment::lock::Lock;
use std::io;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// Some servers take another method or path from these, which rules have not judged.
const OVERRIDES: [&str; 5] =
    ["x-http-method-override", "x-http-method", "x-method-override", "x-original-url", "x-rewrite-url"];

/// By these, a client asks for a part of a reply, or for another form of it. Hosts may ignore them.
const PARTS: [&str; 4] = ["range", "request-range", "a-im", "accept-charset"];

/// Maximum bytes of a body that is read before it is sent, because it is signed.
const LONGEST_SIGNED: usize = 1 << 20;

/// Where WebDAV copies or moves a file (RFC 4918, section 10.3).
const DESTINATION: &str = "destination";

/// What the requests of a connection have in common.
pub struct Exchange {
    egress: Arc<Egress>,
    treatment: Arc<Treatment>,
    origin: Origin,
    scheme: &'static str,
    link: Link,
    /// Shows the end of a client whose request waits for an answer, if a rule asks.
    client: Option<TcpStream>,
    /// The connection that has become a WebSocket.
    upgrades: Lock<JoinSet<()>>,
}

/// A reply of nacre's own, instead of the host's.
struct Refusal(StatusCode, String);

impl Refusal {
    fn reply(self) -> Response<Body> {
        let text = Full::from(format!("nacre: {}\n", self.1)).map_err(|never| match never {});
        let mut reply = Response::new(text.boxed());
        *reply.status_mut() = self.0;
        reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        reply
    }
}

impl Exchange {
    pub fn new(
        egress: Arc<Egress>,
        treatment: Arc<Treatment>,
        origin: Origin,
        scheme: &'static str,
        link: Link,
    ) -> Self {
        Self { egress, treatment, origin, scheme, link, client: None, upgrades: Lock::default() }
    }

    /// The same, which sees the end of its client.
    pub fn with_client(self, client: Option<TcpStream>) -> Self {
        Self { client, ..self }
    }

    /// Whether there is a connection to the host.
    pub fn has_host(&self) -> bool {
        matches!(self.link, Link::Host(_))
    }

    /// Waits until what the connection has become ends.
    pub async fn await_upgrade(&self) {
        let mut upgrades = std::mem::take(&mut *self.upgrades.lock());
        while upgrades.join_next().await.is_some() {}
    }

    /// Answers a request, and records it.
    ///
    /// # Errors
    /// The connection to the host has ended, so that of the client is to end, too.
    pub async fn handle<B>(self: Arc<Self>, request: Request<B>) -> Result<Response<Body>, hyper::Error>
    where
        B: http_body::Body<Data = Bytes> + Send + Sync + 'static,
        B::Error: Into<Failure>,
    {
        let request = request.map(|body| body.map_err(io::Error::other).boxed());
        let masks = &self.treatment.values.known().masks;
        let record = Record::new(&self.egress.observer, self.wish(&request), &request, masks);
        let reply = self.answer(request, &record).await?;
        Ok(Counted::reply(reply, record).map(BodyExt::boxed))
    }

    async fn answer(&self, request: Request<Body>, record: &Arc<Record>) -> Result<Response<Body>, hyper::Error> {
        if let Err(refusal) = self.check(&request, record) {
            return Ok(refusal.reply());
        }
        if let Err(refusal) = self.judge(&request, record).await {
            return Ok(refusal.reply());
        }
        Ok(self.forward(request, record).await?.unwrap_or_else(Refusal::reply))
    }

    /// Everything that names a host must name the one that the connection is for.
    fn check(&self, request: &Request<Body>, record: &Record) -> Result<(), Refusal> {
        let bad = |text: &str| Err(Refusal(StatusCode::BAD_REQUEST, text.to_owned()));
        let headers = request.headers();
        let mut hosts = headers.get_all(HOST).iter();
        let (host, another) = (hosts.next(), hosts.next());
        if another.is_some() {
            return bad("a request has one Host");
        }
        let named =
            [request.uri().authority().map(|authority| authority.as_str().as_bytes()), host.map(HeaderValue::as_bytes)];
        if named.iter().all(Option::is_none) {
            return bad("a request names its host");
        }
        if let Some(other) = named.into_iter().flatten().find(|name| !self.is_own(name)) {
            let text = format!(
                "this connection is for {}, not for {}. Open another connection.",
                self.origin,
                String::from_utf8_lossy(other)
            );
            self.refused(self.wish(request), record, Reason::Host);
            return Err(Refusal(StatusCode::MISDIRECTED_REQUEST, text));
        }
        if request.uri().scheme_str().is_some_and(|scheme| scheme != self.scheme) {
            return bad(&format!("this connection is for {}:", self.scheme));
        }
        if request.method() == Method::CONNECT
            || request.method() == Method::TRACE
            || request.method().as_str() == "TRACK"
        {
            return bad(&format!("{} is not taken here", request.method()));
        }
        if headers.contains_key(CONTENT_LENGTH) && headers.contains_key(TRANSFER_ENCODING) {
            return bad("a request has Content-Length or Transfer-Encoding");
        }
        Ok(())
    }

    /// Applies the rules of the host to the path of a request, and to the one that it names as its destination.
    async fn judge(&self, request: &Request<Body>, record: &Record) -> Result<(), Refusal> {
        self.judge_one(self.wish(request), record).await?;
        let mut destinations = request.headers().get_all(DESTINATION).iter();
        let Some(destination) = destinations.next() else { return Ok(()) };
        let uri: Option<Uri> = destination.to_str().ok().and_then(|text| text.parse().ok());
        let is_own = |uri: &Uri| uri.authority().is_none_or(|name| self.is_own(name.as_str().as_bytes()));
        let uri = uri.filter(|uri| is_own(uri) && destinations.next().is_none());
        // No rule allows a request without a path.
        let path = uri.map_or_else(String::new, |uri| uri.path().to_owned());
        self.judge_one(self.wish_for(request.method(), &path), record).await
    }

    async fn judge_one(&self, wish: Wish, record: &Record) -> Result<(), Refusal> {
        let judged = self.treatment.rules.iter().map(|rules| (rules.judge(&wish.method, &wish.path), rules));
        let Some((verdict, rules)) = judged.max_by_key(|(verdict, _)| *verdict) else { return Ok(()) };
        let is_allowed = match verdict {
            Verdict::Allow => true,
            Verdict::Deny => false,
            Verdict::Ask => self.asks(&wish).await,
        };
        if is_allowed {
            return Ok(());
        }
        let text = format!("isolation.network does not allow {wish}. Allowed there: {}.", rules.allowed());
        self.refused(wish, record, Reason::Rule);
        Err(Refusal(StatusCode::FORBIDDEN, text))
    }

    /// Waits for an answer, unless the client disconnects: then its request must not be sent any more.
    async fn asks(&self, wish: &Wish) -> bool {
        let answer = self.egress.observer.allows(wish);
        let Some(client) = &self.client else { return answer.await };
        tokio::select! {
            biased;
            () = hung_up(client) => false,
            is_allowed = answer => is_allowed,
        }
    }

    fn refused(&self, wish: Wish, record: &Record, reason: Reason) {
        record.denied(reason);
        self.egress.observer.refused(wish, reason);
    }

    fn wish(&self, request: &Request<Body>) -> Wish {
        self.wish_for(request.method(), request.uri().path())
    }

    fn wish_for(&self, method: &Method, path: &str) -> Wish {
        // What a person is asked, and reads, has no characters that hide or reorder others.
        let shown = |byte: u8| match byte {
            b'!'..=b'~' => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        };
        let (origin, path) = (self.origin.clone(), path.bytes().map(shown).collect());
        Wish { scheme: self.scheme, origin, method: method.to_string(), path }
    }

    fn is_own(&self, name: &[u8]) -> bool {
        let is_default = self.origin.port == default_port(self.scheme);
        let is_same = |own: String| name.eq_ignore_ascii_case(own.as_bytes());
        is_same(self.origin.to_string()) || is_default && is_same(self.origin.host.clone())
    }

    async fn forward(
        &self,
        request: Request<Body>,
        record: &Arc<Record>,
    ) -> Result<Result<Response<Body>, Refusal>, hyper::Error> {
        let bad = |text: String| Ok(Err(Refusal(StatusCode::BAD_GATEWAY, text)));
        let filled = match self.treatment.values.filled(&*self.egress.observer).await {
            Ok(filled) => filled,
            Err(name) => {
                return bad(format!("the secret {name} is unavailable; the host program's log has the reason"));
            }
        };
        match &self.link {
            Link::Host(sender) => self.send(sender, request, record, &filled).await,
            Link::Function(name) => Ok(self.ask(name, request, &filled).await),
            Link::Broken(reason) => bad(reason.to_string()),
        }
    }

    /// Lets the host answer, which sees values.
    async fn send(
        &self,
        sender: &Sender,
        mut request: Request<Body>,
        record: &Arc<Record>,
        filled: &Filled,
    ) -> Result<Result<Response<Body>, Refusal>, hyper::Error> {
        let is_socket = sender.is_one() && websocket::is_named(request.headers());
        let upgrade = is_socket.then(|| hyper::upgrade::on(&mut request));
        let (mut parts, body) = request.into_parts();
        // Another protocol, like h2c, would pass unmasked, and its requests unchecked.
        parts.headers.remove(UPGRADE);
        if upgrade.is_some() {
            parts.headers.insert(UPGRADE, HeaderValue::from_static(websocket::NAME));
        }
        // A host may compress the transfer for it. gRPC needs `trailers`.
        if parts.headers.get(TE).is_some_and(|value| value != "trailers") {
            parts.headers.remove(TE);
        }
        let is_head = parts.method == Method::HEAD;
        record.uses(credentials::used(&parts, &filled.secrets));
        let (body, resigned) = match self.resigned(&parts, body, &filled.secrets).await {
            Ok(found) => found,
            Err(refusal) => return Ok(Err(refusal)),
        };
        if let Err(refusal) = self.fill(&mut parts, &filled.secrets, sender.is_one()) {
            return Ok(Err(refusal));
        }
        if let Some(resigned) = resigned {
            record.uses(std::iter::once(resigned.secret()));
            resigned.sign(&mut parts);
        }
        // A compressed body keeps its placeholders.
        let is_plain = parts.headers.get(CONTENT_ENCODING).is_none_or(|coding| coding == "identity");
        let bodies = if is_plain { Arc::clone(&filled.bodies) } else { Arc::default() };
        if !bodies.keeps_lengths() {
            parts.headers.remove(CONTENT_LENGTH);
        }
        // An error: not sent, or cut off, as if the host had closed the connection to the client.
        let body = Replace::request(body, bodies, Arc::clone(record));
        let reply = sender.send(Request::from_parts(parts, body)).await?;
        if reply.status() == StatusCode::UNAUTHORIZED {
            self.treatment.values.refused(&record.secrets()).await;
        }
        Ok(self.pass(reply, upgrade, is_head, filled))
    }

    /// Lets a function answer, which sees placeholders.
    async fn ask(&self, name: &str, request: Request<Body>, filled: &Filled) -> Result<Response<Body>, Refusal> {
        let is_head = request.method() == Method::HEAD;
        let (host, scheme) = (&self.origin.host, self.scheme);
        let port =
            if self.origin.port == default_port(scheme) { String::new() } else { format!(":{}", self.origin.port) };
        let url =
            format!("{scheme}://{host}{port}{}", request.uri().path_and_query().map_or("/", |path| path.as_str()));
        let turn = Arc::clone(&self.egress.turns).acquire_owned().await.ok();
        let forwarder = Arc::new(Forwarder::new(&self.egress, &self.origin, scheme));
        let call = Call { function: name.to_owned(), purpose: Purpose::Answer(Arc::clone(&forwarder)) };
        let answered = match self.egress.observer.call(call) {
            Ok(socket) => function::answer(socket, request, url).await,
            Err(error) => Err(error),
        };
        let failed = |_| {
            let text = format!("the handler of {host} failed. The host program's log has the reason.");
            Refusal(StatusCode::INTERNAL_SERVER_ERROR, text)
        };
        let reply = answered.map_err(failed)?.map(|body| Kept::new(body, (forwarder, turn)));
        self.pass(reply, None, is_head, filled)
    }

    /// Finds out which secret has signed a request, if one has. Its body may have to be read for it.
    async fn resigned<'a>(
        &self,
        parts: &Parts,
        body: Body,
        secrets: &'a [Secret],
    ) -> Result<(Body, Option<Resigned<'a>>), Refusal> {
        match signature::content(&parts.headers, secrets) {
            None => return Ok((body, None)),
            Some(Content::Is(hash)) => return Ok((body, Resigned::find(parts, hash, secrets))),
            Some(Content::Hash) => {}
            Some(Content::Parts) => {
                let text = "each part of the body is signed, which nacre cannot do again. Sign it as UNSIGNED-PAYLOAD.";
                return Err(Refusal(StatusCode::NOT_IMPLEMENTED, text.to_owned()));
            }
        }
        let too_long = || {
            let text = format!("a body of more than {LONGEST_SIGNED} bytes needs the header x-amz-content-sha256");
            Refusal(StatusCode::PAYLOAD_TOO_LARGE, text)
        };
        // The client has not sent it yet, if it waits for that.
        if http_body::Body::size_hint(&body).lower() > LONGEST_SIGNED as u64 {
            return Err(too_long());
        }
        let turn = Arc::clone(&self.egress.bodies).acquire_owned().await.ok();
        let bytes = Limited::new(body, LONGEST_SIGNED).collect().await.map_err(|_| too_long())?.to_bytes();
        let resigned = Resigned::find(parts, signature::hash(&bytes), secrets);
        let body = Full::from(bytes).map_err(|never| match never {}).boxed();
        Ok((Kept::new(body, turn).boxed(), resigned))
    }

    /// Makes the head of a request that of one to the host. `is_one`: over HTTP/1.1.
    fn fill(&self, parts: &mut Parts, secrets: &[Secret], is_one: bool) -> Result<(), Refusal> {
        if !self.treatment.rules.is_empty() {
            // Gateways of the CGI kind take `_` for `-`.
            let is_override = |name: &&HeaderName| OVERRIDES.contains(&name.as_str().replace('_', "-").as_str());
            let overrides: Vec<HeaderName> = parts.headers.keys().filter(is_override).cloned().collect();
            overrides.iter().for_each(|name| drop(parts.headers.remove(name)));
        }
        if secrets.iter().any(Secret::is_sent) {
            // What is compressed would have to be decompressed to be masked.
            parts.headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
            parts.headers.remove(SEC_WEBSOCKET_EXTENSIONS);
            // A part of a value cannot be masked.
            PARTS.iter().for_each(|name| drop(parts.headers.remove(*name)));
        }
        credentials::insert(&mut parts.headers, secrets);
        let filled = credentials::with_query(&parts.uri, secrets);
        if is_one {
            if !parts.headers.contains_key(HOST) {
                let name = parts.uri.authority().and_then(|name| HeaderValue::from_str(name.as_str()).ok());
                name.into_iter().for_each(|name| drop(parts.headers.insert(HOST, name)));
            }
            parts.version = Version::HTTP_11;
        }
        let mut uri = std::mem::take(&mut parts.uri).into_parts();
        if let Some(filled) = filled {
            let text = "the path and the query with a secret are too long for a request. Send the secret in a header.";
            let path = filled.parse().map_err(|_| Refusal(StatusCode::BAD_REQUEST, text.to_owned()))?;
            uri.path_and_query = Some(path);
        }
        if is_one {
            (uri.scheme, uri.authority) = (None, None);
        } else if uri.authority.is_none() {
            // Its place in HTTP/2.
            let host = parts.headers.remove(HOST).and_then(|host| host.to_str().ok()?.parse().ok());
            (uri.scheme, uri.authority) = (Some(Scheme::HTTPS), host);
        }
        let refusal = |_| Refusal(StatusCode::BAD_REQUEST, "a request has a path".to_owned());
        parts.uri = Uri::from_parts(uri).map_err(refusal)?;
        Ok(())
    }

    /// Makes a reply that the client may see.
    fn pass<B>(
        &self,
        mut reply: Response<B>,
        upgrade: Option<OnUpgrade>,
        is_head: bool,
        filled: &Filled,
    ) -> Result<Response<Body>, Refusal>
    where
        B: http_body::Body<Data = Bytes> + Send + Sync + Unpin + 'static,
        B::Error: Into<Failure>,
    {
        if reply.status() == StatusCode::SWITCHING_PROTOCOLS {
            let is_readable = filled.masks.is_empty() || !websocket::is_extended(reply.headers());
            if upgrade.is_none() || !websocket::is_named(reply.headers()) || !is_readable {
                let text = format!("{} has changed to a protocol that cannot be checked", self.origin);
                return Err(Refusal(StatusCode::BAD_GATEWAY, text));
            }
            let (server, masks) = (hyper::upgrade::on(&mut reply), Arc::clone(&filled.masks));
            self.upgrades.lock().spawn(async move {
                let Some(client) = upgrade else { return };
                if let (Ok(client), Ok(server)) = tokio::join!(client, server) {
                    // A connection that breaks ends both.
                    let _ = websocket::relay(TokioIo::new(client), TokioIo::new(server), masks).await;
                }
            });
        }
        // It would lead past this connection.
        reply.headers_mut().remove(ALT_SVC);
        // A host may write anything there; HTTP/2 has none.
        reply.extensions_mut().remove::<ReasonPhrase>();
        let masks = &filled.masks;
        // Its head can be that of a reply with a body (RFC 9110, sections 9.3.2 and 15.4.5).
        let has_body = !is_head && reply.status() != StatusCode::NOT_MODIFIED;
        let inflate = if masks.is_empty() || !has_body { None } else { inflate(&reply, &self.origin)? };
        let headers = reply.headers_mut();
        credentials::mask(headers, masks);
        if inflate.is_some() {
            headers.remove(CONTENT_ENCODING);
        }
        if inflate.is_some() || !masks.keeps_lengths() {
            headers.remove(CONTENT_LENGTH);
        }
        let masks = Arc::clone(masks);
        Ok(reply.map(|body| Replace::reply(body, masks, inflate).map_err(io::Error::other).boxed()))
    }
}

/// How the body of a reply must be decompressed to be masked; `None` if it is plain.
fn inflate<B>(reply: &Response<B>, origin: &Origin) -> Result<Option<Inflate>, Refusal> {
    let mut transfers = reply.headers().get_all(TRANSFER_ENCODING).iter();
    if transfers.any(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"chunked")) {
        let text = format!("the reply of {origin} is transferred in a way that cannot be masked");
        return Err(Refusal(StatusCode::BAD_GATEWAY, text));
    }
    let codings = reply.headers().get_all(CONTENT_ENCODING).iter().map(|coding| coding.to_str().unwrap_or("?"));
    let codings: Vec<&str> = codings
        .flat_map(|list| list.split(','))
        .map(str::trim)
        .filter(|one| *one != "identity" && !one.is_empty())
        .collect();
    let known = match codings.as_slice() {
        [] => return Ok(None),
        [one] => Inflate::of(one),
        _ => None,
    };
    known.map(Some).ok_or_else(|| {
        let text = format!("the reply of {origin} is compressed with {}, which cannot be masked", codings.join(", "));
        Refusal(StatusCode::BAD_GATEWAY, text)
    })
}
