//! The proxy of a session: the only network access for programs with a list of allowed hosts.
//!
//! It speaks HTTP (CONNECT, and plain requests with an absolute URL) and SOCKS5 on one port, and distinguishes them by
//! the first byte. It resolves names itself, so an entry of the list applies to the name and not to an earlier answer
//! of a resolver. It runs on a separate thread, so that traffic does not delay the engine.
//!
//! In a network namespace, it also serves programs that ignore it. A resolver gives each name an address that stands for it.
//! The broker redirects connections to such addresses, and to all others, to the proxy, which then checks the name.

mod dial;
mod head;
mod hosts;
mod http;
mod names;
mod observer;
mod redirect;
mod resolver;
mod socks;
mod traffic;

pub use hosts::Target;
pub use observer::{Requests, TracedRequest};

use crate::feed::{Feed, What};
use crate::functions::Functions;
use crate::questions::{Ask, Asking};
use crate::sys;
use crate::wanted::{Denial, Denied, DeniedUse, PassedBytes, Refuser, Wanted};
use hosts::HostList;
use nacre_containment::lock::Lock;
use nacre_egress::{Egress, Origin, Plan, hung_up};
use nacre_protocol::connections::{Caller, ConnectionReport, LONGEST_REPORT};
use nacre_protocol::redirect::MARK;
use nacre_protocol::refusal::Rule;
use nacre_protocol::{message, socket};
use names::Names;
use nix::poll::PollFlags;
use observer::SessionObserver;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener as StdListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Handle};
use tokio::sync::Semaphore;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;
use traffic::Traffic;

/// Maximum concurrent connections of a session. Further connections wait to be accepted.
const MAX_CONNECTIONS: usize = 256;
/// Maximum concurrent lookups of names for a session. The process has 512 threads for them.
const MAX_LOOKUPS: usize = 16;
/// Time limit for a client's request.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// How long to wait when the process has no free descriptor. Others will be closed.
const PAUSE: Duration = Duration::from_millis(50);
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
    asking: Option<Asking>,
    /// Nothing is refused: they are what the rules would refuse.
    learns: bool,
    /// The id of the command that runs, if its requests are traced; otherwise 0.
    traced: Arc<AtomicU64>,
    /// What passes through the proxy, once there is one.
    traffic: Arc<OnceLock<Traffic>>,
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
    /// The file with the rules, which the broker takes for any other one that they protect.
    rules_file: Option<PathBuf>,
    /// The processes that have connected to the proxy, by their addresses.
    callers: VecDeque<(SocketAddr, Arc<Caller>)>,
}

impl Reported {
    /// Adds a denial, unless it is listed: programs try the same target again and again.
    fn add(&mut self, mut denial: Denial) {
        let mut is_bounded = true;
        if let DeniedUse::File(refusal) = &mut denial.what {
            is_bounded = !self.learns;
            if self.rules_file.as_ref() == Some(&refusal.tree) {
                refusal.rule = Rule::File;
            }
        }
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
    /// Creates an empty list. `rules_file`: the file with the rules, if it is protected. `requests`: whose feed gets each denial.
    ///
    /// # Errors
    /// Those of socketpair(2).
    pub fn new(
        asking: Option<Asking>,
        rules_file: Option<PathBuf>,
        learns: bool,
        requests: &Requests,
    ) -> io::Result<Self> {
        let (ours, theirs) = socket::pair()?;
        sys::set_nonblocking(&ours)?;
        sys::set_nonblocking(&theirs)?;
        let (feed, session) = (Arc::clone(&requests.feed), Arc::clone(&requests.session));
        let (list, callers) = Default::default();
        let known = Arc::new(Lock::new(Reported { list, feed, session, learns, rules_file, callers }));
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

    fn add(&self, denial: Denial) {
        self.known.lock().add(denial);
    }

    /// The process that has connected to the proxy from an address. Returned once, since others can have the address later.
    fn take_caller(&self, address: SocketAddr) -> Option<Arc<Caller>> {
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
    fn traced(&self) -> Option<u64> {
        Some(self.traced.load(Ordering::Relaxed)).filter(|id| *id > 0)
    }

    /// Removes and returns all denials: a command has ended.
    pub fn end_command(&self) -> Denied {
        self.traced.store(0, Ordering::Relaxed);
        self.asking.iter().for_each(Asking::end_command);
        let before = self.before.lock().take();
        let [before, now] = [before, before.and_then(|_| self.passed())];
        let traffic = before.zip(now).map(|(before, now)| [now[0] - before[0], now[1] - before[1]]);
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

/// Hosts with ports, as entries of lists.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hosts {
    /// Those that the proxy lets through.
    pub allow: Vec<String>,
    /// Those that it refuses in any case.
    pub deny: Vec<String>,
    /// How it asks for any other; `None`: it refuses them.
    pub ask: Option<Ask>,
    /// Programs with hosts of their own.
    pub programs: Vec<ProgramHosts>,
    /// The secrets of requests to allowed hosts, and what these are trusted by.
    pub plan: Plan,
    /// A file with a line for each request that is decrypted.
    pub log: Option<PathBuf>,
}

impl Hosts {
    /// The entries of all lists of what the proxy lets through.
    pub fn all_allowed(&self) -> impl Iterator<Item = &String> {
        self.allow.iter().chain(self.programs.iter().flat_map(|program| &program.allow))
    }
}

/// A program, and what the proxy lets through for it alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramHosts {
    /// Its name, or the path of its executable.
    pub name: String,
    /// Its hosts with ports, as entries of a list.
    pub allow: Vec<String>,
    /// Its executables; none: the one that its name leads to.
    pub files: Vec<PathBuf>,
}

/// The destinations that a proxy allows. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Policy {
    allow: Arc<HostList>,
    deny: Arc<HostList>,
    denials: Denials,
    names: Names,
    /// Turns to look up a name.
    lookups: Arc<Semaphore>,
    /// Decrypts the connections to hosts with a secret, if there are any.
    egress: Option<Arc<Egress>>,
    functions: Functions,
    /// Everything is allowed, and what would not be is recorded as refused.
    learns: bool,
    /// The hosts of single programs.
    reserved: Arc<HostList>,
    /// The process whose connection this is about, where it is known.
    caller: Option<Arc<Caller>>,
}

/// What becomes of a client.
enum Next {
    /// It was refused.
    Refused,
    /// Bytes pass between it and a server.
    Copy(TcpStream),
    /// The same in a tunnel to this host.
    Tunnel(Target, TcpStream),
    /// It expects TLS of this host.
    Decrypt(Target, Arc<Egress>),
    /// It has sent the head of a plain request to this host.
    Plain(Target, Arc<Egress>, Vec<u8>),
}

/// What the lists say about a target.
enum Ruling {
    Allowed(Target),
    Denied(Target, Refuser),
    /// An answer is needed.
    Open(Target, Asking),
}

impl Policy {
    /// The policy of a session, whose answers about other hosts `denials` has, and those of its programs with hosts of their own.
    /// `requests`: where its requests are reported.
    ///
    /// # Errors
    /// Those of [`Egress::new`].
    pub fn new(
        hosts: &Hosts,
        denials: Denials,
        functions: &Functions,
        requests: Requests,
    ) -> io::Result<(Self, Vec<Self>)> {
        let names = Names::default();
        let reserved =
            HostList::new(&hosts.programs.iter().flat_map(|program| program.allow.clone()).collect::<Vec<_>>());
        let allow = HostList::new(&hosts.allow);
        // However many others programs ask for.
        for name in allow.names().chain(reserved.names()) {
            names.keep(name);
        }
        let deny = HostList::new(&hosts.deny).into();
        let lookups = Arc::new(Semaphore::new(MAX_LOOKUPS));
        let (functions, learns) = (functions.clone(), denials.learns);
        let (allow, reserved) = (allow.into(), reserved.into());
        let policy =
            Self { allow, deny, denials, names, lookups, egress: None, functions, learns, reserved, caller: None };
        // It has a policy without itself.
        let observer = |policy: &Self| Arc::new(SessionObserver { policy: policy.clone(), requests: requests.clone() });
        let whole = (!hosts.plan.is_empty()).then(|| Egress::observed(&hosts.plan, observer(&policy))).transpose()?;
        let with_part = |policy: Self, program: Option<&str>| {
            let part = |whole: &Egress| whole.part(&hosts.plan.of_program(program), observer(&policy));
            let egress = whole.as_ref().map(part).transpose()?.map(Arc::new);
            Ok::<_, io::Error>(Self { egress, ..policy })
        };
        let of_program = |program: &ProgramHosts| {
            let allow = HostList::new(&[&hosts.allow[..], &program.allow].concat()).into();
            with_part(Self { allow, ..policy.clone() }, Some(&program.name))
        };
        let programs = hosts.programs.iter().map(of_program).collect::<Result<_, _>>()?;
        Ok((with_part(policy.clone(), None)?, programs))
    }

    /// The certificate of the authority by which connections are decrypted, as PEM.
    pub fn authority(&self) -> Option<&str> {
        self.egress.as_deref().map(Egress::authority)
    }

    /// What decrypts connections to a target.
    fn egress_for(&self, target: &Target) -> Option<Arc<Egress>> {
        self.egress.clone().filter(|egress| egress.covers(&target.host, target.port))
    }

    /// Applies the lists. Some clients resolve names first, so an address may stand for a name: the target has that name
    /// from now on. Nothing is asked for loopback addresses, the link and metadata services: only the list can allow them.
    fn rule(&self, target: Target) -> Ruling {
        match self.ruling(target) {
            Ruling::Denied(target, cause) if self.learns => {
                self.deny(&target, cause);
                Ruling::Allowed(target)
            }
            ruling => ruling,
        }
    }

    fn ruling(&self, target: Target) -> Ruling {
        let name = match target.address() {
            // It can also be listed itself.
            Some(IpAddr::V4(address)) if !self.allow.covers(&target) => self.names.name_of(address),
            _ => None,
        };
        let target = Target { host: name.unwrap_or(target.host), port: target.port };
        if self.deny.covers_way(&target) {
            return Ruling::Denied(target, Refuser::Denied);
        }
        if self.allow.covers(&target) {
            return Ruling::Allowed(target);
        }
        match &self.denials.asking {
            _ if self.reserved.covers(&target) => Ruling::Denied(target, Refuser::Program),
            Some(asking) if !target.is_own() && !self.learns => Ruling::Open(target, asking.clone()),
            _ => Ruling::Denied(target, Refuser::Unlisted),
        }
    }

    /// What refuses connections to a target, before its name is looked up. A question counts as a refusal.
    pub fn judge(&self, target: &Target) -> Option<Denial> {
        let (target, cause) = match self.ruling(target.clone()) {
            Ruling::Allowed(_) => return None,
            Ruling::Denied(target, cause) => (target, cause),
            Ruling::Open(target, _) => (target, Refuser::Answer),
        };
        Some(Denial::new(Wanted::to(target), cause))
    }

    /// Waits for an answer where one is needed, unless the client disconnects. Records a refusal.
    async fn settle(&self, client: &TcpStream, ruling: Ruling) -> Result<Target, Target> {
        let (target, cause) = match ruling {
            Ruling::Allowed(target) => return Ok(target),
            Ruling::Denied(target, cause) => (target, cause),
            Ruling::Open(target, asking) => {
                let wanted = Wanted::to(&target);
                let is_allowed = tokio::select! {
                    // A client that has gone does not use an answer.
                    biased;
                    () = hung_up(client) => false,
                    is_allowed = asking.allows(&wanted) => is_allowed,
                };
                if is_allowed {
                    return Ok(target);
                }
                (target, Refuser::Answer)
            }
        };
        self.deny(&target, cause);
        Err(target)
    }

    /// Records a refused connection.
    fn deny(&self, target: &Target, cause: Refuser) {
        let caller = self.caller.clone();
        self.denials.add(Denial { caller, ..Denial::new(Wanted::to(target), cause) });
    }

    /// Decides about a target; see [`Self::rule`] and [`Self::settle`].
    async fn admit(&self, client: &TcpStream, target: Target) -> Result<Target, Target> {
        self.settle(client, self.rule(target)).await
    }
}

/// A running proxy. Dropping it ends it and its connections.
pub struct Proxy {
    task: AbortHandle,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Proxy {
    /// Serves listeners, each by a policy, and the socket of a resolver.
    ///
    /// # Errors
    /// The thread or its epoll descriptor cannot be created.
    pub fn start(listeners: Vec<(OwnedFd, Policy)>, resolver: Option<OwnedFd>) -> io::Result<Self> {
        let handle = handle()?;
        let names = listeners.first().map(|(_, policy)| policy.names.clone()).unwrap_or_default();
        let denials = listeners.first().map(|(_, policy)| &policy.denials);
        denials.iter().for_each(|denials| drop(denials.traffic.get_or_init(Traffic::default)));
        let task = handle.spawn(async move {
            let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
            let mut proxy = JoinSet::new();
            for (listener, policy) in listeners {
                proxy.spawn(accept(listener, policy, Arc::clone(&places)));
            }
            match resolver {
                Some(resolver) => drop(tokio::join!(proxy.join_all(), resolver::serve(resolver, &names))),
                None => drop(proxy.join_all().await),
            }
        });
        Ok(Self { task: task.abort_handle() })
    }
}

/// The proxies' thread. The first proxy starts it, and it never ends.
fn handle() -> io::Result<Handle> {
    static THREAD: OnceLock<Handle> = OnceLock::new();
    static STARTING: Lock<()> = Lock::new(());
    let _starting = STARTING.lock();
    if let Some(handle) = THREAD.get() {
        return Ok(handle.clone());
    }
    let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
    let handle = runtime.handle().clone();
    std::thread::Builder::new()
        .name("nacre-proxy".into())
        .spawn(move || runtime.block_on(std::future::pending::<()>()))?;
    Ok(THREAD.get_or_init(|| handle).clone())
}

/// Accepts connections. They are in one set, which ends with this future.
async fn accept(listener: OwnedFd, policy: Policy, places: Arc<Semaphore>) {
    let listener = StdListener::from(listener);
    let Ok(listener) = listener.set_nonblocking(true).and_then(|()| TcpListener::from_std(listener)) else { return };
    let mut connections = JoinSet::new();
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let Ok((client, _)) = listener.accept().await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        while connections.try_join_next().is_some() {}
        let policy = policy.clone();
        connections.spawn(async move {
            let _ = serve(client, policy).await;
            drop(place);
        });
    }
}

async fn serve(mut client: TcpStream, policy: Policy) -> io::Result<()> {
    let mut first = [0; 1];
    timeout(HEAD_TIME, client.peek(&mut first)).await??;
    // The broker has reported it before it could send.
    let denials = policy.denials.clone();
    // Before anything is read of it, and after what has read it.
    let _counted = denials.traffic.get().map(|traffic| traffic.count(&client)).transpose()?;
    let policy = &Policy { caller: policy.denials.take_caller(client.peer_addr()?), ..policy };
    let next = match first[0] {
        socks::VERSION => socks::accept(&mut client, policy).await?,
        MARK => redirect::accept(&mut client, policy).await?,
        _ => http::accept(&mut client, policy).await?,
    };
    match next {
        Next::Refused => Ok(()),
        Next::Copy(mut server) => tokio::io::copy_bidirectional(&mut client, &mut server).await.map(drop),
        Next::Tunnel(target, mut server) => match &policy.egress {
            // An address has no name.
            Some(egress) if target.address().is_none() => egress.pass(client, server, origin(&target)).await,
            _ => tokio::io::copy_bidirectional(&mut client, &mut server).await.map(drop),
        },
        Next::Decrypt(target, egress) => egress.serve(client, origin(&target), dial::dial(&target, policy)).await,
        Next::Plain(target, egress, head) => {
            egress.serve_plain(client, head, origin(&target), dial::dial(&target, policy)).await
        }
    }
}

fn origin(target: &Target) -> Origin {
    Origin { host: target.host.clone(), port: target.port }
}
