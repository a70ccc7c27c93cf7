//! Connects to a target: resolves its name, and chooses among its addresses.

use super::Policy;
use super::allow::Target;
use std::io;
use std::time::Duration;
use tokio::net::{TcpStream, lookup_host};
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
    for address in lookup_host((target.host.as_str(), target.port)).await? {
        if !policy.allow.admits_address(target, address.ip()) {
            failure = io::ErrorKind::PermissionDenied.into();
            continue;
        }
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = error,
        }
    }
    if failure.kind() == io::ErrorKind::PermissionDenied {
        policy.denials.add(target.to_string());
    }
    Err(failure)
}
