//! TLS of a client, from the properties of Java's clients or of librdkafka.
//!
//! What the properties mean, and which of them fit together, is `tls`'s to say. Invariant: no error
//! shows a key or a password.

use std::fmt;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use platform::bounded;
use rustls::ClientConfig;
use rustls::client::Resumption;
use tls::{ClientTls, ClientTlsSettings, Password, Setting, StoreSettings, TlsNames};

use crate::error::ClientError;

/// The longest file of a certificate or a key.
const FILE_BYTES_MAX: u64 = 1 << 20;

const IDENTIFICATION: &str = "ssl.endpoint.identification.algorithm";

/// Bits of a file's mode that let others than its owner read it.
const READ_BY_OTHERS: u32 = 0o044;

/// What a client connects with: opened once, shared by all connections.
#[derive(Clone)]
pub struct Tls {
    opened: Arc<ClientTls>,
    config: Arc<ClientConfig>,
}

impl Tls {
    /// Returns true if the client has a key and a certificate of its own.
    pub(crate) fn has_key(&self) -> bool {
        self.config().client_auth_cert_resolver.has_certs()
    }

    /// Returns whose certificate the client has, as Java writes it.
    pub fn subject(&self) -> Option<String> {
        self.opened.subject().map(str::to_owned)
    }

    /// Returns the same without sessions that go on: each connection is a full handshake.
    #[must_use]
    pub fn without_resumption(&self) -> Self {
        let mut config = (*self.config).clone();
        config.resumption = Resumption::disabled();
        Self {
            opened: Arc::clone(&self.opened),
            config: Arc::new(config),
        }
    }

    /// Opens what these properties name (`ssl.*`) for an identity provider; without a trust store,
    /// what the system trusts. Reads files, so it blocks.
    ///
    /// As in Java, where HTTPS has no such setting, the name of the host is always verified:
    /// without it any certificate of the store could stand in for the provider.
    pub fn of_properties<'a>(
        properties: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, ClientError> {
        let mut raw = RawTls::default();
        for (key, value) in properties {
            if !raw.set(key, value)? {
                let reason = "it is no property of TLS that is served";
                return Err(ClientError::invalid(key, reason));
            }
        }
        if !raw.settings.checks_host {
            let reason = "it is https for an identity provider: the name of the host is always \
                          verified";
            return Err(ClientError::invalid(IDENTIFICATION, reason));
        }
        raw.open(&mut Vec::new())
    }

    /// Returns what verifies brokers in that configuration.
    pub(crate) fn verifier(&self) -> Arc<dyn rustls::client::danger::ServerCertVerifier> {
        self.opened.verifier()
    }

    /// Returns the configuration of rustls.
    pub fn config(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.config)
    }
}

impl From<ClientTls> for Tls {
    fn from(opened: ClientTls) -> Self {
        Self {
            config: opened.config(),
            opened: Arc::new(opened),
        }
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.opened.fmt(to)
    }
}

/// The properties about TLS as they were given.
#[derive(Clone, Debug)]
pub(super) struct RawTls {
    settings: ClientTlsSettings,
    /// librdkafka's: a certificate and its key in files of their own.
    certificate: Option<Setting<PathBuf>>,
    key: Option<Setting<PathBuf>>,
}

impl Default for RawTls {
    fn default() -> Self {
        Self {
            settings: ClientTlsSettings {
                stores: StoreSettings::default(),
                names: TlsNames::default(),
                checks_host: true,
            },
            certificate: None,
            key: None,
        }
    }
}

impl RawTls {
    /// Takes a property; returns false if it is another.
    pub(super) fn set(&mut self, key: &str, value: &str) -> Result<bool, ClientError> {
        let text = || Some(Setting::new(key, value.to_owned()));
        let path = || Some(Setting::new(key, PathBuf::from(value)));
        let secret = || Some(Setting::new(key, Password::new(value)));
        let list = || {
            let names = value.split(',').map(str::trim);
            let names = names.filter(|name| !name.is_empty()).map(str::to_owned);
            Some(Setting::new(key, names.collect()))
        };
        let pem = || Some(Setting::new(key, "PEM".to_owned()));
        let (stores, names) = (&mut self.settings.stores, &mut self.settings.names);
        match key {
            "ssl.truststore.type" => stores.truststore_type = text(),
            "ssl.truststore.location" => stores.truststore_location = path(),
            "ssl.truststore.password" => stores.truststore_password = secret(),
            "ssl.truststore.certificates" => stores.truststore_certificates = secret(),
            "ssl.keystore.type" => stores.keystore_type = text(),
            "ssl.keystore.location" => stores.keystore_location = path(),
            "ssl.keystore.password" => stores.keystore_password = secret(),
            "ssl.keystore.key" => stores.keystore_key = secret(),
            "ssl.keystore.certificate.chain" => stores.keystore_certificate_chain = secret(),
            "ssl.key.password" => stores.key_password = secret(),
            "ssl.crl.location" => stores.crl_location = path(),
            "ssl.enabled.protocols" => names.protocols = list(),
            "ssl.cipher.suites" => names.cipher_suites = list(),
            IDENTIFICATION => {
                self.settings.checks_host = match value.to_ascii_lowercase().as_str() {
                    "https" => true,
                    "" | "none" => false,
                    _ => return Err(super::value::wrong(key, value, "https, or empty")),
                };
            }
            // librdkafka's.
            "ssl.ca.location" => {
                (stores.truststore_location, stores.truststore_type) = (path(), pem());
            }
            "ssl.ca.pem" => {
                (stores.truststore_certificates, stores.truststore_type) = (secret(), pem());
            }
            "ssl.certificate.location" => self.certificate = path(),
            "ssl.key.location" => self.key = path(),
            "ssl.certificate.pem" => {
                (stores.keystore_certificate_chain, stores.keystore_type) = (secret(), pem());
            }
            "ssl.key.pem" => (stores.keystore_key, stores.keystore_type) = (secret(), pem()),
            "enable.ssl.certificate.verification" => {
                if !super::value::flag(key, value)? {
                    let reason = "certificates are always verified: ssl.truststore.location \
                                  names those that are trusted";
                    return Err(ClientError::invalid(key, reason));
                }
            }
            "ssl.engine.factory.class" | "ssl.engine.location" => {
                let reason = "engines are not served: ssl.keystore.location and \
                              ssl.truststore.location name stores";
                return Err(ClientError::invalid(key, reason));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Opens the stores. Reads files, so it blocks. Adds what there is to say about them.
    pub(super) fn open(mut self, warnings: &mut Vec<String>) -> Result<Tls, ClientError> {
        let stores = &mut self.settings.stores;
        if self.certificate.is_some() || self.key.is_some() {
            stores.keystore_type = Some(Setting::new("ssl.keystore.type", "PEM".to_owned()));
        }
        if let Some(certificate) = &self.certificate {
            stores.keystore_certificate_chain = Some(read(certificate)?);
        }
        if let Some(key) = &self.key {
            stores.keystore_key = Some(read(key)?);
            warnings.extend(open_to_others(key));
        }
        let opened = ClientTls::open(&self.settings);
        let opened = opened.map_err(|problem| {
            let text = problem.to_string();
            let reason = text.strip_prefix(&format!("{}: ", problem.setting));
            ClientError::invalid(&problem.setting, reason.unwrap_or(&text))
        })?;
        warnings.extend(opened.warnings.iter().map(ToString::to_string));
        Ok(opened.tls.into())
    }
}

/// Returns the warning about a key that others than its owner may read, as `tls` has it for stores.
fn open_to_others(key: &Setting<PathBuf>) -> Option<String> {
    let mode = std::fs::metadata(&key.value).ok()?.permissions().mode() & 0o777;
    let (name, path) = (&key.name, key.value.display());
    (mode & READ_BY_OTHERS != 0).then(|| {
        format!(
            "{name}: {path}: others than its owner may read this key (mode {mode:04o}): chmod 600 \
             {path}"
        )
    })
}

fn read(location: &Setting<PathBuf>) -> Result<Setting<Password>, ClientError> {
    let path: &Path = &location.value;
    let failed = |reason: String| {
        ClientError::invalid(&location.name, format!("{}: {reason}", path.display()))
    };
    let bytes = bounded::file(path, FILE_BYTES_MAX).map_err(|error| failed(error.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|_| failed("it is not PEM".to_owned()))?;
    Ok(Setting::new(&location.name, Password::new(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(properties: &[(&str, &str)]) -> RawTls {
        let mut raw = RawTls::default();
        for (key, value) in properties {
            assert_eq!(raw.set(key, value), Ok(true), "{key}");
        }
        raw
    }

    #[test]
    fn what_cannot_be_opened_names_the_property_and_no_secret() {
        let open = |properties: &[(&str, &str)]| {
            let error = raw(properties).open(&mut Vec::new()).unwrap_err();
            error.to_string()
        };
        let missing = open(&[("ssl.ca.location", "/nowhere/ca.pem")]);
        assert!(
            missing.starts_with("ssl.ca.location: /nowhere/ca.pem: "),
            "{missing}"
        );
        let missing = open(&[("ssl.certificate.location", "/nowhere/a.pem")]);
        assert!(
            missing.starts_with("ssl.certificate.location: /nowhere/a.pem: "),
            "{missing}"
        );
        let broken = open(&[("ssl.ca.pem", "hunter2")]);
        assert!(!broken.contains("hunter2"), "{broken}");
    }

    #[test]
    fn a_store_of_javas_own_format_is_refused_with_the_line_that_converts_it() {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("client.jks");
        std::fs::write(&store, b"\xfe\xed\xfe\xed\0\0\0\x02").unwrap();
        let store = store.to_str().unwrap();
        for of in ["truststore", "keystore"] {
            let location = format!("ssl.{of}.location");
            let password = format!("ssl.{of}.password");
            let raw = raw(&[(&location, store), (&password, "hunter2")]);
            let error = raw.open(&mut Vec::new()).unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("{location}: {store}: ")),
                "{error}"
            );
            assert!(error.contains("keytool -importkeystore"), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn what_would_leave_certificates_unverified_is_refused() {
        for (key, value) in [
            ("enable.ssl.certificate.verification", "false"),
            ("ssl.engine.factory.class", "org.example.Trusting"),
        ] {
            let error = RawTls::default().set(key, value).unwrap_err().to_string();
            assert!(error.contains("ssl.truststore.location"), "{error}");
        }
        let verified = RawTls::default().set("enable.ssl.certificate.verification", "true");
        assert_eq!(verified, Ok(true));
    }

    #[test]
    fn the_name_of_a_broker_is_verified_unless_that_is_left_out() {
        const ALGORITHM: &str = IDENTIFICATION;
        assert!(raw(&[]).settings.checks_host);
        assert!(raw(&[(ALGORITHM, "HTTPS")]).settings.checks_host);
        assert!(!raw(&[(ALGORITHM, "")]).settings.checks_host);
        let error = RawTls::default().set(ALGORITHM, "maybe").unwrap_err();
        assert!(error.to_string().contains("https"), "{error}");
    }

    #[test]
    fn a_key_in_a_file_of_its_own_is_for_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let own = rcgen::generate_simple_self_signed(vec!["a".to_owned()]).unwrap();
        let write = |name: &str, text: String| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let certificate = write("own.crt", own.cert.pem());
        let key = write("own.key", own.signing_key.serialize_pem());
        let warnings = |mode: u32| {
            let permissions = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(&key, permissions).unwrap();
            let raw = raw(&[
                ("ssl.ca.location", certificate.as_str()),
                ("ssl.certificate.location", certificate.as_str()),
                ("ssl.key.location", key.as_str()),
            ]);
            let mut warnings = Vec::new();
            raw.open(&mut warnings).unwrap();
            warnings
        };
        let told = warnings(0o644);
        assert!(told[0].starts_with("ssl.key.location: "), "{told:?}");
        assert!(told[0].contains("chmod 600"), "{told:?}");
        assert_eq!(warnings(0o600), [""; 0]);
    }

    #[test]
    fn nothing_secret_is_shown() {
        let raw = raw(&[("ssl.key.password", "hunter2"), ("ssl.key.pem", "hunter2")]);
        assert!(!format!("{raw:?}").contains("hunter2"));
    }
}
