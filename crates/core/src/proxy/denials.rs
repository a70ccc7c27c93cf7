//! What was refused to the programs of a session, by its proxy and by the broker.

use super::MAX_CONNECTIONS;
use super::observer::Requests;
use super::traffic::Traffic;
use crate::feed::{Feed, What};
use crate::questions::Asking;
use crate::sys;
use crate::wanted::{Denial, Denied, DeniedUse, PassedBytes, Refuser, Wanted};
use nacre_containment::lock::Lock;
use nacre_protocol::connections::{Caller, ConnectionReport, LONGEST_REPORT};
use nacre_protocol::{message, socket};
use nix::poll::PollFlags;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// How often a session that learns looks whether it has ended.
const BETWEEN_LOOKS: Duration = Duration::from_millis(500);
/// Maximum denials kept for one command. What is learned of files has the broker's bound.
const MAX_DENIALS: usize = 100;
/// Clients of which nothing was read yet. Each has a connection, or has just lost it.
const MAX_CALLERS: usize = 2 * MAX_CONNECTIONS;

/// The connections that were refused since the last command began: by the proxy, and by the broker where programs ignore
/// the proxy. Also the files, as far as the broker observes them.
#[derive(Clone, Debug)]
pub struct Denials {
    known: Arc<Lock<Reported>>,
    /// The broker's reports, and its end. A report is sent before the program learns of the refusal, so it can be
    /// received once the command has ended.
    reports: Arc<(OwnedFd, OwnedFd)>,
    /// Answers about hosts that no list has. What was answered for a command ends with it, too.
    pub(super) asking: Option<Asking>,
    /// Nothing is refused: they are what the rules would refuse.
    pub(super) learns: bool,
    /// The id of the command that runs, if its requests are traced; otherwise 0.
    traced: Arc<AtomicU64>,
    /// What passes through the proxy, once there is one.
    pub(super) traffic: Arc<OnceLock<Traffic>>,
    /// What had passed when the last command began.
    before: Arc<Lock<Option<PassedBytes>>>,
}

/// What the reports and the proxy have said.
#[derive(Debug)]
struct Reported {
    list: Vec<Denial>,
    /// Gets each of them, as of this session.
    feed: Arc<Feed>,
    session: Arc<str>,
    /// Nothing is refused, and the broker reports each file once.
    learns: bool,
    /// The processes that have connected to the proxy, by their addresses.
    callers: VecDeque<(SocketAddr, Arc<Caller>)>,
}

impl Reported {
    /// Adds a denial, unless it is listed: programs try the same target again and again.
    fn add(&mut self, denial: Denial) {
        let is_bounded = !self.learns || !matches!(denial.what, DeniedUse::File(_));
        let is_new = self.list.len() < MAX_DENIALS && !self.list.iter().any(|listed| listed.what == denial.what);
        if is_new {
            self.feed.push(&self.session, What::Denied(denial.clone()));
        }
        if is_new || !is_bounded {
            self.list.push(denial);
        }
    }

    /// Receives what the broker has sent.
    fn receive(&mut self, reports: BorrowedFd<'_>) {
        let mut bytes = [0; LONGEST_REPORT];
        while let Ok(length @ 1..) = socket::receive(reports, &mut bytes) {
            let connection = |target, cause| DeniedUse::Connection(Wanted::to(target), cause);
            let (what, caller) = match message::decode::<ConnectionReport>(&bytes[..length]) {
                Ok(ConnectionReport::Internet(target, caller)) => (connection(target, Refuser::Unlisted), caller),
                Ok(ConnectionReport::Unix(target, caller)) => (connection(target, Refuser::Socket), caller),
                Ok(ConnectionReport::File(refusal, caller)) => (DeniedUse::File(refusal), caller),
                Ok(ConnectionReport::Call(call, caller)) => (DeniedUse::Call(call), caller),
                Ok(ConnectionReport::InternetSocket(call, caller)) => (DeniedUse::InternetSocket(call), caller),
                Ok(ConnectionReport::Proxied(address, caller)) => {
                    if self.callers.len() == MAX_CALLERS {
                        self.callers.pop_front();
                    }
                    self.callers.push_back((address, Arc::new(caller)));
                    continue;
                }
                Err(_) => continue,
            };
            self.add(Denial { what, caller: Some(Arc::new(caller)) });
        }
    }
}

impl Denials {
    /// Creates an empty list. `requests`: whose feed gets each denial.
    ///
    /// # Errors
    /// Those of socketpair(2).
    pub fn new(asking: Option<Asking>, learns: bool, requests: &Requests) -> io::Result<Self> {
        let (ours, theirs) = socket::pair()?;
        sys::set_nonblocking(&ours)?;
        sys::set_nonblocking(&theirs)?;
        let (feed, session) = (Arc::clone(&requests.feed), Arc::clone(&requests.session));
        let (list, callers) = Default::default();
        let known = Arc::new(Lock::new(Reported { list, feed, session, learns, callers }));
        let reports = Arc::new((ours, theirs));
        if learns {
            let (known, reports) = (Arc::downgrade(&known), Arc::downgrade(&reports));
            std::thread::Builder::new().name("nacre-learn".into()).spawn(move || {
                while let (Some(known), Some(reports)) = (known.upgrade(), reports.upgrade()) {
                    let _ = socket::await_events(reports.0.as_fd(), PollFlags::POLLIN, Instant::now() + BETWEEN_LOOKS);
                    known.lock().receive(reports.0.as_fd());
                }
            })?;
        }
        let (traced, traffic, before) = Default::default();
        Ok(Self { known, learns, reports, asking, traced, traffic, before })
    }

    /// The broker's end of its reports.
    pub fn reporter(&self) -> BorrowedFd<'_> {
        self.reports.1.as_fd()
    }

    pub(super) fn add(&self, denial: Denial) {
        self.known.lock().add(denial);
    }

    /// The process that has connected to the proxy from an address. Returned once, since others can have the address later.
    pub(super) fn take_caller(&self, address: SocketAddr) -> Option<Arc<Caller>> {
        let mut known = self.known.lock();
        known.receive(self.reports.0.as_fd());
        let newest = known.callers.iter().rposition(|(from, _)| *from == address)?;
        let (_, caller) = known.callers.remove(newest)?;
        // An earlier one has closed its connection before anything was read.
        known.callers.retain(|(from, _)| *from != address);
        Some(caller)
    }

    /// Removes all denials: they belong to older processes, not to the command that begins. `traced`: its id, if its requests are.
    pub fn begin_command(&self, traced: Option<u64>) {
        self.end_command();
        *self.before.lock() = self.passed();
        self.traced.store(traced.unwrap_or_default(), Ordering::Relaxed);
    }

    /// The id of the command that runs, if its requests are traced.
    pub(super) fn traced(&self) -> Option<u64> {
        Some(self.traced.load(Ordering::Relaxed)).filter(|id| *id > 0)
    }

    /// Removes and returns all denials: a command has ended.
    pub fn end_command(&self) -> Denied {
        self.traced.store(0, Ordering::Relaxed);
        self.asking.iter().for_each(Asking::end_command);
        let before = self.before.lock().take();
        let [before, now] = [before, before.and_then(|_| self.passed())];
        let traffic = before.zip(now).map(|(before, now)| [0, 1].map(|way| now[way].saturating_sub(before[way])));
        Denied { traffic, ..self.take() }
    }

    /// What has passed through the proxy.
    fn passed(&self) -> Option<PassedBytes> {
        self.traffic.get().and_then(Traffic::total)
    }

    /// Receives what the broker has reported: the feed has it then.
    pub fn receive(&self) {
        self.known.lock().receive(self.reports.0.as_fd());
    }

    /// Removes and returns all denials.
    pub fn take(&self) -> Denied {
        let mut known = self.known.lock();
        known.receive(self.reports.0.as_fd());
        Denied { denials: std::mem::take(&mut known.list), traffic: None }
    }
}
