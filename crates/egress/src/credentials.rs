//! Secrets in the heads of requests, and their masks in heads of replies.

use super::forms::{Pairs, query_encoded};
use super::{Place, Secret};
use base64::Engine as _;
use base64::alphabet;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};
use hyper::Uri;
use hyper::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use std::str::FromStr;

/// Clients may leave the padding out.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Puts secrets into the head of a request, where they may be.
pub fn insert(headers: &mut HeaderMap, secrets: &[Secret]) {
    for secret in secrets {
        for place in &secret.places {
            match place {
                Place::Authorization => into_header(headers, &AUTHORIZATION, secret),
                Place::Header(name) => {
                    if let Ok(name) = HeaderName::from_str(name) {
                        into_header(headers, &name, secret);
                    }
                }
                Place::Body | Place::Query(_) | Place::AwsSignature => {}
            }
        }
    }
}

/// The names of the secrets that get into this head of a request.
pub fn used<'a>(parts: &Parts, secrets: &'a [Secret]) -> impl Iterator<Item = &'a str> {
    let has = |name: &str, secret: &Secret| {
        let mut values = parts.headers.get_all(name).iter();
        values.any(|value| value.to_str().is_ok_and(|text| credential(text, secret).is_some()))
    };
    let is_used = move |secret: &&Secret| {
        secret.places.iter().any(|place| match place {
            Place::Authorization => has(AUTHORIZATION.as_str(), secret),
            Place::Header(name) => has(name, secret),
            Place::Query(_) => with_query(&parts.uri, std::slice::from_ref(secret)).is_some(),
            Place::Body | Place::AwsSignature => false,
        })
    };
    secrets.iter().filter(is_used).map(|secret| secret.name.as_str())
}

/// Masks each text in headers or trailers. A header goes whose name has a text, in whatever case.
pub fn mask(headers: &mut HeaderMap, masks: &Pairs) {
    let told: Vec<HeaderName> = headers.keys().filter(|name| masks.are_in_name(name.as_str())).cloned().collect();
    told.iter().for_each(|name| drop(headers.remove(name)));
    for value in headers.values_mut() {
        if let Some(masked) = masks.replaced(value.as_bytes()) {
            *value = HeaderValue::from_bytes(&masked).unwrap_or(HeaderValue::from_static(""));
        }
    }
}

fn into_header(headers: &mut HeaderMap, name: &HeaderName, secret: &Secret) {
    let hyper::header::Entry::Occupied(mut entry) = headers.entry(name) else { return };
    for value in entry.iter_mut() {
        let made = value.to_str().ok().and_then(|text| credential(text, secret));
        if let Some(mut made) = made.and_then(|text| HeaderValue::from_str(&text).ok()) {
            made.set_sensitive(true);
            *value = made;
        }
    }
}

/// A credential with the value: where the placeholder is all of it, stands behind a scheme, or is the user or the password of
/// `Basic`. Anything else around it leaves it as it is, and the host says 401.
fn credential(text: &str, secret: &Secret) -> Option<String> {
    let value = secret.value.as_str();
    if text == secret.placeholder {
        return Some(value.to_owned());
    }
    let (scheme, rest) = text.split_once(' ')?;
    let rest = rest.trim_start_matches(' ');
    if rest == secret.placeholder {
        return Some(format!("{scheme} {value}"));
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let plain = String::from_utf8(LENIENT.decode(rest).ok()?).ok()?;
    let (user, password) = plain.split_once(':')?;
    let has_placeholder = [user, password].contains(&secret.placeholder.as_str());
    let filled = |part: &str| if part == secret.placeholder { value.to_owned() } else { part.to_owned() };
    has_placeholder.then(|| format!("{scheme} {}", STANDARD.encode(format!("{}:{}", filled(user), filled(password)))))
}

/// The path and query of a request, with secrets in the parameters where they may be. `None` if there are none.
pub fn with_query(uri: &Uri, secrets: &[Secret]) -> Option<String> {
    let names = |secret: &Secret| -> Vec<String> {
        let of = |place: &Place| if let Place::Query(name) = place { Some(name.clone()) } else { None };
        secret.places.iter().filter_map(of).collect()
    };
    let query = uri.query()?;
    let mut is_changed = false;
    let filled = |parameter: &str| {
        let Some((name, text)) = parameter.split_once('=') else { return parameter.to_owned() };
        let decoded = decode(text);
        let found = secrets.iter().find(|secret| {
            decoded == secret.placeholder.as_bytes() && names(secret).iter().any(|own| decode(name) == own.as_bytes())
        });
        let Some(secret) = found else { return parameter.to_owned() };
        is_changed = true;
        format!("{name}={}", query_encoded(secret.value.as_str()))
    };
    let made: Vec<String> = query.split('&').map(filled).collect();
    is_changed.then(|| format!("{}?{}", uri.path(), made.join("&")))
}

/// Without percent-encoding.
pub fn decode(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let (mut made, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while let Some(&byte) = bytes.get(at) {
        let digits = bytes.get(at + 1..at + 3).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.filter(|_| byte == b'%').and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(decoded) => (made.push(decoded), at += 3).0,
            None => (made.push(byte), at += 1).0,
        }
    }
    made
}

#[cfg(test)]
mod tests {
    use super::super::Value;
    use super::*;

    fn secret(places: Vec<Place>) -> Secret {
        Secret {
            name: "TOKEN".into(),
            value: Value::new("va/lue:12".into()),
            placeholder: "placehold".into(),
            hosts: Vec::new(),
            places,
            refresh: None,
            programs: Vec::new(),
        }
    }

    fn basic(text: &str) -> String {
        format!("Basic {}", STANDARD.encode(text))
    }

    #[test]
    fn a_value_takes_the_place_of_a_whole_credential_alone() {
        let secret = secret(Vec::new());
        let of = |text: &str| credential(text, &secret);
        assert_eq!(of("placehold").unwrap(), "va/lue:12");
        assert_eq!(of("Bearer placehold").unwrap(), "Bearer va/lue:12");
        assert_eq!(of("token  placehold").unwrap(), "token va/lue:12");
        assert_eq!(of(&basic("x-access-token:placehold")).unwrap(), basic("x-access-token:va/lue:12"));
        assert_eq!(of(&basic("placehold:").replace('=', "")).unwrap(), basic("va/lue:12:"));
        for other in
            ["Bearer xplacehold", "Bearer placehold x", &basic("a:placehold2"), "Basic ?", "Digest x=placehold", ""]
        {
            assert_eq!(of(other), None, "{other}");
        }
    }

    #[test]
    fn a_value_goes_into_the_named_header_and_parameter_alone() {
        let secrets = [secret(vec![Place::Header("x-key".into()), Place::Query("key".into())])];
        let mut headers = HeaderMap::new();
        headers.insert("authorization", HeaderValue::from_static("Bearer placehold"));
        headers.append("x-key", HeaderValue::from_static("a"));
        headers.append("x-key", HeaderValue::from_static("placehold"));
        insert(&mut headers, &secrets);
        assert_eq!(headers["authorization"], "Bearer placehold");
        assert_eq!(headers.get_all("x-key").iter().collect::<Vec<_>>(), ["a", "va/lue:12"]);
        let uri = Uri::from_static("/a%2fb?key=pl%61cehold&other=placehold&key=x&key");
        assert_eq!(with_query(&uri, &secrets).unwrap(), "/a%2fb?key=va%2Flue%3A12&other=placehold&key=x&key");
        assert_eq!(with_query(&Uri::from_static("/?other=placehold"), &secrets), None);
    }
}
