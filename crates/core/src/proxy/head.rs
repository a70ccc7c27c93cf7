//! Reads the head of an HTTP request, and not a byte more: the rest belongs to the server.

use super::Next;
use std::io;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Maximum bytes of a head.
const MAX_BYTES: usize = 16 * 1024;
/// Maximum header lines.
pub const MAX_HEADERS: usize = 100;

/// Reads up to and including the empty line.
///
/// # Errors
/// `InvalidData` for a head that is too long, `UnexpectedEof` if the client disconnects before its end.
pub async fn read(client: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    let mut seen = vec![0; MAX_BYTES];
    loop {
        let length = client.peek(&mut seen[..MAX_BYTES - head.len()]).await?;
        if length == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let before = head.len();
        head.extend_from_slice(&seen[..length]);
        let from = before.saturating_sub(3);
        let end = head[from..].windows(4).position(|four| four == b"\r\n\r\n").map(|at| from + at + 4);
        head.truncate(end.unwrap_or(head.len()));
        client.read_exact(&mut seen[..head.len() - before]).await?;
        if end.is_some() {
            return Ok(head);
        }
        if head.len() == MAX_BYTES {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
}

/// Responds with an error and closes the connection.
pub async fn refuse(client: &mut TcpStream, status: &str, reason: &str) -> io::Result<Next> {
    let body = format!("nacre: {reason}\n");
    let length = body.len();
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
    client.write_all(answer.as_bytes()).await?;
    client.shutdown().await.map(|()| Next::Refused)
}
