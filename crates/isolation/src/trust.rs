//! What the programs of a session trust, if it has secrets: the authorities of the machine, and those of the session.
//!
//! Many programs read a variable, and a few only the bundle of the machine. So the variables name files that programs cannot
//! change, and in a mount namespace one of these also covers the bundles of the machine. Only certificates get into them:
//! programs must not see what else a file has that a variable names.

mod java;

use crate::certificates::{AUTHORITY, BUNDLE, JAVA, PLACE, STORES};
use nacre_protocol::confinement::{Certificates, Confinement};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Variables that name a file with all authorities.
const REPLACE: [&str; 14] = [
    "SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "PIP_CERT",
    "CARGO_HTTP_CAINFO",
    "AWS_CA_BUNDLE",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
    "BUNDLE_SSL_CA_CERT",
    "PERL_LWP_SSL_CA_FILE",
    "HTTPLIB2_CA_CERTS",
    "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE",
    "NIX_SSL_CERT_FILE",
    // A file of npm's settings that names one would have precedence over NODE_EXTRA_CA_CERTS.
    "npm_config_cafile",
];
/// Variables that name a file with more authorities.
const ADD: [&str; 2] = ["NODE_EXTRA_CA_CERTS", "DENO_CERT"];
/// Options for each Java, which prints that it has them.
const JAVA_OPTIONS: &str = "JAVA_TOOL_OPTIONS";

/// Maximum bytes of a file with certificates. That of a machine has 0.2 MiB.
const MOST_BYTES: u64 = 4 << 20;

const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";

/// Gives a confinement the files, with these certificates as PEM besides those of the machine. Returns the variables that
/// name them. `bundle`: the file with those of the machine; `env`: the variables that programs would have otherwise.
pub fn give(
    more: &str,
    bundle: Option<PathBuf>,
    confinement: &mut Confinement,
    env: &[(OsString, OsString)],
) -> Vec<(String, OsString)> {
    let is_mounted = confinement.namespaces.is_some();
    let place = if is_mounted { PathBuf::from(PLACE) } else { on_disk(&confinement.temporary) };
    let own = certificates(more);
    let system = system(bundle);
    let with_own = |text: &str| format!("{text}{own}");
    let mut files = BTreeMap::from([(BUNDLE.to_string(), with_own(system)), (AUTHORITY.to_string(), own.clone())]);
    let mut variables = Vec::new();
    for (names, usual) in [(&REPLACE[..], BUNDLE), (&ADD, AUTHORITY)] {
        for name in names {
            let before = env.iter().rfind(|(set, _)| set == name).and_then(|(_, value)| read(Path::new(value)));
            let file = match before.filter(|text| !text.is_empty() && text != system) {
                Some(text) => {
                    let file = format!("{name}.pem");
                    files.insert(file.clone(), with_own(&text));
                    file
                }
                None => usual.to_string(),
            };
            variables.push(((*name).to_string(), place.join(file).into()));
        }
    }
    let store = java::store(&files[BUNDLE]);
    if !(is_mounted && STORES.iter().any(|path| Path::new(path).is_file())) {
        let options = java::options(&place.join(JAVA));
        let before = env.iter().rfind(|(set, _)| set == JAVA_OPTIONS).map(|(_, value)| value.as_os_str());
        let value = before.unwrap_or_default().to_os_string();
        variables
            .push((JAVA_OPTIONS.to_string(), if value.is_empty() { options.into() } else { joined(value, &options) }));
    }
    let mut files: Vec<_> = files.into_iter().map(|(name, text)| (name, text.into_bytes())).collect();
    files.push((JAVA.to_string(), store));
    confinement.certificates = Some(Certificates { place, files });
    variables
}

fn joined(mut before: OsString, options: &str) -> OsString {
    before.push(" ");
    before.push(options);
    before
}

/// Beside the session's directory for temporary files, which programs can write to.
fn on_disk(temporary: &Path) -> PathBuf {
    let mut name = temporary.file_name().unwrap_or_default().to_os_string();
    name.push("-certificates");
    temporary.with_file_name(name)
}

/// The certificates of the machine. Read once: the programs of sessions see the same.
fn system(bundle: Option<PathBuf>) -> &'static str {
    static SYSTEM: OnceLock<String> = OnceLock::new();
    SYSTEM.get_or_init(|| bundle.and_then(|path| read(&path)).unwrap_or_default())
}

/// The certificates in a file. A program may have put anything there: a pipe, or an endless file.
fn read(path: &Path) -> Option<String> {
    if !path.is_absolute() {
        return None;
    }
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(MOST_BYTES).read_to_end(&mut bytes).ok()?;
    Some(certificates(&String::from_utf8_lossy(&bytes)))
}

/// The certificates in a text, and nothing else of it.
fn certificates(text: &str) -> String {
    blocks(text).fold(String::new(), |kept, block| format!("{kept}{BEGIN}\n{}\n{END}\n", block.trim()))
}

/// What is between the lines of each certificate.
fn blocks(text: &str) -> impl Iterator<Item = &str> {
    let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || b"+/= \t\r\n".contains(&byte);
    let parts = text.split(BEGIN).skip(1).filter_map(|part| part.split_once(END).map(|(block, _)| block));
    parts.filter(move |block| block.bytes().all(is_base64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_certificates_are_taken_from_a_file() {
        let text = format!(
            "comment\n{BEGIN}\nAAAA\nBB==\n{END}\nkey\n{BEGIN}\nroot:x:0\n{END}\n{BEGIN}CC\n{END}{BEGIN}\nopen"
        );
        assert_eq!(certificates(&text), format!("{BEGIN}\nAAAA\nBB==\n{END}\n{BEGIN}\nCC\n{END}\n"));
        let place = tempfile::tempdir().unwrap();
        let [file, pipe] = ["file", "pipe"].map(|name| place.path().join(name));
        std::fs::write(&file, text).unwrap();
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(read(&file).unwrap().starts_with(BEGIN));
        for not in [pipe, place.path().join("none"), place.path().to_path_buf(), PathBuf::from("relative")] {
            assert_eq!(read(&not), None);
        }
    }
}
