//! What programs want of the network, and why they do not get it.

use nacre_egress::{Reason, Wish, shown};
use nacre_protocol::connections::Caller;
pub use nacre_protocol::refusal::FileRefusal;
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

/// Something that was refused, and the process that wanted it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// What was refused, and by what.
    pub what: DeniedUse,
    /// The process that wanted it, where it is known.
    pub caller: Option<Arc<Caller>>,
}

/// What programs did not get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeniedUse {
    /// A connection or a request.
    Connection(Wanted, Refuser),
    /// A file.
    File(FileRefusal),
    /// A system call, which the filter refuses.
    Call(String),
    /// The same for a socket to the internet, which the rules for hosts refuse.
    InternetSocket(String),
    /// More of something than this limit allows.
    Limit(&'static str),
    /// A change of a key of git's config: it stays in the session's copy.
    Config(String),
    /// Nothing was refused: a repository or a file that nothing protects has appeared in the project.
    Appeared(String),
}

/// What has refused a connection or a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refuser {
    /// No list has the host.
    Unlisted,
    /// Only the list of another program has it.
    Program,
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
            Self::Program => "program",
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
    /// A connection or request. Keeps the beginnings of a long method and path.
    pub fn new(mut wanted: Wanted, cause: Refuser) -> Self {
        if let Some(request) = &mut wanted.request {
            (request.method, request.path) = (shown(&request.method), shown(&request.path));
        }
        DeniedUse::Connection(wanted, cause).into()
    }

    /// Whether both are about the same file, whatever the rule.
    pub fn is_about(&self, other: &Self) -> bool {
        match (&self.what, &other.what) {
            (DeniedUse::File(one), DeniedUse::File(other)) => one.path == other.path,
            _ => false,
        }
    }

    /// Bytes of its texts.
    pub fn size(&self) -> usize {
        let what = match &self.what {
            DeniedUse::Connection(wanted, _) => wanted.size(),
            DeniedUse::File(FileRefusal { path, tree, .. }) => path.as_os_str().len() + tree.as_os_str().len(),
            DeniedUse::Limit(_) => 0,
            DeniedUse::Call(text) | DeniedUse::InternetSocket(text) => text.len(),
            DeniedUse::Config(text) | DeniedUse::Appeared(text) => text.len(),
        };
        what + self.caller.as_ref().map_or(0, |caller| caller.size())
    }
}

impl From<DeniedUse> for Denial {
    /// Of a process that is not known.
    fn from(what: DeniedUse) -> Self {
        Self { what, caller: None }
    }
}

impl From<FileRefusal> for Denial {
    fn from(refusal: FileRefusal) -> Self {
        DeniedUse::File(refusal).into()
    }
}

/// Bytes that programs have sent and received.
pub type PassedBytes = [u64; 2];

/// What was refused and sent since the last command began.
#[derive(Clone, Debug, Default)]
pub struct Denied {
    /// What was refused.
    pub denials: Vec<Denial>,
    /// The bytes that programs have sent and received meanwhile, if the network goes through a proxy.
    pub traffic: Option<PassedBytes>,
}
