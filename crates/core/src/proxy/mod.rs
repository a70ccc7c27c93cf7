//! The proxy of a session: the only network access for programs with a list of allowed hosts.
//!
//! It speaks HTTP (CONNECT, and plain requests with an absolute URL) and SOCKS5 on one port, and distinguishes them by
//! the first byte. It resolves names itself, so an entry of the list applies to the name and not to an earlier answer
//! of a resolver. It runs on a separate thread, so that traffic does not delay the engine.
//!
//! In a network namespace, it also serves programs that ignore it. A resolver gives each name an address that stands for it.
//! The broker redirects connections to such addresses, and to all others, to the proxy, which then checks the name.

mod denials;
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

pub use denials::Denials;
pub use hosts::Target;
pub use observer::{Requests, TracedRequest};

use crate::functions::Functions;
use crate::questions::{Ask, Asking};
use crate::wanted::{Denial, Refuser, Wanted};
use hosts::HostList;
use nacre_containment::lock::Lock;
use nacre_egress::{Egress, Origin, Plan, hung_up};
use nacre_protocol::connections::Caller;
use nacre_protocol::redirect::MARK;
use names::Names;
use observer::SessionObserver;
use serde::{Deserialize, Serialize};
use std::io;
use std::net::{IpAddr, TcpListener as StdListener};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
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
    /// Where requests are reported.
    requests: Requests,
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
        let (egress, caller) = Default::default();
        let policy =
            Self { allow, deny, denials, names, lookups, egress, functions, learns, reserved, requests, caller };
        let whole = (!hosts.plan.is_empty()).then(|| Egress::new(&hosts.plan)).transpose()?;
        let with_part = |policy: Self, program: Option<&str>| {
            let part = |whole: &Egress| whole.part(&hosts.plan.of_program(program));
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
        if let Some((_, policy)) = listeners.first() {
            policy.denials.traffic.get_or_init(Traffic::default);
        }
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
    let policy = Policy { caller: policy.denials.take_caller(client.peer_addr()?), ..policy };
    let egress = policy.egress.as_ref().map(|egress| {
        // It has a policy without itself.
        let policy = Policy { egress: None, ..policy.clone() };
        Arc::new(egress.observed_by(Arc::new(SessionObserver { policy })))
    });
    let policy = &Policy { egress, ..policy };
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
