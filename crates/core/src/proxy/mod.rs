//! The proxy of a session: the only network access for programs with an allow-list.
//!
//! It speaks HTTP (CONNECT, and plain requests with an absolute URL) and SOCKS5 on one port, and distinguishes them by
//! the first byte. It resolves names itself, so an entry of the list applies to the name and not to an earlier answer
//! of a resolver. It runs on a separate thread, so that traffic does not delay the engine.
//!
//! In a network namespace, it also serves programs that ignore it. A resolver gives each name an address that stands for it.
//! The broker redirects connections to such addresses, and to all others, to the proxy, which then checks the name.

mod allow;
mod dial;
mod head;
mod http;
mod names;
mod redirect;
mod resolver;
mod socks;

pub use allow::Target;

use crate::sys;
use allow::AllowList;
use nacre_protocol::redirect::MARK;
use nacre_protocol::socket;
use names::Names;
use std::io;
use std::net::{IpAddr, TcpListener as StdListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Handle};
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;
use tokio::time::timeout;

/// Maximum concurrent connections of a session. Further connections wait to be accepted.
const MAX_CONNECTIONS: usize = 256;
/// Time limit for a client's request.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// How long to wait when the process has no free descriptor. Others will be closed.
const PAUSE: Duration = Duration::from_millis(50);
/// Maximum denials kept for one command.
const MAX_DENIALS: usize = 100;

/// An IPv6 address with a port is shorter.
const LONGEST_REPORT: usize = 64;

/// The connections that were refused since the last command began: by the proxy, and by the broker where programs ignore
/// the proxy.
#[derive(Clone, Debug)]
pub struct Denials {
    list: Arc<Mutex<Vec<String>>>,
    /// The broker's reports, and its end. A report is sent before the program learns of the refusal, so it can be
    /// received once the command has ended.
    reports: Arc<(OwnedFd, OwnedFd)>,
}

impl Denials {
    /// Creates an empty list.
    ///
    /// # Errors
    /// Those of socketpair(2).
    pub fn new() -> io::Result<Self> {
        let (ours, theirs) = socket::pair()?;
        sys::set_nonblocking(&ours)?;
        sys::set_nonblocking(&theirs)?;
        Ok(Self { list: Arc::default(), reports: Arc::new((ours, theirs)) })
    }

    /// The broker's end of its reports.
    pub fn reporter(&self) -> BorrowedFd<'_> {
        self.reports.1.as_fd()
    }

    fn list(&self) -> MutexGuard<'_, Vec<String>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a denial, unless it is listed: programs try the same target again and again.
    fn add(&self, target: String) {
        let mut list = self.list();
        if list.len() < MAX_DENIALS && !list.contains(&target) {
            list.push(target);
        }
    }

    /// Removes and returns all denials.
    pub fn take(&self) -> Vec<String> {
        let mut report = [0; LONGEST_REPORT];
        while let Ok(length @ 1..) = socket::receive(self.reports.0.as_fd(), &mut report) {
            self.add(String::from_utf8_lossy(&report[..length]).into_owned());
        }
        std::mem::take(&mut self.list())
    }
}

/// The destinations that a proxy allows. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Policy {
    allow: Arc<AllowList>,
    denials: Denials,
    names: Names,
}

impl Policy {
    /// Checks a target, and records a refusal. Some clients resolve names first, so an address may stand for a name: the
    /// target, or the refused one, has that name then.
    fn admit(&self, target: Target) -> Result<Target, Target> {
        let name = match target.address() {
            // It can also be listed itself.
            Some(IpAddr::V4(address)) if !self.allow.admits(&target) => self.names.name_of(address),
            _ => None,
        };
        let target = Target { host: name.unwrap_or(target.host), port: target.port };
        if self.allow.admits(&target) {
            return Ok(target);
        }
        self.denials.add(target.to_string());
        Err(target)
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
    /// Serves a listener, and the socket of a resolver.
    ///
    /// # Errors
    /// The thread or its epoll descriptor cannot be created.
    pub fn start(listener: OwnedFd, resolver: Option<OwnedFd>, allow: &[String], denials: Denials) -> io::Result<Self> {
        let policy = Policy { allow: Arc::new(AllowList::new(allow)), denials, names: Names::default() };
        // However many others programs ask for.
        for name in policy.allow.names() {
            policy.names.address_of(name);
        }
        let handle = handle()?;
        let task = handle.spawn(async move {
            let names = policy.names.clone();
            let proxy = accept(listener, policy);
            match resolver {
                Some(resolver) => drop(tokio::join!(proxy, resolver::serve(resolver, &names))),
                None => proxy.await,
            }
        });
        Ok(Self { task: task.abort_handle() })
    }
}

/// The proxies' thread. The first proxy starts it, and it never ends.
fn handle() -> io::Result<Handle> {
    static THREAD: OnceLock<Handle> = OnceLock::new();
    static STARTING: Mutex<()> = Mutex::new(());
    let _starting = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
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
async fn accept(listener: OwnedFd, policy: Policy) {
    let listener = StdListener::from(listener);
    let Ok(listener) = listener.set_nonblocking(true).and_then(|()| TcpListener::from_std(listener)) else { return };
    let mut connections = tokio::task::JoinSet::new();
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let Ok((client, _)) = listener.accept().await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        while connections.try_join_next().is_some() {}
        let policy = policy.clone();
        connections.spawn(async move {
            let _ = serve(client, &policy).await;
            drop(place);
        });
    }
}

async fn serve(mut client: TcpStream, policy: &Policy) -> io::Result<()> {
    let mut first = [0; 1];
    timeout(HEAD_TIME, client.peek(&mut first)).await??;
    let server = match first[0] {
        socks::VERSION => socks::accept(&mut client, policy).await?,
        MARK => redirect::accept(&mut client, policy).await?,
        _ => http::accept(&mut client, policy).await?,
    };
    if let Some(mut server) = server {
        tokio::io::copy_bidirectional(&mut client, &mut server).await?;
    }
    Ok(())
}
