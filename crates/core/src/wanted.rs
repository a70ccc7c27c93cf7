//! What programs want of the network, and why they do not get it.

use nacre_egress::{Reason, Wish, shown};
use nacre_protocol::connections::Caller;
use nacre_protocol::refusal::FileRefusal;
use std::fmt;
use std::sync::Arc;

/// A request, as far as rules judge it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Request {
    /// As it was sent.
    pub method: String,
    /// Without the query.
    pub path: String,
}

/// What a program wants: a connection, or one request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Wanted {
    /// Host and port, like `example.com:443`.
    pub target: String,
    /// None: a connection.
    pub request: Option<Request>,
}

impl Wanted {
    /// A connection.
    pub fn to(target: impl fmt::Display) -> Self {
        Self { target: target.to_string(), request: None }
    }

    /// Bytes of its texts.
    pub fn size(&self) -> usize {
        self.target.len() + self.request.as_ref().map_or(0, |request| request.method.len() + request.path.len())
    }
}

impl From<&Wish> for Wanted {
    fn from(wish: &Wish) -> Self {
        let request = Request { method: wish.method.clone(), path: wish.path.clone() };
        // Without a method, it is a connection.
        let request = Some(request).filter(|request| !request.method.is_empty());
        Self { target: format!("{}:{}", wish.origin.host, wish.origin.port), request }
    }
}

/// What was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// What a program wanted.
    pub wanted: Wanted,
    /// What has refused it.
    pub cause: Refuser,
    /// The process that wanted it, where it is known.
    pub caller: Option<Arc<Caller>>,
}

/// What has refused a connection or a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refuser {
    /// No list has the host.
    Unlisted,
    /// The list of what is refused has it.
    Denied,
    /// Its name leads to an address that is not allowed for names.
    Address,
    /// An answer, or that there was none.
    Answer,
    /// What has read the connection.
    Request(Reason),
    /// It is a Unix socket outside of the session.
    Socket,
}

impl Refuser {
    /// The same as a word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unlisted => "unlisted",
            Self::Denied => "denied",
            Self::Address => "address",
            Self::Answer => "answer",
            Self::Request(_) => "request",
            Self::Socket => "socket",
        }
    }

    /// Why a connection was refused that was read.
    pub fn reason(self) -> Option<Reason> {
        match self {
            Self::Request(reason) => Some(reason),
            _ => None,
        }
    }
}

impl Denial {
    /// Keeps the beginnings of a long method and path.
    pub fn new(mut wanted: Wanted, cause: Refuser) -> Self {
        if let Some(request) = &mut wanted.request {
            (request.method, request.path) = (shown(&request.method), shown(&request.path));
        }
        Self { wanted, cause, caller: None }
    }

    /// Bytes of its texts.
    pub fn size(&self) -> usize {
        self.wanted.size() + self.caller.as_ref().map_or(0, |caller| caller.size())
    }

    /// Whether both say the same of any process.
    pub fn is_like(&self, other: &Self) -> bool {
        self.wanted == other.wanted && self.cause == other.cause
    }
}

/// What was refused since the last command began.
#[derive(Clone, Debug, Default)]
pub struct Denied {
    /// Connections and requests.
    pub connections: Vec<Denial>,
    /// Files, if the session explains refusals.
    pub files: Vec<FileRefusal>,
}
