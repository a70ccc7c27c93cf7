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
mod origin;
mod placeholder;
mod replace;

pub use origin::system_bundle;
pub use placeholder::placeholder;

use authority::Authority;
use forms::Pairs;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;
use std::sync::Arc;
use zeroize::Zeroizing;

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
}

/// What commands never see. It is wiped when it is dropped.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Value(Zeroizing<String>);

impl Value {
    /// Wraps a text of printable ASCII.
    pub fn new(text: String) -> Self {
        Self(Zeroizing::new(text))
    }

    fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is missing, as in what was read from a file.
    pub fn is_missing(&self) -> bool {
        self.0.is_empty()
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
}

/// What is to be decrypted, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The secrets.
    pub secrets: Vec<Secret>,
    /// More authorities of hosts, as PEM.
    pub authorities: Vec<String>,
}

impl Plan {
    /// Whether nothing is to be decrypted.
    pub fn is_empty(&self) -> bool {
        self.secrets.is_empty()
    }
}

/// The decrypted connections of a session.
pub struct Egress {
    plan: Plan,
    authority: Authority,
    origins: Arc<origin::Origins>,
}

impl fmt::Debug for Egress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Egress").field("plan", &self.plan).finish_non_exhaustive()
    }
}

impl Egress {
    /// Makes an authority for the hosts of a plan.
    ///
    /// # Errors
    /// A host is no name that a certificate can have, or there are no random numbers.
    pub fn new(plan: Plan) -> io::Result<Self> {
        let hosts = plan.secrets.iter().flat_map(|secret| &secret.hosts).map(|origin| origin.host.clone());
        let authority = Authority::new(hosts.collect())?;
        let origins = Arc::new(origin::Origins::new(plan.authorities.clone()));
        Ok(Self { plan, authority, origins })
    }

    /// The certificate of the authority, as PEM.
    pub fn authority(&self) -> &str {
        self.authority.pem()
    }

    /// Whether connections to this host are decrypted. `host` is in lower case.
    pub fn covers(&self, host: &str, port: u16) -> bool {
        self.plan.secrets.iter().any(|secret| secret.is_for(host, port))
    }

    /// What applies to the requests for a host.
    fn treatment(&self, origin: &Origin) -> Treatment {
        let own = || self.plan.secrets.iter().filter(|secret| secret.is_for(&origin.host, origin.port));
        let in_bodies = own().filter(|secret| secret.places.contains(&Place::Body));
        Treatment {
            secrets: own().cloned().collect(),
            bodies: Arc::new(Pairs::into_requests(in_bodies)),
            masks: Arc::new(Pairs::masks(own())),
        }
    }
}

impl Secret {
    fn is_for(&self, host: &str, port: u16) -> bool {
        self.hosts.iter().any(|origin| origin.host == host && origin.port == port)
    }
}

/// What happens to the requests of a connection, and to their replies.
struct Treatment {
    secrets: Vec<Secret>,
    /// Placeholders in bodies, and their values.
    bodies: Arc<Pairs>,
    /// Values in replies, and their placeholders.
    masks: Arc<Pairs>,
}
