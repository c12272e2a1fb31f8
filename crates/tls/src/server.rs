//! What a listener serves TLS with.

use std::fmt;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls_pki_types::CertificateDer;

use crate::principal::{PrincipalProblem, PrincipalRules};
use crate::problem::{Opened, TlsProblem};
use crate::settings::ServerTlsSettings;

/// Key, chain and trusted certificates of a listener, as one set that never changes. To take new
/// files is to open another one.
pub struct ServerTls {
    config: Arc<ServerConfig>,
    rules: PrincipalRules,
}

impl ServerTls {
    /// Opens the stores and checks that they fit. Reads files, so it blocks.
    ///
    /// Each set has ticket keys of its own: after a change of sets no older session is resumed.
    pub fn open(settings: &ServerTlsSettings) -> Result<Opened<Self>, TlsProblem> {
        let _ = settings;
        Err(TlsProblem {
            setting: "listeners".into(),
            file: None,
            why: "TLS is not there yet".into(),
            advice: "map the listener to PLAINTEXT".into(),
        })
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
        let _ = (chain, &self.rules);
        Ok("ANONYMOUS".to_owned())
    }
}

impl fmt::Debug for ServerTls {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("ServerTls").finish_non_exhaustive()
    }
}
