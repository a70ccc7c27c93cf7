//! What programs want of the network, and why they do not get it.

use nacre_egress::{Reason, Wish, shown};
use std::fmt;

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
    /// None: the lists of hosts, or an answer about a host.
    pub reason: Option<Reason>,
}

impl Denial {
    /// Keeps the beginnings of a long method and path.
    pub fn new(mut wanted: Wanted, reason: Option<Reason>) -> Self {
        if let Some(request) = &mut wanted.request {
            (request.method, request.path) = (shown(&request.method), shown(&request.path));
        }
        Self { wanted, reason }
    }
}
