//! What a client connects with.
//!
//! Invariant: a server is taken only if a certificate that is trusted stands behind it, and for the
//! name that was connected to unless the settings leave that out. A set never changes.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::ResolvesClientCert;
use rustls::client::danger::ServerCertVerifier;
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, SignatureScheme};
use rustls_pki_types::CertificateDer;

use crate::certificate::CertificateFacts;
use crate::names;
use crate::problem::{Opened, TlsProblem, TlsWarning};
use crate::server::{failed, trust_setting, warn_of_unreadable};
use crate::settings::{ClientTlsSettings, Setting, StoreSettings};
use crate::store::{self, TrustPlace};
use crate::verify::{self, Trust};

/// Where systems keep the certificates that they trust, as PEM.
const SYSTEM_BUNDLES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Trusted certificates of a client, and its own key if it has one, as one set that never changes.
pub struct ClientTls {
    config: Arc<ClientConfig>,
    verifier: Arc<dyn ServerCertVerifier>,
    /// Whose the first key is.
    subject: Option<String>,
}

impl ClientTls {
    /// Opens the stores and checks that they fit. Reads files, so it blocks.
    pub fn open(settings: &ClientTlsSettings) -> Result<Opened<Self>, TlsProblem> {
        let mut warnings = Vec::new();
        let names = names::choose(&settings.names, &mut warnings)?;
        let stores = &settings.stores;
        let trusted = match store::trust_place(stores)? {
            Some(place) => store::trusted(&place, &mut warnings)?,
            None => trusted_by_system(stores, &mut warnings)?,
        };
        let keys = match store::key_place(stores)? {
            Some(place) => store::keys(stores, &place, &mut warnings)?,
            None => Vec::new(),
        };
        let lists = match &stores.crl_location {
            Some(location) => store::revocation_lists(location)?,
            None => Vec::new(),
        };
        let provider = Arc::new(names.provider);
        let trust_setting = trust_setting(stores);
        let (trust, unreadable) = Trust::of(&trusted, lists);
        warn_of_unreadable(&trust_setting, unreadable, &mut warnings);
        let verifier = trust.for_servers(&provider, settings.checks_host);
        let verifier = verifier.map_err(|error| {
            let lists = stores.name_of("ssl.crl.location");
            verify::problem_of(&error, &trust_setting, &lists)
        })?;
        let builder = ClientConfig::builder_with_provider(provider);
        let builder = builder.with_protocol_versions(&names.versions);
        let builder = builder
            .map_err(|error| failed(stores, &error))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::clone(&verifier));
        let first = keys.first().and_then(|key| key.cert.first());
        let subject = first.and_then(|der| Some(CertificateFacts::of(der)?.subject));
        let config = if keys.is_empty() {
            builder.with_no_client_auth()
        } else {
            let keys = keys.into_iter().map(Arc::new).collect();
            builder.with_client_cert_resolver(Arc::new(ClientKeys(keys)))
        };
        let tls = Self {
            config: Arc::new(config),
            verifier,
            subject,
        };
        Ok(Opened { tls, warnings })
    }

    /// Returns the configuration for `rustls::ClientConnection::new`.
    pub fn config(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.config)
    }

    /// Returns what verifies servers in that configuration, for a client that shows its verdict
    /// instead of acting on it.
    pub fn verifier(&self) -> Arc<dyn ServerCertVerifier> {
        Arc::clone(&self.verifier)
    }

    /// Returns whose certificate the client shows to a server that asks, as Java writes it. With
    /// several keys another one may fit what the server takes.
    pub fn subject(&self) -> Option<&str> {
        self.subject.as_deref()
    }
}

impl fmt::Debug for ClientTls {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("ClientTls").finish_non_exhaustive()
    }
}

/// The keys of a store: the first that can sign as the server wants, whichever issuers it trusts.
#[derive(Debug)]
struct ClientKeys(
    // Bounded: `bounds::KEYS_MAX`.
    Vec<Arc<CertifiedKey>>,
);

impl ResolvesClientCert for ClientKeys {
    fn resolve(
        &self,
        _root_hint_subjects: &[&[u8]],
        sigschemes: &[SignatureScheme],
    ) -> Option<Arc<CertifiedKey>> {
        let signs = |key: &&Arc<CertifiedKey>| key.key.choose_scheme(sigschemes).is_some();
        self.0.iter().find(signs).cloned()
    }

    fn has_certs(&self) -> bool {
        !self.0.is_empty()
    }
}

fn trusted_by_system(
    stores: &StoreSettings,
    warnings: &mut Vec<TlsWarning>,
) -> Result<Vec<CertificateDer<'static>>, TlsProblem> {
    let setting = stores.name_of("ssl.truststore.location");
    let Some(bundle) = SYSTEM_BUNDLES
        .iter()
        .find(|bundle| Path::new(bundle).exists())
    else {
        let why = "it is not set, and this system has no certificates that it trusts";
        let advice = "set it to the certificates that servers are to be verified with";
        return Err(TlsProblem::of(setting, why, advice));
    };
    let location = Setting::new(setting, PathBuf::from(bundle));
    store::trusted(&TrustPlace::PemFile(&location), warnings)
}

#[cfg(test)]
mod tests;
