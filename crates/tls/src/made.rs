//! Certificates, keys and stores that tests make, and handshakes between two configurations.
//!
//! Not here: what is expected of them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use p12_keystore::PrivateKeyChain;
use p12_keystore::{Certificate as P12Certificate, KeyStore, KeyStoreEntry, PrivateKey};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer,
    DistinguishedName, DnType, IsCa, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams,
    SerialNumber,
};
use rustls::{ClientConfig, ClientConnection, Connection, ServerConfig, ServerConnection};
use rustls_pki_types::ServerName;
use tempfile::TempDir;

use crate::reload::AllowedChanges;
use crate::{
    ClientAuth, ClientTls, ClientTlsSettings, Password, PrincipalRules, ServerTls,
    ServerTlsSettings, Setting, StoreSettings, TlsNames, TlsProblem,
};

/// What must be in no output.
pub(crate) const PASSWORD: &str = "hunter2";

/// A key and the certificate that a test issued for it.
pub(crate) struct IssuedCertificate {
    pub(crate) key: KeyPair,
    pub(crate) certificate: rcgen::Certificate,
}

impl IssuedCertificate {
    /// Key and certificate as one PEM file has them.
    pub(crate) fn pem(&self) -> String {
        format!("{}{}", self.key.serialize_pem(), self.certificate.pem())
    }
}

/// Who issues certificates.
pub(crate) struct Authority(pub(crate) CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        Self(CertifiedIssuer::self_signed(issuer_params(name), key).unwrap())
    }

    /// An authority below this one.
    pub(crate) fn below(&self, name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        Self(CertifiedIssuer::signed_by(issuer_params(name), key, &self.0).unwrap())
    }

    pub(crate) fn issue(&self, params: &CertificateParams) -> IssuedCertificate {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        IssuedCertificate { key, certificate }
    }

    /// A revocation list with these serial numbers.
    pub(crate) fn revoke(&self, serials: &[u8]) -> String {
        let revoked = serials.iter().map(|serial| RevokedCertParams {
            serial_number: SerialNumber::from_slice(&[*serial]),
            revocation_time: rcgen::date_time_ymd(2024, 1, 1),
            reason_code: None,
            invalidity_date: None,
        });
        let list = CertificateRevocationListParams {
            this_update: rcgen::date_time_ymd(2024, 1, 1),
            // Long past: what was revoked stays so.
            next_update: rcgen::date_time_ymd(2024, 2, 1),
            crl_number: SerialNumber::from_slice(&[1]),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        list.signed_by(&self.0).unwrap().pem().unwrap()
    }
}

fn issuer_params(name: &str) -> CertificateParams {
    let mut params = params(name, &[]);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

/// What a certificate of this name and for these hosts is made of.
pub(crate) fn params(name: &str, hosts: &[&str]) -> CertificateParams {
    let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
    let mut params = CertificateParams::new(hosts).unwrap();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

/// A certificate that has signed itself.
pub(crate) fn self_signed(params: &CertificateParams) -> IssuedCertificate {
    let key = KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap();
    IssuedCertificate { key, certificate }
}

/// A PKCS#12 store with a key, its chain, and trusted certificates.
pub(crate) fn pkcs12(key: Option<(&KeyPair, &[&[u8]])>, trusted: &[&[u8]]) -> Vec<u8> {
    let certificate = |der: &&[u8]| P12Certificate::from_der(der).unwrap();
    let mut store = KeyStore::new();
    if let Some((key, chain)) = key {
        let key = PrivateKey::from_der(key.serialized_der()).unwrap();
        let chain = PrivateKeyChain::new("1", key, chain.iter().map(certificate));
        store.add_entry("key", KeyStoreEntry::PrivateKeyChain(chain));
    }
    for (at, der) in trusted.iter().enumerate() {
        let entry = KeyStoreEntry::Certificate(certificate(der));
        store.add_entry(&format!("trusted{at}"), entry);
    }
    let writer = store
        .writer(PASSWORD)
        .encryption_iterations(100)
        .mac_iterations(100);
    writer.write().unwrap()
}

/// A directory with files of stores.
pub(crate) struct Files(TempDir);

impl Files {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file that its owner alone may read.
    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        use std::os::unix::fs::PermissionsExt as _;
        let path = self.path(name);
        std::fs::write(&path, bytes).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        path
    }
}

/// Returns a value of a setting.
#[allow(
    clippy::unnecessary_wraps,
    reason = "the fields of settings are optional"
)]
pub(crate) fn text(name: &str, value: &str) -> Option<Setting<String>> {
    Some(Setting::new(name, value.to_owned()))
}

/// Returns a secret value of a setting.
#[allow(
    clippy::unnecessary_wraps,
    reason = "the fields of settings are optional"
)]
pub(crate) fn secret(name: &str, value: &str) -> Option<Setting<Password>> {
    Some(Setting::new(name, Password::new(value)))
}

/// Returns a path that is a value of a setting.
#[allow(
    clippy::unnecessary_wraps,
    reason = "the fields of settings are optional"
)]
pub(crate) fn path(name: &str, value: &Path) -> Option<Setting<PathBuf>> {
    Some(Setting::new(name, value.to_owned()))
}

/// The key in a PEM file, and trusted certificates in another.
pub(crate) fn pem_stores(key: &Path, trusted: Option<&Path>) -> StoreSettings {
    StoreSettings {
        keystore_type: text("ssl.keystore.type", "PEM"),
        keystore_location: path("ssl.keystore.location", key),
        truststore_type: text("ssl.truststore.type", "PEM"),
        truststore_location: trusted.and_then(|it| path("ssl.truststore.location", it)),
        ..StoreSettings::default()
    }
}

pub(crate) fn server_settings(stores: StoreSettings, client_auth: ClientAuth) -> ServerTlsSettings {
    ServerTlsSettings {
        stores,
        names: TlsNames::default(),
        client_auth: Setting::new("ssl.client.auth", client_auth),
        principal_rules: PrincipalRules::default(),
        allowed_changes: AllowedChanges::default(),
    }
}

/// Opens a set of a listener without a warning.
pub(crate) fn server(stores: StoreSettings, client_auth: ClientAuth) -> ServerTls {
    let opened = ServerTls::open(&server_settings(stores, client_auth)).unwrap();
    assert_eq!(opened.warnings, []);
    opened.tls
}

/// Opens a set of a client that trusts what is in a file, with a key or without.
pub(crate) fn client(trusted: &Path, key: Option<&Path>) -> Result<ClientTls, TlsProblem> {
    let mut stores = pem_stores(key.unwrap_or(trusted), Some(trusted));
    if key.is_none() {
        stores.keystore_location = None;
    }
    let settings = ClientTlsSettings {
        stores,
        names: TlsNames::default(),
        checks_host: true,
    };
    ClientTls::open(&settings).map(|opened| opened.tls)
}

/// Shakes hands; returns both ends.
pub(crate) fn handshake(
    server: Arc<ServerConfig>,
    client: Arc<ClientConfig>,
    host: &str,
) -> Result<(Connection, Connection), rustls::Error> {
    let host = ServerName::try_from(host.to_owned()).unwrap();
    let mut client = Connection::Client(ClientConnection::new(client, host).unwrap());
    let mut server = Connection::Server(ServerConnection::new(server).unwrap());
    for _ in 0..10 {
        transfer(&mut client, &mut server)?;
        transfer(&mut server, &mut client)?;
        if !client.is_handshaking() && !server.is_handshaking() {
            return Ok((server, client));
        }
    }
    panic!("the handshake has no end");
}

/// Passes on what one end has to say.
fn transfer(from: &mut Connection, to: &mut Connection) -> Result<(), rustls::Error> {
    let mut bytes = Vec::new();
    while from.wants_write() {
        from.write_tls(&mut bytes).unwrap();
    }
    let mut rest = bytes.as_slice();
    while !rest.is_empty() {
        to.read_tls(&mut rest).unwrap();
        to.process_new_packets()?;
    }
    Ok(())
}
