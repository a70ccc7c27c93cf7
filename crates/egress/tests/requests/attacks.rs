//! What a hostile client sends over HTTP/2: frames that no library sends.

use super::{HOST, VALUE, World};
use nacre_egress::Place;
use std::io;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PUSH_PROMISE: u8 = 5;
pub const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;

pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;

const REFUSED_STREAM: u32 = 7;

/// A frame, and what a connection can take before it must have ended.
struct Frame {
    kind: u8,
    stream: u32,
    payload: Vec<u8>,
}

pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A list of headers without compression (RFC 7541, section 6.2.2).
pub fn list(headers: &[(&str, &str)]) -> Vec<u8> {
    let text = |text: &str| [&[text.len() as u8], text.as_bytes()].concat();
    headers.iter().flat_map(|(name, value)| [vec![0], text(name), text(value)].concat()).collect()
}

/// Whether a client has sent the head of a request, by HTTP/1.1 or HTTP/2.
pub fn has_head(bytes: &[u8]) -> bool {
    let Some(mut frames) = bytes.strip_prefix(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") else {
        return !bytes.starts_with(b"PRI") && bytes.windows(4).any(|part| part == b"\r\n\r\n");
    };
    while let [a, b, c, kind, ..] = *frames {
        let length = 9 + u32::from_be_bytes([0, a, b, c]) as usize;
        if kind == HEADERS {
            return true;
        }
        frames = frames.get(length..).unwrap_or_default();
    }
    false
}

fn head(method: &str, path: &str) -> Vec<u8> {
    list(&[(":method", method), (":scheme", "https"), (":authority", HOST), (":path", path)])
}

/// An egress that allows `GET /a`, and `POST /a/**`, and a connection of a client to it.
async fn connected() -> (World, TlsStream<TcpStream>) {
    let rules = ["GET /a", "POST /a/**"];
    let world = World::with_rules(&[b"h2"], vec![Place::Authorization], true, &rules, VALUE).await;
    let mut client = world.connect(HOST, &[b"h2"]).await.unwrap();
    client.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
    client.write_all(&frame(SETTINGS, 0, 0, &[])).await.unwrap();
    (world, client)
}

async fn read(client: &mut TlsStream<TcpStream>) -> io::Result<Frame> {
    let mut head = [0; 9];
    client.read_exact(&mut head).await?;
    let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
    client.read_exact(&mut payload).await?;
    Ok(Frame { kind: head[3], stream: u32::from_be_bytes(head[5..9].try_into().unwrap()), payload })
}

/// Sends until the connection ends, and returns how many bytes it has taken. It is read meanwhile.
async fn flood(client: TlsStream<TcpStream>, mut next: impl FnMut(u32) -> Vec<u8>) -> usize {
    let (mut reader, mut writer) = tokio::io::split(client);
    let reading = tokio::spawn(async move {
        let mut bytes = [0; 4096];
        while reader.read(&mut bytes).await.is_ok_and(|length| length > 0) {}
    });
    let (mut sent, mut number) = (0, 0);
    while !reading.is_finished() {
        let bytes = next(number);
        if writer.write_all(&bytes).await.is_err() {
            break;
        }
        (sent, number) = (sent + bytes.len(), number + 1);
        assert!(sent < 64 << 20, "it takes everything");
    }
    sent
}

/// A connection on which a request is answered by the egress: it is still good for others.
async fn assert_serves(world: &World) {
    let mut client = world.connect(HOST, &[b"h2"]).await.unwrap();
    client.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
    client.write_all(&frame(SETTINGS, 0, 0, &[])).await.unwrap();
    client.write_all(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &head("GET", "/a"))).await.unwrap();
    while read(&mut client).await.unwrap().kind != HEADERS {}
    assert_eq!(world.seen().last().unwrap().path, "/a");
}

#[tokio::test]
async fn a_head_without_an_end_ends_the_connection() {
    for size in [0, 16_000] {
        let (world, mut client) = connected().await;
        client.write_all(&frame(HEADERS, END_STREAM, 1, &head("GET", "/a"))).await.unwrap();
        let part = list(&[("x-a", &"a".repeat(100))]).repeat(size / 100);
        let sent = flood(client, |_| frame(CONTINUATION, 0, 1, &part)).await;
        assert!(sent < 32 << 20, "{sent}");
        assert!(world.seen().is_empty());
        assert_serves(&world).await;
    }
}

#[tokio::test]
async fn requests_that_are_taken_back_at_once_do_not_reach_a_host_that_refuses_them() {
    let (world, client) = connected().await;
    flood(client, |number| {
        let stream = 2 * number + 1;
        let request = frame(HEADERS, END_HEADERS | END_STREAM, stream, &head("GET", "/b"));
        [request, frame(RST_STREAM, 0, stream, &[0, 0, 0, 8])].concat()
    })
    .await;
    assert!(world.seen().is_empty());
    assert_serves(&world).await;
}

#[tokio::test]
async fn a_pseudo_header_is_there_once_and_first() {
    let base = [(":method", "GET"), (":scheme", "https"), (":authority", HOST), (":path", "/a")];
    let more: [&[(&str, &str)]; 9] = [
        &[(":path", "/b")],
        &[(":path", "/a")],
        &[(":method", "DELETE")],
        &[(":authority", "other.example")],
        &[(":scheme", "http")],
        &[(":protocol", "websocket")],
        &[(":status", "200")],
        &[("x-a", "a"), (":path", "/b")],
        &[("host", HOST), ("host", "other.example")],
    ];
    for more in more {
        for headers in [[&base[..], more].concat(), [more, &base[..]].concat()] {
            let (world, mut client) = connected().await;
            client.write_all(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &list(&headers))).await.unwrap();
            let is_answer = |frame: &Frame| match frame.kind {
                RST_STREAM | GOAWAY => true,
                // A reply of nacre.
                HEADERS => frame.stream == 1,
                _ => false,
            };
            while read(&mut client).await.is_ok_and(|frame| !is_answer(&frame)) {}
            assert!(world.seen().is_empty(), "{headers:?} {:?}", world.seen());
        }
    }
}

#[tokio::test]
async fn more_streams_than_the_limit_are_refused() {
    let (world, mut client) = connected().await;
    for number in 0..1_000 {
        client.write_all(&frame(HEADERS, END_HEADERS, 2 * number + 1, &head("POST", "/a/b"))).await.unwrap();
        client.write_all(&frame(DATA, 0, 2 * number + 1, b"a")).await.unwrap();
    }
    let (mut refused, mut has_ended) = (0, false);
    while refused < 900 && !has_ended {
        match read(&mut client).await {
            Ok(Frame { kind: RST_STREAM, payload, .. }) => {
                refused += usize::from(payload == REFUSED_STREAM.to_be_bytes());
            }
            Ok(Frame { kind: GOAWAY, .. }) | Err(_) => has_ended = true,
            Ok(_) => {}
        }
    }
    assert!(world.seen().is_empty());
    drop(client);
    assert_serves(&world).await;
}
