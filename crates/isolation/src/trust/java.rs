//! The store of certificates that Java reads: its first format, which every version knows.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest, Sha1};
use std::path::Path;

const MAGIC: [u8; 4] = 0xfeed_feed_u32.to_be_bytes();
const VERSION: u32 = 2;
/// An entry that is a certificate.
const TRUSTED: u32 = 2;
/// Known to all: it keeps nothing secret.
const PASSWORD: &str = "changeit";

/// The options by which Java finds a store.
pub fn options(store: &Path) -> String {
    format!("-Djavax.net.ssl.trustStore={} -Djavax.net.ssl.trustStorePassword={PASSWORD}", store.display())
}

/// A store of the certificates in a text.
pub fn store(pem: &str) -> Vec<u8> {
    let compact = |block: &str| block.split_ascii_whitespace().collect::<String>();
    let found: Vec<Vec<u8>> = super::blocks(pem).filter_map(|block| STANDARD.decode(compact(block)).ok()).collect();
    let mut store = MAGIC.to_vec();
    store.extend(VERSION.to_be_bytes());
    store.extend((found.len() as u32).to_be_bytes());
    for (number, certificate) in found.iter().enumerate() {
        store.extend(TRUSTED.to_be_bytes());
        text(&mut store, &format!("ca-{number}"));
        // The time of its entry.
        store.extend([0; 8]);
        text(&mut store, "X.509");
        store.extend((certificate.len() as u32).to_be_bytes());
        store.extend(certificate);
    }
    let mut digest = Sha1::new();
    digest.update(PASSWORD.encode_utf16().flat_map(u16::to_be_bytes).collect::<Vec<u8>>());
    digest.update(b"Mighty Aphrodite");
    digest.update(&store);
    store.extend(digest.finalize());
    store
}

fn text(store: &mut Vec<u8>, text: &str) {
    store.extend((text.len() as u16).to_be_bytes());
    store.extend(text.as_bytes());
}
