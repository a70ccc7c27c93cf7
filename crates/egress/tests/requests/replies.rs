//! Replies of a host that shows the value wherever a reply has room for it.

use super::attacks::{DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PUSH_PROMISE, SETTINGS, frame, list};
use super::{HOST, World};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::Request;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const VALUE: &str = "sec/ret+Va\"lue\\12345&6789";

fn percent(text: &str) -> String {
    let escape = |byte: u8| if byte.is_ascii_alphanumeric() { char::from(byte).into() } else { format!("%{byte:02X}") };
    text.bytes().map(escape).collect::<String>()
}

/// The value in forms that hosts use, each beside others.
fn forms() -> Vec<String> {
    let json = VALUE.replace('\\', "\\\\").replace('"', "\\\"");
    let html = VALUE.replace('&', "&amp;").replace('"', "&quot;");
    let base64 = ["", "u", "u:"].map(|before| STANDARD.encode(format!("{before}{VALUE}:x")));
    let base64url = ["", "u", "u:"].map(|before| URL_SAFE_NO_PAD.encode(format!("{before}{VALUE}")));
    let plain = [VALUE.to_owned(), percent(VALUE), percent(VALUE).to_lowercase().replace("va%22", "Va%22"), json, html];
    plain.into_iter().chain(base64).chain(base64url).collect()
}

/// Fails if a form is in what a client has, or what is certainly part of one.
fn assert_hidden(reply: &str) {
    for part in ["ret+Va", "ret%2bVa", "lue\\1", "lue%5c1", "12345&", "12345%26", "2345"] {
        assert!(!reply.to_lowercase().contains(&part.to_lowercase()), "{part}: {reply}");
    }
    for before in ["", "u", "u:"] {
        let letters = STANDARD.encode(format!("{before}{VALUE}"));
        for letters in [letters.clone(), letters.replace('+', "-").replace('/', "_")] {
            assert!(!reply.contains(&letters[4..letters.len() - 4]), "{letters}: {reply}");
        }
    }
}

/// Lines of headers with a form.
fn header_lines(form: &str) -> String {
    format!(
        "Set-Cookie: t={form}; Path=/\r\nLocation: https://x.example/?t={form}\r\nETag: \"{form}\"\r\n\
             Link: <https://x.example/{form}>; rel=next\r\nWWW-Authenticate: Bearer realm=\"{form}\"\r\n\
             Refresh: 1; url=/{form}\r\nContent-Disposition: attachment; filename*=UTF-8''{form}\r\n\
             X-Mail: =?UTF-8?B?{form}?=\r\nX-Form: {form}{form}\r\n"
    )
}

#[tokio::test]
async fn nothing_of_a_reply_over_http1_shows_the_value() {
    for form in forms() {
        let lines = header_lines(&form);
        let tail =
            format!("5;ext=\"{VALUE}\";{VALUE}\r\nhello\r\n0;{VALUE}\r\nX-Trailer: {form}\r\nT: a{form}\r\n\r\n");
        let more = "Transfer-Encoding: chunked\r\nTrailer: x-trailer, t";
        let early = format!("HTTP/1.1 103 {VALUE}\r\nLink: <https://x.example/{VALUE}>\r\n{lines}\r\n");
        let early = [early.clone(), early.replace("103", "102")].concat();
        let reply = format!("{early}HTTP/1.1 200 {VALUE}\r\n{lines}{more}\r\n\r\n{tail}");
        let world = World::with_reply(b"http/1.1", VALUE, reply.into_bytes()).await;
        let head = "GET / HTTP/1.1\nHost: api.example\nTE: trailers\nConnection: close, TE\n\n";
        let reply = world.send(head).await;
        assert!(reply.starts_with("HTTP/1.1 200") && reply.contains("hello"), "{reply}");
        let lower = reply.to_lowercase();
        assert!(lower.contains("set-cookie: t=") && lower.contains("x-trailer: "), "{reply}");
        assert_hidden(&reply);
    }
}

/// What a client of HTTP/2 gets, and how its connection ends.
async fn seen_two(frames: Vec<Vec<u8>>) -> String {
    let world = World::with_reply(b"h2", VALUE, frames.concat()).await;
    let stream = world.connect(HOST, &[b"h2"]).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    let connection = tokio::spawn(connection);
    let request =
        Request::get(format!("https://{HOST}/")).header("te", "trailers").body(Empty::<Bytes>::new()).unwrap();
    let mut seen = match sender.send_request(request).await {
        Ok(reply) => {
            let (parts, body) = reply.into_parts();
            let heads = format!("{} {:?}", parts.status, parts.headers);
            match body.collect().await {
                Ok(body) => {
                    let trailers = format!("{:?}", body.trailers());
                    format!("{heads} {} {trailers}", String::from_utf8_lossy(&body.to_bytes()))
                }
                Err(error) => format!("{heads} {error:?}"),
            }
        }
        Err(error) => format!("{error:?}"),
    };
    drop(sender);
    seen += &format!("{:?}", connection.await.unwrap());
    seen
}

#[tokio::test]
async fn nothing_of_a_reply_over_http2_shows_the_value() {
    let settings = frame(SETTINGS, 0, 0, &[]);
    let all = forms();
    let named = |name| all.iter().map(move |form| (name, form.as_str()));
    let early: Vec<_> = [(":status", "103")].into_iter().chain(named("link")).collect();
    let head: Vec<_> = [(":status", "200"), ("content-type", "application/grpc")]
        .into_iter()
        .chain(named("set-cookie"))
        .chain(named("grpc-status-details-bin"))
        .collect();
    let trailers: Vec<_> = [("grpc-status", "2")].into_iter().chain(named("grpc-message")).chain(named("t")).collect();
    let goodbye = frame(GOAWAY, 0, 0, &[&[0, 0, 0, 1, 0, 0, 0, 2], VALUE.as_bytes()].concat());
    let reply = [
        settings.clone(),
        frame(HEADERS, END_HEADERS, 1, &list(&early)),
        frame(HEADERS, END_HEADERS, 1, &list(&head)),
        frame(DATA, 0, 1, b"hello"),
        frame(HEADERS, END_HEADERS | END_STREAM, 1, &list(&trailers)),
    ];
    let seen = seen_two([&reply[..], std::slice::from_ref(&goodbye)].concat()).await;
    assert!(seen.contains("hello") && seen.contains("grpc-message"), "{seen}");
    assert_hidden(&seen);
    let only_trailers =
        [settings.clone(), frame(HEADERS, END_HEADERS | END_STREAM, 1, &list(&[&head[..], &trailers[..]].concat()))];
    let seen = seen_two(only_trailers.to_vec()).await;
    assert!(seen.contains("grpc-message"), "{seen}");
    assert_hidden(&seen);
    // A host may not push, and this one ends the connection before its reply does.
    let promised = [&[0, 0, 0, 2][..], &list(&[(":path", VALUE), ("x-a", VALUE)])].concat();
    for wrong in [frame(PUSH_PROMISE, END_HEADERS, 1, &promised), goodbye, frame(SETTINGS, 0, 1, VALUE.as_bytes())] {
        let seen = seen_two([&reply[..3], &[wrong]].concat()).await;
        assert_hidden(&seen);
    }
}

#[tokio::test]
async fn nothing_of_a_websocket_shows_the_value() {
    let frames: Vec<u8> = forms()
        .iter()
        .flat_map(|form| {
            let text = form.as_bytes();
            let half = text.len() / 2;
            let short = |first: u8, text: &[u8]| [&[first, text.len() as u8], text].concat();
            let long = |first: u8, text: &[u8]| [&[first, 127][..], &(text.len() as u64).to_be_bytes(), text].concat();
            // Whole, in fragments around a ping, with a longer length than needed, and as the reason of the end.
            [
                short(0x81, text),
                short(0x01, &text[..half]),
                short(0x89, text),
                short(0x00, &[]),
                long(0x80, &text[half..]),
                long(0x82, text),
                short(0x88, &[&[3, 0xe8], text].concat()),
            ]
            .concat()
        })
        .collect();
    let head = "GET / HTTP/1.1\r\nHost: api.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
                Sec-WebSocket-Protocol: a\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\n";
    for (more, status) in [
        ("", "101"),
        ("Sec-WebSocket-Extensions: permessage-deflate\r\n", "502"),
        ("Sec-WebSocket-Extensions: x; t=sec\r\n", "502"),
    ] {
        let first = format!(
            "HTTP/1.1 101 {VALUE}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Protocol: a, {VALUE}\r\n{}{more}\r\n",
            header_lines(VALUE)
        );
        let world = World::with_reply(b"http/1.1", VALUE, [first.as_bytes(), &frames].concat()).await;
        let mut stream = world.connect(HOST, &[b"http/1.1"]).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut reply = Vec::new();
        if status == "101" {
            let _ = stream.read_to_end(&mut reply).await;
        } else {
            // The connection stays.
            while !reply.ends_with(b"checked\n") {
                assert!(stream.read_buf(&mut reply).await.unwrap() > 0);
            }
        }
        let reply = String::from_utf8_lossy(&reply);
        assert!(reply.starts_with(&format!("HTTP/1.1 {status}")), "{reply}");
        assert_hidden(&reply);
        if status == "101" {
            assert!(reply.len() > frames.len(), "{reply}");
        }
    }
}

#[tokio::test]
async fn what_is_no_message_of_a_websocket_ends_it() {
    for wrong in
        [&[0xc1, 5][..], &[0x81, 0x85, 0, 0, 0, 0], &[0x83, 5], &[0x80, 5], &[0x09, 5], &[0x81, 127, 0xff, 0xff]]
    {
        let first = "HTTP/1.1 101 S\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n";
        let reply = [first.as_bytes(), wrong, VALUE.as_bytes(), VALUE.as_bytes()].concat();
        let world = World::with_reply(b"http/1.1", VALUE, reply).await;
        let head = "GET / HTTP/1.1\nHost: api.example\nConnection: Upgrade\nUpgrade: websocket\n\n";
        let reply = world.send(head).await;
        assert!(reply.starts_with("HTTP/1.1 101"), "{reply}");
        assert_hidden(&reply);
    }
}
