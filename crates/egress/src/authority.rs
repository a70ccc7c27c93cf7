//! The authority of a session. Its key exists only in the memory of this process.

use nacre_containment::lock::Lock;
use rcgen::{
    BasicConstraints, CertificateParams, CidrSubnet, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    GeneralSubtree, IsCa, Issuer, KeyPair, KeyUsagePurpose, NameConstraints, SerialNumber,
};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use time::{Duration, OffsetDateTime};

/// Some programs refuse certificates that are good for longer.
const DAYS: i64 = 365;

/// A host, and the protocol that it has chosen by ALPN; empty for none.
type Served = (String, Vec<u8>);

/// Signs certificates for its hosts.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// The key of all hosts.
    key: KeyPair,
    pem: String,
    certificate: CertificateDer<'static>,
    configs: Lock<HashMap<Served, Arc<ServerConfig>>>,
}

impl Authority {
    /// Makes one that is good for these hosts alone.
    pub fn new(mut hosts: Vec<String>) -> io::Result<Self> {
        hosts.sort();
        hosts.dedup();
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let mut params = named("nacre sandbox", Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.name_constraints = Some(constraints(&hosts));
        let certificate = params.self_signed(&key).map_err(io::Error::other)?;
        Ok(Self {
            pem: certificate.pem(),
            certificate: certificate.der().clone(),
            issuer: Issuer::new(params, key),
            key: KeyPair::generate().map_err(io::Error::other)?,
            configs: Lock::default(),
        })
    }

    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// How to be this host, with one protocol or none.
    pub fn config(&self, host: &str, protocol: &[u8]) -> io::Result<Arc<ServerConfig>> {
        let mut configs = self.configs.lock();
        let served = (host.to_owned(), protocol.to_vec());
        if let Some(config) = configs.get(&served) {
            return Ok(Arc::clone(config));
        }
        let config = Arc::new(self.new_config(host, protocol)?);
        configs.insert(served, Arc::clone(&config));
        Ok(config)
    }

    fn new_config(&self, host: &str, protocol: &[u8]) -> io::Result<ServerConfig> {
        let mut params = named(host, vec![host.to_owned()])?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let leaf = params.signed_by(&self.key, &self.issuer).map_err(io::Error::other)?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.key.serialize_der()));
        let mut config = ServerConfig::builder_with_provider(super::origin::provider())
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_no_client_auth()
            .with_single_cert(vec![leaf.der().clone(), self.certificate.clone()], key)
            .map_err(io::Error::other)?;
        if !protocol.is_empty() {
            config.alpn_protocols = vec![protocol.to_vec()];
        }
        Ok(config)
    }
}

/// These hosts alone: without the names below them, which a name covers, and without addresses, which names do not.
fn constraints(hosts: &[String]) -> NameConstraints {
    let has_host_below = |host: &String| hosts.iter().any(|other| other.ends_with(&format!(".{host}")));
    // With a point in front, the name itself is not covered.
    let below =
        hosts.iter().filter(|host| !has_host_below(host)).map(|host| GeneralSubtree::DnsName(format!(".{host}")));
    let addresses = [CidrSubnet::V4([0; 4], [0; 4]), CidrSubnet::V6([0; 16], [0; 16])].map(GeneralSubtree::IpAddress);
    NameConstraints {
        permitted_subtrees: hosts.iter().cloned().map(GeneralSubtree::DnsName).collect(),
        excluded_subtrees: below.chain(addresses).collect(),
    }
}

fn named(name: &str, hosts: Vec<String>) -> io::Result<CertificateParams> {
    let mut params = CertificateParams::new(hosts).map_err(io::Error::other)?;
    params.distinguished_name = DistinguishedName::new();
    // X.520 has room for 64 characters.
    params.distinguished_name.push(DnType::CommonName, name.chars().take(64).collect::<String>());
    let mut serial = super::placeholder::random::<16>()?;
    // Positive, and of this length.
    serial[0] = serial[0] & 0x3f | 0x40;
    params.serial_number = Some(SerialNumber::from_slice(&serial));
    // The clock of a client can be behind.
    let begin = OffsetDateTime::now_utc() - Duration::days(1);
    (params.not_before, params.not_after) = (begin, begin + Duration::days(DAYS));
    Ok(params)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::RootCertStore;
    use rustls::client::WebPkiServerVerifier;
    use rustls::client::danger::ServerCertVerifier;
    use rustls::pki_types::{ServerName, UnixTime};

    #[test]
    fn is_good_for_its_hosts_alone() {
        let hosts = ["a.example", "b.example", "x.b.example"].map(str::to_owned);
        let authority = Authority::new(hosts.to_vec()).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(authority.certificate.clone()).unwrap();
        let provider = crate::origin::provider();
        let verifier = WebPkiServerVerifier::builder_with_provider(roots.into(), provider).build().unwrap();
        let is_good = |name: &str| {
            let leaf =
                named(name, vec![name.to_owned()]).unwrap().signed_by(&authority.key, &authority.issuer).unwrap();
            let server = ServerName::try_from(name.to_owned()).unwrap();
            verifier.verify_server_cert(leaf.der(), &[], &server, &[], UnixTime::now()).is_ok()
        };
        for name in hosts {
            assert!(is_good(&name), "{name}");
        }
        for name in ["example", "x.a.example", "xa.example", "y.x.b.example", "other.example", "127.0.0.1", "::1"] {
            assert!(!is_good(name), "{name}");
        }
        // X.509 cannot name one of them and a name below it without the others.
        assert!(is_good("y.b.example"));
    }
}
