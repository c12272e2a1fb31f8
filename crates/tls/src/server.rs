//! What a listener serves TLS with.
//!
//! Invariants: a set that is open can be served with, and never changes; each has ticket keys of
//! its own, so nothing of an older one is resumed. Where clients are asked for certificates nothing
//! is resumed at all, because rustls does not verify a certificate again. There is no early data.
//!
//! Not here: whether a set may take the place of another (`reload`).

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::digest::{Context, SHA256};
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::Ticketer;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{
    ClientHello, NoServerSessionStorage, ResolvesServerCert, WebPkiClientVerifier,
};
use rustls::sign::CertifiedKey;
use rustls_pki_types::{CertificateDer, CertificateRevocationListDer};

use crate::certificate::CertificateFacts;
use crate::names::{self, ChosenNames};
use crate::principal::{self, PrincipalProblem, PrincipalRules};
use crate::problem::{Opened, TlsProblem, TlsWarning};
use crate::settings::{ClientAuth, ServerTlsSettings, StoreSettings};
use crate::store::{self, KeyPlace, TrustPlace};
use crate::verify::{self, Trust};

/// Key, chain and trusted certificates of a listener, as one set that never changes. To take new
/// files is to open another one.
pub struct ServerTls {
    config: Arc<ServerConfig>,
    rules: PrincipalRules,
    /// The chains that are presented, each from its key's certificate on. Never empty, nor is one.
    // Bounded: `bounds::KEYS_MAX` and `bounds::CHAIN_MAX`.
    chains: Vec<Vec<CertificateFacts>>,
    /// SHA-256 of all certificates and lists.
    contents: Vec<u8>,
}

/// When the first certificate of a set runs out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Expiry {
    /// Until when it is valid, in seconds since the beginning of 1970.
    pub not_after: i64,
    /// Whose it is.
    pub subject: String,
}

/// Where everything is, as far as settings tell.
struct Places<'a> {
    names: ChosenNames,
    key: KeyPlace<'a>,
    trust: Option<TrustPlace<'a>>,
}

impl ServerTlsSettings {
    /// Says what is wrong, and what is worth saying, without looking at files.
    pub fn check(&self) -> (Vec<TlsProblem>, Vec<TlsWarning>) {
        let (mut problems, mut warnings) = (Vec::new(), Vec::new());
        problems.extend(names::choose(&self.names, &mut warnings).err());
        problems.extend(self.key_place().err());
        problems.extend(self.trust_place(&mut warnings).err());
        (problems, warnings)
    }

    fn places(&self, warnings: &mut Vec<TlsWarning>) -> Result<Places<'_>, TlsProblem> {
        Ok(Places {
            names: names::choose(&self.names, warnings)?,
            key: self.key_place()?,
            trust: self.trust_place(warnings)?,
        })
    }

    fn key_place(&self) -> Result<KeyPlace<'_>, TlsProblem> {
        let place = store::key_place(&self.stores)?;
        place.ok_or_else(|| {
            let stores = &self.stores;
            let why = "a listener of TLS needs a key, and none is given";
            let advice = format!(
                "set it and {} (PKCS12), or {}=PEM and {} with {}",
                stores.name_of("ssl.keystore.password"),
                stores.name_of("ssl.keystore.type"),
                stores.name_of("ssl.keystore.key"),
                stores.name_of("ssl.keystore.certificate.chain"),
            );
            TlsProblem::of(stores.name_of("ssl.keystore.location"), why, advice)
        })
    }

    fn trust_place(
        &self,
        warnings: &mut Vec<TlsWarning>,
    ) -> Result<Option<TrustPlace<'_>>, TlsProblem> {
        let place = store::trust_place(&self.stores)?;
        let asks = self.client_auth.value != ClientAuth::None;
        if asks && place.is_none() {
            let why = "clients are asked for certificates, and nothing says which are good";
            let advice = format!(
                "set {}, or take this out",
                self.stores.name_of("ssl.truststore.location")
            );
            return Err(TlsProblem::of(&self.client_auth.name, why, advice));
        }
        if let (false, Some(lists)) = (asks, &self.stores.crl_location) {
            let why = "has no effect: clients are not asked for certificates";
            let advice = format!("set {}=required, or take this out", self.client_auth.name);
            warnings.push(TlsWarning(TlsProblem::of(&lists.name, why, advice)));
        }
        Ok(place)
    }
}

impl ServerTls {
    /// Opens the stores and checks that they fit. Reads files, so it blocks.
    pub fn open(settings: &ServerTlsSettings) -> Result<Opened<Self>, TlsProblem> {
        let mut warnings = Vec::new();
        let Places { names, key, trust } = settings.places(&mut warnings)?;
        let stores = &settings.stores;
        let keys = store::keys(stores, &key, &mut warnings)?;
        let trusted = match &trust {
            Some(place) => store::trusted(place, &mut warnings)?,
            None => Vec::new(),
        };
        let asks = settings.client_auth.value != ClientAuth::None;
        let lists = match &stores.crl_location {
            Some(location) if asks => store::revocation_lists(location)?,
            _ => Vec::new(),
        };
        let contents = digest_of(&keys, &trusted, &lists);
        let chains = chains_of(&keys)?;
        warn_of_chains(stores, &chains, &mut warnings);
        check_suites(settings, &names, &keys)?;
        let provider = Arc::new(names.provider);
        let verifier = verifier(settings, &trusted, lists, &provider, &mut warnings)?;
        let builder = ServerConfig::builder_with_provider(provider);
        let builder = builder.with_protocol_versions(&names.versions);
        let builder = builder.map_err(|error| failed(stores, &error))?;
        let mut config = builder
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(Arc::new(Keys(keys.into_iter().map(Arc::new).collect())));
        config.session_storage = Arc::new(NoServerSessionStorage {});
        if asks {
            config.send_tls13_tickets = 0;
        } else {
            config.ticketer = Ticketer::new().map_err(|error| failed(stores, &error))?;
        }
        let tls = Self {
            config: Arc::new(config),
            rules: settings.principal_rules.clone(),
            chains,
            contents,
        };
        Ok(Opened { tls, warnings })
    }

    /// Returns the configuration for `rustls::ServerConnection::new`.
    pub fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config)
    }

    /// Returns the name of the principal (`User:<name>`) that a client with this chain is; that of
    /// `ANONYMOUS` if there is none (`ServerConnection::peer_certificates` is `None` or empty).
    ///
    /// A problem means that the connection has to end.
    pub fn principal_of(&self, chain: &[CertificateDer<'_>]) -> Result<String, PrincipalProblem> {
        principal::principal_of(&self.rules, chain)
    }

    /// Returns the certificates of the keys, in the order of the store; there is at least one.
    pub fn certificates(&self) -> impl Iterator<Item = &CertificateFacts> {
        self.chains.iter().filter_map(|chain| chain.first())
    }

    /// Returns which of the certificates that are presented runs out first.
    pub fn expiry(&self) -> Option<Expiry> {
        let all = self.chains.iter().flatten();
        let first = all.min_by_key(|facts| facts.not_after)?;
        Some(Expiry {
            not_after: first.not_after,
            subject: first.subject.clone(),
        })
    }

    /// Returns true if everything in the two sets is the same.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.contents == other.contents
    }
}

impl fmt::Debug for ServerTls {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = self.certificates().next();
        to.debug_struct("ServerTls")
            .field("subject", &first.map(|facts| &facts.subject))
            .field("fingerprint", &first.map(|facts| &facts.fingerprint))
            .finish_non_exhaustive()
    }
}

/// The keys of a store: the first that can sign as the client wants, or else the first, so that a
/// client with which no suite is shared gets the alert of that (`handshake_failure`).
#[derive(Debug)]
struct Keys(
    // Bounded: `bounds::KEYS_MAX`.
    Vec<Arc<CertifiedKey>>,
);

impl ResolvesServerCert for Keys {
    fn resolve(&self, client_hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let schemes = client_hello.signature_schemes();
        let signs = |key: &&Arc<CertifiedKey>| key.key.choose_scheme(schemes).is_some();
        self.0.iter().find(signs).or(self.0.first()).cloned()
    }
}

fn verifier(
    settings: &ServerTlsSettings,
    trusted: &[CertificateDer<'static>],
    lists: Vec<CertificateRevocationListDer<'static>>,
    provider: &Arc<CryptoProvider>,
    warnings: &mut Vec<TlsWarning>,
) -> Result<Arc<dyn ClientCertVerifier>, TlsProblem> {
    let may_be_without = match settings.client_auth.value {
        ClientAuth::None => return Ok(WebPkiClientVerifier::no_client_auth()),
        ClientAuth::Requested => true,
        ClientAuth::Required => false,
    };
    let stores = &settings.stores;
    let trust_setting = trust_setting(stores);
    let (trust, unreadable) = Trust::of(trusted, lists);
    warn_of_unreadable(&trust_setting, unreadable, warnings);
    let verifier = trust.for_clients(provider, may_be_without);
    verifier.map_err(|error| {
        let lists = stores.name_of("ssl.crl.location");
        verify::problem_of(&error, &trust_setting, &lists)
    })
}

/// Returns the name of the setting that says what is trusted.
pub(crate) fn trust_setting(stores: &StoreSettings) -> String {
    let location = stores.truststore_location.as_ref().map(|it| &it.name);
    let inline = stores.truststore_certificates.as_ref().map(|it| &it.name);
    let given = location.or(inline).cloned();
    given.unwrap_or_else(|| stores.name_of("ssl.truststore.location"))
}

pub(crate) fn warn_of_unreadable(setting: &str, unreadable: usize, warnings: &mut Vec<TlsWarning>) {
    if unreadable > 0 {
        let why = format!("{unreadable} of its certificates cannot be read, and are not trusted");
        let advice = "take them out, or write them again";
        warnings.push(TlsWarning(TlsProblem::of(setting, why, advice)));
    }
}

/// Returns what there is to know of the certificates of keys.
fn chains_of(keys: &[CertifiedKey]) -> Result<Vec<Vec<CertificateFacts>>, TlsProblem> {
    let chains = keys.iter().map(|key| {
        let facts = key.cert.iter().map(|it| CertificateFacts::of(it));
        facts.collect::<Option<Vec<_>>>()
    });
    let chains = chains.collect::<Option<Vec<_>>>();
    // The store has looked at each of them.
    chains.ok_or_else(|| {
        let why = "a certificate in the key store cannot be read";
        TlsProblem::of("ssl.keystore.location", why, "write it again, as X.509")
    })
}

/// Warns of certificates that clients will refuse.
fn warn_of_chains(
    stores: &StoreSettings,
    chains: &[Vec<CertificateFacts>],
    warnings: &mut Vec<TlsWarning>,
) {
    let location = stores.keystore_location.as_ref().map(|it| it.name.clone());
    let setting = location.unwrap_or_else(|| stores.name_of("ssl.keystore.certificate.chain"));
    let mut warn = |why: String, advice: &str| {
        warnings.push(TlsWarning(TlsProblem::of(&setting, why, advice)));
    };
    for facts in chains.iter().filter_map(|chain| chain.first()) {
        let subject = &facts.subject;
        if !facts.purposes.is_for_servers {
            warn(
                format!("the certificate of {subject} is not for servers: clients refuse it"),
                "ask for one with the extended key usage serverAuth, or without any",
            );
        }
        if facts.alternative_names.is_empty() {
            warn(
                format!("the certificate of {subject} names no host: most clients refuse it"),
                "ask for one with the host names in its subject alternative names",
            );
        }
    }
}

/// Refuses a key that no suite of the chosen ones can be used with: every handshake would fail.
fn check_suites(
    settings: &ServerTlsSettings,
    names: &ChosenNames,
    keys: &[CertifiedKey],
) -> Result<(), TlsProblem> {
    let mut suites = names.provider.cipher_suites.iter();
    let fits = suites.any(|suite| {
        names.versions.contains(&suite.version())
            && keys
                .iter()
                .any(|key| suite.usable_for_signature_algorithm(key.key.algorithm()))
    });
    if fits {
        return Ok(());
    }
    let named = settings.names.cipher_suites.as_ref();
    let setting = named.map_or_else(
        || settings.stores.name_of("ssl.cipher.suites"),
        |named| named.name.clone(),
    );
    let why = "no suite that is enabled can be used with the key: no handshake would succeed";
    let advice = "name suites of the kind of the key (RSA or ECDSA), or none at all";
    Err(TlsProblem::of(setting, why, advice))
}

fn digest_of(
    keys: &[CertifiedKey],
    trusted: &[CertificateDer<'static>],
    lists: &[CertificateRevocationListDer<'static>],
) -> Vec<u8> {
    let mut digest = Context::new(&SHA256);
    let mut add = |what: u8, bytes: &[u8]| {
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        digest.update(&[what]);
        digest.update(&length.to_be_bytes());
        digest.update(bytes);
    };
    for key in keys {
        add(0, &[]);
        for certificate in &key.cert {
            add(1, certificate);
        }
    }
    for certificate in trusted {
        add(2, certificate);
    }
    for list in lists {
        add(3, list);
    }
    digest.finish().as_ref().to_vec()
}

/// Says what should not happen: rustls does not take what was checked.
pub(crate) fn failed(stores: &StoreSettings, error: &rustls::Error) -> TlsProblem {
    let setting = stores.name_of("ssl.enabled.protocols");
    let advice = "take the settings of versions and cipher suites out";
    TlsProblem::of(setting, format!("it cannot be set up: {error}"), advice)
}

#[cfg(test)]
mod tests;
