//! The SOCKS5 proxy: CONNECT without authentication (RFC 1928).

use super::dial::dial;
use super::hosts::Target;
use super::{HEAD_TIME, Next, Policy};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The first byte that a client sends.
pub const VERSION: u8 = 5;

const NO_AUTHENTICATION: u8 = 0;
const NO_METHOD: u8 = 0xFF;
const CONNECT: u8 = 1;

/// The second byte of a reply.
#[derive(Clone, Copy)]
enum SocksAnswer {
    Succeeded = 0,
    NotAllowed = 2,
    Unreachable = 4,
    UnknownCommand = 7,
}

/// Reads a request and connects to its target, unless that is to be decrypted.
pub async fn accept(client: &mut TcpStream, policy: &Policy) -> io::Result<Next> {
    let Some(target) = timeout(HEAD_TIME, ask(client)).await?? else { return Ok(Next::Refused) };
    let Ok(target) = policy.admit(client, target).await else {
        return answer(client, SocksAnswer::NotAllowed).await.map(|()| Next::Refused);
    };
    if let Some(egress) = policy.egress_for(&target) {
        answer(client, SocksAnswer::Succeeded).await?;
        return Ok(Next::Decrypt(target, egress));
    }
    match dial(&target, policy).await {
        Ok(server) => {
            answer(client, SocksAnswer::Succeeded).await?;
            Ok(Next::Tunnel(target, server))
        }
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            answer(client, SocksAnswer::NotAllowed).await.map(|()| Next::Refused)
        }
        Err(_) => answer(client, SocksAnswer::Unreachable).await.map(|()| Next::Refused),
    }
}

async fn ask(client: &mut TcpStream) -> io::Result<Option<Target>> {
    let [_, count] = take::<2>(client).await?;
    let mut methods = vec![0; count.into()];
    client.read_exact(&mut methods).await?;
    if !methods.contains(&NO_AUTHENTICATION) {
        client.write_all(&[VERSION, NO_METHOD]).await?;
        return Ok(None);
    }
    client.write_all(&[VERSION, NO_AUTHENTICATION]).await?;
    let [_, command, _, kind] = take::<4>(client).await?;
    let host = match kind {
        1 => Ipv4Addr::from(take::<4>(client).await?).to_string(),
        3 => {
            let [length] = take::<1>(client).await?;
            let mut name = vec![0; length.into()];
            client.read_exact(&mut name).await?;
            String::from_utf8_lossy(&name).into_owned()
        }
        4 => Ipv6Addr::from(take::<16>(client).await?).to_string(),
        _ => return Err(io::ErrorKind::InvalidData.into()),
    };
    let port = u16::from_be_bytes(take::<2>(client).await?);
    if command != CONNECT {
        answer(client, SocksAnswer::UnknownCommand).await?;
        return Ok(None);
    }
    let target = Target::new(&host, port);
    if target.is_none() {
        answer(client, SocksAnswer::NotAllowed).await?;
    }
    Ok(target)
}

async fn take<const N: usize>(client: &mut TcpStream) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    client.read_exact(&mut bytes).await?;
    Ok(bytes)
}

/// Sends a reply. Its address would be that of the proxy's socket, which no client needs, so it is zero.
async fn answer(client: &mut TcpStream, answer: SocksAnswer) -> io::Result<()> {
    client.write_all(&[VERSION, answer as u8, 0, 1, 0, 0, 0, 0, 0, 0]).await
}
