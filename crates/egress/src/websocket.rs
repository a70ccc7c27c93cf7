//! WebSockets (RFC 6455). Where a host has secrets, its messages are masked as bodies of replies are; those of programs pass
//! unchanged.

use super::forms::Pairs;
use super::replace::Replacer;
use bytes::Bytes;
use hyper::HeaderMap;
use hyper::header::{SEC_WEBSOCKET_EXTENSIONS, UPGRADE};
use std::io;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy, copy_bidirectional, split};

/// The protocol's name in HTTP.
pub const NAME: &str = "websocket";

const FINAL: u8 = 0x80;
/// Bits of extensions, which would change what a message looks like.
const RESERVED: u8 = 0x70;
const MASKED: u8 = 0x80;
const LONGEST_CONTROL: usize = 125;
/// Most of a message that is in memory.
const PIECE: u64 = 64 << 10;

/// Whether the protocol to change to is that of WebSockets.
pub fn is_named(headers: &HeaderMap) -> bool {
    headers.get(UPGRADE).is_some_and(|name| name.as_bytes().eq_ignore_ascii_case(NAME.as_bytes()))
}

/// Whether messages are compressed, or changed in another way.
pub fn is_extended(headers: &HeaderMap) -> bool {
    headers.contains_key(SEC_WEBSOCKET_EXTENSIONS)
}

/// Passes messages in both directions until one of them fails or both end.
///
/// # Errors
/// A connection breaks, or the host sends something else.
pub async fn relay<C, S>(mut client: C, mut server: S, masks: Arc<Pairs>) -> io::Result<()>
where
    C: AsyncRead + AsyncWrite + Unpin,
    S: AsyncRead + AsyncWrite + Unpin,
{
    if masks.is_empty() {
        return copy_bidirectional(&mut client, &mut server).await.map(drop);
    }
    let (mut from_client, mut to_client) = split(client);
    let (mut from_server, mut to_server) = split(server);
    let up = async {
        copy(&mut from_client, &mut to_server).await?;
        to_server.shutdown().await
    };
    let down = async {
        mask(&mut from_server, &mut to_client, masks).await?;
        to_client.shutdown().await
    };
    tokio::try_join!(up, down).map(drop)
}

/// Copies the messages of a host with placeholders in place of values. A value may be in several fragments, so a message can get
/// others than it had.
async fn mask(
    reader: &mut (impl AsyncRead + Unpin),
    writer: &mut (impl AsyncWrite + Unpin),
    masks: Arc<Pairs>,
) -> io::Result<()> {
    let mut replacer = Replacer::new(Arc::clone(&masks));
    // Of the next fragment; `None` between messages.
    let mut kind = None;
    loop {
        let mut head = [0; 2];
        if reader.read(&mut head[..1]).await? == 0 {
            return Ok(());
        }
        reader.read_exact(&mut head[1..]).await?;
        let mut left = match head[1] & !MASKED {
            126 => reader.read_u16().await?.into(),
            127 => reader.read_u64().await?,
            short => short.into(),
        };
        let (opcode, is_final) = (head[0] & 0x0f, head[0] & FINAL != 0);
        let is_plain = head[0] & RESERVED == 0 && head[1] & MASKED == 0;
        let is_control = (8..=10).contains(&opcode) && is_final && left <= LONGEST_CONTROL as u64;
        if is_plain && is_control {
            let mut payload = vec![0; left as usize];
            reader.read_exact(&mut payload).await?;
            let mut made = masks.replaced(&payload).unwrap_or(payload);
            made.truncate(LONGEST_CONTROL);
            write(writer, head[0], &made).await?;
            continue;
        }
        let is_next = if kind.is_some() { opcode == 0 } else { opcode == 1 || opcode == 2 };
        if !is_plain || !is_next {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut first = *kind.get_or_insert(opcode);
        loop {
            let mut piece = vec![0; left.min(PIECE) as usize];
            reader.read_exact(&mut piece).await?;
            left -= piece.len() as u64;
            let is_end = is_final && left == 0;
            let mut made = replacer.push(Bytes::from(piece)).to_vec();
            if is_end {
                made.extend_from_slice(&replacer.finish());
            }
            if is_end || !made.is_empty() {
                write(writer, if is_end { FINAL | first } else { first }, &made).await?;
                first = 0;
            }
            if left == 0 {
                kind = (!is_end).then_some(first);
                break;
            }
        }
    }
}

async fn write(writer: &mut (impl AsyncWrite + Unpin), first: u8, payload: &[u8]) -> io::Result<()> {
    let mut frame = vec![first];
    match payload.len() {
        short @ ..=125 => frame.push(short as u8),
        medium @ ..=0xffff => {
            frame.push(126);
            frame.extend_from_slice(&(medium as u16).to_be_bytes());
        }
        long => {
            frame.push(127);
            frame.extend_from_slice(&(long as u64).to_be_bytes());
        }
    }
    frame.extend_from_slice(payload);
    writer.write_all(&frame).await?;
    writer.flush().await
}

#[cfg(test)]
mod tests {
    use super::super::{Place, Secret, Value};
    use super::*;

    const VALUE: &[u8] = b"s3cr3tvalue";
    const PLACEHOLDER: &[u8] = b"a longer placeholder";

    fn masks() -> Arc<Pairs> {
        let text = |text: &[u8]| String::from_utf8(text.to_vec()).unwrap();
        let secret = Secret {
            name: "TOKEN".into(),
            value: Value::new(text(VALUE)),
            placeholder: text(PLACEHOLDER),
            hosts: Vec::new(),
            places: vec![Place::Authorization],
            refresh: None,
            programs: Vec::new(),
        };
        Arc::new(Pairs::masks([&secret].into_iter()))
    }

    async fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
        let mut made = Vec::new();
        write(&mut made, first, payload).await.unwrap();
        made
    }

    /// What a program gets of these bytes: messages and control frames, each with its kind, and how the connection ends.
    async fn seen(bytes: &[u8]) -> (Vec<(u8, Vec<u8>)>, io::Result<()>) {
        let mut out = Vec::new();
        let end = mask(&mut &bytes[..], &mut out, masks()).await;
        let (mut messages, mut rest) = (Vec::<(u8, Vec<u8>)>::new(), &out[..]);
        let mut current = None;
        while let Some(first) = rest.first() {
            let (length, start) = match rest[1] {
                126 => (usize::from(u16::from_be_bytes([rest[2], rest[3]])), 4),
                127 => (u64::from_be_bytes(rest[2..10].try_into().unwrap()) as usize, 10),
                short => (usize::from(short), 2),
            };
            let payload = &rest[start..start + length];
            match (first & 0x0f, current) {
                (8.., _) => messages.push((first & 0x0f, payload.to_vec())),
                (0, Some(at)) => {
                    let (_, message): &mut (u8, Vec<u8>) = &mut messages[at];
                    message.extend_from_slice(payload);
                }
                (kind @ 1..=2, None) => {
                    current = Some(messages.len());
                    messages.push((kind, payload.to_vec()));
                }
                other => panic!("{other:?}"),
            }
            if first & 0x0f < 8 && first & FINAL != 0 {
                current = None;
            }
            rest = &rest[start + length..];
        }
        (messages, end)
    }

    #[tokio::test]
    async fn messages_are_masked_wherever_they_are_cut() {
        let text = [b"say ", VALUE, b"!"].concat();
        let wanted = [b"say ", PLACEHOLDER, b"!"].concat();
        for at in 0..text.len() {
            let parts = [
                frame(1, &text[..at]).await,
                frame(FINAL | 9, VALUE).await,
                frame(0, b"").await,
                frame(FINAL, &text[at..]).await,
                frame(FINAL | 2, &text).await,
                frame(FINAL | 1, b"").await,
            ];
            let (mut messages, end) = seen(&parts.concat()).await;
            end.unwrap();
            messages.sort();
            let all = [(1, Vec::new()), (1, wanted.clone()), (2, wanted.clone()), (9, PLACEHOLDER.to_vec())];
            assert_eq!(messages, all, "{at}");
        }
    }

    #[tokio::test]
    async fn messages_are_masked_if_each_byte_arrives_alone() {
        let frames =
            [frame(1, &VALUE[..4]).await, frame(FINAL | 9, VALUE).await, frame(FINAL, &VALUE[4..]).await].concat();
        let (mut host, mut reader) = tokio::io::duplex(1);
        let mut out = Vec::new();
        let sending = async {
            host.write_all(&frames).await.unwrap();
            drop(host);
        };
        let (end, ()) = tokio::join!(mask(&mut reader, &mut out, masks()), sending);
        end.unwrap();
        assert!(!out.windows(4).any(|part| part == &VALUE[..4] || part == &VALUE[7..]), "{out:?}");
    }

    #[tokio::test]
    async fn a_long_message_passes_in_pieces() {
        let mut text = vec![b'x'; 200_000];
        text[65_530..65_541].copy_from_slice(VALUE);
        let (messages, end) = seen(&frame(FINAL | 2, &text).await).await;
        end.unwrap();
        let wanted = [&text[..65_530], PLACEHOLDER, &text[65_541..]].concat();
        assert!(messages == [(2, wanted)], "{}", messages.len());
    }

    #[tokio::test]
    async fn a_short_message_stays_one_frame() {
        let (mut out, bytes) = (Vec::new(), frame(FINAL | 1, &[b'x'; 1000]).await);
        mask(&mut &bytes[..], &mut out, masks()).await.unwrap();
        assert_eq!(out, bytes);
    }

    #[tokio::test]
    async fn what_is_no_message_ends_the_connection() {
        let long_ping = [&[FINAL | 9, 126, 0, 200][..], &[0; 200]].concat();
        let others: [&[u8]; 9] = [
            b"HTTP/1.1 200 OK\r\n\r\ns3cr3tvalue",
            &[FINAL | 0x40 | 1, 2, b'a', b'b'],
            &[FINAL | 1, MASKED | 2, 0, 0, 0, 0, b'a', b'b'],
            &[FINAL, 2, b'a', b'b'],
            &[1, 1, b'a', 1, 1, b'b'],
            &[FINAL | 3, 0],
            &[9, 0],
            &long_ping,
            &[FINAL | 1, 127, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, b'a'],
        ];
        for bytes in others {
            let (messages, end) = seen(bytes).await;
            assert!(end.is_err() && messages.len() <= 1, "{bytes:?}");
        }
        assert!(seen(&[FINAL]).await.1.is_err());
    }
}
