//! Requests that a client has signed with a placeholder as its secret key, by AWS Signature Version 4. They get the signature that
//! the value makes.
//!
//! The client's own signature shows which secret it has used, and how it has written the path for it. One that no placeholder
//! makes stays as it is.

use super::{Place, Secret};
use hyper::HeaderMap;
use hyper::header::{AUTHORIZATION, HOST, HeaderValue};
use hyper::http::request::Parts;
use ring::{digest, hmac};
use std::fmt::Write;
use zeroize::Zeroizing;

const SCHEME: &str = "AWS4-HMAC-SHA256";
/// The hash of the body, or how else it is signed.
const CONTENT: &str = "x-amz-content-sha256";
/// Each part of the body has a signature of its own.
const SIGNED_PARTS: &str = "STREAMING-AWS4-";

/// What a signature says about the body.
pub enum Content {
    /// This.
    Is(String),
    /// Its hash, for which it must be read.
    Hash,
    /// A signature of each part.
    Parts,
}

/// A request that gets another signature.
pub struct Resigned<'a> {
    claim: Claim,
    content: String,
    is_encoded_twice: bool,
    secret: &'a Secret,
}

/// What a client says about its signature.
struct Claim {
    access: String,
    /// Date, region and service.
    scope: String,
    headers: Vec<String>,
    signature: String,
    time: String,
}

/// What the signature of a request says about its body; `None` if none of these secrets can have made it.
pub fn content(headers: &HeaderMap, secrets: &[Secret]) -> Option<Content> {
    if !secrets.iter().any(signs) {
        return None;
    }
    Claim::read(headers)?;
    let Some(given) = headers.get(CONTENT) else { return Some(Content::Hash) };
    let given = given.to_str().ok()?;
    Some(if given.starts_with(SIGNED_PARTS) { Content::Parts } else { Content::Is(given.to_owned()) })
}

fn signs(secret: &Secret) -> bool {
    secret.places.contains(&Place::AwsSignature)
}

/// The hash of a body.
pub fn hash(bytes: &[u8]) -> String {
    hex(digest::digest(&digest::SHA256, bytes).as_ref())
}

impl<'a> Resigned<'a> {
    /// Finds out which of the secrets has signed a request.
    pub fn find(parts: &Parts, content: String, secrets: &'a [Secret]) -> Option<Self> {
        let claim = Claim::read(&parts.headers)?;
        let fits = |secret: &&Secret, is_encoded_twice: bool| {
            claim.sign(parts, &claim.headers, &content, is_encoded_twice, &secret.placeholder) == claim.signature
        };
        let signing = || secrets.iter().filter(|secret| signs(secret));
        let found = [false, true].into_iter().find_map(|twice| Some((signing().find(|one| fits(one, twice))?, twice)));
        let (secret, is_encoded_twice) = found?;
        Some(Self { claim, content, is_encoded_twice, secret })
    }

    /// The name of the secret.
    pub fn secret(&self) -> &str {
        &self.secret.name
    }

    /// Signs the request as it is now, without the headers that it has no more.
    pub fn sign(&self, parts: &mut Parts) {
        let Self { claim, content, is_encoded_twice, secret } = self;
        let is_there = |name: &&String| *name == HOST.as_str() || parts.headers.contains_key(name.as_str());
        let headers: Vec<String> = claim.headers.iter().filter(is_there).cloned().collect();
        let signature = claim.sign(parts, &headers, content, *is_encoded_twice, secret.value.as_str());
        let (access, scope, names) = (&claim.access, &claim.scope, headers.join(";"));
        let text = format!("{SCHEME} Credential={access}/{scope}, SignedHeaders={names}, Signature={signature}");
        if let Ok(made) = HeaderValue::from_str(&text) {
            parts.headers.insert(AUTHORIZATION, made);
        }
    }
}

impl Claim {
    fn read(headers: &HeaderMap) -> Option<Self> {
        let text = headers.get(AUTHORIZATION)?.to_str().ok()?.strip_prefix(SCHEME)?;
        let members: Vec<(&str, &str)> = text.split(',').filter_map(|member| member.trim().split_once('=')).collect();
        let member = |name: &str| members.iter().find(|(own, _)| *own == name).map(|(_, value)| *value);
        let (access, scope) = member("Credential")?.split_once('/')?;
        // Nothing else is signed with keys that are made of the value.
        let is_scope = scope.split('/').count() == 4 && scope.ends_with("/aws4_request");
        if !is_scope {
            return None;
        }
        Some(Self {
            access: access.to_owned(),
            scope: scope.to_owned(),
            headers: member("SignedHeaders")?.split(';').map(str::to_owned).collect(),
            signature: member("Signature")?.to_owned(),
            time: headers.get("x-amz-date")?.to_str().ok()?.to_owned(),
        })
    }

    fn sign(&self, parts: &Parts, headers: &[String], content: &str, is_encoded_twice: bool, secret: &str) -> String {
        let request = hash(canonical(parts, headers, content, is_encoded_twice).as_bytes());
        let text = format!("{SCHEME}\n{}\n{}\n{request}", self.time, self.scope);
        let first = Zeroizing::new(format!("AWS4{secret}").into_bytes());
        let key = self.scope.split('/').fold(first, |key, part| Zeroizing::new(mac(&key, part)));
        hex(&mac(&key, &text))
    }
}

/// The request as a text that both sides sign.
fn canonical(parts: &Parts, headers: &[String], content: &str, is_encoded_twice: bool) -> String {
    let path = parts.uri.path();
    let path = if is_encoded_twice { encoded(path.as_bytes(), b"/") } else { path.to_owned() };
    let pair = |parameter: &str| {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        [name, value].map(|text| encoded(&super::credentials::decode(text), b""))
    };
    let mut query: Vec<[String; 2]> = parts
        .uri
        .query()
        .into_iter()
        .flat_map(|query| query.split('&'))
        .filter(|one| !one.is_empty())
        .map(pair)
        .collect();
    query.sort();
    let query: Vec<String> = query.iter().map(|pair| pair.join("=")).collect();
    let mut text = format!("{}\n{path}\n{}\n", parts.method, query.join("&"));
    for name in headers {
        let _ = writeln!(text, "{name}:{}", value(parts, name));
    }
    let _ = write!(text, "\n{}\n{content}", headers.join(";"));
    text
}

/// All values of a header, without needless blanks.
fn value(parts: &Parts, name: &str) -> String {
    let authority = parts.uri.authority().filter(|_| name == HOST.as_str());
    if let (Some(authority), false) = (authority, parts.headers.contains_key(HOST)) {
        return authority.to_string();
    }
    let shown = |value: &HeaderValue| {
        let text = String::from_utf8_lossy(value.as_bytes()).into_owned();
        text.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
    };
    parts.headers.get_all(name).iter().map(shown).collect::<Vec<_>>().join(",")
}

fn encoded(bytes: &[u8], more: &[u8]) -> String {
    let one = |byte: &u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(*byte).to_string(),
        byte if more.contains(byte) => char::from(*byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    bytes.iter().map(one).collect()
}

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes()).as_ref().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

#[cfg(test)]
mod tests {
    use super::super::Value;
    use super::*;
    use hyper::Request;

    /// That of AWS's examples.
    const KEY: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";

    fn secret(value: &str, placeholder: &str) -> Secret {
        Secret {
            name: "AWS_SECRET_ACCESS_KEY".into(),
            value: Value::new(value.into()),
            placeholder: placeholder.into(),
            hosts: Vec::new(),
            places: vec![Place::AwsSignature],
            refresh: None,
            programs: Vec::new(),
        }
    }

    /// A request of the test suite, with its signature.
    fn request(method: &str, target: &str, more: &[(&str, &str)], signature: &str) -> Parts {
        let mut names: Vec<&str> = more.iter().map(|(name, _)| *name).chain(["host", "x-amz-date"]).collect();
        names.sort_unstable();
        names.dedup();
        let names = names.join(";");
        let scope = "20150830/us-east-1/service/aws4_request";
        let authorization =
            format!("{SCHEME} Credential=AKIDEXAMPLE/{scope}, SignedHeaders={names}, Signature={signature}");
        let mut made = Request::builder().method(method).uri(target).header("host", "example.amazonaws.com");
        made = made.header("x-amz-date", "20150830T123600Z").header("authorization", authorization);
        for (name, value) in more {
            made = made.header(*name, *value);
        }
        made.body(()).unwrap().into_parts().0
    }

    #[test]
    fn signs_as_the_test_suite_of_aws_does() {
        let form = ("content-type", "application/x-www-form-urlencoded");
        let trimmed = [("my-header1", " value1"), ("my-header2", " \"a   b   c\"")];
        let doubled = [("my-header1", "value2"), ("my-header1", "value2"), ("my-header1", "value1")];
        let token = "AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSPfIeoIYRqTflfKD8YUuwthAx7mSEI/qkPpKPi/kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7WZ0wq5VSXDvp75YU9HFvlRd8Tx6q6fE8YQcHNVXAkiY9q6d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+scqKmlzm8FDrypNC9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/oLxBA==";
        let token = [("x-amz-security-token", token)];
        type Vector<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)], &'a str, &'a str);
        let vectors: [Vector<'_>; 9] = [
            ("GET", "/", &[], "", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
            ("POST", "/", &[], "", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"),
            (
                "GET",
                "/?Param2=value2&Param1=value1",
                &[],
                "",
                "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
            ),
            ("GET", "/?%E1%88%B4=bar", &[], "", "2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04"),
            ("GET", "/%E1%88%B4", &[], "", "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85"),
            ("GET", "/", &trimmed, "", "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736"),
            ("GET", "/", &doubled, "", "c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea"),
            ("POST", "/", &[form], "Param1=value1", "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a"),
            ("POST", "/", &token, "", "85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead"),
        ];
        let secrets = [secret("other", "none"), secret("real", KEY)];
        for (method, target, more, body, signature) in vectors {
            let mut parts = request(method, target, more, signature);
            assert!(matches!(content(&parts.headers, &secrets), Some(Content::Hash)));
            let found = Resigned::find(&parts, hash(body.as_bytes()), &secrets);
            let found = found.unwrap_or_else(|| panic!("{method} {target}"));
            found.sign(&mut parts);
            // Signed again with the placeholder, it is as it was.
            let back = [secret(KEY, "real")];
            Resigned::find(&parts, hash(body.as_bytes()), &back).unwrap().sign(&mut parts);
            assert!(parts.headers["authorization"].to_str().unwrap().ends_with(signature), "{method} {target}");
            // What has changed on the way was not signed by this client.
            assert!(Resigned::find(&parts, hash(b"x"), &secrets).is_none());
        }
    }

    #[test]
    fn a_header_that_is_gone_is_not_signed_and_parts_cannot_be() {
        let key = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
        let hash = hash(b"");
        let names = "host;range;x-amz-content-sha256;x-amz-date";
        let signature = "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41";
        let credential = "AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request";
        let authorization = format!("{SCHEME} Credential={credential},SignedHeaders={names},Signature={signature}");
        let made = Request::builder().uri("/test.txt").header("host", "examplebucket.s3.amazonaws.com");
        let made = made.header("range", "bytes=0-9").header("x-amz-date", "20130524T000000Z");
        let made = made.header(CONTENT, &hash).header("authorization", authorization);
        let mut parts = made.body(()).unwrap().into_parts().0;
        let secrets = [secret("real", key)];
        assert!(matches!(content(&parts.headers, &secrets), Some(Content::Is(given)) if given == hash));
        let found = Resigned::find(&parts, hash.clone(), &secrets).unwrap();
        parts.headers.remove("range");
        found.sign(&mut parts);
        assert!(parts.headers["authorization"].to_str().unwrap().contains("=host;x-amz-content-sha256;x-amz-date,"));
        assert!(Resigned::find(&parts, hash, &[secret(key, "real")]).is_some());
        parts.headers.insert(CONTENT, HeaderValue::from_static("STREAMING-AWS4-HMAC-SHA256-PAYLOAD"));
        assert!(matches!(content(&parts.headers, &secrets), Some(Content::Parts)));
        assert!(content(&parts.headers, &[]).is_none());
        parts.headers.insert("authorization", HeaderValue::from_static("Bearer AWS4"));
        assert!(content(&parts.headers, &secrets).is_none());
    }
}
