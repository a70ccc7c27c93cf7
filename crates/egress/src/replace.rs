//! Bodies in which texts are replaced while they pass. Held back is only what can be the beginning of a text.

use super::Failure;
use super::forms::Pairs;
use super::record::Record;
use bytes::{Bytes, BytesMut};
use flate2::write::{MultiGzDecoder, ZlibDecoder};
use http_body::{Body, Frame, SizeHint};
use hyper::HeaderMap;
use std::future::Future;
use std::io::{self, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Sleep, sleep};

/// A part of a compressed body, which becomes at most a thousand times as much.
const PART: usize = 64;

/// What is held back is looked at after this time without more.
const IDLE: Duration = Duration::from_millis(20);

/// Replaces texts in a stream.
pub struct Replacer {
    pairs: Arc<Pairs>,
    held: BytesMut,
    /// Whether what is held back tells much of a value.
    is_guess: bool,
    /// Of the request, if this is its body.
    record: Option<Arc<Record>>,
}

impl Replacer {
    pub fn new(pairs: Arc<Pairs>) -> Self {
        Self { pairs, held: BytesMut::new(), is_guess: false, record: None }
    }

    /// What can be passed on when this has arrived.
    pub fn push(&mut self, data: Bytes) -> Bytes {
        if self.pairs.is_empty() {
            return data;
        }
        let data = if self.held.is_empty() {
            data
        } else {
            self.held.extend_from_slice(&data);
            std::mem::take(&mut self.held).freeze()
        };
        let (made, done) = self.pairs.replace(&data).unwrap_or_default();
        if self.is_guess {
            self.is_guess = self.pairs.goes_on(&data);
        }
        if let Some(record) = self.record.iter().find(|_| done > 0) {
            record.uses(self.pairs.names_in(&data));
        }
        let mut rest = data.slice(done..);
        // As much of each: if only what can be the beginning of a value were held back, lengths of pieces would tell how much of a
        // guess is right.
        let held = rest.split_off(rest.len().saturating_sub(self.pairs.longest() - 1));
        self.held.extend_from_slice(&held);
        if made.is_empty() { rest } else { [made.as_slice(), &rest].concat().into() }
    }

    /// What cannot be the beginning of a text, after a time without more.
    fn release(&mut self) -> Bytes {
        if self.pairs.is_guessed() {
            return Bytes::new();
        }
        let (kept, is_telling) = self.pairs.uncertain_end(&self.held);
        if is_telling && !std::mem::replace(&mut self.is_guess, true) {
            self.pairs.guessed();
        }
        self.held.split_to(self.held.len() - kept).freeze()
    }

    /// The rest: it was no beginning.
    pub fn finish(&mut self) -> Bytes {
        std::mem::take(&mut self.held).freeze()
    }
}

/// How a body is compressed.
pub enum Inflate {
    /// `gzip`, of which there can be several after each other (RFC 1952, section 2.2).
    Gzip(MultiGzDecoder<Vec<u8>>),
    /// `deflate`, which is zlib (RFC 9110, section 8.4.1.2).
    Zlib(ZlibDecoder<Vec<u8>>),
}

impl Inflate {
    /// For a content coding; `None` for one that is not known.
    pub fn of(coding: &str) -> Option<Self> {
        match coding.trim().to_ascii_lowercase().as_str() {
            "gzip" | "x-gzip" => Some(Self::Gzip(MultiGzDecoder::new(Vec::new()))),
            "deflate" => Some(Self::Zlib(ZlibDecoder::new(Vec::new()))),
            _ => None,
        }
    }

    fn push(&mut self, part: &[u8]) -> io::Result<Bytes> {
        let out = match self {
            Self::Gzip(decoder) => decoder.write_all(part).map(|()| decoder.get_mut()),
            Self::Zlib(decoder) => decoder.write_all(part).map(|()| decoder.get_mut()),
        };
        out.map(|out| std::mem::take(out).into())
    }

    fn finish(&mut self) -> io::Result<Bytes> {
        let out = match self {
            Self::Gzip(decoder) => decoder.try_finish().map(|()| decoder.get_mut()),
            Self::Zlib(decoder) => decoder.try_finish().map(|()| decoder.get_mut()),
        };
        out.map(|out| std::mem::take(out).into())
    }
}

/// A body in which texts are replaced.
pub struct Replace<B> {
    inner: B,
    replacer: Replacer,
    /// In trailers, too.
    masks_trailers: bool,
    inflate: Option<Inflate>,
    /// What is still compressed.
    compressed: Bytes,
    /// Whether anything has arrived.
    is_empty: bool,
    trailers: Option<HeaderMap>,
    is_over: bool,
    /// Runs while something is held back and nothing arrives.
    idle: Option<Pin<Box<Sleep>>>,
}

impl<B> Replace<B> {
    /// The body of a request. Its trailers are no body, so they stay as they are.
    pub fn request(inner: B, pairs: Arc<Pairs>, record: Arc<Record>) -> Self {
        let mut made = Self { masks_trailers: false, ..Self::reply(inner, pairs, None) };
        made.replacer.record = Some(record);
        made
    }

    /// The body of a reply.
    pub fn reply(inner: B, pairs: Arc<Pairs>, inflate: Option<Inflate>) -> Self {
        let replacer = Replacer::new(pairs);
        let (compressed, trailers, idle) = (Bytes::new(), None, None);
        Self {
            inner,
            replacer,
            masks_trailers: true,
            inflate,
            compressed,
            is_empty: true,
            trailers,
            is_over: false,
            idle,
        }
    }

    /// Handles what has been read before anything else is read. Empty if nothing is left of it.
    fn inflated(&mut self) -> io::Result<Bytes> {
        let Some(inflate) = &mut self.inflate else { return Ok(std::mem::take(&mut self.compressed)) };
        while !self.compressed.is_empty() {
            let part = self.compressed.split_to(PART.min(self.compressed.len()));
            let plain = inflate.push(&part)?;
            if !plain.is_empty() {
                return Ok(plain);
            }
        }
        Ok(Bytes::new())
    }

    fn end(&mut self) -> io::Result<Bytes> {
        // Without a body, as in a reply to HEAD, nothing is compressed.
        let inflate = self.inflate.as_mut().filter(|_| !self.is_empty);
        let last = inflate.map_or(Ok(Bytes::new()), Inflate::finish)?;
        let replaced = self.replacer.push(last);
        Ok([replaced, self.replacer.finish()].concat().into())
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Replace<B>
where
    B::Error: Into<Failure>,
{
    type Data = Bytes;
    type Error = Failure;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        let this = &mut *self;
        loop {
            let plain = this.inflated()?;
            if !plain.is_empty() {
                let data = this.replacer.push(plain);
                if !data.is_empty() {
                    return Poll::Ready(Some(Ok(Frame::data(data))));
                }
                continue;
            }
            if this.is_over {
                return Poll::Ready(this.trailers.take().map(|trailers| Ok(Frame::trailers(trailers))));
            }
            let polled = Pin::new(&mut this.inner).poll_frame(context);
            if polled.is_pending() && !this.replacer.held.is_empty() {
                let idle = this.idle.get_or_insert_with(|| Box::pin(sleep(IDLE)));
                ready!(idle.as_mut().poll(context));
                this.idle = None;
                let data = this.replacer.release();
                return if data.is_empty() { Poll::Pending } else { Poll::Ready(Some(Ok(Frame::data(data)))) };
            }
            match ready!(polled) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => {
                        this.idle = None;
                        this.is_empty &= data.is_empty();
                        this.replacer.record.iter().for_each(|record| record.sent(data.len()));
                        this.compressed = data;
                        continue;
                    }
                    Err(frame) => {
                        this.trailers = frame.into_trailers().ok();
                        if let Some(trailers) = this.trailers.as_mut().filter(|_| this.masks_trailers) {
                            super::credentials::mask(trailers, &this.replacer.pairs);
                        }
                    }
                },
                Some(Err(error)) => return Poll::Ready(Some(Err(error.into()))),
                None => {}
            }
            this.is_over = true;
            let last = this.end()?;
            if !last.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(last))));
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        let is_empty = self.compressed.is_empty() && self.replacer.held.is_empty() && self.trailers.is_none();
        is_empty && (self.is_over || self.inflate.is_none() && self.inner.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        if self.inflate.is_some() || !self.replacer.pairs.keeps_lengths() {
            return SizeHint::default();
        }
        let (inner, own) = (self.inner.size_hint(), (self.compressed.len() + self.replacer.held.len()) as u64);
        let mut hint = SizeHint::new();
        hint.set_lower(inner.lower() + own);
        if let Some(upper) = inner.upper() {
            hint.set_upper(upper + own);
        }
        hint
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Place, Secret, Value};
    use super::*;
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use http_body_util::{BodyExt, combinators::BoxBody};

    fn pairs() -> Arc<Pairs> {
        let secret = Secret {
            name: "TOKEN".into(),
            value: Value::new("s3cr3tvalue".into()),
            placeholder: "pl4c3holder".into(),
            hosts: Vec::new(),
            places: vec![Place::Body],
            refresh: None,
            programs: Vec::new(),
        };
        Arc::new(Pairs::masks([&secret].into_iter()))
    }

    /// A body that arrives in these parts.
    fn body(parts: Vec<Vec<u8>>) -> BoxBody<Bytes, io::Error> {
        struct Parts(std::vec::IntoIter<Vec<u8>>);
        impl Body for Parts {
            type Data = Bytes;
            type Error = io::Error;
            fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
                Poll::Ready(self.0.next().map(|part| Ok(Frame::data(part.into()))))
            }
        }
        Parts(parts.into_iter()).boxed()
    }

    async fn text(body: impl Body<Data = Bytes, Error = Failure>) -> String {
        String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap()
    }

    #[tokio::test]
    async fn a_value_is_masked_wherever_the_parts_begin() {
        let plain = b"a s3cr3tvalue, s3cr3t, s3cr3tvalues3cr3tvalue s3cr3tvalu".to_vec();
        let masked = "a pl4c3holder, s3cr3t, pl4c3holderpl4c3holder s3cr3tvalu";
        for size in 1..plain.len() {
            let parts = plain.chunks(size).map(<[u8]>::to_vec).collect();
            assert_eq!(text(Replace::reply(body(parts), pairs(), None)).await, masked, "{size}");
        }
    }

    /// A value in a form, or nearly, or something else.
    fn piece(random: &mut crate::testing::Random, value: &str) -> String {
        let escape = |one: char, way: usize| match way {
            0 => format!("%{:02x}", u32::from(one)),
            1 => format!("\\u{:04X}", u32::from(one)),
            2 => format!("&#{};", u32::from(one)),
            _ => one.to_string(),
        };
        let way = random.below(5);
        let spell = |one: char| if one.is_ascii_alphanumeric() { one.to_string() } else { escape(one, way) };
        let whole: String = value.chars().map(spell).collect();
        match random.below(4) {
            0 => whole,
            1 => whole[..random.below(whole.len())].to_owned(),
            2 => {
                let letters = STANDARD.encode(format!("{}{value}", random.text("u:", 3)));
                let middle = random.below(letters.len());
                format!("{}\r\n{}", &letters[..middle], &letters[middle..])
            }
            _ => random.text("<-+/% \\u&;a1\n", 12),
        }
    }

    #[test]
    fn random_cuts_do_not_change_what_is_replaced() {
        let mut random = crate::testing::Random::new();
        let mut masked = 0;
        for _ in 0..3_000 {
            let value = format!("vaaAA11{}/{}", random.text("aA1+/&-", 20), random.text("bB2.\"\\", 6));
            let placeholder = value.replace(['v', 'a', 'b'], "x").replace(['A', 'B'], "Y").replace(['1', '2'], "3");
            let secret = Secret {
                name: "TOKEN".into(),
                value: Value::new(value.clone()),
                placeholder,
                hosts: Vec::new(),
                places: vec![Place::Body],
                refresh: None,
                programs: Vec::new(),
            };
            let pairs = Arc::new(Pairs::masks([&secret].into_iter()));
            let text: String = (0..random.below(8)).map(|_| piece(&mut random, &value)).collect();
            let whole = pairs.replaced(text.as_bytes());
            masked += usize::from(whole.is_some());
            let whole = whole.unwrap_or_else(|| text.clone().into_bytes());
            assert_eq!(whole.len(), text.len());
            assert_eq!(pairs.replaced(&whole), None, "{value}: {text}");
            let mut replacer = Replacer::new(pairs);
            let mut made = Vec::new();
            let mut rest = text.as_bytes();
            while !rest.is_empty() {
                let (part, after) = rest.split_at(1 + random.below(rest.len().min(20)));
                made.extend_from_slice(&replacer.push(Bytes::copy_from_slice(part)));
                if random.below(3) == 0 {
                    made.extend_from_slice(&replacer.release());
                }
                rest = after;
            }
            made.extend_from_slice(&replacer.finish());
            let (made, whole) =
                (String::from_utf8_lossy(&made).into_owned(), String::from_utf8_lossy(&whole).into_owned());
            assert_eq!(made, whole, "{value}: {text}");
        }
        assert!(masked > 1000, "{masked}");
    }

    #[tokio::test]
    async fn all_members_of_a_compressed_body_are_read() {
        let member = |text: &str| {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(text.as_bytes()).unwrap();
            encoder.finish().unwrap()
        };
        let packed = [member("a s3cr3t"), member("value b"), member("")].concat();
        for size in [1, 7, 1000] {
            let parts = packed.chunks(size).map(<[u8]>::to_vec).collect();
            assert_eq!(text(Replace::reply(body(parts), pairs(), Inflate::of("gzip"))).await, "a pl4c3holder b");
        }
        assert_eq!(text(Replace::reply(body(Vec::new()), pairs(), Inflate::of("gzip"))).await, "");
    }

    #[tokio::test]
    async fn lengths_of_pieces_do_not_tell_how_much_of_a_guess_is_right() {
        let mut lengths = Vec::new();
        for guess in ["s3cr3tvalu", "s3cr3xxxxx", "xxxxxxxxxx"] {
            let parts = (0..5).map(|_| format!("{}{guess}", "a".repeat(100)).into_bytes()).collect();
            let mut body = Replace::reply(body(parts), pairs(), None);
            let mut found = Vec::new();
            while let Some(frame) = body.frame().await {
                found.push(frame.unwrap().into_data().unwrap().len());
            }
            lengths.push(found);
        }
        assert!(lengths.iter().all(|found| *found == lengths[0]), "{lengths:?}");
    }

    /// What a client sees of a reply that stalls there.
    fn stalled(pairs: &Arc<Pairs>, text: &str) -> Bytes {
        let mut replacer = Replacer::new(Arc::clone(pairs));
        let first = replacer.push(Bytes::copy_from_slice(text.as_bytes()));
        [first, replacer.release()].concat().into()
    }

    #[test]
    fn a_value_cannot_be_found_letter_by_letter_by_what_is_held_back() {
        let (value, pairs) = ("s3cr3tvalue", pairs());
        // Values that stall are no guesses.
        for cut in 1..value.len() {
            let mut replacer = Replacer::new(Arc::clone(&pairs));
            let mut made = Vec::new();
            for part in [&value[..cut], &value[cut..]] {
                made.extend_from_slice(&replacer.push(Bytes::copy_from_slice(part.as_bytes())));
                made.extend_from_slice(&replacer.release());
            }
            made.extend_from_slice(&replacer.finish());
            assert_eq!(made, b"pl4c3holder");
        }
        // A client makes a host repeat what it guesses.
        let found = |length: &usize| {
            let right = stalled(&pairs, &value[..*length]);
            let wrong = stalled(&pairs, &format!("{}!", &value[..length - 1]));
            right.is_empty() && !wrong.is_empty()
        };
        let letters = (1..value.len()).take_while(found).count();
        assert!((1..=4).contains(&letters), "{letters}");
        assert_eq!(stalled(&pairs, "a"), stalled(&pairs, "s3cr3tv"), "it holds back as much of each");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_no_value_does_not_wait_for_more() {
        struct Stalls(Option<&'static [u8]>);
        impl Body for Stalls {
            type Data = Bytes;
            type Error = io::Error;
            fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
                self.0.take().map_or(Poll::Pending, |part| Poll::Ready(Some(Ok(Frame::data(part.into())))))
            }
        }
        let mut body = Replace::reply(
            Stalls(Some(b"data: a line that is longer than any form of the value\n\n s3cr")),
            pairs(),
            None,
        );
        let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
        let second = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!([first, second].concat(), b"data: a line that is longer than any form of the value\n\n ");
        assert!(tokio::time::timeout(Duration::from_secs(1), body.frame()).await.is_err(), "it may be a value");
    }

    #[tokio::test]
    async fn a_compressed_body_is_masked_and_never_whole_in_memory() {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(b"s3cr3tvalue").unwrap();
        encoder.write_all(&vec![0; 20_000_000]).unwrap();
        let packed = encoder.finish().unwrap();
        let mut masked = Replace::reply(body(vec![packed]), pairs(), Inflate::of("GZIP"));
        let (mut total, mut largest) = (0, 0);
        while let Some(frame) = masked.frame().await {
            let data = frame.unwrap().into_data().unwrap();
            if total == 0 {
                assert!(data.starts_with(b"pl4c3holder"));
            }
            total += data.len();
            largest = largest.max(data.len());
        }
        assert_eq!(total, 20_000_011);
        assert!(largest < 2_000_000, "{largest}");
    }

    #[tokio::test]
    async fn a_compressed_body_that_is_cut_off_is_an_error() {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(b"s3cr3tvalue").unwrap();
        let mut packed = encoder.finish().unwrap();
        packed.truncate(packed.len() - 3);
        assert!(Replace::reply(body(vec![packed]), pairs(), Inflate::of("gzip")).collect().await.is_err());
    }
}
