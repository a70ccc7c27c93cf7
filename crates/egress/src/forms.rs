//! The forms in which a text appears in requests and replies.

use super::Secret;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use memchr::memmem::Finder;

/// Texts, and what each becomes.
#[derive(Default)]
pub struct Pairs {
    list: Vec<Pair>,
}

/// A text, and what it becomes.
pub struct Pair {
    finder: Finder<'static>,
    to: Bytes,
}

impl Pair {
    fn new(from: &[u8], to: Vec<u8>) -> Self {
        Self { finder: Finder::new(from).into_owned(), to: to.into() }
    }

    pub fn from(&self) -> &[u8] {
        self.finder.needle()
    }

    pub fn to(&self) -> &[u8] {
        &self.to
    }

    /// Whether it is in the name of a header, which is in lower case.
    pub fn is_in_name(&self, name: &str) -> bool {
        let from = self.from();
        name.as_bytes().windows(from.len()).any(|part| part.eq_ignore_ascii_case(from))
    }

    pub fn find(&self, text: &[u8]) -> Option<usize> {
        self.finder.find(text)
    }
}

impl Pairs {
    /// Placeholders in bodies, as they are and percent-encoded, and their values.
    pub fn into_requests<'a>(secrets: impl Iterator<Item = &'a Secret>) -> Self {
        let forms = |text: &str| vec![text.as_bytes().to_vec(), percent(text, false), percent(text, true)];
        Self::between(secrets.map(|secret| (forms(&secret.placeholder), forms(secret.value.as_str()))))
    }

    /// Values in replies in all their forms, and their placeholders in the same.
    pub fn masks<'a>(secrets: impl Iterator<Item = &'a Secret>) -> Self {
        Self::between(secrets.map(|secret| (forms(secret.value.as_str()), forms(&secret.placeholder))))
    }

    fn between(texts: impl Iterator<Item = (Vec<Vec<u8>>, Vec<Vec<u8>>)>) -> Self {
        let mut list: Vec<Pair> = Vec::new();
        for (from, to) in texts.flat_map(|(from, to)| from.into_iter().zip(to)) {
            if !list.iter().any(|pair| pair.from() == from) {
                list.push(Pair::new(&from, to));
            }
        }
        // Where two begin at the same place, the longer one counts.
        list.sort_by_key(|pair| std::cmp::Reverse(pair.from().len()));
        Self { list }
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Pair> {
        self.list.iter()
    }

    /// Whether a text keeps its length.
    pub fn keeps_lengths(&self) -> bool {
        self.iter().all(|pair| pair.from().len() == pair.to().len())
    }

    /// Replaces each text in these bytes, from left to right. `None` if there is none.
    pub fn replaced(&self, text: &[u8]) -> Option<Vec<u8>> {
        let (mut made, done) = self.replace(text)?;
        made.extend_from_slice(&text[done..]);
        Some(made)
    }

    /// The same up to the last text, and where that ends.
    pub fn replace(&self, text: &[u8]) -> Option<(Vec<u8>, usize)> {
        let find = |pair: &Pair, from: usize| pair.find(&text[from..]).map_or(usize::MAX, |at| from + at);
        // Each is looked for once behind where it was found, so the time stays linear.
        let mut next: Vec<usize> = self.iter().map(|pair| find(pair, 0)).collect();
        let first = |next: &[usize]| {
            let found = next.iter().copied().zip(self.iter()).filter(|&(at, _)| at < text.len());
            found.min_by_key(|&(at, _)| at)
        };
        let (mut made, mut done) = (Vec::new(), 0);
        while let Some((at, pair)) = first(&next) {
            made.extend_from_slice(&text[done..at]);
            made.extend_from_slice(pair.to());
            done = at + pair.from().len();
            for (at, pair) in next.iter_mut().zip(self.iter()).filter(|(at, _)| **at < done) {
                *at = find(pair, done);
            }
        }
        (done > 0).then_some((made, done))
    }

    /// The length of the longest text; 1 without one.
    pub fn longest(&self) -> usize {
        self.iter().map(|pair| pair.from().len()).max().unwrap_or(1)
    }

    /// How many bytes at the end can be the beginning of a text.
    pub fn uncertain_end(&self, text: &[u8]) -> usize {
        let longest = self.iter().map(|pair| pair.from().len() - 1).max().unwrap_or(0).min(text.len());
        let can_begin = |length: &usize| {
            let end = &text[text.len() - length..];
            self.iter().any(|pair| pair.from().len() > *length && pair.from().starts_with(end))
        };
        (1..=longest).rev().find(can_begin).unwrap_or(0)
    }
}

/// The same forms in the same order for each text, so that two texts can be compared.
fn forms(text: &str) -> Vec<Vec<u8>> {
    let json = text.replace('\\', "\\\\").replace('"', "\\\"");
    let mut forms = vec![
        text.as_bytes().to_vec(),
        percent(text, false),
        percent(text, true),
        json.replace('/', "\\/").into_bytes(),
        json.into_bytes(),
    ];
    for before in 0..3 {
        for encode in [|bytes: Vec<u8>| STANDARD_NO_PAD.encode(bytes), |bytes: Vec<u8>| URL_SAFE_NO_PAD.encode(bytes)] {
            forms.push(base64_within(text, before, encode));
        }
    }
    forms
}

/// The letters of base64 that depend on this text alone, if so many bytes are before it, modulo 3.
fn base64_within(text: &str, before: usize, encode: impl Fn(Vec<u8>) -> String) -> Vec<u8> {
    let mut bytes = vec![0; before];
    bytes.extend_from_slice(text.as_bytes());
    let whole = bytes.len() * 8 / 6;
    let letters = encode(bytes);
    letters.as_bytes()[(before * 8).div_ceil(6)..whole].to_vec()
}

/// Percent-encodes all but unreserved characters (RFC 3986).
fn percent(text: &str, is_lower: bool) -> Vec<u8> {
    let one = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        _ if is_lower => format!("%{byte:02x}"),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(one).collect::<String>().into_bytes()
}

/// As in a query.
pub fn query_encoded(text: &str) -> String {
    String::from_utf8_lossy(&percent(text, false)).into_owned()
}

#[cfg(test)]
mod tests {
    use super::super::{Place, Value};
    use super::*;
    use base64::engine::general_purpose::STANDARD;

    fn secret(value: &str, placeholder: &str) -> Secret {
        Secret {
            name: "TOKEN".into(),
            value: Value::new(value.into()),
            placeholder: placeholder.into(),
            hosts: Vec::new(),
            places: vec![Place::Body],
        }
    }

    #[test]
    fn masks_a_value_in_each_form() {
        let (value, placeholder) = ("ab+c/d\"e\\f9xyz", "01+2/3\"4\\56789");
        let pairs = Pairs::masks([&secret(value, placeholder)].into_iter());
        let encoded = |text: &str| -> Vec<String> {
            (0..3)
                .map(|before| {
                    STANDARD.encode(
                        [&b"us"[..before.min(2)], &b":"[..usize::from(before == 2)], text.as_bytes(), b"end"].concat(),
                    )
                })
                .collect()
        };
        for text in encoded(value) {
            let masked = String::from_utf8(pairs.replaced(text.as_bytes()).unwrap()).unwrap();
            let plain = STANDARD.decode(&masked).unwrap();
            let shown = String::from_utf8_lossy(&plain);
            assert!(!shown.contains("c/d\"e"), "{shown}");
            assert!(shown.contains("2/3\"4"), "{shown}");
        }
        for text in [
            value.to_owned(),
            query_encoded(value),
            query_encoded(value).to_lowercase(),
            "ab+c\\/d\\\"e\\\\f9xyz".into(),
        ] {
            let masked = pairs.replaced(format!("<{text}{text}>").as_bytes()).unwrap();
            assert_eq!(
                masked.windows(3).filter(|part| part == b"678").count(),
                2,
                "{}",
                String::from_utf8_lossy(&masked)
            );
        }
        assert!(pairs.keeps_lengths());
        assert_eq!(pairs.replaced(b"nothing"), None);
    }

    #[test]
    fn puts_a_value_into_a_form_that_a_page_has_sent() {
        let pairs = Pairs::into_requests([&secret("va/lue+1", "pl/aceh+1")].into_iter());
        let made = pairs.replaced(b"a=pl%2Faceh%2B1&b=pl/aceh+1").unwrap();
        assert_eq!(made, b"a=va%2Flue%2B1&b=va/lue+1");
        assert!(!pairs.keeps_lengths());
    }
}
