//! What an operator says about TLS, with the full name of each setting for messages.
//!
//! The names of the fields are Kafka's without `ssl.`. A value is as it was given: whether values
//! fit together is said when stores are opened.

use std::path::PathBuf;

use crate::password::Password;
use crate::principal::PrincipalRules;

/// A value, and the full name of the setting that it was given for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setting<T> {
    /// The name, such as `listener.name.in.ssl.keystore.location`.
    pub name: String,
    /// The value.
    pub value: T,
}

impl<T> Setting<T> {
    /// A value of the setting of that name.
    pub fn new(name: impl Into<String>, value: T) -> Self {
        Self {
            name: name.into(),
            value,
        }
    }
}

/// Where keys and certificates are.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct StoreSettings {
    /// What stands before the names of settings that are not given, in messages: empty, or
    /// `listener.name.<listener>.`.
    pub prefix: String,
    /// `ssl.keystore.type`: JKS, PKCS12 or PEM; JKS if it is not given.
    pub keystore_type: Option<Setting<String>>,
    /// `ssl.keystore.location`.
    pub keystore_location: Option<Setting<PathBuf>>,
    /// `ssl.keystore.password`.
    pub keystore_password: Option<Setting<Password>>,
    /// `ssl.key.password`.
    pub key_password: Option<Setting<Password>>,
    /// `ssl.keystore.key`: a private key, as PEM.
    pub keystore_key: Option<Setting<Password>>,
    /// `ssl.keystore.certificate.chain`: the certificates that belong to it, as PEM.
    pub keystore_certificate_chain: Option<Setting<Password>>,
    /// `ssl.truststore.type`, as `keystore_type`.
    pub truststore_type: Option<Setting<String>>,
    /// `ssl.truststore.location`.
    pub truststore_location: Option<Setting<PathBuf>>,
    /// `ssl.truststore.password`.
    pub truststore_password: Option<Setting<Password>>,
    /// `ssl.truststore.certificates`: trusted certificates, as PEM.
    pub truststore_certificates: Option<Setting<Password>>,
    /// `ssl.crl.location` (ours): a file of revocation lists, as PEM or DER.
    pub crl_location: Option<Setting<PathBuf>>,
    /// True if a key that others than its owner may read is refused (`secrets.permissions=strict`).
    pub is_strict: bool,
}

impl StoreSettings {
    /// Returns the full name of a setting that is not given.
    pub(crate) fn name_of(&self, setting: &str) -> String {
        format!("{}{setting}", self.prefix)
    }

    /// Returns the files that are read, in no order; to look at when they change.
    pub fn files(&self) -> Vec<PathBuf> {
        let all = [
            &self.keystore_location,
            &self.truststore_location,
            &self.crl_location,
        ];
        let given = all.into_iter().flatten();
        given.map(|location| location.value.clone()).collect()
    }
}

/// Which versions and cipher suites are offered. Empty lists are those that are good.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct TlsNames {
    /// `ssl.enabled.protocols`: some of `TLSv1.2` and `TLSv1.3`.
    pub protocols: Option<Setting<Vec<String>>>,
    /// `ssl.cipher.suites`: IANA's names.
    pub cipher_suites: Option<Setting<Vec<String>>>,
}

/// Whether clients are asked for certificates (`ssl.client.auth`).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum ClientAuth {
    /// They are not asked.
    #[default]
    None,
    /// They are asked, and may have none; with a bad one the handshake fails.
    Requested,
    /// Without a good one the handshake fails.
    Required,
}

impl ClientAuth {
    /// Reads a value of `ssl.client.auth`.
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text.to_ascii_lowercase().as_str() {
            "none" => Self::None,
            "requested" => Self::Requested,
            "required" => Self::Required,
            _ => return None,
        })
    }
}

/// What may change with a new set.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct AllowedChanges {
    /// `ssl.allow.dn.changes`: whose the key is.
    pub subject: bool,
    /// `ssl.allow.san.changes`: which hosts it is for.
    pub names: bool,
}

/// All of TLS of one listener.
#[derive(Clone, Debug)]
pub struct ServerTlsSettings {
    /// Keys and certificates.
    pub stores: StoreSettings,
    /// Versions and cipher suites.
    pub names: TlsNames,
    /// Whether clients are asked for certificates.
    pub client_auth: Setting<ClientAuth>,
    /// Who a certificate stands for (`ssl.principal.mapping.rules`).
    pub principal_rules: PrincipalRules,
    /// What may change with a set that takes the place of another.
    pub allowed_changes: AllowedChanges,
}

/// All of TLS of a client.
#[derive(Clone, Debug)]
pub struct ClientTlsSettings {
    /// Keys and certificates. Without a trust store, those that the system trusts.
    pub stores: StoreSettings,
    /// Versions and cipher suites.
    pub names: TlsNames,
    /// True unless `ssl.endpoint.identification.algorithm` is empty: the certificate of a server
    /// must be for the name that was connected to.
    pub checks_host: bool,
}
