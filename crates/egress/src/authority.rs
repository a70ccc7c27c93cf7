//! The authority of a session. Its key exists only in the memory of this process.

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, GeneralSubtree, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, NameConstraints, SerialNumber,
};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
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
    configs: Mutex<HashMap<Served, Arc<ServerConfig>>>,
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
        params.name_constraints = Some(NameConstraints {
            permitted_subtrees: hosts.into_iter().map(GeneralSubtree::DnsName).collect(),
            excluded_subtrees: Vec::new(),
        });
        let certificate = params.self_signed(&key).map_err(io::Error::other)?;
        Ok(Self {
            pem: certificate.pem(),
            certificate: certificate.der().clone(),
            issuer: Issuer::new(params, key),
            key: KeyPair::generate().map_err(io::Error::other)?,
            configs: Mutex::default(),
        })
    }

    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// How to be this host, with one protocol or none.
    pub fn config(&self, host: &str, protocol: &[u8]) -> io::Result<Arc<ServerConfig>> {
        // A panic leaves the map as it was.
        let mut configs = self.configs.lock().unwrap_or_else(PoisonError::into_inner);
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
