//! The HTTP proxy: CONNECT, and plain requests with an absolute URL (RFC 9110, sections 7.2 and 9.3.6).

use super::dial::dial;
use super::hosts::Target;
use super::{HEAD_TIME, Next, Policy, head};
use std::io;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The answer to CONNECT.
const ESTABLISHED: &[u8] = b"HTTP/1.1 200 Connection Established\r\n\r\n";

/// The request of a client.
#[derive(Debug, PartialEq, Eq)]
enum Wish {
    /// A tunnel.
    Tunnel(Target),
    /// A plain request, rewritten for the server.
    Forward(Target, Vec<u8>),
}

/// Reads a request and connects to its target, unless that is to be decrypted.
pub async fn accept(client: &mut TcpStream, policy: &Policy) -> io::Result<Next> {
    let head = timeout(HEAD_TIME, head::read(client)).await??;
    let Some(wish) = parse(&head) else {
        return head::refuse(client, "400 Bad Request", "this is a proxy: it takes CONNECT and absolute URLs").await;
    };
    let (target, request) = match wish {
        Wish::Tunnel(target) => (target, None),
        Wish::Forward(target, request) => (target, Some(request)),
    };
    let target = match policy.admit(client, target).await {
        Ok(target) => target,
        Err(target) => {
            // Of isolation, or of a virtual machine.
            let reason = format!("the option network does not allow {target}");
            return head::refuse(client, "403 Forbidden", &reason).await;
        }
    };
    if let Some(egress) = policy.egress_for(&target) {
        if let Some(request) = request {
            if egress.takes_plain(&target.host, target.port) {
                return Ok(Next::Plain(target, egress, request));
            }
            let reason = format!("a secret is for {target}, so programs reach it by https: alone");
            return head::refuse(client, "403 Forbidden", &reason).await;
        }
        client.write_all(ESTABLISHED).await?;
        return Ok(Next::Decrypt(target, egress));
    }
    let mut server = match dial(&target, policy).await {
        Ok(server) => server,
        Err(error) => {
            let forbidden = error.kind() == io::ErrorKind::PermissionDenied;
            let status = if forbidden { "403 Forbidden" } else { "502 Bad Gateway" };
            return head::refuse(client, status, &format!("cannot connect to {target}: {error}")).await;
        }
    };
    let Some(request) = request else {
        client.write_all(ESTABLISHED).await?;
        return Ok(Next::Tunnel(target, server));
    };
    server.write_all(&request).await?;
    Ok(Next::Copy(server))
}

fn parse(head: &[u8]) -> Option<Wish> {
    let mut headers = [httparse::EMPTY_HEADER; head::MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    request.parse(head).ok().filter(httparse::Status::is_complete)?;
    let (method, path) = (request.method?, request.path?);
    if method == "CONNECT" {
        return Target::parse(path, None).map(Wish::Tunnel);
    }
    let rest = path.get(..7).filter(|scheme| scheme.eq_ignore_ascii_case("http://")).and(path.get(7..))?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let target = Target::parse(authority, Some(80))?;
    let slash = if path.starts_with('/') { "" } else { "/" };
    // One request per connection, because the next could be for another host. The server receives the checked host.
    let mut forward =
        format!("{method} {slash}{path} HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n").into_bytes();
    let dropped = ["host", "connection", "proxy-connection", "proxy-authorization", "keep-alive"];
    for header in request.headers.iter().filter(|header| !dropped.contains(&header.name.to_ascii_lowercase().as_str()))
    {
        forward.extend_from_slice(header.name.as_bytes());
        forward.extend_from_slice(b": ");
        forward.extend_from_slice(header.value);
        forward.extend_from_slice(b"\r\n");
    }
    forward.extend_from_slice(b"\r\n");
    Some(Wish::Forward(target, forward))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_request_takes_the_form_for_the_server() {
        let head =
            b"GET http://Example.com:8080/a?b HTTP/1.1\r\nHost: other\r\nProxy-Authorization: x\r\nAccept: y\r\n\r\n";
        let Some(Wish::Forward(target, forward)) = parse(head) else { panic!("it is a request") };
        assert_eq!(target.to_string(), "example.com:8080");
        let expected = "GET /a?b HTTP/1.1\r\nHost: Example.com:8080\r\nConnection: close\r\nAccept: y\r\n\r\n";
        assert_eq!(String::from_utf8(forward).unwrap(), expected);
    }

    #[test]
    fn only_tunnels_and_absolute_urls_are_taken() {
        let tunnel = parse(b"CONNECT [::1]:443 HTTP/1.1\r\n\r\n");
        assert_eq!(tunnel, Target::new("::1", 443).map(Wish::Tunnel));
        for head in [
            &b"GET / HTTP/1.1\r\n\r\n"[..],
            b"CONNECT a HTTP/1.1\r\n\r\n",
            b"GET https://a/ HTTP/1.1\r\n\r\n",
            b"GET http://u:p@a/ HTTP/1.1\r\n\r\n",
            b"\x16\x03\x01\r\n\r\n",
        ] {
            assert_eq!(parse(head), None);
        }
    }
}
