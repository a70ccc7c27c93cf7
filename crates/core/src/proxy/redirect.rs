//! Connections that the broker redirects: see [`nacre_protocol::redirect`].

use super::dial::dial;
use super::hosts::Target;
use super::{HEAD_TIME, Next, Policy, Ruling};
use nacre_protocol::redirect::{BYTES, Redirect};
use std::io;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The answer when the proxy connects, or has connected.
const CONNECTED: i32 = 0;

/// Reads a redirect and connects to its target, unless that is to be decrypted.
pub async fn accept(client: &mut TcpStream, policy: &Policy) -> io::Result<Next> {
    let mut bytes = [0; BYTES];
    timeout(HEAD_TIME, client.read_exact(&mut bytes)).await??;
    let Some(Redirect { destination, waits }) = Redirect::decode(bytes) else { return Ok(Next::Refused) };
    let ruling = policy.rule(Target { host: destination.ip().to_string(), port: destination.port() });
    // A program that does not wait must not be held up, neither by a server nor by a question.
    let is_answered = !waits && !matches!(ruling, Ruling::Denied(..));
    if is_answered {
        answer(client, CONNECTED).await?;
    }
    let connected = match policy.settle(client, ruling).await {
        Ok(target) => match policy.egress_for(&target) {
            Some(egress) => Ok(Next::Decrypt(target, egress)),
            None => dial(&target, policy).await.map(|server| Next::Tunnel(target, server)),
        },
        Err(_) => Err(io::ErrorKind::PermissionDenied.into()),
    };
    match connected {
        Ok(next) => {
            if !is_answered {
                answer(client, CONNECTED).await?;
            }
            Ok(next)
        }
        // Not as if the server had closed the connection.
        Err(_) if is_answered => client.set_zero_linger().map(|()| Next::Refused),
        Err(error) => answer(client, errno_of(&error)).await.map(|()| Next::Refused),
    }
}

/// The errno of a failed attempt to connect, as connect(2) has it.
fn errno_of(error: &io::Error) -> i32 {
    match error.kind() {
        io::ErrorKind::PermissionDenied => libc::ENETUNREACH,
        io::ErrorKind::TimedOut => libc::ETIMEDOUT,
        // Its name cannot be resolved, for example.
        _ => error.raw_os_error().unwrap_or(libc::EHOSTUNREACH),
    }
}

async fn answer(client: &mut TcpStream, errno: i32) -> io::Result<()> {
    client.write_all(&[u8::try_from(errno).unwrap_or(libc::EHOSTUNREACH as u8)]).await
}
