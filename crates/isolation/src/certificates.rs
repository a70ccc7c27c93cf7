//! Files with the certificates that programs trust: in the private `/dev` and over the machine's own in a mount namespace, and
//! otherwise in a directory on disk.

use nacre_protocol::confinement::Certificates;
use std::collections::BTreeMap;
use std::fs::{DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The directory of the files in a mount namespace, where programs can change nothing.
pub const PLACE: &str = "/dev/nacre";
/// The file with all certificates.
pub const BUNDLE: &str = "bundle.pem";
/// The file with those that the machine does not have.
pub const AUTHORITY: &str = "authority.pem";
/// The store with all certificates for Java.
pub const JAVA: &str = "cacerts";

/// Where systems have all certificates. Some are links to others.
const BUNDLES: [&str; 6] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/pki/tls/cacert.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];
/// Where systems have the store of Java.
pub const STORES: [&str; 3] =
    ["/etc/ssl/certs/java/cacerts", "/etc/pki/ca-trust/extracted/java/cacerts", "/etc/pki/java/cacerts"];

/// Writes the files. Below a directory that programs can write to, nothing of theirs is in the way.
pub(crate) fn write(certificates: &Certificates, place: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o755).create(place)?;
    // Whatever the umask is.
    std::fs::set_permissions(place, std::fs::Permissions::from_mode(0o755))?;
    for (name, content) in &certificates.files {
        let mut file = File::options().write(true).create_new(true).mode(0o444).open(place.join(name))?;
        file.set_permissions(std::fs::Permissions::from_mode(0o444))?;
        file.write_all(content)?;
    }
    Ok(())
}

/// Writes the files on disk. They already exist when a killed supervisor is being replaced.
pub(crate) fn make(certificates: &Certificates) -> io::Result<()> {
    remove(certificates);
    let failed = |error| io::Error::other(format!("cannot make {}: {error}", certificates.place.display()));
    write(certificates, &certificates.place).map_err(failed)
}

/// Removes the files from the disk, without following links.
pub(crate) fn remove(certificates: &Certificates) {
    let _ = std::fs::remove_dir_all(&certificates.place);
}

/// The files of the machine that are visible, and what covers each, in a view that has it. Several names can lead to one.
pub(crate) fn covers() -> BTreeMap<PathBuf, PathBuf> {
    let all = BUNDLES.iter().map(|path| (path, BUNDLE)).chain(STORES.iter().map(|path| (path, JAVA)));
    let found =
        all.filter_map(|(path, name)| Some((Path::new(path).canonicalize().ok()?, Path::new(PLACE).join(name))));
    found.filter(|(place, _)| place.is_file()).collect()
}
