//! Connections of a session to named hosts, decrypted: commands use secrets that they never see.
//!
//! A command gets a placeholder of the secret's form and length. The connection to a host that the secret names is decrypted
//! with an authority that exists only in this process and is good for these hosts alone. On its way to the host, a placeholder
//! becomes the value; in replies, the value becomes the placeholder.
//!
//! One connection of a client is one connection to the host, with the protocol that the host has chosen, so a request is never
//! translated between versions of HTTP.

mod authority;
mod connection;
mod credentials;
mod exchange;
mod forms;
mod forward;
mod function;
mod origin;
mod placeholder;
mod record;
mod replace;
pub mod request_log;
mod rules;
mod signature;
#[cfg(test)]
mod testing;
mod tunnel;
mod values;
mod websocket;

pub use function::Forwarder;
pub use origin::system_bundle;
pub use placeholder::placeholder;
pub use record::{Ended, shown};
pub use rules::check_rule;
pub use tunnel::hung_up;

use authority::Authority;
use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use rules::Rules;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::future::Future;
use std::io;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::Semaphore;
use values::{Known, Values};
use zeroize::Zeroizing;

/// Requests of a session that functions answer at the same time. Further ones wait.
const MOST_ANSWERS: usize = 64;

/// Bodies of a session that are in memory at the same time, to be signed.
const MOST_BODIES: usize = 8;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The body of a request or a reply.
type Body = BoxBody<Bytes, io::Error>;

/// A host and a port. The host is a name in lower case.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Origin {
    /// The name.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.host, self.port)
    }
}

/// Where a secret may be in a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Place {
    /// The header `Authorization`: as the whole credential, alone, after a scheme, or as user or password of `Basic`.
    Authorization,
    /// The body, anywhere, unless it is compressed.
    Body,
    /// A header with this name, in lower case, in the forms of `Authorization`.
    Header(String),
    /// The parameter of the query with this name.
    Query(String),
    /// Nowhere: requests are signed with it, as for AWS.
    AwsSignature,
}

/// What commands never see. It is wiped when it is dropped.
#[derive(Clone, PartialEq, Eq)]
pub enum Value {
    /// Printable ASCII; empty where it is missing, as in what was read from a file.
    Text(Zeroizing<String>),
    /// The function of the program with this name knows it.
    Function(String),
}

impl Default for Value {
    fn default() -> Self {
        Self::new(String::new())
    }
}

impl Value {
    /// Wraps a text of printable ASCII.
    pub fn new(text: String) -> Self {
        Self::Text(Zeroizing::new(text))
    }

    fn as_str(&self) -> &str {
        match self {
            Self::Text(text) => text,
            Self::Function(_) => "",
        }
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Value(..)")
    }
}

/// A secret, and where it may go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secret {
    /// The name of its variable.
    pub name: String,
    /// Never written anywhere.
    #[serde(skip)]
    pub value: Value,
    /// What commands have instead.
    pub placeholder: String,
    /// The hosts whose requests may have it.
    pub hosts: Vec<Origin>,
    /// The places in these requests.
    pub places: Vec<Place>,
    /// How long a value of a function holds; `None`: until a host refuses it.
    pub refresh: Option<Duration>,
    /// The programs whose requests may have it, by their names in the rules; empty: all.
    pub programs: Vec<String>,
}

/// What is to be decrypted, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The secrets.
    pub secrets: Vec<Secret>,
    /// Hosts with rules for their requests, like `GET,HEAD /repos/**`, `deny DELETE /**` or `ask POST /**`. The first that
    /// matches decides, and none means no. All lists for one host apply.
    pub requests: Vec<(Origin, Vec<String>)>,
    /// Hosts whose requests a function of the program answers, which has this name.
    pub handlers: Vec<(Origin, String)>,
    /// More authorities of hosts, as PEM.
    pub authorities: Vec<String>,
}

impl Plan {
    /// Whether nothing is to be decrypted.
    pub fn is_empty(&self) -> bool {
        self.secrets.is_empty() && self.requests.is_empty() && self.handlers.is_empty()
    }

    /// What concerns one program with hosts of its own; none: all others.
    #[must_use]
    pub fn of_program(&self, program: Option<&str>) -> Self {
        let is_own =
            |secret: &&Secret| secret.programs.is_empty() || secret.programs.iter().any(|own| Some(&**own) == program);
        Self { secrets: self.secrets.iter().filter(is_own).cloned().collect(), ..self.clone() }
    }
}

/// A request, as far as rules judge it, or a connection, which has no method and no path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// `https` or `http`.
    pub scheme: &'static str,
    /// Its host.
    pub origin: Origin,
    /// Its method.
    pub method: String,
    /// Its path, without the query.
    pub path: String,
}

impl Wish {
    fn connection(origin: &Origin) -> Self {
        Self { scheme: "https", origin: origin.clone(), method: String::new(), path: String::new() }
    }
}

impl fmt::Display for Wish {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scheme, origin, method, path } = self;
        if method.is_empty() {
            return origin.fmt(formatter);
        }
        let port = if origin.port == default_port(scheme) { String::new() } else { format!(":{}", origin.port) };
        write!(formatter, "{method} {scheme}://{}{port}{path}", origin.host)
    }
}

fn default_port(scheme: &str) -> u16 {
    if scheme == "http" { 80 } else { 443 }
}

/// Why something was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// By a rule, by none, or by an answer.
    Rule,
    /// It named another host.
    Host,
    /// TLS named another host, or none.
    TlsName,
    /// A host with a secret was not addressed by HTTP over TLS.
    NotHttp,
    /// The client does not trust the authority of the session.
    Untrusted,
}

impl Reason {
    /// Its name in the interface.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rule => "rule",
            Self::Host => "host",
            Self::TlsName => "tls-name",
            Self::NotHttp => "not-http",
            Self::Untrusted => "untrusted",
        }
    }
}

/// What decides about requests and learns of them.
pub trait Observer: Send + Sync {
    /// Whether a request may be sent for which a rule asks.
    fn allows(&self, wish: &Wish) -> Pin<Box<dyn Future<Output = bool> + Send>>;
    /// A request was refused. Must not block.
    fn refused(&self, wish: Wish, reason: Reason);
    /// Calls a function of the program, which reads and writes at the other end of this socket. Must not block.
    ///
    /// # Errors
    /// It cannot be called.
    fn call(&self, _: Call) -> io::Result<UnixStream> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Connects to a host for a function.
    fn dial(&self, _: &Origin) -> Pin<Box<dyn Future<Output = io::Result<TcpStream>> + Send>> {
        Box::pin(std::future::ready(Err(io::ErrorKind::Unsupported.into())))
    }
    /// A request begins, with the context of the trace that it names. Returns its number for [`Self::ended`]. Must not block.
    fn began(&self, _: &Wish, _traceparent: Option<&str>) -> u64 {
        0
    }
    /// A request has ended, also one that was refused. Must not block.
    fn ended(&self, _number: u64, _: Ended) {}
}

/// A call of a function of the program.
pub struct Call {
    /// Its name.
    pub function: String,
    /// What it is called for.
    pub purpose: Purpose,
}

/// What a function is called for.
pub enum Purpose {
    /// To answer a request. It may send requests to the host as long as the call lasts.
    Answer(Arc<Forwarder>),
    /// To tell the value for which programs have this placeholder.
    Know {
        /// See [`Secret`].
        placeholder: String,
    },
}

/// Refuses what a rule asks for.
struct NoObserver;

impl Observer for NoObserver {
    fn allows(&self, _: &Wish) -> Pin<Box<dyn Future<Output = bool> + Send>> {
        Box::pin(std::future::ready(false))
    }

    fn refused(&self, _: Wish, _: Reason) {}
}

type Treatments = Arc<[(Origin, Arc<Treatment>)]>;

/// The decrypted connections of a session. Cheap to clone.
#[derive(Clone)]
pub struct Egress {
    treatments: Treatments,
    observer: Arc<dyn Observer>,
    authority: Arc<Authority>,
    origins: Arc<origin::Origins>,
    /// Turns to have a request answered by a function.
    turns: Arc<Semaphore>,
    /// Turns to have a body in memory, to sign it.
    bodies: Arc<Semaphore>,
}

impl fmt::Debug for Egress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts: Vec<&Origin> = self.treatments.iter().map(|(origin, _)| origin).collect();
        formatter.debug_struct("Egress").field("hosts", &hosts).finish_non_exhaustive()
    }
}

impl Egress {
    /// Makes an authority for the hosts of a plan. Without an observer, what a rule asks for is refused.
    ///
    /// # Errors
    /// A host is no name that a certificate can have, a rule cannot be read, or there are no random numbers.
    pub fn new(plan: &Plan) -> io::Result<Self> {
        let (treatments, observer) = (treatments(plan)?, Arc::new(NoObserver));
        let authority = Authority::new(treatments.iter().map(|(origin, _)| origin.host.clone()).collect())?.into();
        let origins = Arc::new(origin::Origins::new(plan.authorities.clone()));
        let turns = Arc::new(Semaphore::new(MOST_ANSWERS));
        let bodies = Arc::new(Semaphore::new(MOST_BODIES));
        Ok(Self { treatments, observer, authority, origins, turns, bodies })
    }

    /// The same for a part of its plan, with its authority and its bounds.
    ///
    /// # Errors
    /// As for [`Self::new`].
    pub fn part(&self, plan: &Plan) -> io::Result<Self> {
        Ok(Self { treatments: treatments(plan)?, ..self.clone() })
    }

    /// The same with what decides about requests and learns of them.
    #[must_use]
    pub fn observed_by(&self, observer: Arc<dyn Observer>) -> Self {
        Self { observer, ..self.clone() }
    }

    /// The certificate of the authority, as PEM.
    pub fn authority(&self) -> &str {
        self.authority.pem()
    }

    /// Whether requests to this host have secrets or rules. `host` is in lower case.
    pub fn covers(&self, host: &str, port: u16) -> bool {
        self.find(host, port).is_some()
    }

    fn find(&self, host: &str, port: u16) -> Option<&Arc<Treatment>> {
        let found = self.treatments.iter().find(|(origin, _)| origin.host == host && origin.port == port);
        found.map(|(_, treatment)| treatment)
    }
}

/// What happens at each host of a plan.
fn treatments(plan: &Plan) -> io::Result<Treatments> {
    let invalid = |reason: String| io::Error::new(io::ErrorKind::InvalidInput, reason);
    let named = plan.secrets.iter().flat_map(|secret| &secret.hosts);
    let mut treatments: Vec<(Origin, Arc<Treatment>)> = Vec::new();
    let ruled = plan.requests.iter().map(|(origin, _)| origin);
    let answered = plan.handlers.iter().map(|(origin, _)| origin);
    let known = plan.secrets.iter().filter(|secret| matches!(secret.value, Value::Function(_)));
    let known: Vec<_> = known.map(|secret| Arc::new(Known::new(secret))).collect();
    for origin in named.chain(ruled).chain(answered) {
        if !treatments.iter().any(|(known, _)| known == origin) {
            let treatment = Treatment::new(plan, origin, &known).map_err(invalid)?;
            treatments.push((origin.clone(), treatment.into()));
        }
    }
    Ok(treatments.into())
}

impl Secret {
    fn is_for(&self, origin: &Origin) -> bool {
        self.hosts.contains(origin)
    }

    /// Whether requests have it, so that a host could show it.
    fn is_sent(&self) -> bool {
        self.places.iter().any(|place| *place != Place::AwsSignature)
    }
}

/// What happens to the requests for a host, and to their replies.
struct Treatment {
    /// Each must allow a request. Empty: any may be sent.
    rules: Vec<Rules>,
    values: Values,
    /// The function that answers requests.
    handler: Option<String>,
}

impl Treatment {
    fn new(plan: &Plan, origin: &Origin, known: &[Arc<Known>]) -> Result<Self, String> {
        let lists = plan.requests.iter().filter(|(ruled, _)| ruled == origin).map(|(_, list)| Rules::read(list));
        let rules: Result<_, String> = lists.collect();
        let rules = rules.map_err(|reason| format!("a rule for {origin} {reason}"))?;
        let own = plan.secrets.iter().filter(|secret| secret.is_for(origin)).cloned();
        let handler = plan.handlers.iter().find(|(answered, _)| answered == origin).map(|(_, name)| name.clone());
        Ok(Self { rules, values: Values::new(own.collect(), known), handler })
    }

    /// Another descriptor of a client, if its requests can have to wait for an answer.
    fn watch(&self, client: &TcpStream) -> io::Result<Option<TcpStream>> {
        if !self.rules.iter().any(Rules::can_ask) {
            return Ok(None);
        }
        let copy = client.as_fd().try_clone_to_owned()?;
        TcpStream::from_std(copy.into()).map(Some)
    }
}
