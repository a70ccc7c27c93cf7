//! What decides about the decrypted requests of a session and learns of them.

use super::hosts::Target;
use super::{Policy, dial};
use crate::feed::{Feed, What};
use crate::hook::Hook;
use crate::log::Log;
use crate::wanted::{Denial, Refuser, Wanted};
use nacre_egress::request_log::RequestLog;
use nacre_egress::{Call, Ended, Observer, Origin, Reason, Wish};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::net::{TcpStream, UnixStream};

/// A request of a command that is traced. Each has a number.
#[derive(Debug)]
pub enum TracedRequest {
    /// It begins.
    Began {
        /// Its number.
        number: u64,
        /// The id of the command.
        command: u64,
        /// What it is.
        wish: Wish,
        /// The context of the trace that it names.
        traceparent: Option<String>,
    },
    /// It has ended.
    Ended {
        /// Its number.
        number: u64,
        /// How.
        request: Ended,
    },
}

/// Where the requests of a session are reported.
#[derive(Clone, Debug)]
pub struct Requests {
    /// The session.
    pub session: Arc<str>,
    /// Gets those of commands that are traced.
    pub on_traced: Hook<TracedRequest>,
    /// Gets them when they have ended, while something reads it.
    pub feed: Arc<Feed>,
    /// Gets all of them when they have ended.
    pub file: Option<Arc<RequestLog>>,
    /// Receives what fails.
    pub log: Log,
}

/// See the module. Each connection has its own.
pub struct SessionObserver {
    /// Without what decrypts, which has this.
    pub policy: Policy,
}

impl Observer for SessionObserver {
    fn allows(&self, wish: &Wish) -> Pin<Box<dyn Future<Output = bool> + Send>> {
        let (asking, wanted) = (self.policy.denials.asking.clone(), Wanted::from(wish));
        Box::pin(async move {
            match asking {
                Some(asking) => asking.allows(&wanted).await,
                None => false,
            }
        })
    }

    fn refused(&self, wish: Wish, reason: Reason) {
        let caller = self.policy.caller.clone();
        self.policy.denials.add(Denial { caller, ..Denial::new(Wanted::from(&wish), Refuser::Request(reason)) });
    }

    fn call(&self, call: Call) -> io::Result<UnixStream> {
        UnixStream::from_std(self.policy.functions.call(call)?)
    }

    fn dial(&self, origin: &Origin) -> Pin<Box<dyn Future<Output = io::Result<TcpStream>> + Send>> {
        let (policy, target) = (self.policy.clone(), Target { host: origin.host.clone(), port: origin.port });
        Box::pin(async move { dial::dial(&target, &policy).await })
    }

    fn began(&self, wish: &Wish, traceparent: Option<&str>) -> u64 {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let Some(command) = self.policy.denials.traced() else { return 0 };
        let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        let (wish, traceparent) = (wish.clone(), traceparent.map(str::to_owned));
        self.policy.requests.on_traced.call(&TracedRequest::Began { number, command, wish, traceparent });
        number
    }

    fn ended(&self, number: u64, request: Ended) {
        let Requests { session, on_traced, feed, file, log } = &self.policy.requests;
        if number > 0 {
            on_traced.call(&TracedRequest::Ended { number, request: request.clone() });
        }
        if feed.is_watched() {
            feed.push(session, What::Request(Box::new(request.clone())));
        }
        if let Some(file) = file {
            file.add(request, Arc::clone(session), log.id());
        }
    }
}
