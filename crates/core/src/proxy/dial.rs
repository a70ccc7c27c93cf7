//! Connects to a target: resolves its name, and chooses among its addresses.

use super::Policy;
use super::hosts::Target;
use crate::wanted::Refuser;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Time limit for resolving the name and connecting.
const PATIENCE: Duration = Duration::from_secs(30);

/// Connects to an admitted target.
///
/// # Errors
/// `PermissionDenied` if the name resolves to an address that is not allowed for names.
pub async fn dial(target: &Target, policy: &Policy) -> io::Result<TcpStream> {
    timeout(PATIENCE, connect(target, policy)).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

async fn connect(target: &Target, policy: &Policy) -> io::Result<TcpStream> {
    let mut failure = io::Error::from(io::ErrorKind::NotFound);
    for address in resolve(target, policy).await? {
        let way = Target { host: address.ip().to_canonical().to_string(), port: target.port };
        let is_admitted = policy.allow.admits_address(target, address.ip())
            && !policy.deny.covers_way(&way)
            // The rule that it is reported for would be about exactly this name.
            || policy.learns && !way.is_own();
        if !is_admitted {
            failure = io::ErrorKind::PermissionDenied.into();
            continue;
        }
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = error,
        }
    }
    if failure.kind() == io::ErrorKind::PermissionDenied {
        policy.deny(target, Refuser::Address);
    }
    Err(failure)
}

/// The addresses of a target. A lookup blocks a thread and cannot be cancelled, so it keeps its turn until it ends: otherwise a
/// session could take all threads of this process.
async fn resolve(target: &Target, policy: &Policy) -> io::Result<Vec<SocketAddr>> {
    if let Some(address) = target.address() {
        return Ok(vec![SocketAddr::new(address, target.port)]);
    }
    let turn = Arc::clone(&policy.lookups).acquire_owned().await.map_err(io::Error::other)?;
    let (host, port) = (target.host.clone(), target.port);
    let looking = tokio::task::spawn_blocking(move || {
        let found = (host.as_str(), port).to_socket_addrs().map(Vec::from_iter);
        drop(turn);
        found
    });
    looking.await.map_err(io::Error::other)?
}
