//! What decides about the decrypted requests of a session and learns of them.

use super::hosts::Target;
use super::{Policy, dial};
use crate::feed::{Feed, What};
use crate::log::Log;
use crate::request_log::RequestLog;
use crate::wanted::{Denial, Wanted};
use nacre_egress::{Call, Ended, Observer, Origin, Reason, Wish};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use tokio::net::{TcpStream, UnixStream};

/// Where the requests of a session are reported when they have ended.
#[derive(Clone, Debug)]
pub struct Requests {
    /// The session.
    pub session: Arc<str>,
    /// Gets them while something reads it.
    pub feed: Arc<Feed>,
    /// Gets all of them.
    pub file: Option<Arc<RequestLog>>,
    /// Receives what fails.
    pub log: Log,
}

/// See the module.
pub struct SessionObserver {
    /// Without what decrypts, which has this.
    pub policy: Policy,
    pub requests: Requests,
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
        self.policy.denials.add(Denial::new(Wanted::from(&wish), Some(reason)));
    }

    fn call(&self, call: Call) -> io::Result<UnixStream> {
        UnixStream::from_std(self.policy.functions.call(call)?)
    }

    fn dial(&self, origin: &Origin) -> Pin<Box<dyn Future<Output = io::Result<TcpStream>> + Send>> {
        let (policy, target) = (self.policy.clone(), Target { host: origin.host.clone(), port: origin.port });
        Box::pin(async move { dial::dial(&target, &policy).await })
    }

    fn ended(&self, request: Ended) {
        let Requests { session, feed, file, log } = &self.requests;
        if feed.is_watched() {
            feed.push(session, What::Request(Box::new(request.clone())));
        }
        if let Some(file) = file {
            file.add(request, Arc::clone(session), log.clone());
        }
    }
}
